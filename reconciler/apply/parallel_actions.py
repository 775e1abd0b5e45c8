"""The actions of a plan carried out in threads, each as soon as it may begin."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
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
    threads in that of all actions. `pool` is asked for as many threads as a cluster may have, each for one turn: for
    one action where clusters wait for each other's threads, else for all that is ready. What waits has none; `sleep`
    waits for so many seconds where nothing else is to be done, by the clock of a cluster. Only the thread that calls
    `carry_out` knows the order: the others take what is ready out of a queue, and put what has ended into one.
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
        self._lanes: dict[str, None] = {}  # where something is ready for which the pool was not asked for threads yet
        self._turns: Counter[str] = Counter()  # that the pool was asked for, by lane
        self._ended: SimpleQueue[tuple[Action, bool] | str] = SimpleQueue()  # actions, and turns by their lane
        self._under_way = 0  # actions that are ready, or have a thread
        self._waiting: list[Action] = []  # for others to be ready
        self._is_over = False
        self._failure: BaseException | None = None

    def carry_out(self, limit: TimeLimit) -> None:
        """Return when all actions are over, or `limit` is and what is in flight had its time."""
        self._add(self._order.first())
        poll = TimeLimit(0)
        try:
            while (self._under_way or (self._waiting and not self._is_over)) and limit.left(GRACE_SECONDS) > 0:
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
            self._lanes[lane] = None
            self._under_way += 1

    def _begin(self) -> None:
        """Ask for threads for what became ready. Without threads the next action is carried out: what it lets begin may
        come before the others.
        """
        lanes, self._lanes = self._lanes, {}
        for lane in lanes:
            free = max(1, self._pool.share) - self._turns[lane]
            for _ in range(min(free, self._ready[lane].qsize())):
                self._turns[lane] += 1
                self._pool.submit(lane, partial(self._take_turn, lane), urgent=True)

    def _take_turn(self, lane: str) -> None:
        """Carry out what is ready in `lane`, the first of it where others wait for the thread; after a failure none."""
        goes_on = True
        while goes_on and not self._ready[lane].empty():
            with suppress(Empty):  # another turn may have taken the last one
                action, is_over = self._ready[lane].get_nowait()[1], False
                try:
                    is_over = not self._is_over and self._attempt(action)
                except BaseException as error:  # noqa: BLE001 - handed on to whoever waits for all
                    self._failure, self._is_over = error, True
                self._ended.put((action, is_over))
            goes_on = 0 < len(self._ready) * self._pool.share <= self._pool.size
        self._ended.put(lane)

    def _hear(self) -> None:
        """Take in what has ended; wait for that where no other one is to begin. After a failure nothing more begins."""
        try:
            ended = self._ended.get(timeout=0 if self._lanes else STEP_SECONDS)
        except Empty:
            return
        if isinstance(ended, str):
            self._turns[ended] -= 1
            if not self._ready[ended].empty():
                self._lanes[ended] = None
            return
        action, is_over = ended
        self._under_way -= 1
        if is_over:
            self._add(self._order.over(action))
        elif not self._is_over:
            self._waiting.append(action)
