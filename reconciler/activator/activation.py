"""One Service, from when it is idle until its own pods answer all of its traffic again."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import datetime
from enum import Enum, auto
from math import inf
from typing import Any, Literal

from msgspec import Struct

from reconciler.activator.activation_context import ActivatorContext
from reconciler.activator.listener import ListenedPorts, ServiceListeners
from reconciler.activator.objects import (
    EndpointAddress,
    NamespacedName,
    ServiceEndpoints,
    WatchedPort,
    WatchedService,
    slice_manifests,
)
from reconciler.activator.splice import Splice, connected, proxy_header, reset
from reconciler.activator.wake_ports import is_wake_port


class _Phase(Enum):
    """Where a Service is between idle and awake; what this says of slices and connections."""

    MARKED = auto()
    """It is recorded as idle, and a pod was ready at all times since. Slices for a while; connections are spliced."""
    AT_ZERO = auto()
    """No pod is ready. Slices while it is idle, and for a while after its record went; connections are held."""
    STARTING = auto()
    """A pod is ready, and none accepted a connection yet. Slices as before; connections are spliced."""
    ANSWERING = auto()
    """Its pods answer. No slices; connections that still come are spliced."""


Event = Literal["idled", "woken", "no pod ready", "pod ready", "pod answered"]
"""The first two: its record was written, and is gone."""

MOVES: Mapping[Event, Mapping[_Phase, _Phase]] = {
    "idled": dict.fromkeys(_Phase, _Phase.MARKED),  # before the first pod goes
    "woken": {_Phase.MARKED: _Phase.ANSWERING},
    "no pod ready": dict.fromkeys(_Phase, _Phase.AT_ZERO),
    "pod ready": {_Phase.AT_ZERO: _Phase.STARTING},
    "pod answered": {_Phase.STARTING: _Phase.ANSWERING},  # or enough time passed, or its clients go to it themselves
}
"""From which phase a Service goes to which other one; where none is named it stays."""

_ANSWERS_AT_LATEST = 30.0
"""Seconds after which a Service that is STARTING counts as ANSWERING."""

_LEADS_AT_LATEST = 600.0
"""Seconds after its record was written, or went, in which our slices go: of one that is MARKED, as no run scales it any
more; of another one that is woken, as no pod gets ready.
"""

_LINGERS = 60.0
"""Seconds for which listeners stay after our slices have gone: some nodes' proxies learn of it later."""

_REFUSES_AFTER = 2.0
"""Seconds after our slices have gone in which held connections are reset that may not be spliced."""

_SIGNALS_AGAIN = 10.0

_HELD_RECEIVE_BUFFER = 16 * 1024
_AGAIN_SECONDS = 0.1

NO_ENDPOINTS = ServiceEndpoints({}, {})


class ObservedService(Struct, frozen=True):
    """A Service as it is now; `service` is None where it is gone. `restricted`: clients go to its pods themselves."""

    service: WatchedService | None
    backends: ServiceEndpoints = NO_ENDPOINTS
    restricted: bool = False

    @property
    def idled_at(self) -> datetime | None:
        """When it was idled, by its record; None where it is not idle, or is left alone."""
        service = self.service
        return None if service is None or service.problem or service.record is None else service.record.idled_at

    @property
    def ports(self) -> Collection[WatchedPort]:
        """The ports to be listened on while it is idle."""
        return () if self.service is None or self.service.problem else self.service.ports


class Activation:
    """Accepts the connections of one Service while it is idle."""

    def __init__(self, name: NamespacedName, context: ActivatorContext) -> None:
        self.name = name
        self.published: dict[str, Mapping[str, Any]] = {}
        """Our slices as they were written last, by their names; kept by whoever writes and watches them. What may be
        there counts, with nothing in it where it is not known how: a write that failed may have been done all the same.
        """

        self._context = context
        self._loop = asyncio.get_running_loop()
        self._observed = ObservedService(None)
        self._listeners = ServiceListeners(name, context, self._connected, self._datagrams)
        # The manifests, and the ports that they are made of; None where they are to be made.
        self._made: tuple[ListenedPorts, dict[str, Mapping[str, Any]]] | None = None
        self._held: dict[HeldConnection, None] = {}
        self._spliced: dict[HeldConnection, None] = {}
        self._probing: asyncio.Task[None] | None = None
        self._phase = _Phase.ANSWERING
        self._idled_at: datetime | None = None
        self._record_changed_at = -inf  # when it was written, or went
        self._withdrawn_at: float | None = None
        self._signals_at = 0.0
        self._traffic_at = -inf
        self._turn = itertools.count()

    @property
    def held(self) -> int:
        """Return how many connections wait for a pod."""
        return len(self._held)

    @property
    def spliced(self) -> int:
        """Return how many connections are spliced with a pod."""
        return len(self._spliced)

    @property
    def lacks_listeners(self) -> bool:
        """Return whether connections to it are to be held, and some of its ports have no listener."""
        service = self._observed.service
        return self._is_idle and service is not None and len(self._listeners.ports) < len(service.ports)

    @property
    def is_over(self) -> bool:
        """Return whether nothing is left of it."""
        if self.published or self.wants_slices or self.lacks_listeners or self._held or self._spliced:
            return False
        return self._withdrawn_at is None or self._loop.time() - self._withdrawn_at > _LINGERS

    @property
    def has_traffic(self) -> bool:
        """Return whether somebody waits: a connection, or whoever sent a datagram a short time ago."""
        recently = self._loop.time() - self._traffic_at < self._context.settings.hold_timeout
        return self._is_idle and (self.held > 0 or recently)

    @property
    def wants_slices(self) -> bool:
        """Return whether the cluster's proxies should lead clients here.

        They should from the record on, before the first pod goes: else connections would be refused. And until pods
        answer, which comes a moment after they are ready.
        """
        if self._observed.service is None or not self._listeners.ports:
            return False
        if self._phase in (_Phase.AT_ZERO, _Phase.STARTING) and self._is_idle:
            return True
        return self._phase is not _Phase.ANSWERING and self._loop.time() - self._record_changed_at <= _LEADS_AT_LATEST

    @property
    def _is_idle(self) -> bool:
        return self._idled_at is not None

    @property
    def _is_withdrawn(self) -> bool:
        """Whether its slices have gone, and were not written again since, for a Service that is idle again."""
        return self._withdrawn_at is not None and not self.published

    def manifests(self) -> dict[str, Mapping[str, Any]]:
        """Return the slices that should be there, by their names."""
        service = self._observed.service
        if service is None or not self.wants_slices:
            return {}
        pod, ports = self._context.pod, self._listeners.ports
        if self._made is None or self._made[0] is not ports:
            made = slice_manifests(service, (pod.name, pod.uid), pod.addresses, ports)
            self._made = ports, {manifest["metadata"]["name"]: manifest for manifest in made}
        return self._made[1]

    def observe(self, observed: ObservedService) -> None:
        """Take in how the Service and its pods are now.

        Raises:
            PortsTakenError, OSError: there is no listener for some of its ports.
        """
        before, self._idled_at = self._idled_at, observed.idled_at
        self._observed, self._made = observed, None
        if self._idled_at != before:
            self._move("idled" if self._is_idle else "woken")
            self._record_changed_at = self._loop.time()
            self._signals_at = 0.0
        try:
            if self._is_idle or self._listeners.ports:
                self._listeners.listen(observed.ports)
        finally:  # the ports that there are listeners for are handed over and given up all the same
            self._use_backends(observed.backends)
            self._context.changed(self.name)

    def _move(self, event: Event) -> bool:
        """Go where `event` leads; return whether that is another phase."""
        before, self._phase = self._phase, MOVES[event].get(self._phase, self._phase)
        return self._phase is not before

    def _use_backends(self, backends: ServiceEndpoints) -> None:
        if not backends.are_ready:
            self._move("no pod ready")
            if self._probing is not None:
                self._probing.cancel()
            return
        if self._move("pod ready"):
            self._probing = self._loop.create_task(self._probe())
        if self._observed.restricted:
            self._answer()
            return
        for connection in tuple(self._held):
            connection.begin_splice()

    async def _probe(self) -> None:
        """Note that pods answer once one accepts a connection: then clients can connect too."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWERS_AT_LATEST):
                await self._accepted()
        self._answer()

    async def _accepted(self) -> None:
        """Connect to a pod until one accepts. Where there is no TCP port, "ready" is enough."""
        while self._phase is _Phase.STARTING:
            service = self._observed.service
            ports = [port for port in (service.ports if service else ()) if port.transport == "TCP"]
            if not ports:
                return
            for backend in [backend for port in ports for backend in self._observed.backends.of(port)]:
                pod = await self.connect(backend)
                if pod is not None:
                    pod.close()
                    return
            await asyncio.sleep(0.1)

    async def connect(self, backend: EndpointAddress) -> socket.socket | None:
        """Return a connection to a backend, None where nobody accepts it, or it is no Pod of the namespace."""
        if not await self._context.is_pods(self.name[0], backend):
            await asyncio.sleep(0)  # there may be thousands, and what is known waits for nothing
            return None
        return await connected((backend.address, backend.port))

    def _answer(self) -> None:
        """Note that pods answer, if they are still ready."""
        if self._move("pod answered"):
            self._context.changed(self.name)

    def withdrawn(self) -> None:
        """Note that our slices have gone."""
        self._withdrawn_at = self._loop.time()
        if self._observed.restricted or self._observed.service is None:
            self._loop.call_later(_REFUSES_AFTER, self._refuse_held, "network-policy")

    def close(self) -> None:
        """Accept no more connections."""
        self._listeners.close()

    def end(self, reason: str) -> None:
        """End all connections with a reset."""
        for connection in (*self._held, *self._spliced):
            connection.refuse(reason)

    def _refuse_held(self, reason: str) -> None:
        for connection in tuple(self._held):
            connection.refuse(reason)

    def _connected(self, client: socket.socket, port: WatchedPort) -> None:
        context, namespace = self._context, self.name[0]
        context.metrics.counters["connections"] += 1
        held = context.held
        if len(self._held) >= context.settings.held_per_service:
            next(iter(self._held)).refuse("limit")
        while not held.has_room() and (oldest := held.holder_to_evict(namespace) or held.greatest_of(namespace)):
            oldest.refuse("limit")
        made = HeldConnection(client, port, self, context)
        self._held[made] = None
        held.take(namespace, made)
        if self._phase is _Phase.AT_ZERO:
            return
        if not self._observed.restricted:
            made.begin_splice()
        elif self._is_withdrawn:
            self._loop.call_later(_REFUSES_AFTER, made.refuse, "network-policy")

    def admit(self, connection: HeldConnection) -> bool:
        """Note that a pod answers; return whether a connection may be spliced with one: others are evicted for it."""
        self._answer()
        spliced, namespace = self._context.spliced, self.name[0]
        while not spliced.has_room():
            other = spliced.holder_to_evict(namespace, 1)
            if other is None:
                return False
            other.refuse("limit")
        self._forget(connection)
        self._spliced[connection] = None
        spliced.take(namespace, connection)
        return True

    def over(self, connection: HeldConnection) -> None:
        """Note that a connection is closed."""
        self._forget(connection)
        self._spliced.pop(connection, None)
        self._context.spliced.give_back(self.name[0], connection)

    def _forget(self, connection: HeldConnection) -> None:
        self._held.pop(connection, None)
        self._context.held.give_back(self.name[0], connection)

    def _datagrams(self, count: int, port: WatchedPort) -> None:
        self._context.metrics.counters["datagrams"] += count
        self._traffic(port)

    def spoke(self, connection: HeldConnection) -> None:
        """Take a connection as traffic; where pods answer it, and it may not be spliced, its client tries again."""
        self._traffic(connection.port)
        if self._phase is not _Phase.AT_ZERO and self._observed.restricted and not self._is_withdrawn:
            connection.refuse("network-policy")

    def _traffic(self, port: WatchedPort) -> None:
        service = self._observed.service
        if not self._is_idle or service is None or not is_wake_port(service, port):
            return
        self._traffic_at = now = self._loop.time()
        if now >= self._signals_at:
            self._signals_at = now + _SIGNALS_AGAIN
            self._context.signal(self.name)

    def backends(self, port: WatchedPort) -> tuple[EndpointAddress, ...]:
        """Return the pods in turn, none where a connection may not be spliced, or no pod is ready."""
        if self._phase is _Phase.AT_ZERO or self._observed.restricted:
            return ()
        found = self._observed.backends.of(port)
        start = next(self._turn) % max(1, len(found))
        return (*found[start:], *found[:start])


class HeldConnection:
    """A connection from when it is accepted until it is over: first it is held, and what the client sends stays in the
    kernel meanwhile; then, with a `_splice`, it is spliced.
    """

    def __init__(self, client: socket.socket, port: WatchedPort, owner: Activation, context: ActivatorContext) -> None:
        self.port = port
        self._client = client
        self._owner = owner
        self._context = context
        self._loop = asyncio.get_running_loop()
        self._accepted_at = self._loop.time()
        self._first_byte_at: float | None = None
        self._splice: Splice | None = None
        self._is_over = False
        self._connecting: asyncio.Task[None] | None = None  # until a pod accepts it, or none is ready any more
        # Set after the handshake, so that the connection can still be fast once it is spliced with a pod.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _HELD_RECEIVE_BUFFER)
        settings = context.settings
        self._loop.add_reader(client, self._read_first_byte)
        self._silent = self._loop.call_later(settings.silent, self._signal)
        self._timeout = self._loop.call_later(settings.hold_timeout, self.refuse, "timeout")

    def begin_splice(self) -> None:
        """Begin to connect to a pod, where that has not begun; there is one that is ready, and it is held."""
        if self._connecting is None:
            self._connecting = self._loop.create_task(self._connect_and_splice())

    def refuse(self, reason: str) -> None:
        """End it with a reset, for `reason`, one of REFUSALS."""
        if self._is_over:
            return
        self._context.metrics.refused[reason] += 1
        if self._splice is None:
            self._close(reset)
        else:
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
            self._close(socket.socket.close)  # as the client did

    def _close(self, close: Callable[[socket.socket], None]) -> None:
        """End it while it is held."""
        self._stop_waiting()
        close(self._client)
        self._end()

    def _signal(self) -> None:
        self._silent.cancel()
        self._owner.spoke(self)

    def _stop_waiting(self) -> None:
        self._loop.remove_reader(self._client)
        self._silent.cancel()
        self._timeout.cancel()
        if self._connecting is not None:
            self._connecting.cancel()

    def _end(self) -> None:
        self._is_over = True
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
            self._close(socket.socket.close)
            return
        if not self._owner.admit(self):
            pod.close()
            self.refuse("limit")
            return
        self._stop_waiting()
        share = (self._owner.name[0], self._context.kept)
        self._splice = Splice((self._client, pod), self._end, self._answered, share)
        self._splice.start(first)

    async def _connected(self) -> socket.socket | None:
        while backends := self._owner.backends(self.port):
            for backend in backends:
                pod = await self._owner.connect(backend)
                if pod is not None:
                    return pod
            await asyncio.sleep(_AGAIN_SECONDS)
        return None

    def _answered(self) -> None:
        began = self._accepted_at if self._first_byte_at is None else self._first_byte_at
        self._context.metrics.first_byte(self._loop.time() - began)
