"""`rounding: Fair`: each replica is a seat, and the next seat goes to the cluster with the highest weight / (2n + 1).

The seats whose average is at least some value are, for every value, a start of the sequence in which seats are given.
So a value near the last one is computed, its seats are counted, and the few that are too many or missing are settled
one by one: about one for each cluster at most, however many replicas there are. All numbers are whole, so nothing is
lost with large weights.

Equal weights are served by SHA-256, so that federated ReplicaSets of one replica spread over the clusters whatever
their names look like.

Source: the method of Sainte-Laguë (Webster).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from operator import ge

from msgspec import Struct


def fair_order(clusters: tuple[str, ...], weights: tuple[int, ...], key: str) -> list[int]:
    """Return the positions of `clusters` by weight, highest first; equal weights by the SHA-256 of `key`
    ("namespace/name"), NUL and the name of the cluster, lowest first.
    """
    start = f"{key}\0".encode()
    order: list[int] = []
    for tied in _by_weight(weights):
        if len(tied) > 1:
            digests = {at: sha256(start + clusters[at].encode()).digest() for at in tied}
            order += sorted(tied, key=digests.__getitem__)
        else:
            order += tied
    return order


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
    _settle(claims, result, seats + sum(taken))
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


def _settle(claims: Claims, result: list[int], wanted: int) -> None:
    """Add or remove the few seats by which the total of `result` differs from `wanted`."""
    missing = wanted - sum(result)
    if missing > 0:
        _give(claims, result, missing)
    elif missing < 0:
        _take(claims, result, -missing)


def _give(claims: Claims, result: list[int], missing: int) -> None:
    """Give `missing` seats, each to the highest average; ties go by order."""
    weights, limits = claims.weights, claims.limits
    shift = _exact(weights)
    queue = [
        ((2 * number + 1 << shift) // weight, at)
        for at, (weight, number, limit) in enumerate(zip(weights, result, limits, strict=True))
        if number < limit
    ]
    heapq.heapify(queue)
    for _ in range(missing):
        _, at = queue[0]
        result[at] += 1
        if result[at] < limits[at]:
            heapq.heapreplace(queue, ((2 * result[at] + 1 << shift) // weights[at], at))
        else:
            heapq.heappop(queue)


def _take(claims: Claims, result: list[int], surplus: int) -> None:
    """Take `surplus` seats back, each from the lowest average; of ties the last in order loses first."""
    weights, taken = claims.weights, claims.taken
    shift = _exact(weights)
    queue = [
        (-((2 * number - 1 << shift) // weight), -at)
        for at, (weight, number, least) in enumerate(zip(weights, result, taken, strict=True))
        if number > least
    ]
    heapq.heapify(queue)
    for _ in range(surplus):
        at = -queue[0][1]
        result[at] -= 1
        if result[at] > taken[at]:
            heapq.heapreplace(queue, (-((2 * result[at] - 1 << shift) // weights[at]), -at))
        else:
            heapq.heappop(queue)


def _exact(weights: Sequence[int]) -> int:
    """Return by how many bits (2n + 1) / weight is shifted, so that different averages stay different whole numbers."""
    return 2 * max(weights).bit_length() + 1


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


def seats_until_more(claims: Claims) -> list[int | None]:
    """Return for each cluster how many more seats must be given out in all until it gets its next one, None for never.

    `taken` is what each has when they were given out by highest averages.
    """
    seen: dict[tuple[int, int], tuple[int, list[int]]] = {}
    result: list[int | None] = []
    for at, (weight, seats, limit) in enumerate(zip(claims.weights, claims.taken, claims.limits, strict=True)):
        if not weight or seats >= limit:
            result.append(None)
            continue
        if (weight, seats) not in seen:
            seen[weight, seats] = _seats_up_to(claims, weight, 2 * seats + 1)
        given, tied = seen[weight, seats]
        result.append(given - sum([other > at for other in tied]))
    return result


def _seats_up_to(claims: Claims, weight: int, divisor: int) -> tuple[int, list[int]]:
    """Return how many seats are given until all averages of at least weight / divisor are served, and who has a seat of
    exactly that average.
    """
    given = 0
    tied = []
    for at, (own, seats, limit) in enumerate(zip(claims.weights, claims.taken, claims.limits, strict=True)):
        reached, rest = divmod(own * divisor, weight)
        until = (reached + 1) // 2
        if seats < until <= limit and rest == 0 and reached % 2 == 1:
            tied.append(at)
        given += max(0, min(until, limit) - seats)
    return given, tied
