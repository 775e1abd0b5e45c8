"""What policy files become, as values: the policies of each kind, and the set of them that one directory has.

A policy has the fields of its spec, with every default; only what is made of several of them has a type of its own.
Durations are `timedelta`. `place` is where the document starts; as text it is "policies/dev.yaml:4".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.errors import Problem
from reconciler.model import NOTHING, QueryKey
from reconciler.policy.kinds.calendar import AbsoluteWindow, Calendar, WeeklyWindow
from reconciler.policy.kinds.cluster import FleetCluster, Freeze, Writes
from reconciler.policy.kinds.criteria import (
    AllOf,
    AnyOf,
    Criterion,
    MetricCriterion,
    ScheduleCriterion,
    WakeMetric,
    leaves,
)
from reconciler.policy.kinds.document import Place
from reconciler.policy.kinds.downscale_policy import DownscalePolicy, DownscaleTarget, Logarithm, ZoneBalanced
from reconciler.policy.kinds.federated_replica_set import ClusterPreference, FederatedReplicaSet, TargetRef
from reconciler.policy.kinds.fields import (
    ClusterDefaultLimit,
    DefaultLimit,
    DefaultLimits,
    FleetLimits,
    Limits,
    ReplicasLimits,
)
from reconciler.policy.kinds.fleet import Fleet, Prices, Production
from reconciler.policy.kinds.idling_policy import Autoscalers, GitOps, IdlingPolicy, WakeOrder
from reconciler.policy.kinds.selector import ObjectSelector, Selector, WorkloadSelector
from reconciler.policy.kinds.tenant import MessageFormat, Notification, NotifyOn, Tenant
from reconciler.policy.shards import Shard, shard_of


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

    @property
    def time_zones(self) -> tuple[str, ...]:
        """The time zones of the calendars that policies use, by name, sorted."""
        criteria = (one for policy in self.idling for one in leaves(policy.idle_when))
        return tuple(sorted({one.calendar.zone_name for one in criteria if isinstance(one, ScheduleCriterion)}))

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that policies name ("CloneSet"), without their group. A custom kind that is not among them is never
        selected.
        """
        selectors = [*(policy.selector for policy in self.idling), *(policy.selector for policy in self.downscale)]
        selected = {
            kind.partition(".")[0] for one in selectors if one.workloads is not None for kind in one.workloads.kinds
        }
        return frozenset(selected | {one.target.kind for one in self.federated if one.target is not None})

    def on(self, cluster: FleetCluster) -> PolicySet:
        """Return the set with only those policies that may select something on `cluster`."""
        return replace(
            self,
            idling=tuple(policy for policy in self.idling if policy.selector.selects_cluster(cluster)),
            federated=tuple(policy for policy in self.federated if policy.is_on(cluster.name)),
            downscale=tuple(policy for policy in self.downscale if policy.selector.selects_cluster(cluster)),
        )

    def of_tenant(self, tenant: Tenant) -> PolicySet:
        """Return what concerns `tenant`: its clusters, its policies and the platform's, its problems alone."""
        fleet, whose = self.fleet, ("", tenant.name)
        clusters = tuple(one for one in fleet.clusters if tenant.has_cluster(one.name))
        home = fleet.home if tenant.has_cluster(fleet.home) or not clusters else clusters[0].name
        federated = (one for one in self.federated if one.tenant in whose and tenant.has_namespace(one.namespace))
        selecting: tuple[IdlingPolicy | DownscalePolicy, ...] = (*self.idling, *self.downscale)
        files = {one.place.file for one in selecting if one.tenant == tenant.name}
        return replace(
            self,
            fleet=replace(fleet, clusters=clusters, home=home),
            idling=tuple(one for one in self.idling if one.tenant in whose),
            calendars=tuple(one for one in self.calendars if one.name.rpartition("/")[0] in whose),
            federated=tuple(federated),
            downscale=tuple(one for one in self.downscale if one.tenant in whose),
            conflicts=tuple(one for one in self.conflicts if one.file in files),
            stopped=tuple(one for one in self.stopped if one.name == tenant.name),
            problems={name: inside for name, inside in self.problems.items() if name == tenant.name},
            only=tenant,
        )

    def in_shard(self, index: int, count: int) -> PolicySet:
        """Return the set for one shard, with the clusters of which it reads anything: its own, all that placement
        needs, and home, whose freezes are for all.
        """
        clusters = tuple((one, shard_of(one.name, count)) for one in self.fleet.clusters)
        shard = Shard(index, count, clusters, frozenset(one.namespace for one in self.federated))
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
