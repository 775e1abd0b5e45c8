"""Where the traffic of an idle Service arrives: a port of the Pod for each port of the Service, within what its
namespace may have of all.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from reconciler.activator.activation_context import ActivatorContext
from reconciler.activator.connection_limits import PortRange
from reconciler.activator.objects import NamespacedName, WatchedPort
from reconciler.errors import ReconcilerError

_BACKLOG = 4096
_AT_ONCE = 256
"""Connections or datagrams that are taken before others get their turn."""

_LARGEST_DATAGRAM = 65_536
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PAUSE_SECONDS = 0.2


class PortsTakenError(ReconcilerError):
    """No port of the range is free."""


Connected = Callable[[socket.socket, WatchedPort], None]
"""What is called with a new connection."""

Datagrams = Callable[[int, WatchedPort], None]
"""What is called for a batch of datagrams, with their number."""


@dataclass(eq=False)
class Listener:
    """Listens for one port of a Service until it is closed."""

    port: WatchedPort
    number: int
    sockets: Collection[socket.socket]
    connected: Connected
    datagrams: Datagrams

    def __post_init__(self) -> None:
        receive = self._receive if self.port.transport == "UDP" else self._accept
        for listening in self.sockets:
            asyncio.get_running_loop().add_reader(listening, receive, listening)

    def close(self) -> None:
        """Accept nothing more; what nobody took yet is reset by the kernel."""
        for listening in self.sockets:
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
            self.connected(connection, self.port)

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
            self.datagrams(count, self.port)


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


ListenedPorts = tuple[tuple[WatchedPort, int], ...]
"""Ports of a Service, each with that of ours where its traffic arrives."""


@dataclass(eq=False)
class ServiceListeners:
    """Those of the Service `name`; `ports` are the ones that it listens for. `connected` and `datagrams` get what
    arrives.
    """

    name: NamespacedName
    context: ActivatorContext
    connected: Connected
    datagrams: Datagrams

    def __post_init__(self) -> None:
        self.ports: ListenedPorts = ()
        self._open: list[Listener] = []

    def listen(self, ports: Collection[WatchedPort]) -> None:
        """Have a listener for each of `ports`, and no other one.

        Raises:
            PortsTakenError, OSError: there is none for some of them; those that there are listeners for keep them.
        """
        kept = [listener for listener in self._open if listener.port in ports]
        self._keep(kept)
        known = [listener.port for listener in kept]
        missing = [port for port in ports if port not in known]
        self._make_room(len(missing))
        context, opened = self.context, list[Listener]()
        try:
            for port in missing:
                opened.append(open_listener(port, context.pod.addresses, context.ports, self.connected, self.datagrams))
        finally:
            self._open = [*kept, *opened]
            self._keep(self._open if len(opened) == len(missing) else kept)

    def close(self) -> None:
        """Have no listener any more."""
        self._keep([])

    def _make_room(self, count: int) -> None:
        """Close the listeners of Services in the namespaces with the most of them, until `count` more are free.

        Raises:
            PortsTakenError: the namespace of this one would then have the most.
        """
        listeners, namespace = self.context.listeners, self.name[0]
        while not listeners.has_room(count):
            other = listeners.holder_to_evict(namespace, count)
            if other is None:
                raise PortsTakenError(
                    f"its ports are {count} more than the share of its namespace in --port-range, "
                    "expected free ones; widen the range"
                )
            other.close()
            self.context.changed(other.name)

    def _keep(self, kept: list[Listener]) -> None:
        """Close all listeners but `kept`."""
        for listener in [listener for listener in self._open if listener not in kept]:
            listener.close()
            self.context.ports.give_back()
        self._open, self.ports = kept, tuple((listener.port, listener.number) for listener in kept)
        if kept:
            self.context.listeners.take(self.name[0], self, len(kept))
        else:
            self.context.listeners.give_back(self.name[0], self)
