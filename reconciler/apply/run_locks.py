"""The locks of a run, one in each cluster that it writes to: taken side by side, and given back at its end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, wait
from functools import partial
from types import TracebackType

from msgspec import Struct

from reconciler.apply.access import Access
from reconciler.errors import LockHeldError, reason_of
from reconciler.time_limit import GRACE_SECONDS, TimeLimit
from reconciler.worker_pool import WorkerPool

LOCK_DELAY_SECONDS = 5.0
"""How long a run waits for a lock before wakes on the other clusters stop waiting with it."""

_LATE_SECONDS = 5.0
"""How much longer than its time a lock may take while a request about it is under way."""

_RELEASE_SECONDS = 4.0


class LeftOut(Struct, frozen=True):
    """Why nothing may be written to a cluster. `held`: somebody has its lock; else nobody could ask for it."""

    why: str
    held: bool = True

    def of(self, cluster: str) -> LeftOut:
        """Return it with the name of its cluster before the words."""
        return LeftOut(f"{cluster}: {self.why.removeprefix(f'{cluster}: ')}", self.held)


_NOT_PLANNED = LeftOut("changed since the plan, no lock was taken for it")


class Locks:
    """The locks of a run. Each is waited for up to `timeout_seconds`, side by side, so that no cluster waits for the
    lock of another one; all are given back at the end of the `with` block.

    Two runs may each get a part of what both want: neither waits longer than that time, and each leaves the clusters
    of the other one to its next run.
    """

    def __init__(
        self, accesses: Mapping[str, Access], pool: WorkerPool, timeout_seconds: float, limit: TimeLimit
    ) -> None:
        self._accesses = accesses
        self._pool = pool
        self._timeout = timeout_seconds
        self._limit = limit
        self._guard = threading.Lock()
        self._attempts: dict[str, Future[LeftOut | None]] = {}
        self._taken: set[str] = set()
        self._undisturbed: set[str] = set()
        self._over = False

    def __enter__(self) -> Locks:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Give the locks back side by side; one that cannot be given back in time runs out by itself."""
        with self._guard:
            self._over = True
            given = sorted(self._taken)
        released = [self._pool.submit(name, self._accesses[name].lock.release, urgent=True) for name in given]
        wait(released, max(1.0, min(_RELEASE_SECONDS, self._limit.left(GRACE_SECONDS))))

    def take(
        self, names: Collection[str], delayed: Callable[[], None] = lambda: None, *, briefly: bool = False
    ) -> None:
        """Take the locks of the clusters `names`; `left_out` then says which could not be taken.

        `delayed` is called once where that takes longer than a few seconds; `briefly`: return then, and a later call
        finds what was taken meanwhile.
        """
        for name in sorted(names):
            before = self._attempts.get(name)
            if before is None or (before.done() and before.result() is not None):
                self._attempts[name] = self._pool.submit(name, partial(self._attempt, name), urgent=True)
        soon = TimeLimit(LOCK_DELAY_SECONDS)
        limit = self._limit.within(
            LOCK_DELAY_SECONDS if briefly else self._timeout + _LATE_SECONDS, grace=GRACE_SECONDS
        )
        reported = briefly
        waiting = {self._attempts[name] for name in names}
        while waiting and not limit.over:
            _, waiting = wait(waiting, limit.step())
            if waiting and not reported and soon.over:
                reported = True
                delayed()

    def were_free(self, names: Collection[str]) -> bool:
        """Return whether all the locks of `names` are ours, and nobody had one since the reading of its cluster began:
        what was read is as good as read under the locks.
        """
        return self._undisturbed.issuperset(names)

    @property
    def left_out(self) -> dict[str, LeftOut]:
        """Return for each cluster to which nothing may be written why that is so."""
        names = {*self._accesses, *self._attempts}
        return {name: why for name in sorted(names) if (why := self._why_not(name)) is not None}

    def _why_not(self, name: str) -> LeftOut | None:
        attempt = self._attempts.get(name)
        if attempt is None:
            return _NOT_PLANNED
        if not attempt.done():
            return LeftOut("its lock could not be taken in time, no answer about it", held=False)
        return attempt.result()

    def _attempt(self, name: str) -> LeftOut | None:
        """Take one lock; return why it could not be taken, None where it was.

        One that is taken when nobody waits for it any more is given back at once.
        """
        access = self._accesses.get(name)
        if access is None:
            return LeftOut("it cannot be reached", held=False)
        if self._limit.over:
            return LeftOut(self._limit.why)
        try:
            was_free = access.lock.acquire(self._limit.within(self._timeout))
        except LockHeldError as error:
            return LeftOut(self._limit.why or str(error))
        except Exception as error:  # noqa: BLE001 - the one place where a lock fails: its cluster alone is left out
            return LeftOut(reason_of(error), held=False)
        with self._guard:
            self._taken.add(name)
            self._undisturbed |= {name} if was_free else set()
            is_late = self._over
        if is_late:
            access.lock.release()
        return None
