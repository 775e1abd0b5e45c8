"""Kubernetes objects as values: a test says what it cares about, the rest is filled in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from reconciler.backends.protocols import BUILT_IN_SCALES
from tests.real.api import Object


def an_object(version: str, kind: str, name: str, metadata: Mapping[str, Any] | None = None, **rest: Any) -> Object:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **(metadata or {})}, **rest}


def a_node(name: str, *, cpu: str = "10k", memory: str = "10Ti", pods: int = 100_000, **labels: str) -> Object:
    """A node with this much room; without numbers it is never full."""
    room = {"cpu": cpu, "memory": memory, "pods": str(pods)}
    every = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}
    return an_object("v1", "Node", name, metadata={"labels": every}, status={"capacity": room, "allocatable": room})


def a_namespace(name: str, **labels: str) -> Object:
    return an_object("v1", "Namespace", name, metadata={"labels": labels})


def a_pod_template(
    name: str, *, cpu: str = "1m", labels: Mapping[str, str] | None = None, annotations: Mapping[str, str] | None = None
) -> Object:
    """A pod template with one container that asks for `cpu`; `labels` and `annotations` choose among stages.yaml's."""
    container = {"name": "main", "image": "nothing:runs", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"labels": {"app": name, **(labels or {})}, "annotations": dict(annotations or {})}
    return {"metadata": metadata, "spec": {"containers": [container]}}


def a_deployment(name: str, replicas: int = 1, *, kind: str = "Deployment", **template: Any) -> Object:
    """A Deployment, StatefulSet or ReplicaSet; `template` as for `a_pod_template`, its `spec` adds to the pod's."""
    more = template.pop("spec", {})
    pod = a_pod_template(name, **template)
    pod["spec"].update(more)
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": pod}
    return an_object("apps/v1", kind, name, spec=spec)


def status_of(kind: str, replicas: int, generation: int = 1) -> Object:
    """The status of a workload whose controller has nothing left to do."""
    counts = ("replicas", "readyReplicas", "availableReplicas")
    updated = () if kind in ("ReplicaSet", "ReplicationController") else ("updatedReplicas",)
    return {**dict.fromkeys((*counts, *updated), replicas), "observedGeneration": generation}


def a_service(name: str, *, app: str | None = None, **annotations: str) -> Object:
    """A Service for the pods of `app`, by default of the Deployment with its name."""
    spec = {"selector": {"app": app or name}, "ports": [{"port": 80}]}
    return an_object("v1", "Service", name, {"annotations": annotations} if annotations else {}, spec=spec)


def a_job(name: str, completions: int = 1) -> Object:
    pod = a_pod_template(name)
    pod["spec"]["restartPolicy"] = "Never"
    return an_object("batch/v1", "Job", name, spec={"completions": completions, "template": pod})


def a_cron_job(name: str, **spec: Any) -> Object:
    """One that runs every hour."""
    pod = a_pod_template(name)
    pod["spec"]["restartPolicy"] = "Never"
    spec = {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": pod}}, **spec}
    return an_object("batch/v1", "CronJob", name, spec=spec)


def a_clone_set(name: str, replicas: int) -> Object:
    """One of OpenKruise, whose controller does not run."""
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": a_pod_template(name)}
    return an_object("apps.kruise.io/v1alpha1", "CloneSet", name, spec=spec)


def a_replication_controller(name: str, replicas: int) -> Object:
    spec = {"replicas": replicas, "selector": {"app": name}, "template": a_pod_template(name)}
    return an_object("v1", "ReplicationController", name, spec=spec)


def for_deployment(version: str, kind: str, name: str, **spec: Any) -> Object:
    """What scales the Deployment of its name."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return an_object(version, kind, name, spec={"scaleTargetRef": target, **spec})


def an_autoscaler(name: str, least: int, most: int) -> Object:
    return for_deployment("autoscaling/v2", "HorizontalPodAutoscaler", name, minReplicas=least, maxReplicas=most)


def owned_by(owner: Object, one: Object) -> Object:
    """Return `one` with `owner`, which was created, as its controller."""
    by = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    by |= {key: owner["metadata"][key] for key in ("name", "uid")}
    return with_metadata(one, ownerReferences=[by])


def with_metadata(one: Object, **metadata: Any) -> Object:
    return {**one, "metadata": {**one["metadata"], **metadata}}


def within(namespace: str, one: Object) -> Object:
    return with_metadata(one, namespace=namespace)


def a_quota(name: str = "quota", **hard: str) -> Object:
    """A ResourceQuota; `a_quota(pods="3")`."""
    return an_object("v1", "ResourceQuota", name, spec={"hard": hard})


def a_crd(kind: str, group: str, *, version: str = "v1alpha1", scale: bool = False) -> Object:
    """A CustomResourceDefinition without a schema of its own; with `/scale` where asked for."""
    plural = f"{kind.lower()}s"
    subresources: Object = {"status": {}}
    if scale:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.labelSelector",
        }
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
        "versions": [
            {
                "name": version,
                "served": True,
                "storage": True,
                "subresources": subresources,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
            }
        ],
    }
    return an_object("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec=spec)


CLONE_SET = a_crd("CloneSet", "apps.kruise.io", scale=True)
SCALED_OBJECT = a_crd("ScaledObject", "keda.sh")


def many_deployments(count: int, replicas: int) -> list[Object]:
    """That many Deployments, `load-0000` and so on, each with its own pods."""
    return [a_deployment(f"load-{number:04}", replicas) for number in range(count)]


def manifests(*files: Path) -> list[Object]:
    """All objects of YAML files; lists are taken apart."""
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]
    return [item for document in documents for item in document.get("items", [document])]


def discovery(*custom: tuple[str, str, str]) -> Object:
    """What an API server says that it serves: built-in kinds, and `custom` ones with a scale, (group, kind, plural)."""
    groups: dict[str, list[Object]] = {}
    for group, kind, plural in (*((one.group, one.kind, one.plural) for one in BUILT_IN_SCALES), *custom):
        resource = {"resource": plural, "responseKind": {"kind": kind}, "scope": "Namespaced", "verbs": ["list"]}
        scale = [{"subresource": "scale"}] if (group, kind, plural) in custom else []
        groups.setdefault(group, []).append({**resource, "subresources": scale})
    versions = {name: [{"version": "v1", "resources": served}] for name, served in groups.items()}
    items = [{"metadata": {"name": name}, "versions": listed} for name, listed in versions.items()]
    return {"kind": "APIGroupDiscoveryList", "items": items}
