"""Snapshot folders for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from reconciler.backends.protocols import (
    AUTOSCALERS,
    BUILT_IN_SCALES,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    PODS,
    SCALED_OBJECT,
    SERVICES,
    workloads_of,
)
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.manifest_store import Store
from reconciler.model import ObjectRef, PatchOperation, Pod, Workload, Write

MANIFESTS = [
    pytest.param(one, id=one["case"]) for one in yaml.safe_load(Path(__file__).with_name("manifests.yaml").read_text())
]
"""What is read of manifests, case by case."""
BUILT_IN = {scale.kind: workloads_of(scale) for scale in (*BUILT_IN_SCALES, SCALED_OBJECT)}
RESOURCES = {
    one.kind: one for one in (*BUILT_IN.values(), AUTOSCALERS, ENDPOINT_SLICES, ENDPOINTS, EVENTS, PODS, SERVICES)
}


def last_names_first(pods: Sequence[Pod], count: int, _of_deployment: bool) -> Sequence[Pod]:
    """A victim order that a reader can foresee."""
    return sorted(pods, key=lambda pod: pod.name, reverse=True)[:count]


def a_folder(directory: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write `files` (texts are dedented) below `directory`."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else dedent(content).encode())
    return directory


def a_snapshot_cluster(directory: Path, files: Mapping[str, str | bytes], name: str = "east") -> SnapshotCluster:
    """A cluster over a folder with `files`."""
    directory.mkdir(exist_ok=True)
    return SnapshotCluster(Store(a_folder(directory, files), name), victim_order=last_names_first)


def manifests_in(directory: Path) -> dict[str, Any]:
    """Return every manifest in the files below `directory`, by KIND/NAME."""
    found = [
        manifest
        for path in sorted(directory.rglob("*.*"))
        if path.suffix in (".yaml", ".json")
        for manifest in yaml.safe_load_all(path.read_text())
    ]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def one(directory: Path, manifest: str, kind: str = "Deployment") -> Workload:
    """The only workload of `kind` in a folder that holds `manifest` alone."""
    (found,) = a_snapshot_cluster(directory, {"manifest.yaml": manifest}).list(BUILT_IN[kind])
    return found


def patch(
    ref: ObjectRef,
    *operations: tuple[str, str, Any] | tuple[str, str],
    uid: str | None = None,
    version: str = "apps/v1",
) -> Write:
    """A patch of `operations`: (op, path) or (op, path, value)."""
    return Write("patch", ref, version, uid=uid, patch=tuple(PatchOperation(*found) for found in operations))  # type: ignore[arg-type]


def a_manifest(
    name: str = "web", *, kind: str = "Deployment", namespace: str = "shop", replicas: int | None = 3, **metadata: Any
) -> dict[str, Any]:
    """A workload of the apps group as a value."""
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {
            **({} if replicas is None else {"replicas": replicas}),
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/main:1"}]},
            },
        },
    }


CLONE_SETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clonesets.apps.kruise.io}
spec:
  group: apps.kruise.io
  scope: Namespaced
  names: {kind: CloneSet, plural: clonesets}
  versions:
  - name: v1beta1
    served: true
    storage: false
    subresources: {scale: {specReplicasPath: .spec.count, statusReplicasPath: .status.count}}
  - name: v1alpha1
    served: true
    storage: true
    subresources: {scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
"""
CLONE_SET = """
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web, generation: 3}
spec: {replicas: 4, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}}
"""
