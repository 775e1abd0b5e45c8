"""The listeners of one Service, within what its namespace may have of all."""

from __future__ import annotations

from collections.abc import Collection

from reconciler.activator.activation_context import ActivatorContext
from reconciler.activator.listener import Connected, Datagrams, Listener, PortsTakenError, open_listener
from reconciler.activator.objects import NamespacedName, WatchedPort

ListenedPorts = tuple[tuple[WatchedPort, int], ...]
"""Ports of a Service, each with that of ours where its traffic arrives."""


class ServiceListeners:
    """Those of the Service `name`; `ports` are the ones that it listens for. `connected` and `datagrams` get what
    arrives.
    """

    def __init__(
        self, name: NamespacedName, context: ActivatorContext, connected: Connected, datagrams: Datagrams
    ) -> None:
        self.name = name
        self.ports: ListenedPorts = ()
        self._context = context
        self._connected = connected
        self._datagrams = datagrams
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
        context, opened = self._context, list[Listener]()
        try:
            for port in missing:
                opened.append(
                    open_listener(port, context.pod.addresses, context.ports, self._connected, self._datagrams)
                )
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
        listeners, namespace = self._context.listeners, self.name[0]
        while not listeners.has_room(count):
            other = listeners.holder_to_evict(namespace, count)
            if other is None:
                raise PortsTakenError(
                    f"its ports are {count} more than the share of its namespace in --port-range, "
                    "expected free ones; widen the range"
                )
            other.close()
            self._context.changed(other.name)

    def _keep(self, kept: list[Listener]) -> None:
        """Close all listeners but `kept`."""
        for listener in [listener for listener in self._open if listener not in kept]:
            listener.close()
            self._context.ports.give_back()
        self._open, self.ports = kept, tuple((listener.port, listener.number) for listener in kept)
        if kept:
            self._context.listeners.take(self.name[0], self, len(kept))
        else:
            self._context.listeners.give_back(self.name[0], self)
