"""What the pods of a workload request of a node, from their template."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from reconciler.decide.placement.local_replica_sets import amount_of

GIB = 2**30


class Requests(Struct, frozen=True):
    """CPU in cores and memory in GiB."""

    cpu: float = 0.0
    memory: float = 0.0

    def times(self, number: float) -> Requests:
        return Requests(self.cpu * number, self.memory * number)

    def plus(self, other: Requests) -> Requests:
        return Requests(self.cpu + other.cpu, self.memory + other.memory)


def requests_of(manifest: Mapping[str, Any]) -> Requests:
    """Return what one pod of the workload requests; nothing where its template says nothing.

    As the scheduler counts: containers and sidecars together, or an init container where that is more.

    Source: kubernetes pkg/api/v1/resource helpers.go, PodRequests.
    """
    pod = _at(manifest, "spec", "template", "spec")
    return Requests(_of_pod(pod, "cpu"), _of_pod(pod, "memory") / GIB)


def _of_pod(pod: Mapping[str, Any], resource: str) -> float:
    started = _containers(pod, "initContainers")
    sidecars, most = 0.0, 0.0
    for container in started:
        wanted = _of_container(container, resource)
        most = max(most, sidecars + wanted)
        if container.get("restartPolicy") == "Always":
            sidecars += wanted
    running = sidecars + sum(_of_container(one, resource) for one in _containers(pod, "containers"))
    return max(running, most) + _amount(_at(pod, "overhead").get(resource))


def _of_container(container: Mapping[str, Any], resource: str) -> float:
    """Return a container's request; where it states a limit only, the API server makes that its request."""
    stated, limits = _at(container, "resources", "requests"), _at(container, "resources", "limits")
    return _amount(stated.get(resource, limits.get(resource)))


def _containers(pod: Mapping[str, Any], field: str) -> Iterable[Mapping[str, Any]]:
    found = pod.get(field)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def _amount(value: Any) -> float:
    found = None if value is None else amount_of(str(value))
    return 0.0 if found is None or found < 0 else float(found)


def _at(value: Any, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}
