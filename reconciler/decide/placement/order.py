"""The fixed order in which the clusters of one federated ReplicaSet are served: by weight, then by a hash.

`fair` settles ties by SHA-256, so that federated ReplicaSets of one replica spread over the clusters whatever their
names look like. `kubefed` uses the planner's FNV-1, which hashes the name of the cluster first: names of workloads that
differ in their last bytes only have nearly the same order there.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from hashlib import sha256

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
