"""The protocols of everything outside, such as clusters and locks. Each error raised on purpose is a `ClusterError`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct, field

from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.model import (
    ACTIVATOR_LABELS,
    DELETION_COST,
    NOTHING,
    ConfigMap,
    Endpoints,
    EndpointSlice,
    Event,
    HorizontalPodAutoscaler,
    Lease,
    Namespace,
    Node,
    Pod,
    QueryAnswer,
    Service,
    ServiceAccount,
    Workload,
    Write,
)
from reconciler.time_limit import TimeLimit
from reconciler.workload_kinds import SCALABLE_KINDS, WorkloadKind, joined_version

T = TypeVar("T")

VictimOrder = Callable[[Sequence[Pod], int, bool], Sequence[Pod]]
"""Which pods of one ReplicaSet go when so many of them must: the controller's order, handed in by the pipeline.

The last argument says whether a Deployment owns the ReplicaSet; pods on the same node count only then.
"""


class Resource(Struct, Generic[T], frozen=True):
    """A kind of object that can be read, and the type in model.py it is read as."""

    group: str
    version: str
    kind: str
    plural: str
    model_type: type[T]

    @property
    def key(self) -> tuple[str, str, str]:
        """Return (group, version, plural)."""
        return (self.group, self.version, self.plural)

    @property
    def api_version(self) -> str:
        return joined_version(self.group, self.version)


SERVICES = Resource("", "v1", "Service", "services", Service)
ENDPOINTS = Resource("", "v1", "Endpoints", "endpoints", Endpoints)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", EndpointSlice)
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", Namespace)
NODES = Resource("", "v1", "Node", "nodes", Node)
PODS = Resource("", "v1", "Pod", "pods", Pod)
EVENTS = Resource("", "v1", "Event", "events", Event)
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases", Lease)
ACTIVATOR_SELECTOR = ",".join(f"{key}={value}" for key, value in ACTIVATOR_LABELS.items())
"""Selects the Leases of activators."""
CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", ConfigMap)
OUR_CONFIG_MAPS = ("freeze", "reconciler-journal", "reconciler-memory", "reconciler-replaced-", "reconciler-status-")
"""How the names of the ConfigMaps begin that runs write; what else lies in our own namespace is not ours to read."""
HISTORY_LABEL = "reconciler/history"
"""On the ConfigMaps of the history, which no run lists: they are large."""
AUTOSCALERS = Resource(
    "autoscaling", "v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers", HorizontalPodAutoscaler
)
BOUNDS = (("spec", "minReplicas"), ("spec", "maxReplicas"))
"""Where an autoscaler keeps its bounds."""
COST = ("metadata", "annotations", DELETION_COST)
"""Where a pod has its deletion cost."""
RESOURCES: tuple[Resource[Any], ...] = (
    SERVICES,
    ENDPOINTS,
    ENDPOINT_SLICES,
    NAMESPACES,
    NODES,
    PODS,
    EVENTS,
    CONFIG_MAPS,
    AUTOSCALERS,
    LEASES,
)
SCALED_OBJECT = SCALABLE_KINDS["keda.sh", "ScaledObject"]
BUILT_IN_SCALES = tuple(kind for kind in SCALABLE_KINDS.values() if kind is not SCALED_OBJECT)


def workloads_of(kind: WorkloadKind) -> Resource[Workload]:
    """Return the resource that lists the workloads of `kind`."""
    return Resource(kind.group, kind.version, kind.kind, kind.plural, Workload)


REPLICA_SETS = workloads_of(SCALABLE_KINDS["apps", "ReplicaSet"])
OF_DEPLOYMENT = "pod-template-hash"
"""The label that the Deployment controller gives to the ReplicaSets of a Deployment."""


class Cluster(Protocol):
    """One cluster. A write names what it expects to find and changes nothing when it finds something else."""

    @property
    def name(self) -> str: ...

    def identity(self) -> str:
        """Return the uid of Namespace kube-system (snapshot without one: the cluster's name)."""

    def scale_kinds(self) -> tuple[WorkloadKind, ...]:
        """Return every kind with a scale: the built-in ones, and those of CustomResourceDefinitions with /scale."""

    def list(self, resource: Resource[T], *, namespace: str = "", labels: str = "") -> tuple[T, ...]:
        """Return all objects of `resource`, sorted by namespace and name; `labels` is a selector as kubectl takes it.

        EVENTS are those with reason NeedPods only. A kind the cluster does not serve gives ().
        """

    def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Return one object as it is now.

        Raises:
            NotFoundError: there is none.
        """

    def now(self) -> datetime:
        """Return what time it is there: by the clock of the API server, as it said with its last answer."""

    def user(self) -> str:
        """Return whom the cluster takes us for, "" where it does not say."""

    def secret(self, namespace: str, name: str, key: str) -> str:
        """Return one value of a Secret, decoded, one trailing newline stripped. Never logged.

        Raises:
            NotFoundError: no such Secret or key.
        """

    def write(self, write: Write) -> None:
        """Carry out `write`, whole or not at all.

        Raises:
            StaleError: the object is not what the write expects. NotFoundError: it is gone.
            AlreadyExistsError: create, and one is there. RefusedError: the server's own refusal.
        """

    def writing_as(self, account: ServiceAccount) -> Cluster:
        """Return this cluster, where `write` impersonates `account`; what is read is read as ever."""


REQUEST_SECONDS: tuple[float, ...] = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the buckets in `Traffic.buckets`, in seconds; the last bucket has none."""


class ApiTraffic(Struct, frozen=True):
    """What was exchanged with one cluster so far.

    `received` is bytes of answers as they came over the wire; `seconds` is the sum over all requests; `buckets` counts
    the requests by how long each took, one number more than `REQUEST_SECONDS` has bounds (not cumulative).
    """

    requests: int = 0
    received: int = 0
    seconds: float = 0.0
    buckets: tuple[int, ...] = (0,) * (len(REQUEST_SECONDS) + 1)


class MetricsSource(Protocol):
    def query(self, text: str) -> QueryAnswer:
        """Return the answer to one rendered query at the source's one fixed time; a failure is an answer with
        `error`.
        """


class NoMetrics(Struct, frozen=True):
    """A metrics source that is not asked anything, and why."""

    why: str = "the cluster has no metrics source"

    def query(self, text: str) -> QueryAnswer:  # noqa: ARG002 - the same for all
        return QueryAnswer(error=self.why)


class PodPickerClient(Protocol):
    def pick(self, request: PickerRequest) -> PickerAnswer:
        """Return the picker's answer.

        Raises:
            PickerError: no usable answer after all attempts.
        """


class Lock(Protocol):
    """One writer at a time in one cluster."""

    def look(self) -> None:
        """Note who has it now: what is read of the cluster from here on may be as good as read under the lock."""

    def acquire(self, limit: TimeLimit) -> bool:
        """Take the lock, and return whether surely nobody had it since `look`; it is tried once, also where `limit` is
        over.

        Raises:
            LockHeldError: somebody else held it all that time.
        """

    def held(self) -> bool:
        """Return whether it is still ours; False stops the writing in this cluster."""

    def release(self) -> None:
        """Give it back; nothing happens when it is not ours."""


class RequestSettings(Struct, frozen=True):
    """How much a run may ask of a cluster, and how long it waits.

    `timeout` is seconds for one request, until a whole answer has come. `qps` is writes a second, 0 for no limit.
    `limit` is that of the run: after its end nothing is waited for. Once it is cut, what is in flight has a few
    seconds, and nothing is begun.

    `clients` are `kubernetes.client.ApiClient`s by cluster: their connections count in place of what the Fleet says.
    """

    timeout: float = 30.0
    qps: float = 50.0
    in_flight: int = 16
    limit: TimeLimit = field(default_factory=TimeLimit)
    clients: Mapping[str, Any] = NOTHING


DEFAULTS = RequestSettings()
