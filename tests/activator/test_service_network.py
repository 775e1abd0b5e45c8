"""The whole way on a real kube-proxy: what is idle answers its clients, and is woken by them once."""

from __future__ import annotations

import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.activator.in_cluster import ActivatorProcess, our_slices
from tests.activator.live_services import PATIENCE, LiveServices, accepts, ask
from tests.real.cluster import wait_until

OUTAGE_PATIENCE = 900
"""The same while an API server ends, is away and starts again: all that may take its time on a busy machine."""


def reply(address: str, line: bytes, patience: float = PATIENCE) -> str:
    """What the Service answers to a line from a client that does not say that it has sent all.

    Of one that did, conntrack knows no more after a minute, unless kube-proxy may set that time.
    """
    with socket.create_connection((address, 80), timeout=patience) as client, client.makefile("rb") as answer:
        client.sendall(line + b"\n")
        return answer.readline().decode()


def test_the_first_connection_to_an_idle_service_is_answered_by_a_pod(services: LiveServices, activators) -> None:
    activator = activators()
    address = services.open("web")
    services.idle("web")
    said = ask(address)
    assert said.startswith("web-")
    assert said.endswith(" hello\n")
    assert services.replicas("web") == 1
    assert (services.need_pods(), services.woken()) == (["web"], ["web"])
    service = services.api.get(f"/api/v1/namespaces/{services.namespace}/services/web")
    assert "idling.kubernetes.io/idled-at" not in service["metadata"]["annotations"]
    wait_until(lambda: not our_slices(services.api, services.namespace), "the slices to go")
    assert ask(address).startswith("web-")
    assert activator.metric("woken_total") == 1


def test_a_datagram_wakes_and_later_ones_are_answered(services: LiveServices, activators) -> None:
    activators()
    address = services.open("web")
    services.idle("web")
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
    assert services.woken() == ["web"]


@pytest.mark.soak
@pytest.mark.parametrize("families", [("IPv6",), ("IPv4", "IPv6")], ids=" and ".join)
def test_a_service_with_ipv6_is_held_and_woken(services: LiveServices, activators, families: tuple[str, ...]) -> None:
    activators()
    address = services.open("web", families)
    services.idle("web")
    wait_until(lambda: families_of(services) == sorted(families), "a slice for each of its families")
    wait_until(lambda: accepts(address), "kube-proxy to know it")
    assert ask(address).startswith("web-")
    wait_until(lambda: not our_slices(services.api, services.namespace), "the slices to go")
    assert ask(address).startswith("web-")
    assert services.woken() == ["web"]


def families_of(services: LiveServices) -> list[str]:
    """The address families of the slices that activators have."""
    return sorted(one["addressType"] for one in our_slices(services.api, services.namespace))


@pytest.mark.soak
def test_two_replicas_share_the_connections_and_wake_once(services: LiveServices, activators) -> None:
    both = [activators("--held-per-service", "300") for _ in range(2)]
    address = services.open("web")
    services.idle("web")
    wait_until(lambda: len(our_slices(services.api, services.namespace)) == 2, "slices of both")
    with ThreadPoolExecutor(200) as clients:
        answers = list(clients.map(lambda number: ask(address, b"%d" % number), range(200)))
    assert [one.split()[1] for one in answers] == [str(number) for number in range(200)]
    assert (services.need_pods(), services.woken()) == (["web"], ["web"])
    assert sum(one.metric("connections_total") for one in both) >= 200


@pytest.mark.soak
def test_slices_of_an_activator_that_was_killed_go_and_the_other_one_holds(services: LiveServices, activators) -> None:
    killed, other = activators(), activators()
    address = services.open("web")
    services.idle("web")
    wait_until(lambda: len(our_slices(services.api, services.namespace)) == 2, "slices of both")
    killed.process.stop()
    wait_until(lambda: slices_of(services) == [other.uid], "only the slices of the other one")
    wait_until(lambda: all(accepts(address) for _ in range(20)), "kube-proxy to know it")
    assert ask(address).startswith("web-")
    assert services.woken() == ["web"]


def slices_of(services: LiveServices) -> list[str]:
    """The uids of the activators that have slices."""
    found = our_slices(services.api, services.namespace)
    return sorted(one["metadata"]["labels"]["reconciler/activator-pod"] for one in found)


@pytest.mark.soak
def test_a_process_of_the_same_pod_deletes_what_the_former_one_left(services: LiveServices, activators) -> None:
    first = activators()
    services.open("web")
    services.idle("web")
    before = our_slices(services.api, services.namespace)
    first.process.stop()
    first.start()
    wait_until(lambda: our_slices(services.api, services.namespace) not in ([], before), "slices of its own")
    [one] = our_slices(services.api, services.namespace)
    assert one["metadata"]["uid"] != before[0]["metadata"]["uid"]
    address = services.network.cluster_ip(services.namespace, "web")
    wait_until(lambda: accepts(address), "kube-proxy to know it")
    assert ask(services.network.cluster_ip(services.namespace, "web")).startswith("web-")


@pytest.mark.soak
def test_sigterm_withdraws_the_slices_and_lets_spliced_connections_end(services: LiveServices, activators) -> None:
    activator = activators("--grace", "60")
    address = services.open("web")
    services.open("other")
    services.idle("web", "other")
    with socket.create_connection((address, 80), timeout=PATIENCE) as client:
        client.sendall(b"echo\n")
        wait_until(lambda: activator.metric("spliced") == 1, "the connection to be joined")
        activator.process.send(signal.SIGTERM)
        wait_until(lambda: not our_slices(services.api, services.namespace), "the slices to go")
        wait_until(lambda: not leases(services, activator), "the Lease to go")
        client.sendall(b"still there")
        client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as answer:
            assert answer.read() == b"still there"
    assert activator.process.ends_with() == 0
    assert services.woken() == ["web"]


def leases(services: LiveServices, activator: ActivatorProcess) -> list[str]:
    """The names of the Leases of an activator."""
    labels = f"reconciler/activator-pod={activator.uid}"
    found = services.api.items("/apis/coordination.k8s.io/v1/namespaces/reconciler/leases", labelSelector=labels)
    return [one["metadata"]["name"] for one in found]


@pytest.mark.soak
@pytest.mark.parametrize(
    "seconds", [pytest.param(10, id="a short one"), pytest.param(75, id="longer than a node may be silent")]
)
def test_an_outage_of_the_api_server_delays_the_wake_and_loses_nothing(
    services: LiveServices, activators, seconds: float
) -> None:
    activator = activators("--hold-timeout", str(OUTAGE_PATIENCE))
    address = services.open("web")
    services.idle("web")
    services.network.plane.stop_api_server()
    with ThreadPoolExecutor(20) as clients:
        answers = [clients.submit(reply, address, b"%d" % number, OUTAGE_PATIENCE) for number in range(20)]
        wait_until(lambda: activator.metric("wake_failures_total") >= 1, "an attempt that failed", 120)
        time.sleep(seconds)
        assert activator.metric("held") == 20
        services.network.plane.start_api_server()
        assert [one.result().split()[1] for one in answers] == [str(number) for number in range(20)]
    assert services.woken() == ["web"]
