"""How long an exchange may take. Whatever waits in this package waits in steps of a deadline."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from reconciler.backends.http.errors import TimedOutError

_STEP_SECONDS = 0.2
"""A stop is noticed after so long: a signal ends no wait of another thread."""


def endless() -> float:
    return math.inf


class Deadline:
    """So many `seconds` from now on, for one exchange or for several.

    `run_left` says how many seconds the run leaves it, asked anew at each step: infinite while nobody asks the run to
    stop, 0 once nobody waits for the answer any more.
    """

    def __init__(self, seconds: float, run_left: Callable[[], float] = endless) -> None:
        self._until = time.monotonic() + seconds
        self._run_left = run_left

    def left(self) -> float:
        """Return the seconds that are left, 0 or less where it is over."""
        return min(self._until - time.monotonic(), self._run_left())

    def step(self, words: str) -> float:
        """Return for how many seconds to wait before asking again.

        Raises:
            TimedOutError: it is over; `words` say what was waited for.
        """
        left = self.left()
        if left <= 0:
            raise TimedOutError(words)
        return min(left, _STEP_SECONDS)

    def wait(self, seconds: float) -> bool:
        """Let `seconds` pass; return False where that would take longer than there is time: at once, if it is known."""
        until = time.monotonic() + seconds
        while (missing := until - time.monotonic()) > 0:
            left = self.left()
            if left <= missing:
                return False
            time.sleep(min(missing, _STEP_SECONDS))
        return self.left() > 0
