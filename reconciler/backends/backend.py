"""The clusters of a Fleet, connected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from reconciler.backends.protocols import ApiTraffic, Cluster, Lock, MetricsSource, NoMetrics
from reconciler.time_limit import TimeLimit

if TYPE_CHECKING:
    from reconciler.backends.kubernetes.discovery import ServedObjects
    from reconciler.backends.kubernetes.preflight import Preflight


class Backend(Struct, frozen=True):
    """What a run has of one cluster. `error` set: it could not be opened, the rest is not there then.

    `make_lock` gives its lock, not taken yet, for a holder by that name. `begin` begins a reading, `end` ends it;
    `reading` is its time limit, cut once nobody waits for it any more.
    """

    name: str
    cluster: Cluster | None = None
    metrics: MetricsSource = NoMetrics()
    make_lock: Callable[[str], Lock] | None = None
    traffic: Callable[[], ApiTraffic] | None = None  # None: nothing is exchanged, it lies in files
    preflight: Preflight | None = None  # None: there is no server
    served: ServedObjects | None = None  # None: there is no server
    error: str = ""
    reading: TimeLimit = field(default_factory=TimeLimit)
    begin: Callable[[], None] = lambda: None
    end: Callable[[], None] = lambda: None


class Opened(Struct, frozen=True):
    """The clusters of a Fleet in its order; `warnings` gives what a person should know, once they were read."""

    backends: Mapping[str, Backend]
    warnings: Callable[[], tuple[str, ...]] = tuple
