"""What policy files become, as values: the policies of each kind, the set that one directory has of them, and shards.

A policy has the fields of its spec, with every default; only what is made of several of them has a type of its own.
Durations are `timedelta`. `place` is where the document starts; as text it is "policies/dev.yaml:4".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import Problem
from reconciler.model import NOTHING, QueryKey
from reconciler.policy.kinds.calendar import AbsoluteWindow, Calendar, WeeklyWindow
from reconciler.policy.kinds.cluster import FleetCluster, Freeze, Writes
from reconciler.policy.kinds.criteria import AllOf, AnyOf, Criterion, MetricCriterion, ScheduleCriterion, WakeMetric
from reconciler.policy.kinds.document import Place
from reconciler.policy.kinds.downscale_policy import DownscalePolicy, DownscaleTarget
from reconciler.policy.kinds.federated_replica_set import ClusterPreference, FederatedReplicaSet
from reconciler.policy.kinds.fields import DefaultLimit, Limits, ReplicasLimits
from reconciler.policy.kinds.fleet import Fleet, Prices
from reconciler.policy.kinds.idling_policy import Autoscalers, IdlingPolicy, WakeOrder
from reconciler.policy.kinds.notification import MessageFormat, Notification, NotifyOn
from reconciler.policy.kinds.selector import ObjectSelector, Selector, WorkloadSelector
from reconciler.policy.kinds.tenant import Tenant


class Shard(Struct, frozen=True):
    """One of `count` runs that decide a Fleet side by side, each object by one of them; `index` counts from 0.

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
    own = (cluster for cluster in fleet.clusters if shard_of(cluster.name, count) == index)
    return replace(fleet, clusters=tuple(own))


class PolicySet(Struct, frozen=True):
    """All policies of one directory, valid and consistent.

    Each tuple is sorted by name (federated: namespace, name). `specs` are the fields of each policy with their
    defaults, by its place: structs of `reconciler.policy.kinds`.

    `conflicts` are policies of equal priority that may select the same object, each as a problem of the later one.

    `stopped` are the tenants whose policies are left out because of `problems` in their files: nothing is decided in
    their namespaces, but wakes go on.
    """

    fleet: Fleet
    idling: tuple[IdlingPolicy, ...] = ()
    calendars: tuple[Calendar, ...] = ()
    federated: tuple[FederatedReplicaSet, ...] = ()
    downscale: tuple[DownscalePolicy, ...] = ()
    digest: str = ""  # SHA-256 (hex) over the files' names and bytes
    warnings: tuple[Problem, ...] = ()
    conflicts: tuple[Problem, ...] = ()
    specs: Mapping[Place, Any] = NOTHING
    stopped: tuple[Tenant, ...] = ()
    problems: Mapping[str, tuple[Problem, ...]] = NOTHING  # by the name of a stopped tenant
    only: Tenant | None = None
    shard: Shard | None = None  # the part of the Fleet that is decided; None: all of it

    def is_stopped(self, namespace: str) -> bool:
        """Return whether a stopped tenant has `namespace`, on some cluster."""
        return any(tenant.has_namespace(namespace) for tenant in self.stopped)

    @property
    def time_zones(self) -> tuple[str, ...]:
        """The time zones of the calendars that policies use, by name, sorted."""
        return tuple(sorted({calendar.zone_name for policy in self.idling for calendar in policy.calendars}))

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that policies name, as they are written ("CloneSet", "Job.batch.volcano.sh"). A custom kind that is
        not among them is never selected.
        """
        selectors = [*(policy.selector for policy in self.idling), *(policy.selector for policy in self.downscale)]
        selected = {kind for one in selectors if one.workloads is not None for kind in one.workloads.kinds}
        return frozenset(selected | {one.target.kind for one in self.federated if one.target is not None})

    def on(self, cluster: FleetCluster) -> PolicySet:
        """Return the set with only those policies that may select something on `cluster`, and the tenants it has."""
        tenants = tuple(tenant for tenant in self.fleet.tenants if tenant.has_cluster(cluster.name))
        return replace(
            self,
            fleet=replace(self.fleet, tenants=tenants),
            idling=tuple(policy for policy in self.idling if policy.selector.selects_cluster(cluster)),
            federated=tuple(policy for policy in self.federated if policy.is_on(cluster.name)),
            downscale=tuple(policy for policy in self.downscale if policy.selector.selects_cluster(cluster)),
        )

    def of_tenant(self, tenant: Tenant) -> PolicySet:
        """Return what concerns `tenant`: its clusters, its policies and the platform's, its problems alone."""
        fleet, whose = self.fleet, ("", tenant.name)
        clusters = tuple(cluster for cluster in fleet.clusters if tenant.has_cluster(cluster.name))
        home = fleet.home if tenant.has_cluster(fleet.home) or not clusters else clusters[0].name
        federated = (one for one in self.federated if one.tenant in whose and tenant.has_namespace(one.namespace))
        selecting: tuple[IdlingPolicy | DownscalePolicy, ...] = (*self.idling, *self.downscale)
        files = {policy.place.file for policy in selecting if policy.tenant == tenant.name}
        return replace(
            self,
            fleet=replace(fleet, clusters=clusters, home=home),
            idling=tuple(policy for policy in self.idling if policy.tenant in whose),
            calendars=tuple(calendar for calendar in self.calendars if calendar.name.rpartition("/")[0] in whose),
            federated=tuple(federated),
            downscale=tuple(policy for policy in self.downscale if policy.tenant in whose),
            conflicts=tuple(problem for problem in self.conflicts if problem.file in files),
            stopped=tuple(other for other in self.stopped if other.name == tenant.name),
            problems={name: inside for name, inside in self.problems.items() if name == tenant.name},
            only=tenant,
        )

    def in_shard(self, index: int, count: int) -> PolicySet:
        """Return the set for one shard, with the clusters of which it reads anything: its own, all that placement
        needs, and home, whose freezes are for all.
        """
        clusters = tuple((cluster, shard_of(cluster.name, count)) for cluster in self.fleet.clusters)
        shard = Shard(index, count, clusters, frozenset(policy.namespace for policy in self.federated))
        read = (one for one, _ in clusters if shard.namespaces_on(one.name) != () or one.name == self.fleet.home)
        return replace(self, fleet=replace(self.fleet, clusters=tuple(read)), shard=shard)

    def query_keys(self, cluster: str) -> tuple[QueryKey, ...]:
        """Return every query of the policies that may concern `cluster`, sorted."""
        known = self.fleet.cluster(cluster)
        if known is None or (self.shard is not None and self.shard.namespaces_on(cluster) == ()):
            return ()
        idling = {
            QueryKey(cluster, policy.name, template, window)
            for policy in self.idling
            if policy.selector.selects_cluster(known)
            for template, window in policy.queries
        }
        targets = {
            QueryKey(cluster, policy.name, policy.target.query)
            for policy in self.downscale
            if policy.target is not None and policy.target.query and policy.selector.selects_cluster(known)
        }
        return tuple(sorted(idling | targets))
