"""The order in which the groups of a plan are carried out: side by side, and on each cluster phase by phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import accumulate, takewhile
from queue import Empty, SimpleQueue

from reconciler.apply.waits import POLL_SECONDS
from reconciler.plan.model import Action
from reconciler.time_limit import GRACE_SECONDS, STEP_SECONDS, TimeLimit
from reconciler.worker_pool import WorkerPool

Advance = Callable[[Sequence[Action]], tuple[int, bool]]
"""Carries out what stands first in a group, one phase on one cluster. Returns how many of its actions are over, and
whether the next one waits for others to be ready.
"""


def group_sequences(actions: Sequence[Action]) -> list[Sequence[Action]]:
    """Return the groups of a plan, each in the plan's order: in it every action waits for the one before.

    So placement raises on one cluster before it shrinks on another.
    """
    groups: dict[str, list[Action]] = {}
    for action in actions:
        groups.setdefault(action.decision.group, []).append(action)
    return list(groups.values())


class Precedence:
    """Which phases of `groups` are under way on each cluster: there an action waits for the earlier ones of all groups.

    What still waits for another cluster, because its group has something to do there first, is not under way, so that
    nothing waits for a cluster that hangs but the groups that write to it. What its group puts behind a later phase
    counts as of that phase: else both would wait for each other.
    """

    def __init__(self, groups: Iterable[Sequence[Action]]) -> None:
        self._phases: dict[int, int] = {}
        self._under_way: dict[str, Counter[int]] = {}
        for actions in groups:
            phases = accumulate((int(action.decision.phase) for action in actions), max)
            self._phases |= {action.id: phase for action, phase in zip(actions, phases, strict=True)}
            self.enter(actions)

    def enter(self, actions: Sequence[Action]) -> None:
        """Note that what a group does first, as far as it goes on one cluster, waits for nothing elsewhere any more."""
        cluster = actions[0].ref.cluster
        here = takewhile(lambda action: action.ref.cluster == cluster, actions)
        self._under_way.setdefault(cluster, Counter()).update(self._phases[action.id] for action in here)

    def may_begin(self, action: Action) -> bool:
        """Return whether nothing of an earlier phase is under way on its cluster."""
        return min(self._under_way[action.ref.cluster]) >= self._phases[action.id]

    def leave(self, action: Action) -> bool:
        """Note that an action is over; return whether its phase is over on its cluster with it."""
        phases, phase = self._under_way[action.ref.cluster], self._phases[action.id]
        phases[phase] -= 1
        if phases[phase]:
            return False
        del phases[phase]
        return True


class GroupRuns:
    """The groups of a plan, each at one action at a time, in a thread of that action's cluster.

    What may begin does so in the plan's order, which without threads is the order of all actions. What waits occupies
    no thread; `sleep` waits for so many seconds where nothing else is to be done, by the clock of a cluster.
    """

    def __init__(
        self, actions: Sequence[Action], advance: Advance, pool: WorkerPool, sleep: Callable[[str, float], None]
    ) -> None:
        self._groups = group_sequences(actions)
        self._precedence = Precedence(self._groups)
        self._advance = advance
        self._pool = pool
        self._sleep = sleep
        self._ready: list[tuple[int, Sequence[Action]]] = []  # a heap: the id of the first, and the actions
        self._running = 0
        self._ended: SimpleQueue[tuple[Sequence[Action], Future[tuple[int, bool]]]] = SimpleQueue()
        self._waiting: list[Sequence[Action]] = []  # for others to be ready
        self._held: dict[str, list[Sequence[Action]]] = {}  # by earlier phases, by their cluster
        self._poll_pause = TimeLimit(0)

    def carry_out(self, limit: TimeLimit) -> None:
        """Return when all actions are over, or `limit` is and what is in flight had its time."""
        for actions in self._groups:
            self._go_on(actions)
        while self._ready or ((self._running or self._waiting) and limit.left(GRACE_SECONDS) > 0):
            if self._ready:
                self._begin(heappop(self._ready)[1])
            else:
                self._end_one()

    def _go_on(self, actions: Sequence[Action]) -> None:
        """Let `actions` begin as soon as nothing comes before them."""
        if self._precedence.may_begin(actions[0]):
            heappush(self._ready, (actions[0].id, actions))
        else:
            self._held.setdefault(actions[0].ref.cluster, []).append(actions)

    def _begin(self, actions: Sequence[Action]) -> None:
        self._running += 1
        future = self._pool.submit(actions[0].ref.cluster, partial(self._advance, actions), urgent=True)
        future.add_done_callback(lambda ended: self._ended.put((actions, ended)))
        with suppress(Empty):
            self._end(*self._ended.get_nowait())

    def _end_one(self) -> None:
        """See what became of whoever ends next; those who wait look again from time to time."""
        polls = self._poll_pause.over
        if self._running:
            with suppress(Empty):
                self._end(*self._ended.get(timeout=STEP_SECONDS))
        elif self._waiting:
            self._sleep(self._waiting[0][0].ref.cluster, POLL_SECONDS)
            polls = True
        if self._waiting and polls:
            waiting, self._waiting = self._waiting, []
            self._poll_pause = TimeLimit(POLL_SECONDS)
            for actions in waiting:
                self._go_on(actions)

    def _end(self, actions: Sequence[Action], ended: Future[tuple[int, bool]]) -> None:
        count, waits = ended.result()
        over, left = actions[:count], actions[count:]
        self._running -= 1
        if left and left[0].ref.cluster != actions[0].ref.cluster:
            self._precedence.enter(left)
        freed = [action.ref.cluster for action in over if self._precedence.leave(action)]
        for held in [held for cluster in freed for held in self._held.pop(cluster, ())]:
            self._go_on(held)
        if waits:
            self._waiting.append(left)
        elif left:
            self._go_on(left)
