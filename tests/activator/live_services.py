"""Services on a service network in which activators run, and their clients."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.activator.in_cluster import ActivatorProcess, always_idle, install
from tests.pipeline.calls import Folder
from tests.real.cluster import create, replicas_of, wait_for_ready, wait_until
from tests.real.kubeconfig import write_kubeconfig
from tests.real.objects import a_deployment, a_namespace, an_object
from tests.real.proxy import Proxy
from tests.real.service_network import POD_PORT, ServiceNetwork

PATIENCE = 120
"""Seconds that a client waits at most; an answer comes much sooner."""


class LiveServices:
    """The Services of a namespace of its own on the service network, and the command line on it."""

    def __init__(self, network: ServiceNetwork, folder: Path) -> None:
        self.network = network
        self.api = network.api
        self.namespace = f"services-{secrets.token_hex(3)}"
        self.folder = Folder(folder)
        create(self.api, [a_namespace(self.namespace)])
        kubeconfig = write_kubeconfig(folder / "kubeconfig.yaml", {"member": network.plane.access()})
        self.folder.write("policies/all.yaml", always_idle(kubeconfig, self.namespace))

    def open(self, name: str, families: tuple[str, ...] = ("IPv4",), **template: object) -> str:
        """A Service with one ready pod behind it; return its address."""
        ports = [
            {"name": kind.lower(), "port": 80, "targetPort": POD_PORT, "protocol": kind} for kind in ("TCP", "UDP")
        ]
        policy = "SingleStack" if len(families) == 1 else "RequireDualStack"
        spec = {"selector": {"app": name}, "ports": ports, "ipFamilies": families, "ipFamilyPolicy": policy}
        service = an_object("v1", "Service", name, spec=spec)
        create(self.api, [service, a_deployment(name, 1, **template)], self.namespace)
        wait_for_ready(self.api, self.namespace, name, 1)
        return self.network.cluster_ip(self.namespace, name)

    def idle(self, *names: str) -> None:
        """Let a run idle them, and wait until their pods are gone and an activator's slices are there.

        On a busy machine a run may lose its lock, or find that what it planned is stale: then the next one does it.
        """
        flags = ("--auto-approve", "--quiet", "--credentials-dir", str(self.folder.path))
        wait_until(lambda: self.folder.call("apply", "policies", *flags).code == 0, "a whole run", 600)
        assert [self.replicas(name) for name in names] == [0] * len(names)
        wait_until(lambda: not self.api.items(f"/api/v1/namespaces/{self.namespace}/pods"), "no pods")
        for name in names:  # a check that sends nothing wakes nothing
            address = self.network.cluster_ip(self.namespace, name)
            wait_until(lambda address=address: accepts(address), f"{name} to accept connections again")

    def replicas(self, name: str) -> int:
        return replicas_of(self.api, self.namespace, name)

    def need_pods(self) -> list[str]:
        """The names of the Services for which there is an Event NeedPods, one for each such Event."""
        events = self.api.items(f"/api/v1/namespaces/{self.namespace}/events", fieldSelector="reason=NeedPods")
        return [one["involvedObject"]["name"] for one in events]

    def woken(self) -> list[str]:
        """The names of what was woken, one for each wake."""
        events = self.api.items(f"/api/v1/namespaces/{self.namespace}/events", fieldSelector="reason=Woken")
        return [one["involvedObject"]["name"] for one in events]


@pytest.fixture
def services(service_network: ServiceNetwork, tmp_path: Path) -> LiveServices:
    install(service_network.plane)
    return LiveServices(service_network, tmp_path)


@pytest.fixture
def activators(service_network: ServiceNetwork) -> Iterator[Callable[..., ActivatorProcess]]:
    """`activators(*flags, through=...)`: one more activator, ready; gone after the test.

    It reaches the API server through a proxy where one is given.
    """
    install(service_network.plane)
    started: list[ActivatorProcess] = []

    def start(*flags: str, through: Proxy | None = None) -> ActivatorProcess:
        name = f"activator-{secrets.token_hex(3)}"
        made = ActivatorProcess(service_network.plane, service_network.new_addresses(), *flags, name=name)
        if through is not None:
            made.reach = through.access
        started.append(made)
        return made.start()

    yield start
    for one in started:
        one.stop()


def accepts(address: str) -> bool:
    """Whether the Service accepts a connection."""
    try:
        socket.create_connection((address, 80), timeout=PATIENCE).close()
    except OSError:
        return False
    return True


def answers(address: str) -> bool:
    """Whether a pod answers before the connection is reset."""
    try:
        return ask(address).startswith("web-")
    except ConnectionResetError:
        return False


def ask(address: str, line: bytes = b"hello") -> str:
    """What the Service answers to a line; its words begin with the name of the pod."""
    with socket.create_connection((address, 80), timeout=PATIENCE) as client:
        client.sendall(line + b"\n")
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answer:
            return answer.read().decode()


IDLED_AT = "idling.kubernetes.io/idled-at"


def service_of(services: LiveServices, name: str = "web") -> dict[str, str]:
    """The annotations of a Service."""
    found = services.api.get(f"/api/v1/namespaces/{services.namespace}/services/{name}")
    annotations: dict[str, str] = found["metadata"].get("annotations", {})
    return annotations


def run(services: LiveServices, *more: str) -> Any:
    folder = str(services.folder.path)
    return services.folder.call("apply", "policies", "--auto-approve", "--quiet", "--credentials-dir", folder, *more)


def is_consistent(services: LiveServices) -> bool:
    """Whether it does not stand at zero without a mark."""
    return services.replicas("web") > 0 or IDLED_AT in service_of(services, "web")
