"""Asking a run to stop."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field

from reconciler.backends.protocols import Clock

GRACE_SECONDS = 3.0
"""What is in flight has this long once a stop is asked for: with giving the locks back the run ends within five."""

_STEP_SECONDS = 0.2


@dataclass
class Stop:
    """Set from outside: no new writes. What is in flight is finished."""

    event: threading.Event = field(default_factory=threading.Event)
    why: str = ""
    until: float | None = None  # time.monotonic() at which the run's time is over; None: it has no end
    _asked_at: float = 0.0

    def ask(self, why: str) -> None:
        """Ask once; whoever asks first is the reason."""
        if not self.asked:
            self.why = why
            self._asked_at = time.monotonic()
            self.event.set()

    @property
    def asked(self) -> bool:
        return self.event.is_set()

    def seconds_left(self) -> float:
        """Return how many seconds the run has left, inf where its time has no end."""
        return math.inf if self.until is None else max(0.0, self.until - time.monotonic())

    def grace_left(self) -> float:
        """Return how many seconds are left for what is in flight; all of them while nobody asked."""
        return GRACE_SECONDS - (time.monotonic() - self._asked_at) if self.asked else GRACE_SECONDS


class StoppedClock:
    """The time of `clock`; a wait ends as soon as the run is asked to stop."""

    def __init__(self, clock: Clock, stop: Stop) -> None:
        self._clock = clock
        self._stop = stop

    def monotonic(self) -> float:
        return self._clock.monotonic()

    def sleep(self, seconds: float) -> None:
        left = seconds
        while left > 0 and not self._stop.asked:
            self._clock.sleep(min(_STEP_SECONDS, left))
            left -= _STEP_SECONDS
