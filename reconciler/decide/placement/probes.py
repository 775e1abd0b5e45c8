"""What another preference would change: the allocation is made once more, with that one preference changed."""

from __future__ import annotations

from dataclasses import replace

from reconciler.decide.placement.allocation import UNBOUNDED, Allocation, Candidates, allocate, arranged


def bound_by_maximum(given: Allocation) -> frozenset[str]:
    """Return the clusters that would get another number if their own maxReplicas were one more."""
    served = given.served
    full = [
        at
        for at, (name, most) in enumerate(zip(served.names, served.maximums, strict=True))
        if most < UNBOUNDED and given.replicas[name] >= most
    ]
    is_left = given.demand.rounding == "Fair" and sum(given.replicas.values()) < given.demand.total
    sure = {at for at in full if is_left and _takes_more(given, at)}
    return frozenset(
        served.names[at] for at in full if at in sure or _moves(given, _widened(served, at), served.names[at])
    )


def _takes_more(given: Allocation, at: int) -> bool:
    """Return whether nothing but its maximum keeps the cluster at `at` from taking what is left over."""
    served = given.served
    room = given.demand.capacity.get(served.names[at], UNBOUNDED)
    return served.weights[at] > 0 and served.minimums[at] <= served.maximums[at] < room


def moves_with_weight(given: Allocation, cluster: str, weight: int) -> bool:
    """Return whether `cluster` would get another number with `weight`, whoever of equal weights is served first."""
    served = given.served
    return _moves(given, _weighed(served, served.names.index(cluster), weight), cluster)


def _moves(given: Allocation, served: Candidates, cluster: str) -> bool:
    return allocate(served, given.demand).replicas[cluster] != given.replicas[cluster]


def _widened(served: Candidates, at: int) -> Candidates:
    maximums = served.maximums
    return replace(served, maximums=(*maximums[:at], maximums[at] + 1, *maximums[at + 1 :]))


def _weighed(served: Candidates, at: int, weight: int) -> Candidates:
    """Return `served` with another weight of the cluster at `at`, behind those of the same weight."""
    weights = (*served.weights[:at], weight, *served.weights[at + 1 :])
    others = [other for other in range(len(weights)) if other != at]
    before = sum(weights[other] >= weight for other in others)
    return arranged(replace(served, weights=weights), [*others[:before], at, *others[before:]])
