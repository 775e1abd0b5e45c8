"""Connections whose every step, from the name lookup to the last byte, waits for the limit of the exchange at most.

A timeout of a socket counts anew for each piece that comes, so a server that answers byte by byte outlives it. Here
each wait of a socket is a short one, and the exchange's own limit is asked in between: no thread is needed that
watches. Imported when the first request is sent: urllib3 is slow to load.
"""

from __future__ import annotations

import errno
import http.client
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from ipaddress import ip_address, ip_network
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import LocationParseError
from urllib3.util import Url, make_headers, parse_url, wait_for_write

from reconciler.http.errors import HttpError, connection_error, step_of
from reconciler.http.resolver import RESOLVER, Resolver, SocketAddress, address_of
from reconciler.redaction import remember
from reconciler.time_limit import TimeLimit

T = TypeVar("T")

_CURRENT: ContextVar[TimeLimit] = ContextVar("limit")
"""Of the exchange that runs in this thread: connections are kept between exchanges, so it is none of theirs."""

_SOCKS = ("socks5", "socks5h")  # both look names up at the proxy, as in Go's net/http and so in kubectl


@contextmanager
def within(limit: TimeLimit) -> Iterator[None]:
    """Let every connection wait for `limit` at most, in this thread."""
    token = _CURRENT.set(limit)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def tls_context(
    *,
    ca_file: str | None = None,
    ca_data: str | None = None,
    certificate: tuple[str, str | None] | None = None,
    verified: bool = True,
) -> ssl.SSLContext:
    """Return a context for TLS 1.2 and later that verifies names and certificates.

    With `ca_file` or `ca_data` (PEM) only these vouch, else the system's. `certificate` are the files of the client's
    certificate and its key. `verified` False: anybody may answer.

    Raises:
        OSError: a file cannot be read. ssl.SSLError, ValueError: it holds no certificates.
    """
    context = _TlsContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_file or ca_data:
        context.load_verify_locations(cafile=ca_file, cadata=ca_data)
    elif verified:
        context.load_default_certs()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as kubectl: what is named vouches, root or not
    context.sslsocket_class = _TlsSocket
    if not verified:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # it warns at each request; callers do once
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        context.load_cert_chain(*certificate, password="")  # without one OpenSSL asks on the terminal, and waits
    return context


def connections(
    *,
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
    proxy: str | None = None,
    resolver: Resolver = RESOLVER,
    kept: int = 16,
) -> urllib3.PoolManager:
    """Return the connections for an `HttpClient`; nothing is connected yet, `kept` of them stay open.

    `tls` is made with `tls_context`; `server_name` is whom the certificate must name, None: the host. `proxy` is a URL
    with http, https or socks5, with user and password where it needs them. `resolver` looks names up, that of the
    proxy where that is what is connected to.

    Raises:
        ValueError: `proxy` is no such URL.
    """
    secured: dict[str, Any] = {"maxsize": kept} if tls is None else {"maxsize": kept, "ssl_context": tls}
    if server_name:
        secured["server_hostname"] = server_name
    way = _proxy_url(proxy) if proxy else None
    if way is not None and way.auth:
        remember(unquote(way.auth).partition(":")[2])
    through = way if way is not None and way.scheme in _SOCKS else None
    if way is None or through is not None:
        manager = urllib3.PoolManager(**secured)
    else:
        headers = make_headers(proxy_basic_auth=unquote(way.auth)) if way.auth else None
        to_proxy = _system_tls() if way.scheme == "https" else None
        manager = urllib3.ProxyManager(
            way._replace(auth=None).url, proxy_headers=headers, proxy_ssl_context=to_proxy, **secured
        )
    manager.pool_classes_by_scheme = _pool_classes(through, resolver)
    return manager


def _proxy_url(proxy: str) -> Url:
    try:
        way = parse_url(proxy)
    except LocationParseError:
        way = Url()
    if way.scheme not in ("http", "https", *_SOCKS) or not way.host:
        shown = re.sub(r"(^|//)[^/]*@", r"\1", proxy)  # without user and password
        raise ValueError(f'the proxy "{shown}" is no URL with http, https or socks5, such as http://proxy:3128')
    return way


def environment_proxy(url: str) -> str | None:
    """Return the proxy for `url` by HTTPS_PROXY, HTTP_PROXY and NO_PROXY, None where it is reached directly.

    Source: golang.org/x/net http/httpproxy/proxy.go, FromEnvironment, proxyForURL, useProxy.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = str(parts.port or (443 if parts.scheme == "https" else 80))
    proxy = _variable("HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY")
    address = address_of(host)
    if not proxy or host == "localhost" or (address is not None and address.is_loopback):
        return None
    if any(_matches(entry.strip().lower(), host, port) for entry in _variable("NO_PROXY").split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str) -> str:
    return os.environ.get(name) or os.environ.get(name.lower()) or ""


def _matches(entry: str, host: str, port: str) -> bool:
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        pass  # one of them is a name, or the entry has a port
    name, colon, of_port = entry.rpartition(":")
    if not colon or not of_port.isdecimal():
        name, of_port = entry, port
    name = name.strip("[]").removeprefix("*")
    if not name or of_port != port:
        return False
    return host.endswith(name) if name.startswith(".") else host == name or host.endswith(f".{name}")


@cache
def _system_tls() -> ssl.SSLContext:
    return tls_context()


def _pool_classes(through: Url | None, resolver: Resolver) -> dict[str, type[HTTPConnectionPool]]:
    """Return the classes of the pools: connections made by them know how to connect."""

    def connect(host: str, port: int) -> socket.socket:
        limit = _CURRENT.get()
        near = (host, port) if through is None else (through.host or "", through.port or 1080)
        opened = _connected(resolver.addresses(near[0].strip("[]"), near[1], limit), limit)
        if through is not None:
            _ask_socks(opened, through, host, port)
        return opened

    class PlainConnection(_OnePieceConnection):
        def _new_conn(self) -> socket.socket:
            try:
                return connect(self._dns_host, self.port)
            except HttpError as error:
                raise (error if self.proxy is None and through is None else error.by_proxy()) from error

    class SecureConnection(PlainConnection, HTTPSConnection):
        def __init__(self, *args: Any, ssl_context: ssl.SSLContext | None = None, **options: Any) -> None:
            # Only here: the system's certificates take longer to load than a small cluster to be read.
            super().__init__(*args, ssl_context=ssl_context or _system_tls(), **options)

    class Pool(HTTPConnectionPool):
        ConnectionCls = PlainConnection

    class SecurePool(HTTPSConnectionPool):
        ConnectionCls = SecureConnection

    return {"http": Pool, "https": SecurePool}


_MOST_INFORMATIONAL = 20  # and answers, as a server might send them for ever


class _Response(http.client.HTTPResponse):
    """Informational answers (RFC 9110, section 15.2) come before the answer: the base class skips only `100`."""

    def begin(self) -> None:
        for _ in range(_MOST_INFORMATIONAL):
            super().begin()
            if self.status >= 200 or self.status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                return
            self.headers = self.msg = None  # type: ignore[assignment]
        raise http.client.HTTPException("the answer itself never comes")


class _OnePieceConnection(HTTPConnection):
    response_class = _Response
    _unsent: bytearray | None = None

    def request(self, method: str, url: str, *args: Any, **options: Any) -> None:
        """Send a request in one piece: headers that go out before their body wake both sides once more."""
        if self.sock is None:
            self.connect()
        self._unsent = bytearray()
        try:
            super().request(method, url, *args, **options)
        finally:
            unsent, self._unsent = self._unsent, None
        self.send(unsent)

    def send(self, data: Any) -> None:
        if self._unsent is None:
            super().send(data)
        else:
            self._unsent += data


class _Socket(socket.socket):
    """Whatever may take time is done in steps of the current limit."""

    def recv(self, *args: Any) -> bytes:
        return _in_steps(self, "no answer in time", lambda: super(_Socket, self).recv(*args))

    def recv_into(self, *args: Any) -> int:
        return _in_steps(self, "no answer in time", lambda: super(_Socket, self).recv_into(*args))

    def send(self, *args: Any) -> int:
        return _in_steps(self, "the request was not taken in time", lambda: super(_Socket, self).send(*args))

    def sendall(self, data: Any, flags: int = 0) -> None:
        rest = memoryview(data).cast("B")
        while rest:
            rest = rest[self.send(rest, flags) :]


class _TlsContext(ssl.SSLContext):
    """Offers HTTP/1.1 from the start and keeps to that, though urllib3 sets it anew for each connection.

    OpenSSL then frees what was set before, also while another thread begins a handshake with this context: that one
    offers whatever stands in the freed memory, and the server refuses it with the alert decode_error.
    """

    def __init__(self, protocol: int) -> None:  # noqa: ARG002 - __new__ takes it
        super().set_alpn_protocols(["http/1.1"])

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        pass


class _TlsSocket(_Socket, ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:  # noqa: ARG002 - as the base class has it
        try:
            _in_steps(self, "no TLS handshake in time", super().do_handshake)
        except BaseException:
            self.close()  # the base class does so for errors of the system only
            raise


def _in_steps(opened: socket.socket, words: str, step: Callable[[], T]) -> T:
    """Return what `step` returns, begun again after each short wait; OpenSSL goes on where it was."""
    limit = _CURRENT.get()
    while True:
        opened.settimeout(step_of(limit, words))
        try:
            return step()
        except TimeoutError as error:
            if error.errno is not None:  # the system's own, ETIMEDOUT: the connection is lost
                raise


def _connected(addresses: list[SocketAddress], limit: TimeLimit) -> socket.socket:
    """Return a socket that is connected to the first of `addresses` that answers; each gets a fair share of the time.

    Raises:
        HttpError: none does.
    """
    failure = HttpError("its host name has no address", passes=True)
    for rest, (family, kind, protocol, _, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
        opened = _Socket(family, kind, protocol)
        try:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _connect(opened, address, limit, limit if rest == 1 else limit.within(limit.left() / rest))
            return opened
        except OSError as error:
            failure = connection_error(error)
            opened.close()
        except BaseException:
            opened.close()
            raise
    raise failure


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


def _ask_socks(opened: socket.socket, proxy: Url, host: str, port: int) -> None:
    """Have the proxy connect to `host`, a name that it looks up itself.

    Source: RFC 1928, sections 3 to 6; RFC 1929, section 2.
    """
    user, _, password = (unquote(part).encode() for part in (proxy.auth or "").partition(":"))
    opened.sendall(b"\x05\x01\x02" if user else b"\x05\x01\x00")
    chosen = _exactly(opened, 2)
    if chosen == b"\x05\x02" and user:
        opened.sendall(b"\x01" + _counted(user) + _counted(password))
        if _exactly(opened, 2)[1]:
            raise HttpError("it refused user and password")
    elif chosen != b"\x05\x00":
        raise HttpError("it does not let us in, or is no SOCKS5 proxy")
    opened.sendall(b"\x05\x01\x00" + _socks_address(host.strip("[]")) + port.to_bytes(2, "big"))
    _, refusal, _, kind = _exactly(opened, 4)
    if refusal:
        raise HttpError(f"it did not connect, SOCKS reply {refusal}", passes=True)
    _exactly(opened, ({1: 4, 4: 16}.get(kind) or _exactly(opened, 1)[0]) + 2)


def _socks_address(host: str) -> bytes:
    address = address_of(host)
    if address is None:
        return b"\x03" + _counted(host.encode("idna"))
    return (b"\x01" if address.version == 4 else b"\x04") + address.packed


def _counted(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _exactly(opened: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = opened.recv(count - len(found))
        if not piece:
            raise HttpError("the connection was cut", passes=True)
        found += piece
    return found
