"""A Fleet of three clusters in memory that real plans are made of and carried out on, and everybody else who writes
there: people, GitOps, autoscalers. What is written, and by whom, is told to a watch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Protocol

from msgspec.structs import replace

from reconciler.apply.outcomes import OutcomeStatus
from reconciler.backends.backend import Backend
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.decide.annotations import format_time
from reconciler.decide.decisions import DesiredState
from reconciler.decide.desired_state import decide
from reconciler.errors import NotFoundError, RefusedError, UnreachableError
from reconciler.model import (
    ObjectRef,
    ObservedState,
    PatchOperation,
    QueryAnswer,
    Run,
    Sample,
    Workload,
    Write,
    pointer,
)
from reconciler.observe.cluster_readers import Readers
from reconciler.pipeline import Applied, Control, RunRequest, carry_out, plan
from reconciler.plan.model import Plan
from reconciler.policy.types import PolicySet
from reconciler.time_limit import SettledClock, TimeLimit
from reconciler.worker_pool import WorkerPool
from reconciler.world import World, victim_order
from tests.fakes import an_access
from tests.real import objects
from tests.real.api import Object

CLUSTERS = ("east", "west", "north")
PAUSED = "autoscaling.keda.sh/paused-replicas"
_HERE = WorkerPool(0)

ROWS: tuple[tuple[str, str, str, int], ...] = (  # what runs at the beginning
    ("east", "Deployment", "web", 3),
    ("east", "Deployment", "api", 4),
    ("east", "Deployment", "queue", 2),
    ("east", "Deployment", "batch", 5),
    ("east", "StatefulSet", "db", 1),
    ("east", "CronJob", "nightly", 1),
    ("east", "ScaledObject", "jobs", 0),
    ("east", "Deployment", "front", 2),
    ("west", "Deployment", "front", 3),
    ("north", "Deployment", "front", 4),
    ("west", "Deployment", "web", 2),
)
GROUPS = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "ReplicaSet": "apps",
    "CronJob": "batch",
    "ScaledObject": "keda.sh",
}
SERVICES = ("web", "api", "queue", "front", "spread", "all")
REVISED = ("web", "api")  # Deployments in east whose ReplicaSets are there, with the copies of their annotations


def ref_of(cluster: str, kind: str, name: str) -> ObjectRef:
    return ObjectRef(cluster, "shop", kind, name, GROUPS.get(kind, ""))


def a_manifest(kind: str, name: str, count: int, uid: str, **annotations: str) -> Object:
    """A workload that is settled, and that kubectl wrote; a CronJob with a count of 0 is suspended."""
    path = ("spec", "suspend" if kind == "CronJob" else "replicas")
    metadata = {"uid": uid, "labels": {"app": name}, "generation": 1, "managedFields": [written_by("kubectl", path)]}
    if annotations:
        metadata["annotations"] = annotations
    if kind == "CronJob":
        return objects.with_metadata(in_shop(objects.a_cron_job(name, suspend=not count)), **metadata)
    if kind == "ScaledObject":
        return in_shop(objects.for_deployment("keda.sh/v1alpha1", kind, "queue", triggers=[]), name=name, uid=uid)
    made = objects.a_deployment(name, count, kind=kind, labels={"tier": "app"} if name in ("web", "api") else {})
    return objects.with_metadata(in_shop(made), **metadata) | {"status": objects.status_of(kind, count)}


def in_shop(one: Object, **metadata: Any) -> Object:
    return objects.with_metadata(one, namespace="shop", **metadata)


def written_by(manager: str, path: Sequence[str], at: datetime | None = None) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for key in reversed(path):
        fields = {f"f:{key}": fields}
    entry = {"manager": manager, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}
    return entry if at is None else {**entry, "time": format_time(at)}


def a_service(name: str, uid: str = "") -> Object:
    made = in_shop(objects.a_service(name), uid=uid or f"uid-service-{name}")
    return made | {"spec": {**made["spec"], "selector": {"tier": "app"} if name == "all" else {"app": name}}}


def a_revision(name: str, number: int, replicas: int, owner_uid: str, annotations: Mapping[str, str]) -> dict[str, Any]:
    """A ReplicaSet of a Deployment."""
    made = a_manifest("ReplicaSet", f"{name}-{number}", replicas, f"uid-{name}-{number}", **annotations)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": owner_uid, "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


@cache
def _at_first(cluster: str) -> MemoryCluster:
    """The cluster as it is at the beginning of every history; nobody changes it."""
    made = [objects.a_namespace(name) for name in ("kube-system", "shop", "reconciler")]
    made += [a_manifest(kind, name, count, f"uid-{name}") for at, kind, name, count in ROWS if at == cluster]
    made += [a_service(name) for name in SERVICES]
    if cluster == "east":
        counts = {name: count for at, kind, name, count in ROWS if (at, kind) == ("east", "Deployment")}
        made += [
            in_shop(objects.an_autoscaler("api", 2, 6)),
            *(a_revision(name, 0, counts[name], f"uid-{name}", {}) for name in REVISED),
        ]
    return MemoryCluster.of_manifests(cluster, made, victim_order(lambda: datetime.min))


class Watch(Protocol):
    """Who is told of every write of ours, before the next one."""

    def wrote(self, write: Write, before: Workload | None, after: Workload | None) -> None: ...


class Faults:
    """What goes wrong in one run: after `crash` writes nothing is written any more; `refused` are places of writes that
    the server says no to; `lost` those that are done and not answered; before each write of `meanwhile` somebody does
    that.
    """

    def __init__(
        self,
        crash: int | None = None,
        refused: Sequence[int] = (),
        lost: Sequence[int] = (),
        meanwhile: Mapping[int, Callable[[], None]] | None = None,
    ) -> None:
        self.crash, self.refused, self.lost = crash, frozenset(refused), frozenset(lost)
        self._meanwhile = dict(meanwhile or {})
        self.writes = 0

    def before(self, write: Write) -> bool:
        """Raise where the write is not done; return whether its answer is lost."""
        place, self.writes = self.writes, self.writes + 1
        self._meanwhile.pop(place, lambda: None)()
        if self.crash is not None and place >= self.crash:
            raise UnreachableError(f"{write.ref}: we are dead")
        if place in self.refused:
            raise RefusedError(f"{write.ref}: exceeded quota")
        return place in self.lost


class Guarded:
    """One cluster as runs see it: it may be away, and writes may fail."""

    def __init__(self, loop: LoopWorld, name: str) -> None:
        self._loop, self.name = loop, name

    def __getattr__(self, method: str) -> Any:
        """Ask the cluster, where it answers."""
        if self.name in self._loop.down:
            raise UnreachableError(f"{self.name}: no answer")
        return getattr(self._loop.clusters[self.name], method)

    def write(self, write: Write) -> None:
        if self.name in self._loop.down:
            raise UnreachableError(f"{self.name}: no answer")
        if write.verb == "event":
            return
        lost = self._loop.faults.before(write)
        cluster = self._loop.clusters[self.name]
        before = cluster.workload(write.ref)
        cluster.write(write)
        self._loop.copy_annotations(write.ref)
        self._loop.watch.wrote(write, before, cluster.workload(write.ref))
        if lost:
            raise UnreachableError(f"{write.ref}: the answer was lost")


class Requests:
    """The metrics of one cluster: requests by Service; None is no series."""

    def __init__(self, loop: LoopWorld) -> None:
        self._loop = loop

    def query(self, text: str) -> QueryAnswer:
        found = sorted(self._loop.traffic.items())
        return QueryAnswer(tuple(Sample({"namespace": "shop", "service": k}, v) for k, v in found if v is not None))


class LoopWorld:
    """The clusters, the time, and who writes. `watch` is told of every write of ours."""

    def __init__(self, begin: datetime, watch: Watch) -> None:
        self.now, self.watch = begin, watch
        order = victim_order(lambda: self.now)
        self.clusters = {name: MemoryCluster(name, _at_first(name).entries(), victim_order=order) for name in CLUSTERS}
        self.down: frozenset[str] = frozenset()
        self.traffic: dict[str, float | None] = dict.fromkeys(SERVICES, 0.0)
        self.faults = Faults()
        self.desired: DesiredState = DesiredState()
        self.seen: ObservedState = ObservedState({})
        self._made = 0
        self._revisions: dict[ObjectRef, list[int]] = {}  # of a Deployment the numbers of its ReplicaSets, newest last
        guarded = {name: Guarded(self, name) for name in CLUSTERS}
        self._world = World(
            {name: Backend(name, one, Requests(self)) for name, one in guarded.items()},
            {name: an_access(one, limit=TimeLimit(clock=SettledClock()), pool=_HERE) for name, one in guarded.items()},
            "snapshot",
            Readers(_HERE),
        )

    # our runs

    def plan(self, policies: PolicySet, *, allow: bool = False, how: Any = None) -> Plan:
        """Plan now; `desired` is what it was made of."""

        def decided(chosen: PolicySet, state: ObservedState, run: Run) -> DesiredState:
            self.seen = state
            self.desired = (how or decide)(chosen, state, run)
            return self.desired

        return plan(policies, self._world, RunRequest(self.now, allow_removed=allow), decided)

    def apply(self, made: Plan, policies: PolicySet, faults: Faults) -> Applied:
        self.faults = faults
        control = Control(choose=lambda one: one.actions, progress=lambda _action, _outcome: None)
        return carry_out(made, policies.fleet, self._world, control, {})

    # what is there

    def workloads(self) -> dict[ObjectRef, Workload]:
        """Every workload that nothing else owns."""
        found = {}
        for name, cluster in self.clusters.items():
            for entry in cluster.entries():
                if entry.kind in GROUPS:
                    one = cluster.workload(ObjectRef(name, entry.namespace, entry.kind, entry.name, entry.group))
                    if one is not None and one.owner is None:
                        found[one.ref] = one
        return found

    def workload(self, ref: ObjectRef) -> Workload | None:
        return self.clusters[ref.cluster].workload(ref)

    def annotations(self, ref: ObjectRef) -> dict[str, str]:
        """Those of an object, {} where it is not there."""
        try:
            return dict(self.clusters[ref.cluster].manifest(ref)["metadata"].get("annotations") or {})
        except NotFoundError:
            return {}

    def annotated(self) -> dict[ObjectRef, dict[str, str]]:
        """The annotations of every object."""
        return {
            ref: dict(entry.file.value_of(entry)["metadata"].get("annotations") or {})
            for name, cluster in self.clusters.items()
            for entry in cluster.entries()
            for ref in (ObjectRef(name, entry.namespace, entry.kind, entry.name, entry.group),)
        }

    def replicas(self, ref: ObjectRef) -> int:
        """The replicas of a workload; a CronJob has 1, suspended 0, and a ScaledObject those of its target."""
        found = self.workload(ref)
        if found is None:
            return 0
        return (
            self.replicas(ref_of(ref.cluster, "Deployment", "queue"))
            if ref.kind == "ScaledObject"
            else found.spec_replicas
        )

    # what others do

    def patch(self, ref: ObjectRef, values: Mapping[tuple[str, ...], Any]) -> bool:
        """Somebody sets fields; None takes one off. Nothing where the object is not there, or its cluster is away."""
        if ref.cluster in self.down:
            return False
        cluster = self.clusters[ref.cluster]
        try:
            manifest = cluster.manifest(ref)
        except NotFoundError:
            return False
        operations = [one for path, value in values.items() for one in _operations(manifest, path, value)]
        cluster.write(Write("patch", ref, "", patch=tuple(operations)))
        self.copy_annotations(ref)
        return True

    def scale(self, ref: ObjectRef, count: int, by: str = "kubectl") -> None:
        """Somebody scales a workload (or suspends a CronJob)."""
        path = ("spec", "suspend") if ref.kind == "CronJob" else ("spec", "replicas")
        if self.patch(ref, {path: count == 0 if ref.kind == "CronJob" else count}):
            self.patch(ref, {("metadata", "managedFields"): [written_by(by, path, self.now)]})

    def annotate(self, ref: ObjectRef, key: str, text: str | None) -> None:
        self.patch(ref, {("metadata", "annotations", key): text})

    def delete(self, ref: ObjectRef) -> None:
        if ref.cluster not in self.down and ref in self.workloads() | dict.fromkeys(self.annotated()):
            self.clusters[ref.cluster].write(Write("delete", ref, ""))
            if ref.kind == "Deployment":  # what it owns goes with it
                for number in self._revisions.setdefault(ref, [0] if ref.name in REVISED else []):
                    self.delete(replace(ref, kind="ReplicaSet", name=f"{ref.name}-{number}"))
                self._revisions[ref] = []

    def create(self, cluster: str, manifest: dict[str, Any]) -> None:
        """Somebody makes an object anew, whatever was there of its name."""
        if cluster in self.down:
            return
        self._made += 1
        ref = ref_of(cluster, manifest["kind"], manifest["metadata"]["name"])
        self.delete(ref)
        own = {"uid": f"uid-made-{self._made}", "creationTimestamp": format_time(self.now)}
        made = {**manifest, "metadata": {**manifest["metadata"], **own}}
        self.clusters[cluster].write(Write("create", ref, made["apiVersion"], manifest=made))
        if ref.kind == "Deployment":
            self.revise(ref)

    def need_pods(self, cluster: str, service: str) -> None:
        """Somebody writes an Event that a Service needs pods."""
        involved = {"kind": "Service", "namespace": "shop", "name": service}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"needs-{service}", "namespace": "shop"},
                 "reason": "NeedPods", "involvedObject": involved, "lastTimestamp": format_time(self.now)}  # fmt: skip
        self.create(cluster, event)

    def copy_annotations(self, ref: ObjectRef) -> None:
        """The Deployment controller copies annotations to the newest ReplicaSet, and never takes one off there."""
        if ref.cluster == "east" and ref.kind == "Deployment" and ref.name in REVISED:
            newest = self.revision(ref, -1)
            if newest is not None and not newest.items() >= (copied := self.annotations(ref)).items():
                self.patch(self._ref_of_revision(ref, -1), {("metadata", "annotations"): {**newest, **copied}})

    def revision(self, ref: ObjectRef, place: int) -> dict[str, str] | None:
        """The annotations of a ReplicaSet of a Deployment, by its place among them; None where it is not there."""
        numbers = self._revisions.setdefault(ref, [0])
        return self.annotations(self._ref_of_revision(ref, place)) if len(numbers) >= abs(place) else None

    def _ref_of_revision(self, ref: ObjectRef, place: int) -> ObjectRef:
        return replace(ref, kind="ReplicaSet", name=f"{ref.name}-{self._revisions[ref][place]}")

    def revise(self, ref: ObjectRef) -> None:
        """A new revision of a Deployment: the ReplicaSet of the one before keeps the annotations that it has."""
        found = self.workload(ref)
        if ref.name in REVISED and ref.cluster == "east" and found is not None and ref.cluster not in self.down:
            numbers = self._revisions.setdefault(ref, [0])
            numbers.append(max(numbers, default=0) + 1)
            made = a_revision(ref.name, numbers[-1], found.spec_replicas, found.uid, self.annotations(ref))
            self.create(ref.cluster, made)

    def undo(self, ref: ObjectRef) -> None:
        """`kubectl rollout undo`: all annotations of a Deployment become those of the revision before."""
        former = self.revision(ref, -2)
        if former is not None and self.patch(ref, {("metadata", "annotations"): former}):
            self._revisions[ref].append(self._revisions[ref].pop(-2))
            self.copy_annotations(ref)

    def controllers(self) -> None:
        """The HorizontalPodAutoscaler and KEDA do their part."""
        found = self.clusters["east"].manifest(
            ObjectRef("east", "shop", "HorizontalPodAutoscaler", "api", "autoscaling")
        )
        api = ref_of("east", "Deployment", "api")
        count, spec = self.replicas(api), found["spec"]
        at_zero = spec.get("minReplicas", 1) == 0 and self.traffic.get("api")  # then it goes on at zero replicas
        wanted = min(max(count, spec.get("minReplicas", 1), 1 if at_zero else 0), spec["maxReplicas"])
        if (count or at_zero) and count != wanted:
            self.scale(api, wanted, "kube-controller-manager")
        jobs, queue = self.workload(ref_of("east", "ScaledObject", "jobs")), ref_of("east", "Deployment", "queue")
        if jobs is not None and self.workload(queue) is not None:
            paused = jobs.annotations.get(PAUSED)
            wanted = int(paused) if paused is not None else max(1, self.replicas(queue))
            if wanted != self.replicas(queue):
                self.scale(queue, wanted, "keda-operator")


def _operations(manifest: Any, path: tuple[str, ...], value: Any) -> list[PatchOperation]:
    for place, key in enumerate(path[:-1]):
        manifest = manifest.get(key)
        if manifest is None:
            if value is None:
                return []
            for inner in reversed(path[place + 1 :]):
                value = {inner: value}
            return [PatchOperation("add", pointer(path[: place + 1]), value)]
    if value is None:
        return [PatchOperation("remove", pointer(path))] if path[-1] in manifest else []
    return [PatchOperation("add", pointer(path), value)]


def all_applied(applied: Applied) -> bool:
    return all(one.status is OutcomeStatus.APPLIED for one in applied.outcomes)


TICK = timedelta(minutes=11)  # longer than unschedulableAfter and clusterGracePeriod
