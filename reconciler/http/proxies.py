"""Proxies: which one the environment says, and how SOCKS5 is spoken."""

from __future__ import annotations

import os
import re
import socket
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

from urllib3.exceptions import LocationParseError
from urllib3.util import Url, parse_url

from reconciler.http.errors import HttpError
from reconciler.http.resolver import address_of

SOCKS = ("socks5", "socks5h")  # both look names up at the proxy, as in Go's net/http and so in kubectl


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


def proxy_url(proxy: str) -> Url:
    """Return `proxy` in its parts.

    Raises:
        ValueError: it is no URL with http, https or socks5.
    """
    try:
        way = parse_url(proxy)
    except LocationParseError:
        way = Url()
    if way.scheme not in ("http", "https", *SOCKS) or not way.host:
        shown = re.sub(r"(^|//)[^/]*@", r"\1", proxy)  # without user and password
        raise ValueError(f'the proxy "{shown}" is no URL with http, https or socks5, such as http://proxy:3128')
    return way


def ask_socks(opened: socket.socket, proxy: Url, host: str, port: int) -> None:
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
