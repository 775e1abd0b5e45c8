"""Everything outside, opened: what is read, what is written through, how many writes run in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.apply.access import Access
from reconciler.apply.config_map_store import ConfigMapStore
from reconciler.backends.backend import Backend
from reconciler.backends.pod_picker import HttpPodPicker
from reconciler.backends.protocols import DEFAULTS, NoMetrics, RequestSettings, VictimOrder
from reconciler.decide.downscale.deletion_order import rank_victims
from reconciler.errors import ReconcilerError
from reconciler.model import JOURNAL, Pod
from reconciler.observe.cluster_readers import Readers
from reconciler.policy.types import Fleet
from reconciler.time_limit import SettledClock, TimeLimit
from reconciler.worker_pool import WorkerPool


class World(Struct, frozen=True):
    """`readers` are the threads in which clusters are read, locked and written, and how long that may take.

    `origin` is "live" or "snapshot". `warnings` gives what a person should know of the clusters, once they were read.
    """

    sources: Mapping[str, Backend]
    accesses: Mapping[str, Access]
    origin: str = "live"
    readers: Readers = field(default_factory=lambda: Readers(WorkerPool(0)))
    warnings: Callable[[], tuple[str, ...]] = tuple

    def access(self, cluster: str) -> Access:
        """Return how `cluster` is written to.

        Raises:
            ReconcilerError: it could not be opened, and why.
        """
        if cluster not in self.accesses:
            raise ReconcilerError(self.sources[cluster].error)
        return self.accesses[cluster]

    def noting_locks(self) -> World:
        """Return this world where who has the lock of a cluster is noted before that is read."""

        def begin(name: str, source: Backend) -> None:
            self.accesses[name].lock.look()
            source.begin()

        noting = {
            name: replace(source, begin=partial(begin, name, source)) if name in self.accesses else source
            for name, source in self.sources.items()
        }
        return replace(self, sources=noting)

    def without(self, unreachable: Mapping[str, str]) -> World:
        """Return this world where the clusters in `unreachable`, with the reason, are not asked again."""
        gone = {
            name: replace(self.sources[name], cluster=None, metrics=NoMetrics(), error=why)
            for name, why in unreachable.items()
            if name in self.sources
        }
        return replace(self, sources={**self.sources, **gone})


def open_world(fleet: Fleet, snapshot: str | None, now: datetime, settings: RequestSettings = DEFAULTS) -> World:
    """Return the clusters of `fleet`, opened: those of the snapshot directory where one is given, else the live ones.

    Raises:
        SnapshotError: the snapshot cannot be read.
    """
    if snapshot is None:
        from reconciler.backends.live import open_live

        connections = (cluster.connection for cluster in fleet.clusters)
        opened = open_live(connections, now, fleet.namespace, settings, fleet.switch_kinds)
        readers, limit = Readers(limit=settings.limit), settings.limit
    else:
        from reconciler.backends.snapshot.cluster import open_snapshot

        names = [cluster.name for cluster in fleet.clusters]
        opened = open_snapshot(snapshot, names, victim_order(lambda: now), now, fleet.switch_kinds)
        readers = Readers(WorkerPool(0), limit=settings.limit)  # files, which take no threads
        limit = settings.limit.within(clock=SettledClock())  # the run's by the clock of the clusters
    accesses = {name: _access(fleet, found, readers, limit) for name, found in opened.backends.items()}
    written = {name: access for name, access in accesses.items() if access is not None}
    return World(opened.backends, written, "live" if snapshot is None else "snapshot", readers, opened.warnings)


def victim_order(now: Callable[[], datetime]) -> VictimOrder:
    """Return the order in which the controllers of a snapshot delete pods; `now` says what time it is there."""

    def victims(pods: Sequence[Pod], count: int, of_deployment: bool) -> Sequence[Pod]:
        now_ns = int(now().timestamp()) * 10**9
        return rank_victims(pods, count, now_ns=now_ns, siblings=() if of_deployment else None).victims

    return victims


def _holder(fleet: Fleet) -> str:
    """Return who holds a lock: like nobody else, where host and process are the same in two containers too."""
    run = os.urandom(4).hex()
    return f"reconciler {fleet.name} on {os.uname().nodename}, process {os.getpid()}, {run}"


def _access(fleet: Fleet, backend: Backend, readers: Readers, limit: TimeLimit) -> Access | None:
    if backend.cluster is None or backend.make_lock is None:
        return None
    return Access(
        cluster=backend.cluster,
        store=ConfigMapStore(backend.cluster, fleet.namespace, JOURNAL),
        lock=backend.make_lock(_holder(fleet)),
        picker=HttpPodPicker(backend.cluster.secret, fleet.pod_pickers.allowed_hosts, readers.limit),
        limit=limit,
        pool=readers.pool,
    )
