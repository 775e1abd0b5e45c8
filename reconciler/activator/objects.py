"""What the activator reads of Services, EndpointSlices and NetworkPolicies, and what it derives from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Mapping
from ipaddress import ip_address
from typing import Any, Generic, TypeVar

from msgspec import Struct, field

from reconciler.backends.decode.metadata import Metadata
from reconciler.backends.decode.shapes import Endpoint, ServiceSpec
from reconciler.backends.decode.values import Wire
from reconciler.backends.kubernetes.watch import WatchedResource
from reconciler.decide.annotations import Key
from reconciler.decide.idling.service_records import ServiceRecord, read_service_record
from reconciler.model import ACTIVATOR_MANAGER, ACTIVATOR_POD_LABEL, MANAGED_BY_LABEL, SERVICE_LABEL, ObjectRef

K = TypeVar("K")
W = TypeVar("W", bound="_WatchedObject")

NamespacedName = tuple[str, str]
"""(namespace, name)."""


class WatchedPort(Wire):
    """Source: kubernetes/api core/v1 types.go, ServicePort."""

    port: int
    name: str | None = None
    protocol: str | None = None
    app_protocol: str | None = None

    @property
    def label(self) -> str:
        """Return its name, "" where it has none, as EndpointSlices have it."""
        return self.name or ""

    @property
    def transport(self) -> str:
        return self.protocol or "TCP"


class _WatchedObject(Wire):
    metadata: Metadata

    @property
    def name(self) -> NamespacedName:
        return (self.metadata.namespace or "", self.metadata.name)


class _WatchedServiceSpec(ServiceSpec):
    ip_families: list[str] | None = None
    ports: list[WatchedPort] | None = None  # type: ignore[assignment]  # with more of each port


class WatchedService(_WatchedObject):
    spec: _WatchedServiceSpec = field(default_factory=_WatchedServiceSpec)

    @property
    def ports(self) -> list[WatchedPort]:
        return self.spec.ports or []

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.metadata.annotations or {}

    @property
    def record(self) -> ServiceRecord | None:
        """Return the record that it is idle at zero, None where it is not: idled above zero pods answer."""
        if not self.annotations or self.metadata.deletion_timestamp is not None:
            return None
        ref = ObjectRef("", self.metadata.namespace or "", "Service", self.metadata.name)
        reading = read_service_record(ref, self.annotations, frozenset(), {})
        record = None if reading is None else reading.record
        return record if record is not None and record.targets and record.idled_to == 0 else None

    @property
    def problem(self) -> str:
        """Return why connections to it cannot be held, "" where they can."""
        return self.spec.unheld


class _Conditions(Wire):
    ready: bool | None = None
    serving: bool | None = None


class _EndpointWithAddresses(Endpoint):
    addresses: list[str] = field(default_factory=list)
    conditions: _Conditions = field(default_factory=_Conditions)

    @property
    def pod(self) -> str:
        """Return the name of the Pod that it says it is, "" where it names none."""
        target = self.target_ref
        return target.name or "" if target is not None and target.kind == "Pod" else ""


class _EndpointPort(Wire):
    port: int | None = None
    name: str | None = None
    protocol: str | None = None


class WatchedSlice(_WatchedObject):
    """Source: kubernetes/api discovery/v1 types.go, EndpointSlice."""

    address_type: str = "IPv4"
    endpoints: list[_EndpointWithAddresses] | None = None
    ports: list[_EndpointPort] | None = None

    @property
    def service(self) -> NamespacedName:
        """Return (namespace, name) of its Service; the name is "" where it belongs to none."""
        return (self.metadata.namespace or "", (self.metadata.labels or {}).get(SERVICE_LABEL, ""))

    @property
    def pod_uid(self) -> str | None:
        """Return the uid of the activator's Pod it leads to, None where it is not an activator's."""
        labels = self.metadata.labels or {}
        return labels.get(ACTIVATOR_POD_LABEL, "") if labels.get(MANAGED_BY_LABEL) == ACTIVATOR_MANAGER else None

    def endpoints_that(self, *, are_ready: bool) -> Iterator[_EndpointWithAddresses]:
        """Yield its endpoints that are ready, or those that serve without being ready."""
        for endpoint in self.endpoints or ():
            is_ready = endpoint.conditions.ready is not False  # absent counts as ready
            if is_ready is are_ready and (are_ready or endpoint.conditions.serving):
                yield endpoint


class EndpointAddress(Struct, frozen=True):
    """Where a pod answers, as an EndpointSlice says; `pod` is the name of the Pod, "" where it names none."""

    address: str
    port: int
    pod: str = ""


class ServiceEndpoints(Struct, frozen=True):
    """Where the pods of one Service answer, by the port's name and protocol, ready ones first."""

    ready: Mapping[tuple[str, str], tuple[EndpointAddress, ...]]
    serving: Mapping[tuple[str, str], tuple[EndpointAddress, ...]]

    @property
    def are_ready(self) -> bool:
        return any(self.ready.values())

    @property
    def name_no_pods(self) -> bool:
        """Return whether some are ready and none of them says which Pod it is."""
        return self.are_ready and not any(address.pod for inside in self.ready.values() for address in inside)

    def of(self, port: WatchedPort) -> tuple[EndpointAddress, ...]:
        """Return what to connect to for a connection to `port`, in order of preference."""
        key = (port.label, port.transport)
        return (*self.ready.get(key, ()), *self.serving.get(key, ()))


def endpoints_of(slices: Iterable[WatchedSlice]) -> ServiceEndpoints:
    """Return where the pods behind `slices` answer; those of activators lead nowhere else."""
    real = [watched for watched in slices if watched.pod_uid is None and watched.address_type in ("IPv4", "IPv6")]
    return ServiceEndpoints(_by_port(real, ready=True), _by_port(real, ready=False))


def _by_port(slices: Iterable[WatchedSlice], *, ready: bool) -> dict[tuple[str, str], tuple[EndpointAddress, ...]]:
    found: dict[tuple[str, str], dict[EndpointAddress, None]] = {}
    for watched in slices:
        for port in watched.ports or ():
            if port.port is None:
                continue
            inside = found.setdefault((port.name or "", port.protocol or "TCP"), {})
            for endpoint in watched.endpoints_that(are_ready=ready):
                inside.update(
                    dict.fromkeys(EndpointAddress(each, port.port, endpoint.pod) for each in endpoint.addresses)
                )
    return {key: tuple(inside) for key, inside in found.items()}


class _PodSelector(Wire):
    match_labels: dict[str, str] | None = None


class _NetworkPolicySpec(Wire):
    pod_selector: _PodSelector = field(default_factory=_PodSelector)
    policy_types: list[str] | None = None


class WatchedNetworkPolicy(_WatchedObject):
    spec: _NetworkPolicySpec = field(default_factory=_NetworkPolicySpec)

    def may_select(self, labels: Mapping[str, str]) -> bool:
        """Return whether it may restrict who reaches pods that have at least `labels`.

        Pods have more labels than their Service's selector says, so only a label with another value rules it out.
        """
        if self.spec.policy_types is not None and "Ingress" not in self.spec.policy_types:
            return False
        wanted = self.spec.pod_selector.match_labels or {}
        return all(labels.get(key, value) == value for key, value in wanted.items())


def is_restricted(service: WatchedService, policies: Iterable[WatchedNetworkPolicy]) -> bool:
    """Return whether its connections may not be spliced, because a NetworkPolicy may select its pods."""
    if service.annotations.get(Key.ACTIVATOR) == "Splice":
        return False
    return any(policy.may_select(service.spec.selector or {}) for policy in policies)


WATCHED_SERVICES = WatchedResource("", "v1", "services", WatchedService)
WATCHED_SLICES = WatchedResource("discovery.k8s.io", "v1", "endpointslices", WatchedSlice, labels=SERVICE_LABEL)
WATCHED_NETWORK_POLICIES = WatchedResource("networking.k8s.io", "v1", "networkpolicies", WatchedNetworkPolicy)


# Our EndpointSlices for one Service.


def slice_name(service: str, pod: str, family: str) -> str:
    """Return the name of our slice for one address family; an object's name has 253 characters at most."""
    begin, end = f"{service}-activator-", f"-{family.lower()}"
    return f"{begin}{pod[: 253 - len(begin) - len(end)].rstrip('-.')}{end}"


def addresses_by_family(service: WatchedService, addresses: Collection[str]) -> Mapping[str, str | None]:
    """Return for each address family of `service` which of `addresses` clients reach us at, None for none."""
    own = {f"IPv{ip_address(address).version}": address for address in addresses}
    return {family: own.get(family) for family in service.spec.ip_families or ("IPv4",)}


def slice_manifests(
    service: WatchedService, pod: tuple[str, str], addresses: Collection[str], ports: Iterable[tuple[WatchedPort, int]]
) -> Iterator[Mapping[str, Any]]:
    """Yield our slices for `service`: one for each of its address families that the activator's Pod has.

    `pod` is (name, uid); `ports` are those of the Service, and those of ours where their traffic arrives.
    The Service owns them, so that they go with it.
    """
    listed = [_port_fields(port, number) for port, number in ports]
    for family, address in addresses_by_family(service, addresses).items():
        if address is not None:
            yield {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": _slice_metadata(service, pod, family),
                "addressType": family,
                "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
                "ports": listed,
            }


def _slice_metadata(service: WatchedService, pod: tuple[str, str], family: str) -> Mapping[str, Any]:
    namespace, name = service.name
    owner = {"apiVersion": "v1", "kind": "Service", "name": name, "uid": service.metadata.uid}
    return {
        "name": slice_name(name, pod[0], family),
        "namespace": namespace,
        "labels": {SERVICE_LABEL: name, MANAGED_BY_LABEL: ACTIVATOR_MANAGER, ACTIVATOR_POD_LABEL: pod[1]},
        "ownerReferences": [owner],
    }


def _port_fields(port: WatchedPort, number: int) -> Mapping[str, Any]:
    application = {} if port.app_protocol is None else {"appProtocol": port.app_protocol}
    return {"name": port.label, "port": number, "protocol": port.transport, **application}


class WatchedObjects(Generic[K, W]):
    """The objects of `resource`, as a watch says they are, by what they are about: a Service, or a namespace; None for
    one that is not kept.
    """

    def __init__(self, resource: WatchedResource[W], about: Callable[[W], K | None]) -> None:
        self.resource = resource
        self._about = about
        self._keys: dict[NamespacedName, K] = {}
        self._objects: dict[K, dict[NamespacedName, W]] = {}

    def __iter__(self) -> Iterator[W]:
        """Yield all of them, from any thread."""
        return (watched for inside in tuple(self._objects.values()) for watched in tuple(inside.values()))

    def keys(self) -> KeysView[K]:
        """Return what they are about."""
        return self._objects.keys()

    def of(self, key: K) -> Collection[W]:
        """Return those that are about `key`, the one that changed last at the end."""
        return self._objects.get(key, {}).values()

    def replace(self, objects: Iterable[W]) -> None:
        """Take `objects` for all that there are."""
        self._keys, self._objects = {}, {}
        for watched in objects:
            self.change(watched.name, watched)

    def change(self, name: NamespacedName, changed: W | None) -> set[K]:
        """Take in how an object is now, None: it is gone; return what it is about, and was."""
        keys = set()
        if name in self._keys:
            former = self._keys.pop(name)
            del self._objects[former][name]
            if not self._objects[former]:
                del self._objects[former]
            keys.add(former)
        key = None if changed is None else self._about(changed)
        if changed is not None and key is not None:
            self._keys[name] = key
            self._objects.setdefault(key, {})[name] = changed
            keys.add(key)
        return keys
