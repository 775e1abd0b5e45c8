"""Hours in the life of an activator: a real process beside a real API server that is away again and again, thousands of
idle Services, clients and pods that behave badly. Memory stays flat, and what it promised at its end is kept.

    SOAK_SECONDS=3600 python -m pytest tests/activator/test_soak.py -m soak -s

It ends by itself. The process is in a network namespace of its own, with the rights and the admission of the component;
clients come to its ports directly.
"""

from __future__ import annotations

import itertools
import os
import socket
import statistics
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reconciler.model import ACTIVATOR_LEASE_SECONDS
from tests.activator.idle_services import forget, idle_deployment, idle_service, idle_services
from tests.activator.in_cluster import ActivatorProcess, a_pod, our_slices, plane_with_addresses
from tests.real.cluster import deployment_path, replicas_of, wait_until
from tests.real.control_plane import ControlPlane
from tests.real.network_namespace import NODE

pytestmark = [pytest.mark.soak, pytest.mark.real]

SECONDS = float(os.environ.get("SOAK_SECONDS", "180"))
SERVICES = int(os.environ.get("SOAK_SERVICES", "5000"))
WARM = min(600.0, SECONDS / 3)
"""Seconds after which memory counts."""

GROWTH = 1.05
_NAMESPACES = 50
_REFUSING = 100
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices"

Services = dict[tuple[str, str], int]
"""The port of the activator for each idle Service, by (namespace, name)."""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with plane_with_addresses(tmp_path_factory.mktemp("soak"), "198.18.2.200") as made:
        yield made


@pytest.fixture
def activator(plane: ControlPlane) -> Iterator[ActivatorProcess]:
    flags = ("--grace", "10", "--hold-timeout", "20")
    made = ActivatorProcess(plane, ["198.18.2.200"], *flags, name="activator-0")
    yield made
    made.stop()


def idle_again(plane: ControlPlane, namespace: str, name: str) -> None:
    """What a run would do, some minutes later."""
    for path, made in (
        (deployment_path(namespace, name), idle_deployment(name)),
        (f"/api/v1/namespaces/{namespace}/services/{name}", idle_service(name)),
    ):
        gone = {"reconciler/wake-requested-at": None, "reconciler/awake-since": None}
        patch: dict[str, Any] = {"metadata": {"annotations": {**gone, **made["metadata"]["annotations"]}}}
        if made["kind"] == "Deployment":
            patch["spec"] = {"replicas": 0}
        plane.api.patch(path, patch)


def ports_of(plane: ControlPlane, namespace: str = "") -> Services:
    labels = "endpointslice.kubernetes.io/managed-by=activator.reconciler"
    path = _SLICES.format(namespace) if namespace else "/apis/discovery.k8s.io/v1/endpointslices"
    found = plane.api.items(path, labelSelector=labels)
    return {
        (one["metadata"]["namespace"], one["metadata"]["labels"]["kubernetes.io/service-name"]): one["ports"][0]["port"]
        for one in found
    }


def published(plane: ControlPlane, count: int) -> Services:
    """The ports, once there is a slice for so many Services."""
    found: Services = {}

    def all_there() -> bool:
        found.clear()
        found.update(ports_of(plane))
        return len(found) >= count

    wait_until(all_there, f"{count} slices", 600)
    return found


def knock(activator: ActivatorProcess, ports: Iterable[int]) -> list[socket.socket]:
    """Connections that said something, one for each port; the kernel accepts them at once."""
    clients = []
    for port in ports:
        client = socket.create_connection((activator.addresses[0], port), timeout=60)
        client.sendall(b"hello\n")
        clients.append(client)
    return clients


def close(clients: Iterable[socket.socket]) -> None:
    for client in clients:
        client.close()


def memory(activator: ActivatorProcess) -> float:
    """MiB that the process has."""
    text = Path(f"/proc/{activator.process.id}/status").read_text()
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def descriptors(activator: ActivatorProcess) -> int:
    return len(os.listdir(f"/proc/{activator.process.id}/fd"))


def log_of(activator: ActivatorProcess) -> str:
    return activator.process.log.read_text(errors="replace")


def test_a_thousand_slices_are_withdrawn_before_a_pods_grace_is_over(
    plane: ControlPlane, activator: ActivatorProcess
) -> None:
    """Half of `--grace`, five seconds, is for the slices; the rest is for connections."""
    idle_services(plane, "thousand", [f"web-{number}" for number in range(1000)])
    began = time.monotonic()
    activator.start()
    published(plane, 1000)
    print(f"1,000 Services: held {time.monotonic() - began:.1f} s after the start")
    began = time.monotonic()
    activator.process.terminate_once()
    wait_until(lambda: not our_slices(plane.api, "thousand"), "no slices", 120)
    print(f"1,000 slices: withdrawn {time.monotonic() - began:.1f} s after SIGTERM")
    assert activator.process.ends_with() == 0
    assert "could not be deleted" not in log_of(activator)
    leases = plane.api.items("/apis/coordination.k8s.io/v1/namespaces/reconciler/leases")
    assert [one["metadata"]["name"] for one in leases] == []
    plane.api.delete("/api/v1/namespaces/thousand")
    forget(plane, "thousand")


def test_six_hundred_services_are_woken_before_any_client_is_reset(
    plane: ControlPlane, activator: ActivatorProcess
) -> None:
    """Ten namespaces, with sixty Services each; a client waits for each, 20 seconds at most."""
    names = [f"web-{number}" for number in range(60)]
    for number in range(10):
        idle_services(plane, f"six-{number}", names, behind=True)
    activator.start()
    ports = published(plane, 600)
    began = time.monotonic()
    clients = knock(activator, ports.values())
    wait_until(lambda: activator.metric("woken_total") >= 600, "600 wakes", 120)
    print(f"600 Services: woken {time.monotonic() - began:.1f} s after their clients came")
    assert activator.metric("wake_failures_total") == 0
    assert 'refused_total{reason="timeout"} 0' in activator.get("/metrics")[1]
    assert {replicas_of(plane.api, f"six-{number}", name) for number in range(10) for name in names} == {1}
    close(clients)
    for number in range(10):
        forget(plane, f"six-{number}")


def test_with_few_descriptors_and_many_clients_the_lease_is_kept_and_a_service_is_woken(
    plane: ControlPlane, activator: ActivatorProcess
) -> None:
    idle_services(plane, "large", [f"web-{number}" for number in range(20)])
    idle_services(plane, "small", ["web"], behind=True)
    activator.descriptors = 1024
    activator.start()
    ports = published(plane, 21)
    large = [port for (namespace, _), port in ports.items() if namespace == "large"]
    clients = knock(activator, large * 50)
    clients += knock(activator, [ports["small", "web"]])
    wait_until(lambda: replicas_of(plane.api, "small", "web") == 1, "the wake", 120)
    time.sleep(ACTIVATOR_LEASE_SECONDS + 1)  # so that the Lease was renewed meanwhile
    clients += knock(activator, large * 50)
    assert activator.get("/readyz") == (200, "ok\n")
    print(f"2,001 clients: {activator.metric('held'):.0f} wait, {descriptors(activator)} descriptors of 1,024")
    assert descriptors(activator) < 512
    assert "Traceback" not in log_of(activator)
    close(clients)
    for namespace in ("large", "small"):
        forget(plane, namespace)


def refusing_pods(plane: ControlPlane, namespace: str, name: str, address: str) -> None:
    """A ready pod, with its EndpointSlice, that refuses connections, or that nobody finds."""
    a_pod(plane, namespace, f"{name}-1", [address])
    metadata = {"name": f"{name}-pods", "labels": {"kubernetes.io/service-name": name}}
    target = {"kind": "Pod", "namespace": namespace, "name": f"{name}-1"}
    endpoints = [{"addresses": [address], "conditions": {"ready": True}, "targetRef": target}]
    made = {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": [{"name": "", "port": 9}]}
    plane.api.create(_SLICES.format(namespace), {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", **made})


class Life:
    """The world of the long run, and what is done to it, again and again."""

    def __init__(self, plane: ControlPlane, activator: ActivatorProcess, ports: Services) -> None:
        self.plane = plane
        self.activator = activator
        self.ports = ports
        self._numbers = itertools.count()

    def some(self, count: int) -> list[tuple[str, str]]:
        """So many of the Services, others each time."""
        every = [one for one in self.ports if one[0].startswith("life-")]
        start = next(self._numbers) * count
        return [every[(start + number) % len(every)] for number in range(count)]

    def wake_and_idle(self) -> None:
        names = [f"web-{number}" for number in range(20)]
        ports = ports_of(self.plane, "woken")
        clients = knock(self.activator, (ports["woken", name] for name in names if ("woken", name) in ports))
        wait_until(lambda: {replicas_of(self.plane.api, "woken", name) for name in names} == {1}, "wakes", 120)
        close(clients)
        for name in names:
            idle_again(self.plane, "woken", name)
        wait_until(lambda: len(ports_of(self.plane, "woken")) == 20, "slices again", 120)

    def outage(self, seconds: float) -> None:
        """The API server goes, while clients come."""
        self.plane.stop_api_server()
        clients = knock(self.activator, (self.ports[one] for one in self.some(200)))
        time.sleep(seconds)
        close(clients)
        self.plane.start_api_server()
        wait_until(lambda: self.activator.get("/readyz")[0] == 200, "readiness after an outage", 300)

    def pods_that_refuse(self) -> None:
        chosen = self.some(_REFUSING)
        for number, (namespace, name) in enumerate(chosen):
            refusing_pods(self.plane, namespace, name, NODE if number % 2 else "198.18.99.99")
        clients = knock(self.activator, (self.ports[one] for one in chosen))
        time.sleep(25)  # longer than a hold
        close(clients)
        for namespace, name in chosen:
            self.plane.api.delete(f"{_SLICES.format(namespace)}/{name}-pods")
            self.plane.api.delete(f"/api/v1/namespaces/{namespace}/pods/{name}-1")

    def silent_probes(self) -> None:
        clients = [socket.create_connection((self.activator.addresses[0], 8080), timeout=60) for _ in range(300)]
        assert self.activator.get("/healthz") == (200, "ok\n")
        close(clients)


def test_memory_is_flat_through_outages_refusing_pods_and_wakes(
    plane: ControlPlane, activator: ActivatorProcess
) -> None:
    each = SERVICES // _NAMESPACES
    for number in range(_NAMESPACES):
        idle_services(plane, f"life-{number}", [f"web-{number}-{one}" for one in range(each)])
    idle_services(plane, "woken", [f"web-{number}" for number in range(20)], behind=True)
    activator.start()
    life = Life(plane, activator, published(plane, each * _NAMESPACES + 20))
    began = time.monotonic()
    samples: list[tuple[float, float]] = []
    for cycle in itertools.count(1):
        life.wake_and_idle()
        life.pods_that_refuse()
        life.silent_probes()
        life.outage(10 if cycle % 5 else 60)
        now = time.monotonic() - began
        samples.append((now, memory(activator)))
        print(
            f"{now:6.0f} s  cycle {cycle}  {samples[-1][1]:.1f} MiB  {descriptors(activator)} descriptors", flush=True
        )
        if now >= SECONDS:
            break
    assert activator.get("/healthz") == (200, "ok\n")
    assert "Traceback" not in log_of(activator)
    counted = [size for at, size in samples if at >= WARM]
    first, last = (statistics.median(part) for part in (counted[:3], counted[-3:]))
    print(f"memory {first:.1f} MiB after {WARM:.0f} s, {last:.1f} MiB in the end: {100 * (last / first - 1):+.1f} %")
    print(f"log: {len(log_of(activator).splitlines())} lines")
    assert last <= GROWTH * first
    began = time.monotonic()
    activator.process.terminate_once()
    assert activator.process.ends_with() == 0
    print(f"ended {time.monotonic() - began:.1f} s after SIGTERM, {len(ports_of(plane))} of its slices are left")
