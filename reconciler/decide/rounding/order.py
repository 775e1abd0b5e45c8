"""The fixed order in which the clusters of one federated ReplicaSet are served."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

_OFFSET_BASIS = 0x811C9DC5
_PRIME = 0x01000193
_LANE = 64  # bits; 32 of state times the 25 of the prime fit


def tie_hashes(clusters: tuple[str, ...], key: str) -> tuple[int, ...]:
    """Return the FNV-1 32-bit hash of each cluster's name followed by `key` ("namespace/name").

    All names are hashed side by side, each in 64 bits of one large number: one multiplication for each byte of the key.

    Source: hash/fnv of Go, New32; kubernetes/federation planner.go, Planner.Plan.
    """
    if not clusters:
        return ()
    namespace, slash, name = key.rpartition("/")
    lanes = _Lanes.over(len(clusters))
    state = lanes.fed(_prefix(clusters, namespace + slash), name)
    return struct.unpack(f"<{len(clusters)}Q", state.to_bytes(8 * len(clusters), "little"))


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


def in_order(clusters: Sequence[str], weights: Sequence[int], key: str) -> list[int]:
    """Return the positions of `clusters` by weight, highest first, then tie hash, lowest first, then name."""
    hashes = tie_hashes(tuple(clusters), key)
    ranked = sorted(zip([-weight for weight in weights], hashes, clusters, range(len(clusters)), strict=True))
    return [position for _, _, _, position in ranked]
