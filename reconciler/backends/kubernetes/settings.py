"""How much a run may ask of a cluster, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

from reconciler.backends.base import Clock


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """`timeout` is seconds for one request, its whole answer included. `qps` is writes a second, 0 for no limit.

    `until` is the moment on the clock's monotonic time after which nothing is waited for; None: there is none.
    """

    timeout: float = 30.0
    qps: float = 50.0
    until: float | None = None
    in_flight: int = 16

    def seconds_left(self, clock: Clock) -> float:
        """Return how many seconds one step may take now; 0 or less: the run's time is over."""
        return self.timeout if self.until is None else min(self.timeout, self.until - clock.monotonic())


DEFAULTS = RequestSettings()
