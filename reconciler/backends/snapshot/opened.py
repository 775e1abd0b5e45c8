"""The folder of a snapshot as the clusters of a Fleet. Imported only where there is one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path

from reconciler.backends.backend import JOURNAL, Backend, Opened
from reconciler.backends.file_lock import FileLock
from reconciler.backends.protocols import VictimOrder
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.folder import METRICS_FILES, finish, is_manifest_name, locked
from reconciler.backends.snapshot.metrics import RecordedAnswers, SnapshotMetrics, read_metrics
from reconciler.backends.snapshot.recorder import read_recording
from reconciler.backends.state import ConfigMapStore
from reconciler.errors import Problem, SnapshotError
from reconciler.yaml.files import is_inside, leads_out, spelt


def open_snapshot(
    directory: str | Path,
    clusters: Sequence[str],
    victim_order: VictimOrder,
    namespace: str = "reconciler",
    now: datetime | None = None,
) -> Opened:
    """Open `clusters` over the folders of the same names in `directory`; `namespace` is the Fleet's own.

    Answers to queries that were recorded for the time `now` are as of now.

    A cluster without a folder has an `error`, and so has one whose files hold no object: an export that failed is no
    empty cluster; folders of others are left alone and told.

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
        cluster, found = _open_cluster(folders[name], top, victim_order)
        if not found and cluster.is_emptied():
            why = f"the files in {folders[name]} hold no object, expected what kubectl get prints"
            backends[name] = Backend(name, error=why)
            continue
        own, wrong = read_metrics(folders[name], name, top)
        backends[name] = _folder_backend(cluster, folders[name], SnapshotMetrics(name, recorded | own, now), namespace)
        problems += wrong + found
    if problems:
        raise SnapshotError.of(problems)
    warnings = tuple(_warnings(top, folders, clusters, recorded))
    return Opened(backends, lambda: warnings)


def finish_changes(directory: str | Path) -> None:
    """Finish what a crash interrupted in the folders of a snapshot, as whoever is about to write to them must.

    Raises:
        SnapshotError: what is written there is no change of ours. ClusterError: it cannot be finished.
    """
    for folder in _folders(Path(directory)).values():
        with locked(folder, exclusive=True):
            finish(folder)


def _folders(top: Path) -> dict[str, Path]:
    try:
        names = sorted(path.name for path in top.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError as error:
        raise SnapshotError(f"{top}: {error.strerror}, expected a folder with a folder for each cluster") from error
    except ValueError as error:  # a NUL, or no Unicode
        raise SnapshotError(f"{str(top)!r}: is no path, expected a folder with a folder for each cluster") from error
    if not names:
        raise SnapshotError(f"{top}: holds no folder, expected one for each cluster, named like it")
    home = os.path.realpath(top)
    outside = [name for name in names if not is_inside(str(top / name), home)]
    if outside:
        raise SnapshotError.of(Problem(spelt(str(top / name)), 1, 1, "", leads_out(home)) for name in outside)
    return {name: top / name for name in names}


def _open_cluster(directory: Path, top: Path, victim_order: VictimOrder) -> tuple[SnapshotCluster, list[Problem]]:
    name = directory.name
    recording, problems = read_recording(directory, name, top)
    cluster = SnapshotCluster(directory, name, victim_order=victim_order, recording=recording, root=top)
    return cluster, problems + cluster.problems()


def _folder_backend(cluster: SnapshotCluster, directory: Path, metrics: SnapshotMetrics, namespace: str) -> Backend:
    return Backend(
        name=cluster.name,
        cluster=cluster,
        metrics=metrics,
        store=ConfigMapStore(cluster, namespace, JOURNAL),
        make_lock=partial(FileLock, directory),
    )


def _warnings(
    top: Path, folders: Mapping[str, Path], clusters: Sequence[str], recorded: RecordedAnswers
) -> Iterator[str]:
    for name in folders:
        if name not in clusters:
            yield f"{folders[name]}: no cluster of the Fleet is called {name}, the folder is ignored"
    for name in sorted({cluster for cluster, _ in recorded} - set(clusters)):
        yield f"{top}: metrics are recorded for {name}, which is no cluster of the Fleet; they are ignored"
    for path in sorted(top.iterdir()):
        if is_manifest_name(path.name) and path.name not in METRICS_FILES and path.is_file():
            yield f"{path}: stands in no cluster's folder and is ignored"
