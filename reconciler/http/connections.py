"""Connections of urllib3 whose every step, from the name lookup to the last byte, waits for the limit of the exchange
at most. Imported when the first request is sent: urllib3 is slow to load.
"""

from __future__ import annotations

import http.client
import socket
import ssl
from functools import cache
from typing import Any
from urllib.parse import unquote

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util import Url, make_headers

from reconciler.http.errors import HttpError
from reconciler.http.proxies import SOCKS, ask_socks, proxy_url
from reconciler.http.resolver import RESOLVER, Resolver
from reconciler.http.sockets import CURRENT, TlsContext, TlsSocket, connected
from reconciler.redaction import remember


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
    context = TlsContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca_file or ca_data:
        context.load_verify_locations(cafile=ca_file, cadata=ca_data)
    elif verified:
        context.load_default_certs()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as kubectl: what is named vouches, root or not
    context.sslsocket_class = TlsSocket
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
    way = proxy_url(proxy) if proxy else None
    if way is not None and way.auth:
        remember(unquote(way.auth).partition(":")[2])
    through = way if way is not None and way.scheme in SOCKS else None
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


@cache
def _system_tls() -> ssl.SSLContext:
    return tls_context()


def _pool_classes(through: Url | None, resolver: Resolver) -> dict[str, type[HTTPConnectionPool]]:
    """Return the classes of the pools: connections made by them know how to connect."""

    def connect(host: str, port: int) -> socket.socket:
        limit = CURRENT.get()
        near = (host, port) if through is None else (through.host or "", through.port or 1080)
        opened = connected(resolver.addresses(near[0].strip("[]"), near[1], limit), limit)
        if through is not None:
            ask_socks(opened, through, host, port)
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
