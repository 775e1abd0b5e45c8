"""The live clusters of a Fleet, connected. Whoever reads snapshots does not load this."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from functools import partial

from msgspec import Struct

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.credentials.connection import WEAKNESSES, Connection
from reconciler.backends.credentials.sources import with_allowed_files
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.discovery import ServedObjects
from reconciler.backends.kubernetes.lease import LeaseLock
from reconciler.backends.kubernetes.pages import ReadBudget
from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.prometheus import PrometheusMetrics
from reconciler.backends.protocols import MetricsSource, NoMetrics, RequestSettings
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import UnauthorisedError
from reconciler.workload_kinds import WorkloadKind


class LiveSettings(Struct, frozen=True):
    """How live clusters are asked: metrics for the moment `at`, everything within `settings`.

    `namespace` and `switches` are the Fleet's.
    """

    at: datetime
    namespace: str
    settings: RequestSettings
    switches: tuple[WorkloadKind, ...] = ()


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
        return tuple(
            f"{name}: {WEAKNESSES[connection.weakness]}" for name, connection in reached.items() if connection.weakness
        )

    return Opened(opened, warnings)


def _open_server(
    settings: ClusterConnection, connection: Connection, budget: ReadBudget, live: LiveSettings
) -> Backend:
    client = ApiClient(connection, live.settings)
    cluster = KubernetesCluster(settings.name, client, budget, live.switches)
    return Backend(
        name=settings.name,
        cluster=cluster,
        metrics=_open_metrics(settings, live),
        make_lock=partial(LeaseLock, client, live.namespace),
        traffic=client.traffic,
        preflight=Preflight(client, connection),
        served=ServedObjects(client),
        reading=client.reading,
        begin=budget.renew,
    )


def _open_metrics(settings: ClusterConnection, live: LiveSettings) -> MetricsSource:
    if settings.prometheus is None:
        return NoMetrics()
    try:
        reached = with_allowed_files(settings, settings.prometheus)
    except UnauthorisedError as error:
        return NoMetrics(str(error))
    return PrometheusMetrics(reached, live.at, live.settings.limit, live.settings.timeout)
