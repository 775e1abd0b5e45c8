"""How many replicas each cluster gets: order, minimum, sticky, share (placement.md, Algorithm).

A run calls this on validated values; `allocate_replicas` is the public function, with every check.
"""

from __future__ import annotations

import dataclasses
import marshal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from operator import add, sub
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.placement.rounding import (
    Claims,
    Rounds,
    fair_order,
    fair_seats,
    kept_seats,
    kubefed_order,
)
from reconciler.errors import PolicyError
from reconciler.messages import literal
from reconciler.model import NOTHING
from reconciler.policy.types import ClusterPreference
from reconciler.untrusted_text import LARGEST

UNBOUNDED = 1 << 62
"""Stands for "no limit" in lists of limits; above every number of replicas."""

Rounding = Literal["Fair", "KubeFed"]


class Candidates(Struct, frozen=True):
    """Clusters that have a preference; equal positions belong together, and earlier ones are served first.

    `absent` are the others, which get nothing. A maximum of UNBOUNDED is none.
    """

    names: tuple[str, ...]
    weights: tuple[int, ...]
    minimums: tuple[int, ...]
    maximums: tuple[int, ...]
    absent: tuple[str, ...] = ()


class Demand(Struct, frozen=True):
    """What is to be spread. `kept` are the replicas a cluster has already, `capacity` the known limits."""

    total: int
    rebalance: bool
    rounding: Rounding = "Fair"
    kept: Mapping[str, int] = NOTHING
    capacity: Mapping[str, int] = NOTHING


class AllocationSteps(Struct, frozen=True):
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
    served: Candidates = field(repr=False)
    demand: Demand = field(repr=False)
    minimum: Sequence[int] = field(repr=False)
    """In the order of `served`, like `sticky`."""
    sticky: Sequence[int] = field(repr=False)

    def steps(self, cluster: str) -> AllocationSteps:
        """Return how `cluster` came to its replicas."""
        if cluster not in self.served.names:
            return AllocationSteps()
        at = self.served.names.index(cluster)
        given, sticky = self.replicas[cluster], self.sticky[at]
        minimum = min(self.minimum[at], given)  # a maxReplicas below minReplicas may leave less
        share = given - minimum - sticky
        if given >= self.demand.capacity.get(cluster, UNBOUNDED):
            return AllocationSteps(minimum, sticky, share, "capacity")
        if given >= self.served.maximums[at]:
            return AllocationSteps(minimum, sticky, share, "maxReplicas")
        return AllocationSteps(minimum, sticky, share)


def candidates(preferences: Mapping[str, ClusterPreference], clusters: Sequence[str]) -> Candidates:
    """Return the clusters in the order given; each uses its own entry in `preferences`, else "*"."""
    default = preferences.get("*")
    chosen = [preferences.get(name, default) for name in clusters]
    found = [(name, own) for name, own in zip(clusters, chosen, strict=True) if own is not None]
    return Candidates(
        names=tuple([name for name, _ in found]),
        weights=tuple([own.weight for _, own in found]),
        minimums=tuple([own.min_replicas for _, own in found]),
        maximums=tuple([UNBOUNDED if own.max_replicas is None else own.max_replicas for _, own in found]),
        absent=tuple([name for name, own in zip(clusters, chosen, strict=True) if own is None]),
    )


def in_turn(found: Candidates, key: str, rounding: Rounding) -> Candidates:
    """Return `found` in the order in which they are served for "namespace/name" `key`."""
    order = kubefed_order if rounding == "KubeFed" else fair_order
    return arranged(found, order(found.names, found.weights, key))


def arranged(found: Candidates, order: Sequence[int]) -> Candidates:
    """Return `found` in the `order` of these positions."""
    return Candidates(
        names=tuple(map(found.names.__getitem__, order)),
        weights=tuple(map(found.weights.__getitem__, order)),
        minimums=tuple(map(found.minimums.__getitem__, order)),
        maximums=tuple(map(found.maximums.__getitem__, order)),
        absent=found.absent,
    )


def allocate(served: Candidates, demand: Demand) -> Allocation:
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


def with_overflow(given: Allocation, served: Candidates, demand: Demand, probed: Iterable[str]) -> Allocation:
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
    return dataclasses.replace(given, overflow=overflow) if overflow else given


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
    served: Candidates, demand: Demand, minimum: list[int], ceilings: Sequence[int]
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


def _sticky(served: Candidates, demand: Demand, minimum: list[int], ceilings: Sequence[int]) -> list[int]:
    """Return the replicas that each cluster keeps beyond its minimum, if there are enough."""
    if demand.rebalance or not demand.kept:
        return [0] * len(minimum)
    kept = [demand.kept.get(name, 0) for name in served.names]
    return [max(0, held - own) for held, own in zip(map(min, kept, ceilings), minimum, strict=True)]


def _kubefed(
    served: Candidates, demand: Demand, minimum: list[int], ceilings: Sequence[int]
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


_LONGEST_KEY = 253  # as names in Kubernetes
_ROUNDINGS: dict[str, Rounding] = {"fair": "Fair", "kubefed": "KubeFed"}


def allocate_replicas(  # noqa: PLR0913  the signature is public API
    preferences: Mapping[str, Any],
    total: int,
    clusters: Sequence[str],
    *,
    current: Mapping[str, int] = NOTHING,
    capacity: Mapping[str, int] = NOTHING,
    key: str = "",
    rounding: Literal["fair", "kubefed"] = "fair",
) -> Allocation:
    """Spread `total` replicas over `clusters` as `preferences` say.

    `preferences` is `{"rebalance": bool, "clusters": {name or "*": {"minReplicas", "maxReplicas", "weight"}}}`;
    rebalance is false and minReplicas, weight are 0 where absent, maxReplicas absent or None is no maximum; without
    "clusters" every cluster has weight 1. KubeFed's `totalReplicas` may stand beside them if it equals `total`.
    `current` are the replicas placed, `capacity` the known limits; clusters outside the fleet are ignored in both.
    `key` is "namespace/name" and settles ties. The result depends on nothing but these values, and not on their order.

    Raises:
        PolicyError: unknown keys, wrong types, negative numbers, numbers above 2**53, or a cluster named twice.
            Nothing else is raised, whatever is given.

    Source: kubernetes/federation planner.go, Planner.Plan; seed federated-replicasets.md, (Re)Scheduling algorithm.
    """
    if not isinstance(rounding, str) or rounding not in _ROUNDINGS:
        raise PolicyError(f'rounding: {literal(rounding)}, expected "fair" or "kubefed"')
    wanted = _number(total, "total")
    rebalance, entries = _checked_preferences(preferences, wanted)
    fleet = _checked_names(clusters)
    limits = _inside(capacity, "capacity", fleet)
    served = in_turn(_candidates(entries, fleet), _text(key, "key"), _ROUNDINGS[rounding])
    demand = Demand(wanted, rebalance, _ROUNDINGS[rounding], _inside(current, "current", fleet), limits)
    return with_overflow(allocate(served, demand), served, demand, [name for name in fleet if name in limits])


def _checked_preferences(preferences: Any, total: int) -> tuple[bool, Mapping[str, Any]]:
    """Return rebalance, and the entries of the clusters, which are not looked into yet."""
    given = _mapping(preferences, "preferences", ("rebalance", "clusters", "totalReplicas"))
    rebalance = given.get("rebalance", False)
    if not isinstance(rebalance, bool):
        raise PolicyError(f"preferences.rebalance: {literal(rebalance)}, expected true or false")
    stated = given.get("totalReplicas", total)
    if type(stated) is not int or stated != total:
        raise PolicyError(f"preferences.totalReplicas: {literal(stated)}, expected the total, {total}")
    return rebalance, _mapping(given.get("clusters", {"*": {"weight": 1}}), "preferences.clusters")


def _candidates(entries: Any, fleet: tuple[str, ...]) -> Candidates:
    """Return the clusters that have an entry; entries that came before are not checked again.

    Equal bytes of marshal are equal values of equal types, so what is remembered can never be of other entries.
    """
    try:
        packed = marshal.dumps(entries, 2)
    except ValueError:  # of other types than dict, str, int, bool and None
        return candidates(_preferences(entries), fleet)
    return _remembered_candidates(packed, fleet)


@lru_cache(maxsize=64)
def _remembered_candidates(packed: bytes, fleet: tuple[str, ...]) -> Candidates:
    return candidates(_preferences(marshal.loads(packed)), fleet)


def _preferences(entries: Mapping[str, Any]) -> dict[str, ClusterPreference]:
    return {name: _preference(entry, f"preferences.clusters.{_told(name)}") for name, entry in entries.items()}


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
        raise PolicyError(f"{where}: {literal(value)}, expected a mapping")
    for key in value:
        if not isinstance(key, str) or (known and key not in known):
            raise PolicyError(
                f"{where}.{_told(key)}: unknown field, expected {', '.join(known) or 'names of clusters'}"
            )
    return value


def _number(value: Any, where: str) -> int:
    if not _counts(value):
        raise PolicyError(f"{where}: {literal(value)}, expected a whole number from 0 to 2**53")
    return int(value)


def _counts(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _is_unicode(value):
        raise PolicyError(f"{where}: {literal(value)}, expected a text in Unicode")
    return value


def _checked_names(clusters: Any) -> tuple[str, ...]:
    if isinstance(clusters, str | bytes) or not isinstance(clusters, Collection):
        raise PolicyError(f"clusters: {literal(clusters)}, expected a list of names")
    names = tuple(clusters)
    if not all(issubclass(kind, str) for kind in set(map(type, names))) or not _is_unicode("".join(names)):
        raise PolicyError(f"clusters: {literal(clusters)}, expected a list of names in Unicode")
    if len(set(names)) < len(names):
        twice = min(name for name in names if names.count(name) > 1)
        raise PolicyError(f"clusters: {literal(twice)} is named twice, expected each cluster once")
    return names


def _is_unicode(text: str) -> bool:
    """Return whether `text` is free of lone surrogates, which no other program can read."""
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)


def _inside(numbers: Any, where: str, fleet: tuple[str, ...]) -> dict[str, int]:
    given = _mapping(numbers, where)
    for name, number in given.items():
        if not _counts(number):
            _number(number, f"{where}.{_told(name)}")
    return {name: given[name] for name in fleet if name in given} if given else {}


def _told(key: Any) -> str:
    """Return a key as a part of a place."""
    return key if isinstance(key, str) and key.isprintable() and len(key) <= _LONGEST_KEY else literal(key)
