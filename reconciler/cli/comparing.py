"""What a change of policies does: head against base, on the same clusters at the same time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from reconciler.cli.calendar import calendars_of
from reconciler.cli.running import Call
from reconciler.decide.decisions import Job
from reconciler.decide.schedule import open_periods
from reconciler.model import ObjectRef
from reconciler.pipeline import plan
from reconciler.plan.model import Plan
from reconciler.policy.types import Fleet, PolicySet

_AHEAD = timedelta(days=7)
_FLEET_FIELDS = {
    "clusters": "spec.clusters",
    "home": "spec.home",
    "namespace": "spec.namespace",
    "former_names": "spec.formerNames",
    "limits": "spec.limits",
    "protected_namespaces": "spec.protectedNamespaces",
    "allowed_picker_hosts": "spec.podPickers.allowedHosts",
}

Periods = tuple[tuple[datetime, datetime], ...]


def compared(base_policies: PolicySet, head_policies: PolicySet, head: Plan, call: Call) -> str:
    """Return, as Markdown for a pull request, what the policies of `head` do that those of the base do not.

    `head_policies` are as they were read; `head` may have been made with the Fleet of the base.
    """
    from reconciler.report.comparison import PolicyChange, render_markdown_comparison

    unlifted = replace(call.request(), filters=call.words.filters(), run_id="")
    before = plan(base_policies, call.world(base_policies.fleet), unlifted)
    selected_before, selected_after = _selected(before), _selected(head)
    change = PolicyChange(
        newly_selected=tuple(sorted({ref for _, ref in selected_after - selected_before})),
        no_longer_selected=tuple(sorted({ref for _, ref in selected_before - selected_after})),
        windows_before=_windows(base_policies, call.now),
        windows_after=_windows(head_policies, call.now),
        unanswered=head.unanswered,
        fleet_changes=fleet_changes(base_policies.fleet, head_policies.fleet),
        fleet_from_base=call.fleet_from == "base",
    )
    return render_markdown_comparison(before, head, change)


def fleet_changes(base: Fleet, head: Fleet) -> tuple[str, ...]:
    """Return which fields of a Fleet differ between two, as they are called in its file, sorted."""
    names = {"name": "metadata.name", **_FLEET_FIELDS}
    return tuple(sorted(words for name, words in names.items() if getattr(base, name) != getattr(head, name)))


def _selected(made: Plan) -> set[tuple[Job, ObjectRef]]:
    """Return the workloads that some policy selects, by job; what only carries marks of one is selected no longer."""
    return {(one.job, one.ref) for one in made.explanations if one.selected and one.ref.kind != "Service"}


def _windows(policies: PolicySet, now: datetime) -> Mapping[str, Periods]:
    return {name: open_periods(calendar, now, now + _AHEAD) for name, calendar in calendars_of(policies)}
