"""Our EndpointSlices for one Service: what they say."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from reconciler.activator.objects import WatchedPort, WatchedService
from reconciler.model import ACTIVATOR_MANAGER, ACTIVATOR_POD_LABEL, MANAGED_BY_LABEL, SERVICE_LABEL


def slice_name(service: str, pod: str, family: str) -> str:
    """Return the name of our slice for one address family; an object's name has 253 characters at most."""
    begin, end = f"{service}-activator-", f"-{family.lower()}"
    return f"{begin}{pod[: 253 - len(begin) - len(end)].rstrip('-.')}{end}"


def addresses_by_family(service: WatchedService, addresses: Collection[str]) -> Mapping[str, str | None]:
    """Return for each address family of `service` which of `addresses` clients reach us at, None for none."""
    own = {f"IPv{ipaddress.ip_address(address).version}": address for address in addresses}
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
