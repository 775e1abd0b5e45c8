"""The backends that keep the contract, each behind the same few handles."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from reconciler.backends.base import Cluster, Lock
from reconciler.backends.file_lock import FileLock
from reconciler.backends.snapshot.cluster import SnapshotCluster
from tests.backends.clocks import PatientClock
from tests.backends.folders import last_names_first


class Place(Protocol):
    """A cluster under test. Everything a test makes is in `namespace`, which is empty when the test starts."""

    namespace: str

    @property
    def cluster(self) -> Cluster: ...

    def make(self, manifest: dict[str, Any]) -> None:
        """Create an object as somebody else would, not through the backend."""

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
        return SnapshotCluster(self.directory, "east", victim_order=last_names_first)

    def make(self, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        path = self.directory / f"{manifest['kind']}-{metadata['name']}.json"
        path.write_text(json.dumps({**manifest, "metadata": {"namespace": self.namespace, **metadata}}))

    def lock(self, holder: str) -> FileLock:
        return FileLock(self.directory, holder, PatientClock())


def _snapshot(tmp_path: Path) -> Iterator[Place]:
    yield SnapshotPlace(tmp_path)


BACKENDS: dict[str, Callable[[Path], Iterator[Place]]] = {"snapshot": _snapshot}


@pytest.fixture(params=sorted(BACKENDS))
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    yield from BACKENDS[request.param](tmp_path)
