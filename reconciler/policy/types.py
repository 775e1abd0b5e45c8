"""Validated policies, as values. Defaults are filled in when a policy is read: `reconciler.policy.kinds` has them.

Durations are `timedelta`. `place` is where the document starts; `at` renders it as "policies/dev.yaml:4".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, tzinfo
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Literal

from msgspec import Struct

from reconciler.connection_settings import ClusterConnection, PodPicker
from reconciler.errors import Problem
from reconciler.labels import LabelSelector
from reconciler.model import NOTHING, Service


class Place(Struct, frozen=True, order=True):
    """A place in a policy file; `line` and `column` are 1-based."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Limit(Struct, frozen=True):
    """Allowed is max(floor(share * base), at_least); `share` is a fraction, 0.25 for 25%."""

    share: float
    at_least: int


class Limits(Struct, frozen=True):
    """None: not limited here (a policy may state just one of the two; the Fleet always has both)."""

    idled_workloads: Limit | None = None
    removed_replicas: Limit | None = None


class Writes(IntEnum):
    """What may be written on a cluster. Each value includes those below it."""

    NOTHING = 0
    WAKES = 1  # wakes, what belongs to them, and our own records
    EVERYTHING = 2


_RESTRICTED = {
    "ReadOnly": (Writes.NOTHING, "the cluster is read-only"),
    "Frozen": (Writes.WAKES, "the cluster is frozen"),
}


class Freeze(Struct, frozen=True):
    """Somebody froze what it covers until `until`: a `cluster` ("": all), there a `namespace` ("": all).

    `until` None: nobody knows, as what says so cannot be read; `reason` is why then, and `by` "".
    """

    cluster: str
    namespace: str
    until: datetime | None
    reason: str
    by: str = ""

    def covers(self, cluster: str, namespace: str) -> bool:
        """Return whether it freezes `namespace` of `cluster`, "" for what is in none."""
        return self.cluster in ("", cluster) and self.namespace in ("", namespace)


class FleetCluster(Struct, frozen=True, dict=True):  # so that what is asked for each workload can be kept
    name: str
    labels: Mapping[str, str]
    connection: ClusterConnection
    state: Literal["Active", "Frozen", "ReadOnly", "Draining", "Leaving"] = "Active"
    ceiling: Limit | None = None  # in place of the Fleet's
    identity: str = ""  # the uid that its Namespace kube-system must have; "": any
    fleet_state: Literal["Active", "Frozen", "ReadOnly"] = "Active"  # what the Fleet says for all its clusters
    freezes: tuple[Freeze, ...] = ()  # those in force, of this cluster or parts of it

    @property
    def writes(self) -> Writes:
        """What may be written there by its state and that of the Fleet."""
        return self._restriction[0]

    @property
    def restriction(self) -> str:
        """Why not everything may be written there by its state or that of the Fleet, "" where everything may."""
        return self._restriction[1]

    @cached_property
    def _restriction(self) -> tuple[Writes, str]:
        everything = (Writes.EVERYTHING, "")
        own, fleet = _RESTRICTED.get(self.state, everything), _RESTRICTED.get(self.fleet_state, everything)
        return own if own[0] <= fleet[0] else (fleet[0], fleet[1].replace("cluster", "Fleet"))

    def freeze_of(self, namespace: str) -> Freeze | None:
        """Return the freeze that covers `namespace` and lasts longest, None where nothing is frozen there."""
        if not self.freezes:
            return None
        found = [one for one in self.freezes if one.covers(self.name, namespace)]
        return max(found, key=lambda one: (one.until is None, one.until), default=None)


class Prices(Struct, frozen=True):
    """What a core and a GiB cost for an hour, in whatever money; None: not stated."""

    cpu: float | None = None
    memory: float | None = None

    @property
    def known(self) -> bool:
        return self.cpu is not None or self.memory is not None

    def over(self, other: Prices) -> Prices:
        """Return these prices, and those of `other` where these say nothing."""
        cpu, memory = self.cpu, self.memory
        return Prices(other.cpu if cpu is None else cpu, other.memory if memory is None else memory)


class Production(Struct, frozen=True):
    """What is production: namespaces by globs of their names, or what has `labels`, itself or by its namespace."""

    namespaces: tuple[str, ...]
    labels: LabelSelector = LabelSelector()

    def has(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Return whether what is in `namespace` and has `labels`, or its namespace has, is production."""
        named = any(fnmatchcase(namespace, pattern) for pattern in self.namespaces)
        return named or (not self.labels.empty and self.labels.matches(labels))


class Tenant(Struct, frozen=True, kw_only=True):
    """A team: which policy files are its own, and what these may select. `paths` are below the policy directory.

    `limits` are of all its policies together, over everything in its namespaces.
    """

    name: str
    place: Place
    paths: tuple[str, ...]
    namespaces: tuple[str, ...]  # globs of names
    clusters: tuple[str, ...] = ("*",)
    kinds: tuple[str, ...] = ("Calendar", "IdlingPolicy")
    max_priority: int = 0
    templates: Literal["None", "Any"] = "None"  # of its federated ReplicaSets
    limits: Limits = Limits()

    def has(self, cluster: str, namespace: str) -> bool:
        """Return whether `namespace` of `cluster` belongs to it."""
        return self.has_cluster(cluster) and self.has_namespace(namespace)

    def has_cluster(self, cluster: str) -> bool:
        return any(fnmatchcase(cluster, pattern) for pattern in self.clusters)

    def has_namespace(self, namespace: str) -> bool:
        return any(fnmatchcase(namespace, pattern) for pattern in self.namespaces)


class Fleet(Struct, frozen=True, kw_only=True):
    name: str
    place: Place
    clusters: tuple[FleetCluster, ...]
    home: str  # name of one of `clusters`
    namespace: str
    former_names: tuple[str, ...] = ()
    limits: Limits  # of each policy on each cluster
    limits_of_all_clusters: Limits = Limits()  # of each policy on all clusters together
    ceiling: Limit = Limit(0.6, 10)  # of all policies together on each cluster
    protected_namespaces: tuple[str, ...] = ()  # as written; `protected` has all of them
    from_context: bool = False  # made of contexts of a kubeconfig: only looked at, and woken
    protects_unread: bool = False  # which namespaces it protects could not be read, or not all of them
    allowed_picker_hosts: tuple[str, ...]
    honors_kube_downscaler: bool = True  # its exclude annotations count as ours do
    prices: Prices = Prices()
    production: Production = Production(())
    tenants: tuple[Tenant, ...] = ()  # no namespace of a cluster belongs to two of them
    platform_paths: tuple[str, ...] = ("*", "platform/**")  # where files of no tenant may be, if there are tenants

    @property
    def protected(self) -> frozenset[str]:
        """Every namespace that is never touched by idling, placement or downscale."""
        own = {"kube-system", "kube-public", "kube-node-lease", self.namespace}
        return frozenset(own.union(self.protected_namespaces))

    def cluster(self, name: str) -> FleetCluster | None:
        return next((cluster for cluster in self.clusters if cluster.name == name), None)

    def tenant(self, name: str) -> Tenant | None:
        return next((tenant for tenant in self.tenants if tenant.name == name), None)

    def tenant_at(self, cluster: str, namespace: str) -> Tenant | None:
        """Return whose `namespace` of `cluster` is, None for the platform's."""
        return next((tenant for tenant in self.tenants if tenant.has(cluster, namespace)), None)


class ObjectSelector(Struct, frozen=True):
    """Selects by name and labels; both must match. `include` and `exclude` are globs of names; excluded wins.

    `within` are those of the tenant whose policy it is: nothing else is ever selected. () is no bound.
    """

    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    labels: LabelSelector = LabelSelector()
    within: tuple[str, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """Return whether an object called `name` that has `labels` is selected."""
        return self.names(name) and self.labels.matches(labels)

    def names(self, name: str) -> bool:
        """Return whether an object called `name` may be selected, whatever its labels are."""
        if any(fnmatchcase(name, pattern) for pattern in self.exclude):
            return False
        if self.within and not any(fnmatchcase(name, pattern) for pattern in self.within):
            return False
        return any(pattern == "*" or fnmatchcase(name, pattern) for pattern in self.include)


class WorkloadSelector(Struct, frozen=True):
    """`kinds` as people write them ("Deployment"); () means every one that Kubernetes and KEDA bring, no custom one."""

    kinds: tuple[str, ...] = ()
    objects: ObjectSelector = ObjectSelector()


class Selector(Struct, frozen=True):
    """What a policy selects: what either of `services` and `workloads` does, where both are set.

    At least one of the two is set (DownscalePolicy: always `workloads`). What a policy excludes is of the same shape;
    there neither means everything in these namespaces.
    """

    clusters: ObjectSelector = ObjectSelector()
    namespaces: ObjectSelector = ObjectSelector()
    services: ObjectSelector | None = None
    workloads: WorkloadSelector | None = None

    def selects_cluster(self, cluster: FleetCluster) -> bool:
        """Return whether anything on `cluster` can be selected."""
        return self.clusters.matches(cluster.name, cluster.labels)

    def selects_service(self, service: Service) -> bool:
        """Return whether `service` is selected, in a namespace that is."""
        return self.services is not None and self.services.matches(service.ref.name, service.labels)


class WeeklyWindow(Struct, frozen=True):
    """One window a week, on the wall clock: from `start_day` (0 = Monday) at `start_minute` (0 to 1440) of that day, to
    `end_minute` of the day `days` later. "Mon-Thu 20:00-07:00" is four of these with days=1; "Fri 20:00-Mon 07:00" one
    with days=3.
    """

    start_day: int
    start_minute: int
    days: int
    end_minute: int


class AbsoluteWindow(Struct, frozen=True):
    """From `start` to before `end`, naive wall-clock times in the calendar's zone. `reason` is what people read."""

    start: datetime
    end: datetime
    reason: str = ""


class Calendar(Struct, frozen=True):
    """When something is idle: in the windows, less the exceptions and `awake`. `name` "": written inside a policy.

    Of a calendar that states its `uptime`, `windows` are what that leaves of a week, and `awake` what it has but once.
    """

    zone: tzinfo
    zone_name: str
    windows: tuple[WeeklyWindow | AbsoluteWindow, ...]
    exceptions: tuple[AbsoluteWindow, ...] = ()
    awake: tuple[AbsoluteWindow, ...] = ()
    name: str = ""
    field: Literal["downtime", "uptime"] = "downtime"
    texts: tuple[str, ...] = ()  # downtime or uptime, as written
    place: Place = Place("")


class MetricCriterion(Struct, frozen=True, kw_only=True):
    """Idle while the query's value for a Service is at or below `at_most`. Reasons call it `name`, if it has one."""

    query: str  # a template
    at_most: float
    window: str  # as written; rendered into the query
    coverage: str | None = None  # a template
    coverage_at_least: float | None = None
    no_series: Literal["Unknown", "Zero"]
    name: str = ""


class ScheduleCriterion(Struct, frozen=True):
    """Idle while the calendar has a window open."""

    calendar: Calendar


class AnyOf(Struct, frozen=True):
    criteria: tuple[Criterion, ...]


class AllOf(Struct, frozen=True):
    criteria: tuple[Criterion, ...]


Criterion = MetricCriterion | ScheduleCriterion | AnyOf | AllOf


def leaves(criterion: Criterion) -> Iterator[MetricCriterion | ScheduleCriterion]:
    """Yield the metric and schedule criteria inside `criterion`."""
    if isinstance(criterion, AllOf | AnyOf):
        for inner in criterion.criteria:
            yield from leaves(inner)
    else:
        yield criterion


class WakeMetric(Struct, frozen=True):
    """Wake while the query's value is above `above`."""

    query: str  # a template
    above: float
    window: str


class WakeOrder(Struct, frozen=True):
    """Lower tiers wake first inside a group; `per_run` None: no limit. `group` is the policy's name by default."""

    group: str
    tier: int = 10
    per_run: int | None = None


class IdlingPolicy(Struct, frozen=True, kw_only=True):
    name: str
    place: Place
    selector: Selector
    idle_when: AllOf
    mode: Literal["Enforce", "Observe"]
    priority: int
    min_age: timedelta
    min_awake: timedelta
    idle_replicas: int
    wake_when: tuple[WakeMetric, ...] = ()
    wake: Literal["Automatic", "OnSignal"]
    wake_order: WakeOrder
    hpa: Literal["Idle", "Leave"]
    keda: Literal["Pause", "Leave"]
    mark_endpoints: bool
    limits: Limits = Limits()
    on_revert: Literal["Yield", "Insist"] = "Yield"  # what is done where another writer scales up what is idle
    pauses_flux: bool = False  # what Flux manages is not reconciled while it is idle
    exclude: tuple[Selector, ...] = ()  # not selected where any of them matches
    tenant: str = ""  # whose it is, "" for the platform's; `name` begins with it: "a/sleep"

    @property
    def rank(self) -> tuple[int, bool]:
        """What it wins by: its priority, and of the same priority the platform's win over those of tenants."""
        return (self.priority, not self.tenant)


class ClusterPreference(Struct, frozen=True):
    min_replicas: int = 0
    max_replicas: int | None = None  # None: no maximum
    weight: int = 0


class TargetRef(Struct, frozen=True):
    api_version: str
    kind: str
    name: str


class FederatedReplicaSet(Struct, frozen=True, kw_only=True):
    """`selector` and `template` are raw manifests parts, both None when `target` is set."""

    name: str
    namespace: str
    place: Place
    replicas: int
    rebalance: bool
    clusters: Mapping[str, ClusterPreference]  # never empty after validation; "*" is the default entry
    rounding: Literal["Fair", "KubeFed"]
    paused: bool
    unschedulable_after: timedelta
    waiting_replicas: int
    cluster_grace_period: timedelta
    progress_deadline: timedelta
    on_conflict: Literal["Overwrite", "Abort"]
    on_delete: Literal["Orphan", "Delete"]
    selector: Mapping[str, Any] | None = None
    template: Mapping[str, Any] | None = None
    target: TargetRef | None = None
    min_ready_seconds: int = 0
    labels: Mapping[str, str] = NOTHING  # kept on the local ReplicaSets
    annotations: Mapping[str, str] = NOTHING  # the same; those of other tools' bookkeeping and our own are left out
    pod_picker: PodPicker | None = None
    digest: str = ""  # first 12 hex digits of the SHA-256 of the validated document
    tenant: str = ""  # whose it is, "" for the platform's; namespace and name are unique without it
    within: tuple[str, ...] = ()  # globs of the clusters of the tenant: elsewhere it does not exist; () is no bound

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def is_on(self, cluster: str) -> bool:
        """Return whether it says anything of `cluster`: with a target, only of those that its preferences name."""
        if self.target is not None and self.preference(cluster) is None:
            return False
        return self.is_within(cluster)

    def is_within(self, cluster: str) -> bool:
        """Return whether its tenant has `cluster`."""
        return not self.within or any(fnmatchcase(cluster, pattern) for pattern in self.within)

    def preference(self, cluster: str) -> ClusterPreference | None:
        """Return the preference for `cluster`: its own entry, else "*"; None where there is neither."""
        return self.clusters.get(cluster, self.clusters.get("*"))


class DownscaleTarget(Struct, frozen=True):
    """`query` or `replicas` is set, never both. `maximum` None: none."""

    query: str | None = None  # a template
    replicas: int | None = None
    minimum: int = 0
    maximum: int | None = None
    direction: Literal["Down", "Both"] = "Down"


class DownscalePolicy(Struct, frozen=True, kw_only=True):
    name: str
    place: Place
    selector: Selector
    mode: Literal["Enforce", "Observe"]
    priority: int
    target: DownscaleTarget | None = None
    pod_picker: PodPicker | None = None  # wins over `strategy`
    strategy: Literal["Logarithmic", "NewestFirst", "ZoneBalanced"]
    logarithm_base: float
    topology_key: str
    on_foreign_cost: Literal["Skip", "Override"]
    settle_seconds: float
    verify_seconds: float
    limits: Limits = Limits()
    exclude: tuple[Selector, ...] = ()  # not selected where any of them matches
    tenant: str = ""  # whose it is, "" for the platform's; `name` begins with it: "a/batch"

    @property
    def rank(self) -> tuple[int, bool]:
        """What it wins by, as for an IdlingPolicy."""
        return (self.priority, not self.tenant)


class PolicySet(Struct, frozen=True):
    """All policies of one directory, valid and consistent.

    Each tuple is sorted by name (federated: namespace, name). `specs` are the fields of each policy with their
    defaults, by its place: structs of `reconciler.policy.kinds`.

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
    specs: Mapping[Place, Any] = NOTHING
    stopped: tuple[Tenant, ...] = ()
    problems: Mapping[str, tuple[Problem, ...]] = NOTHING  # by the name of a stopped tenant
    only: Tenant | None = None
