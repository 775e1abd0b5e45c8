"""What namespaces share: one that takes all there is takes it from itself, and from nobody who has less."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from reconciler.activator.activation import Activation
from reconciler.activator.connection_limits import SharedLimit
from reconciler.activator.objects import EndpointAddress
from reconciler.activator.splice import BUFFER, SMALL_PIECE, Splice
from tests.activator.services import a_slice
from tests.activator.stage import Stage, played, until

NAMES = st.sampled_from(["a", "b", "c", "d"])


@given(arrivals=st.lists(NAMES, max_size=80), most=st.integers(1, 12))
def test_a_namespace_with_no_more_than_its_share_loses_nothing_to_others(arrivals: list[str], most: int) -> None:
    """What waits: the oldest of the namespace with the most gives way, its own where it has as much as any."""
    shares: SharedLimit[int] = SharedLimit(most)
    owner: dict[int, str] = {}
    for number, namespace in enumerate(arrivals, start=1):
        before = Counter(owner.values())
        while not shares.has_room() and (other := shares.holder_to_evict(namespace) or shares.greatest_of(namespace)):
            loser = owner.pop(other)
            assert before[loser] == max(before.values())
            assert loser == namespace or before[loser] > most / 4
            assert other == min([*(one for one, name in owner.items() if name == loser), other])
            shares.give_back(loser, other)
        owner[number] = namespace
        shares.take(namespace, number)
        assert len(shares) == len(owner) <= most


@given(
    steps=st.lists(st.tuples(NAMES, st.integers(0, 5), st.integers(0, 9)), max_size=60),
    namespace=NAMES,
    units=st.integers(0, 9),
)
def test_who_gives_way_has_more_also_after_it_and_is_the_greatest(
    steps: list[tuple[str, int, int]], namespace: str, units: int
) -> None:
    shares: SharedLimit[int] = SharedLimit(100)
    known: dict[tuple[str, int], int] = {}
    for name, holder, count in steps:
        if count:
            shares.take(name, holder, count)
            known[name, holder] = count
        else:
            shares.give_back(name, holder)
            known.pop((name, holder), None)
    sums = Counter({name: 0 for name, _ in known})
    for (name, _), count in known.items():
        sums[name] += count
    assert len(shares) == sum(sums.values())
    assert shares.has_room(units) is (sum(sums.values()) + units <= 100)
    found = shares.holder_to_evict(namespace, units)
    greatest = max(sums.values(), default=0)
    if greatest <= sums[namespace] + units:
        assert found is None
    else:
        assert found is not None
        assert any(
            sums[name] == greatest and count == max(each for (other, _), each in known.items() if other == name)
            for (name, holder), count in known.items()
            if holder == found
        )


async def is_pods(_: str, backend: EndpointAddress) -> bool:
    return bool(backend.pod)


async def connect(activation: Activation, count: int) -> list[socket.socket]:
    loop, clients = asyncio.get_running_loop(), []
    for _ in range(count):
        client = socket.socket()
        client.setblocking(False)
        await loop.sock_connect(client, ("127.0.0.1", activation._listeners.ports[0][1]))
        clients.append(client)
    counters = activation._context.metrics.counters
    expected = counters["expected"] = counters["expected"] + count
    await until(lambda: counters["connections"] == expected)
    return clients


async def until_its_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


def close(clients: list[socket.socket]) -> None:
    for client in clients:
        client.close()


@played(held=6, held_per_service=2)
async def test_many_idle_services_of_one_namespace_reset_no_waiting_connection_of_another(stage: Stage) -> None:
    quiet = stage.idle("quiet", "small")
    clients = await connect(quiet, 2)
    for number in range(5):
        clients += await connect(stage.idle(f"loud-{number}", "large"), 2)
    assert (quiet.held, len(stage.one._context.held)) == (2, 6)
    assert stage.one.metrics.refused["limit"] == 6
    close(clients)


@played(spliced=4)
async def test_joined_connections_of_a_namespace_that_has_all_of_them_give_way(stage: Stage) -> None:
    pod = await asyncio.start_server(until_its_end, "127.0.0.1", 0)
    port = pod.sockets[0].getsockname()[1]
    stage.one._context.is_pods = is_pods
    loud, quiet = stage.idle("loud", "large"), stage.idle("quiet", "small")

    def ready(activation: Activation) -> None:
        namespace, name = activation.name
        found = a_slice(f"{name}-1", [("127.0.0.1", True, True)], [{"port": port, "name": ""}])
        found.metadata.namespace = namespace
        found.metadata.labels = {"kubernetes.io/service-name": name}
        stage.one._object_changed(stage.one._slices, (namespace, f"{name}-1"), found)

    clients = await connect(loud, 6)
    ready(loud)
    await until(lambda: loud.spliced == 4)
    await until(lambda: loud.held == 0)
    assert stage.one.metrics.refused["limit"] == 2  # more than there are: of its own namespace the next are reset
    clients += await connect(quiet, 3)
    ready(quiet)
    await until(lambda: quiet.held == 0)
    assert (loud.spliced, quiet.spliced) == (2, 2)
    close(clients)
    await until(lambda: len(stage.one._context.spliced) == 0)
    pod.close()


@played(listeners=40)
async def test_a_service_with_as_many_ports_as_there_are_gives_them_up_for_other_namespaces(stage: Stage) -> None:
    greedy = stage.idle("greedy", "large", 40)
    assert greedy.wants_slices
    await until(lambda: "greedy-activator-activator-0-ipv4" in stage.written.there)
    modest = stage.idle("modest", "small", 3)
    assert (modest.wants_slices, greedy.wants_slices) == (True, False)
    await until(lambda: set(stage.written.there) == {"modest-activator-activator-0-ipv4"})
    for _ in range(3):  # it is tried again all the time, and takes nothing from who has less
        await stage.one._review_activations()
    assert modest.wants_slices
    assert [line for line in stage.told if "large/greedy: it is not held" in line] != []
    assert len([line for line in stage.told if "large/greedy" in line]) == 1
    stage.one._object_changed(stage.one._services, modest.name, None)
    await stage.one._review_activations()
    await until(lambda: set(stage.written.there) == {"greedy-activator-activator-0-ipv4"})


def test_where_slow_receivers_keep_all_there_is_only_their_namespace_reads_in_small_pieces() -> None:
    async def story() -> None:
        kept: SharedLimit[object] = SharedLimit(4 * BUFFER)

        def splice(namespace: str) -> tuple[Splice, list[socket.socket]]:
            (client, near), (pod, far) = socket.socketpair(), socket.socketpair()
            made = Splice((near, far), lambda: None, lambda: None, (namespace, kept))
            client.setblocking(False)
            return made, [client, pod]

        ends: list[socket.socket] = []
        loud = []
        for _ in range(50):
            one, both = splice("large")
            one.start()
            loud.append(one)
            ends += both
            with suppress(BlockingIOError):
                while True:  # the pod reads nothing
                    both[0].send(bytes(1 << 16))
                    await asyncio.sleep(0)
        quiet, both = splice("small")
        assert (loud[0].piece(), quiet.piece()) == (SMALL_PIECE, BUFFER)
        assert len(kept) <= 4 * BUFFER + 50 * SMALL_PIECE
        for one in (*loud, quiet):
            one.abort()
        assert len(kept) == 0
        assert quiet.piece() == BUFFER
        for end in (*ends, *both):
            end.close()

    asyncio.run(asyncio.wait_for(story(), 60))
