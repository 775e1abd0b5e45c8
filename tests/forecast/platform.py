"""What kube-prometheus and Argo CD install, as far as a run reads it: names, kinds, replicas, labels and owners.

Source: facts of prometheus-operator/kube-prometheus, manifests/*-deployment.yaml, *-service.yaml,
alertmanager-alertmanager.yaml and prometheus-prometheus.yaml, prometheus-operator/prometheus-operator,
pkg/prometheus/server/statefulset.go, and argoproj/argo-cd, manifests/base/*/*-deployment.yaml, *-statefulset.yaml and
*-service.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Labels = Mapping[str, str]
Manifest = dict[str, Any]

EXPORTERS = {
    "blackbox-exporter": ("exporter", 1),
    "grafana": ("grafana", 1),
    "kube-state-metrics": ("exporter", 1),
    "prometheus-adapter": ("metrics-adapter", 2),
    "prometheus-operator": ("controller", 1),
}
OPERATED = {
    "alertmanager-main": ("Alertmanager", "main", "alert-router", 3),
    "prometheus-k8s": ("Prometheus", "k8s", "prometheus", 2),
}
"""The StatefulSets that the operator makes of its custom resources: kind, name, component and replicas."""

ARGO_CD = {
    "argocd-applicationset-controller": "applicationset-controller",
    "argocd-dex-server": "dex-server",
    "argocd-notifications-controller": "notifications-controller",
    "argocd-redis": "redis",
    "argocd-repo-server": "repo-server",
    "argocd-server": "server",
}
"""Its Deployments, none of which states its replicas, with their components."""


def kube_prometheus(namespace: str = "monitoring") -> Iterator[Manifest]:
    """A Service and a Deployment each; two StatefulSets behind a Service of their own and one that governs them."""
    for name, (component, replicas) in EXPORTERS.items():
        labels = _labels(name, "kube-prometheus", component)
        yield _workload("Deployment", namespace, name, labels, labels, replicas)
        yield _service(namespace, name, labels)
    for name, (kind, instance, component, replicas) in OPERATED.items():
        labels = {**_labels(kind.lower(), "kube-prometheus", component), "app.kubernetes.io/instance": instance}
        pods = {**labels, "app.kubernetes.io/managed-by": "prometheus-operator"}
        made = _workload("StatefulSet", namespace, name, labels, pods, replicas)
        owner = {"apiVersion": "monitoring.coreos.com/v1", "kind": kind, "name": instance, "uid": f"u-{instance}"}
        made["metadata"]["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
        yield made
        yield _service(namespace, name, labels)
        yield _service(namespace, f"{kind.lower()}-operated", {"app.kubernetes.io/name": kind.lower()}, headless=True)


def argo_cd(namespace: str = "argocd") -> Iterator[Manifest]:
    """Six Deployments and a StatefulSet, each behind a Service that selects its name alone."""
    for name, component in ARGO_CD.items():
        pods = {"app.kubernetes.io/name": name}
        yield _workload("Deployment", namespace, name, _labels(name, "argocd", component), pods, None)
        service = f"{name}-metrics" if component == "notifications-controller" else name
        yield _service(namespace, service, pods)
    name = "argocd-application-controller"
    pods = {"app.kubernetes.io/name": name}
    yield _workload("StatefulSet", namespace, name, _labels(name, "argocd", "application-controller"), pods, 1)
    yield _service(namespace, "argocd-metrics", pods)


def _labels(name: str, part_of: str, component: str) -> dict[str, str]:
    labels = {"name": name, "part-of": part_of, "component": component}
    return {f"app.kubernetes.io/{key}": value for key, value in labels.items()}


def _workload(kind: str, namespace: str, name: str, labels: Labels, pods: Labels, replicas: int | None) -> Manifest:
    container = {"name": name, "image": f"example.com/{name}"}
    spec = {
        **({} if replicas is None else {"replicas": replicas}),
        "selector": {"matchLabels": dict(pods)},
        "template": {"metadata": {"labels": dict(pods)}, "spec": {"containers": [container]}},
    }
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _service(namespace: str, name: str, selector: Labels, *, headless: bool = False) -> Manifest:
    spec = {"selector": dict(selector), "ports": [{"port": 80}], **({"clusterIP": "None"} if headless else {})}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
