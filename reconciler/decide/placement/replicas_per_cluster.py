"""How many replicas each cluster gets, by its minimum, maximum and weight, its capacity, and those that it has already.

A run calls this on validated values; `allocate_replicas` is the public function, with every check.
"""

from __future__ import annotations

import dataclasses
import marshal
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from operator import add, ge, sub
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.placement.rounding import Rounding, Rounds, fair_seats, kept_seats, tie_order
from reconciler.errors import PolicyError
from reconciler.messages import literal
from reconciler.model import NOTHING
from reconciler.policy.types import ClusterPreference
from reconciler.untrusted_text import LARGEST

_UNBOUNDED = 1 << 62
"""Stands for "no limit" in lists of limits; above every number of replicas."""


class Candidates(Struct, frozen=True, eq=False):
    """Clusters that have a preference, by weight, highest first, of equal weight by name. Those are tied.

    `absent` are the others, which get nothing. A maximum of _UNBOUNDED is none.
    """

    names: tuple[str, ...]
    weights: tuple[int, ...]
    minimums: tuple[int, ...]
    maximums: tuple[int, ...]
    absent: tuple[str, ...]
    fits: bool  # no minimum is above its maximum


class Demand(Struct, frozen=True, gc=False):
    """What is to be spread. `kept` are the replicas a cluster has already, `capacity` the known limits; `key`,
    "namespace/name", settles ties.
    """

    total: int
    rebalance: bool
    rounding: Rounding = "Fair"
    key: str = ""
    kept: Mapping[str, int] = NOTHING
    capacity: Mapping[str, int] = NOTHING


@dataclass(frozen=True, slots=True)
class Allocation:
    """How many replicas each cluster gets.

    `replicas` has every cluster. `overflow` has the clusters that would get more without their own limit of capacity,
    and how much more. `planner_overflow` is the federation planner's own overflow (rounding "kubefed" only).
    """

    replicas: dict[str, int]
    overflow: dict[str, int]
    planner_overflow: dict[str, int]
    served: Candidates = field(repr=False, compare=False)
    demand: Demand = field(repr=False)
    minimum: Sequence[int] = field(repr=False)
    """In the order of `served`, like `sticky`; both if there are enough."""
    sticky: Sequence[int] = field(repr=False)


def candidates(preferences: Mapping[str, ClusterPreference], clusters: Sequence[str]) -> Candidates:
    """Return the clusters, each with its own entry in `preferences`, else "*"."""
    return _candidates(tuple(preferences.items()), tuple(clusters))


@lru_cache(maxsize=256)
def _candidates(preferences: tuple[tuple[str, ClusterPreference], ...], clusters: tuple[str, ...]) -> Candidates:
    entries = dict(preferences)
    chosen = {name: own for name in clusters if (own := entries.get(name, entries.get("*"))) is not None}
    names = tuple(sorted(chosen, key=lambda name: (-chosen[name].weight, name)))
    minimums = tuple([chosen[name].min_replicas for name in names])
    maximums = tuple([_UNBOUNDED if (top := chosen[name].max_replicas) is None else top for name in names])
    return Candidates(
        names=names,
        weights=tuple([chosen[name].weight for name in names]),
        minimums=minimums,
        maximums=maximums,
        absent=tuple([name for name in clusters if name not in chosen]),
        fits=all(map(ge, maximums, minimums)),
    )


class _Dealt(Struct, frozen=True, gc=False):
    """Replicas by position, and how many are `left` for the clusters that are `tied`: in their order for a key each
    gets as many as it `wants`.
    """

    minimum: Sequence[int]
    sticky: Sequence[int]
    replicas: Sequence[int]
    left: int = 0
    tied: tuple[str, ...] = ()
    wants: Sequence[int] = ()
    overflow: Mapping[int, int] = NOTHING  # the planner's own, by position


def allocate(served: Candidates, demand: Demand) -> Allocation:
    """Return the allocation, without any overflow of `fair` (see `with_overflow`).

    The cost does not depend on the number of replicas.
    """
    if _is_plain(served, demand):
        dealt, least = _dealt_alike(served, demand.total, demand.rounding)
    else:
        dealt, least = _named(served, _dealt(served, demand))
    overflow = {served.names[at]: number for at, number in dealt.overflow.items()} if dealt.overflow else {}
    return Allocation(_settled(dealt, least, demand), {}, overflow, served, demand, dealt.minimum, dealt.sticky)


def _is_plain(served: Candidates, demand: Demand) -> bool:
    """Return whether preferences and total are all there is: then all that have the same differ in their ties alone."""
    return not demand.capacity and (demand.rebalance or not demand.kept) and served.fits


@lru_cache(maxsize=1024)
def _dealt_alike(served: Candidates, total: int, rounding: Rounding) -> tuple[_Dealt, dict[str, int]]:
    return _named(served, _dealt(served, Demand(total, True, rounding)))


def _named(served: Candidates, dealt: _Dealt) -> tuple[_Dealt, dict[str, int]]:
    """Return `dealt` and its replicas by name, with the clusters that get nothing."""
    return dealt, dict(zip(served.names, dealt.replicas, strict=True)) | dict.fromkeys(served.absent, 0)


def _settled(dealt: _Dealt, least: dict[str, int], demand: Demand) -> dict[str, int]:
    """Return the replicas by name, `least` before ties are settled, once they are."""
    replicas, left, wants = least.copy(), dealt.left, dealt.wants
    for place in tie_order(dealt.tied, demand.key, demand.rounding) if dealt.tied else ():
        if wants[place] >= left:
            replicas[dealt.tied[place]] += left
            break
        replicas[dealt.tied[place]] += wants[place]
        left -= wants[place]
    return replicas


def served_order(served: Candidates, demand: Demand) -> list[int]:
    """Return the positions of all clusters in the order in which they are served."""
    order = tie_order(served.names, demand.key, demand.rounding)
    return sorted(order, key=served.weights.__getitem__, reverse=True)


def _dealt(served: Candidates, demand: Demand) -> _Dealt:
    minimum, ceilings = served.minimums, served.maximums
    if demand.capacity:
        capacities = [demand.capacity.get(name, _UNBOUNDED) for name in served.names]
        minimum, ceilings = tuple(map(min, minimum, capacities)), tuple(map(min, ceilings, capacities))
    sticky = _sticky(served, demand, minimum, ceilings)
    if sum(minimum) >= demand.total:
        return _until_gone(served, _Dealt(minimum, sticky, [0] * len(minimum), left=demand.total), minimum)
    deal = _kubefed if demand.rounding == "KubeFed" else _fair
    return deal(served, demand, _Dealt(minimum, sticky, list(map(add, minimum, sticky))), ceilings)


def _until_gone(served: Candidates, dealt: _Dealt, most: Sequence[int]) -> _Dealt:
    """Return `dealt` where the clusters got what is left, each up to `most`, the highest weights first. Those of the
    weight for all of which it does not last are tied.
    """
    replicas, left = list(dealt.replicas), dealt.left
    for _, group in groupby(range(len(replicas)), served.weights.__getitem__):
        wants = [(at, most[at] - replicas[at]) for at in group if most[at] > replicas[at]]
        if left and sum([wanted for _, wanted in wants]) > left:
            tied = tuple([served.names[at] for at, _ in wants])
            return replace(dealt, replicas=replicas, left=left, tied=tied, wants=[wanted for _, wanted in wants])
        for at, wanted in wants if left else ():
            replicas[at] += wanted
            left -= wanted
    return replace(dealt, replicas=replicas)


def _fair(served: Candidates, demand: Demand, kept: _Dealt, ceilings: Sequence[int]) -> _Dealt:
    minimum, left = kept.minimum, demand.total - sum(kept.replicas)
    if left < 0:
        room = [max(0, top - own) for top, own in zip(ceilings, minimum, strict=True)]
        anew = _shared(served, replace(kept, sticky=[0] * len(room)), minimum, room, demand.total)
        shares = _settled(*_named(served, anew), demand)
        least, most = kept_seats(kept.replicas, [shares[name] for name in served.names], demand.total)
        return _until_gone(served, replace(kept, replicas=least, left=demand.total - sum(least)), most)
    if left == 0 or not any(served.weights):
        return kept
    base = list(map(min, minimum, ceilings))
    return _shared(served, kept, base, list(map(sub, ceilings, base)), demand.total)


def _shared(served: Candidates, kept: _Dealt, base: Sequence[int], room: Sequence[int], total: int) -> _Dealt:
    """Return `kept` with seats above `base`, the sticky ones among them, within the `room`: `total` replicas in all."""
    least, most = fair_seats(served.weights, kept.sticky, room, total - sum(base) - sum(kept.sticky))
    replicas = list(map(add, base, least))
    return _until_gone(served, replace(kept, replicas=replicas, left=total - sum(replicas)), list(map(add, base, most)))


def _sticky(served: Candidates, demand: Demand, minimum: Sequence[int], ceilings: Sequence[int]) -> list[int]:
    """Return the replicas that each cluster keeps beyond its minimum, if there are enough."""
    if demand.rebalance or not demand.kept:
        return [0] * len(minimum)
    kept = [demand.kept.get(name, 0) for name in served.names]
    return [max(0, held - own) for held, own in zip(map(min, kept, ceilings), minimum, strict=True)]


def _kubefed(served: Candidates, demand: Demand, kept: _Dealt, ceilings: Sequence[int]) -> _Dealt:
    left = demand.total - sum(kept.replicas)
    if left <= 0:
        before = replace(kept, replicas=kept.minimum, left=demand.total - sum(kept.minimum))
        return _until_gone(served, before, kept.replicas)
    plain = _is_plain(served, demand)
    order = range(len(ceilings)) if plain else served_order(served, demand)
    rounds = Rounds(served.weights, served.maximums, ceilings, list(kept.replicas), list(kept.sticky), order, left)
    rounds.run()
    if plain and not rounds.left:
        before = replace(kept, replicas=rounds.before, left=demand.total - sum(rounds.before))
        return _until_gone(served, before, list(map(min, map(add, rounds.before, rounds.dues), ceilings)))
    most = LARGEST if demand.rebalance else rounds.left
    cut = {at: min(number, most) for at, number in rounds.overflow.items() if number and most}
    return replace(kept, replicas=rounds.replicas, overflow=cut)


def with_overflow(given: Allocation, demand: Demand, probed: Iterable[str]) -> Allocation:
    """Return `given` with the overflow of each cluster of `probed` that is full: what it would get without its own
    limit of capacity, minus what it gets.
    """
    overflow: dict[str, int] = {}
    for name in probed:
        if given.replicas[name] >= demand.capacity.get(name, _UNBOUNDED):
            others = {other: limit for other, limit in demand.capacity.items() if other != name}
            free = allocate(given.served, replace(demand, capacity=others)).replicas[name]
            if free > given.replicas[name]:
                overflow[name] = free - given.replicas[name]
    return dataclasses.replace(given, overflow=overflow) if overflow else given


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
    if not isinstance(key, str) or not _is_unicode(key):
        raise PolicyError(f"key: {literal(key)}, expected a text in Unicode")
    wanted = _number(total, "total")
    rebalance, entries = _checked_preferences(preferences, wanted)
    served = _candidates_of(entries, clusters)
    kept, limits = _inside(current, "current", served), _inside(capacity, "capacity", served)
    demand = Demand(wanted, rebalance, _ROUNDINGS[rounding], key, kept, limits)
    given = allocate(served, demand)
    return with_overflow(given, demand, sorted(limits)) if limits else given


def _checked_preferences(preferences: Any, total: int) -> tuple[bool, Any]:
    """Return rebalance, and the entries of the clusters, which are not looked into yet."""
    given = _mapping(preferences, "preferences", ("rebalance", "clusters", "totalReplicas"))
    rebalance = given.get("rebalance", False)
    if not isinstance(rebalance, bool):
        raise PolicyError(f"preferences.rebalance: {literal(rebalance)}, expected true or false")
    stated = given.get("totalReplicas", total)
    if type(stated) is not int or stated != total:
        raise PolicyError(f"preferences.totalReplicas: {literal(stated)}, expected the total, {total}")
    return rebalance, given.get("clusters", {"*": {"weight": 1}})


def _candidates_of(entries: Any, clusters: Any) -> Candidates:
    """Return the clusters that have an entry; entries and names that came before are not checked again.

    Equal bytes of marshal are equal values of equal types, so what is remembered can never be of other entries.
    """
    if isinstance(clusters, str | bytes) or not isinstance(clusters, Collection):
        raise PolicyError(f"clusters: {literal(clusters)}, expected a list of names")
    try:
        return _remembered_candidates(marshal.dumps(entries), tuple(clusters))
    except (ValueError, TypeError):  # of other types than dict, str, int, bool and None; or names without a hash
        return candidates(_preferences(entries), _checked_names(tuple(clusters)))


@lru_cache(maxsize=256)
def _remembered_candidates(packed: bytes, names: tuple[str, ...]) -> Candidates:
    return candidates(_preferences(marshal.loads(packed)), _checked_names(names))


def _preferences(entries: Any) -> dict[str, ClusterPreference]:
    given = _mapping(entries, "preferences.clusters")
    return {name: _preference(entry, f"preferences.clusters.{_told(name)}") for name, entry in given.items()}


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


def _checked_names(names: tuple[Any, ...]) -> tuple[str, ...]:
    if not all(issubclass(kind, str) for kind in set(map(type, names))) or not _is_unicode("".join(names)):
        raise PolicyError(f"clusters: {literal(list(names))}, expected a list of names in Unicode")
    if len(set(names)) < len(names):
        twice = min(name for name in names if names.count(name) > 1)
        raise PolicyError(f"clusters: {literal(twice)} is named twice, expected each cluster once")
    return names


def _is_unicode(text: str) -> bool:
    """Return whether `text` is free of lone surrogates, which no other program can read."""
    return text.isascii() or not any("\ud800" <= sign <= "\udfff" for sign in text)


def _inside(numbers: Any, where: str, served: Candidates) -> Mapping[str, int]:
    """Return the numbers of clusters of the fleet."""
    if numbers is NOTHING:  # as by default
        return {}
    given = _mapping(numbers, where)
    for name, number in given.items():
        if not _counts(number):
            _number(number, f"{where}.{_told(name)}")
    return {name: given[name] for name in (*served.names, *served.absent) if name in given}


def _told(key: Any) -> str:
    """Return a key as a part of a place."""
    return key if isinstance(key, str) and key.isprintable() and len(key) <= _LONGEST_KEY else literal(key)
