"""The proxy that the environment names, as Go's net/http and so kubectl read it."""

from __future__ import annotations

import os
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit


def environment_proxy(url: str) -> str | None:
    """Return the proxy for `url` by HTTPS_PROXY, HTTP_PROXY and NO_PROXY, None where it is reached directly.

    Source: golang.org/x/net http/httpproxy/proxy.go, FromEnvironment, proxyForURL, useProxy.
    """
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = str(parts.port or (443 if parts.scheme == "https" else 80))
    proxy = _variable("HTTPS_PROXY" if parts.scheme == "https" else "HTTP_PROXY")
    if not proxy or host == "localhost" or _is_loopback(host):
        return None
    if any(_matches(entry.strip().lower(), host, port) for entry in _variable("NO_PROXY").split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _variable(name: str) -> str:
    return os.environ.get(name) or os.environ.get(name.lower()) or ""


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


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
