"""What the importers read of the objects of other tools: a manifest of another shape is refused where it stands.

A mapping is written as its fields, by the names that the tool gives them; those with a "!" have to be there. A list is
written as what is in it. Fields that are not named here may be anything.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, defstruct

from reconciler.backends.decode.shapes import LabelSelector

_METADATA = {"labels": dict[str, Any], "annotations": dict[str, Any], "ownerReferences": [dict[str, Any]]}

# kube-green: api/v1alpha1/sleepinfo_types.go.

_FILTER_REF = {"kind": str, "name": str, "matchLabels": dict[str, str]}
_SLEEP_INFO = {
    "weekdays!": str,
    "sleepAt!": str,
    "wakeUpAt": str,
    "timeZone": str,
    "excludeRef": [_FILTER_REF],
    "includeRef": [_FILTER_REF],
    "suspendCronJobs": bool,
    "suspendDeployments": bool,
    "suspendStatefulSets": bool,
    "patches": [{"target!": {"group!": str, "kind!": str}, "patch!": str}],
}

# Karmada: pkg/apis/policy/v1alpha1/propagation_types.go and override_types.go, pkg/apis/cluster/v1alpha1/types.go.

_RESOURCE_SELECTOR = {"kind!": str, "name": str, "namespace": str, "labelSelector": LabelSelector}
_AFFINITY = {
    "clusterNames": [str],
    "exclude": [str],
    "labelSelector": LabelSelector,
    "fieldSelector": {"matchExpressions": [{"key!": str, "operator!": str, "values": [str]}]},
}
_PROPAGATION = {
    "resourceSelectors!": [_RESOURCE_SELECTOR],
    "placement": {
        "clusterAffinity": _AFFINITY,
        "clusterAffinities": [_AFFINITY],
        "replicaScheduling": {
            "replicaSchedulingType": str,
            "replicaDivisionPreference": str,
            "weightPreference": {
                "staticWeightList": [{"targetCluster!": _AFFINITY, "weight!": int}],
                "dynamicWeight": str,
            },
        },
    },
    "priority": int,
    "conflictResolution": str,
}
_OVERRIDE_RULE = {"targetCluster": _AFFINITY, "overriders": dict[str, Any]}
_OVERRIDE = {**_OVERRIDE_RULE, "resourceSelectors": [_RESOURCE_SELECTOR], "overrideRules": [_OVERRIDE_RULE]}
_CLUSTER = {"provider": str, "region": str, "zone": str, "zones": [str]}

# kube-downscaler: its Deployment, and what that takes its variables from.

_VARIABLE = {"name!": str, "value": str, "valueFrom": {"configMapKeyRef": {"name!": str, "key!": str}}}
_CONTAINER = {"command": [str], "args": [str], "env": [_VARIABLE], "envFrom": [dict[str, Any]]}
_SCALED = {"replicas": int, "minReadySeconds": int, "template": {"spec": {"containers": [_CONTAINER]}}}

# KubeFed: pkg/apis/scheduling/v1alpha1, and docs/userguide.md.

_FEDERATED = {
    "template": {"metadata": _METADATA, "spec": _SCALED},
    "placement": {"clusters": [dict[str, Any]], "clusterSelector": LabelSelector},
    "overrides": [dict[str, Any]],
}
_SCHEDULING = {
    "targetKind!": str,
    "totalReplicas!": int,
    "rebalance": bool,
    "intersectWithClusterSelector": bool,
    "clusters": dict[str, dict[str, Any]],
}


def _type_of(stated: Any) -> Any:
    """Return what is written as `stated` as a type of msgspec."""
    if isinstance(stated, list):
        return list[_type_of(stated[0])]  # type: ignore[misc]
    return _struct(stated) if isinstance(stated, dict) else stated


def _struct(stated: dict[str, Any]) -> type[Struct]:
    fields: list[Any] = [
        (name[:-1], _type_of(kind)) if name.endswith("!") else (name, _type_of(kind) | None, None)
        for name, kind in stated.items()
    ]
    return defstruct("Fields", fields, kw_only=True)  # else those that have to be there would come first


def shape_of(group: str, kind: str) -> type[Struct]:
    """Return what is read of objects of `kind`."""
    return _SHAPES.get((group, kind), ANY_OBJECT)


ANY_OBJECT = _struct({"metadata": _METADATA})
_FIELDS: dict[tuple[str, str], dict[str, Any]] = {
    ("", "ConfigMap"): {"data": dict[str, Any]},
    ("apps", "Deployment"): {"spec": _SCALED},
    ("apps", "StatefulSet"): {"spec": _SCALED},
    ("apps", "ReplicaSet"): {"spec": _SCALED},
    ("kube-green.com", "SleepInfo"): {"spec!": _SLEEP_INFO},
    ("policy.karmada.io", "PropagationPolicy"): {"spec!": _PROPAGATION},
    ("policy.karmada.io", "ClusterPropagationPolicy"): {"spec!": _PROPAGATION},
    ("policy.karmada.io", "OverridePolicy"): {"spec!": _OVERRIDE},
    ("policy.karmada.io", "ClusterOverridePolicy"): {"spec!": _OVERRIDE},
    ("cluster.karmada.io", "Cluster"): {"spec": _CLUSTER},
    ("types.kubefed.io", "FederatedDeployment"): {"spec!": _FEDERATED},
    ("types.kubefed.io", "FederatedReplicaSet"): {"spec!": _FEDERATED},
    ("scheduling.kubefed.io", "ReplicaSchedulingPreference"): {"spec!": _SCHEDULING},
}
_SHAPES = {key: _struct({"metadata": _METADATA, **fields}) for key, fields in _FIELDS.items()}
