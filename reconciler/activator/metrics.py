"""The metrics of an activator in Prometheus' text format."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator

FIRST_BYTE_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of the buckets of `reconciler_activator_first_byte_seconds`."""

HELP = {
    "reconciler_activator_listening": ("gauge", "Services whose connections this activator accepts."),
    "reconciler_activator_held": ("gauge", "Connections that wait for a pod."),
    "reconciler_activator_spliced": ("gauge", "Connections that are proxied to a pod."),
    "reconciler_activator_connections_total": ("counter", "Connections that were accepted."),
    "reconciler_activator_datagrams_total": (
        "counter",
        "UDP datagrams that came for an idle Service, and were dropped.",
    ),
    "reconciler_activator_woken_total": ("counter", "Services that this activator woke."),
    "reconciler_activator_wake_failures_total": ("counter", "Attempts to wake a Service that failed."),
    "reconciler_activator_refused_total": ("counter", "Connections that were reset, by the reason."),
}
_HISTOGRAM = "reconciler_activator_first_byte_seconds"
REFUSALS = ("timeout", "limit", "network-policy", "stopped")


class ActivatorMetrics:
    """Counters of one process; everything that changes them runs in the thread of its event loop."""

    def __init__(self) -> None:
        self.gauges: Counter[str] = Counter()
        self.counters: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._buckets = [0] * (len(FIRST_BYTE_SECONDS) + 1)
        self._seconds = 0.0

    def first_byte(self, seconds: float) -> None:
        """Count a connection whose client got its first byte so many `seconds` after it sent its own."""
        self._buckets[bisect_left(FIRST_BYTE_SECONDS, seconds)] += 1
        self._seconds += seconds

    def text(self) -> str:
        """Return all of them as Prometheus reads them."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        for name, (kind, words) in HELP.items():
            yield from (f"# HELP {name} {words}", f"# TYPE {name} {kind}")
            short = name.removeprefix("reconciler_activator_").removesuffix("_total")
            if short == "refused":
                yield from (f'{name}{{reason="{reason}"}} {self.refused[reason]}' for reason in REFUSALS)
            else:
                yield f"{name} {(self.gauges if kind == 'gauge' else self.counters)[short]}"
        yield f"# HELP {_HISTOGRAM} Seconds from a client's first byte to the first byte it got back."
        yield f"# TYPE {_HISTOGRAM} histogram"
        total = 0
        for bound, count in zip((*map(str, FIRST_BYTE_SECONDS), "+Inf"), self._buckets, strict=True):
            total += count
            yield f'{_HISTOGRAM}_bucket{{le="{bound}"}} {total}'
        yield f"{_HISTOGRAM}_sum {self._seconds}"
        yield f"{_HISTOGRAM}_count {total}"
