"""Host names looked up, within a deadline.

`getaddrinfo` cannot be interrupted, and says nothing about how long it takes. So it runs in a few threads of its own,
which nobody waits for: who asked goes on at the deadline, and the process ends without them.
"""

from __future__ import annotations

import socket
import threading
from collections import deque
from concurrent.futures import Future, wait
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

from reconciler.backends.http.deadline import Deadline
from reconciler.backends.http.errors import HttpError

_AT_ONCE = 16

Address = tuple[Any, Any, int, str, Any]
"""As `socket.getaddrinfo` has it: family, type, protocol, canonical name, the socket's address."""


class Resolver:
    """Looks names up in daemon threads, at most 16 at once; who asks for the same name meanwhile shares the answer."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[tuple[str, int]] = deque()
        self._pending: dict[tuple[str, int], Future[list[Address]]] = {}
        self._threads = 0

    def addresses(self, host: str, port: int, deadline: Deadline) -> list[Address]:
        """Return all addresses of `host`, at least one.

        Raises:
            HttpError: it has none, or nobody knows in time.
        """
        try:
            if address_of(host) is not None:
                return _looked_up(host, port)
            found = self._begun((host, port))
            while not wait([found], timeout=deadline.step("its host name was not looked up in time")).done:
                pass
            return found.result()
        except socket.gaierror as error:
            raise HttpError("its host name is not known", passes=True) from error
        except (OSError, ValueError) as error:
            raise HttpError("its host name cannot be looked up", passes=isinstance(error, OSError)) from error

    def _begun(self, name: tuple[str, int]) -> Future[list[Address]]:
        with self._guard:
            if name not in self._pending:
                self._pending[name] = Future()
                self._waiting.append(name)
                if self._threads < _AT_ONCE:
                    self._threads += 1
                    threading.Thread(target=self._work, name="resolver", daemon=True).start()
            return self._pending[name]

    def _work(self) -> None:
        """Look up what waits, until nothing does."""
        while True:
            with self._guard:
                if not self._waiting:
                    self._threads -= 1
                    return
                name = self._waiting.popleft()
            found = self._pending[name]
            try:
                found.set_result(_looked_up(*name))
            except Exception as error:  # noqa: BLE001 - handed on to who waits
                found.set_exception(error)
            with self._guard:
                del self._pending[name]


RESOLVER = Resolver()


def address_of(host: str) -> IPv4Address | IPv6Address | None:
    """Return the address that `host` is, None where it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def _looked_up(host: str, port: int) -> list[Address]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP))
