"""How `rounding` of a FederatedReplicaSet shares replicas out, Fair or KubeFed."""

from __future__ import annotations

import heapq
import struct
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Literal

from msgspec import Struct, field

Rounding = Literal["Fair", "KubeFed"]


# Clusters of equal weight are tied: in which order they are served is settled for each federated ReplicaSet.


def tie_order(clusters: tuple[str, ...], key: str, rounding: Rounding) -> list[int]:
    """Return the positions of `clusters`, which are sorted by name, as they are served for "namespace/name" `key`.

    Fair serves by the SHA-256 of `key`, NUL and the name of the cluster, lowest first, so that federated ReplicaSets of
    one replica spread over the clusters whatever their names look like. KubeFed serves by `tie_hashes`, as the planner:
    names of workloads that differ in their last bytes only have nearly the same order.
    """
    if rounding == "KubeFed":
        return sorted(range(len(clusters)), key=tie_hashes(clusters, key).__getitem__)
    start = f"{key}\0".encode()
    digests = [sha256(start + name).digest() for name in _encoded(clusters)]
    return sorted(range(len(clusters)), key=digests.__getitem__)


@lru_cache(maxsize=256)
def _encoded(clusters: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple(name.encode() for name in clusters)


def tie_hashes(clusters: tuple[str, ...], key: str) -> tuple[int, ...]:
    """Return the FNV-1 32-bit hash of each cluster's name followed by `key` ("namespace/name").

    All names are hashed side by side, each in 64 bits of one large number, for which 32 bits of state times the 25 of
    the prime leave room: one multiplication for each byte of the key.

    Source: hash/fnv of Go, New32; kubernetes/federation planner.go, Planner.Plan.
    """
    namespace, slash, name = key.rpartition("/")
    hashes = _fed(_begun(clusters, namespace + slash), len(clusters), name)
    return struct.unpack(f"<{len(clusters)}Q", hashes.to_bytes(8 * len(clusters), "little"))


@lru_cache(maxsize=256)
def _begun(clusters: tuple[str, ...], text: str) -> int:
    """Return the hashes of the names of `clusters` with `text`, which many federated ReplicaSets share."""
    return sum(_fed(0x811C9DC5, 1, name + text) << (64 * lane) for lane, name in enumerate(clusters))


def _fed(hashes: int, count: int, text: str) -> int:
    ones, states = _lanes(count)
    for byte in text.encode():
        hashes = hashes * 0x01000193 & states ^ byte * ones
    return hashes


@lru_cache(maxsize=256)
def _lanes(count: int) -> tuple[int, int]:
    """Return a one, and 32 bits, in each of `count` lanes."""
    ones = sum(1 << (64 * lane) for lane in range(count))
    return ones, ones * 0xFFFFFFFF


# `rounding: Fair`: each replica is a seat, and the next seat goes to the cluster with the highest weight / (2n + 1).
#
# The seats whose average is at least some value are, for every value, a start of the sequence in which seats are given.
# So a value near the last one is computed, its seats are counted, and the few that are too many or missing are settled
# one by one: about one for each cluster at most, however many replicas there are. All numbers are whole, so nothing is
# lost with large weights.
#
# Source: the method of Sainte-Laguë (Webster).


def fair_seats(
    weights: Sequence[int], taken: Sequence[int], limits: Sequence[int], seats: int
) -> tuple[list[int], list[int]]:
    """Return for each cluster the least and the most seats it has once `seats` more are given out than are `taken`,
    never above its limit: where they differ it is tied with others for the last ones.

    A cluster without weight gets none. What fits nowhere is not given. `taken` is never above a limit.
    """
    limits = [most if weight else own for weight, own, most in zip(weights, taken, limits, strict=True)]
    if sum(limits) - sum(taken) <= seats:
        return limits, limits
    result = _nearest(weights, taken, limits, seats)
    missing = seats + sum(taken) - sum(result)
    if not missing:
        return result, result
    last, divisor = _settle(weights, taken if missing < 0 else limits, result, missing)
    least, most = list(result), result
    for at in [at for at, weight in enumerate(weights) if weight * divisor % last == 0]:
        number, odd = divmod(weights[at] * divisor // last + 1, 2)
        if not odd and taken[at] < number <= limits[at]:
            least[at], most[at] = number - 1, number
    return least, most


def _nearest(weights: Sequence[int], taken: Sequence[int], limits: Sequence[int], seats: int) -> list[int]:
    """Return for each cluster weight * pool / total, kept within taken and limit, halves up: about `seats` more.

    Clusters that this would push below what they have, or above their limit, are set there and leave, whichever of the
    two misses by more.
    """
    result = list(taken)
    free = [at for at, weight in enumerate(weights) if weight]
    pool = seats + sum([taken[at] for at in free])
    while True:
        total = sum([weights[at] for at in free])
        low = [at for at in free if taken[at] and weights[at] * pool < taken[at] * total]
        high = [at for at in free if limits[at] < pool and weights[at] * pool > limits[at] * total]
        if not low and not high:
            break
        short = sum([taken[at] * total - weights[at] * pool for at in low])
        over = sum([weights[at] * pool - limits[at] * total for at in high])
        leaving, settled = (low, taken) if short > over else (high, limits)
        for at in leaving:
            result[at] = settled[at]
            pool -= settled[at]
        gone = set(leaving)
        free = [at for at in free if at not in gone]
    for at in free:
        result[at] = (weights[at] * 2 * pool + total) // (2 * total)
    return result


def _settle(weights: Sequence[int], bounds: Sequence[int], result: list[int], missing: int) -> tuple[int, int]:
    """Give `missing` seats, each to the highest average; below 0 take as many back, each from the lowest average;
    never beyond the `bounds`. Return the average of the last one, as (weight, divisor).
    """
    step = 1 if missing > 0 else -1
    # Shifted so far that different averages stay different whole numbers.
    shift = 2 * max(weights).bit_length() + 1
    queue = [
        (step * ((2 * number + step << shift) // weight), at)
        for at, (weight, number, bound) in enumerate(zip(weights, result, bounds, strict=True))
        if number != bound
    ]
    heapq.heapify(queue)
    for _ in range(abs(missing)):
        last = queue[0][1]
        divisor = 2 * result[last] + step
        result[last] += step
        if result[last] != bounds[last]:
            heapq.heapreplace(queue, (step * ((divisor + 2 * step << shift) // weights[last]), last))
        else:
            heapq.heappop(queue)
    return weights[last], divisor


def kept_seats(kept: Sequence[int], shares: Sequence[int], total: int) -> tuple[list[int], list[int]]:
    """Return the least and the most that each has once `kept` is cut down to `total`: each replica is taken where most
    is kept beyond the share. Where they differ, the last in order loses first.

    Nothing is taken below its share. The sum of `kept` is at least `total`, that of `shares` at most.
    """

    def within(excess: int) -> list[int]:
        return [min(have, share + excess) if have > share else have for have, share in zip(kept, shares, strict=True)]

    excess = bisect_right(range(max(kept, default=0)), total, key=lambda excess: sum(within(excess))) - 1
    return within(excess), within(excess + 1)


# `rounding: KubeFed`: the rounds of the federation planner, to the last replica.
#
# Source: kubernetes/federation pkg/federation-controller/util/planner/planner.go and kubefed
# pkg/controller/util/planner/planner.go, Planner.Plan.


class Rounds(Struct):
    """The state between two rounds, by position. The planner serves in the order of `playing`.

    `ceilings` are the lower of maximum and capacity. `banked` are the sticky replicas a cluster has received ahead of
    its due; `overflow` is what a limit of capacity cut off. `before` are the replicas when the last round began, and
    `dues` what it gave each at most.
    """

    weights: Sequence[int]
    maximums: Sequence[int]
    ceilings: Sequence[int]
    replicas: list[int]
    banked: list[int]
    playing: Sequence[int]
    left: int
    overflow: dict[int, int] = field(default_factory=dict)
    before: list[int] = field(default_factory=list)
    dues: list[int] = field(default_factory=list)

    def run(self) -> None:
        """Deal out what is left, until nothing is left or nobody can take or use up anything."""
        while self.left > 0 and (total := sum([self.weights[at] for at in self.playing])):
            # Of what there is when the round begins, rounded up, as long as any is left: not of what is left by then.
            self.dues = [-(-self.left * weight // total) for weight in self.weights]
            self.before = list(self.replicas)
            self._round()

    def _round(self) -> None:
        dues, ceilings, replicas, banked = self.dues, self.ceilings, self.replicas, self.banked
        left = self.left
        used: dict[int, int] = {}
        full: set[int] = set()
        for at in self.playing:
            due = dues[at] if dues[at] < left else left
            if banked[at] and due:
                used[at] = min(due, banked[at])
                banked[at] -= used[at]
                due -= used[at]
            number = replicas[at] + due
            if number > ceilings[at]:
                full.add(at)
                self.overflow[at] = min(number, self.maximums[at]) - ceilings[at]
                number = ceilings[at]
            left -= number - replicas[at]
            replicas[at] = number
        if full:
            self.playing = [at for at in self.playing if at not in full]
        elif left == self.left:
            # Everybody lived off what is banked: all rounds that would be like this one are played at once.
            rounds = min([banked[at] // amount for at, amount in used.items()])
            for at, amount in used.items():
                banked[at] -= rounds * amount
        self.left = left
