"""So many writes a second, and no more."""

from __future__ import annotations

import threading
from collections.abc import Callable

from reconciler.backends.base import Clock


class Rate:
    """A bucket that holds one second's worth of writes and fills as time passes. `per_second` 0: no limit.

    Source: client-go util/flowcontrol, tokenBucketRateLimiter.
    """

    def __init__(self, per_second: float, clock: Clock) -> None:
        self._per_second = per_second
        self._clock = clock
        self._guard = threading.Lock()
        self._free_at = 0.0  # when the bucket would be full again

    def take(self, wait: Callable[[float], bool]) -> bool:
        """Wait for the next turn with `wait`, which returns whether it waited to the end; return what it returned."""
        if self._per_second <= 0:
            return True
        with self._guard:
            now = self._clock.monotonic()
            self._free_at = max(self._free_at, now) + 1 / self._per_second
            seconds = self._free_at - now - max(1.0, 1 / self._per_second)
        return seconds <= 0 or wait(seconds)
