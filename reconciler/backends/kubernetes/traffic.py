"""Counting what is exchanged with a cluster."""

from __future__ import annotations

import threading
from bisect import bisect_left

from reconciler.backends.base import REQUEST_SECONDS, Traffic


class TrafficCount:
    """Counts requests from any thread."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._received = 0
        self._seconds = 0.0
        self._buckets = [0] * (len(REQUEST_SECONDS) + 1)

    def add(self, received: int, seconds: float) -> None:
        """Count one request that took `seconds` and brought `received` bytes."""
        with self._guard:
            self._received += received
            self._seconds += seconds
            self._buckets[bisect_left(REQUEST_SECONDS, seconds)] += 1

    def so_far(self) -> Traffic:
        with self._guard:
            return Traffic(sum(self._buckets), self._received, self._seconds, tuple(self._buckets))
