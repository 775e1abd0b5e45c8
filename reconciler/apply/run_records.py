"""What a run records for the next one: writes that clusters refused, of which after three in a row the replicas move
elsewhere; and decreases that no picker saw, with an Event on each workload.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reconciler.apply.access import Access
from reconciler.apply.config_map_store import ConfigMapStore
from reconciler.apply.events import decrease_event
from reconciler.apply.outcomes import Outcome
from reconciler.decide.decisions import Verb
from reconciler.decide.downscale.decreases_by_others import RECORD
from reconciler.decide.placement.home_config_maps import MEMORY, UNREACHABLE, keeper_of, unreachable_text
from reconciler.decide.placement.recorded_status import STATUS_PREFIX, rejection_after_failure, rejection_key
from reconciler.errors import reason_of
from reconciler.model import Run
from reconciler.plan.model import Action, Plan
from reconciler.policy.types import Fleet

_PLACING = frozenset({Verb.CREATE, Verb.OVERWRITE, Verb.SCALE})
"""What asks a cluster to run replicas, unless there are fewer than before. That it does not let go of something says
nothing about its room.
"""


def remember_refusals(
    actions: Sequence[Action], outcomes: Sequence[Outcome], accesses: Mapping[str, Access], fleet: Fleet, run: Run
) -> tuple[str, ...]:
    """Count the refusals of local ReplicaSets where the plan records what belongs in home; return what could not be
    written down.

    Source: seed federated-replicasets.md, "[E1] Master rejects LRS creation".
    """
    found = [
        (action, outcome.failure.words)
        for action, outcome in zip(actions, outcomes, strict=True)
        if outcome.failure is not None
        and outcome.event == "Refused"
        and action.decision.job == "placement"
        and action.decision.verb in _PLACING
        if not action.decision.removed
    ]
    home = accesses.get(_recorded_in(actions, fleet))
    if home is None or (found and not home.lock.held()):
        return tuple(f"{action.ref}: its refusal was not recorded, the home cluster is not ours" for action, _ in found)
    store = ConfigMapStore(home.cluster, fleet.namespace, MEMORY)
    lost: list[str] = []
    for action, why in found:
        key = rejection_key(action.ref)
        try:
            if store.read(UNREACHABLE) is None:  # so that taking a refusal off never takes the last key off
                store.write(UNREACHABLE, unreachable_text({}), None)
            known = store.read(key)
            store.write(key, rejection_after_failure(known, action.ref, why, run.now), known)
        except Exception as error:  # noqa: BLE001 - whatever it is, only this memory is lost
            lost.append(reason_of(error))
    return tuple(lost)


def _recorded_in(actions: Sequence[Action], fleet: Fleet) -> str:
    """Return the cluster where the plan records what belongs in home: home itself, or what stands in for it; "" where
    home is read-only.

    A status counts the refusals, so that it changes with each: where one is refused again, there is such an action.
    """
    recorded = (
        action.ref.cluster
        for action in actions
        if action.decision.verb is Verb.REMEMBER and action.ref.name.startswith((MEMORY, STATUS_PREFIX))
    )
    return next(recorded, keeper_of(fleet, fleet.home.__eq__))


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
            for workload, message in seen.decreases:
                access.cluster.write(decrease_event(workload.ref, workload.uid, run, message, picked=False))
            if seen.after != seen.before:
                access.store.write(RECORD, seen.after, seen.before)
        except Exception as error:  # noqa: BLE001 - whatever it is
            lost.append(f"{seen.cluster}: decreases without a picker were not recorded: {reason_of(error)}")
    return tuple(lost)
