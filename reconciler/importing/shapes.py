"""What the importers read of the objects of other tools: a manifest of another shape is refused where it stands."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct


class _Fields(Struct, rename="camel"):
    """Fields that are not named here may be anything."""


class _Metadata(_Fields):
    labels: dict[str, Any] | None = None
    annotations: dict[str, Any] | None = None
    owner_references: list[dict[str, Any]] | None = None


class _Object(_Fields, kw_only=True):
    metadata: _Metadata | None = None


class _Requirement(_Fields):
    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: list[str] | None = None


class _Selector(_Fields):
    match_labels: dict[str, str] | None = None
    match_expressions: list[_Requirement] | None = None


class _FieldRequirement(_Fields):
    key: str
    operator: str
    values: list[str] | None = None


class _FieldSelector(_Fields):
    match_expressions: list[_FieldRequirement] | None = None


# kube-green: api/v1alpha1/sleepinfo_types.go.


class _FilterRef(_Fields):
    kind: str | None = None
    name: str | None = None
    match_labels: dict[str, str] | None = None


class _PatchTarget(_Fields):
    group: str
    kind: str


class _Patch(_Fields):
    target: _PatchTarget
    patch: str


class _SleepInfoSpec(_Fields):
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


class _ResourceSelector(_Fields):
    kind: str
    name: str | None = None
    namespace: str | None = None
    label_selector: _Selector | None = None


class _ClusterAffinity(_Fields):
    cluster_names: list[str] | None = None
    exclude: list[str] | None = None
    label_selector: _Selector | None = None
    field_selector: _FieldSelector | None = None


class _StaticWeight(_Fields):
    target_cluster: _ClusterAffinity
    weight: int


class _WeightPreference(_Fields):
    static_weight_list: list[_StaticWeight] | None = None
    dynamic_weight: str | None = None


class _ReplicaScheduling(_Fields):
    replica_scheduling_type: str | None = None
    replica_division_preference: str | None = None
    weight_preference: _WeightPreference | None = None


class _Placement(_Fields):
    cluster_affinity: _ClusterAffinity | None = None
    cluster_affinities: list[_ClusterAffinity] | None = None
    replica_scheduling: _ReplicaScheduling | None = None


class _PropagationSpec(_Fields):
    resource_selectors: list[_ResourceSelector]
    placement: _Placement | None = None
    priority: int | None = None
    conflict_resolution: str | None = None


class _PropagationPolicy(_Object, kw_only=True):
    spec: _PropagationSpec


class _OverrideRule(_Fields):
    target_cluster: _ClusterAffinity | None = None
    overriders: dict[str, Any] | None = None


class _OverrideSpec(_OverrideRule):
    resource_selectors: list[_ResourceSelector] | None = None
    override_rules: list[_OverrideRule] | None = None


class _OverridePolicy(_Object, kw_only=True):
    spec: _OverrideSpec


class _ClusterSpec(_Fields):
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    zones: list[str] | None = None


class _Cluster(_Object, kw_only=True):
    spec: _ClusterSpec | None = None


# KubeFed: pkg/apis/scheduling/v1alpha1, and docs/userguide.md.


class _FederatedPlacement(_Fields):
    clusters: list[dict[str, Any]] | None = None
    cluster_selector: _Selector | None = None


class _FederatedSpec(_Fields):
    template: _Scaled | None = None
    placement: _FederatedPlacement | None = None
    overrides: list[dict[str, Any]] | None = None


class _Federated(_Object, kw_only=True):
    spec: _FederatedSpec


class _SchedulingSpec(_Fields):
    target_kind: str
    total_replicas: int
    rebalance: bool | None = None
    intersect_with_cluster_selector: bool | None = None
    clusters: dict[str, dict[str, Any]] | None = None


class _ReplicaSchedulingPreference(_Object, kw_only=True):
    spec: _SchedulingSpec


# kube-downscaler: its Deployment, and what that takes its variables from.


class _ConfigMapKey(_Fields):
    name: str
    key: str


class _ValueFrom(_Fields):
    config_map_key_ref: _ConfigMapKey | None = None


class _Variable(_Fields):
    name: str
    value: str | None = None
    value_from: _ValueFrom | None = None


class _Container(_Fields):
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[_Variable] | None = None
    env_from: list[dict[str, Any]] | None = None


class _PodSpec(_Fields):
    containers: list[_Container] | None = None


class _Template(_Fields):
    spec: _PodSpec | None = None


class _ScaledSpec(_Fields):
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
