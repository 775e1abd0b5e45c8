"""The live clusters of a Fleet, connected. Whoever reads snapshots does not load this."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial

from reconciler.backends import prometheus
from reconciler.backends.backend import Backend, Opened
from reconciler.backends.credentials.allowed_sources import with_allowed_files
from reconciler.backends.credentials.connection import WEAKNESSES, ApiServerConnection
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.cluster_lock import LeaseLock
from reconciler.backends.kubernetes.discovery import ServedObjects
from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.kubernetes.request_limits import ReadBudget
from reconciler.backends.protocols import MetricsSource, NoMetrics, RequestSettings
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import UnauthorisedError
from reconciler.workload_kinds import WorkloadKind


def open_live(
    connections: Iterable[ClusterConnection],
    at: datetime,
    namespace: str,
    settings: RequestSettings,
    switches: tuple[WorkloadKind, ...] = (),
) -> Opened:
    """Open live clusters, asked within `settings`, their metrics for the moment `at`. Nothing is sent yet; a connection
    that cannot be used is an error when it is first used. `namespace` and `switches` are the Fleet's.
    """
    opened: dict[str, Backend] = {}
    reached: dict[str, ApiServerConnection] = {}
    for asked in connections:
        budget = ReadBudget()
        connection = ApiServerConnection(asked, budget, settings.clients.get(asked.name))
        client = ApiClient(connection, settings)
        opened[asked.name] = Backend(
            name=asked.name,
            cluster=KubernetesCluster(asked.name, client, budget, switches),
            metrics=_open_metrics(asked, at, settings),
            make_lock=partial(LeaseLock, client, namespace),
            traffic=client.traffic,
            preflight=Preflight(client, connection),
            served=ServedObjects(client),
            reading=client.turns.reading,
            begin=budget.renew,
        )
        reached[asked.name] = connection

    def warnings() -> tuple[str, ...]:
        return tuple(
            f"{name}: {WEAKNESSES[connection.weakness]}" for name, connection in reached.items() if connection.weakness
        )

    return Opened(opened, warnings)


def _open_metrics(asked: ClusterConnection, at: datetime, settings: RequestSettings) -> MetricsSource:
    if asked.prometheus is None:
        return NoMetrics()
    try:
        reached = with_allowed_files(asked, asked.prometheus)
    except UnauthorisedError as error:
        return NoMetrics(str(error))
    return prometheus.PrometheusMetrics(reached, at, settings.limit, settings.timeout)
