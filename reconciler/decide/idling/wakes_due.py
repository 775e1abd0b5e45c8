"""The wakes that take place without usable policies: due by their record, requested, or scaled by hand."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from reconciler.decide.decisions import DesiredState
from reconciler.decide.fleet_guard import FleetGuards
from reconciler.decide.idling.decide import decisions_of, explained, services_of
from reconciler.decide.idling.observed import IdlingInputs, idling_clusters
from reconciler.decide.idling.transition_rules import ChosenAction, IdleAction
from reconciler.decide.idling.transitions import Transition, transitions_of
from reconciler.decide.idling.wake_order import owner_in, staggered
from reconciler.decide.idling.writes_workload import WriteContext
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import Fleet

_DONE_BLIND = frozenset({IdleAction.WAKE, IdleAction.RELEASE, IdleAction.OVERDUE})


def decide_wakes_due(fleet: Fleet, state: ObservedState, run: Run) -> DesiredState:
    """Return the wakes where the policies cannot be used: those that are due by their record, or requested.

    What was scaled by hand is released; nothing else is repaired. Clusters of `wakes_only` are like any other here.
    """
    every = replace(state, clusters={**state.clusters, **state.wakes_only})
    clusters = idling_clusters(IdlingInputs(fleet, every, run, without_policies=True))
    alone = transitions_of([scalable for cluster in clusters for scalable in cluster.scalables], FleetGuards(), run.now)
    done = {ref: transition for ref, transition in alone.items() if transition.action in _DONE_BLIND}
    transitions = staggered(done, run.now, owner_in(fleet))
    desired = explained(clusters, transitions, run)
    context = WriteContext(fleet, run, repairs=False)
    decisions = decisions_of(_others_kept(alone, transitions), services_of(clusters), context)
    return replace(desired, decisions=decisions, explanations=())


def _others_kept(
    alone: Mapping[ObjectRef, Transition], done: Mapping[ObjectRef, Transition]
) -> dict[ObjectRef, Transition]:
    """Return `done`, and for everything else that it stays as it is: its Service's mark still lists it."""
    return {
        ref: done.get(
            ref,
            transition
            if transition.was_idle
            else replace(transition, choice=ChosenAction(IdleAction.LEAVE, transition.reasons)),
        )
        for ref, transition in alone.items()
    }
