"""The kinds of workloads: how each is called, where its scale stands, and who owns its pods.

A new kind is one row of `WORKLOAD_KINDS`, and a decoder in `backends/decode` where its manifest has a shape of its own.
A kind that is switched off in place of being scaled is one row of `_SWITCHES`. A Fleet uses one by naming apiVersion
and kind in `spec.switches`; another path in a Fleet takes precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any, Literal

from msgspec import Struct

GroupKind = tuple[str, str]
"""(group, kind)."""

PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"  # at so many KEDA holds the target of a ScaledObject

PREVIOUS_VALUE = "reconciler/previous-value"  # what stood at a switch, as JSON
PREVIOUS_SUSPEND = "reconciler/previous-suspend"  # the same on a CronJob
PREVIOUS_SCALE_UP = "reconciler/previous-scale-up"  # and on an autoscaler that is kept from scaling up
PREVIOUS_VALUES = (PREVIOUS_VALUE, PREVIOUS_SUSPEND, PREVIOUS_SCALE_UP)

PodOwner = Literal["Workload", "ReplicaSets", "Ordinals", "Controller", "None"]
"""Who owns the pods of a workload: it itself, its ReplicaSets, it itself in the order of their ordinals, a controller
that is not known here, nobody as it has none of its own."""


def joined_version(group: str, version: str) -> str:
    """Return the apiVersion of a group and a version: apps/v1, and v1 in the core group."""
    return intern(f"{group}/{version}" if group else version)  # every object has one


Scalar = bool | int | str | None
"""A value of JSON that holds no other."""


def same_scalar(one: object, other: object) -> bool:
    """Return whether two scalars are the same as JSON: 1 is not true."""
    return type(one) is type(other) and one == other


class Ready(Struct, frozen=True):
    """What shows that an object runs again after it was switched on: `value` at `path`, or what stands at `same_as`, or
    else the status of a condition.
    """

    path: tuple[str, ...] = ()
    value: Scalar = None
    type: str = ""
    status: str = "True"
    same_as: tuple[str, ...] = ()


class WorkloadKind(Struct, frozen=True):
    """A kind that has a scale, and where its parts are (JSON paths as tuples, ("spec", "replicas")).

    `scaled_by`: what stands at `replicas_path`: a number of replicas; a switch, which has the value `off` while the
    object is idle and any other value, or none, while it runs; as text the replicas at which KEDA holds its target.
    `follow` are the fields of its status that say the replicas too, once it is settled. `custom`: a
    CustomResourceDefinition, or a Fleet, has to say where its scale is. `status_counts` are the other counts that its
    status has by that definition, readyReplicas and the like: one that is absent is 0. `victims_path` is where a
    request that scales it names the pods that its controller deletes first, whatever their deletion costs.

    Of a switch: `absent` is what a missing value means, `record` the annotation that holds the value of before;
    `off_at_any` says that any value switches it off; `in_map` that the last part of the path is a key of a map, which
    is made where it is absent; `instead` is the path of a field that stands in place of the switch and refuses it;
    `finished` are conditions of an object that never runs again; `scheduled`: it starts something at set times.
    """

    group: str
    version: str
    kind: str
    plural: str
    replicas_path: tuple[str, ...] = ("spec", "replicas")
    status_path: tuple[str, ...] = ("status", "replicas")
    scaled_by: Literal["Replicas", "Switch", "Pause"] = "Replicas"
    pods: PodOwner = "Controller"
    follow: tuple[str, ...] = ()
    custom: bool = True
    off: Scalar = None
    absent: Scalar = None
    off_at_any: bool = False
    instead: tuple[str, ...] = ()
    record: str = PREVIOUS_VALUE
    in_map: bool = False
    ready: Ready | None = None
    finished: tuple[str, ...] = ()
    status_counts: tuple[str, ...] = ()
    victims_path: tuple[str, ...] = ()
    scheduled: bool = False

    @property
    def api_version(self) -> str:
        return joined_version(self.group, self.version)

    @property
    def names(self) -> tuple[str, str]:
        """What a policy may call it, in lower case: alone, or with its group as kubectl writes it."""
        return self.kind.lower(), f"{self.kind}.{self.group}".lower()

    @property
    def served(self) -> dict[str, str | tuple[str, ...]]:
        """What a cluster says of it."""
        names = ("group", "version", "kind", "plural", "replicas_path", "status_path")
        return {name: getattr(self, name) for name in names}

    @property
    def counts(self) -> bool:
        """Whether it has a number of replicas of its own."""
        return self.scaled_by == "Replicas"

    @property
    def takes_deletion_cost(self) -> bool:
        """Whether its pods go by their pod deletion cost."""
        return self.pods in ("Workload", "ReplicaSets")

    def value_at(self, replicas: int) -> Scalar:
        """Return what stands at `replicas_path` where it is scaled to `replicas`; None: nothing."""
        if self.scaled_by == "Switch":
            on = not self.off if isinstance(self.off, bool) else self.absent
            return on if replicas else self.off
        return str(replicas) if self.scaled_by == "Pause" else replicas

    @property
    def is_switch(self) -> bool:
        """Whether it is switched off in place of being scaled."""
        return self.scaled_by == "Switch"


_SUSPEND = ("spec", "suspend")


def switch_kind(api_version: str, names: str, path: tuple[str, ...], off: Scalar, **more: Any) -> WorkloadKind:
    """Return a kind that is switched off by the value `off` at `path`; its pods are not counted. `names` are kind and
    plural.
    """
    fields = {"in_map": path[0] == "metadata", **more}
    return WorkloadKind(*_named(api_version, names), path, (), "Switch", "None", off=off, **fields)


def _scaled(api_version: str, names: str, pods: PodOwner, *follow: str, **more: Any) -> WorkloadKind:
    return WorkloadKind(*_named(api_version, names), pods=pods, follow=follow, **more)


def _named(api_version: str, names: str) -> tuple[str, str, str, str]:
    group, _, version = api_version.rpartition("/")
    kind, plural = names.split()
    return group, version, kind, plural


def _annotation(key: str) -> tuple[str, ...]:
    return ("metadata", "annotations", key)


_STARTS_JOBS: dict[str, Any] = {"absent": False, "record": PREVIOUS_SUSPEND, "scheduled": True, "custom": False}
CRON_JOB = switch_kind("batch/v1", "CronJob cronjobs", _SUSPEND, True, **_STARTS_JOBS)
_SCALED_OBJECT = _named("keda.sh/v1alpha1", "ScaledObject scaledobjects")
_PODS_TO_DELETE = ("spec", "scaleStrategy", "podsToDelete")

WORKLOAD_KINDS: tuple[WorkloadKind, ...] = (
    _scaled("apps/v1", "Deployment deployments", "ReplicaSets", "updatedReplicas", custom=False),
    _scaled("apps/v1", "StatefulSet statefulsets", "Ordinals", "updatedReplicas", custom=False),
    _scaled("apps/v1", "ReplicaSet replicasets", "Workload", "fullyLabeledReplicas", custom=False),
    _scaled("v1", "ReplicationController replicationcontrollers", "Workload", "fullyLabeledReplicas", custom=False),
    CRON_JOB,
    WorkloadKind(*_SCALED_OBJECT, _annotation(PAUSED_REPLICAS), (), "Pause", "None", custom=False),
    _scaled("argoproj.io/v1alpha1", "Rollout rollouts", "ReplicaSets"),
    _scaled(
        "apps.kruise.io/v1alpha1", "CloneSet clonesets", "Workload", "updatedReplicas", victims_path=_PODS_TO_DELETE
    ),
)
"""Every kind that is known by name. What others say of themselves by a CustomResourceDefinition is no row."""

BY_KIND: Mapping[str, WorkloadKind] = {row.kind: row for row in WORKLOAD_KINDS}

SCALABLE_KINDS: Mapping[GroupKind, WorkloadKind] = {
    (row.group, row.kind): row for row in WORKLOAD_KINDS if not row.custom
}
"""What can be scaled without looking at CustomResourceDefinitions."""

OTHER_KIND = WorkloadKind("", "", "", "")
"""The row of a custom kind that has none, without names."""

SCALE_UP = switch_kind(
    "autoscaling/v2",
    "HorizontalPodAutoscaler horizontalpodautoscalers",
    ("spec", "behavior", "scaleUp", "selectPolicy"),
    "Disabled",
    record=PREVIOUS_SCALE_UP,
    custom=False,
)
"""Whether an autoscaler scales up; no policy selects it, it stands for what it scales."""


def workload_kind(kind: str) -> WorkloadKind:
    """Return the row of `kind`, by its name alone; for any other that of a custom kind, without names."""
    return BY_KIND.get(kind, OTHER_KIND)


# Kinds as people write them: in any case, as a plural, or by kubectl's short name.


_SHORT = {
    "deploy": "deployment",
    "sts": "statefulset",
    "rs": "replicaset",
    "rc": "replicationcontroller",
    "cj": "cronjob",
    "svc": "service",
    "hpa": "horizontalpodautoscaler",
    "so": "scaledobject",
    "ep": "endpoints",
    "cm": "configmap",
    "po": "pod",
    "clone": "cloneset",
    "ro": "rollout",
}


def kind_of(text: str) -> str:
    """Return the kind that `text` names, in lower case; a custom kind may be in the plural still."""
    lower = text.lower().split(".")[0]
    return KNOWN.get(lower, lower)


def names_kind(text: str, kind: str) -> bool:
    """Return whether `text` names `kind`, which is as in a manifest."""
    return kind_of(text) in _forms(kind.lower())


def _forms(kind: str) -> tuple[str, ...]:
    """Return how people write a kind: itself and its plurals. One that ends in "s", like Redis, is no plural."""
    return (kind, f"{kind}s", f"{kind}es", f"{kind.removesuffix('y')}ies")


KNOWN = {form: kind for short, kind in _SHORT.items() for form in (*_forms(kind), short, f"{short}s")}
"""The kind in lower case by each way to write it, of the kinds that have a short name."""


# The switches that are known: where each stands, and what is off. A Fleet uses one by naming apiVersion and kind.


_SWITCHES = (
    # kubernetes.io/docs/concepts/workloads/controllers/job, "Suspending a Job": its active pods are deleted.
    switch_kind("batch/v1", "Job jobs", _SUSPEND, True, finished=("Complete", "Failed")),
    # A node that has this label does not exist, so that the controller deletes its pods. Source: kubernetes
    # pkg/controller/daemon/daemon_controller.go, NodeShouldRunDaemonPod.
    switch_kind(
        "apps/v1",
        "DaemonSet daemonsets",
        ("spec", "template", "spec", "nodeSelector", "reconciler/idle"),
        "true",
        in_map=True,
    ),
    # cloudnative-pg.io/docs, "Declarative hibernation": its pods are deleted, its volumes are kept. Its condition Ready
    # stays True meanwhile. Source: cloudnative-pg pkg/reconciler/hibernation; cluster_controller.go.
    switch_kind(
        "postgresql.cnpg.io/v1",
        "Cluster clusters",
        _annotation("cnpg.io/hibernation"),
        "on",
        ready=Ready(path=("status", "readyInstances"), same_as=("spec", "instances")),
    ),
    # cloudnative-pg.io/docs, "Backup", ScheduledBackup: suspend.
    switch_kind("postgresql.cnpg.io/v1", "ScheduledBackup scheduledbackups", _SUSPEND, True),
    # zalando/postgres-operator manifests/postgresql.crd.yaml: numberOfInstances of at least 0. What the operator's
    # configuration has as min_instances takes precedence.
    switch_kind("acid.zalan.do/v1", "postgresql postgresqls", ("spec", "numberOfInstances"), 0),
    # kubevirt.io/user-guide, "Run strategies". What has spec.running, which stands in its place, refuses both.
    switch_kind(
        "kubevirt.io/v1",
        "VirtualMachine virtualmachines",
        ("spec", "runStrategy"),
        "Halted",
        absent="Halted",
        instead=("spec", "running"),
        ready=Ready(path=("status", "ready"), value=True),
    ),
    # ray-project/kuberay ray-operator/apis/ray/v1/raycluster_types.go, RayClusterSpec: its pods are deleted.
    switch_kind(
        "ray.io/v1", "RayCluster rayclusters", _SUSPEND, True, ready=Ready(path=("status", "state"), value="ready")
    ),
    # kubernetes-sigs/jobset api/jobset/v1alpha2/jobset_types.go, JobSetSpec: all its Jobs are suspended.
    switch_kind("jobset.x-k8s.io/v1alpha2", "JobSet jobsets", _SUSPEND, True, finished=("Completed", "Failed")),
    # kubeflow/kubeflow components/notebook-controller/pkg/culler: that the annotation is there stops it, at any value.
    switch_kind(
        "kubeflow.org/v1",
        "Notebook notebooks",
        _annotation("kubeflow-resource-stopped"),
        "reconciler",
        off_at_any=True,
        ready=Ready(path=("status", "readyReplicas"), value=1),
    ),
    # kserve/kserve pkg/constants, StopAnnotationKey: what serves it is deleted.
    switch_kind(
        "serving.kserve.io/v1beta1",
        "InferenceService inferenceservices",
        _annotation("serving.kserve.io/stop"),
        "true",
        ready=Ready(type="Ready"),
    ),
    # knative.dev/docs/serving/autoscaling/scale-bounds: with 0 it goes to zero without traffic, as without any.
    switch_kind(
        "serving.knative.dev/v1",
        "Service services",
        ("spec", "template", "metadata", "annotations", "autoscaling.knative.dev/min-scale"),
        "0",
        in_map=True,
        absent="0",
        ready=Ready(type="Ready"),
    ),
    # argo-cd.readthedocs.io, "Automated Sync Policy", since 3.1: nothing is synced or healed. One that is not synced
    # automatically has no place for it, and is left alone.
    switch_kind(
        "argoproj.io/v1alpha1", "Application applications", ("spec", "syncPolicy", "automated", "enabled"), False
    ),
)

SWITCHES: Mapping[GroupKind, WorkloadKind] = {(kind.group, kind.kind): kind for kind in _SWITCHES}
"""The switches that are known, by (group, kind)."""

BROUGHT_SWITCHES = tuple(kind for kind in _SWITCHES if "." not in kind.group)
"""Those of kinds that Kubernetes itself brings."""
