"""How `rounding` of a FederatedReplicaSet shares replicas out, Fair or KubeFed."""

from __future__ import annotations

import heapq
import struct
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from operator import ge

from msgspec import Struct, field

# `rounding: Fair`: each replica is a seat, and the next seat goes to the cluster with the highest weight / (2n + 1).
#
# The seats whose average is at least some value are, for every value, a start of the sequence in which seats are given.
# So a value near the last one is computed, its seats are counted, and the few that are too many or missing are settled
# one by one: about one for each cluster at most, however many replicas there are. All numbers are whole, so nothing is
# lost with large weights.
#
# Equal weights are served by SHA-256, so that federated ReplicaSets of one replica spread over the clusters whatever
# their names look like.
#
# Source: the method of Sainte-Laguë (Webster).


def fair_order(clusters: tuple[str, ...], weights: tuple[int, ...], key: str) -> list[int]:
    """Return the positions of `clusters` by weight, highest first; equal weights by the SHA-256 of `key`
    ("namespace/name"), NUL and the name of the cluster, lowest first.
    """
    start, names = f"{key}\0".encode(), _encoded(clusters)
    order: list[int] = []
    for tied in _by_weight(weights):
        if len(tied) > 1:
            digests = {at: sha256(start + names[at]).digest() for at in tied}
            order += sorted(tied, key=digests.__getitem__)
        else:
            order += tied
    return order


@lru_cache(maxsize=64)
def _encoded(clusters: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name.encode() for name in clusters)


@lru_cache(maxsize=256)
def _by_weight(weights: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """Return the positions of each weight, highest first."""
    found: dict[int, list[int]] = {}
    for at, weight in enumerate(weights):
        found.setdefault(weight, []).append(at)
    return tuple(tuple(found[weight]) for weight in sorted(found, reverse=True))


class Claims(Struct, frozen=True):
    """The clusters that share, in the order that settles ties: weight, seats taken already, and seats at most."""

    weights: Sequence[int]
    taken: Sequence[int]
    limits: Sequence[int]


def fair_seats(claims: Claims, seats: int) -> list[int]:
    """Return for each cluster the seats it has once `seats` more are given out, never above its limit.

    A cluster without weight gets none. What fits nowhere is not given. `taken` is never above a limit.
    """
    weights, taken, limits = claims.weights, claims.taken, claims.limits
    if not all(weights) or any(map(ge, taken, limits)):
        return _seats_of_open(claims, seats)
    if sum(limits) - sum(taken) <= seats:
        return list(limits)
    if any(taken):
        result = list(map(min, map(max, _nearest(weights, *_level(claims, seats)), taken), limits))
    elif min(limits) < seats:
        result = list(map(min, _nearest(weights, *_level(claims, seats)), limits))
    else:
        result = _nearest(weights, seats, sum(weights))
    _settle(claims, result, seats + sum(taken) - sum(result))
    return result


def _seats_of_open(claims: Claims, seats: int) -> list[int]:
    """Share among those alone who have weight and room."""
    weights, taken, limits = claims.weights, claims.taken, claims.limits
    result = list(taken)
    open_ones = [at for at, weight in enumerate(weights) if weight and taken[at] < limits[at]]
    if open_ones:
        among = Claims(*([numbers[at] for at in open_ones] for numbers in (weights, taken, limits)))
        for at, number in zip(open_ones, fair_seats(among, seats), strict=True):
            result[at] = number
    return result


def _nearest(weights: Sequence[int], pool: int, total: int) -> list[int]:
    """Return weight * pool / total of each, halves up: the seats whose average is at least total / (2 * pool)."""
    double_pool, double_total = 2 * pool, 2 * total
    return [(weight * double_pool + total) // double_total for weight in weights]


def _level(claims: Claims, seats: int) -> tuple[int, int]:
    """Return (pool, total): at weight * pool / total, kept within taken and limit, exactly `seats` are given.

    Clusters that this would push below what they have, or above their limit, are set there and leave, whichever of the
    two misses by more.
    """
    weights, taken, limits = claims.weights, claims.taken, claims.limits
    free: Sequence[int] = range(len(weights))
    pool = seats + sum(taken)
    while True:
        total = sum([weights[at] for at in free])
        low = [at for at in free if taken[at] and weights[at] * pool < taken[at] * total]
        high = [at for at in free if limits[at] < pool and weights[at] * pool > limits[at] * total]
        short = sum([taken[at] * total - weights[at] * pool for at in low])
        over = sum([weights[at] * pool - limits[at] * total for at in high])
        if short == over:
            return pool, total
        leaving, settled = (low, taken) if short > over else (high, limits)
        pool -= sum([settled[at] for at in leaving])
        gone = set(leaving)
        free = [at for at in free if at not in gone]


def _settle(claims: Claims, result: list[int], missing: int) -> None:
    """Give `missing` seats, each to the highest average, ties by order; below 0 take as many back, each from the lowest
    average, of ties from the last.
    """
    if not missing:
        return
    step, weights = (1 if missing > 0 else -1), claims.weights
    bounds = claims.limits if step > 0 else claims.taken
    # Shifted so far that different averages stay different whole numbers.
    shift = 2 * max(weights).bit_length() + 1
    queue = [
        (step * ((2 * number + step << shift) // weight), step * at)
        for at, (weight, number, bound) in enumerate(zip(weights, result, bounds, strict=True))
        if number != bound
    ]
    heapq.heapify(queue)
    for _ in range(abs(missing)):
        at = step * queue[0][1]
        result[at] += step
        if result[at] != bounds[at]:
            heapq.heapreplace(queue, (step * ((2 * result[at] + step << shift) // weights[at]), step * at))
        else:
            heapq.heappop(queue)


def kept_seats(kept: Sequence[int], shares: Sequence[int], total: int) -> list[int]:
    """Return `kept` cut down to `total`: each replica is taken where most is kept beyond the share.

    Of equals the last in order loses first. Nothing is taken below its share. The sum of `kept` is at least `total`,
    that of `shares` at most.
    """
    surplus = sum(kept) - total
    result = list(kept)
    excess = sorted([(share - have, at) for at, (have, share) in enumerate(zip(kept, shares, strict=True))])
    height = 0
    for count, (lack, _) in enumerate(excess, start=1):
        height -= lack
        following = -excess[count][0] if count < len(excess) else 0
        if height - surplus >= count * following:
            level, above = divmod(height - surplus, count)
            for place, at in enumerate(sorted([at for _, at in excess[:count]])):
                result[at] = shares[at] + level + (place < above)
            return result
    return result


def seats_until_more(claims: Claims, at: int) -> int | None:
    """Return how many more seats must be given out in all until the cluster at `at` gets its next one, None for never.

    `taken` is what each has when they were given out by highest averages.
    """
    weight, divisor = claims.weights[at], 2 * claims.taken[at] + 1
    if not weight or claims.taken[at] >= claims.limits[at]:
        return None
    given = 0  # until all averages of at least weight / divisor are served, without later ones of just that average
    for other, (own, seats, limit) in enumerate(zip(claims.weights, claims.taken, claims.limits, strict=True)):
        reached, rest = divmod(own * divisor, weight)
        until = (reached + 1) // 2
        tied = seats < until <= limit and rest == 0 and reached % 2 == 1
        given += max(0, min(until, limit) - seats) - (tied and other > at)
    return given


# `rounding: KubeFed`: the order and the rounds of the federation planner, to the last replica.
#
# Equal weights are served by FNV-1, which hashes the name of the cluster first: names of workloads that differ in their
# last bytes only have nearly the same order.
#
# Source: kubernetes/federation pkg/federation-controller/util/planner/planner.go and kubefed
# pkg/controller/util/planner/planner.go, Planner.Plan.

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


class Rounds(Struct):
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
