"""The actions of a plan carried out in threads, each as soon as it may begin."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import Empty, PriorityQueue, SimpleQueue

from reconciler.apply.phase_order import PhaseOrder
from reconciler.apply.waits import POLL_SECONDS
from reconciler.plan.model import Action
from reconciler.time_limit import GRACE_SECONDS, STEP_SECONDS, TimeLimit
from reconciler.worker_pool import WorkerPool


class ParallelActions:
    """The actions of a plan, carried out by `attempt`, which returns whether one is over: else it waits for something.

    They begin as their `PhaseOrder` says: what may at the same time, in the plan's order on each cluster, and without
    threads in that of all actions. `pool` is asked for a thread for each: as many of a cluster are under way as it
    lets have one. What waits has none; `sleep` waits for so many seconds where nothing else is to be done, by the clock
    of a cluster. Only the thread that calls `carry_out` knows the order: the others take what is ready out of a queue,
    and put what has ended into one.
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
        self._ready: defaultdict[str, PriorityQueue[tuple[int, Action]]] = defaultdict(PriorityQueue)  # by lane
        self._lanes: deque[str] = deque()  # of what became ready, and the pool was not asked for a thread yet
        self._ended: SimpleQueue[Future[tuple[Action, bool]]] = SimpleQueue()
        self._under_way = 0  # actions that are ready, or have a thread
        self._waiting: list[Action] = []  # for others to be ready
        self._is_over = False
        self._failure: BaseException | None = None

    def carry_out(self, limit: TimeLimit) -> None:
        """Return when all actions are over, or `limit` is and what is in flight had its time."""
        self._add(self._order.first())
        poll = TimeLimit(0)
        try:
            while (self._under_way or self._waiting) and limit.left(GRACE_SECONDS) > 0:
                at_work = self._under_way > 0
                if at_work:
                    self._begin()
                    self._hear()
                else:
                    self._sleep(self._waiting[0].ref.cluster, POLL_SECONDS)
                if self._waiting and (poll.over or not at_work):
                    poll = TimeLimit(POLL_SECONDS)
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
            self._ready[lane].put((action.id, action))
            self._lanes.append(lane)
            self._under_way += 1

    def _begin(self) -> None:
        """Ask for a thread for each action that became ready; without threads the next one is carried out: what it lets
        begin may come before the others.
        """
        while self._lanes:
            lane = self._lanes.popleft()
            begun = self._pool.submit(lane, partial(self._carry_out_next, lane), urgent=True)
            begun.add_done_callback(self._ended.put)
            if not self._pool.share:
                return

    def _carry_out_next(self, lane: str) -> tuple[Action, bool]:
        """Carry out the first of what is ready in a lane; return it, and whether it is over."""
        action = self._ready[lane].get_nowait()[1]
        return action, not self._is_over and self._attempt(action)

    def _hear(self) -> None:
        """Take in what has ended; wait for that where no other one is to begin. After a failure nothing more begins."""
        try:
            ended = self._ended.get(timeout=0 if self._lanes else STEP_SECONDS)
        except Empty:
            return
        self._under_way -= 1
        if (error := ended.exception()) is not None:
            self._failure, self._is_over = error, True
            self._waiting.clear()
            return
        action, is_over = ended.result()
        if is_over:
            self._add(self._order.over(action))
        elif not self._is_over:
            self._waiting.append(action)
