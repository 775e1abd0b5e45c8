"""What one activator may have: how many connections it holds and splices, how long, and which namespace gives way; and
the ports that it listens on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Generic, TypeVar

from msgspec import Struct

K = TypeVar("K")


class ActivatorSettings(Struct, frozen=True):
    """What an activator may have, and how it treats connections. Times are seconds.

    `held` and `held_per_service` count connections that wait for a pod, `spliced` those that are spliced with one,
    `listeners` ports that are listened on, `kept` bytes that a slow receiver has not taken yet. Each is for all
    namespaces together, but `held_per_service`; beyond it the namespace with the most gives way.

    `silent` is how long an open connection on which nothing came yet is before it counts as traffic. `grace` is how
    long connections have after SIGTERM. `proxy_protocol`: pods are told who the client is. `never_splices`: no
    connection is spliced with a pod.
    """

    held: int = 10_000
    held_per_service: int = 100
    spliced: int = 10_000
    listeners: int = 10_000
    kept: int = 256 << 20
    hold_timeout: float = 60.0
    silent: float = 2.0
    ports: range = range(20_000, 30_000)
    grace: float = 30.0
    proxy_protocol: bool = False
    never_splices: bool = False


class SharedLimit(Generic[K]):
    """`most` units for all namespaces together; each belongs to a holder, such as a connection, of one of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._holders: dict[str, dict[K, int]] = {}  # by namespace, the oldest first, with their units
        self._sums: Counter[str] = Counter()
        self._taken = 0
        self._greatest: str | None = None  # the namespace with the most, None where it is to be looked for

    def __len__(self) -> int:
        """Return how many units are taken."""
        return self._taken

    def take(self, namespace: str, holder: K, units: int = 1) -> None:
        """Let `holder` have `units`, in place of those it had."""
        inside = self._holders.setdefault(namespace, {})
        more = units - inside.get(holder, 0)
        inside[holder] = units
        self._add(namespace, more)

    def give_back(self, namespace: str, holder: K) -> None:
        """Take from `holder` what it had; nothing happens where that is nothing."""
        inside = self._holders.get(namespace, {})
        units = inside.pop(holder, 0)
        if units:
            self._add(namespace, -units)
        if not inside:
            self._holders.pop(namespace, None)
            self._sums.pop(namespace, None)

    def has_room(self, units: int = 1) -> bool:
        """Return whether so many `units` are free."""
        return self._taken + units <= self._most

    def is_fair(self, namespace: str) -> bool:
        """Return whether a namespace has less than it would have if all that have any had the same."""
        return self._sums[namespace] * max(1, len(self._holders)) < self._most

    def holder_to_evict(self, namespace: str, units: int = 0) -> K | None:
        """Return whom `namespace` may evict: of the namespace with the most its greatest holder, of equal ones the
        oldest. None: with `units` more, `namespace` has as much as any.
        """
        if self._greatest is None and self._sums:
            self._greatest = max(self._sums, key=self._sums.__getitem__)
        greatest = self._greatest
        if greatest is None or self._sums[greatest] <= self._sums[namespace] + units:
            return None
        return self.greatest_of(greatest)

    def greatest_of(self, namespace: str) -> K | None:
        """Return the greatest holder of a namespace, of equal ones the oldest; None where there is none."""
        inside = self._holders.get(namespace)
        if not inside:
            return None
        if self._sums[namespace] == len(inside):  # all have one: nothing is to be compared
            return next(iter(inside))
        return max(inside, key=inside.__getitem__)

    def _add(self, namespace: str, units: int) -> None:
        self._sums[namespace] += units
        self._taken += units
        self._greatest = None


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
