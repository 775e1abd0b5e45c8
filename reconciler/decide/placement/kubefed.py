"""`rounding: KubeFed`: the order and the rounds of the federation planner, to the last replica.

Equal weights are served by FNV-1, which hashes the name of the cluster first: names of workloads that differ in their
last bytes only have nearly the same order.

Source: kubernetes/federation pkg/federation-controller/util/planner/planner.go and kubefed
pkg/controller/util/planner/planner.go, Planner.Plan.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

_OFFSET_BASIS = 0x811C9DC5
_PRIME = 0x01000193
_LANE = 64  # bits; 32 of state times the 25 of the prime fit


def tie_hashes(clusters: tuple[str, ...], key: str) -> tuple[int, ...]:
    """Return the FNV-1 32-bit hash of each cluster's name followed by `key` ("namespace/name").

    All names are hashed side by side, each in 64 bits of one large number: one multiplication for each byte of the key.

    Source: hash/fnv of Go, New32; kubernetes/federation planner.go, Planner.Plan.
    """
    return _unpacked(_packed_hashes(clusters, key), len(clusters))


def _packed_hashes(clusters: tuple[str, ...], key: str) -> int:
    namespace, slash, name = key.rpartition("/")
    return _Lanes.over(len(clusters)).fed(_prefix(clusters, namespace + slash), name)


def _unpacked(lanes: int, count: int) -> tuple[int, ...]:
    return struct.unpack(f"<{count}Q", lanes.to_bytes(8 * count, "little"))


class _Lanes:
    """The constants for hashing `count` names at once: a one, and 32 bits, in every lane."""

    __slots__ = ("low", "ones")

    def __init__(self, count: int) -> None:
        self.ones = sum(1 << (_LANE * lane) for lane in range(count))
        self.low = self.ones * 0xFFFFFFFF

    @staticmethod
    @lru_cache(maxsize=64)
    def over(count: int) -> _Lanes:
        return _Lanes(count)

    def fed(self, state: int, text: str) -> int:
        for byte in text.encode():
            state = state * _PRIME & self.low ^ byte * self.ones
        return state


@lru_cache(maxsize=256)
def _prefix(clusters: tuple[str, ...], text: str) -> int:
    """Return the packed states after the names of `clusters` and `text`, which many federated ReplicaSets share."""
    if text:
        return _Lanes.over(len(clusters)).fed(_prefix(clusters, ""), text)
    return sum(_fnv(name) << (_LANE * lane) for lane, name in enumerate(clusters))


def _fnv(text: str) -> int:
    state = _OFFSET_BASIS
    for byte in text.encode():
        state = state * _PRIME & 0xFFFFFFFF ^ byte
    return state


def kubefed_order(clusters: tuple[str, ...], weights: tuple[int, ...], key: str) -> list[int]:
    """Return the positions of `clusters` by weight, highest first, then by `tie_hashes`, lowest first, then by name."""
    by_name, heights = _heights(clusters, weights)
    # The upper half of each lane, which the hash leaves free, takes the rank of the weight: one number to sort by.
    numbers = _unpacked(heights | _packed_hashes(clusters, key), len(clusters))
    return sorted(by_name, key=numbers.__getitem__)


@lru_cache(maxsize=256)
def _heights(clusters: tuple[str, ...], weights: tuple[int, ...]) -> tuple[tuple[int, ...], int]:
    """Return the positions by name, and in the upper half of each cluster's lane how many weights are above its own."""
    ranks = {weight: rank for rank, weight in enumerate(sorted(set(weights), reverse=True))}
    heights = sum(ranks[weight] << (_LANE * lane + _LANE // 2) for lane, weight in enumerate(weights))
    return tuple(sorted(range(len(clusters)), key=clusters.__getitem__)), heights


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
