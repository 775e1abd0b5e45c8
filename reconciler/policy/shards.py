"""Shards: parts of a Fleet that several runs decide side by side, so that each object is decided by one of them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.policy.kinds.cluster import FleetCluster
from reconciler.policy.kinds.fleet import Fleet


class Shard(Struct, frozen=True):
    """One of `count` runs that decide a Fleet together; `index` counts from 0.

    Each of the `clusters` of the Fleet belongs to one of them. The namespaces of FederatedReplicaSets (`placed`), which
    cross clusters, belong to the first one everywhere.
    """

    index: int
    count: int
    clusters: tuple[tuple[FleetCluster, int], ...] = ()
    placed: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    @property
    def is_placing(self) -> bool:
        """Whether it decides what the FederatedReplicaSets say."""
        return self.index == 0

    def has_cluster(self, cluster: str) -> bool:
        return shard_of(cluster, self.count) == self.index

    def decides_on(self, cluster: str) -> Callable[[str], bool]:
        """Return what says of a namespace of `cluster`, "" for what is in none, whether it is decided here."""
        own = self.has_cluster(cluster)
        return lambda namespace: self.is_placing if namespace in self.placed else own

    def namespaces_on(self, cluster: str) -> tuple[str, ...] | None:
        """Return the only namespaces of `cluster` of which anything is decided here, None where they are not known."""
        if self.has_cluster(cluster):
            return None
        return tuple(sorted(self.placed)) if self.is_placing else ()

    def weights(self, selects: Callable[[FleetCluster], bool], namespaces: Sequence[str]) -> tuple[int, ...]:
        """Return how much of a number that is stated once for the Fleet each shard gets: by the clusters that it
        `selects`. What may be in the `placed` namespaces, of all those with these patterns, counts like one shard more.
        """
        found = [0] * self.count
        if not self.placed.issuperset(namespaces):
            for cluster, index in self.clusters:
                found[index] += selects(cluster)
        if self.placed:
            found[0] += max(1, sum(found) // self.count)
        return tuple(found)

    def part(self, number: int, weights: Sequence[int]) -> int:
        """Return this shard's part of `number`: those of all shards sum to it, unless nothing has a weight."""
        total = sum(weights)
        if not total:
            return 0
        parts = [number * weight // total for weight in weights]
        by_rest = sorted(range(self.count), key=lambda index: (-(number * weights[index] % total), index))
        return parts[self.index] + (self.index in by_rest[: number - sum(parts)])


def shard_of(cluster: str, count: int) -> int:
    """Return the index of the shard that `cluster` belongs to. Another `count` moves as few clusters as can be.

    Source: Thaler and Ravishankar, "Using name-based mappings to increase hit rates" (rendezvous hashing).
    """
    return max(range(count), key=lambda index: hashlib.sha256(f"{cluster}/{index}".encode()).digest())


def own_clusters(fleet: Fleet, index: int, count: int) -> Fleet:
    """Return `fleet` with only the clusters that belong to the shard."""
    own = (one for one in fleet.clusters if shard_of(one.name, count) == index)
    return replace(fleet, clusters=tuple(own))
