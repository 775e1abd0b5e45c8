"""The idle workloads that `reconciler wake` can ask to wake, found as decisions find them: by a record or by a list."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import Key
from reconciler.decide.idling.conditions import IdlingCondition
from reconciler.decide.idling.observed import IdlingCluster, IdlingInputs, idling_clusters, subjects_of
from reconciler.decide.idling.rules import Choice, choices_of
from reconciler.decide.idling.subjects import NOT_OURS, IdleState, ServiceState
from reconciler.decide.reasons import text_of
from reconciler.messages import first_of
from reconciler.model import HorizontalPodAutoscaler, ObjectRef, ObservedCluster, ObservedState, Run, Service, Workload
from reconciler.policy.types import Fleet

_NAMED = 3

T = TypeVar("T", Service, Workload, HorizontalPodAutoscaler)


class IdleWorkload(Struct, frozen=True):
    """Something to ask. `wakes` are the scalables that wake then; `problem` says why another one does not."""

    asked: Service | Workload
    wakes: frozenset[ObjectRef] = frozenset()
    problem: str = ""

    @property
    def in_vain(self) -> bool:
        return bool(self.problem) and not self.wakes


def once_asked(cluster: ObservedCluster, refs: Collection[ObjectRef], wanted: Mapping[str, str]) -> ObservedCluster:
    """Return `cluster` as it is once the annotations `wanted` are on each of `refs`."""

    def asked(one: T) -> T:
        return replace(one, annotations={**one.annotations, **wanted}) if one.ref in refs else one

    return replace(
        cluster,
        services=tuple(map(asked, cluster.services)),
        workloads=tuple(map(asked, cluster.workloads)),
        autoscalers=tuple(map(asked, cluster.autoscalers)),
    )


def choices_without_policies(
    fleet: Fleet, state: ObservedState, run: Run, named: Callable[[ObjectRef], bool]
) -> tuple[tuple[IdlingCluster, ...], dict[ObjectRef, Choice]]:
    """Return what there is, and the choices that there would be without any policy."""
    clusters = idling_clusters(IdlingInputs(fleet, state, run, named=named))
    return clusters, choices_of(subjects_of(clusters), run.now)


def idle_workloads(
    fleet: Fleet, state: ObservedState, run: Run, named: Callable[[ObjectRef], bool]
) -> tuple[IdleWorkload, ...]:
    """Return the objects that get a wake request, so that all idle workloads that `named` accepts wake; sorted by name.

    A Service (or its Endpoints) is asked for all that is behind it, in whatever way that was idled. Also what only
    looks idle, by a record on it, is asked: a run that died may have left it half way.
    """
    found: dict[ObjectRef, IdleWorkload] = {}
    clusters, choices = choices_without_policies(fleet, state, run, named)
    for choice in choices.values():
        for asked in _asked(choice, named):
            known, problem = found.get(asked.ref, IdleWorkload(asked)), _problem(choice, asked)
            wakes = known.wakes if problem else known.wakes | {choice.ref}
            found[asked.ref] = IdleWorkload(asked, wakes, known.problem or problem)
    # The target of a ScaledObject has its record too, and wakes with it.
    with_another = {choice.subject.scale.runs.ref for choice in choices.values() if choice.subject.scale.has_target}
    in_vain = {one.ref: list_in_vain(one, cluster) for cluster in clusters for one in cluster.services}
    for cluster in state.clusters.values():
        # A Deployment's annotations are copied to its ReplicaSets, which nobody asks.
        objects: list[Service | Workload] = [
            *cluster.services,
            *(workload for workload in cluster.workloads if workload.owner is None),
        ]
        for marked in objects:
            has_record = Key.IDLED_AT in marked.annotations or Key.OPENSHIFT_IDLED_AT in marked.annotations
            if has_record and named(marked.ref) and marked.ref not in with_another - choices.keys():
                found.setdefault(marked.ref, IdleWorkload(marked, problem=in_vain.get(marked.ref, "")))
    return tuple(found[ref] for ref in sorted(found))


def _asked(choice: Choice, named: Callable[[ObjectRef], bool]) -> Iterator[Service | Workload]:
    """Yield what is asked for the sake of one scalable: itself where it is named, and its Services that are."""
    if not (choice.subject.is_idle or choice.state in (*NOT_OURS, IdleState.UNREADABLE)):
        return
    scale = choice.subject.scale
    itself = named(scale.written.ref) or named(scale.runs.ref)
    if itself:
        yield scale.written
    for service in choice.subject.services:
        is_needed = service.has_record or not itself
        if is_needed and (named(service.ref) or (service.endpoints is not None and named(service.endpoints.ref))):
            yield service.service


def list_in_vain(service: ServiceState, cluster: IdlingCluster) -> str:
    """Return why the list that somebody else wrote on a Service wakes nothing, "" where it may; ours is repaired."""
    if not service.is_foreign or service.record is not None:
        return ""
    listed = {} if service.foreign is None else service.foreign.targets
    if any(ref in cluster.inventory.by_ref for ref in listed):
        return ""
    names = first_of([f"{ref.kind}.{ref.group} {ref.name}" for ref in listed], _NAMED)
    why = service.problem or (f"it lists {names}, which is not found here" if listed else "")
    return f"{why}; scale what is behind it" if why else ""


def _problem(choice: Choice, asked: Service | Workload) -> str:
    reading, pinned = choice.subject.reading, choice.conditions.get(IdlingCondition.BOUNDS)
    if choice.state is IdleState.UNPROVEN:
        which = "" if asked.ref == choice.ref else f"{choice.ref.kind}/{choice.ref.name} behind it: "
        return f"{which}{choice.why}; `restore --adopt` takes its word"
    if choice.state is IdleState.FOREIGN and choice.subject.protected:
        return f"{choice.why}, and this Fleet did not idle it; scale it"
    if choice.state is IdleState.FOREIGN and pinned is not None:
        return f"{text_of(pinned.why)}; `wake --context` gives its bounds back"
    if reading is not None and choice.state is IdleState.UNREADABLE and asked is choice.subject.scale.written:
        return f"{reading.problem}; `restore` gives back what can be read"
    return ""
