"""Asking a run to stop."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from reconciler.backends.base import Clock

_STEP_SECONDS = 0.2


@dataclass
class Stop:
    """Set from outside: no new writes. What is in flight is finished."""

    event: threading.Event = field(default_factory=threading.Event)
    why: str = ""

    def ask(self, why: str) -> None:
        self.why = why
        self.event.set()

    @property
    def asked(self) -> bool:
        return self.event.is_set()


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
