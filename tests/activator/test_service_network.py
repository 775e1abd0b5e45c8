"""The whole way on a real kube-proxy: what is idle answers its clients, and is woken by them once."""

from __future__ import annotations

import secrets
import signal
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.activator.in_cluster import ActivatorProcess, always_idle, install, our_slices
from tests.real.kubeconfig import write_kubeconfig
from tests.real.objects import a_deployment, a_namespace, an_object
from tests.real.proxy import Proxy
from tests.real.service_network import POD_PORT, ServiceNetwork
from tests.real.worlds import create, replicas_of, wait_for_ready, wait_until
from tests.way.calls import Folder

PATIENCE = 120
"""Seconds that a client waits at most; an answer comes much sooner."""

OUTAGE_PATIENCE = 900
"""The same while an API server ends, is away and starts again: all that may take its time on a busy machine."""


class Town:
    """A namespace of its own on the service network, and the command line on it."""

    def __init__(self, network: ServiceNetwork, folder: Path) -> None:
        self.network = network
        self.api = network.api
        self.namespace = f"town-{secrets.token_hex(3)}"
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
def town(service_network: ServiceNetwork, tmp_path: Path) -> Town:
    install(service_network.plane)
    return Town(service_network, tmp_path)


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


def reply(address: str, line: bytes, patience: float = PATIENCE) -> str:
    """What the Service answers to a line from a client that does not say that it has sent all.

    Of one that did, conntrack knows no more after a minute, unless kube-proxy may set that time.
    """
    with socket.create_connection((address, 80), timeout=patience) as client, client.makefile("rb") as answer:
        client.sendall(line + b"\n")
        return answer.readline().decode()


def test_the_first_connection_to_an_idle_service_is_answered_by_a_pod(town: Town, activators) -> None:
    activator = activators()
    address = town.open("web")
    town.idle("web")
    said = ask(address)
    assert said.startswith("web-")
    assert said.endswith(" hello\n")
    assert town.replicas("web") == 1
    assert (town.need_pods(), town.woken()) == (["web"], ["web"])
    service = town.api.get(f"/api/v1/namespaces/{town.namespace}/services/web")
    assert "idling.kubernetes.io/idled-at" not in service["metadata"]["annotations"]
    wait_until(lambda: not our_slices(town.api, town.namespace), "the slices to go")
    assert ask(address).startswith("web-")
    assert activator.metric("woken_total") == 1


def test_a_datagram_wakes_and_later_ones_are_answered(town: Town, activators) -> None:
    activators()
    address = town.open("web")
    town.idle("web")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1.0)
        answers: list[bytes] = []

        def answered() -> bool:
            client.sendto(b"hello", (address, 80))
            try:
                answers.append(client.recv(100))
            except TimeoutError:
                return False
            return True

        wait_until(answered, "an answer")
    assert answers[0].startswith(b"web-")
    assert town.woken() == ["web"]


@pytest.mark.soak
@pytest.mark.parametrize("families", [("IPv6",), ("IPv4", "IPv6")], ids=" and ".join)
def test_a_service_with_ipv6_is_held_and_woken(town: Town, activators, families: tuple[str, ...]) -> None:
    activators()
    address = town.open("web", families)
    town.idle("web")
    wait_until(lambda: families_of(town) == sorted(families), "a slice for each of its families")
    wait_until(lambda: accepts(address), "kube-proxy to know it")
    assert ask(address).startswith("web-")
    wait_until(lambda: not our_slices(town.api, town.namespace), "the slices to go")
    assert ask(address).startswith("web-")
    assert town.woken() == ["web"]


def families_of(town: Town) -> list[str]:
    """The address families of the slices that activators have."""
    return sorted(one["addressType"] for one in our_slices(town.api, town.namespace))


@pytest.mark.soak
def test_two_replicas_share_the_connections_and_wake_once(town: Town, activators) -> None:
    both = [activators("--held-per-service", "300") for _ in range(2)]
    address = town.open("web")
    town.idle("web")
    wait_until(lambda: len(our_slices(town.api, town.namespace)) == 2, "slices of both")
    with ThreadPoolExecutor(200) as clients:
        answers = list(clients.map(lambda number: ask(address, b"%d" % number), range(200)))
    assert [one.split()[1] for one in answers] == [str(number) for number in range(200)]
    assert (town.need_pods(), town.woken()) == (["web"], ["web"])
    assert sum(one.metric("connections_total") for one in both) >= 200


@pytest.mark.soak
def test_slices_of_an_activator_that_was_killed_go_and_the_other_one_holds(town: Town, activators) -> None:
    killed, other = activators(), activators()
    address = town.open("web")
    town.idle("web")
    wait_until(lambda: len(our_slices(town.api, town.namespace)) == 2, "slices of both")
    killed.process.stop()
    wait_until(lambda: slices_of(town) == [other.uid], "only the slices of the other one")
    wait_until(lambda: all(accepts(address) for _ in range(20)), "kube-proxy to know it")
    assert ask(address).startswith("web-")
    assert town.woken() == ["web"]


def slices_of(town: Town) -> list[str]:
    """The uids of the activators that have slices."""
    found = our_slices(town.api, town.namespace)
    return sorted(one["metadata"]["labels"]["reconciler/activator-pod"] for one in found)


@pytest.mark.soak
def test_a_process_of_the_same_pod_deletes_what_the_former_one_left(town: Town, activators) -> None:
    first = activators()
    town.open("web")
    town.idle("web")
    before = our_slices(town.api, town.namespace)
    first.process.stop()
    first.start()
    wait_until(lambda: our_slices(town.api, town.namespace) not in ([], before), "slices of its own")
    [one] = our_slices(town.api, town.namespace)
    assert one["metadata"]["uid"] != before[0]["metadata"]["uid"]
    address = town.network.cluster_ip(town.namespace, "web")
    wait_until(lambda: accepts(address), "kube-proxy to know it")
    assert ask(town.network.cluster_ip(town.namespace, "web")).startswith("web-")


@pytest.mark.soak
def test_sigterm_withdraws_the_slices_and_lets_spliced_connections_end(town: Town, activators) -> None:
    activator = activators("--grace", "60")
    address = town.open("web")
    town.open("other")
    town.idle("web", "other")
    with socket.create_connection((address, 80), timeout=PATIENCE) as client:
        client.sendall(b"echo\n")
        wait_until(lambda: activator.metric("spliced") == 1, "the connection to be joined")
        activator.process.send(signal.SIGTERM)
        wait_until(lambda: not our_slices(town.api, town.namespace), "the slices to go")
        wait_until(lambda: not leases(town, activator), "the Lease to go")
        client.sendall(b"still there")
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answer:
            assert answer.read() == b"still there"
    assert activator.process.ends_with() == 0
    assert town.woken() == ["web"]


def leases(town: Town, activator: ActivatorProcess) -> list[str]:
    """The names of the Leases of an activator."""
    labels = f"reconciler/activator-pod={activator.uid}"
    found = town.api.items("/apis/coordination.k8s.io/v1/namespaces/reconciler/leases", labelSelector=labels)
    return [one["metadata"]["name"] for one in found]


@pytest.mark.soak
@pytest.mark.parametrize(
    "seconds", [pytest.param(10, id="a short one"), pytest.param(75, id="longer than a node may be silent")]
)
def test_an_outage_of_the_api_server_delays_the_wake_and_loses_nothing(town: Town, activators, seconds: float) -> None:
    activator = activators("--hold-timeout", str(OUTAGE_PATIENCE))
    address = town.open("web")
    town.idle("web")
    town.network.plane.stop_api_server()
    with ThreadPoolExecutor(20) as clients:
        answers = [clients.submit(reply, address, b"%d" % number, OUTAGE_PATIENCE) for number in range(20)]
        wait_until(lambda: activator.metric("wake_failures_total") >= 1, "an attempt that failed", 120)
        time.sleep(seconds)
        assert activator.metric("held") == 20
        town.network.plane.start_api_server()
        assert [one.result().split()[1] for one in answers] == [str(number) for number in range(20)]
    assert town.woken() == ["web"]
