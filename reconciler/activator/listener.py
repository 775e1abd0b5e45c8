"""Where the traffic of an idle Service arrives: a port of the Pod for each port of the Service."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Collection, Iterable

from reconciler.activator.objects import WatchedPort
from reconciler.errors import ReconcilerError

_BACKLOG = 4096
_AT_ONCE = 256
"""Connections or datagrams that are taken before others get their turn."""

_LARGEST_DATAGRAM = 65_536
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS = 0.2


class PortsTakenError(ReconcilerError):
    """No port of the range is free."""


class PortRange:
    """The ports that listeners may have; each is tried again only after all others.

    Where all were taken none is tried before one is given back, so that asking again costs nothing.
    """

    def __init__(self, ports: range) -> None:
        self._ports = ports
        self._next = 0
        self._all_taken: set[str] = set()  # the protocols

    def candidates(self, transport: str) -> Iterable[int]:
        """Yield every port once."""
        if transport in self._all_taken:
            return
        for _ in self._ports:
            port = self._ports[self._next % len(self._ports)]
            self._next += 1
            yield port
        self._all_taken.add(transport)

    def give_back(self) -> None:
        """Note that a port is free again."""
        self._all_taken.clear()


Connected = Callable[[socket.socket, WatchedPort], None]
"""What is called with a new connection."""

Datagrams = Callable[[int, WatchedPort], None]
"""What is called for a batch of datagrams, with their number."""


class Listener:
    """Listens for one port of a Service until it is closed."""

    def __init__(
        self,
        port: WatchedPort,
        number: int,
        sockets: Collection[socket.socket],
        connected: Connected,
        datagrams: Datagrams,
    ) -> None:
        self.port = port
        self.number = number
        self._sockets = sockets
        self._connected = connected
        self._datagrams = datagrams
        loop = asyncio.get_running_loop()
        for listening in sockets:
            loop.add_reader(listening, self._receive if port.transport == "UDP" else self._accept, listening)

    def close(self) -> None:
        """Accept nothing more; what nobody took yet is reset by the kernel."""
        for listening in self._sockets:
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                connection, _ = listening.accept()
            except OSError as error:
                if error.errno in _NO_DESCRIPTORS:
                    self._pause(listening)
                return
            connection.setblocking(False)
            self._connected(connection, self.port)

    def _pause(self, listening: socket.socket) -> None:
        """Let new connections wait in the backlog for a while: without a descriptor each look would find them again."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listening)

        def go_on() -> None:
            if listening.fileno() >= 0:
                loop.add_reader(listening, self._accept, listening)

        loop.call_later(_PAUSE_SECONDS, go_on)

    def _receive(self, bound: socket.socket) -> None:
        count = 0
        for _ in range(_AT_ONCE):
            try:
                bound.recv(_LARGEST_DATAGRAM)
            except OSError:
                break
            count += 1
        if count:
            self._datagrams(count, self.port)


def open_listener(
    port: WatchedPort, addresses: Collection[str], ports: PortRange, connected: Connected, datagrams: Datagrams
) -> Listener:
    """Return a listener for `port` on the first port of the range that is free on all `addresses`.

    Raises:
        PortsTakenError: none is.
        OSError: no descriptor, or no memory, is left.
    """
    for number in ports.candidates(port.transport):
        sockets = _bound(port, addresses, number)
        if sockets is not None:
            return Listener(port, number, sockets, connected, datagrams)
    raise PortsTakenError(f"port {port.port}: no port of --port-range is free, expected one; widen the range")


def _bound(port: WatchedPort, addresses: Collection[str], number: int) -> list[socket.socket] | None:
    """Return sockets that listen on `number` of all `addresses`, None where one is taken."""
    sockets: list[socket.socket] = []
    kind = socket.SOCK_DGRAM if port.transport == "UDP" else socket.SOCK_STREAM
    for address in addresses:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            made = socket.socket(family, kind | socket.SOCK_NONBLOCK)
            sockets.append(made)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if kind == socket.SOCK_STREAM:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.bind((address, number))
            if kind == socket.SOCK_STREAM:
                made.listen(_BACKLOG)
        except OSError as error:
            for opened in sockets:
                opened.close()
            if error.errno in _NO_DESCRIPTORS:
                raise  # another port would not help
            return None
    return sockets
