"""Decreases that no picker saw: an Event on each workload, and the record that the next run compares with."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.apply.access import Access
from reconciler.apply.events import decrease_event
from reconciler.decide.downscale.every_decrease import RECORD
from reconciler.errors import reason_of
from reconciler.model import Run
from reconciler.plan.model import Plan


def record_unseen_decreases(made: Plan, accesses: Mapping[str, Access]) -> tuple[str, ...]:
    """Write what `made` found, before anything of it is carried out; return what failed: no run fails for that, and the
    next one compares with what was known before.
    """
    run, lost = Run(made.made_at, made.run, made.revision), []
    for seen in made.seen:
        access = accesses.get(seen.cluster)
        if access is None:
            continue
        try:
            for one in seen.decreases:
                about = one.workload
                access.cluster.write(decrease_event(about.ref, about.uid, run, one.message, picked=False))
            if seen.after != seen.before:
                access.store.write(RECORD, seen.after, seen.before)
        except Exception as error:  # noqa: BLE001 - whatever it is
            lost.append(f"{seen.cluster}: decreases without a picker were not recorded: {reason_of(error)}")
    return tuple(lost)
