"""How many replicas each cluster gets: order, minimum, sticky, share (placement.md, Algorithm).

A run calls this on validated values; `allocate_replicas` is the public function, with every check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add, sub
from typing import Literal

from reconciler.decide.rounding.fair import Claims, fair_seats, kept_seats
from reconciler.decide.rounding.kubefed import Rounds
from reconciler.decide.rounding.order import fair_order, kubefed_order
from reconciler.model import NOTHING
from reconciler.policy.types import ClusterPreference

LARGEST = 2**53
"""The largest number of replicas, and the largest weight: what every JSON reader keeps exactly."""

UNBOUNDED = 1 << 62
"""Stands for "no limit" in lists of limits; above every number of replicas."""

Rounding = Literal["Fair", "KubeFed"]


@dataclass(frozen=True, slots=True)
class Entrants:
    """Clusters that have a preference; equal positions belong together, and earlier ones are served first.

    `absent` are the others, which get nothing. A maximum of UNBOUNDED is none.
    """

    names: tuple[str, ...]
    weights: tuple[int, ...]
    minimums: tuple[int, ...]
    maximums: tuple[int, ...]
    absent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Demand:
    """What is to be spread. `kept` are the replicas a cluster has already, `capacity` the known limits."""

    total: int
    rebalance: bool
    rounding: Rounding = "Fair"
    kept: Mapping[str, int] = NOTHING
    capacity: Mapping[str, int] = NOTHING


@dataclass(frozen=True, slots=True)
class Steps:
    """How one cluster came to its replicas: minimum + sticky + share. `limit` is what they stand at, "" for none."""

    minimum: int = 0
    sticky: int = 0
    share: int = 0
    limit: Literal["", "maxReplicas", "capacity"] = ""


@dataclass(frozen=True, slots=True)
class Allocation:
    """How many replicas each cluster gets.

    `replicas` has every cluster. `overflow` has the clusters that would get more without their own limit of capacity,
    and how much more. `planner_overflow` is the federation planner's own overflow (rounding "kubefed" only).
    """

    replicas: Mapping[str, int]
    overflow: Mapping[str, int]
    planner_overflow: Mapping[str, int]
    served: Entrants = field(repr=False)
    demand: Demand = field(repr=False)
    minimum: Sequence[int] = field(repr=False)
    """In the order of `served`, like `sticky`."""
    sticky: Sequence[int] = field(repr=False)

    def steps(self, cluster: str) -> Steps:
        """Return how `cluster` came to its replicas."""
        if cluster not in self.served.names:
            return Steps()
        at = self.served.names.index(cluster)
        given, sticky = self.replicas[cluster], self.sticky[at]
        minimum = min(self.minimum[at], given)  # a maxReplicas below minReplicas may leave less
        share = given - minimum - sticky
        if given >= self.demand.capacity.get(cluster, UNBOUNDED):
            return Steps(minimum, sticky, share, "capacity")
        if given >= self.served.maximums[at]:
            return Steps(minimum, sticky, share, "maxReplicas")
        return Steps(minimum, sticky, share)


def candidates(preferences: Mapping[str, ClusterPreference], clusters: Sequence[str]) -> Entrants:
    """Return the clusters in the order given; each uses its own entry in `preferences`, else "*"."""
    default = preferences.get("*")
    chosen = [preferences.get(name, default) for name in clusters]
    found = [(name, own) for name, own in zip(clusters, chosen, strict=True) if own is not None]
    return Entrants(
        names=tuple([name for name, _ in found]),
        weights=tuple([own.weight for _, own in found]),
        minimums=tuple([own.min_replicas for _, own in found]),
        maximums=tuple([UNBOUNDED if own.max_replicas is None else own.max_replicas for _, own in found]),
        absent=tuple([name for name, own in zip(clusters, chosen, strict=True) if own is None]),
    )


def in_turn(found: Entrants, key: str, rounding: Rounding) -> Entrants:
    """Return `found` in the order in which they are served for "namespace/name" `key`."""
    order = kubefed_order if rounding == "KubeFed" else fair_order
    return arranged(found, order(found.names, found.weights, key))


def arranged(found: Entrants, order: Sequence[int]) -> Entrants:
    """Return `found` in the `order` of these positions."""
    return Entrants(
        names=tuple(map(found.names.__getitem__, order)),
        weights=tuple(map(found.weights.__getitem__, order)),
        minimums=tuple(map(found.minimums.__getitem__, order)),
        maximums=tuple(map(found.maximums.__getitem__, order)),
        absent=found.absent,
    )


def allocate(served: Entrants, demand: Demand) -> Allocation:
    """Return the allocation, without any overflow of `fair` (see `with_overflow`).

    The cost does not depend on the number of replicas.
    """
    known = demand.capacity
    capacities = [known.get(name, UNBOUNDED) for name in served.names] if known else None
    ceilings = served.maximums if capacities is None else list(map(min, served.maximums, capacities))
    minimum = _minimum(served.minimums, capacities, demand.total)
    if demand.rounding == "KubeFed":
        replicas, sticky, overflow = _kubefed(served, demand, minimum, ceilings)
    else:
        (replicas, sticky), overflow = _fair(served, demand, minimum, ceilings), {}
    numbers = dict(zip(served.names, replicas, strict=True))
    numbers.update(dict.fromkeys(served.absent, 0))
    return Allocation(numbers, {}, overflow, served, demand, minimum, sticky)


def with_overflow(given: Allocation, served: Entrants, demand: Demand, probed: Iterable[str]) -> Allocation:
    """Return `given` with the overflow of each cluster of `probed` that is full: what it would get without its own
    limit of capacity, minus what it gets.
    """
    overflow: dict[str, int] = {}
    for name in probed:
        if given.replicas[name] < demand.capacity.get(name, UNBOUNDED):
            continue
        others = {other: limit for other, limit in demand.capacity.items() if other != name}
        more = allocate(served, replace(demand, capacity=others)).replicas[name] - given.replicas[name]
        if more > 0:
            overflow[name] = more
    return replace(given, overflow=overflow)


def _minimum(minimums: Sequence[int], capacities: Sequence[int] | None, total: int) -> list[int]:
    clipped = list(minimums) if capacities is None else list(map(min, minimums, capacities))
    left = total
    if sum(clipped) <= left:
        return clipped
    result = []
    for wanted in clipped:
        given = min(wanted, left)
        left -= given
        result.append(given)
    return result


def _fair(
    served: Entrants, demand: Demand, minimum: list[int], ceilings: Sequence[int]
) -> tuple[list[int], Sequence[int]]:
    """Return the replicas and the sticky ones among them, by position."""
    sticky = _sticky(served, demand, minimum, ceilings)
    left = demand.total - sum(minimum) - sum(sticky)
    if left < 0:
        nothing, room = [0] * len(minimum), [max(0, top - own) for top, own in zip(ceilings, minimum, strict=True)]
        shares = fair_seats(Claims(served.weights, nothing, room), demand.total - sum(minimum))
        replicas = kept_seats(list(map(add, minimum, sticky)), list(map(add, minimum, shares)), demand.total)
        return replicas, list(map(sub, replicas, minimum))
    if left == 0 or not any(served.weights):
        return list(map(add, minimum, sticky)), sticky
    base = list(map(min, minimum, ceilings))
    left += sum(minimum) - sum(base)
    claims = Claims(served.weights, sticky, list(map(sub, ceilings, base)))
    return list(map(add, base, fair_seats(claims, left))), sticky


def _sticky(served: Entrants, demand: Demand, minimum: list[int], ceilings: Sequence[int]) -> list[int]:
    """Return what each cluster keeps beyond its minimum, if there are enough replicas."""
    if demand.rebalance or not demand.kept:
        return [0] * len(minimum)
    kept = [demand.kept.get(name, 0) for name in served.names]
    return [max(0, held - own) for held, own in zip(map(min, kept, ceilings), minimum, strict=True)]


def _kubefed(
    served: Entrants, demand: Demand, minimum: list[int], ceilings: Sequence[int]
) -> tuple[list[int], Sequence[int], dict[str, int]]:
    """Return the replicas, the sticky ones among them, by position, and the planner's own overflow."""
    left = demand.total - sum(minimum)
    sticky = _sticky(served, demand, minimum, ceilings)
    for at, extra in enumerate(sticky):
        sticky[at] = min(extra, left)
        left -= sticky[at]
    rounds = Rounds(served.weights, served.maximums, ceilings, list(map(add, minimum, sticky)), list(sticky), left)
    rounds.run()
    most = LARGEST if demand.rebalance else rounds.left
    cut = {served.names[at]: min(rounds.overflow[at], most) for at in sorted(rounds.overflow)}
    return rounds.replicas, sticky, {name: number for name, number in cut.items() if number}
