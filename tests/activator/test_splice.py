"""Two sockets joined: every byte arrives, in both directions, and ends and resets are those of the other side."""

from __future__ import annotations

import asyncio
import hashlib
import random
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from reconciler.activator.connection_limits import SharedLimit
from reconciler.activator.splice import BUFFER, Splice, proxy_header
from tests.activator.stage import stories

SIZE = 4 << 20
_LIMIT = 60


class Ends:
    """What stands at both ends of a splice, and what was told of it."""

    def __init__(self) -> None:
        self.client, inner_client = socket.socketpair()
        self.pod, inner_pod = socket.socketpair()
        for one in (self.client, self.pod):
            one.setblocking(False)
        self.ended = asyncio.Event()
        self.answers = 0
        self.splice = Splice((inner_client, inner_pod), self.ended.set, self._answered, ("shop", SharedLimit(1 << 30)))

    def _answered(self) -> None:
        self.answers += 1


def play(story: Callable[[Ends], Awaitable[None]]) -> None:
    async def told() -> None:
        ends = Ends()
        try:
            await asyncio.wait_for(story(ends), _LIMIT)
        finally:
            ends.client.close()
            ends.pod.close()

    asyncio.run(told())


played = stories(play)


async def digest_of_all(source: socket.socket) -> tuple[int, str]:
    """How many bytes came until the end, and their digest."""
    loop, digest, count = asyncio.get_running_loop(), hashlib.sha256(), 0
    while piece := await loop.sock_recv(source, 100_000):
        digest.update(piece)
        count += len(piece)
    return count, digest.hexdigest()


async def send_all(target: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(target, data)
    target.shutdown(socket.SHUT_WR)


@played()
async def test_bytes_are_equal_in_both_directions(ends: Ends) -> None:
    up, down = (random.Random(seed).randbytes(SIZE) for seed in (1, 2))
    ends.splice.start()
    _, _, at_pod, at_client = await asyncio.gather(
        send_all(ends.client, up), send_all(ends.pod, down), digest_of_all(ends.pod), digest_of_all(ends.client)
    )
    assert at_pod == (SIZE, hashlib.sha256(up).hexdigest())
    assert at_client == (SIZE, hashlib.sha256(down).hexdigest())
    await ends.ended.wait()
    assert ends.answers == 1


@pytest.mark.parametrize("first", ["client", "pod"])
@played()
async def test_one_side_may_end_before_the_other(ends: Ends, first: str) -> None:
    ends.splice.start()
    early, late = (ends.client, ends.pod) if first == "client" else (ends.pod, ends.client)
    loop = asyncio.get_running_loop()
    await send_all(early, b"question")
    assert await digest_of_all(late) == (8, hashlib.sha256(b"question").hexdigest())
    assert not ends.ended.is_set()
    await loop.sock_sendall(late, b"answer")
    late.shutdown(socket.SHUT_WR)
    assert await digest_of_all(early) == (6, hashlib.sha256(b"answer").hexdigest())
    await ends.ended.wait()


@played()
async def test_a_slow_reader_takes_bounded_memory(ends: Ends) -> None:
    """The sender is stopped by the receiver: what was read and not sent is one buffer at most."""
    ends.splice.start()
    sending = asyncio.ensure_future(send_all(ends.client, bytes(SIZE)))
    # The pod reads nothing: what can be sent is what the kernel's buffers and one of ours hold.
    up = ends.splice._up
    while not up._kept:
        await asyncio.sleep(0)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert len(up._kept) <= BUFFER
    assert up.received < SIZE
    assert not sending.done()
    assert (await digest_of_all(ends.pod))[0] == SIZE
    await sending


@played()
async def test_a_reset_on_one_side_is_one_on_the_other(ends: Ends) -> None:
    ends.splice.start()
    ends.pod.close()
    while not ends.ended.is_set():
        with suppress(OSError):  # a broken pipe or a reset, as the kernel likes
            await asyncio.get_running_loop().sock_sendall(ends.client, bytes(1000))
        await asyncio.sleep(0)
    with pytest.raises(OSError):  # noqa: PT011
        ends.client.send(b"more")


@played()
async def test_what_is_said_first_comes_before_what_the_client_sends(ends: Ends) -> None:
    await asyncio.get_running_loop().sock_sendall(ends.client, b"second")
    ends.client.shutdown(socket.SHUT_WR)
    ends.splice.start(b"first ")
    assert await digest_of_all(ends.pod) == (12, hashlib.sha256(b"first second").hexdigest())


def test_both_sides_notice_a_peer_that_vanished() -> None:
    async def told() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            near = [socket.create_connection(listening.getsockname()) for _ in range(2)]
            far = [listening.accept()[0] for _ in range(2)]
        splice = Splice((near[0], near[1]), lambda: None, lambda: None, ("shop", SharedLimit(1 << 30)))
        splice.start()
        assert all(one.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) for one in near)
        splice.abort()
        for one in far:
            one.close()

    asyncio.run(told())


@pytest.mark.parametrize(
    ("family", "address", "expected"),
    [
        pytest.param(socket.AF_INET, "127.0.0.1", b"\x21\x11\x00\x0c" + b"\x7f\0\0\1" * 2, id="IPv4"),
        pytest.param(socket.AF_INET6, "::1", b"\x21\x21\x00\x24" + (b"\0" * 15 + b"\1") * 2, id="IPv6"),
    ],
)
def test_the_header_of_the_proxy_protocol(family: socket.AddressFamily, address: str, expected: bytes) -> None:
    try:
        listening = socket.create_server((address, 0), family=family)
    except OSError as error:
        pytest.skip(f"{address}: {error}")
    with listening, socket.create_connection((address, listening.getsockname()[1])) as client:
        accepted, _ = listening.accept()
        with accepted:
            header = proxy_header(accepted)
        ports = client.getsockname()[1].to_bytes(2) + listening.getsockname()[1].to_bytes(2)
    assert header == b"\r\n\r\n\x00\r\nQUIT\n" + expected + ports
