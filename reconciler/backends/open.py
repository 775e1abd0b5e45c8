"""A Fleet's clusters, opened."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reconciler.backends.base import Clock, Cluster, Lock, MetricsSource, StateStore, VictimOrder
from reconciler.backends.file_lock import FileLock
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.faults import snapshot_error
from reconciler.backends.snapshot.folder import METRICS_FILES, is_manifest_name
from reconciler.backends.snapshot.metrics import Answers, SnapshotMetrics, read_metrics
from reconciler.backends.state import ConfigMapStore
from reconciler.errors import Problem, SnapshotError, UsageError
from reconciler.model import ClusterConnection

JOURNAL = "reconciler-journal"
"""The ConfigMap in our own namespace that keeps what one run must tell the next."""


@dataclass(frozen=True)
class Backend:
    """What a run has of one cluster. `error` set: it could not be opened, the rest is not there then."""

    name: str
    cluster: Cluster | None = None
    metrics: MetricsSource | None = None
    store: StateStore | None = None
    directory: Path | None = None
    error: str = ""

    def lock(self, holder: str, clock: Clock) -> Lock:
        """Return the cluster's lock, not taken yet; `holder` is what others are told while we hold it.

        Raises:
            UsageError: the cluster could not be opened.
        """
        if self.directory is None:
            raise UsageError(f"{self.name}: {self.error}, expected a cluster to lock")
        return FileLock(self.directory, holder, clock)


@dataclass(frozen=True)
class Opened:
    """The clusters of a Fleet in its order, and what a person should know."""

    backends: Mapping[str, Backend]
    warnings: tuple[str, ...] = field(default_factory=tuple)


def open_snapshot(
    directory: str | Path, clusters: Sequence[str], victim_order: VictimOrder, namespace: str = "reconciler"
) -> Opened:
    """Open `clusters` over the folders of the same names in `directory`; `namespace` is the Fleet's own.

    A cluster without a folder has an `error`; folders of others are left alone and told.

    Raises:
        SnapshotError: no such directory, no folder in it, or malformed files, all of them.
    """
    top = Path(directory)
    folders = _folders(top)
    recorded, problems = read_metrics(top, None)
    backends: dict[str, Backend] = {}
    for name in clusters:
        if name not in folders:
            backends[name] = Backend(name, error=f"no folder {top / name} in the snapshot")
            continue
        backends[name], found = _open_folder(folders[name], name, victim_order, namespace, recorded)
        problems += found
    if problems:
        raise snapshot_error(problems)
    return Opened(backends, tuple(_warnings(top, folders, clusters, recorded)))


def open_live(connections: Iterable[ClusterConnection]) -> Opened:
    """Open live clusters.

    Raises:
        UsageError: always, where there is any: this version works on snapshots only.
    """
    names = ", ".join(connection.name for connection in connections)
    if names:
        raise UsageError(f"{names}: live clusters cannot be opened by this version, expected --snapshot DIR")
    return Opened({})


def _folders(top: Path) -> dict[str, Path]:
    try:
        names = sorted(path.name for path in top.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise SnapshotError(f"{top}: {error.strerror}, expected a folder with a folder for each cluster") from error
    if not names:
        raise SnapshotError(f"{top}: holds no folder, expected one for each cluster, named like it")
    return {name: top / name for name in names}


def _open_folder(
    directory: Path, name: str, victim_order: VictimOrder, namespace: str, recorded: Answers
) -> tuple[Backend, list[Problem]]:
    cluster = SnapshotCluster(directory, name, victim_order=victim_order)
    own, problems = read_metrics(directory, name)
    backend = Backend(
        name=name,
        cluster=cluster,
        metrics=SnapshotMetrics(name, recorded | own),
        store=ConfigMapStore(cluster, namespace, JOURNAL),
        directory=directory,
    )
    return backend, problems + cluster.problems()


def _warnings(top: Path, folders: Mapping[str, Path], clusters: Sequence[str], recorded: Answers) -> Iterator[str]:
    for name in folders:
        if name not in clusters:
            yield f"{folders[name]}: no cluster of the Fleet is called {name}, the folder is ignored"
    for name in sorted({cluster for cluster, _ in recorded} - set(clusters)):
        yield f"{top}: metrics are recorded for {name}, which is no cluster of the Fleet; they are ignored"
    for path in sorted(top.iterdir()):
        if is_manifest_name(path.name) and path.name not in METRICS_FILES and path.is_file():
            yield f"{path}: stands in no cluster's folder and is ignored"
