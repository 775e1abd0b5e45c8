"""Threads for all clusters together: limited in number, shared fairly."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

SIZE = 64
SHARE = 16

_IDLE_SECONDS = 2.0

_Lane = tuple[bool, str]
"""Whether its work is urgent, and its name."""


def started(thread: threading.Thread) -> bool:
    """Start `thread`, and return whether it runs: the system may let this process have no more threads."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


def in_thread(work: Callable[[], T], name: str) -> Future[T]:
    """Return the future result of `work`, done in a thread of its own, which ends with it: nobody need wait for it.
    Where the system lets us have none, it is done here.
    """
    future: Future[T] = Future()
    if not started(threading.Thread(target=_fulfil, args=(future, work), name=name, daemon=True)):
        _fulfil(future, work)
    return future


def _fulfil(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - handed on to whoever asks for the result
        future.set_exception(error)


class WorkerPool:
    """At most `size` threads, at most `share` of them busy in one lane at a time; a lane is a cluster's name.

    Lanes take turns, and only a quarter of the threads are ever the second or a later one of a lane, so that clusters
    that hang leave threads to the others. Another quarter is kept for urgent work, locks and writes: it goes on,
    however many clusters hang while they are read. Of urgent work three quarters may be the second or a later one.

    The threads are daemons and nobody joins them: what hangs does not keep the process. With a `size` of 0 there are
    none, nor a `share`, and whoever asks for work does it; so it is where the system lets us have none.
    """

    def __init__(self, size: int = SIZE, share: int = SHARE) -> None:
        self.size = size
        self.share = share if size else 0
        self._changed = threading.Condition()
        self._lanes: dict[_Lane, deque[Callable[[], None]]] = {}
        self._busy: Counter[_Lane] = Counter()
        self._queued = 0
        self._threads = 0
        self._idle = 0

    def submit(self, lane: str, work: Callable[[], T], *, urgent: bool = False) -> Future[T]:
        """Return the future result of `work`, which waits for its turn in `lane`.

        Work must not wait for the future of other work: every thread may be taken by those who wait (see `each`).
        """
        future: Future[T] = Future()
        run, key = partial(_fulfil, future, work), (urgent, lane)
        with self._changed:
            under_way = self._busy[key] + len(self._lanes.get(key, ()))
            if under_way < self.share and self._queued >= self._idle and self._threads < self.size:
                self._threads += started(threading.Thread(target=self._serve, name="reconciler worker", daemon=True))
            alone = self._threads == 0
            if not alone:
                self._lanes.setdefault(key, deque()).append(run)
                self._queued += 1
                self._changed.notify()
        if alone:
            run()
        return future

    def each(self, lane: str, work: Callable[[T], R], things: Sequence[T], workers: int) -> list[R]:
        """Return what `work` gives for each of `things`, in their order; up to `workers` are done side by side.

        The calling thread does its part, and waits only for what another one has begun: so work of the pool may call
        it. The first error is raised, and nothing more is begun then.
        """
        results: dict[int, R] = {}
        todo: Iterator[tuple[int, T]] = iter(enumerate(things))
        guard = threading.Lock()

        def take_part() -> None:
            nonlocal todo
            while True:
                with guard:
                    found = next(todo, None)
                if found is None:
                    return
                try:
                    results[found[0]] = work(found[1])
                except BaseException:
                    with guard:
                        todo = iter(())
                    raise

        helpers = [self.submit(lane, take_part) for _ in range(min(workers, len(things)) - 1 if self.size else 0)]
        take_part()
        for helper in helpers:
            if not helper.cancel():
                helper.result()
        return [results[position] for position in range(len(things))]

    def failures(
        self, lane: str, work: Callable[[T], object], things: Sequence[T], workers: int
    ) -> list[Exception | None]:
        """Do `work` for each of `things`, as `each` does, and for all of them, whatever fails; return what each failed
        with, None where it did not.
        """

        def failure(thing: T) -> Exception | None:
            try:
                work(thing)
            except Exception as error:  # noqa: BLE001 - handed on to who asks
                return error
            return None

        return self.each(lane, failure, things, workers)

    def _serve(self) -> None:
        """Do what is queued, until there has been nothing for a while. What ends lets one thing begin at most, which
        this thread takes: no other one need be woken.
        """
        done: _Lane | None = None
        while True:
            with self._changed:
                if done is not None:
                    self._busy[done] -= 1
                found, done = self._next(), None
                if found is None:
                    self._idle += 1
                    heard = self._changed.wait(_IDLE_SECONDS)
                    self._idle -= 1
                    if not heard and not self._queued:
                        self._threads -= 1
                        return
                    continue
            done, run = found
            run()

    def _next(self) -> tuple[_Lane, Callable[[], None]] | None:
        """Take the work of the lane whose turn it is, None where none may begin more now."""
        for lane in [*self._free(first=True), *self._free(first=False)]:
            queue = self._lanes.pop(lane)
            run = queue.popleft()
            if queue:
                self._lanes[lane] = queue  # behind the others
            self._queued -= 1
            self._busy[lane] += 1
            return lane, run
        return None

    def _free(self, *, first: bool) -> list[_Lane]:
        """Return the lanes with work that may begin some, those that have no thread (`first`) or those that have."""
        quarter = self.size // 4
        ordinary = [busy for (urgent, _), busy in self._busy.items() if busy and not urgent]
        writing = [busy for (urgent, _), busy in self._busy.items() if busy and urgent]
        is_full = sum(ordinary) >= self.size - quarter
        is_crowded = sum(ordinary) - len(ordinary) >= quarter, sum(writing) - len(writing) >= self.size - quarter
        return [
            (urgent, name)
            for urgent, name in self._lanes
            if (self._busy[urgent, name] == 0) is first
            and self._busy[urgent, name] < self.share
            and (urgent or not is_full)
            and (first or not is_crowded[urgent])
        ]
