"""The switches that are known: kinds that are not scaled but switched off, where their switch stands, and what is off.

A Fleet uses one by naming apiVersion and kind in `spec.switches`; another path in a Fleet takes precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.workload_kinds import GroupKind, Ready, Scalar, WorkloadKind

_SUSPEND = ("spec", "suspend")


def switch_kind(api_version: str, names: str, path: tuple[str, ...], off: Scalar, **more: Any) -> WorkloadKind:
    """Return a kind that is switched off by the value `off` at `path`; its pods are not counted. `names` are kind and
    plural.
    """
    group, _, version = api_version.rpartition("/")
    kind, plural = names.split()
    fields = {"in_map": path[0] == "metadata", **more}
    return WorkloadKind(group, version, kind, plural, path, (), "Switch", "None", off=off, **fields)


def _annotation(key: str) -> tuple[str, ...]:
    return ("metadata", "annotations", key)


_ROWS = (
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
        "ray.io/v1",
        "RayCluster rayclusters",
        _SUSPEND,
        True,
        ready=Ready(path=("status", "state"), value="ready"),
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
        "argoproj.io/v1alpha1",
        "Application applications",
        ("spec", "syncPolicy", "automated", "enabled"),
        False,
    ),
)

SWITCHES: Mapping[GroupKind, WorkloadKind] = {(kind.group, kind.kind): kind for kind in _ROWS}
"""The switches that are known, by (group, kind)."""
