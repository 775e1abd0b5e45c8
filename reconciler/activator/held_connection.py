"""One accepted connection: it waits for its first byte, then for a pod, then their sockets are spliced."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from contextlib import suppress
from enum import Enum, auto
from typing import Protocol

from reconciler.activator.context import ActivatorContext
from reconciler.activator.objects import EndpointAddress, NamespacedName, WatchedPort
from reconciler.activator.splice import Splice, proxy_header, reset

_HELD_RECEIVE_BUFFER = 16 * 1024
_CONNECT_SECONDS = 2.0
_AGAIN_SECONDS = 0.1


class ConnectionPhase(Enum):
    HELD = auto()
    SPLICED = auto()
    OVER = auto()


class ConnectionOwner(Protocol):
    """Whose connections they are: the activation of a Service."""

    name: NamespacedName

    def spoke(self, connection: HeldConnection) -> None:
        """Called once it counts as traffic."""

    def admit(self, connection: HeldConnection) -> bool:
        """Called before it is spliced with a pod, which is there; return whether it may be."""

    def over(self, connection: HeldConnection) -> None:
        """Called when it is closed."""

    def backends(self, port: WatchedPort) -> Iterable[EndpointAddress]:
        """Return those that may be tried now, in order."""

    async def connect(self, backend: EndpointAddress) -> socket.socket | None:
        """Return a connection to one of them, None where it takes none."""


class HeldConnection:
    """A connection from when it is accepted until it is over. What the client sends stays in the kernel meanwhile."""

    def __init__(
        self, client: socket.socket, port: WatchedPort, owner: ConnectionOwner, context: ActivatorContext
    ) -> None:
        self.phase = ConnectionPhase.HELD
        self.port = port
        self._client = client
        self._owner = owner
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._accepted_at = self._loop.time()
        self._first_byte_at: float | None = None
        self._splice: Splice | None = None
        self._connecting: asyncio.Task[None] | None = None
        # Set after the handshake, so that the connection can still be fast once it is spliced with a pod.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _HELD_RECEIVE_BUFFER)
        settings = context.settings
        self._loop.add_reader(client, self._read_first_byte)
        self._silent = self._loop.call_later(settings.silent, self._signal)
        self._timeout = self._loop.call_later(settings.hold_timeout, self.refuse, "timeout")

    def begin_splice(self) -> None:
        """Begin to connect to a pod, where that has not begun; there is one that is ready."""
        if self.phase is ConnectionPhase.HELD and self._connecting is None:
            self._connecting = self._loop.create_task(self._connect_and_splice())

    def refuse(self, reason: str) -> None:
        """End it with a reset, for `reason`, one of REFUSALS."""
        if self.phase is not ConnectionPhase.OVER:
            self._context.metrics.refused[reason] += 1
        if self.phase is ConnectionPhase.HELD:
            self._stop_waiting()
            reset(self._client)
            self._end()
        elif self._splice is not None:
            self._splice.abort()

    def _read_first_byte(self) -> None:
        """See what came first: a byte is traffic, an end without one is the check of a load balancer."""
        try:
            first = self._client.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        self._loop.remove_reader(self._client)
        if first:
            self._first_byte_at = self._loop.time()
            self._signal()
        else:
            self._close()

    def _close(self) -> None:
        """End it as the client did."""
        self._stop_waiting()
        self._client.close()
        self._end()

    def _signal(self) -> None:
        self._silent.cancel()
        if self.phase is ConnectionPhase.HELD:
            self._owner.spoke(self)

    def _stop_waiting(self) -> None:
        self._loop.remove_reader(self._client)
        self._silent.cancel()
        self._timeout.cancel()
        if self._connecting is not None and self._connecting is not asyncio.current_task(self._loop):
            self._connecting.cancel()

    def _end(self) -> None:
        self.phase = ConnectionPhase.OVER
        self._owner.over(self)

    async def _connect_and_splice(self) -> None:
        """Connect to one pod after another until one accepts; it is over with the hold at the latest."""
        try:
            pod = await self._connected()
        finally:
            self._connecting = None
        if pod is None:
            return  # no pod is ready any more
        try:
            first = proxy_header(self._client) if self._context.settings.proxy_protocol else b""
        except OSError:  # the client has gone meanwhile
            pod.close()
            self._close()
            return
        if not self._owner.admit(self):
            pod.close()
            self.refuse("limit")
            return
        self._stop_waiting()
        self.phase = ConnectionPhase.SPLICED
        share = (self._owner.name[0], self._context.kept)
        self._splice = Splice((self._client, pod), self._end, self._answered, share)
        self._splice.start(first)

    async def _connected(self) -> socket.socket | None:
        while backends := tuple(self._owner.backends(self.port)):
            for backend in backends:
                pod = await self._owner.connect(backend)
                if pod is not None:
                    return pod
            await asyncio.sleep(_AGAIN_SECONDS)
        return None

    def _answered(self) -> None:
        began = self._accepted_at if self._first_byte_at is None else self._first_byte_at
        self._context.metrics.first_byte(self._loop.time() - began)


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
