"""The lookup of host names within a time limit.

`getaddrinfo` cannot be interrupted, and says nothing about how long it takes. So each name has a thread of its own,
which nobody waits for: who asked goes on in time, the process ends without it, and a name that hangs delays no other.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from ipaddress import IPv4Address, IPv6Address, ip_address
from math import inf
from typing import Any

from reconciler.http.errors import HttpError, TimedOutError
from reconciler.time_limit import TimeLimit

SocketAddress = tuple[Any, Any, int, str, Any]
"""As `socket.getaddrinfo` has it: family, type, protocol, canonical name, the socket's address."""


class Resolver:
    """Looks each name up in a daemon thread; who asks for the same name meanwhile shares the answer.

    With `most` names under way it takes no further one: for names that anybody may invent by the thousand.
    `check` gets each address that a host has, and raises an `HttpError` for one that may not be connected to.
    """

    def __init__(self, most: float = inf, check: Callable[[str], None] = lambda _: None) -> None:
        self._most = most
        self._check = check
        self._guard = threading.Lock()
        self._pending: dict[tuple[str, int], Future[list[SocketAddress]]] = {}

    def addresses(self, host: str, port: int, limit: TimeLimit) -> list[SocketAddress]:
        """Return all addresses of `host`, at least one.

        Raises:
            HttpError: it has none, or one that may not be, or nobody knows in time, or too many are being looked up.
        """
        found = self._found(host, port, limit)
        for address in found:
            self._check(str(address[4][0]))
        return found

    def _found(self, host: str, port: int, limit: TimeLimit) -> list[SocketAddress]:
        try:
            if address_of(host) is not None:
                return _looked_up(host, port)
            found = self._begun((host, port))
            if not limit.until(lambda seconds: wait([found], seconds).done):
                raise TimedOutError("its host name was not looked up in time")
            return found.result()
        except socket.gaierror as error:
            raise HttpError("its host name is not known", passes=True) from error
        except (OSError, ValueError) as error:
            raise HttpError("its host name cannot be looked up", passes=isinstance(error, OSError)) from error

    def _begun(self, name: tuple[str, int]) -> Future[list[SocketAddress]]:
        with self._guard:
            if name in self._pending:
                return self._pending[name]
            if len(self._pending) >= self._most:
                raise HttpError(f"its host name waits behind {self._most} others that nobody answers for", passes=True)
            future: Future[list[SocketAddress]] = Future()
            try:
                threading.Thread(target=self._look_up, args=(name, future), name="resolver", daemon=True).start()
            except RuntimeError as error:  # the system lets us have no more threads
                raise HttpError("its host name cannot be looked up, no thread is left", passes=True) from error
            self._pending[name] = future
            return future

    def _look_up(self, name: tuple[str, int], future: Future[list[SocketAddress]]) -> None:
        try:
            future.set_result(_looked_up(*name))
        except Exception as error:  # noqa: BLE001 - handed on to who waits
            future.set_exception(error)
        with self._guard:
            del self._pending[name]


RESOLVER = Resolver()
"""For the names that the Fleet and the environment say."""


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that `host` is, None where it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def _looked_up(host: str, port: int) -> list[SocketAddress]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP))
