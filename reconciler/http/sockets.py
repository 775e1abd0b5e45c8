"""Sockets whose every step waits for the limit of the exchange at most.

A timeout of a socket counts anew for each piece that comes, so a server that answers byte by byte outlives it. Here
each wait is a short one, and the exchange's own limit is asked in between: no thread is needed that watches.
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from urllib3.util import wait_for_write

from reconciler.http.errors import HttpError, connection_error, step_of
from reconciler.http.resolver import SocketAddress
from reconciler.time_limit import TimeLimit

T = TypeVar("T")

CURRENT: ContextVar[TimeLimit] = ContextVar("limit")
"""Of the exchange that runs in this thread: connections are kept between exchanges, so it is none of theirs."""


_KEEP_ALIVE = {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 30, "TCP_KEEPCNT": 3}
"""Seconds of silence after which the peer is asked whether it is there, between two questions, and how many of them: so
no load balancer forgets a connection that is kept, without a word, and a request does not hang on one that is dead.

Source: kubernetes client-go transport/cache.go, whose dialer has KeepAlive 30 s.
"""


@contextmanager
def within(limit: TimeLimit) -> Iterator[None]:
    """Let every connection wait for `limit` at most, in this thread."""
    token = CURRENT.set(limit)
    try:
        yield
    finally:
        CURRENT.reset(token)


class Socket(socket.socket):
    """Whatever may take time is done in steps of the current limit."""

    def recv(self, *args: Any) -> bytes:
        return _in_steps(self, "no answer in time", lambda: super(Socket, self).recv(*args))

    def recv_into(self, *args: Any) -> int:
        return _in_steps(self, "no answer in time", lambda: super(Socket, self).recv_into(*args))

    def send(self, *args: Any) -> int:
        return _in_steps(self, "the request was not taken in time", lambda: super(Socket, self).send(*args))

    def sendall(self, data: Any, flags: int = 0) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self.send(rest, flags) :]


class TlsContext(ssl.SSLContext):
    """Offers HTTP/1.1 from the start and keeps to that, though urllib3 sets it anew for each connection.

    OpenSSL then frees what was set before, also while another thread begins a handshake with this context: that one
    offers whatever stands in the freed memory, and the server refuses it with the alert decode_error.
    """

    def __init__(self, protocol: int) -> None:  # noqa: ARG002 - __new__ takes it
        super().set_alpn_protocols(["http/1.1"])

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        pass


class TlsSocket(Socket, ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:  # noqa: ARG002 - as the base class has it
        try:
            _in_steps(self, "no TLS handshake in time", super().do_handshake)
        except BaseException:
            self.close()  # the base class does so for errors of the system only
            raise


def _in_steps(opened: socket.socket, words: str, step: Callable[[], T]) -> T:
    """Return what `step` returns, begun again after each short wait; OpenSSL goes on where it was."""
    limit = CURRENT.get()
    while True:
        opened.settimeout(step_of(limit, words))
        try:
            return step()
        except TimeoutError as error:
            if error.errno is not None:  # the system's own, ETIMEDOUT: the connection is lost
                raise


def connected(addresses: list[SocketAddress], limit: TimeLimit) -> socket.socket:
    """Return a socket that is connected to the first of `addresses` that answers; each gets a fair share of the time.

    Raises:
        HttpError: none does.
    """
    failure = HttpError("its host name has no address", passes=True)
    for rest, (family, kind, protocol, _, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
        opened = Socket(family, kind, protocol)
        try:
            _set_options(opened)
            _connect(opened, address, limit, limit if rest == 1 else limit.within(limit.left() / rest))
            return opened
        except OSError as error:
            failure = connection_error(error)
            opened.close()
        except BaseException:
            opened.close()
            raise
    raise failure


def _set_options(opened: socket.socket) -> None:
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEP_ALIVE.items():
        if hasattr(socket, name):  # not every system lets a process choose
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _connect(opened: socket.socket, address: Any, limit: TimeLimit, share: TimeLimit) -> None:
    """Connect within `share` of `limit`."""
    opened.setblocking(False)
    code = opened.connect_ex(address)
    if code == errno.EINPROGRESS:
        if not share.until(lambda seconds: wait_for_write(opened, timeout=seconds)):
            step_of(limit, "no connection in time")
            raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        code = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
    opened.setblocking(True)  # TLS refuses others
