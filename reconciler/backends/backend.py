"""A Fleet's clusters, opened."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from reconciler.backends.credential_sources import with_allowed_files
from reconciler.backends.decode.wire import Wire
from reconciler.backends.file_lock import FileLock
from reconciler.backends.kubernetes.auth import WEAKNESSES, Connection
from reconciler.backends.kubernetes.client import ApiClient, RequestSettings
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.lease import LeaseLock
from reconciler.backends.kubernetes.pages import ReadBudget
from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.prometheus import PrometheusMetrics
from reconciler.backends.protocols import (
    Clock,
    Cluster,
    Lock,
    MetricsSource,
    Resource,
    StateStore,
    Traffic,
    VictimOrder,
)
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.folder import METRICS_FILES, finish, is_manifest_name, locked
from reconciler.backends.snapshot.metrics import RecordedAnswers, SnapshotMetrics, read_metrics
from reconciler.backends.snapshot.recorder import read_recording
from reconciler.backends.state import ConfigMapStore
from reconciler.errors import Problem, SnapshotError, UnauthorisedError, UsageError
from reconciler.model import ClusterConnection, QueryAnswer
from reconciler.yaml.files import is_inside, leads_out, spelt

JOURNAL = "reconciler-journal"
"""The ConfigMap in our own namespace that keeps what one run must tell the next."""


class Backend(Struct, frozen=True):
    """What a run has of one cluster. `error` set: it could not be opened, the rest is not there then.

    `give_up` ends its reading, with the reason.
    """

    name: str
    cluster: Cluster | None = None
    metrics: MetricsSource | None = None
    store: StateStore | None = None
    make_lock: Callable[[str, Clock], Lock] | None = None
    traffic: Callable[[], Traffic] | None = None  # None: nothing is exchanged, it lies in files
    preflight: Preflight | None = None  # None: there is no server
    error: str = ""
    give_up: Callable[[str], None] = lambda _: None

    def lock(self, holder: str, clock: Clock) -> Lock:
        """Return the cluster's lock, not taken yet; `holder` is what others are told while we hold it.

        Raises:
            UsageError: the cluster could not be opened.
        """
        if self.make_lock is None:
            raise UsageError(f"{self.name}: {self.error}, expected a cluster to lock")
        return self.make_lock(holder, clock)


class Opened(Struct, frozen=True):
    """The clusters of a Fleet in its order; `warnings` gives what a person should know, once they were read."""

    backends: Mapping[str, Backend]
    warnings: Callable[[], tuple[str, ...]] = tuple


OnClusterRead = Callable[[str, Resource[Any], Sequence[Wire]], None]


class LiveSettings(Struct, frozen=True):
    """How live clusters are asked: metrics for the moment `at`, everything within `settings`, timed by `clock`.

    `namespace` is the Fleet's own; `recorder`, where given, is called with the cluster's name and what was read of it.
    """

    at: datetime
    namespace: str
    settings: RequestSettings
    clock: Clock
    recorder: OnClusterRead | None = None


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


def open_live(connections: Iterable[ClusterConnection], live: LiveSettings) -> Opened:
    """Open live clusters; nothing is sent yet, and what is wrong with a connection is told when it is first used."""
    found = [(connection, Connection(connection, live.clock)) for connection in connections]
    backends = {settings.name: _open_server(settings, connection, live) for settings, connection in found}

    def warnings() -> tuple[str, ...]:
        return tuple(
            f"{settings.name}: {WEAKNESSES[connection.weakness]}"
            for settings, connection in found
            if connection.weakness
        )

    return Opened(backends, warnings)


def _open_server(settings: ClusterConnection, connection: Connection, live: LiveSettings) -> Backend:
    requests = ApiClient(connection, live.settings, live.clock)
    recorder = partial(live.recorder, settings.name) if live.recorder is not None else None
    budget = ReadBudget()

    def give_up(why: str) -> None:
        budget.give_up(why)
        requests.given_up = True

    cluster = KubernetesCluster(settings.name, requests, recorder, budget)
    return Backend(
        name=settings.name,
        cluster=cluster,
        metrics=_open_metrics(settings, live),
        store=ConfigMapStore(cluster, live.namespace, JOURNAL),
        make_lock=lambda holder, clock: LeaseLock(requests, settings.name, live.namespace, holder, clock),
        traffic=requests.traffic,
        preflight=Preflight(settings.name, requests, connection),
        give_up=give_up,
    )


def _open_metrics(settings: ClusterConnection, live: LiveSettings) -> MetricsSource | None:
    if settings.prometheus is None:
        return None
    try:
        reached = with_allowed_files(settings, settings.prometheus)
    except UnauthorisedError as error:
        return _NotAsked(str(error))
    return PrometheusMetrics(
        reached,
        live.at,
        seconds_left=lambda: live.settings.seconds_left(live.clock),
        run_left=lambda: live.settings.undisturbed_seconds_left(live.clock),
    )


class _NotAsked(Struct, frozen=True):
    """A metrics source that is not asked anything, and why."""

    why: str

    def query(self, text: str) -> QueryAnswer:  # noqa: ARG002 - the same for all
        return QueryAnswer(error=self.why)


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
