"""The actions of a plan carried out in threads, each as soon as it may begin."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from heapq import heappop, heappush

from reconciler.apply.phase_order import PhaseOrder
from reconciler.apply.waits import POLL_SECONDS
from reconciler.plan.model import Action
from reconciler.time_limit import GRACE_SECONDS, STEP_SECONDS, TimeLimit
from reconciler.worker_pool import WorkerPool


class Schedule:
    """The actions of a plan, carried out by `attempt`, which returns whether one is over: else it waits for something.

    They begin as their `PhaseOrder` says: what may at the same time, in the plan's order on each cluster, and without
    threads in that of all actions. `pool` is asked for a thread for each: as many of a cluster are under way as it
    lets have one. What waits has none; `sleep` waits for so many seconds where nothing else is to be done, by the clock
    of a cluster.
    """

    def __init__(
        self,
        actions: Sequence[Action],
        attempt: Callable[[Action], bool],
        pool: WorkerPool,
        sleep: Callable[[str, float], None],
    ) -> None:
        self._order = PhaseOrder(actions)
        self._attempt = attempt
        self._pool = pool
        self._sleep = sleep
        self._changed = threading.Condition()
        self._ready: defaultdict[str, list[tuple[int, Action]]] = defaultdict(list)  # by lane, a heap by their ids
        self._lanes: list[str] = []  # of what became ready, and the pool was not asked for a thread yet
        self._unfinished = 0  # actions that are ready, or under way
        self._waiting: list[Action] = []  # for others to be ready
        self._is_over = False
        self._failure: BaseException | None = None

    def carry_out(self, limit: TimeLimit) -> None:
        """Return when all actions are over, or `limit` is and what is in flight had its time."""
        self._add(self._order.first())
        poll = TimeLimit(0)
        try:
            while ((at_work := self._begin()) or self._waiting) and limit.left(GRACE_SECONDS) > 0:
                if at_work:
                    with self._changed:
                        self._changed.wait_for(self._has_news, STEP_SECONDS)
                else:
                    self._sleep(self._waiting[0].ref.cluster, POLL_SECONDS)
                if self._waiting and (poll.over or not at_work):
                    poll = TimeLimit(POLL_SECONDS)
                    with self._changed:
                        waiting, self._waiting = self._waiting, []
                        self._add(self._order.ready(waiting))
        finally:
            self._is_over = True
        if self._failure is not None:
            raise self._failure

    def _add(self, actions: Iterable[Action]) -> None:
        """Let `actions` begin."""
        for action in actions:
            lane = action.ref.cluster if self._pool.share else ""
            heappush(self._ready[lane], (action.id, action))
            self._lanes.append(lane)
            self._unfinished += 1

    def _begin(self) -> bool:
        """Ask for a thread for each action that became ready; return whether any is ready, or under way."""
        while True:
            with self._changed:  # what is over may just let others begin
                lanes, self._lanes = self._lanes, []
                if not lanes:
                    return self._unfinished > 0
            for lane in lanes:
                self._pool.enqueue(lane, partial(self._carry_out_next, lane), urgent=True)

    def _has_news(self) -> bool:
        return bool(self._lanes) or not self._unfinished

    def _carry_out_next(self, lane: str) -> None:
        """Carry out the first of what is ready in a lane, and add what may begin after it."""
        with self._changed:
            action = heappop(self._ready[lane])[1]
        is_over = False
        try:
            is_over = not self._is_over and self._attempt(action)
        except BaseException as error:  # noqa: BLE001 - raised by `carry_out`
            self._failure, self._is_over = error, True
        with self._changed:
            self._unfinished -= 1
            if is_over:
                self._add(self._order.over(action))
            elif not self._is_over:
                self._waiting.append(action)
            if self._has_news():
                self._changed.notify()
