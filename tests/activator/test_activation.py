"""One idle Service on loopback: what counts as traffic, what is held and for how long, and when its slices go."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.activator.activation import NO_ENDPOINTS, Activation, ObservedService
from reconciler.activator.activation_context import ActivatorContext, ActivatorMetrics, ActivatorPod
from reconciler.activator.connection_limits import ActivatorSettings
from reconciler.activator.listener import PortsTakenError
from reconciler.activator.objects import EndpointAddress, NamespacedName, ServiceEndpoints
from reconciler.activator.splice import reset
from reconciler.report.metrics import open_metrics_text
from tests.activator.services import IDLE, a_watched_service
from tests.activator.stage import LIMIT, stories, until

NEVER = 3600.0
POD = "web-7b9c-x1"
IDLE_LATER = {**IDLE, "idling.kubernetes.io/idled-at": "2026-11-20T16:00:00Z"}


class Stage:
    """An activation on loopback and what it asks for."""

    def __init__(self, limits: ActivatorSettings, address: str = "127.0.0.1") -> None:
        self.signals = self.accepted = self.refused_backends = 0
        self.metrics = ActivatorMetrics()
        pod = ActivatorPod("reconciler", "activator-0", "uid-0", (address,))
        context = ActivatorContext(pod, limits, self.metrics, self._signal, self._changed, self._is_pods)
        self.range = context.ports
        self.activation = Activation(("shop", "web"), context)
        self.clients: list[socket.socket] = []
        self.servers: list[asyncio.Server] = []

    async def _is_pods(self, _: str, backend: EndpointAddress) -> bool:
        self.refused_backends += backend.pod != POD
        return backend.pod == POD

    def _signal(self, _: NamespacedName) -> None:
        self.signals += 1

    def _changed(self, _: NamespacedName) -> None:
        """What the writer of slices does, at once."""
        activation = self.activation
        had, wanted = bool(activation.published), activation.manifests()
        activation.published = dict(wanted)
        if had and not activation.published:
            activation.withdrawn()

    def observe(self, *, annotations: Any = IDLE, backends: ServiceEndpoints = NO_ENDPOINTS, **more: Any) -> None:
        spec = more.pop("spec", None)
        self.activation.observe(
            ObservedService(a_watched_service(annotations=annotations, spec=spec), backends, **more)
        )

    @property
    def ports(self) -> list[int]:
        """The ports where the traffic of the Service arrives."""
        [one] = self.activation.published.values()
        return [port["port"] for port in one["ports"]]

    async def connect(self, sends: bytes = b"", port: int = 0) -> socket.socket:
        client = socket.socket()
        client.setblocking(False)
        self.clients.append(client)
        before = self.metrics.counters["connections"]
        await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", self.ports[port]))
        if sends:
            await asyncio.get_running_loop().sock_sendall(client, sends)
        await until(lambda: self.metrics.counters["connections"] > before)
        return client

    async def pod(self) -> ServiceEndpoints:
        """A server that answers each connection with what it sent, in capitals; where it is."""

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.accepted += 1
            with suppress(OSError):
                writer.write((await reader.readline()).upper())
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        self.servers.append(server)
        return at(server.sockets[0].getsockname()[1])


def at(port: int) -> ServiceEndpoints:
    names = ("", "http", "web-metrics")
    return ServiceEndpoints({(name, "TCP"): (EndpointAddress("127.0.0.1", port, POD),) for name in names}, {})


async def received(client: socket.socket) -> bytes:
    """All that comes until the end; a reset is an error."""
    found = b""
    while piece := await asyncio.get_running_loop().sock_recv(client, 1000):
        found += piece
    return found


def play(story: Callable[[Stage], Awaitable[None]], **limits: Any) -> None:
    async def told() -> None:
        stage = Stage(
            ActivatorSettings(**{"hold_timeout": NEVER, "silent": NEVER, "ports": range(21_000, 32_000), **limits})
        )
        try:
            await asyncio.wait_for(story(stage), LIMIT)
        finally:
            stage.activation.close()
            stage.activation.end("stopped")
            for client in stage.clients:
                client.close()
            for server in stage.servers:
                server.close()

    asyncio.run(told())


played = stories(play)


@played(hold_timeout=1e9)
async def test_nobody_waits_before_the_first_traffic_however_short_the_node_is_up(stage: Stage) -> None:
    stage.observe()
    assert not stage.activation.has_traffic


@played()
async def test_the_first_byte_is_traffic_and_a_bare_connection_is_none(stage: Stage) -> None:
    stage.observe()
    (await stage.connect()).close()
    await until(lambda: stage.activation.held == 0)
    assert stage.signals == 0
    await stage.connect(b"hello\n")
    await until(lambda: stage.signals == 1)
    await stage.connect(b"hello\n")
    await until(lambda: stage.activation.held == 2)
    assert stage.signals == 1  # one wake is under way


@played(silent=0.01)
async def test_a_connection_that_stays_open_is_traffic_where_the_server_speaks_first(stage: Stage) -> None:
    stage.observe()
    await stage.connect()
    await until(lambda: stage.signals == 1)


@pytest.mark.parametrize(
    ("annotations", "port", "signals"),
    [
        pytest.param({}, 0, 1, id="http"),
        pytest.param({}, 1, 0, id="metrics never"),
        pytest.param({"reconciler/wake-ports": "9090"}, 1, 1, id="but where it is said"),
        pytest.param({"reconciler/wake-ports": "9090"}, 0, 0, id="and then only there"),
    ],
)
@played()
async def test_only_some_ports_wake(stage: Stage, annotations: dict[str, str], port: int, signals: int) -> None:
    spec = {"ports": [{"name": "http", "port": 80}, {"name": "web-metrics", "port": 9090}]}
    stage.observe(annotations={**IDLE, **annotations}, spec=spec)
    client = await stage.connect(b"hello\n", port)
    stage.observe(annotations={**IDLE, **annotations}, spec=spec, backends=await stage.pod())
    await asyncio.get_running_loop().sock_recv(client, 1)
    assert stage.signals == signals


@played()
async def test_a_datagram_is_traffic(stage: Stage) -> None:
    stage.observe(spec={"ports": [{"port": 53, "protocol": "UDP"}]})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"hello", ("127.0.0.1", stage.ports[0]))
        await until(lambda: stage.signals == 1)
    assert stage.metrics.counters["datagrams"] == 1


@played()
async def test_what_is_held_is_joined_with_a_pod_as_soon_as_one_is_ready(stage: Stage) -> None:
    stage.observe()
    clients = [await stage.connect(b"hello %d\n" % number) for number in range(20)]
    await until(lambda: stage.activation.held == 20)
    stage.observe(backends=await stage.pod())
    assert [await received(client) for client in clients] == [b"HELLO %d\n" % number for number in range(20)]
    assert (stage.activation.held, stage.activation.spliced) == (0, 20)
    for client in clients:
        client.shutdown(socket.SHUT_WR)
    await until(lambda: stage.activation.spliced == 0)
    assert "first_byte_seconds_count 20" in open_metrics_text(stage.metrics.families())


@played()
async def test_ready_comes_before_listening_without_a_probe(stage: Stage) -> None:
    """A connect that fails is tried again, and meanwhile the slices stay."""
    stage.observe()
    client = await stage.connect(b"hello\n")
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        nobody = reserved.getsockname()[1]
        stage.observe(backends=at(nobody))
        for _ in range(10):
            await asyncio.sleep(0)
        assert stage.activation.wants_slices
    stage.observe(backends=await stage.pod())
    assert await received(client) == b"HELLO\n"
    assert not stage.activation.wants_slices


@played()
async def test_pods_that_accept_nothing_are_taken_to_answer_after_a_while(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.activator.activation._ANSWERS_AT_LATEST", 0.05)
    stage.observe()
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        stage.observe(backends=at(reserved.getsockname()[1]))
        assert stage.activation.wants_slices
        await until(lambda: not stage.activation.wants_slices)


@played()
async def test_pods_that_are_ready_no_more_are_not_taken_to_answer(stage: Stage) -> None:
    stage.observe()
    backends = await stage.pod()
    stage.observe(backends=backends)
    stage.observe()  # before anybody connected to one
    await asyncio.sleep(0.05)
    assert (stage.accepted, stage.activation.wants_slices) == (0, True)
    stage.observe(backends=backends)
    await until(lambda: not stage.activation.wants_slices)


@played(held_per_service=2)
async def test_the_oldest_connection_gives_way(stage: Stage) -> None:
    stage.observe()
    first, *_ = [await stage.connect(b"hello\n") for _ in range(3)]
    with pytest.raises(ConnectionResetError):
        await received(first)
    assert stage.activation.held == 2
    assert stage.metrics.refused["limit"] == 1


@played(hold_timeout=0.01)
async def test_a_hold_ends_with_a_reset(stage: Stage) -> None:
    stage.observe()
    with pytest.raises(ConnectionResetError):
        await received(await stage.connect(b"hello\n"))
    assert (stage.activation.held, stage.metrics.refused["timeout"]) == (0, 1)


@played()
async def test_a_client_that_resets_is_forgotten(stage: Stage) -> None:
    stage.observe()
    reset(await stage.connect())
    await until(lambda: stage.activation.held == 0)
    assert stage.signals == 0


@played(proxy_protocol=True)
async def test_a_client_that_resets_before_a_pod_is_told_of_it_is_not_one_that_was_refused(stage: Stage) -> None:
    stage.observe()
    client = await stage.connect(b"hello\n")
    await until(lambda: stage.signals == 1)
    reset(client)
    stage.observe(backends=await stage.pod())
    await until(lambda: stage.activation.held == 0)
    assert not stage.metrics.refused.total()


@played()
async def test_where_a_network_policy_may_select_the_pods_nothing_is_spliced(stage: Stage) -> None:
    stage.observe(restricted=True)
    client = await stage.connect(b"hello\n")
    await until(lambda: stage.signals == 1)
    stage.observe(backends=await stage.pod(), restricted=True)
    assert not stage.activation.published
    with pytest.raises(ConnectionResetError):
        await received(client)
    assert stage.metrics.refused["network-policy"] == 1


@played()
async def test_what_is_no_pod_of_the_namespace_is_never_connected_to(stage: Stage) -> None:
    stage.observe()
    client = await stage.connect(b"hello\n")
    there = await stage.pod()
    accepted = stage.accepted
    stranger = ServiceEndpoints({key: (replace(one, pod="of-others"),) for key, (one,) in there.ready.items()}, {})
    stage.observe(backends=stranger)
    await until(lambda: stage.refused_backends >= 10)  # those who wait, and who looks whether pods answer
    assert (stage.accepted, stage.activation.spliced, stage.activation.held) == (accepted, 0, 1)
    assert stage.activation.wants_slices
    stage.observe(backends=there)
    assert await received(client) == b"HELLO\n"


@played()
async def test_where_pods_answer_what_may_not_be_spliced_is_reset_once_it_spoke(stage: Stage) -> None:
    stage.observe(backends=await stage.pod(), restricted=True)  # marked, and not scaled yet
    client = await stage.connect(b"hello\n")
    with pytest.raises(ConnectionResetError):
        await received(client)
    assert (stage.signals, stage.metrics.refused["network-policy"]) == (1, 1)
    assert stage.activation.wants_slices


@played()
async def test_what_is_idle_again_soon_after_it_was_woken_resets_at_once_too(stage: Stage) -> None:
    there = await stage.pod()
    stage.observe(restricted=True)
    stage.observe(annotations={}, backends=there, restricted=True)
    assert not stage.activation.published
    stage.observe(annotations=IDLE_LATER, backends=there, restricted=True)
    client = await stage.connect(b"hello\n")
    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(received(client), 10)  # it is not held


@played(spliced=1)
async def test_beyond_the_limit_of_joined_connections_one_is_reset_when_it_is_its_turn(stage: Stage) -> None:
    stage.observe()
    both = [await stage.connect(b"hello"), await stage.connect(b"hello")]  # no end of line: no answer yet
    stage.observe(backends=await stage.pod())
    await until(lambda: stage.metrics.refused["limit"] == 1)
    await until(lambda: stage.activation.spliced == 1)
    assert stage.activation.held == 0
    ends = []
    for client in both:
        with suppress(OSError):
            await asyncio.get_running_loop().sock_sendall(client, b"\n")
            client.shutdown(socket.SHUT_WR)
            ends.append(await received(client))
    assert ends == [b"HELLO\n"]
    await until(lambda: stage.activation.spliced == 0)


@pytest.mark.parametrize("seconds", [0.0, NEVER])
@played()
async def test_a_mark_that_stays_although_pods_answer_has_slices_only_as_long_as_a_run_may_scale(
    stage: Stage, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reconciler.activator.activation._LEADS_AT_LATEST", seconds)
    stage.observe(backends=await stage.pod())
    await until(lambda: asyncio.get_running_loop().time() > stage.activation._record_changed_at)
    assert stage.activation.wants_slices is bool(seconds)


@played()
async def test_slices_stay_from_the_mark_until_pods_answer_again(stage: Stage) -> None:
    backends = await stage.pod()
    stage.observe(annotations={}, backends=backends)
    assert not stage.activation.wants_slices
    stage.observe(backends=backends)  # marked, and not scaled yet: both are there
    assert stage.activation.wants_slices
    stage.observe()
    assert stage.activation.wants_slices
    stage.observe(annotations={})  # woken, and no pod is ready
    assert stage.activation.wants_slices
    stage.observe(annotations={}, backends=backends)
    await until(lambda: not stage.activation.wants_slices)
    stage.observe(annotations=IDLE_LATER, backends=backends)
    assert stage.activation.wants_slices
    stage.observe(annotations={}, backends=backends)  # woken before a run scaled it
    assert not stage.activation.wants_slices


def test_traffic_of_ipv6() -> None:
    async def story() -> None:
        stage = Stage(ActivatorSettings(ports=range(21_000, 32_000)), "::1")
        try:
            stage.observe(spec={"ipFamilies": ["IPv6"]})
            [made] = stage.activation.published.values()
            assert made["addressType"] == "IPv6"
            _, writer = await asyncio.open_connection("::1", stage.ports[0])
            writer.write(b"hello")
            await until(lambda: stage.signals == 1)
            writer.close()
        finally:
            stage.activation.close()
            stage.activation.end("stopped")

    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError as error:
        pytest.skip(f"::1: {error}")
    asyncio.run(asyncio.wait_for(story(), LIMIT))


@played()
async def test_slices_go_with_the_service(stage: Stage) -> None:
    stage.observe()
    assert stage.activation.published
    stage.activation.observe(ObservedService(None))
    assert not stage.activation.published


@played()
async def test_a_port_that_is_taken_is_passed_over(stage: Stage) -> None:
    stage.observe(spec={"ports": [{"name": "a", "port": 80}]})
    [taken] = stage.ports
    other = Stage(ActivatorSettings(ports=range(taken, taken + 100)))
    try:
        other.observe(spec={"ports": [{"name": "a", "port": 80}]})
        assert taken < other.ports[0] < taken + 100
    finally:
        other.activation.close()


@played()
async def test_where_the_ports_are_too_few_what_has_a_listener_is_handed_over_and_given_up(stage: Stage) -> None:
    two = {"ports": [{"name": "http", "port": 80}, {"name": "web-metrics", "port": 81}]}
    stage.observe(spec={"ports": two["ports"][:1]})
    stage.range._ports = range(0)
    with pytest.raises(PortsTakenError):
        stage.observe(spec=two)
    backends = await stage.pod()
    client = await stage.connect(b"hello\n")
    with pytest.raises(PortsTakenError):
        stage.observe(spec=two, backends=backends)
    assert await received(client) == b"HELLO\n"
    with pytest.raises(PortsTakenError):
        stage.observe(spec=two, backends=backends, annotations={})
    assert not stage.activation.wants_slices
