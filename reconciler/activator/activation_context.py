"""What all activations and connections of one activator share: its Pod, settings, limits and metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from reconciler.activator.connection_limits import ActivatorSettings, PortRange, SharedLimit
from reconciler.activator.objects import EndpointAddress, NamespacedName
from reconciler.report.metrics import Distribution, Family

_FIRST_BYTE_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of the buckets of `reconciler_activator_first_byte_seconds`."""

_GAUGES = {
    "listening": "Services whose connections this activator accepts.",
    "held": "Connections that wait for a pod.",
    "spliced": "Connections that are proxied to a pod.",
}
_COUNTERS = {
    "connections": "Connections that were accepted.",
    "datagrams": "UDP datagrams that came for an idle Service, and were dropped.",
    "woken": "Services that this activator woke.",
    "wake_failures": "Attempts to wake a Service that failed.",
}
REFUSALS = ("timeout", "limit", "network-policy", "stopped")


class ActivatorMetrics:
    """Counters of one process; everything that changes them runs in the thread of its event loop."""

    def __init__(self) -> None:
        self.gauges: Counter[str] = Counter()
        self.counters: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._first_bytes = Distribution.of(_FIRST_BYTE_SECONDS)

    def first_byte(self, seconds: float) -> None:
        """Count a connection whose client got its first byte so many `seconds` after it sent its own."""
        self._first_bytes.add(seconds, _FIRST_BYTE_SECONDS)

    def families(self) -> Iterator[Family]:
        """Yield all of them."""
        for counts, words, values in ((False, _GAUGES, self.gauges), (True, _COUNTERS, self.counters)):
            for name, explained in words.items():
                yield Family(f"reconciler_activator_{name}", explained, [({}, values[name])], counts=counts)
        refused = [({"reason": reason}, self.refused[reason]) for reason in REFUSALS]
        yield Family(
            "reconciler_activator_refused", "Connections that were reset, by the reason.", refused, counts=True
        )
        yield Family(
            "reconciler_activator_first_byte_seconds",
            "From a client's first byte to the first byte it got back.",
            [({}, self._first_bytes)],
            unit="seconds",
            bounds=_FIRST_BYTE_SECONDS,
        )


class ActivatorPod(Struct, frozen=True):
    """The Pod of this process; `addresses` are its IPs, at most one of each family."""

    namespace: str
    name: str
    uid: str
    addresses: tuple[str, ...]


@dataclass
class ActivatorContext:
    """What all activations and connections of one activator share. `signal` wakes a Service; `changed` is called when
    its slices are to be looked at. `is_pods` says whether a backend is what it says it is: a Pod of the namespace.

    `held` are all connections that wait for a pod, `spliced` all that are spliced with one, `kept` the bytes that slow
    receivers have not taken yet; of `listeners` each activation has one for each port.
    """

    pod: ActivatorPod
    settings: ActivatorSettings
    metrics: ActivatorMetrics
    signal: Callable[[NamespacedName], None]
    changed: Callable[[NamespacedName], None]
    is_pods: Callable[[str, EndpointAddress], Awaitable[bool]]

    def __post_init__(self) -> None:
        settings = self.settings
        self.ports = PortRange(settings.ports)
        self.held: SharedLimit[Any] = SharedLimit(settings.held)
        self.spliced: SharedLimit[Any] = SharedLimit(settings.spliced)
        self.kept: SharedLimit[Any] = SharedLimit(settings.kept)
        self.listeners: SharedLimit[Any] = SharedLimit(settings.listeners)
