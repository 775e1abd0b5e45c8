"""The current state of a workload that is to be scaled down, read from its cluster."""

from __future__ import annotations

from msgspec import Struct

from reconciler.apply.outcomes import Access
from reconciler.backends.protocols import AUTOSCALERS, NODES, PODS, SCALED_OBJECT, Resource, workloads_of
from reconciler.decide.autoscalers import autoscalers_of, shrunk_by
from reconciler.decide.decisions import Decision, DownscaleSettings
from reconciler.decide.downscale.victim_choice import DEFAULT, PodGroup, pod_group
from reconciler.decide.downscale.victim_forecast import domains_of
from reconciler.decide.workloads import THROUGH_REPLICA_SETS, own_key, owner_key
from reconciler.errors import NotFoundError, StaleError
from reconciler.labels import selector_text
from reconciler.model import ObjectRef, ObservedCluster, Pod, Run, Workload


class Task(Struct, frozen=True):
    """One workload to scale down."""

    decision: Decision
    access: Access
    run: Run

    @property
    def ref(self) -> ObjectRef:
        return self.decision.ref

    @property
    def settings(self) -> DownscaleSettings:
        return self.decision.downscale or DEFAULT

    @property
    def before(self) -> int:
        return self.decision.replicas_before or 0

    @property
    def after(self) -> int:
        return self.decision.replicas_after or 0


class LiveWorkload(Struct, frozen=True):
    """The workload and all of its pods."""

    workload: Workload
    pods: tuple[Pod, ...]

    @property
    def group(self) -> PodGroup:
        return pod_group(self.workload.ref.kind, self.pods)


def live_workload(task: Task) -> LiveWorkload:
    """Return what is there now.

    Raises:
        NotFoundError: the workload is gone. ClusterError: it cannot be read.
    """
    cluster, ref = task.access.cluster, task.ref
    workload = cluster.get(_resource_of(task), ref.namespace, ref.name)
    owners = {workload.uid}
    if ref.kind in THROUGH_REPLICA_SETS:
        sets = cluster.list(_replica_sets(task), namespace=ref.namespace)
        owners |= {one.uid for one in sets if owner_key(one) == own_key(workload)}
    pods = cluster.list(PODS, namespace=ref.namespace, labels=selector_text(workload.selector))
    return LiveWorkload(workload, tuple(pod for pod in pods if pod.owner_uid in owners))


def check_as_planned(task: Task, workload: Workload) -> None:
    """Check that `workload` is still what the plan saw.

    Raises:
        StaleError: it is not.
    """
    if workload.uid != task.decision.uid or workload.terminating:
        raise StaleError(f"{task.ref}: is another object or being deleted, expected the one of the plan; plan again")
    if workload.spec_replicas != task.before:
        raise StaleError(f"{task.ref}: replicas are {workload.spec_replicas}, expected {task.before}; plan again")


def autoscaler_of(task: Task) -> str | None:
    """Return the name of the autoscaler that scales the workload down too, None where there is none."""
    cluster, namespace = task.access.cluster, task.ref.namespace
    around = ObservedCluster(
        name=cluster.name,
        identity="",
        workloads=cluster.list(workloads_of(SCALED_OBJECT), namespace=namespace),
        autoscalers=cluster.list(AUTOSCALERS, namespace=namespace),
    )
    return shrunk_by(autoscalers_of(around), task.ref)


def domains(task: Task) -> dict[str, str]:
    """Return the domain of each node by its name."""
    return domains_of(task.access.cluster.list(NODES), task.settings.topology_key)


def _resource_of(task: Task) -> Resource[Workload]:
    for kind in task.access.cluster.scale_kinds():
        if (kind.group, kind.kind) == (task.ref.group, task.ref.kind):
            return workloads_of(kind)
    raise NotFoundError(f"{task.ref}: {task.ref.kind} has no scale in this cluster, expected one")


def _replica_sets(task: Task) -> Resource[Workload]:
    kinds = task.access.cluster.scale_kinds()
    return next(workloads_of(kind) for kind in kinds if (kind.group, kind.kind) == ("apps", "ReplicaSet"))
