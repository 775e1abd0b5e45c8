"""The decisions of all IdlingPolicies on the observed clusters, and the wakes that need no policy.

Each decision goes one way; what a reader asks stands in the module named:

- look: which workloads (`observed.py`), behind which Service (`discovery.py`), idle by which record (`state.py`);
- judge: which policies count (`selection.py`), what a schedule or a metric says, and all of that as one
  (`verdicts.py`);
- choose: what holds besides, such as minAge, a rollout or a request (`conditions.py`), and the table (`rules.py`);
- settle: what goes idle together (`idle_groups.py`), which wakes wait for the next run (`wake_times.py`), and what all
  that leaves to the other jobs (`after_idling.py`);
- write: decisions on all objects concerned (`writes.py`); and what is said of it, with what would change it
  (`explanations.py`, `notices.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from reconciler.decide.decisions import DesiredState
from reconciler.decide.fleet_guard import FleetGuards
from reconciler.decide.idling.after_idling import IdlingOutcome, claims
from reconciler.decide.idling.explanations import explained
from reconciler.decide.idling.idle_groups import federated_members, idled_together
from reconciler.decide.idling.observed import IdlingInputs, idling_clusters, subjects_of
from reconciler.decide.idling.rules import Choice, IdleAction, choices_of, guarded_choices
from reconciler.decide.idling.wake_times import owner_in, staggered
from reconciler.decide.idling.write_context import WriteContext
from reconciler.decide.idling.writes import IdlingWrites
from reconciler.decide.limit_counts import hours_of
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import Fleet, PolicySet


def decide_idling(policies: PolicySet, state: ObservedState, run: Run) -> IdlingOutcome:
    """Return the idles, wakes and repairs of this run, and the workloads that idling decides."""
    clusters = idling_clusters(IdlingInputs(policies.fleet, state, run, policies.idling))
    guards, alone = guarded_choices(subjects_of(clusters), policies, run)
    federated = federated_members(policies.federated, state, alone)
    choices = staggered(idled_together(alone, federated), run.now, owner_in(policies.fleet))
    places = {policy.name: str(policy.place) for policy in policies.idling}
    hours = {policy.name: hours_of(policy) for policy in policies.idling}
    context = WriteContext(policies.fleet, run, places, hours)
    writes = IdlingWrites(clusters, context, tuple(members.refs for members in federated.values()))
    return IdlingOutcome(
        explained(clusters, choices, run).joined(writes.desired(choices, guards)),
        claims(choices, [members.all for members in federated.values()]),
    )


_DONE_BLIND = frozenset({IdleAction.WAKE, IdleAction.RELEASE, IdleAction.OVERDUE})


def decide_wakes_due(fleet: Fleet, state: ObservedState, run: Run) -> DesiredState:
    """Return the wakes where the policies cannot be used: those that are due by their record, or requested.

    What was scaled by hand is released; nothing else is repaired. Clusters of `wakes_only` are like any other here.
    """
    every = replace(state, clusters={**state.clusters, **state.wakes_only})
    clusters = idling_clusters(IdlingInputs(fleet, every, run, policies=None))
    alone = choices_of(subjects_of(clusters), FleetGuards(), run.now)
    done = {ref: choice for ref, choice in alone.items() if choice.action in _DONE_BLIND}
    choices = staggered(done, run.now, owner_in(fleet))
    desired = explained(clusters, choices, run)
    writes = IdlingWrites(clusters, WriteContext(fleet, run, repairs=False))
    return replace(desired, decisions=writes.decisions(_others_kept(alone, choices)), explanations=())


def _others_kept(alone: Mapping[ObjectRef, Choice], done: Mapping[ObjectRef, Choice]) -> dict[ObjectRef, Choice]:
    """Return `done`, and for everything else that it stays as it is: its Service's record still lists it."""
    return {
        ref: done.get(ref, choice if choice.was_idle else choice.doing(IdleAction.LEAVE, choice.reasons))
        for ref, choice in alone.items()
    }
