"""How many replicas each cluster gets: order, minimum, sticky, share (placement.md, Algorithm).

`allocate_replicas` is the public function, with every check; a run calls `allocate` on validated values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add, sub
from typing import Any, Literal

from reconciler.decide.rounding.fair import Claims, fair_seats, kept_seats
from reconciler.decide.rounding.kubefed import Rounds
from reconciler.decide.rounding.order import in_order
from reconciler.errors import PolicyError
from reconciler.model import NOTHING
from reconciler.policy.types import ClusterPreference

LARGEST = 2**53
"""The largest number of replicas, and the largest weight: what every JSON reader keeps exactly."""

UNBOUNDED = 1 << 62
"""Stands for "no limit" in lists of limits; above every number of replicas."""

Rounding = Literal["fair", "kubefed"]


@dataclass(frozen=True, slots=True)
class Entrants:
    """The clusters that have a preference, in the order they are served; equal positions belong together.

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
    rounding: Rounding = "fair"
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
        given, minimum, sticky = self.replicas[cluster], self.minimum[at], self.sticky[at]
        share = given - minimum - sticky
        if given >= self.demand.capacity.get(cluster, UNBOUNDED):
            return Steps(minimum, sticky, share, "capacity")
        if given >= self.served.maximums[at]:
            return Steps(minimum, sticky, share, "maxReplicas")
        return Steps(minimum, sticky, share)


def entrants(preferences: Mapping[str, ClusterPreference], clusters: Sequence[str], key: str) -> Entrants:
    """Return the clusters in the order they are served; each uses its own entry in `preferences`, else "*"."""
    default = preferences.get("*")
    chosen = [preferences.get(name, default) for name in clusters]
    found = [(name, own) for name, own in zip(clusters, chosen, strict=True) if own is not None]
    order = in_order([name for name, _ in found], [own.weight for _, own in found], key)
    served = [found[at] for at in order]
    return Entrants(
        names=tuple([name for name, _ in served]),
        weights=tuple([own.weight for _, own in served]),
        minimums=tuple([own.min_replicas for _, own in served]),
        maximums=tuple([UNBOUNDED if own.max_replicas is None else own.max_replicas for _, own in served]),
        absent=tuple([name for name, own in zip(clusters, chosen, strict=True) if own is None]),
    )


def allocate(served: Entrants, demand: Demand) -> Allocation:
    """Return the allocation, without any overflow of `fair` (see `with_overflow`).

    The cost does not depend on the number of replicas.
    """
    known = demand.capacity
    capacities = [known.get(name, UNBOUNDED) for name in served.names] if known else None
    ceilings = served.maximums if capacities is None else list(map(min, served.maximums, capacities))
    minimum = _minimum(served.minimums, capacities, demand.total)
    if demand.rounding == "kubefed":
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
    if not any(minimums):
        return [0] * len(minimums)
    left = total
    result = []
    for wanted in minimums if capacities is None else map(min, minimums, capacities):
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
        held = list(map(add, minimum, sticky))
        shares, _ = _fair(served, replace(demand, rebalance=True), minimum, ceilings)
        replicas = kept_seats(held, shares, demand.total)
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


def allocate_replicas(  # noqa: PLR0913  the signature is public API
    preferences: Mapping[str, Any],
    total: int,
    clusters: Sequence[str],
    *,
    current: Mapping[str, int] = NOTHING,
    capacity: Mapping[str, int] = NOTHING,
    key: str = "",
    rounding: Rounding = "fair",
) -> Allocation:
    """Spread `total` replicas over `clusters` as `preferences` say.

    `preferences` is `{"rebalance": bool, "clusters": {name or "*": {"minReplicas", "maxReplicas", "weight"}}}`;
    rebalance is false and minReplicas, weight are 0 where absent, maxReplicas absent or None is no maximum; without
    "clusters" every cluster has weight 1. KubeFed's `totalReplicas` may stand beside them if it equals `total`.
    `current` are the replicas placed, `capacity` the known limits; clusters outside the fleet are ignored in both.
    `key` is "namespace/name" and settles ties. The result depends on nothing but these values, and not on their order.

    Raises:
        PolicyError: unknown keys, wrong types, negative numbers, numbers above 2**53, or a cluster named twice.

    Source: kubernetes/federation planner.go, Planner.Plan; seed federated-replicasets.md, (Re)Scheduling algorithm.
    """
    if rounding not in ("fair", "kubefed"):
        raise PolicyError(f'rounding: {rounding!r}, expected "fair" or "kubefed"')
    wanted = _number(total, "total")
    rebalance, entries = _checked_preferences(preferences, wanted)
    fleet = _checked_names(clusters)
    limits = _inside(capacity, "capacity", fleet)
    served = entrants(entries, fleet, _text(key, "key"))
    demand = Demand(wanted, rebalance, rounding, _inside(current, "current", fleet), limits)
    return with_overflow(allocate(served, demand), served, demand, [name for name in fleet if name in limits])


def _checked_preferences(preferences: Any, total: int) -> tuple[bool, dict[str, ClusterPreference]]:
    given = _mapping(preferences, "preferences", ("rebalance", "clusters", "totalReplicas"))
    rebalance = given.get("rebalance", False)
    if not isinstance(rebalance, bool):
        raise PolicyError(f"preferences.rebalance: {rebalance!r}, expected true or false")
    if "totalReplicas" in given and given["totalReplicas"] != total:
        raise PolicyError(f"preferences.totalReplicas: {given['totalReplicas']!r}, expected the total, {total}")
    entries = _mapping(given.get("clusters", {"*": {"weight": 1}}), "preferences.clusters")
    return rebalance, {name: _preference(entry, f"preferences.clusters.{name}") for name, entry in entries.items()}


def _preference(entry: Any, where: str) -> ClusterPreference:
    given = _mapping(entry, where, ("minReplicas", "maxReplicas", "weight"))
    maximum = given.get("maxReplicas")
    return ClusterPreference(
        min_replicas=_number(given.get("minReplicas", 0), f"{where}.minReplicas"),
        max_replicas=None if maximum is None else _number(maximum, f"{where}.maxReplicas"),
        weight=_number(given.get("weight", 0), f"{where}.weight"),
    )


def _mapping(value: Any, where: str, known: tuple[str, ...] = ()) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PolicyError(f"{where}: {value!r}, expected a mapping")
    for key in value:
        if not isinstance(key, str) or (known and key not in known):
            raise PolicyError(f"{where}.{key}: unknown field, expected {', '.join(known) or 'names of clusters'}")
    return value


def _number(value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise PolicyError(f"{where}: {value!r}, expected a whole number from 0 to 2**53")
    return value


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise PolicyError(f"{where}: {value!r}, expected a text")
    return value


def _checked_names(clusters: Sequence[str]) -> tuple[str, ...]:
    if isinstance(clusters, str | bytes) or not all(isinstance(name, str) for name in clusters):
        raise PolicyError(f"clusters: {clusters!r}, expected a list of names")
    twice = (
        sorted({name for name in clusters if clusters.count(name) > 1}) if len(set(clusters)) < len(clusters) else []
    )
    if twice:
        raise PolicyError(f"clusters: {twice[0]!r} is named twice, expected each cluster once")
    return tuple(clusters)


def _inside(numbers: Any, where: str, fleet: tuple[str, ...]) -> dict[str, int]:
    checked = {name: _number(number, f"{where}.{name}") for name, number in _mapping(numbers, where).items()}
    return {name: checked[name] for name in fleet if name in checked}
