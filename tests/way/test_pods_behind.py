"""A Service whose labels tell nothing is idled with what owns the pods behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.decide.downscale.world import a_pod_manifest, a_workload_manifest, namespace
from tests.real.objects import an_object
from tests.way.calls import Folder
from tests.way.manifests import UNLIMITED, documents, fleet, idling

POLICIES = documents(fleet(["east"], UNLIMITED, name="mine"), idling("namespaces: {include: [shop]}, services: {}"))


def a_service(name: str, pod: str) -> list[dict[str, Any]]:
    """A Service that selects one pod by a label that no template has, and its EndpointSlice."""
    target = {"kind": "Pod", "namespace": "shop", "name": pod, "uid": f"uid-{pod}"}
    selector = {"selector": {"statefulset.kubernetes.io/pod-name": pod}}
    labels = {"namespace": "shop", "labels": {"kubernetes.io/service-name": name}}
    endpoints = [{"addresses": ["10.0.0.1"], "targetRef": target}]
    return [
        an_object("v1", "Service", name, {"namespace": "shop"}, spec=selector),
        an_object("discovery.k8s.io/v1", "EndpointSlice", name, labels, addressType="IPv4", endpoints=endpoints),
    ]


def test_the_owner_of_the_pods_behind_a_service_is_idled(tmp_path: Path) -> None:
    pods = [a_pod_manifest(number, ("StatefulSet", "web")) for number in range(2)]
    other = a_pod_manifest(2, ("StatefulSet", "other"))  # in the namespace, behind no Service
    workloads = [a_workload_manifest("StatefulSet", name, 2) for name in ("web", "other")]
    objects = [namespace("kube-system"), namespace("shop"), *workloads, *pods, other, *a_service("front", "web-0")]
    folder = Folder(tmp_path)
    folder.write("policies/all.yaml", POLICIES)
    folder.write("snapshot/east/all.yaml", yaml.safe_dump_all(objects))
    said = folder.apply("2026-11-20T22:00:00Z")
    assert said.code == 0, said
    assert folder.replicas("east", "shop", "StatefulSet", "web") == 0
    assert folder.replicas("east", "shop", "StatefulSet", "other") == 2
