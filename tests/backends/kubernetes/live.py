"""The backend on a real API server, opened as tests need it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.protocols import RequestSettings
from reconciler.connection_settings import ClusterConnection
from reconciler.model import ObjectRef, PatchOperation, Write


def opened(kubeconfig: Path | None, **settings: Any) -> KubernetesCluster:
    """Return the cluster east as this kubeconfig reaches it; without one as a pod does."""
    return KubernetesCluster("east", requests_to(kubeconfig, **settings))


def requests_to(kubeconfig: Path | None, **settings: Any) -> ApiClient:
    found = ClusterConnection(
        "east", in_cluster=kubeconfig is None, kubeconfig=None if kubeconfig is None else str(kubeconfig)
    )
    return ApiClient(ApiServerConnection(found), RequestSettings(**settings))


def scaled(ref: ObjectRef, api_version: str, before: int, after: int, path: str = "/spec/replicas") -> Write:
    """Return a write of nothing but replicas."""
    patch = (PatchOperation("test", path, before), PatchOperation("replace", path, after))
    return Write("patch", ref, api_version, patch=patch)
