"""The backends that keep the contract, each behind the same few handles."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from uuid import uuid4

import pytest

from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.cluster_lock import LeaseLock
from reconciler.backends.protocols import CONFIG_MAPS, Cluster, Lock, RequestSettings
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.file_lock import FileLock
from reconciler.backends.snapshot.manifest_store import Store
from reconciler.connection_settings import ClusterConnection
from tests.backends.folders import last_names_first
from tests.real.cluster import create, wait_until

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane


class Place(Protocol):
    """A cluster under test. Everything a test makes is in `namespace`, which is empty when the test starts."""

    namespace: str

    @property
    def cluster(self) -> Cluster: ...

    def make(self, manifest: dict[str, Any]) -> None:
        """Create an object as somebody else would, not through the backend."""

    def settle(self) -> None:
        """Return when the garbage collector knows what was made: what it does not know yet it cannot orphan."""

    def again(self) -> Cluster:
        """Open the same cluster once more, as another process would see it."""

    def lock(self, holder: str) -> Lock:
        """Return the cluster's lock for `holder`, in this process."""


class SnapshotPlace:
    namespace = "contract"

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.cluster = self.again()

    def again(self) -> SnapshotCluster:
        return SnapshotCluster(Store(self.directory, "east"), victim_order=last_names_first)

    def make(self, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        path = self.directory / f"{manifest['kind']}-{metadata['name']}.json"
        path.write_text(json.dumps({**manifest, "metadata": {"namespace": self.namespace, **metadata}}))

    def settle(self) -> None:
        pass

    def lock(self, holder: str) -> FileLock:
        return FileLock(self.directory, holder)


class KubernetesPlace:
    """A namespace of its own on a real API server."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.namespace = namespace
        self._plane = plane
        self._settings = ClusterConnection("east", kubeconfig=str(plane.kubeconfig("east")))
        self.cluster = self.again()

    def again(self) -> KubernetesCluster:
        return KubernetesCluster("east", self._requests())

    def make(self, manifest: dict[str, Any]) -> None:
        create(self._plane.api, [manifest], self.namespace)

    def settle(self) -> None:
        """What is made last, and has an owner that is not there, is deleted once it is known."""
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": str(uuid4())}
        self.make({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "last", "ownerReferences": [owner]}})

        def names() -> list[str]:
            return [one.ref.name for one in self.cluster.list(CONFIG_MAPS, namespace=self.namespace)]

        wait_until(lambda: "last" not in names(), "what has no owner any more is gone")

    def lock(self, holder: str) -> LeaseLock:
        return LeaseLock(self._requests(), self.namespace, holder)

    def _requests(self) -> ApiClient:
        return ApiClient(ApiServerConnection(self._settings), RequestSettings())


def _snapshot(request: pytest.FixtureRequest) -> Place:
    return SnapshotPlace(request.getfixturevalue("tmp_path"))


def _kubernetes(request: pytest.FixtureRequest) -> Place:
    return KubernetesPlace(request.getfixturevalue("control_plane"), request.getfixturevalue("namespace"))


BACKENDS: dict[str, Callable[[pytest.FixtureRequest], Place]] = {"snapshot": _snapshot, "kubernetes": _kubernetes}


OF_A_CONTROL_PLANE = (pytest.mark.real, pytest.mark.xdist_group("control_plane"))


@pytest.fixture(params=["snapshot", pytest.param("kubernetes", marks=OF_A_CONTROL_PLANE)])
def place(request: pytest.FixtureRequest) -> Place:
    return BACKENDS[request.param](request)
