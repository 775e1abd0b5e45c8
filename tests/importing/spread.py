"""Policies of replicas, of Karmada and KubeFed."""

from __future__ import annotations

from typing import Any

WEB = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}


def an_object(
    version: str, kind: str, name: str = "web", labels: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop", **({"labels": labels} if labels else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def karmada(kind: str = "PropagationPolicy", **spec: Any) -> dict[str, Any]:
    return an_object("policy.karmada.io/v1alpha1", kind, **{"resourceSelectors": [WEB], **spec})


def weights(**by_name: int) -> dict[str, Any]:
    listed = [{"targetCluster": {"clusterNames": [name]}, "weight": weight} for name, weight in by_name.items()]
    return {
        "replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted",
        "weightPreference": {"staticWeightList": listed},
    }


DEPLOYMENT = an_object("apps/v1", "Deployment", labels={"app": "web"}, replicas=6)


def federated(kind: str = "FederatedDeployment", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}}
    placement = {"clusters": [{"name": "east"}, {"name": "west"}]}
    return an_object("types.kubefed.io/v1beta1", kind, **{"template": template, "placement": placement, **spec})


def preference(**spec: Any) -> dict[str, Any]:
    kind = "ReplicaSchedulingPreference"
    return an_object("scheduling.kubefed.io/v1alpha1", kind, **{"targetKind": "FederatedDeployment", **spec})
