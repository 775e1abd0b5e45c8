"""The lists that are asked for, the threads that read clusters, and the time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from msgspec import Struct, field

from reconciler.backends.protocols import Resource
from reconciler.errors import reason_of
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool

T = TypeVar("T")

_READ_SECONDS = 120.0
"""How long one reading of a cluster may take; a cluster that takes longer is unknown in this run."""

READ_DELAY_SECONDS = 5.0
"""How long a run waits for a cluster before wakes on the others stop waiting with it."""

LISTS_AT_ONCE = 4
"""How many lists of one cluster are read side by side."""

TOO_SLOW = "its reading took longer than it may in this run"


class ListKey(Struct, frozen=True):
    """One list that is asked for."""

    resource: Resource[Any]
    namespace: str = ""
    labels: str = ""


class Readers(Struct, frozen=True):
    """The threads that read, and how many seconds one reading may take: `seconds`, and half of what is left of the run,
    whose time limit `limit` is.
    """

    pool: WorkerPool = field(default_factory=WorkerPool)
    seconds: float = _READ_SECONDS
    limit: TimeLimit = field(default_factory=TimeLimit)

    def wait(
        self,
        asked: Iterable[Future[Any]],
        delayed: Callable[[], None],
        give_up: Callable[[Future[Any]], None] = lambda _: None,
    ) -> None:
        """Wait until all of `asked` are done, or their time is over, which counts from when each begins.

        `give_up` is called with one whose time is over, so that it lets go of its thread. What has not begun is waited
        for as long as others begin or end. `delayed` is called after `READ_DELAY_SECONDS` of waiting, and again after
        as much.
        """
        limit = self.limit.for_what_is_in_flight()
        soon = TimeLimit(READ_DELAY_SECONDS)
        waiting = {reading for reading in asked if not reading.done()}
        limits: dict[Future[Any], TimeLimit] = {}
        standstill = self._of_one(limit)
        while waiting and not limit.over:
            done, waiting = wait(waiting, timeout=limit.step())
            begun = [reading for reading in waiting if reading not in limits and reading.running()]
            limits |= dict.fromkeys(begun, self._of_one(limit))
            over = {reading for reading in waiting & limits.keys() if limits[reading].over}
            standstill = self._of_one(limit) if begun or done or over else standstill
            over = over or ({reading for reading in waiting if reading not in limits} if standstill.over else set())
            waiting -= over
            for reading in over:
                give_up(reading)
            if waiting and soon.over:
                delayed()
                soon = TimeLimit(READ_DELAY_SECONDS)

    def each(
        self,
        work: Mapping[str, Callable[[], T]],
        delayed: Callable[[], None] = lambda: None,
        give_up: Callable[[str], None] = lambda _: None,
    ) -> dict[str, T | str]:
        """Return what `work` gives, by cluster, or why one gives nothing; `give_up` gets the name of one that takes too
        long, and for `delayed` see `wait`.
        """
        found = {name: self.pool.submit(name, part) for name, part in work.items()}
        names = {reading: name for name, reading in found.items()}
        late: set[str] = set()

        def over(reading: Future[T]) -> None:
            reading.cancel()
            late.add(names[reading])
            give_up(names[reading])

        self.wait(found.values(), delayed, over)
        for reading in [reading for reading in found.values() if not reading.done()]:
            over(reading)
        failed = {name: reading.exception() for name, reading in found.items() if name not in late}
        why = {name: reason_of(error) for name, error in failed.items() if error is not None}
        why |= dict.fromkeys(late, TOO_SLOW)
        return {name: why.get(name) or reading.result() for name, reading in found.items()}

    def _of_one(self, limit: TimeLimit) -> TimeLimit:
        """Return that of a reading that begins now."""
        return limit.within(min(self.seconds, limit.left() / 2))
