"""How much a run may ask of a cluster, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass, field

from reconciler.backends.base import Clock
from reconciler.backends.stop import Stop


@dataclass(frozen=True, slots=True)
class RequestSettings:
    """`timeout` is seconds for one request, its whole answer included. `qps` is writes a second, 0 for no limit.

    `until` is the moment on the clock's monotonic time after which nothing is waited for; None: there is none. Once
    `stop` is asked, what is in flight has a few seconds, and nothing is begun.
    """

    timeout: float = 30.0
    qps: float = 50.0
    until: float | None = None
    in_flight: int = 16
    stop: Stop = field(default_factory=Stop)

    def seconds_left(self, clock: Clock) -> float:
        """Return how many seconds one step may take now; 0 or less: the run's time is over."""
        return min(self.timeout, self.run_seconds_left(clock))

    def run_seconds_left(self, clock: Clock) -> float:
        """Return for how many seconds anything may be waited for; infinite where nothing ends the run."""
        left = float("inf") if self.until is None else self.until - clock.monotonic()
        return min(left, self.stop.grace_left()) if self.stop.asked else left

    def undisturbed_seconds_left(self, clock: Clock) -> float:
        """Return for how many seconds anything may be waited for that nobody needs once the run is asked to stop."""
        return 0.0 if self.stop.asked else self.run_seconds_left(clock)


DEFAULTS = RequestSettings()
