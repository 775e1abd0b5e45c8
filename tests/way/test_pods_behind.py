"""A Service whose labels tell nothing is idled with what owns the pods behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.decide.downscale.world import a_pod_manifest, a_workload_manifest, namespace
from tests.way.calls import Folder

POLICIES = """
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: mine}
spec: {home: east, clusters: [{name: east}], limits: {default: {perCluster: {share: 100%}, fleet: {share: 100%}}}}
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: nights}
spec:
  selector: {namespaces: {include: [shop]}, services: {}}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ["Mon-Sun 20:00-07:00"]}}]
"""


def a_service(name: str, pod: str) -> list[dict[str, Any]]:
    """A Service that selects one pod by a label that no template has, and its EndpointSlice."""
    metadata = {"name": name, "namespace": "shop"}
    target = {"kind": "Pod", "namespace": "shop", "name": pod, "uid": f"uid-{pod}"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"statefulset.kubernetes.io/pod-name": pod}},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "targetRef": target}],
        },
    ]


def test_the_owner_of_the_pods_behind_a_service_is_idled(tmp_path: Path) -> None:
    pods = [a_pod_manifest(number, ("StatefulSet", "web")) for number in range(2)]
    other = a_pod_manifest(2, ("StatefulSet", "other"))  # in the namespace, behind no Service
    workloads = [a_workload_manifest("StatefulSet", name, 2) for name in ("web", "other")]
    documents = [namespace("kube-system"), namespace("shop"), *workloads, *pods, other, *a_service("front", "web-0")]
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", POLICIES)
    folder.write("snapshot/east/all.yaml", yaml.safe_dump_all(documents))
    said = folder.apply("2026-11-20T22:00:00Z")
    assert said.code == 0, said
    assert folder.replicas("east", "shop", "StatefulSet", "web") == 0
    assert folder.replicas("east", "shop", "StatefulSet", "other") == 2
