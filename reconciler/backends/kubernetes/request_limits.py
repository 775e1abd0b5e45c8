"""When a request to an API server is sent: at most so many at a time, writes at a rate and as long as the lock is ours,
each as long as somebody waits for it; how long its answer is waited for; and how much of one cluster is read in one
run, so that no cluster takes the time and the memory of the others.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from reconciler.backends.kubernetes.request_form import ApiRequest, Operation
from reconciler.backends.protocols import RequestSettings
from reconciler.errors import LockLostError, MalformedAnswerError, ReadLimitError, StoppedError
from reconciler.http.client import ByteBudget
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


# How much is read.

PAGE = 500

_MOST_PAGES = 1000
"""Of all lists of one cluster together, in one reading, each of `PAGE` objects: one that is asked for in a smaller size
counts as the part that it is. The first page of a list does not count, as that is asked for by us and not by the
server.
"""

_MOST_PAGES_OF_A_LIST = 400

MOST_BYTES = 1 << 30
"""Of all that one run reads of a cluster: 100,000 objects of 10 kB each fit. Answers to writes do not count."""

MOST_KINDS = 200
"""Custom kinds with a scale. With more of them none is read, and what has no custom kind is read all the same."""


class ReadBudget(ByteBudget):
    """What may still be read of one cluster, pages and bytes; any thread may take from it."""

    def __init__(self, pages: int = _MOST_PAGES) -> None:
        super().__init__(MOST_BYTES)
        self._pages = pages
        self._items_left = pages * PAGE

    def renew(self) -> None:
        """Let another reading begin, with all that it may take."""
        super().renew()
        with self._guard:
            self._items_left = self._pages * PAGE

    def take_page(self, operation: Operation, before: int, items: int) -> None:
        """Count a page of at most so many `items` after the first one of a list, which had room for `before`.

        Raises:
            MalformedAnswerError: the list has more pages than one may have. ReadLimitError: the cluster has.
        """
        if before + items > _MOST_PAGES_OF_A_LIST * PAGE:
            raise MalformedAnswerError(f"{operation}: has more than {_MOST_PAGES_OF_A_LIST} pages, expected its end")
        with self._guard:
            self._items_left -= items
            if self._items_left < 0:
                raise ReadLimitError(f"{operation}: more than {self._pages} pages were read of this cluster")
