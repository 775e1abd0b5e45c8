"""Clusters with hidden room, as placement sees them, and what becomes of them when its decisions are applied.

Each cluster runs one local ReplicaSet. The controller makes and deletes pods at once, the scheduler places what fits,
the kubelet makes placed pods ready by the next tick, unless the cluster is broken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from msgspec.structs import replace

from reconciler.connection_settings import ClusterConnection
from reconciler.decide.decisions import Decision, DesiredState
from reconciler.decide.placement.decide import decide_placement
from reconciler.decide.placement.home_config_maps import MEMORY, home_of, keeper_of
from reconciler.decide.placement.recorded_status import read_status, rejection_after_failure, rejection_key, status_name
from reconciler.labels import LabelSelector
from reconciler.model import Condition, ConfigMap, ObjectRef, ObservedCluster, ObservedState, Pod, Run, Workload
from reconciler.policy.types import FederatedReplicaSet, FleetCluster, PolicySet
from tests.builders import NOW, a_fleet
from tests.decide.idling.world import after_decision

OUR_NAMESPACE = "reconciler"
SELECTOR = {"matchLabels": {"app": "web"}}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}


@dataclass
class SimPod:
    name: str
    made: datetime
    placed: bool = False
    ready: bool = False


@dataclass
class SimCluster:
    """`spec` None: there is no local ReplicaSet. `room` is how many pods fit, which nobody is told."""

    name: str
    room: int
    spec: int | None = None
    state: str = "Active"
    reachable: bool = True
    broken: bool = False
    refuses: bool = False  # admission says no to whatever asks for more
    slow: timedelta = timedelta()  # how long a pod takes until it is ready
    quota: int = 10**6  # how many pods may be made
    failing_since: datetime | None = None  # pods cannot be made
    pods: list[SimPod] = field(default_factory=list)
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    uid: str = ""
    config_maps: dict[str, ConfigMap] = field(default_factory=dict)
    made: int = 0

    @property
    def placed(self) -> int:
        return sum(pod.placed for pod in self.pods)

    @property
    def available(self) -> int:
        return sum(pod.ready for pod in self.pods)

    def lags(self, now: datetime) -> bool:
        """Whether some replica should run for a minute by now and does not."""
        late = any(not pod.ready and now - pod.made >= timedelta(minutes=1) for pod in self.pods)
        return self.spec is not None and (late or (self.failing_since is not None and len(self.pods) < self.spec))

    def control(self, now: datetime) -> None:
        """Delete what is too much (unplaced, then not ready, then young pods first), make what is missing, place it."""
        wanted = self.spec or 0
        self.pods.sort(key=lambda pod: (pod.placed, pod.ready, -pod.made.timestamp()))
        del self.pods[: max(0, len(self.pods) - wanted)]
        for _ in range(min(wanted, self.quota) - len(self.pods)):
            self.made += 1
            self.pods.append(SimPod(f"{self.name}-{self.made}", now))
        self.failing_since = None if len(self.pods) == wanted else self.failing_since or now
        self.schedule()

    def schedule(self) -> None:
        for pod in self.pods:
            if not pod.placed and self.placed < self.room:
                pod.placed = True

    def tick(self, now: datetime) -> None:
        """What happens until the next run, which is `now`."""
        self.schedule()
        for pod in self.pods:
            pod.ready = pod.ready or (pod.placed and not self.broken and now - pod.made >= self.slow)

    def observed(self, asked_for: Iterable[ObjectRef]) -> ObservedCluster:
        workload = self.workload
        pods = {} if workload is None else {workload.ref: tuple(self._pod(pod) for pod in self.pods)}
        return ObservedCluster(
            name=self.name,
            identity=self.name,
            workloads=() if workload is None else (workload,),
            config_maps=tuple(self.config_maps[name] for name in sorted(self.config_maps)),
            pods={ref: pods[ref] for ref in asked_for if ref in pods},
        )

    @property
    def workload(self) -> Workload | None:
        """The local ReplicaSet, where there is one."""
        if self.spec is None:
            return None
        return Workload(
            ref=ObjectRef(self.name, "shop", "ReplicaSet", "web", "apps"),
            uid=self.uid,
            api_version="apps/v1",
            replicas=self.spec,
            labels=dict(self.labels),
            annotations=dict(self.annotations),
            selector=LabelSelector((("app", "web"),)),
            created_at=NOW - timedelta(days=1),
            generation=2,
            observed_generation=2,
            status_replicas=len(self.pods),
            ready_replicas=self.available or None,
            available_replicas=self.available or None,
            conditions=() if self.failing_since is None else (self._failure(),),
            template=TEMPLATE,
        )

    def _failure(self) -> Condition:
        return Condition("ReplicaFailure", "True", "FailedCreate", "exceeded quota", self.failing_since)

    def _pod(self, pod: SimPod) -> Pod:
        made = int(pod.made.timestamp()) * 10**9
        return Pod(
            name=pod.name,
            node="node" if pod.placed else "",
            phase="Running" if pod.ready else "Pending",
            ready=pod.ready,
            created_ns=made,
            owner_uid=self.uid,
            unschedulable=not pod.placed,
            unscheduled_since_ns=None if pod.placed else made,
        )


@dataclass
class World:
    """The clusters, the policy, and the time."""

    clusters: list[SimCluster]
    federated: FederatedReplicaSet
    now: datetime = NOW

    @property
    def readable(self) -> list[SimCluster]:
        return [cluster for cluster in self.clusters if cluster.reachable]

    @property
    def raised(self) -> int:
        """By how much the total was raised since a status was written; all of it while there is none."""
        state = ObservedState({one.name: one.observed(()) for one in self.readable})
        status = read_status(home_of(self.policies().fleet, state).newest.get(status_name(self.federated.key)))
        return max(0, self.federated.replicas - (status.desired or 0))

    def policies(self) -> PolicySet:
        fleet = a_fleet(
            clusters=tuple(
                FleetCluster(name=one.name, connection=ClusterConnection(one.name), state=one.state)  # type: ignore[arg-type]
                for one in self.clusters
            ),
            home=self.clusters[0].name,
        )
        return PolicySet(fleet, federated=(self.federated,))

    def decided(self) -> DesiredState:
        """Return what placement decides now, its questions about pods answered."""
        desired = self._decide(())
        if desired.questions:
            desired = self._decide([question.workload for question in desired.questions])
            assert not desired.questions, "a question was asked again after it was answered"
        return desired

    def _decide(self, asked_for: Sequence[ObjectRef]) -> DesiredState:
        state = ObservedState(
            clusters={
                one.name: one.observed([ref for ref in asked_for if ref.cluster == one.name]) for one in self.readable
            },
            unreachable={one.name: "connection refused" for one in self.clusters if not one.reachable},
        )
        return decide_placement(self.policies(), state, Run(self.now, "run"), {}.get)

    def apply(self, decisions: Iterable[Decision]) -> None:
        """Carry out `decisions`; every test of what they rest on must hold."""
        by_name = {cluster.name: cluster for cluster in self.clusters}
        failed: set[str] = set()
        refused: list[ObjectRef] = []
        for decision in sorted(decisions, key=lambda decision: (decision.phase, decision.order, decision.key)):
            cluster = by_name[decision.ref.cluster]
            assert cluster.reachable, f"{decision.key}: writes to a cluster that does not answer"
            if failed.intersection(decision.needs):
                failed.add(decision.key)
            elif cluster.refuses and (decision.replicas_after or 0) > (decision.replicas_before or 0):
                failed.add(decision.key)
                refused.append(decision.ref)
            else:
                _write(cluster, decision)
        for ref in refused:
            self._remember_refusal(ref)

    def _remember_refusal(self, ref: ObjectRef) -> None:
        """What apply does when a create or update is refused."""
        keeper = keeper_of(self.policies().fleet, {one.name for one in self.readable}.__contains__)
        if not keeper:
            return
        home = next(one for one in self.clusters if one.name == keeper)
        place = ObjectRef(home.name, OUR_NAMESPACE, "ConfigMap", MEMORY)
        found = home.config_maps.get(MEMORY) or ConfigMap(place, f"uid-{MEMORY}")
        text = rejection_after_failure(found.data.get(rejection_key(ref)), ref, "exceeded quota", self.now)
        home.config_maps[MEMORY] = replace(found, data={**found.data, rejection_key(ref): text})

    def control(self) -> None:
        for cluster in self.clusters:
            cluster.control(self.now)

    def pass_time(self, tick: timedelta) -> None:
        self.now += tick
        for cluster in self.clusters:
            cluster.control(self.now)  # a quota that was raised
            cluster.tick(self.now)


def _write(cluster: SimCluster, decision: Decision) -> None:
    if decision.ref.kind == "ConfigMap":
        name = decision.ref.name
        after = after_decision(cluster.config_maps.pop(name, None), decision, f"uid-{name}")
        cluster.config_maps |= {} if after is None else {name: after}
        return
    after = after_decision(cluster.workload, decision, f"uid-{cluster.name}")
    cluster.spec, cluster.uid = after.replicas, after.uid
    cluster.annotations, cluster.labels = dict(after.annotations), dict(after.labels)
