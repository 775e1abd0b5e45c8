"""The metrics of an activator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from reconciler.report.metrics import Distribution, Family

FIRST_BYTE_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
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
        self._first_bytes = Distribution.of(FIRST_BYTE_SECONDS)

    def first_byte(self, seconds: float) -> None:
        """Count a connection whose client got its first byte so many `seconds` after it sent its own."""
        self._first_bytes.add(seconds, FIRST_BYTE_SECONDS)

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
            bounds=FIRST_BYTE_SECONDS,
        )
