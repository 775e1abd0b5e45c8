"""What of a plan comes before what, where its clusters are written to side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, takewhile

from reconciler.plan.model import Action


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
