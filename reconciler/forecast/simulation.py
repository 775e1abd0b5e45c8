"""Runs of the coming days on a copy of a snapshot in memory: each with the real plan, carried out by the real apply.

What changes by time alone decides when the next run can matter (`events`); runs in between would do nothing and are
left out. After a run that changed something the next tick of the cron is played too, until nothing changes.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.apply.access import Access, unlocked
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.backends.backend import Backend, Opened
from reconciler.backends.protocols import AUTOSCALERS, ENDPOINTS, SERVICES, MetricsSource, Resource
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.decide.autoscalers import lowered_by
from reconciler.decide.decisions import Verb
from reconciler.decide.idling.records import readable_part
from reconciler.errors import NotFoundError
from reconciler.forecast.decision_times import calendar_edges, recorded_moments
from reconciler.model import (
    NOTHING,
    HorizontalPodAutoscaler,
    ObjectRef,
    ObservedState,
    PatchOperation,
    QueryAnswer,
    Workload,
    Write,
    pointer,
)
from reconciler.observe.cluster_readers import Readers
from reconciler.pipeline import Control, RunRequest, carry_out, plan_and_state
from reconciler.plan.model import Plan
from reconciler.pod_requests import NO_REQUESTS, PodRequests
from reconciler.policy.types import PolicySet
from reconciler.time_limit import SettledClock, TimeLimit
from reconciler.untrusted_text import whole_number_in
from reconciler.worker_pool import WorkerPool
from reconciler.workload_kinds import PAUSED_REPLICAS, names_kind
from reconciler.world import World, victim_order

DEFAULT_TICK = timedelta(minutes=10)
_WHOLE = frozenset({Verb.IDLE, Verb.WAKE, Verb.RECORD, Verb.CLEAR})
_LEFT_TO_NEXT_RUN = ("HorizontalPodAutoscaler", "ScaledObject", "ConfigMap", "Namespace")
"""Of what is written these are not read again after a run: the next tick is played."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Step(Struct, frozen=True):
    """One run: at which time, what it planned, what became of that.

    `state` is what the run saw, `before` and `replicas` those of every workload before and after it (a CronJob 1,
    suspended 0). `targets` has what each ScaledObject and each HorizontalPodAutoscaler scales, `had` the replicas of
    those that were idle by a pause of KEDA, and `lowered` how much lower the minimum of an autoscaler is after it, by
    what it scales.
    """

    at: datetime
    plan: Plan
    state: ObservedState
    outcomes: tuple[Outcome, ...]
    before: Mapping[ObjectRef, int]
    replicas: Mapping[ObjectRef, int]
    changes: int  # how much was written so far, in all runs and by others
    targets: Mapping[ObjectRef, ObjectRef] = NOTHING
    had: Mapping[ObjectRef, int] = NOTHING
    lowered: Mapping[ObjectRef, int] = NOTHING


class Simulation:
    """The `clusters` of a Fleet, copied, as they are after the last run, and the policies that runs hold them to.

    Metrics hold the values that were recorded, as fresh. A pod picker is not asked: it has no opinion. Nothing is
    written to the snapshot.
    """

    def __init__(
        self, policies: PolicySet, opened: Opened, tick: timedelta = DEFAULT_TICK, lifted: Collection[str] = ()
    ) -> None:
        """`opened` is a snapshot as `open_snapshot` returns it, or the same of `MemoryCluster`s; it stays as it is.

        No limit counts the policies that are called as in `lifted`.

        Raises:
            SnapshotError: its files are malformed.
        """
        self._policies = policies
        self.tick = tick
        self._lifted = dict.fromkeys(lifted)
        self._now = _EPOCH
        self.clusters: dict[str, MemoryCluster] = {}
        self.world = self._copied(opened)
        self._had: dict[ObjectRef, int] = {}

    def run(self, at: datetime) -> Step:
        """Return what a run at `at` does, done."""
        self._now = at
        request = RunRequest(at, allow_exceed=self._lifted, is_simulated=True)
        state, plan = plan_and_state(self._policies, self.world, request)
        applied = carry_out(plan, self._policies.fleet, self.world, EVERYTHING, {})
        workloads = {workload.ref: workload for found in state.clusters.values() for workload in found.workloads}
        autoscalers = {one.ref: one for found in state.clusters.values() for one in found.autoscalers}
        targets = _targets_of(workloads.values(), autoscalers.values())
        records = {target: readable_part(workloads[ref], at) for ref, target in targets.items() if ref in workloads}
        self._had |= {target: record.replicas for target, record in records.items() if record is not None}
        replicas = _replicas_of(workloads, targets)
        if applied.outcomes:
            written = [action.ref for action in plan.actions]
            started = self._started_by_keda((ref, targets[ref]) for ref in written if ref in targets)
            now = {ref: self.clusters[ref.cluster].workload(ref) for ref in (*written, *started)}
            again = {**workloads, **now}
            workloads = {ref: workload for ref, workload in again.items() if workload is not None}
            for ref in autoscalers.keys() & set(written):
                found = self.clusters[ref.cluster].list(AUTOSCALERS, namespace=ref.namespace)
                autoscalers |= {autoscaler.ref: autoscaler for autoscaler in found}
        lowered = ((targets[one.ref], lowered_by(one)) for one in autoscalers.values() if one.ref in targets)
        return Step(
            at=at,
            plan=plan,
            state=state,
            outcomes=applied.outcomes,
            before=replicas,
            replicas=_replicas_of(workloads, targets),
            changes=self._changes(),
            targets=targets,
            had=dict(self._had),
            lowered={target: by for target, by in lowered if by},
        )

    def play(self, start: datetime, end: datetime, also: Iterable[datetime] = ()) -> Iterator[Step]:
        """Yield a run at `start`, and each later one before `end` that may do something else than the one before it.

        Changes that the caller makes in between count from the next tick on. `also` are times at which metrics change.
        """
        edges = sorted({*calendar_edges(self._policies, start, end), *also})
        at: datetime | None = start
        while at is not None and at < end:
            written = self._changes()
            step = self.run(at)
            yield step
            at = self._next(step, self._changes() != written, edges)

    def change(self, ref: ObjectRef, fields: Mapping[str, Any]) -> None:
        """Change an object as `kubectl patch --type merge` does, and settle what follows from it.

        Raises:
            NotFoundError: it is not there. RefusedError: it would be no such object any more.
        """
        cluster = self.clusters.get(ref.cluster)
        if cluster is None:
            raise NotFoundError(f"{ref}: there is no cluster {ref.cluster}, expected one of the snapshot")
        cluster.write(Write("patch", ref, "", patch=tuple(_merged(cluster.manifest(ref), fields, ""))))

    def annotate(self, ref: ObjectRef, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of an object; None takes one off. Raises what `change` does."""
        self.change(ref, {"metadata": {"annotations": dict(annotations)}})

    def find(self, cluster: str, namespace: str, kind: str, name: str) -> ObjectRef | None:
        """Return the object of that name, whatever its API group; `kind` is as people write it.

        None: there is none.
        """
        found = self.clusters.get(cluster)
        for entry in () if found is None else found.entries():
            if (entry.namespace, entry.name) == (namespace, name) and names_kind(kind, entry.kind):
                return ObjectRef(cluster, entry.namespace, entry.kind, entry.name, entry.group)
        return None

    def requests(self, ref: ObjectRef) -> PodRequests:
        """Return what one pod of a workload requests; nothing where it is not there."""
        found = self.clusters[ref.cluster].workload(ref)
        return NO_REQUESTS if found is None else found.requests

    def _next(self, step: Step, again: bool, edges: Sequence[datetime]) -> datetime | None:
        """Return the next tick that matters, None where there is none any more."""
        state = step.state
        if again:
            if not self._is_whole(step):
                return self._tick_after(step.at)
            state = self._after(step)
        moments = set(recorded_moments(self._policies, state, step.at, self._lifted))
        later = (edge for edge in edges[bisect_right(edges, step.at) :] if self._matters(edge, state))
        moments.update(islice(later, 1))
        return max(self._tick_at(min(moments)), self._tick_after(step.at)) if moments else None

    def _matters(self, edge: datetime, state: ObservedState) -> bool:  # noqa: ARG002 - calendars and metrics do
        """Return whether a run at `edge`, with the clusters as in `state`, may do something."""
        return True

    def _is_whole(self, step: Step) -> bool:
        """Return whether a run surely leaves nothing to the next one: it idled and woke, all of it, and nothing else.

        Placement, autoscalers, decreases and wakes in turns go over several runs.
        """
        others = self._policies.federated or self._policies.downscale or step.state.wakes_only
        alone = not (others or step.plan.held_back)
        return (
            alone
            and not any(policy.wake_order.per_run for policy in self._policies.idling)
            and all(
                action.decision.verb in _WHOLE and action.ref.kind not in _LEFT_TO_NEXT_RUN
                for action in step.plan.actions
            )
            and all(outcome.status is OutcomeStatus.APPLIED for outcome in step.outcomes)
            and self._changes() == step.changes
        )

    def _after(self, step: Step) -> ObservedState:
        """Return what a run would see after `step`, which is whole: what it wrote is read again."""
        written = {action.ref for action in step.plan.actions}
        clusters = dict(step.state.clusters)
        for name in {ref.cluster for ref in written}:
            cluster, found = self.clusters[name], clusters[name]
            clusters[name] = replace(
                found,
                workloads=tuple([(one.ref in written and cluster.workload(one.ref)) or one for one in found.workloads]),
                services=_as_now(cluster, SERVICES, found.services, written),
                endpoints=_as_now(cluster, ENDPOINTS, found.endpoints, written),
            )
        return replace(step.state, clusters=clusters)

    def _tick_at(self, moment: datetime) -> datetime:
        """Return the first tick that is not before `moment`: ticks are multiples of their length, in UTC."""
        return _EPOCH + math.ceil((moment - _EPOCH) / self.tick) * self.tick

    def _tick_after(self, moment: datetime) -> datetime:
        return _EPOCH + ((moment - _EPOCH) // self.tick + 1) * self.tick

    def _changes(self) -> int:
        return sum(cluster.changes for cluster in self.clusters.values())

    def _started_by_keda(self, scaled: Iterable[tuple[ObjectRef, ObjectRef]]) -> Iterator[ObjectRef]:
        """Start the targets of ScaledObjects that KEDA had scaled to zero and that are paused no more; yield them.

        How far KEDA scales them is up to its triggers: what they had counts.
        """
        for ref, target in scaled:
            cluster = self.clusters[ref.cluster]
            found = cluster.workload(target)
            idle = found is not None and not found.spec_replicas
            if idle and target in self._had and _paused_at(cluster.workload(ref)) is None:
                self.change(target, {"spec": {"replicas": self._had[target]}})
                yield target

    def _copied(self, opened: Opened) -> World:
        sources: dict[str, Backend] = {}
        accesses: dict[str, Access] = {}
        for name, backend in opened.backends.items():
            if not isinstance(backend.cluster, SnapshotCluster):
                sources[name] = Backend(name, error=backend.error or "is no snapshot")
                continue
            order, switches = victim_order(lambda: self._now), self._policies.fleet.switch_kinds
            cluster = MemoryCluster.copy_of(backend.cluster, order, switches=switches)
            self.clusters[name] = cluster
            sources[name] = Backend(name, cluster, HeldMetrics(backend.metrics))
            limit = TimeLimit(clock=SettledClock())
            accesses[name] = unlocked(cluster, self._policies.fleet.namespace, limit, _HERE)
        return World(sources, accesses, "snapshot", Readers(_HERE))


_HERE = WorkerPool(0)
EVERYTHING = Control(choose=lambda plan: plan.actions, keeps_history=False)


class HeldMetrics(Struct, frozen=True):
    """A `MetricsSource` whose values stay as fresh as they were when they were recorded, whatever the time is."""

    recorded: MetricsSource

    def query(self, text: str) -> QueryAnswer:
        return replace(self.recorded.query(text), at=None)


def _as_now(
    cluster: MemoryCluster, resource: Resource[Any], found: Iterable[Any], written: Collection[ObjectRef]
) -> tuple[Any, ...]:
    return tuple([cluster.find(resource, one.ref) or one if one.ref in written else one for one in found])


def _merged(manifest: Mapping[str, Any], fields: Mapping[str, Any], path: str) -> Iterator[PatchOperation]:
    """Yield the operations of a merge patch, RFC 7386: None takes a field off, and mappings are merged."""
    for key, value in fields.items():
        inside, at = manifest.get(key), path + pointer((key,))
        if isinstance(value, Mapping) and isinstance(inside, Mapping):
            yield from _merged(inside, value, at)
        elif value is not None:
            yield PatchOperation("add", at, _stated(value))
        elif key in manifest:
            yield PatchOperation("remove", at)


def _stated(value: Any) -> Any:
    """Return a value of a merge patch without the fields that it takes off: there is nothing to take them off."""
    if not isinstance(value, Mapping):
        return value
    return {key: _stated(inside) for key, inside in value.items() if inside is not None}


def _targets_of(
    workloads: Iterable[Workload], autoscalers: Iterable[HorizontalPodAutoscaler]
) -> dict[ObjectRef, ObjectRef]:
    """Return the target of each of `autoscalers`, and of each ScaledObject of `workloads`, that is among them."""
    known = list(workloads)
    scaled = {autoscaler.ref: autoscaler.target for autoscaler in autoscalers}
    scaled |= {workload.ref: workload.scale_target for workload in known if workload.scale_target is not None}
    if not scaled:
        return {}
    by_name = {(one.ref.cluster, one.ref.namespace, one.ref.kind, one.ref.name): one.ref for one in known}
    named = {ref: by_name.get((ref.cluster, ref.namespace, *target)) for ref, target in scaled.items()}
    return {ref: target for ref, target in named.items() if target is not None}


def _replicas_of(
    workloads: Mapping[ObjectRef, Workload], targets: Mapping[ObjectRef, ObjectRef]
) -> dict[ObjectRef, int]:
    """Return the replicas of everything that nothing else with a scale owns or scales; a CronJob 1, suspended 0."""
    found = {
        ref: one.spec_replicas for ref, one in workloads.items() if one.owner is None and one.kind.scaled_by != "Pause"
    }
    for ref, target in targets.items():
        paused = _paused_at(workloads.get(ref))
        if paused is not None and target in found:
            found[target] = paused
    return dict(sorted(found.items()))


def _paused_at(scaled: Workload | None) -> int | None:
    """Return at how many replicas a ScaledObject is paused, None where it is not."""
    return None if scaled is None else whole_number_in(scaled.annotations.get(PAUSED_REPLICAS, ""))
