"""The types that all rooms share, and that cross from one to the next. Pure values: no clock, no I/O.

Times are timezone-aware UTC `datetime` values, except in `Pod`, where they are nanoseconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any, Literal, TypeVar

from msgspec import Struct

from reconciler.labels import LabelSelector
from reconciler.pod_requests import NO_REQUESTS, PodRequests
from reconciler.untrusted_text import whole_number_in
from reconciler.workload_kinds import BY_KIND, OTHER_KIND, Scalar, WorkloadKind, same_scalar


class _NoEntries(dict[Any, Any]):
    """A dict that stays empty; unlike others it may be a default, because it can be hashed."""

    __slots__ = ()

    def __hash__(self) -> int:  # type: ignore[override]
        return 0

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("it stays empty")


NOTHING: Mapping[Any, Any] = _NoEntries()

K = TypeVar("K")
V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Return the values in `pairs` by their keys, both in their order."""
    found: dict[K, list[V]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return found


class ObjectRef(Struct, frozen=True, order=True, gc=False, cache_hash=True):
    """The name of one object in one cluster.

    `namespace` is "" for cluster-wide kinds; `group` is "" for the core group.
    """

    cluster: str
    namespace: str
    kind: str
    name: str
    group: str = ""

    def __str__(self) -> str:
        kind = f"{self.kind}.{self.group}" if self.kind == "Service" and self.group else self.kind
        return f"{self.cluster}/{self.namespace}/{kind}/{self.name}"

    @property
    def is_service(self) -> bool:
        """Whether it is a Service of Kubernetes: one of Knative is called like it, and is a workload."""
        return self.kind == "Service" and not self.group


class Condition(Struct, frozen=True):
    """A status condition; `status` is "True", "False" or "Unknown"; `since` is lastTransitionTime."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    since: datetime | None = None


class OwnerReference(Struct, frozen=True):
    """The controller owner of an object (ownerReferences with controller: true)."""

    api_version: str
    kind: str
    name: str
    uid: str


class FieldWriter(Struct, frozen=True):
    """Who wrote a field last, from metadata.managedFields. `at` is an upper bound, None for writes through /scale."""

    manager: str
    at: datetime | None = None
    subresource: str = ""


class Switch(Struct, frozen=True):
    """How an object is switched off: `kind` says where and by which value; `value` is what stands there now.

    `has_map` False: the map that would hold it is absent. `alone`: nothing else stands in that map. `finished`: the
    object never runs again, which is as good as off. `is_known` False: nobody can say whether it is off.
    """

    kind: WorkloadKind
    value: Scalar = None
    has_map: bool = True
    alone: bool = False
    finished: bool = False
    is_known: bool = True

    @property
    def is_off(self) -> bool:
        value = self.kind.absent if self.value is None else self.value
        is_off = value is not None if self.kind.off_at_any else same_scalar(value, self.kind.off)
        return self.finished or (self.is_known and is_off)


class Workload(Struct, frozen=True, gc=False):
    """An object with a scale: Deployment, StatefulSet, ReplicaSet, ReplicationController, CronJob, ScaledObject,
    custom.

    `replicas` is what stands at the kind's replicas path, None where the field is absent (counts as 1, see
    `spec_replicas`). The status fields are None where the object has no such field. A snapshot without status is
    settled: the backend fills in the settled numbers, so a None `observed_generation` never means "lagging". `template`
    is the raw pod template for ReplicaSets and None otherwise; `selector` is None where the kind has none.
    """

    ref: ObjectRef
    uid: str
    api_version: str
    replicas: int | None = None
    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING
    template_labels: Mapping[str, str] = NOTHING
    selector: LabelSelector | None = None
    created_at: datetime | None = None  # None: old enough
    generation: int | None = None
    observed_generation: int | None = None
    status_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    updated_replicas: int | None = None
    conditions: tuple[Condition, ...] = ()
    owner: OwnerReference | None = None
    replicas_writer: FieldWriter | None = None
    replicas_path: tuple[str, ...] = ("spec", "replicas")
    switch: Switch | None = None  # what is switched off in place of being scaled, such as a CronJob
    starting_deadline: int | None = None  # CronJob only, seconds
    scale_target: tuple[str, str] | None = None  # ScaledObject only: (kind, name)
    partition: int | None = 0  # StatefulSet, CloneSet: so many keep their template; None: all do until they are deleted
    first_ordinal: int = 0  # StatefulSet only
    loses_volumes: bool = False  # StatefulSet only: those of the pods that it scales down
    template: Mapping[str, Any] | None = None  # ReplicaSet only
    requests: PodRequests = NO_REQUESTS  # of one pod
    min_ready_seconds: int | None = None  # ReplicaSet only; None is 0
    has_annotations: bool = True  # False: metadata.annotations itself is absent
    has_labels: bool = True  # False: metadata.labels itself is absent
    terminating: bool = False
    no_place: str = ""  # custom kinds only: why its replicas, or its switch, cannot be written as it is

    @property
    def spec_replicas(self) -> int:
        """Replicas asked for: an absent field counts as 1; what has a switch is 0 while that is off, else 1."""
        if self.switch is not None:
            return 0 if self.switch.is_off else 1
        return 1 if self.replicas is None else self.replicas

    @property
    def kind(self) -> WorkloadKind:
        """What is known of its kind."""
        return BY_KIND.get(self.ref.kind, OTHER_KIND) if self.switch is None else self.switch.kind

    def condition(self, kind: str) -> Condition | None:
        """Return the condition of that type, None where there is none."""
        return next((found for found in self.conditions if found.type == kind), None) if self.conditions else None


class Service(Struct, frozen=True, gc=False):
    ref: ObjectRef
    uid: str
    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING
    selector: Mapping[str, str] = NOTHING
    type: str = "ClusterIP"
    created_at: datetime | None = None
    has_annotations: bool = True
    unheld: str = ""  # why no activator can hold its connections, "" where one can


class Endpoints(Struct, frozen=True):
    """The old Endpoints object: the records that the seed and `oc idle` put there; `pods` as in an EndpointSlice."""

    ref: ObjectRef
    uid: str
    annotations: Mapping[str, str] = NOTHING
    has_annotations: bool = True
    pods: tuple[tuple[str, str], ...] = ()


FIELD_MANAGER = "reconciler"
JOURNAL = "reconciler-journal"
"""The ConfigMap in our own namespace that keeps what one run needs of the last."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
NEED_PODS = "NeedPods"
"""The reason of Events that ask for a Service to be woken."""

SERVICE_LABEL = "kubernetes.io/service-name"
OUR_LABELS: Mapping[str, str] = {"app.kubernetes.io/managed-by": "reconciler"}
"""On the Leases and ConfigMaps that we make."""

ACTIVATOR_LABELS: Mapping[str, str] = {"app.kubernetes.io/component": "activator", **OUR_LABELS}
"""On the Leases of activators."""

MANAGED_BY_LABEL = "endpointslice.kubernetes.io/managed-by"
ACTIVATOR_MANAGER = "activator.reconciler"
"""The value of that label on the EndpointSlices of activators."""

ACTIVATOR_POD_LABEL = "reconciler/activator-pod"
"""On EndpointSlices and Leases of activators: the uid of the Pod that writes them."""


class EndpointSlice(Struct, frozen=True):
    """`service` is the name from label kubernetes.io/service-name; `pods` are (name, uid) of the targets that are
    Pods. `activator` is the uid of the activator's Pod whose it is, "" for all others.
    """

    ref: ObjectRef
    service: str
    pods: tuple[tuple[str, str], ...] = ()
    uid: str = ""
    activator: str = ""


ACTIVATOR_LEASE_SECONDS = 15
SERVER_TIME_STEP = timedelta(seconds=2)
"""A server states its time in whole seconds: the difference of two may be so far from the time that passed."""

ACTIVATOR_FRESH_FOR = timedelta(seconds=ACTIVATOR_LEASE_SECONDS) + SERVER_TIME_STEP


class Lease(Struct, frozen=True):
    """The Lease of a process. `activator` is the uid of the activator's Pod that it stands for, "" for any other."""

    ref: ObjectRef
    activator: str = ""
    renewed_at: datetime | None = None

    def is_fresh(self, now: datetime) -> bool:
        """Return whether the activator that it stands for lives, `now` being the time of the API server."""
        return self.renewed_at is not None and now - self.renewed_at <= ACTIVATOR_FRESH_FOR


class ActivatorReplica(Struct, frozen=True, order=True):
    """One replica of an activator, by the uid of its Pod. `is_alive`: its Lease is fresh."""

    pod: str
    is_alive: bool


class Namespace(Struct, frozen=True):
    ref: ObjectRef
    uid: str
    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING


class Node(Struct, frozen=True):
    ref: ObjectRef
    labels: Mapping[str, str] = NOTHING


class HorizontalPodAutoscaler(Struct, frozen=True):
    """`target` is (kind, name) in the same namespace; `minimum` is None where absent (counts as 1).

    `bounds_writer` is who wrote one of its bounds last and `minimum_writer` who wrote that one, None where nobody is
    recorded. `behavior` is spec.behavior as it stands, empty where it is absent. `scaled_to_zero`: by its condition
    ScaledToZero it scaled its target to zero itself. `may_be_zero`: it has a metric that is there without pods, without
    which its minimum cannot be 0. `made_by` is the kind of its controller owner, "" for none.
    """

    ref: ObjectRef
    uid: str
    target: tuple[str, str]
    maximum: int
    minimum: int | None = None
    annotations: Mapping[str, str] = NOTHING
    scale_down_disabled: bool = False
    api_version: str = "autoscaling/v2"
    has_annotations: bool = True
    bounds_writer: FieldWriter | None = None
    minimum_writer: FieldWriter | None = None
    labels: Mapping[str, str] = NOTHING
    behavior: Mapping[str, Any] = NOTHING
    scaled_to_zero: bool = False
    may_be_zero: bool = False
    made_by: str = ""


class Event(Struct, frozen=True):
    """A Kubernetes Event with reason NeedPods.

    `namespace` is its own; `involved` and `related` are (kind, namespace, name), None where absent, and may name
    another one: whoever may write Events in a namespace says nothing about others.
    """

    reason: str
    namespace: str
    involved: tuple[str, str, str] | None
    related: tuple[str, str, str] | None = None
    at: datetime | None = None


class ConfigMap(Struct, frozen=True):
    ref: ObjectRef
    uid: str
    data: Mapping[str, str] = NOTHING
    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING
    has_annotations: bool = True
    binary_data: Mapping[str, str] = NOTHING  # in Base64


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the victim order sees it. Times are nanoseconds since the epoch.

    The first eleven fields are public API (`reconciler.api`).
    """

    name: str
    uid: str = ""
    node: str = ""  # "" = not assigned
    phase: str = "Running"
    ready: bool = True
    ready_since_ns: int | None = None  # None = never or unknown
    created_ns: int | None = None
    restarts: int = 0  # the highest of any one container
    sidecar_restarts: int = 0  # the highest of any one sidecar
    deletion_cost: str | None = None  # the annotation's text
    terminating: bool = False
    cost_writer: str = ""  # the field manager that wrote its cost last, "" where nobody is recorded
    namespace: str = ""
    cluster: str = ""
    labels: Mapping[str, str] = field(default=NOTHING, hash=False)
    owner_uid: str = ""  # uid of the controller owner
    owner_kind: str = ""
    owner_name: str = ""
    unscheduled_since_ns: int | None = None  # unschedulable since; None = it is not, or unknown
    unschedulable: bool = False  # the scheduler found no node: PodScheduled=False, reason Unschedulable
    has_annotations: bool = field(default=True, compare=False)
    has_labels: bool = field(default=True, compare=False)

    @property
    def is_active(self) -> bool:
        """Whether it counts as a replica: it has not ended and is not being deleted."""
        return not self.terminating and self.phase not in ("Succeeded", "Failed")

    @property
    def ordinal(self) -> int:
        """The number at the end of its name, as a StatefulSet counts its pods; -1 where there is none."""
        number = whole_number_in(self.name.rpartition("-")[2])
        return -1 if number is None else number


class Sample(Struct, frozen=True):
    """One series of a query's answer. `value` may be NaN or infinite."""

    labels: Mapping[str, str]
    value: float


class QueryAnswer(Struct, frozen=True, dict=True):  # so that what many policies ask for can be kept
    """What a metrics source said to one query. `error` set: it failed to load, `samples` is empty then.

    `at` is when the value was recorded, None for "now". `warnings` make the answer partial, so everything in it is
    unknown.
    """

    samples: tuple[Sample, ...] = ()
    at: datetime | None = None
    warnings: tuple[str, ...] = ()
    error: str = ""

    @cached_property
    def by_service(self) -> Mapping[tuple[str, str], tuple[float, ...]]:
        """The values by (namespace, service); "" where a sample has no such label."""
        values: dict[tuple[str, str], tuple[float, ...]] = {}
        for sample in self.samples:
            key = (sample.labels.get("namespace", ""), sample.labels.get("service", ""))
            values[key] = (*values.get(key, ()), float(sample.value))
        return values


class RangeSeries(Struct, frozen=True):
    """One series over time, a value for each time that was asked for; None: it has none then.

    `averages` has what it was on average since the time before each, () where nobody asked.
    """

    labels: Mapping[str, str]
    values: tuple[float | None, ...]
    averages: tuple[float | None, ...] = ()


class RangeAnswer(Struct, frozen=True):
    """What a metrics source said to one query over time. `error` set: it failed, `series` is empty then."""

    series: tuple[RangeSeries, ...] = ()
    error: str = ""


class QueryKey(Struct, frozen=True, order=True):
    """Which query of which policy, on which cluster; `window` is the policy's own text ("30m", "" for none)."""

    cluster: str
    policy: str
    template: str
    window: str = ""


class PodsQuestion(Struct, frozen=True, order=True):
    """ "Which pods does this workload have?" — answered in `ObservedCluster.pods` under the same workload.

    Asked only for workloads whose decision needs them. For a Deployment the answer holds the pods of all its
    ReplicaSets.
    """

    workload: ObjectRef


EVERY_KIND = "*"
"""The kind, and the plural, that stands for all kinds of an API group that does not say what it serves."""

_NAMED_BY_PLURAL = frozenset({"", "apps", "autoscaling", "batch", "discovery.k8s.io", "keda.sh"})


def unreadable_key(group: str, plural: str) -> str:
    """Return the key in `ObservedCluster.unreadable` for all objects of a resource.

    It is the plural for the kinds that are known by name; others may be called like one of them: services.example.com.
    """
    return plural if group in _NAMED_BY_PLURAL else f"{plural}.{group}"


def unreadable_pods_key(ref: ObjectRef) -> str:
    """Return the key in `ObservedCluster.unreadable` for the pods of one object."""
    return f"pods of {ref.namespace}/{ref.kind}/{ref.name}"


class ObservedCluster(Struct, frozen=True):
    """What was read of one cluster that answered.

    `unreadable` maps what could not be listed or read ("services", "pods of shop/Deployment/web", ...) to the error's
    words; what is named there is unknown, not absent; kinds are named as `unreadable_key` says. `pods` holds answers to
    `PodsQuestion`. `workloads` holds every scalable of every kind, ReplicaSets owned by Deployments included; of
    those with the label `unlisted_replica_sets` only what is beside `pods`, where that is not None. `activators` are
    None where nothing asked for them, or they cannot be read.
    """

    name: str
    identity: str
    workloads: tuple[Workload, ...] = ()
    services: tuple[Service, ...] = ()
    endpoints: tuple[Endpoints, ...] = ()
    endpoint_slices: tuple[EndpointSlice, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    nodes: tuple[Node, ...] = ()
    autoscalers: tuple[HorizontalPodAutoscaler, ...] = ()
    events: tuple[Event, ...] = ()
    config_maps: tuple[ConfigMap, ...] = ()  # those in our own namespace
    scale_kinds: tuple[WorkloadKind, ...] = ()
    pods: Mapping[ObjectRef, tuple[Pod, ...]] = NOTHING
    victim_pods: tuple[Pod, ...] = ()  # those with label reconciler/victim, normally none
    activators: tuple[ActivatorReplica, ...] | None = None
    unlisted_replica_sets: str | None = None
    unreadable: Mapping[str, str] = NOTHING

    def unread(self, group: str, kind: str) -> str:
        """Return the key in `unreadable` that says why objects of a kind are unknown, "" where all were listed."""
        named = [found.plural for found in self.scale_kinds if (found.group, found.kind) == (group, kind)]
        keys = [unreadable_key(group, plural) for plural in named or (f"{kind.lower()}s", EVERY_KIND)]
        return next((key for key in keys if key in self.unreadable), "")


class ObservedState(Struct, frozen=True):
    """Everything a decision may look at, besides the policies and the run.

    `clusters` holds the clusters that answered; `unreachable` maps the others to the error's words; every cluster of
    the Fleet is in exactly one of the two. `answers` holds what the metrics sources said. `wakes_only` holds those of
    `unreachable` that did answer, but on which nothing may be decided except the wakes that are due or requested.
    """

    clusters: Mapping[str, ObservedCluster]
    unreachable: Mapping[str, str] = NOTHING
    answers: Mapping[QueryKey, QueryAnswer] = NOTHING
    wakes_only: Mapping[str, ObservedCluster] = NOTHING


class Run(Struct, frozen=True):
    """The one `now` of a run (UTC, whole seconds), its id, and the policies' source revision ("" where not given)."""

    now: datetime
    id: str = ""
    revision: str = ""
    allow_exceed: Mapping[str, int | None] = NOTHING  # policies whose limits do not count, or are the number
    allow_removed: bool = False  # wakes of policies that are gone need not wait


class PatchOperation(Struct, frozen=True):
    """One JSON Patch operation. `path` is an RFC 6901 pointer."""

    op: Literal["test", "add", "replace", "remove"]
    path: str
    value: Any = None


@lru_cache(maxsize=1024)  # a plan has the same few for each object
def pointer(path: tuple[str, ...]) -> str:
    """Return the RFC 6901 JSON pointer of `path`."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


@lru_cache(maxsize=1024)  # many patches change the same few fields
def pointed_path(text: str) -> tuple[str, ...]:
    """Return the keys of an RFC 6901 JSON pointer."""
    return tuple(key.replace("~1", "/").replace("~0", "~") for key in text.split("/")[1:])


class ServiceAccount(Struct, frozen=True):
    """A ServiceAccount of a cluster."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def user(self) -> str:
        """Its user name. Source: kubernetes apiserver pkg/authentication/serviceaccount/util.go, MakeUsername."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"


class Write(Struct, frozen=True):
    """One request that changes one object, and what it expects to find.

    patch: `patch` is applied whole or not at all; a failed `test` is StaleError. `uid` is tested too.
    create: `manifest` is the whole object (server-side apply under our field manager); AlreadyExistsError where one of
    that name exists and `uid` is None. delete: with `uid` as precondition; `orphan` leaves the pods running. event:
    `manifest` is an Event; best effort. Where one of that name is there, `patch` is applied to it with one more in its
    count; without a `patch` it stays.
    """

    verb: Literal["patch", "create", "delete", "event"]
    ref: ObjectRef
    api_version: str
    uid: str | None = None
    patch: tuple[PatchOperation, ...] = ()
    manifest: Mapping[str, Any] | None = None
    orphan: bool = False
