"""An activator connects to pods of the Service's own namespace, at their own addresses, and to nothing else."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reconciler.activator.pod_addresses
from reconciler.activator.objects import EndpointAddress
from reconciler.activator.pod_addresses import PodAddresses
from reconciler.errors import ForbiddenError, NotFoundError
from reconciler.model import SERVICE_LABEL
from tests.activator.idle_services import idle_services
from tests.activator.in_cluster import ActivatorProcess, a_pod, our_slices, plane_with_addresses
from tests.activator.services import encoded
from tests.backends.servers import SocketServer
from tests.real.api import Api
from tests.real.cluster import create, empty, wait_until
from tests.real.control_plane import ControlPlane
from tests.real.objects import a_namespace, an_object

ACTIVATOR, NODE, POD, OTHER_POD = "198.18.2.200", "198.18.2.201", "198.18.2.202", "198.18.2.203"
SPECIAL = [
    IPv4Network(text)
    for text in ("127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "0.0.0.0/32", "100.100.100.200/32", "168.63.129.16/32")
]
SPECIAL_6 = [IPv6Network(text) for text in ("::1/128", "::/128", "fe80::/10", "ff00::/8", "fd00:ec2::254/128")]
CARRIERS = ("::ffff:{}", "::{}", "64:ff9b::{}", "::ffff:0:{}")


class Server:
    """Answers for Pods as an API server does, by (namespace, name): addresses and phase, or an error."""

    def __init__(self, pods: dict[tuple[str, str], Any]) -> None:
        self.pods = pods
        self.asked: Counter[str] = Counter()

    def send(self, request: Any) -> Any:
        self.asked[request.path] += 1
        _, _, _, _, namespace, _, name = request.path.split("/")
        found = self.pods.get((namespace, name), NotFoundError("not found"))
        if isinstance(found, Exception):
            raise found
        addresses, phase = found
        status = {"phase": phase, "podIPs": [{"ip": address} for address in addresses]}
        return SimpleNamespace(body=encoded({"metadata": {"name": name}, "status": status}))


def has(server: Server, *backends: EndpointAddress, failures: list[str] | None = None) -> list[bool]:
    """What is said of `backends` for namespace shop, where all are asked for at once."""

    async def asked() -> list[bool]:
        pods = PodAddresses(cast(Any, server), lambda _, why: None if failures is None else failures.append(why))
        try:
            return list(await asyncio.gather(*(pods.has("shop", one) for one in backends)))
        finally:
            pods.end()

    return asyncio.run(asyncio.wait_for(asked(), 60))


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        pytest.param(EndpointAddress("10.0.0.1", 80, "web"), True, id="its own address"),
        pytest.param(EndpointAddress("fd00::1", 80, "web"), True, id="its other address"),
        pytest.param(EndpointAddress("fd00:0:0::0:1", 80, "web"), True, id="the same, written otherwise"),
        pytest.param(EndpointAddress("10.0.0.9", 80, "web"), False, id="another address"),
        pytest.param(EndpointAddress("10.0.0.1", 80), False, id="no Pod named"),
        pytest.param(EndpointAddress("10.0.0.1", 80, "gone"), False, id="a Pod that is gone"),
        pytest.param(EndpointAddress("10.0.0.2", 80, "of-others"), False, id="a Pod of another namespace"),
        pytest.param(EndpointAddress("10.0.0.3", 80, "done"), False, id="a Pod that ended: its address is free"),
        pytest.param(EndpointAddress("10.0.0.4", 80, "failed"), False, id="of one that failed"),
        pytest.param(EndpointAddress("10.0.0.5", 80, "starts"), True, id="of one that starts"),
        pytest.param(EndpointAddress("10.0.0.6", 80, "refused"), False, id="of a Pod that may not be read"),
        pytest.param(EndpointAddress("web.shop", 80, "web"), False, id="a name"),
        pytest.param(EndpointAddress("127.0.0.1", 80, "local"), False, id="loopback, whatever the Pod says"),
    ],
)
def test_an_address_is_a_pods_as_the_api_server_says(backend: EndpointAddress, expected: bool) -> None:
    server = Server(
        {
            ("shop", "web"): (["10.0.0.1", "fd00::1"], "Running"),
            ("other", "of-others"): (["10.0.0.2"], "Running"),
            ("shop", "done"): (["10.0.0.3"], "Succeeded"),
            ("shop", "failed"): (["10.0.0.4"], "Failed"),
            ("shop", "starts"): (["10.0.0.5"], "Pending"),
            ("shop", "refused"): ForbiddenError("pods: forbidden"),
            ("shop", "local"): (["127.0.0.1"], "Running"),
        }
    )
    failures: list[str] = []
    assert has(server, backend, failures=failures) == [expected]
    assert failures in ([["pods: forbidden"]] if backend.pod == "refused" else [[], [""]])


def test_what_fails_for_each_pod_of_a_namespace_is_told_once() -> None:
    """Each error names its Pod; a refusal of one between the answers of others is no news either."""
    server = Server({("shop", f"web-{number}"): ForbiddenError(f"pods web-{number}: forbidden") for number in range(8)})
    server.pods["shop", "api"] = (["10.0.0.9"], "Running")
    pods = [*(f"web-{number}" for number in range(4)), "api", *(f"web-{number}" for number in range(4, 8))]
    failures: list[str] = []
    has(server, *(EndpointAddress("10.0.0.9", 80, pod) for pod in pods), failures=failures)
    assert len(failures) == 1
    assert failures[0].startswith("pods web-")


def test_what_failed_is_over_once_nothing_failed_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler.activator.pod_addresses, "_FAILING_SECONDS", 0.0)
    server = Server({("shop", "gone"): ForbiddenError("forbidden"), ("shop", "web"): (["10.0.0.1"], "Running")})
    told: list[tuple[str, str]] = []

    async def asked() -> None:
        pods = PodAddresses(cast(Any, server), lambda *both: told.append(both))
        for pod in ("gone", "web"):
            await pods.has("shop", EndpointAddress("10.0.0.1", 80, pod))
        pods.end()

    asyncio.run(asyncio.wait_for(asked(), 60))
    assert told == [("pods of shop", "forbidden"), ("pods of shop", "")]


def test_another_failure_long_after_the_first_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciler.activator.pod_addresses, "_FAILING_SECONDS", 0.0)
    server = Server({("shop", name): ForbiddenError(name) for name in ("first", "second")})
    failures: list[str] = []
    has(server, EndpointAddress("10.0.0.1", 80, "first"), EndpointAddress("10.0.0.1", 80, "second"), failures=failures)
    assert sorted(failures) == ["first", "second"]


@given(st.data())
def test_nobodys_address_is_a_nodes_own_a_clouds_or_one_of_many(data: st.DataObject) -> None:
    """Loopback, link-local, multicast, unspecified and metadata addresses, also those that IPv6 carries inside."""
    four = data.draw(st.sampled_from(SPECIAL).flatmap(lambda net: st.ip_addresses(v=4, network=net)))
    six = data.draw(st.sampled_from(SPECIAL_6).flatmap(lambda net: st.ip_addresses(v=6, network=net)))
    carried = ip_address(data.draw(st.sampled_from(CARRIERS)).format(four))
    for address in (str(four), str(six), str(carried)):
        server = Server({("shop", "web"): ([address], "Running")})
        assert has(server, EndpointAddress(address, 80, "web")) == [False]
        assert not server.asked


def test_many_connections_to_a_pod_are_one_question() -> None:
    server = Server({("shop", "web"): (["10.0.0.1"], "Running")})
    assert has(server, *[EndpointAddress("10.0.0.1", port, "web") for port in range(1, 200)]) == [True] * 199
    assert set(server.asked.values()) == {1}


def test_a_namespace_with_many_questions_that_hang_leaves_answers_to_others() -> None:
    hangs, ended = threading.Event(), []

    class Hanging(Server):
        def send(self, request: Any) -> Any:
            if "/large/" in request.path:
                hangs.wait(60)
            return super().send(request)

    async def asked() -> None:
        pods = PodAddresses(cast(Any, Hanging({("small", "web"): (["10.0.0.1"], "Running")})), lambda *_: None)
        large = [
            asyncio.ensure_future(pods.has("large", EndpointAddress("10.0.0.2", 80, f"pod-{n}"))) for n in range(100)
        ]
        await asyncio.sleep(0)
        ended.append(await pods.has("small", EndpointAddress("10.0.0.1", 80, "web")))
        hangs.set()
        assert await asyncio.gather(*large) == [False] * 100
        pods.end()

    try:
        asyncio.run(asyncio.wait_for(asked(), 60))
    finally:
        hangs.set()
    assert ended == [True]


# On a real API server.


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    addresses = (ACTIVATOR, NODE, POD, OTHER_POD)
    with plane_with_addresses(tmp_path_factory.mktemp("pods"), *addresses) as made:
        create(made.api, [a_namespace("other")])
        a_pod(made, "other", "api-1", [OTHER_POD])
        yield made


def greeting(address: str) -> SocketServer:
    """A server at an address that says hello."""
    return SocketServer(lambda client: client.sendall(b"hello\n"), address=address)


@pytest.fixture
def activator(plane: ControlPlane) -> Iterator[ActivatorProcess]:
    made = ActivatorProcess(plane, [ACTIVATOR], "--hold-timeout", "10", "--grace", "2", name="activator-0")
    yield made.start()
    made.stop()


def endpoints(service: str, address: str, port: int, pod: str | None) -> dict[str, Any]:
    target = {} if pod is None else {"targetRef": {"kind": "Pod", "name": pod}}
    metadata = {
        "labels": {
            "kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        }
    }
    made = {"addresses": [address], "conditions": {"ready": True}, **target}
    family = "IPv6" if ":" in address else "IPv4"
    more = {"addressType": family, "endpoints": [made], "ports": [{"name": "", "port": port}]}
    return an_object("discovery.k8s.io/v1", "EndpointSlice", f"{service}-tenant", metadata, **more)


def port_of(api: Api, namespace: str, service: str) -> int:
    """Where the activator listens for a Service, once it does."""

    def ports() -> list[int]:
        slices = [one for one in our_slices(api, namespace) if one["metadata"]["labels"][SERVICE_LABEL] == service]
        return [one["ports"][0]["port"] for one in slices]

    return wait_until(ports, "a slice")[0]


STRANGERS = {
    "a node": (NODE, None),
    "a node, as if it was a Pod": (NODE, "web-1"),
    "a Pod of another namespace": (OTHER_POD, "api-1"),
    "a Pod of another namespace, as if it was another Pod": (OTHER_POD, "web-1"),
    "a Pod that has the address now of one that ended": (OTHER_POD, "done"),
    "a Pod of another namespace, by a name that is a path": (OTHER_POD, "../../other/pods/api-1"),
}


@pytest.mark.real
def test_what_an_endpointslice_names_that_is_no_pod_of_its_namespace_gets_no_connection(
    plane: ControlPlane, activator: ActivatorProcess
) -> None:
    """All of them at once: each is held until the time for that is over."""
    namespace = f"shop-{secrets.token_hex(3)}"
    services = [f"strange-{number}" for number in range(len(STRANGERS))]
    idle_services(plane, namespace, [*services, "web"], behind=True)
    a_pod(plane, namespace, "web-1", [POD])
    a_pod(plane, namespace, "done", [OTHER_POD], "Succeeded")
    strangers, own = [greeting(address) for address, _ in STRANGERS.values()], greeting(POD)
    ports = [port_of(plane.api, namespace, name) for name in (*services, "web")]
    *clients, client = [socket.create_connection((ACTIVATOR, port), timeout=60) for port in ports]
    for one in (*clients, client):
        one.sendall(b"hello\n")
    slices = [
        endpoints(service, address, stranger.port, pod)
        for service, stranger, (address, pod) in zip(services, strangers, STRANGERS.values(), strict=True)
    ]
    create(plane.api, [*slices, endpoints("web", POD, own.port, "web-1")], namespace)
    assert client.recv(6) == b"hello\n"
    for one, what in zip(clients, STRANGERS, strict=True):
        with pytest.raises(ConnectionResetError):
            print(what, one.recv(1))
    assert dict(zip(STRANGERS, (one.connections for one in strangers), strict=True)) == dict.fromkeys(STRANGERS, 0)
    assert own.connections > 0
    for one in (*strangers, own, *clients, client):
        one.close()
    empty(plane.api, ["Service"], [namespace])
