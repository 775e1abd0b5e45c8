"""Which action of a plan may begin now: groups side by side, each in its own order, and each cluster phase by phase.

That what needs an action which was not applied is skipped is decided in `skipped_actions.py`.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Sequence
from itertools import takewhile

from reconciler.plan.model import Action


class PhaseOrder:
    """What of the `actions` of a plan is over, and so what may begin; for one thread at a time.

    In a group every action waits for the one before, so that placement raises on one cluster before it shrinks on
    another. On a cluster it waits for the earlier phases of all groups that are under way there. What still waits for
    another cluster, because its group has something to do there first, is not: so nothing waits for a cluster that
    hangs but the groups that write to it. What its group puts behind a later phase counts as of that phase: else both
    would wait for each other.
    """

    def __init__(self, actions: Sequence[Action]) -> None:
        self._groups: dict[str, deque[Action]] = {}
        self._phases: dict[int, int] = {}  # by the id of an action, the one that it counts as of
        self._under_way: defaultdict[str, Counter[int]] = defaultdict(Counter)  # by cluster, how much of each phase
        self._held: defaultdict[str, list[Action]] = defaultdict(list)  # by earlier phases of their cluster
        for action in actions:
            group = self._groups.setdefault(action.decision.group, deque())
            before = self._phases[group[-1].id] if group else 0
            self._phases[action.id] = max(before, action.decision.phase)
            group.append(action)
        for group in self._groups.values():
            self._enter(group)

    def first(self) -> list[Action]:
        """Return what may begin at first."""
        return self.ready(group[0] for group in self._groups.values())

    def ready(self, actions: Iterable[Action]) -> list[Action]:
        """Return those of `actions`, each the next one of its group, that may begin now; `over` returns the others as
        soon as they may.
        """
        found: list[Action] = []
        for action in actions:
            cluster = action.ref.cluster
            is_ready = min(self._under_way[cluster]) >= self._phases[action.id]
            (found if is_ready else self._held[cluster]).append(action)
        return found

    def over(self, action: Action) -> list[Action]:
        """Note that `action` is over, and return what may begin now that could not before."""
        cluster, phase, group = action.ref.cluster, self._phases[action.id], self._groups[action.decision.group]
        group.popleft()
        if group and group[0].ref.cluster != cluster:
            self._enter(group)
        self._under_way[cluster][phase] -= 1
        released: list[Action] = []
        if not self._under_way[cluster][phase]:
            del self._under_way[cluster][phase]
            released = self._held.pop(cluster, [])
        return self.ready([*released, *([group[0]] if group else [])])

    def _enter(self, group: Sequence[Action]) -> None:
        """Note that what `group` does first, as far as it goes on one cluster, waits for nothing elsewhere any more."""
        cluster = group[0].ref.cluster
        here = takewhile(lambda action: action.ref.cluster == cluster, group)
        self._under_way[cluster].update(self._phases[action.id] for action in here)
