"""How long something may take: until its time is over, or until somebody cuts it."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import inf

STEP_SECONDS = 0.2
"""A cut is heard after so long: a signal ends no wait of another thread."""

GRACE_SECONDS = 3.0
"""What is in flight has this long once a run is over: with giving the locks back it ends within five."""


class Clock:
    """Time as it passes, also while the machine sleeps, where the system can tell: a lock runs out meanwhile."""

    def monotonic(self) -> float:
        boot_time = getattr(time, "CLOCK_BOOTTIME", None)
        return time.monotonic() if boot_time is None else time.clock_gettime(boot_time)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class SettledClock(Clock):
    """Time of a snapshot, which settles at once: waiting takes none, and is over all the same."""

    def __init__(self) -> None:
        self._waited = 0.0

    def monotonic(self) -> float:
        return self._waited

    def sleep(self, seconds: float) -> None:
        self._waited += seconds


class TimeLimit:
    """So many `seconds` from now on, by `clock`; less where somebody cuts it. What is `within` it ends with it.

    It is passed down to whatever waits: a run has one, a reading and a request have theirs within that. Any thread may
    ask it, and cut it, also one that handles a signal.
    """

    def __init__(self, seconds: float = inf, clock: Clock | None = None, ended: str = "its time is over") -> None:
        """`ended` is why it is over where nobody cut it."""
        self._clock = clock or Clock()
        self._end = self._clock.monotonic() + seconds
        self._ended = ended
        self._why = ""
        self._outer: TimeLimit | None = None
        self._grace = 0.0

    def within(self, seconds: float = inf, *, grace: float = 0.0, clock: Clock | None = None) -> TimeLimit:
        """Return one that ends after `seconds`, or with this one: `grace` seconds later, whatever ended it.

        `clock` is what measures the seconds, where that is another one.
        """
        made = TimeLimit(seconds, clock or self._clock)
        made._outer, made._grace = self, grace
        return made

    def for_what_is_in_flight(self) -> TimeLimit:
        """Return one that ends when this one does by itself, and some seconds after it was cut."""
        return self.within(self.left(), grace=GRACE_SECONDS)

    def cut(self, why: str) -> None:
        """End it now; whoever is first is the reason."""
        if not self.over:
            self._why = why
            self._end = self._clock.monotonic()

    @property
    def is_cut(self) -> bool:
        """Whether somebody cut this one, while what it is within went on."""
        return bool(self._why)

    def left(self, grace: float = 0.0) -> float:
        """Return how many seconds are left, 0 or less where it is over; infinite where it has no end.

        With `grace` it counts as that much longer.
        """
        left = self._end + grace - self._clock.monotonic()
        return left if self._outer is None else min(left, self._outer.left(grace + self._grace))

    @property
    def over(self) -> bool:
        return self.left() <= 0

    @property
    def why(self) -> str:
        """Why it, or what it is within, was cut or has ended; "" where none did."""
        if self._outer is not None:
            return self._why or self._outer.why
        return self._why or (self._ended if self.over else "")

    def now(self) -> float:
        """Return the time of its clock, in seconds since some moment."""
        return self._clock.monotonic()

    def step(self) -> float:
        """Return for how many seconds to wait before looking at it again; 0 or less where it is over."""
        return min(self.left(), STEP_SECONDS)

    def until(self, heard: Callable[[float], object]) -> bool:
        """Call `heard`, which waits for as many seconds as it is given, until it returns something true.

        Return whether it did in time.
        """
        while (step := self.step()) > 0:
            if heard(step):
                return True
        return False

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass, or as many as are left."""
        end = self._clock.monotonic() + seconds
        while (left := min(end - self._clock.monotonic(), self.step())) > 0:
            self._clock.sleep(left)

    def wait(self, seconds: float) -> bool:
        """Let `seconds` pass; return False where that would take longer than there is time: at once, if it is known."""
        if self.left() <= seconds:
            return False
        self.sleep(seconds)
        return not self.over
