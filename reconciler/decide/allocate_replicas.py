"""`allocate_replicas`, the public function: every value it is given is checked."""

from __future__ import annotations

import marshal
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from reconciler.decide.allocation import (
    LARGEST,
    Allocation,
    Demand,
    Entrants,
    Rounding,
    allocate,
    candidates,
    in_turn,
    with_overflow,
)
from reconciler.decide.shown_values import shown
from reconciler.errors import PolicyError
from reconciler.model import NOTHING
from reconciler.policy.types import ClusterPreference

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
        raise PolicyError(f'rounding: {shown(rounding)}, expected "fair" or "kubefed"')
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
        raise PolicyError(f"preferences.rebalance: {shown(rebalance)}, expected true or false")
    stated = given.get("totalReplicas", total)
    if type(stated) is not int or stated != total:
        raise PolicyError(f"preferences.totalReplicas: {shown(stated)}, expected the total, {total}")
    return rebalance, _mapping(given.get("clusters", {"*": {"weight": 1}}), "preferences.clusters")


def _candidates(entries: Any, fleet: tuple[str, ...]) -> Entrants:
    """Return the clusters that have an entry; entries that came before are not checked again.

    Equal bytes of marshal are equal values of equal types, so what is remembered can never be of other entries.
    """
    try:
        packed = marshal.dumps(entries, 2)
    except ValueError:  # of other types than dict, str, int, bool and None
        return candidates(_preferences(entries), fleet)
    return _remembered_candidates(packed, fleet)


@lru_cache(maxsize=64)
def _remembered_candidates(packed: bytes, fleet: tuple[str, ...]) -> Entrants:
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
        raise PolicyError(f"{where}: {shown(value)}, expected a mapping")
    for key in value:
        if not isinstance(key, str) or (known and key not in known):
            raise PolicyError(
                f"{where}.{_told(key)}: unknown field, expected {', '.join(known) or 'names of clusters'}"
            )
    return value


def _number(value: Any, where: str) -> int:
    if not _counts(value):
        raise PolicyError(f"{where}: {shown(value)}, expected a whole number from 0 to 2**53")
    return int(value)


def _counts(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str) or not _is_unicode(value):
        raise PolicyError(f"{where}: {shown(value)}, expected a text in Unicode")
    return value


def _checked_names(clusters: Any) -> tuple[str, ...]:
    if isinstance(clusters, str | bytes) or not isinstance(clusters, Collection):
        raise PolicyError(f"clusters: {shown(clusters)}, expected a list of names")
    names = tuple(clusters)
    if not all(issubclass(kind, str) for kind in set(map(type, names))) or not _is_unicode("".join(names)):
        raise PolicyError(f"clusters: {shown(clusters)}, expected a list of names in Unicode")
    if len(set(names)) < len(names):
        twice = min(name for name in names if names.count(name) > 1)
        raise PolicyError(f"clusters: {shown(twice)} is named twice, expected each cluster once")
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
    return key if isinstance(key, str) and key.isprintable() and len(key) <= _LONGEST_KEY else shown(key)
