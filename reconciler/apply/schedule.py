"""Which action of a plan may begin now: groups side by side, each in its own order, and each cluster phase by phase."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import takewhile

from reconciler.apply.waits import POLL_SECONDS
from reconciler.plan.model import Action
from reconciler.time_limit import GRACE_SECONDS, STEP_SECONDS, TimeLimit
from reconciler.worker_pool import WorkerPool


class Schedule:
    """The actions of a plan, carried out by `attempt`, which returns whether one is over: else it waits for something.

    In a group every action waits for the one before, so that placement raises on one cluster before it shrinks on
    another. On a cluster it waits for the earlier phases of all groups that are under way there. What still waits for
    another cluster, because its group has something to do there first, is not: so nothing waits for a cluster that
    hangs but the groups that write to it. What its group puts behind a later phase counts as of that phase: else both
    would wait for each other.

    What may begin does so in the plan's order on each cluster, and without threads in that of all actions. What waits
    occupies no thread; `sleep` waits for so many seconds where nothing else is to be done, by the clock of a cluster.
    """

    def __init__(
        self,
        actions: Sequence[Action],
        attempt: Callable[[Action], bool],
        pool: WorkerPool,
        sleep: Callable[[str, float], None],
    ) -> None:
        self._attempt = attempt
        self._pool = pool
        self._sleep = sleep
        self._changed = threading.Condition()
        self._groups: dict[str, deque[Action]] = {}
        self._phases: dict[int, int] = {}  # by the id of an action, the one that it counts as of
        self._under_way: defaultdict[str, Counter[int]] = defaultdict(Counter)  # by cluster, how much of each phase
        self._held: defaultdict[str, list[Action]] = defaultdict(list)  # by earlier phases of their cluster
        self._ready: defaultdict[str, list[tuple[int, Action]]] = defaultdict(list)  # by lane, a heap by their ids
        self._threads: Counter[str] = Counter()  # by lane
        self._free: Counter[str] = Counter()  # by lane, those of its threads that are about to take something
        self._waiting: list[Action] = []  # for others to be ready
        self._is_over = False
        self._failure: BaseException | None = None
        for action in actions:
            group = self._groups.setdefault(action.decision.group, deque())
            before = self._phases[group[-1].id] if group else 0
            self._phases[action.id] = max(before, action.decision.phase)
            group.append(action)
        for group in self._groups.values():
            self._enter(group)

    def carry_out(self, limit: TimeLimit) -> None:
        """Return when all actions are over, or `limit` is and what is in flight had its time."""
        with self._changed:
            for group in self._groups.values():
                self._go_on(group[0])
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
                        for action in waiting:
                            self._go_on(action)
        finally:
            self._is_over = True
        if self._failure is not None:
            raise self._failure

    def _begin(self) -> bool:
        """Let as many threads go on in each lane as there is something to do for; return whether any is at work."""
        while True:
            with self._changed:
                missing = [] if self._is_over else self._missing()
                self._threads.update(missing)
                self._free.update(missing)
                if not missing:
                    return self._threads.total() > 0
            for lane in missing:
                self._pool.submit(lane, partial(self._go_through, lane), urgent=True)

    def _missing(self) -> list[str]:
        """Return the lanes that lack threads, each as often as it lacks one."""
        return [lane for lane in self._ready for _ in range(self._lacking(lane))]

    def _lacking(self, lane: str) -> int:
        return min(len(self._ready[lane]) - self._free[lane], (self._pool.share or 1) - self._threads[lane])

    def _has_news(self) -> bool:
        return self._is_over or not self._threads.total() or bool(self._missing())

    def _go_through(self, lane: str) -> None:
        """Carry out what may begin in a lane, until there is nothing, or others wait for a thread."""
        try:
            while (action := self._next(lane)) is not None:
                self._end(lane, action, self._attempt(action))
                if self._pool.is_waited_for:
                    break
        except BaseException as error:  # noqa: BLE001 - raised by `carry_out`
            self._failure, self._is_over = error, True
        with self._changed:
            self._free[lane] -= 1
            self._threads[lane] -= 1
            self._changed.notify()

    def _next(self, lane: str) -> Action | None:
        with self._changed:
            if self._is_over or not self._ready[lane]:
                return None
            self._free[lane] -= 1
            return heappop(self._ready[lane])[1]

    def _end(self, lane: str, action: Action, is_over: bool) -> None:
        with self._changed:
            self._free[lane] += 1
            if not is_over:
                self._waiting.append(action)
                return
            group = self._groups[action.decision.group]
            group.popleft()
            if group and group[0].ref.cluster != action.ref.cluster:
                self._enter(group)
            self._leave(action)
            if group:
                self._go_on(group[0])

    def _go_on(self, action: Action) -> None:
        """Let `action` begin as soon as nothing comes before it."""
        cluster = action.ref.cluster
        if min(self._under_way[cluster]) >= self._phases[action.id]:
            lane = cluster if self._pool.share else ""
            heappush(self._ready[lane], (action.id, action))
            if self._lacking(lane) > 0:
                self._changed.notify()
        else:
            self._held[cluster].append(action)

    def _enter(self, group: Sequence[Action]) -> None:
        """Note that what `group` does first, as far as it goes on one cluster, waits for nothing elsewhere any more."""
        cluster = group[0].ref.cluster
        here = takewhile(lambda action: action.ref.cluster == cluster, group)
        self._under_way[cluster].update(self._phases[action.id] for action in here)

    def _leave(self, action: Action) -> None:
        """Note that `action` is over; where its phase is over on its cluster with it, what that held goes on."""
        cluster, phase = action.ref.cluster, self._phases[action.id]
        under_way = self._under_way[cluster]
        under_way[phase] -= 1
        if not under_way[phase]:
            del under_way[phase]
            for held in self._held.pop(cluster, ()):
                self._go_on(held)
