"""What is idle and can be asked to wake, found the way the decisions find it: by its record, or by a list it is on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from reconciler.decide.annotations import IDLED_AT, OPENSHIFT_IDLED_AT
from reconciler.decide.fleet_guard import FleetGuards
from reconciler.decide.idling.observed import IdlingInputs, idling_clusters
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.transitions import Flag, Transition, transitions_of
from reconciler.model import ObjectRef, ObservedState, Run, Service, Workload
from reconciler.policy.types import Fleet


@dataclass(frozen=True, slots=True)
class IdleWorkload:
    """Something to ask. `wakes` are the scalables that wake then; `problem` set: it would be in vain, and why."""

    asked: Service | Workload
    wakes: frozenset[ObjectRef] = frozenset()
    problem: str = ""


def idle_workloads(
    fleet: Fleet, state: ObservedState, run: Run, named: Callable[[ObjectRef], bool]
) -> tuple[IdleWorkload, ...]:
    """Return what has to be asked so that everything idle that `named` accepts wakes, each once, sorted by name.

    A Service (or its Endpoints) is asked for all that is behind it, in whatever way that was idled. Also what only
    looks idle, by a mark on it, is asked: a run that died may have left it half way.
    """
    found: dict[ObjectRef, IdleWorkload] = {}
    scenes = idling_clusters(IdlingInputs(fleet, state, run, blind=True, named=named))
    rulings = transitions_of([target for scene in scenes for target in scene.targets], FleetGuards(), run.now)
    for ruling in rulings.values():
        for one in _asked(ruling, named):
            known = found.get(one.ref, IdleWorkload(one))
            found[one.ref] = IdleWorkload(one, known.wakes | {ruling.ref}, known.problem or _problem(ruling, one))
    for cluster in state.clusters.values():
        # A Deployment's annotations are copied to its ReplicaSets, which nobody asks.
        objects: list[Service | Workload] = [
            *cluster.services,
            *(one for one in cluster.workloads if one.owner is None),
        ]
        for marked in objects:
            is_marked = IDLED_AT in marked.annotations or OPENSHIFT_IDLED_AT in marked.annotations
            if is_marked and named(marked.ref):
                found.setdefault(marked.ref, IdleWorkload(marked))
    return tuple(found[ref] for ref in sorted(found))


def _asked(ruling: Transition, named: Callable[[ObjectRef], bool]) -> Iterator[Service | Workload]:
    """Yield what is asked for the sake of one scalable: itself where it is named, and its Services that are."""
    if not (ruling.was_asleep or ruling.standing.state in (*NOT_OURS, IdleState.SET_ASIDE)):
        return
    scale = ruling.target.scale
    itself = named(scale.written.ref) or named(scale.runs.ref)
    if itself:
        yield scale.written
    for front in ruling.target.fronts:
        is_needed = front.is_marked or not itself
        if is_needed and (named(front.ref) or (front.endpoints is not None and named(front.endpoints.ref))):
            yield front.service


def _problem(ruling: Transition, asked: Service | Workload) -> str:
    reading = ruling.target.reading
    if ruling.standing.state is IdleState.UNPROVEN:
        return f"{ruling.why}; `restore --adopt` takes its word"
    if ruling.standing.state is IdleState.FOREIGN and ruling.target.protected:
        return f"{ruling.why}, and this Fleet did not idle it; scale it"
    if ruling.standing.state is IdleState.FOREIGN and Flag.BOUNDS in ruling.situation.flags:
        return f"{ruling.situation.words[Flag.BOUNDS]}; `wake --context` gives its bounds back"
    is_broken = ruling.standing.state is IdleState.SET_ASIDE and asked is ruling.target.scale.written
    return f"{reading.problem}; `restore` gives back what can be read" if is_broken and reading is not None else ""
