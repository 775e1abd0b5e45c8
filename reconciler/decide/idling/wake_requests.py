"""The idle workloads that can be asked to wake, found as the decisions find them: by their records, or by a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from reconciler.decide.annotations import IDLED_AT, OPENSHIFT_IDLED_AT
from reconciler.decide.fleet_guard import FleetGuards
from reconciler.decide.idling.observed import IdlingInputs, idling_clusters
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.transition_rules import Flag
from reconciler.decide.idling.transitions import Transition, transitions_of
from reconciler.decide.reasons import text_of
from reconciler.model import ObjectRef, ObservedState, Run, Service, Workload
from reconciler.policy.types import Fleet


class IdleWorkload(Struct, frozen=True):
    """Something to ask. `wakes` are the scalables that wake then; `problem` set: it would be in vain, and why."""

    asked: Service | Workload
    wakes: frozenset[ObjectRef] = frozenset()
    problem: str = ""


def idle_workloads(
    fleet: Fleet, state: ObservedState, run: Run, named: Callable[[ObjectRef], bool]
) -> tuple[IdleWorkload, ...]:
    """Return the objects that get a wake request, so that all idle workloads that `named` accepts wake; sorted by name.

    A Service (or its Endpoints) is asked for all that is behind it, in whatever way that was idled. Also what only
    looks idle, by a mark on it, is asked: a run that died may have left it half way.
    """
    found: dict[ObjectRef, IdleWorkload] = {}
    clusters = idling_clusters(IdlingInputs(fleet, state, run, named=named))
    transitions = transitions_of(
        [scalable for cluster in clusters for scalable in cluster.scalables], FleetGuards(), run.now
    )
    for transition in transitions.values():
        for one in _asked(transition, named):
            known = found.get(one.ref, IdleWorkload(one))
            found[one.ref] = IdleWorkload(
                one, known.wakes | {transition.ref}, known.problem or _problem(transition, one)
            )
    for cluster in state.clusters.values():
        # A Deployment's annotations are copied to its ReplicaSets, which nobody asks.
        objects: list[Service | Workload] = [
            *cluster.services,
            *(one for one in cluster.workloads if one.owner is None),
        ]
        for marked in objects:
            has_record = IDLED_AT in marked.annotations or OPENSHIFT_IDLED_AT in marked.annotations
            if has_record and named(marked.ref):
                found.setdefault(marked.ref, IdleWorkload(marked))
    return tuple(found[ref] for ref in sorted(found))


def _asked(transition: Transition, named: Callable[[ObjectRef], bool]) -> Iterator[Service | Workload]:
    """Yield what is asked for the sake of one scalable: itself where it is named, and its Services that are."""
    if not (transition.was_idle or transition.state in (*NOT_OURS, IdleState.UNREADABLE)):
        return
    scale = transition.scalable.scale
    itself = named(scale.written.ref) or named(scale.runs.ref)
    if itself:
        yield scale.written
    for service in transition.scalable.services:
        is_needed = service.has_record or not itself
        if is_needed and (named(service.ref) or (service.endpoints is not None and named(service.endpoints.ref))):
            yield service.service


def _problem(transition: Transition, asked: Service | Workload) -> str:
    reading = transition.scalable.reading
    if transition.state is IdleState.UNPROVEN:
        return f"{transition.why}; `restore --adopt` takes its word"
    if transition.state is IdleState.FOREIGN and transition.scalable.protected:
        return f"{transition.why}, and this Fleet did not idle it; scale it"
    if transition.state is IdleState.FOREIGN and Flag.BOUNDS in transition.situation.flags:
        return f"{text_of(transition.situation.reasons[Flag.BOUNDS])}; `wake --context` gives its bounds back"
    if reading is not None and transition.state is IdleState.UNREADABLE and asked is transition.scalable.scale.written:
        return f"{reading.problem}; `restore` gives back what can be read"
    return ""
