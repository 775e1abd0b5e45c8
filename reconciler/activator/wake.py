"""A signal wakes the workloads of a Service, as `reconciler wake` decides and a run carries out, without the lock."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias, TypeVar

from msgspec.structs import replace

from reconciler.activator.activation import Activation
from reconciler.activator.activation_context import ActivatorMetrics
from reconciler.activator.background import BackgroundTasks, pauses
from reconciler.activator.objects import NamespacedName
from reconciler.apply.access import unlocked
from reconciler.apply.action_runs import ActionRuns
from reconciler.apply.events import event_manifest, event_write
from reconciler.apply.outcomes import OutcomeStatus
from reconciler.backends.backend import Backend
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.request_limits import ReadBudget
from reconciler.backends.protocols import CONFIG_MAPS, ENDPOINTS, EVENTS, PODS, SERVICES, Resource
from reconciler.connection_settings import ClusterConnection
from reconciler.decide.annotations import Key, format_time, read_time
from reconciler.decide.decisions import Decision, annotation_changes, annotation_tests
from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.decide.idling.idle_workloads import once_asked
from reconciler.decide.idling.restore import of_every_fleet
from reconciler.decide.idling.service_records import ServiceRecord, foreign_record_cleared, read_service_record
from reconciler.errors import ClusterError, reason_of
from reconciler.model import (
    NEED_PODS,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    Run,
    Service,
    Workload,
    Write,
    unreadable_key,
)
from reconciler.observe.cluster_readers import Readers
from reconciler.observe.clusters import observe
from reconciler.observe.needed_objects import Scope
from reconciler.plan.json_patch import annotation_patch
from reconciler.plan.order import in_order, numbered_actions
from reconciler.policy.types import Fleet, FleetCluster, Place, PolicySet
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool
from reconciler.workload_kinds import SCALABLE_KINDS, WorkloadKind

CLUSTER = "cluster"
"""What the one cluster of an activator is called in messages."""


_UNREAD = (ENDPOINTS, EVENTS, CONFIG_MAPS, PODS)
"""What a wake needs nothing of, so that the right to read it is not needed either."""

_SERVICES = unreadable_key(SERVICES.group, SERVICES.plural)
_DISCOVERED_SECONDS = 300.0

_AHEAD = timedelta(days=1)
"""How far the clock of who idled may be ahead of ours; a time beyond was not written by a run."""
_READERS = 4
_WRITERS = 16
"""Services of one namespace that are woken at a time."""

T = TypeVar("T")
IdleServices: TypeAlias = dict[str, tuple[Service, ServiceRecord]]


class WakeView(KubernetesCluster):
    """One cluster as a wake reads and writes it. Which kinds it serves is asked anew every few minutes."""

    def __init__(self, client: ApiClient) -> None:
        super().__init__(CLUSTER, client, budget=ReadBudget())
        self._asked = TimeLimit(0)

    def begin(self) -> None:
        """Let another reading begin, with all its pages."""
        self._budget.renew()

    def identity(self) -> str:
        """Return "": nothing is compared by it where there is one cluster."""
        return ""

    def scale_kinds(self) -> tuple[WorkloadKind, ...]:
        if self._asked.over:
            self.forget_kinds()
            self._asked = TimeLimit(_DISCOVERED_SECONDS)
        return super().scale_kinds()

    def list(self, resource: Resource[T], *, namespace: str = "", labels: str = "") -> tuple[T, ...]:
        return () if resource in _UNREAD else super().list(resource, namespace=namespace, labels=labels)

    def write(self, write: Write) -> None:
        """Carry out `write`, but for an Event that is counted on: about what failed, which is tried again soon."""
        if write.verb != "event" or not write.patch:
            super().write(write)


class Waker:
    """Wakes Services; any thread may call it. `now` gives the time; `read_only`: it only writes Events."""

    def __init__(self, view: WakeView, namespace: str, now: Callable[[], datetime], *, read_only: bool = False) -> None:
        self._view = view
        self._access = unlocked(view, namespace, TimeLimit())
        self._now = now
        self.read_only = read_only
        self._readers = Readers(WorkerPool(2 * _READERS, _READERS), seconds=30.0)
        self._writers = WorkerPool()
        cluster = FleetCluster(name=CLUSTER, connection=ClusterConnection(CLUSTER))
        self._fleet = Fleet(
            name="activator",
            place=Place("activator"),
            clusters=(cluster,),
            home=CLUSTER,
            namespace=namespace,
        )

    def wake(self, namespace: str, names: Collection[str]) -> dict[str, str]:
        """Wake the Services `names` of a namespace, which is read once for all of them.

        Return for each what is wrong, "" where it was woken. What was not idle any more is left out.
        """
        state = self._observed(namespace)
        if CLUSTER not in state.clusters:
            return dict.fromkeys(names, state.unreachable.get(CLUSTER, "it cannot be read"))
        cluster = state.clusters[CLUSTER]
        idle: IdleServices = {}
        for service in cluster.services:
            reading = read_service_record(service.ref, service.annotations, frozenset(), _GROUPS)
            if reading is not None and reading.record is not None and service.ref.name in names:
                idle[service.ref.name] = service, reading.record
        if _SERVICES in cluster.unreadable:
            return dict.fromkeys(names, cluster.unreadable[_SERVICES])
        problems = dict.fromkeys(idle, "")
        own = self._now()
        for now, together in _by_time(idle, own).items():
            if now - own > _AHEAD:
                ahead = f"idled-at is {format_time(now)}, expected at most a day after {format_time(own)}"
                problems |= dict.fromkeys(together, ahead)
            else:
                problems |= self._wake_together(cluster, together, now)
        return problems

    def _wake_together(self, cluster: ObservedCluster, idle: IdleServices, now: datetime) -> dict[str, str]:
        """Wake the Services `idle` as of `now`; return for each what is wrong, "" if nothing."""
        problems = self._each(idle, lambda service, record: self._request(service, record, now))
        if self.read_only:
            return problems
        refs = {service.ref for service, _ in idle.values()}
        asked = once_asked(cluster, refs, {Key.WAKE_REQUESTED_AT: format_time(now)})
        return problems | self._carry_out(asked, idle, Run(now, f"activator-{secrets.token_hex(6)}"))

    def tell_problem(self, name: tuple[str, str], uid: str, words: tuple[str, str]) -> None:
        """Report a problem with an Event on a Service, once for all activators; `words` are its reason and message."""
        ref = ObjectRef(CLUSTER, name[0], "Service", name[1])
        self._tell(_event(ref, uid, f"{uid}.{words[0].lower()}", words, self._now()))

    def _observed(self, namespace: str) -> ObservedState:
        sources = {CLUSTER: Backend(CLUSTER, self._view, begin=self._view.begin)}
        return observe(PolicySet(self._fleet), sources, scope=Scope(namespace, alone=True), readers=self._readers)

    def _each(self, idle: IdleServices, work: Callable[[Service, ServiceRecord], None]) -> dict[str, str]:
        """Do `work` for each of the Services, several at a time; return for each what is wrong, "" if nothing."""
        failures = self._writers.failures(CLUSTER, lambda both: work(*both), tuple(idle.values()), _WRITERS)
        return {name: "" if error is None else reason_of(error) for name, error in zip(idle, failures, strict=True)}

    def _request(self, service: Service, record: ServiceRecord, now: datetime) -> None:
        """Say that the Service needs pods: with an Event, and with the annotation that every run reads.

        Raises:
            ClusterError: it cannot be written; so do all that follow here.
        """
        known = read_time(service.annotations.get(Key.WAKE_REQUESTED_AT))
        if known is not None and known >= record.idled_at:
            return
        self._annotate(service, {Key.WAKE_REQUESTED_AT: format_time(now)})
        # The same for all activators, so that there is one for each idling; the annotation says it too.
        name = f"{int(record.idled_at.timestamp()):x}.needpods"
        words = (NEED_PODS, "traffic came for a Service that is idle")
        self._tell(_event(service.ref, service.uid, name, words, now))

    def _annotate(self, target: Service | Workload, wanted: Mapping[str, str | None], *tests: str) -> None:
        """Write the annotations `wanted`, as long as those in `tests` are what was read."""
        changes = (*annotation_changes(target.annotations, wanted), *annotation_tests(target.annotations, tests))
        self._view.write(annotation_patch(target, changes))

    def _carry_out(self, cluster: ObservedCluster, idle: IdleServices, run: Run) -> dict[str, str]:
        """Wake what is idle behind the Services `idle`; where nothing is to be woken, clear their records."""
        state = ObservedState({CLUSTER: cluster})
        decisions = decide_wakes_due(of_every_fleet(self._fleet, state), state, run).decisions
        decided: dict[ObjectRef, set[str]] = {}  # the groups of the decisions about an object
        for decision in decisions:
            decided.setdefault(decision.ref, set()).add(decision.group)
        groups = {
            name: set().union(*(decided.get(ref, ()) for ref in (service.ref, *record.targets)))
            for name, (service, record) in idle.items()
        }
        workloads = {workload.ref: workload for workload in cluster.workloads}

        def prepare(service: Service, record: ServiceRecord) -> None:
            known = [workloads[ref] for ref in record.targets if ref in workloads]
            # Before the record goes: what a run idles meanwhile would stand at zero, and nothing would record it.
            self._keep_awake([workload for workload in known if workload.ref not in decided], record, run)
            if not groups[service.ref.name]:
                self._clear(known, service, record)

        problems = self._each(idle, prepare)
        # Services of one group wake together: what keeps one of them back is said of all, and all are tried again.
        failed = {group: why for name, why in problems.items() if why for group in groups[name]}
        carried_out = set().union(*groups.values()) - failed.keys()
        failed |= self._written([decision for decision in decisions if decision.group in carried_out], run)
        for name, own in groups.items():
            more = (*(failed[group] for group in own if group in failed), *_unread(cluster, workloads, idle[name][1]))
            problems[name] = "; ".join(dict.fromkeys(filter(None, (problems[name], *more))))
        return problems

    def _written(self, decisions: Iterable[Decision], run: Run) -> dict[str, str]:
        """Carry out `decisions` as a run does; return what is wrong with the groups of those that were not done.

        Somebody waits for all of them: no tier waits until another one is ready.
        """
        actions = numbered_actions(in_order([replace(decision, wake_tier="", wait_ready="") for decision in decisions]))
        accesses = {CLUSTER: self._access}
        limit, pool = self._access.limit, WorkerPool(_WRITERS)  # a namespace that hangs keeps no other one waiting
        outcomes = ActionRuns(actions, accesses, run, self._fleet.namespace, limit, pool=pool).carry_out()
        failed: dict[str, str] = {}
        for action, outcome in zip(actions, outcomes, strict=True):
            if outcome.status is not OutcomeStatus.APPLIED:
                failed.setdefault(action.decision.group, outcome.message)
        return failed

    def _tell(self, event: Write) -> None:
        with suppress(ClusterError):  # what it reports was done
            self._view.write(event)

    def _clear(self, known: Collection[Workload], service: Service, record: ServiceRecord) -> None:
        """Clear the record of a Service behind which everything runs; `known` are those of its targets that were read.

        Source: seed idling-and-unidling.md, "Unidling", steps 3.2 and 4 to 6.
        """
        are_up = all(
            Key.IDLED_AT not in workload.annotations and workload.spec_replicas > record.idled_to for workload in known
        )
        # Of somebody else's record, or where not all of it is known to run, a run looks at it.
        if Key.IDLED_AT in service.annotations and are_up and len(known) >= len(record.targets):
            self._annotate(service, foreign_record_cleared())

    def _keep_awake(self, undecided: Iterable[Workload], record: ServiceRecord, run: Run) -> None:
        """Keep up what a run has not idled yet: it is between the record and the scale.

        Its own patch tests `awake-since`, so that it is refused now: otherwise it would stand at zero although a signal
        came, and nobody would know of it.
        """
        for workload in undecided:
            since = read_time(workload.annotations.get(Key.AWAKE_SINCE))
            if Key.IDLED_AT not in workload.annotations and (since is None or since < record.idled_at):
                self._annotate(workload, {Key.AWAKE_SINCE: format_time(run.now)}, Key.IDLED_AT)


def _by_time(idle: IdleServices, now: datetime) -> dict[datetime, IdleServices]:
    """Return the Services by the time at which they are woken.

    The clocks of a run and of this process may differ: a request from before the idling would not count.
    """
    found: dict[datetime, IdleServices] = {}
    for name, (service, record) in idle.items():
        found.setdefault(max(now, record.idled_at), {})[name] = (service, record)
    return found


def _unread(cluster: ObservedCluster, known: Collection[ObjectRef], record: ServiceRecord) -> list[str]:
    """Return why targets of a Service are unknown: they are not woken, and nobody knows whether they run."""
    keys = {cluster.unread(ref.group, ref.kind) for ref in record.targets if ref not in known} - {""}
    return sorted({cluster.unreadable[key] for key in keys})


_GROUPS = {kind: group for group, kind in SCALABLE_KINDS}


def _event(about: ObjectRef, uid: str, name: str, words: tuple[str, str], now: datetime) -> Write:
    """Return an Event about a Service; `words` are its reason and its message, `name` how it differs from others."""
    source = {"source": {"component": "reconciler-activator"}, "reportingComponent": "reconciler/activator"}
    return event_write(CLUSTER, event_manifest((about, "v1", uid), name, words, Run(now, "activator")) | source)


_NAMESPACES = 4
"""How many namespaces are woken at a time."""


@dataclass(eq=False)
class WakeQueue:
    """Services that traffic came for, woken soon by `waker`, those of one namespace together; each that fails is tried
    again as long as its one of `activations` has traffic, after pauses that grow, and keeps no other one waiting.
    """

    waker: Waker
    metrics: ActivatorMetrics
    tasks: BackgroundTasks
    activations: Mapping[NamespacedName, Activation]

    def __post_init__(self) -> None:
        self._names: dict[str, set[str]] = {}  # by namespace
        self._pauses: dict[NamespacedName, Iterator[float]] = {}  # of those that failed
        self._paused: set[NamespacedName] = set()
        self._threads = ThreadPoolExecutor(_NAMESPACES, thread_name_prefix="wake")

    def add(self, service: NamespacedName) -> None:
        """Wake a Service soon, with others of its namespace that wait for that; one that failed after its pause."""
        if service not in self._paused:
            self._start(service)

    def _start(self, service: NamespacedName) -> None:
        namespace, name = service
        self._paused.discard(service)
        self._names.setdefault(namespace, set()).add(name)
        self.tasks.start(("wake", namespace), partial(self._wake, namespace))

    def end(self) -> None:
        """Begin no more wakes."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _wake(self, namespace: str) -> None:
        while names := frozenset(self._names.pop(namespace, ())):
            try:
                wake = partial(self.waker.wake, namespace, names)
                problems = await asyncio.get_running_loop().run_in_executor(self._threads, wake)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is reported, and tried again
                problems = dict.fromkeys(names, reason_of(error))
            failed = {name: why for name, why in problems.items() if why}
            self.metrics.counters["woken"] += 0 if self.waker.read_only else len(problems) - len(failed)
            self.metrics.counters["wake_failures"] += len(failed)
            for name in names:
                service = (namespace, name)
                self.tasks.failed(("wake", service), failed.get(name, ""))
                activation = self.activations.get(service)
                if name in failed and activation is not None and activation.has_traffic:
                    self._pause(service)
                else:
                    self._pauses.pop(service, None)

    def _pause(self, service: NamespacedName) -> None:
        """Try a Service again after its next pause, not before, also where more traffic came meanwhile."""
        self._paused.add(service)
        self._names.get(service[0], set()).discard(service[1])
        pause = next(self._pauses.setdefault(service, pauses()))
        asyncio.get_running_loop().call_later(pause, self._start, service)
