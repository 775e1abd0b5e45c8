"""The sockets of a client and a pod, spliced."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from reconciler.activator.connection_limits import SharedLimit

_CONNECT_SECONDS = 2.0


async def connected(address: tuple[str, int]) -> socket.socket | None:
    """Return a connection to `address`, None where nobody accepts it: "ready" may come before listening."""
    try:
        pod = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
    except OSError:  # no descriptor is left, or the family is not there
        return None
    pod.setblocking(False)
    try:
        await asyncio.wait_for(asyncio.get_running_loop().sock_connect(pod, address), _CONNECT_SECONDS)
    except (OSError, TimeoutError, asyncio.CancelledError) as error:
        with suppress(OSError):
            pod.close()
        if isinstance(error, asyncio.CancelledError):
            raise
        return None
    return pod


BUFFER = 256 * 1024
"""Bytes read at once, and at most kept for each direction of a connection whose receiver is slow."""

SMALL_PIECE = 4 * 1024
"""The same where so much is kept already that nobody, or only a namespace with less than others, gets more."""

_SPLICED_RECEIVE_BUFFER = 4 << 20
_WOULD_BLOCK = (BlockingIOError, InterruptedError)

_shared = bytearray(BUFFER)
"""What is read into: everything runs in one thread, and what cannot be sent at once is copied."""


def reset(connection: socket.socket) -> None:
    """Close `connection` with a reset, so that its peer does not take it for the end of an answer."""
    with suppress(OSError):  # its peer was faster
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@dataclass(eq=False)
class _Direction:
    """One half of a splice: reads from `source` only what `target` has taken."""

    splice: Splice
    source: socket.socket
    target: socket.socket
    is_over = False
    received = 0
    _kept = memoryview(b"")

    def start(self, first: bytes) -> None:
        self._kept = memoryview(first)
        if first:
            self.splice.loop.add_writer(self.target, self._write)
        else:
            self.splice.loop.add_reader(self.source, self._read)

    def _read(self) -> None:
        try:
            count = self.source.recv_into(_shared, self.splice.piece())
        except _WOULD_BLOCK:
            return
        except OSError:
            self.splice.abort()
            return
        if count and not self.received:
            self.splice.began(self)
        self.received += count
        if not count:
            self.splice.loop.remove_reader(self.source)
            self._end()
            return
        sent = self._sent(memoryview(_shared)[:count])
        if 0 <= sent < count:
            self._kept = memoryview(bytes(_shared[sent:count]))
            self.splice.keeps(self, count - sent)
            self.splice.loop.remove_reader(self.source)
            self.splice.loop.add_writer(self.target, self._write)

    def _write(self) -> None:
        sent = self._sent(self._kept)
        if sent < 0:
            return
        self._kept = self._kept[sent:]
        if not self._kept:
            self.splice.keeps(self, 0)
            self.splice.loop.remove_writer(self.target)
            self.splice.loop.add_reader(self.source, self._read)

    def _sent(self, data: memoryview) -> int:
        """Send what goes at once; return how many bytes that were, -1 where the connection is over."""
        try:
            return self.target.send(data)
        except _WOULD_BLOCK:
            return 0
        except OSError:
            self.splice.abort()
            return -1

    def _end(self) -> None:
        """Hand on that no more comes; the other direction goes on."""
        self.is_over = True
        try:
            self.target.shutdown(socket.SHUT_WR)
        except OSError:
            self.splice.abort()
            return
        self.splice.half_ended()


@dataclass(eq=False)
class Splice:
    """The connections of a client and a pod, proxied until both have ended; a reset on one side is one on the other.

    `sockets` are those of the client and of the pod. `ended` is called once when both are closed, `answered` when the
    pod sends its first byte. `share`: the namespace, and what is kept for slow receivers of all.
    """

    sockets: tuple[socket.socket, socket.socket]
    ended: Callable[[], None]
    answered: Callable[[], None]
    share: tuple[str, SharedLimit[object]]

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._is_over = False
        client, pod = self.sockets
        self._up = _Direction(self, client, pod)
        self._down = _Direction(self, pod, client)

    def start(self, first: bytes = b"") -> None:
        """Begin; the pod gets `first` before what the client sends."""
        for connection in self.sockets:
            connection.setblocking(False)
            if connection.family in (socket.AF_INET, socket.AF_INET6):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)  # a peer that vanished is noticed
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # While it was held its receive buffer was small.
        self.sockets[0].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SPLICED_RECEIVE_BUFFER)
        self._up.start(first)
        self._down.start(b"")

    def began(self, direction: object) -> None:
        if direction is self._down:
            self.answered()

    def piece(self) -> int:
        """Return how many bytes may be read at once."""
        namespace, kept = self.share
        return BUFFER if kept.has_room(BUFFER) or kept.is_fair(namespace) else SMALL_PIECE

    def keeps(self, direction: object, count: int) -> None:
        """Note how many bytes one half keeps."""
        namespace, kept = self.share
        if count:
            kept.take(namespace, direction, count)
        else:
            kept.give_back(namespace, direction)

    def half_ended(self) -> None:
        if self._up.is_over and self._down.is_over:
            self._close(lambda connection: connection.close())

    def abort(self) -> None:
        """End it with a reset on both sides."""
        self._close(reset)

    def _close(self, close: Callable[[socket.socket], None]) -> None:
        if self._is_over:
            return
        self._is_over = True
        for direction in (self._up, self._down):
            self.keeps(direction, 0)
        for connection in self.sockets:
            self.loop.remove_reader(connection)
            self.loop.remove_writer(connection)
            close(connection)
        self.ended()


_SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"


def proxy_header(client: socket.socket) -> bytes:
    """Return the header of the PROXY protocol, version 2, that says to a pod who the client is.

    Source: haproxy doc/proxy-protocol.txt, 2.2.
    """
    source, target = client.getpeername(), client.getsockname()
    version = 6 if client.family == socket.AF_INET6 else 4
    addresses = b"".join(ipaddress.ip_address(address[0].partition("%")[0]).packed for address in (source, target))
    ports = struct.pack("!HH", source[1], target[1])
    family = 0x21 if version == 6 else 0x11
    return _SIGNATURE + struct.pack("!BBH", 0x21, family, len(addresses) + 4) + addresses + ports
