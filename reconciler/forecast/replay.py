"""The past again: the runs that policies would have made, each with what was measured at its time.

Namespaces do not touch one another, but for wakes in turns (`perRun`), so each is played by itself, and a run of it
only where something that it is decided by changes. Limits are lifted: they count what goes idle for the first time.
FederatedReplicaSets and DownscalePolicies are left out, as nobody recorded where pods could be scheduled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.protocols import NAMESPACES, OUR_CONFIG_MAPS, SERVICES, NoMetrics
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.file_content import ManifestEntry
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.decide.annotations import OUR_ANNOTATIONS, Key, format_time
from reconciler.decide.decisions import Decision, Verb
from reconciler.decide.idling.records import awake_since
from reconciler.decide.idling.restore import Restoration, decide_restore
from reconciler.decide.limit_amounts import scalable_workloads
from reconciler.decide.reasons import ReasonCode
from reconciler.forecast.decision_times import calendar_edges, is_kept_awake_by_schedule
from reconciler.forecast.idle_periods import (
    Arrivals,
    PolicyReplay,
    Replay,
    ReplayedIdlePeriod,
    policy_replay,
    start_times,
)
from reconciler.forecast.measurements import (
    ReplayedMetrics,
    changes_in,
    joined_notes,
    notes_on,
    period_notes,
    period_of,
    silent_times,
    traffic_of,
    unanswered_policies,
)
from reconciler.forecast.query_history import QueryHistory
from reconciler.forecast.simulation import EVERYTHING, Simulation, Step
from reconciler.forecast.timelines import Forecast, Recording, Wake, WorkloadTimeline
from reconciler.model import NOTHING, ObjectRef, ObservedState, by_key
from reconciler.pipeline import RunRequest, carry_out, plan_and_state
from reconciler.policy.types import FleetCluster, IdlingPolicy, PolicySet
from reconciler.report.times import common_zone
from reconciler.world import victim_order

_KEPT = (Key.EXCLUDE, Key.WAKE_PORTS)
_YOUNG = "{} did not exist yet when the replay begins: until then it counts as running"
_BY_TRAFFIC = frozenset(
    {ReasonCode.METRIC_BUSY, ReasonCode.WAKE_WHEN_TRUE, ReasonCode.WAKE_REQUESTED, ReasonCode.NEED_PODS}
)


class Part(Struct, frozen=True):
    """Namespaces of a cluster that are played by themselves, with the policies that reach them."""

    cluster: FleetCluster
    policies: PolicySet
    entries: tuple[ManifestEntry, ...]
    metrics: ReplayedMetrics
    source: SnapshotCluster

    def simulation(self) -> _Simulation:
        cluster = MemoryCluster.copy_of(self.source, victim_order(lambda: self.metrics.now), self.entries)
        return _Simulation(self, Opened({self.cluster.name: Backend(self.cluster.name, cluster, self.metrics)}))


class _Simulation(Simulation):
    """A simulation in which metrics have the values of the time, and traffic signals what waits for a signal."""

    def __init__(self, part: Part, opened: Opened) -> None:
        self._part = part
        self._quieter: frozenset[datetime] = frozenset()  # when nothing but a metric changes, and says that it is quiet
        names = [policy.name for policy in part.policies.idling]
        super().__init__(part.policies, opened, part.metrics.history.step, names)
        self._asleep: Mapping[ObjectRef, IdlingPolicy] = {}  # Services with policies that wait for a signal

    def forget(self, now: datetime) -> None:
        """Wake what is idle at `now`, the time of the snapshot, and take off what runs noted since the past."""
        fleet, restored = self._policies.fleet, Restoration(any_fleet=True, adopt=True)
        plan = plan_and_state(
            self._policies,
            self.world,
            RunRequest(now),
            lambda _, state, run: decide_restore(fleet, state, run, restored),
        )[1]
        carry_out(plan, fleet, self.world, EVERYTHING, {})
        for name, cluster in self.clusters.items():
            for entry in cluster.entries():
                noted = noted_on(entry)
                if noted:
                    ref = ObjectRef(name, entry.namespace, entry.kind, entry.name, entry.group)
                    self.annotate(ref, dict.fromkeys(noted))

    def past(self, start: datetime, end: datetime) -> Iterator[Step]:
        """Yield the runs from `start` to before `end`."""
        changes = changes_in(self._policies, self._part.metrics, start, end)
        quieter = (at for at, is_quiet in changes.items() if is_quiet)
        self._quieter = frozenset(quieter) - set(calendar_edges(self._policies, start, end))
        return self.play(start, end, changes)

    def _matters(self, edge: datetime, state: ObservedState) -> bool:
        """While all that runs was woken too recently to go idle, that a metric is quiet again changes nothing.

        An autoscaler may be held although what it scales has no replicas.
        """
        if edge not in self._quieter or any(found.autoscalers for found in state.clusters.values()):
            return True
        at, least = self._tick_at(edge), min((one.min_awake for one in self._policies.idling), default=timedelta())
        running = (one for found in state.clusters.values() for one in found.workloads if one.spec_replicas)
        woken = (awake_since(one) for one in running if one.owner is None)
        return any(since is None or since + least <= at for since in woken)

    def run(self, at: datetime) -> Step:
        self._part.metrics.now = at
        for service, policy in self._asleep.items():
            if self._part.metrics.is_busy(policy, (service.namespace, service.name)):
                self.annotate(service, {Key.WAKE_REQUESTED_AT: format_time(at)})
        step = super().run(at)
        waiting = {one.name: one for one in self._policies.idling if one.wake == "OnSignal"}
        self._asleep = {
            service: waiting[one.policy]
            for one in step.plan.explanations
            if waiting and one.policy in waiting and not step.replicas.get(one.ref, 1)
            for service in one.services
        }
        return step


def noted_on(entry: ManifestEntry) -> list[str]:
    """Return the annotations that runs wrote on an object; what people wrote there holds for the past too."""
    known = getattr(entry.decoded.metadata, "annotations", None) or {}
    return [key for key in known if key.startswith(OUR_ANNOTATIONS) and key not in _KEPT]


class Played(Struct, frozen=True):
    """What the runs of one part came to."""

    runs: int
    timelines: tuple[WorkloadTimeline, ...]
    wakes: tuple[Wake, ...]
    undecided: Mapping[str, str]
    periods: tuple[ReplayedIdlePeriod, ...]
    notes: tuple[tuple[str, str], ...]


Share = Callable[[Callable[[Sequence[Part]], list[Played]], Sequence[Part]], list[Played]]
"""What has some work done with parts, by several processes or by this one."""


def replay(
    policies: PolicySet,
    opened: Opened,
    histories: Mapping[str, QueryHistory],
    length: timedelta,
    share: Share,
) -> Forecast:
    """Return what `policies` would have done in the last `length` of the recorded past.

    `opened` is the snapshot, `histories` what is recorded of the queries by cluster. `share` plays the parts.

    Raises:
        SnapshotError: nothing was measured.
    """
    policies = replace(policies, federated=(), downscale=())
    start, end = period_of(histories, length)
    parts, rest = parts_of(policies, opened, histories)
    found = share(lambda some: [played(part, start, end) for part in some], parts)
    nothing = replace(policies, idling=())
    idle = Simulation(nothing, rest)
    alone = Recording(nothing, idle, end, measured=True)
    alone.take(idle.run(start))
    whole = alone.result(start)
    timelines = (*whole.timelines, *(one for some in found for one in some.timelines))
    tick = next(iter(histories.values())).step
    return replace(
        whole,
        first=replace(whole.first, time_zones=policies.time_zones),
        tick=tick,
        runs=sum(one.runs for one in found) + 1,
        timelines=tuple(sorted(timelines, key=lambda one: one.ref)),
        wakes=tuple(sorted((one for some in found for one in some.wakes), key=lambda one: one.at)),
        undecided=dict(sorted(pair for one in found for pair in one.undecided.items())),
        replay=Replay(
            policies=tuple(_by_policy(policies, opened, found, histories)),
            notes=(
                *period_notes(policies, opened.backends, histories, (start, end), length),
                *joined_notes(note for some in found for note in some.notes),
            ),
        ),
    )


def _by_policy(
    policies: PolicySet, opened: Opened, played: Iterable[Played], histories: Mapping[str, QueryHistory]
) -> Iterator[PolicyReplay]:
    found = by_key((one.policy, one) for some in played for one in some.periods)
    periods = {policy.name: found.get(policy.name, []) for policy in policies.idling}
    starts: dict[ObjectRef, timedelta] = {}
    for name, backend in opened.backends.items():
        if backend.cluster is not None:
            refs = {one.ref for own in periods.values() for one in own if one.ref.cluster == name}
            starts |= start_times(backend.cluster, refs)
    first, zone = next(iter(histories.values())), common_zone(policies.time_zones)
    lacking = {name: unanswered_policies(histories.get(name), policies, name) for name in opened.backends}
    for policy, own in periods.items():
        unknown = tuple(name for name, names in lacking.items() if policy in names)
        yield replace(policy_replay(f"IdlingPolicy {policy}", own, starts, first, zone), unknown=unknown)


def parts_of(policies: PolicySet, opened: Opened, histories: Mapping[str, QueryHistory]) -> tuple[list[Part], Opened]:
    """Return the parts that are played by themselves, and the clusters with all the rest, which no policy reaches."""
    parts: list[Part] = []
    rest: dict[str, Backend] = {}
    for known in policies.fleet.clusters:
        backend = opened.backends[known.name]
        source = backend.cluster
        if not isinstance(source, SnapshotCluster) or known.name not in histories:
            rest[known.name] = backend
            continue
        spaces = by_key((entry.namespace, entry) for entry in source.entries())
        services = frozenset((one.ref.namespace, one.ref.name) for one in source.list(SERVICES))
        labels = {one.ref.name: one.labels for one in source.list(NAMESPACES)}
        idling = policies.on(known).idling
        reaching = {
            space: tuple(one for one in idling if one.selector.namespaces.matches(space, labels.get(space, NOTHING)))
            for space in spaces
            if space
        }
        for group in _joined_by_turns(reaching):
            names = frozenset(group)
            reach = {one.name: one for space in group for one in reaching[space]}
            fleet = replace(policies.fleet, clusters=(known,), home=known.name)
            parts.append(
                Part(
                    cluster=known,
                    policies=replace(policies, fleet=fleet, idling=tuple(reach[name] for name in sorted(reach))),
                    entries=tuple(_entries_in(spaces, names)),
                    metrics=ReplayedMetrics(known.name, histories[known.name], names, services),
                    source=source,
                )
            )
        names = frozenset(space for space in reaching if not reaching[space])
        left = MemoryCluster.copy_of(source, victim_order(source.now), _entries_in(spaces, names))
        rest[known.name] = replace(backend, cluster=left, metrics=NoMetrics())
    return parts, replace(opened, backends=rest)


def _joined_by_turns(reaching: Mapping[str, Sequence[IdlingPolicy]]) -> list[list[str]]:
    """Return the namespaces that some policy reaches, those together that wake in turns (`wakeOrder.perRun`)."""
    groups: dict[str, list[str]] = {}
    for space, found in sorted(reaching.items()):
        if not found:
            continue
        turns, joined = _turns([space], reaching), [space]
        for key in [key for key, some in groups.items() if not turns.isdisjoint(_turns(some, reaching))]:
            joined += groups.pop(key)
        groups[space] = joined
    return list(groups.values())


def _turns(spaces: Iterable[str], reaching: Mapping[str, Sequence[IdlingPolicy]]) -> set[str]:
    found = (one.wake_order for space in spaces for one in reaching[space])
    return {str(one.group) for one in found if one.per_run is not None}


def _entries_in(spaces: Mapping[str, Sequence[ManifestEntry]], names: frozenset[str]) -> Iterator[ManifestEntry]:
    """Yield what is in the namespaces, what is in none, and nothing that runs noted in ConfigMaps since the past."""
    for entry in spaces.get("", ()):
        if entry.kind not in ("Namespace", "Node") or entry.name in names or entry.name == "kube-system":
            yield entry
    for name in sorted(names):
        for entry in spaces[name]:
            if entry.kind not in ("Event", "Lease") and not entry.name.startswith(OUR_CONFIG_MAPS):
                yield entry


def played(part: Part, start: datetime, end: datetime) -> Played:
    """Return what the runs of one part come to from `start` to before `end`."""
    simulation = part.simulation()
    if any(noted_on(entry) for entry in part.entries):
        simulation.forget(part.source.now())
    recording = Recording(part.policies, simulation, end, measured=True)
    services: dict[ObjectRef, tuple[ObjectRef, ...]] = {}
    young: set[ObjectRef] = set()
    by_traffic: dict[ObjectRef, set[datetime]] = {}
    for step in simulation.past(start, end):
        recording.take(step)
        if step.at == start:
            found = scalable_workloads(step.state)
            young = {one.ref for one in found if one.created_at is not None and one.created_at > start}
        services |= {one.ref: one.services for one in step.plan.explanations if one.services}
        woken = (one.ref for one in step.plan.actions if _is_woken_by_traffic(one.decision, part.policies, step.at))
        for ref in woken:
            by_traffic.setdefault(step.targets.get(ref, ref), set()).add(step.at)
    result = recording.result(start)
    behind = {(one.namespace, one.name) for found in services.values() for one in found}
    places = range(*map(part.metrics.history.index, (start, end)))
    return Played(
        runs=result.runs,
        timelines=result.timelines,
        wakes=result.wakes,
        undecided=result.undecided,
        periods=tuple(
            period
            for one in result.timelines
            for period in _idle_periods(part, one, services.get(one.ref, ()), by_traffic.get(one.ref, ()), end)
        ),
        notes=(*notes_on(part.policies.idling, part.metrics, behind, places), *((str(ref), _YOUNG) for ref in young)),
    )


def _is_woken_by_traffic(decision: Decision, policies: PolicySet, at: datetime) -> bool:
    """Return whether `decision` is a wake that no schedule asks for at that time."""
    if decision.verb is not Verb.WAKE or _BY_TRAFFIC.isdisjoint(one.code for one in decision.cause.reasons):
        return False
    named = (one for one in policies.idling if one.name == decision.cause.policy and one.wake != "OnSignal")
    return not any(is_kept_awake_by_schedule(one, at) for one in named)


def _idle_periods(
    part: Part, timeline: WorkloadTimeline, services: Sequence[ObjectRef], woken: Collection[datetime], end: datetime
) -> Iterator[ReplayedIdlePeriod]:
    """Yield the periods in which a workload behind `services` had no replicas by an IdlingPolicy; `woken` is when
    traffic woke it.
    """
    policy = next((some for some in part.policies.idling if timeline.policy == f"IdlingPolicy {some.name}"), None)
    if policy is None or not timeline.without or not timeline.runs:
        return
    metrics, history = part.metrics, part.metrics.history
    traffic = [found for ref in services for found in traffic_of(metrics, policy, (ref.namespace, ref.name))]
    ends = {at for at, _ in timeline.steps[1:]} | {end}
    for (start, replicas), until in zip(timeline.steps, sorted(ends), strict=True):
        if replicas:
            continue
        first, last = history.index(start), history.index(until)
        arrived: dict[int, Arrivals] = {}
        for some in traffic:
            for place, found in some.arrivals(first + 1, last + 2, history.step):
                arrived[place] = found + arrived.get(place, Arrivals())
        after = arrived.pop(last + 1, Arrivals()).number
        came = tuple((history.start + place * history.step, arrived[place]) for place in sorted(arrived))
        silent = silent_times([some.values[first:last] for some in traffic])
        yield ReplayedIdlePeriod(
            ref=timeline.ref,
            policy=policy.name,
            start=start,
            end=until,
            woken_by="traffic" if until in woken else "schedule" if until < end else "",
            arrived=came if traffic else None,
            after=after,
            held=policy.wake == "OnSignal",
            missing=silent / (last - first) if traffic else 0.0,
            unit="request" if all(some.seconds for some in traffic) else "connection",
        )
