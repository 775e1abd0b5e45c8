"""`rounding: KubeFed`: the rounds of the federation planner, to the last replica.

Source: kubernetes/federation pkg/federation-controller/util/planner/planner.go and kubefed
pkg/controller/util/planner/planner.go, Planner.Plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Rounds:
    """The state between two rounds; all lists are in the planner's order.

    `ceilings` are the lower of maximum and capacity. `banked` are the sticky replicas a cluster has received ahead of
    its due; `overflow` is what a limit of capacity cut off, by position.
    """

    weights: Sequence[int]
    maximums: Sequence[int]
    ceilings: Sequence[int]
    replicas: list[int]
    banked: list[int]
    left: int
    overflow: dict[int, int] = field(default_factory=dict)

    def run(self) -> None:
        """Deal out what is left, until nothing is left or nobody can take or use up anything."""
        playing = list(range(len(self.weights)))
        moved = True
        while moved and self.left > 0:
            total = sum([self.weights[at] for at in playing])
            if total == 0:
                return
            playing, moved = self._round(playing, total)

    def _round(self, playing: list[int], total: int) -> tuple[list[int], bool]:
        """Deal one round; return who stays in the game, and whether anything moved."""
        weights, ceilings, replicas, banked = self.weights, self.ceilings, self.replicas, self.banked
        dealt = left = self.left
        full: set[int] = set()
        used: dict[int, int] = {}
        taken = False
        for at in playing:
            # Of what there was when the round began, rounded up, as long as any is left: not of what is left by now.
            due = min(-(-dealt * weights[at] // total), left)
            if banked[at] and due:
                used[at] = min(due, banked[at])
                banked[at] -= used[at]
                due -= used[at]
            before, number = replicas[at], replicas[at] + due
            if number > ceilings[at]:
                full.add(at)
                number = self._cut(at, number)
            if number != before:
                replicas[at] = number
                left -= number - before
                taken = taken or number > before
        self.left = left
        if left == dealt and not full:
            self._repeat(used)
        return [at for at in playing if at not in full] if full else playing, taken or bool(used)

    def _cut(self, at: int, number: int) -> int:
        """Return the replicas of a full cluster, and note what its capacity cut off below its maximum."""
        allowed = min(number, self.maximums[at])
        if allowed > self.ceilings[at]:
            self.overflow[at] = allowed - self.ceilings[at]
        return self.ceilings[at]

    def _repeat(self, used: dict[int, int]) -> None:
        """Play all rounds at once that would be like the last one, in which everybody lived off what is banked."""
        rounds = min([self.banked[at] // amount for at, amount in used.items()], default=0)
        for at, amount in used.items():
            self.banked[at] -= rounds * amount
