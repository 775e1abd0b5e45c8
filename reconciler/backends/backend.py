"""The clusters of a Fleet, connected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct, field

from reconciler.backends.config_map_store import ConfigMapStore
from reconciler.backends.credential_sources import with_allowed_files
from reconciler.backends.decode.wire import Wire
from reconciler.backends.kubernetes.auth import WEAKNESSES, Connection
from reconciler.backends.kubernetes.client import ApiClient, RequestSettings
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.lease import LeaseLock
from reconciler.backends.kubernetes.pages import ReadBudget
from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.kubernetes.served_objects import ServedObjects
from reconciler.backends.prometheus import PrometheusMetrics
from reconciler.backends.protocols import (
    Cluster,
    Lock,
    MetricsSource,
    NoMetrics,
    Resource,
    StateStore,
    Traffic,
)
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import UnauthorisedError, UsageError
from reconciler.model import JOURNAL
from reconciler.time_limit import TimeLimit


class Backend(Struct, frozen=True):
    """What a run has of one cluster. `error` set: it could not be opened, the rest is not there then.

    `begin` begins a reading; `reading` is its time limit, cut once nobody waits for it any more.
    """

    name: str
    cluster: Cluster | None = None
    metrics: MetricsSource | None = None
    store: StateStore | None = None
    make_lock: Callable[[str], Lock] | None = None
    traffic: Callable[[], Traffic] | None = None  # None: nothing is exchanged, it lies in files
    preflight: Preflight | None = None  # None: there is no server
    served: ServedObjects | None = None  # None: there is no server
    error: str = ""
    reading: TimeLimit = field(default_factory=TimeLimit)
    begin: Callable[[], None] = lambda: None

    def lock(self, holder: str) -> Lock:
        """Return the cluster's lock, not taken yet; `holder` is what others see while we hold it.

        Raises:
            UsageError: the cluster could not be opened.
        """
        if self.make_lock is None:
            raise UsageError(f"{self.name}: {self.error}, expected a cluster to lock")
        return self.make_lock(holder)


class Opened(Struct, frozen=True):
    """The clusters of a Fleet in its order; `warnings` gives what a person should know, once they were read."""

    backends: Mapping[str, Backend]
    warnings: Callable[[], tuple[str, ...]] = tuple


OnClusterRead = Callable[[str, Resource[Any], Sequence[Wire]], None]


class LiveSettings(Struct, frozen=True):
    """How live clusters are asked: metrics for the moment `at`, everything within `settings`.

    `namespace` is the Fleet's own; `recorder`, where given, is called with the cluster's name and what was read of it.
    """

    at: datetime
    namespace: str
    settings: RequestSettings
    recorder: OnClusterRead | None = None


def open_live(connections: Iterable[ClusterConnection], live: LiveSettings) -> Opened:
    """Open live clusters. Nothing is sent yet; a connection that cannot be used is an error when it is first used."""
    opened: dict[str, Backend] = {}
    reached: dict[str, Connection] = {}
    for settings in connections:
        budget = ReadBudget()
        connection = Connection(settings, budget, live.settings.clients.get(settings.name))
        opened[settings.name] = _open_server(settings, connection, budget, live)
        reached[settings.name] = connection

    def warnings() -> tuple[str, ...]:
        return tuple(f"{name}: {WEAKNESSES[one.weakness]}" for name, one in reached.items() if one.weakness)

    return Opened(opened, warnings)


def _open_server(
    settings: ClusterConnection, connection: Connection, budget: ReadBudget, live: LiveSettings
) -> Backend:
    requests = ApiClient(connection, live.settings)
    recorder = partial(live.recorder, settings.name) if live.recorder is not None else None
    cluster = KubernetesCluster(settings.name, requests, recorder, budget)
    return Backend(
        name=settings.name,
        cluster=cluster,
        metrics=_open_metrics(settings, live),
        store=ConfigMapStore(cluster, live.namespace, JOURNAL),
        make_lock=partial(LeaseLock, requests, settings.name, live.namespace),
        traffic=requests.traffic,
        preflight=Preflight(settings.name, requests, connection),
        served=ServedObjects(settings.name, requests),
        reading=requests.reading,
        begin=budget.renew,
    )


def _open_metrics(settings: ClusterConnection, live: LiveSettings) -> MetricsSource | None:
    if settings.prometheus is None:
        return None
    try:
        reached = with_allowed_files(settings, settings.prometheus)
    except UnauthorisedError as error:
        return NoMetrics(str(error))
    return PrometheusMetrics(reached, live.at, live.settings.limit, live.settings.timeout)
