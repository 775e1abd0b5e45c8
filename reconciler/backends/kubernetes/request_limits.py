"""When a request to an API server is sent: at most so many at a time, writes at a rate and as long as the lock is ours,
each as long as somebody waits for it; and how long its answer is waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reconciler.backends.kubernetes.requests import ApiRequest, Operation
from reconciler.backends.protocols import RequestSettings
from reconciler.errors import LockLostError, ReadLimitError, StoppedError
from reconciler.time_limit import TimeLimit

_AT_ONCE_SECONDS = 3.0
"""How long a request that is sent at once may take with all its attempts: while it hangs the lock runs out."""

_LAST_SECONDS = 0.8
"""A lock is given back within so long even when the run's time is over."""


class RequestTurns:
    """The turns of all requests to one cluster; any thread may take one.

    `reading` is the limit of what is read without the lock, cut once nobody waits for it any more. While `fence` is set
    there is a lock, and writes go out only as long as it says that this is ours.
    """

    def __init__(self, settings: RequestSettings) -> None:
        self.reading = settings.limit.within()
        self.fence: Callable[[], bool] | None = None
        self._run = settings.limit
        self._written = settings.limit.for_what_is_in_flight()
        self._timeout = settings.timeout
        self._slots = threading.BoundedSemaphore(settings.in_flight)
        self._rate = Rate(settings.qps)

    @contextmanager
    def taken(self, request: ApiRequest) -> Iterator[TimeLimit]:
        """Hold a slot among those in flight, a write after its turn of the rate; yield how long its answer is waited
        for: all attempts have that long together, as long as nothing answers.

        Raises:
            StoppedError: the run was asked to stop, or its time was over, before there was one.
        """
        turn, answer, seconds = self._limits(request)
        has_turn = turn is None or (
            (not request.writes or self._rate.take(turn))
            and (self._slots.acquire(blocking=False) or turn.until(lambda left: self._slots.acquire(timeout=left)))
        )
        try:
            if not has_turn or answer.over:
                why = answer.why or self._run.why or "the run's --timeout is over"
                raise StoppedError(f"{request.operation}: not sent, {why}")
            yield answer.within(seconds)
        finally:
            if has_turn and turn is not None:
                self._slots.release()

    def check_reading(self, operation: Operation) -> None:
        """Check that somebody waits for what is read: also with the lock, while single objects are read to the end.

        Raises:
            ReadLimitError: nobody does any more.
        """
        if self.reading.is_cut:
            raise ReadLimitError(f"{operation}: not asked, {self.reading.why}")

    def check_lock(self, request: ApiRequest) -> None:
        """Check that the lock, where there is one, is still ours. It may be lost while a connection is made, also where
        the process stood still meanwhile, so this is asked once more when the body is about to go out.

        Raises:
            LockLostError: it is not.
        """
        if self.fence is not None and not self.fence():
            raise LockLostError(request.operation)

    def _limits(self, request: ApiRequest) -> tuple[TimeLimit | None, TimeLimit, float]:
        """Return how long it waits for its turn, None: it needs none, and for its answer, at most so many seconds."""
        seconds = self._timeout if request.when == "in turn" else min(self._timeout, _AT_ONCE_SECONDS)
        if request.when == "at the end":  # gives the lock back: for a moment at least, whatever has ended
            return None, TimeLimit(), max(_LAST_SECONDS, min(seconds, self._written.left()))
        only_reads = request.method == "GET" and self.fence is None
        if request.when == "at once":  # takes the lock, or keeps it: what holds it is answered also after the run
            return None, self._run if only_reads else self._written, seconds
        if only_reads:  # as long as somebody waits for what is read
            return self.reading, self.reading, seconds
        return self._run if request.writes else self._written, self._written, seconds


class Rate:
    """A bucket that holds one second's worth of writes and fills as time passes. `per_second` 0: no limit.

    Source: client-go util/flowcontrol, tokenBucketRateLimiter.
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._guard = threading.Lock()
        self._free_at = 0.0  # when the bucket would be full again

    def take(self, limit: TimeLimit) -> bool:
        """Wait for the next turn; return whether it came within `limit`."""
        if self._per_second <= 0:
            return True
        with self._guard:
            now = limit.now()
            self._free_at = max(self._free_at, now) + 1 / self._per_second
            seconds = self._free_at - now - max(1.0, 1 / self._per_second)
        return seconds <= 0 or limit.wait(seconds)
