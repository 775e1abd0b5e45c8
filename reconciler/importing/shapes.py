"""What the importers read of the objects of other tools: a manifest of another shape is refused where it stands.

Fields that are not named here may be anything.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from reconciler.backends.decode.shapes import LabelSelector
from reconciler.backends.decode.values import Wire


class _Metadata(Wire):
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    owner_references: list[dict[str, Any]] | None = None


class _Object(Wire, kw_only=True):
    metadata: _Metadata | None = None


class _FieldRequirement(Wire):
    key: str
    operator: str
    values: list[str] | None = None


class _FieldSelector(Wire):
    match_expressions: list[_FieldRequirement] | None = None


# kube-green: api/v1alpha1/sleepinfo_types.go.


class _FilterRef(Wire):
    kind: str | None = None
    name: str | None = None
    match_labels: dict[str, str] | None = None


class _PatchTarget(Wire):
    group: str
    kind: str


class _Patch(Wire):
    target: _PatchTarget
    patch: str


class _SleepInfoSpec(Wire):
    weekdays: str
    sleep_at: str
    wake_up_at: str | None = None
    time_zone: str | None = None
    exclude_ref: list[_FilterRef] | None = None
    include_ref: list[_FilterRef] | None = None
    suspend_cron_jobs: bool | None = None
    suspend_deployments: bool | None = None
    suspend_stateful_sets: bool | None = None
    patches: list[_Patch] | None = None


class _SleepInfo(_Object, kw_only=True):
    spec: _SleepInfoSpec


# Karmada: pkg/apis/policy/v1alpha1/propagation_types.go and override_types.go, pkg/apis/cluster/v1alpha1/types.go.


class _ResourceSelector(Wire):
    kind: str
    name: str | None = None
    namespace: str | None = None
    label_selector: LabelSelector | None = None


class _ClusterAffinity(Wire):
    cluster_names: list[str] | None = None
    exclude: list[str] | None = None
    label_selector: LabelSelector | None = None
    field_selector: _FieldSelector | None = None


class _StaticWeight(Wire):
    target_cluster: _ClusterAffinity
    weight: int


class _WeightPreference(Wire):
    static_weight_list: list[_StaticWeight] | None = None
    dynamic_weight: str | None = None


class _ReplicaScheduling(Wire):
    replica_scheduling_type: str | None = None
    replica_division_preference: str | None = None
    weight_preference: _WeightPreference | None = None


class _Placement(Wire):
    cluster_affinity: _ClusterAffinity | None = None
    cluster_affinities: list[_ClusterAffinity] | None = None
    replica_scheduling: _ReplicaScheduling | None = None


class _PropagationSpec(Wire):
    resource_selectors: list[_ResourceSelector]
    placement: _Placement | None = None
    priority: int | None = None
    conflict_resolution: str | None = None


class _PropagationPolicy(_Object, kw_only=True):
    spec: _PropagationSpec


class _OverrideRule(Wire):
    target_cluster: _ClusterAffinity | None = None
    overriders: dict[str, Any] | None = None


class _OverrideSpec(_OverrideRule):
    resource_selectors: list[_ResourceSelector] | None = None
    override_rules: list[_OverrideRule] | None = None


class _OverridePolicy(_Object, kw_only=True):
    spec: _OverrideSpec


class _ClusterSpec(Wire):
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    zones: list[str] | None = None


class _Cluster(_Object, kw_only=True):
    spec: _ClusterSpec | None = None


# KubeFed: pkg/apis/scheduling/v1alpha1, and docs/userguide.md.


class _FederatedPlacement(Wire):
    clusters: list[dict[str, Any]] | None = None
    cluster_selector: LabelSelector | None = None


class _FederatedSpec(Wire):
    template: _Scaled | None = None
    placement: _FederatedPlacement | None = None
    overrides: list[dict[str, Any]] | None = None


class _Federated(_Object, kw_only=True):
    spec: _FederatedSpec


class _SchedulingSpec(Wire):
    target_kind: str
    total_replicas: int
    rebalance: bool | None = None
    intersect_with_cluster_selector: bool | None = None
    clusters: dict[str, dict[str, Any]] | None = None


class _ReplicaSchedulingPreference(_Object, kw_only=True):
    spec: _SchedulingSpec


# kube-downscaler: its Deployment, and what that takes its variables from.


class _ConfigMapKey(Wire):
    name: str
    key: str


class _ValueFrom(Wire):
    config_map_key_ref: _ConfigMapKey | None = None


class _Variable(Wire):
    name: str
    value: str | None = None
    value_from: _ValueFrom | None = None


class _Container(Wire):
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Variable] | None = None
    env_from: list[dict[str, Any]] | None = None


class _PodSpec(Wire):
    containers: list[_Container] | None = None


class _Template(Wire):
    spec: _PodSpec | None = None


class _ScaledSpec(Wire):
    replicas: int | None = None
    min_ready_seconds: int | None = None
    template: _Template | None = None


class _Scaled(_Object, kw_only=True):
    spec: _ScaledSpec | None = None


class _ConfigMap(_Object, kw_only=True):
    data: dict[str, Any] | None = None


def shape_of(group: str, kind: str) -> type[Struct]:
    """Return what is read of objects of `kind`."""
    return _SHAPES.get((group, kind), _Object)


_SHAPES: dict[tuple[str, str], type[Struct]] = {
    ("", "ConfigMap"): _ConfigMap,
    ("apps", "Deployment"): _Scaled,
    ("apps", "StatefulSet"): _Scaled,
    ("apps", "ReplicaSet"): _Scaled,
    ("kube-green.com", "SleepInfo"): _SleepInfo,
    ("policy.karmada.io", "PropagationPolicy"): _PropagationPolicy,
    ("policy.karmada.io", "ClusterPropagationPolicy"): _PropagationPolicy,
    ("policy.karmada.io", "OverridePolicy"): _OverridePolicy,
    ("policy.karmada.io", "ClusterOverridePolicy"): _OverridePolicy,
    ("cluster.karmada.io", "Cluster"): _Cluster,
    ("types.kubefed.io", "FederatedDeployment"): _Federated,
    ("types.kubefed.io", "FederatedReplicaSet"): _Federated,
    ("scheduling.kubefed.io", "ReplicaSchedulingPreference"): _ReplicaSchedulingPreference,
}
