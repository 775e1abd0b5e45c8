"""What a cluster is read through, the threads that read it, and the time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future, wait
from typing import Any

from msgspec import Struct, field

from reconciler.backends.http.exchange import endless
from reconciler.backends.protocols import Cluster, MetricsSource, Resource
from reconciler.worker_pool import WorkerPool

READ_SECONDS = 120.0
"""How long one reading of a cluster may take; a cluster that takes longer is unknown in this run."""

READ_DELAY_SECONDS = 5.0
"""How long a run waits for a cluster before wakes on the others stop waiting with it."""

TOO_SLOW = "its reading took longer than it may in this run"

_STEP_SECONDS = 0.2


class Source(Struct, frozen=True):
    """What one cluster is read through. `error` set: it could not even be opened, the others are None then.

    `workers` is how many of its lists are read side by side. `give_up` is called with the reason when nobody waits
    for its answers any more, `begin` when a reading begins.
    """

    cluster: Cluster | None = None
    metrics: MetricsSource | None = None
    error: str = ""
    workers: int = 1
    give_up: Callable[[str], None] = lambda _: None
    begin: Callable[[], None] = lambda: None


class ListKey(Struct, frozen=True):
    """One list that is asked for."""

    resource: Resource[Any]
    namespace: str = ""
    labels: str = ""


class Readers(Struct, frozen=True):
    """The threads that read, and how many seconds one reading may take: `seconds`, and half of what the run has left.

    `run_seconds_left` says how much that is; a few seconds once the run is asked to stop.
    """

    pool: WorkerPool = field(default_factory=WorkerPool)
    seconds: float = READ_SECONDS
    run_seconds_left: Callable[[], float] = endless

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
        tell_at = time.monotonic() + READ_DELAY_SECONDS
        waiting = {one for one in asked if not one.done()}
        until: dict[Future[Any], float] = {}
        standstill = self._limit()
        while waiting and (left := self.run_seconds_left()) > 0:
            done, waiting = wait(waiting, timeout=min(_STEP_SECONDS, left))
            begun = [one for one in waiting if one not in until and one.running()]
            until |= dict.fromkeys(begun, self._limit())
            over = {one for one in waiting & until.keys() if time.monotonic() >= until[one]}
            standstill = self._limit() if begun or done or over else standstill
            over = over or {one for one in waiting - until.keys() if time.monotonic() >= standstill}
            waiting -= over
            for one in over:
                give_up(one)
            if waiting and time.monotonic() >= tell_at:
                delayed()
                tell_at = time.monotonic() + READ_DELAY_SECONDS

    def _limit(self) -> float:
        """Return until when a reading may take that begins now."""
        return time.monotonic() + min(self.seconds, self.run_seconds_left() / 2)
