"""What a pod requests of a node, from its spec; and Kubernetes quantities as numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from operator import add, sub
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import astuple

GIB = 2**30

_QUANTITY = r"([+-]?[0-9.]+)(?:([eE][+-]?[0-9]{1,18})|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?)"
_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def amount_of(text: str) -> Decimal | None:
    """Return a Kubernetes quantity as a number. Source: apimachinery pkg/api/resource/quantity.go."""
    match = re.fullmatch(_QUANTITY, text)
    if match is None or match[1].count(".") > 1 or not any(sign.isdigit() for sign in match[1]):
        return None
    number, exponent, suffix = match.groups()
    if suffix in _BINARY_SUFFIXES:
        return Decimal(number) * Decimal(2 ** _BINARY_SUFFIXES[suffix])
    power = int(exponent[1:]) if exponent else _DECIMAL_SUFFIXES[suffix or ""]
    return Decimal(number).scaleb(power) if abs(power) < 100 else None


class Amounts(Struct, frozen=True):
    """Numbers that are added and taken away field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*map(add, astuple(self), astuple(other)))

    def __sub__(self, other: Self) -> Self:
        return type(self)(*map(sub, astuple(self), astuple(other)))


class PodRequests(Amounts, frozen=True):
    """CPU in cores and memory in GiB."""

    cpu: float = 0.0
    memory: float = 0.0

    def times(self, number: float) -> PodRequests:
        return PodRequests(self.cpu * number, self.memory * number)


NO_REQUESTS = PodRequests()


class Hours(Amounts, frozen=True):
    """Replica-hours, and core-hours and GiB-hours of what their pods request."""

    replicas: float = 0.0
    requests: PodRequests = NO_REQUESTS

    def values(self) -> dict[str, float]:
        """Return them as JSON values."""
        return {
            "replicaHours": round(self.replicas, 4),
            "cpuHours": round(self.requests.cpu, 4),
            "memoryGiBHours": round(self.requests.memory, 4),
        }


def requests_of(pod: Mapping[str, Any]) -> PodRequests:
    """Return what a pod of this spec requests; nothing where it states nothing.

    As the scheduler counts: what the pod itself states, or else containers and sidecars together, or an init container
    where that is more.

    Source: kubernetes component-helpers/resource helpers.go, PodRequests; pkg/apis/core/v1/defaults.go,
    setDefaultPodRequests.
    """
    return PodRequests(_of_pod(pod, "cpu"), _of_pod(pod, "memory") / GIB)


def _of_pod(pod: Mapping[str, Any], resource: str) -> float:
    started = _containers(pod, "initContainers")
    sidecars, most = 0.0, 0.0
    for container in started:
        wanted = _stated(container, resource)
        most = max(most, sidecars + wanted)
        if container.get("restartPolicy") == "Always":
            sidecars += wanted
    running = sidecars + sum(_stated(container, resource) for container in _containers(pod, "containers"))
    return _stated(pod, resource, max(running, most)) + _amount((pod.get("overhead") or {}).get(resource))


def _stated(part: Mapping[str, Any], resource: str, otherwise: float = 0.0) -> float:
    """Return the request of a container, or of a pod for all of its containers; where it states a limit only, and they
    request nothing `otherwise`, the API server makes that its request.
    """
    resources = part.get("resources") or {}
    stated, limits = (resources.get(field) or {} for field in ("requests", "limits"))
    return _amount(stated[resource]) if resource in stated else otherwise or _amount(limits.get(resource))


def _containers(pod: Mapping[str, Any], field: str) -> Iterable[Mapping[str, Any]]:
    return pod.get(field) or ()


def _amount(value: Any) -> float:
    found = None if value is None else amount_of(str(value))
    return 0.0 if found is None or found < 0 else float(found)
