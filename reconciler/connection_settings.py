"""How clusters, their Prometheus and pod pickers are reached, as policies say it, without any secret; and the rules for
such requests: addresses to which none is sent, and headers that none may set.

Policies are checked by the rules, and each request once more before it is sent: names resolve later, Secrets are read
later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Literal

from msgspec import Struct


class PrometheusConnection(Struct, frozen=True):
    """How the Prometheus of one cluster is reached: what the Fleet says, without any secret.

    `headers` are sent as they are (name, value). `proxy_url` None: no proxy, whatever the environment says.
    """

    url: str
    bearer_token_file: str | None = None
    username: str | None = None
    password_file: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    proxy_url: str | None = None


class CredentialSources(Struct, frozen=True):
    """Where credentials may come from, which is not the Fleet's to say.

    `folders`: a file that a Fleet names lies below one of them, links resolved; None: anywhere. `plugins`: a kubeconfig
    may have a program run, or an auth provider asked.
    """

    folders: tuple[str, ...] | None = None
    plugins: bool = True


class ClusterConnection(Struct, frozen=True):
    """How one cluster is reached: what the Fleet says, without any secret, and what whoever runs us lets it use."""

    name: str
    in_cluster: bool = False
    kubeconfig: str | None = None
    context: str | None = None
    prometheus: PrometheusConnection | None = None
    sources: CredentialSources = CredentialSources()


class SecretKey(Struct, frozen=True):
    """A reference to a value in a Secret. The value itself is never written anywhere."""

    name: str
    key: str


class PickerHeader(Struct, frozen=True):
    """A header of the request to a pod picker."""

    name: str
    value: str | None = None
    secret: SecretKey | None = None


class PodPicker(Struct, frozen=True):
    """The request to a pod picker."""

    # Source: seed downscale-pod-picker.md, K8S API Changes.
    host: str
    port: int = 443
    scheme: Literal["http", "https"] = "https"
    path: str = "/"
    headers: tuple[PickerHeader, ...] = ()
    ca_bundle: str | None = None
    allow_insecure_auth: bool = False
    max_retries: int = 3
    timeout_seconds: float = 5
    on_error: Literal["fallback", "skip"] = "fallback"
    on_too_few: Literal["fill", "reject"] = "fill"


class PickerRequest(Struct, frozen=True):
    """One question to a picker: how many of `candidates` (pod names) should go."""

    picker: PodPicker
    namespace: str
    count: int
    candidates: tuple[str, ...]


class PickerAnswer(Struct, frozen=True):
    """The picker's two lists, each name at most once, a name in both only in `chosen`."""

    chosen: tuple[str, ...] = ()
    tied: tuple[str, ...] = ()


Address = IPv4Address | IPv6Address

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)  # RFC 7230, token
RESERVED_HEADERS = ("host", "content-length", "transfer-encoding", "connection", "content-type")
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")

_METADATA = frozenset(
    ip_address(text)
    for text in (
        "100.100.100.200",  # Alibaba Cloud
        "168.63.129.16",  # Azure
        "192.0.0.192",  # Oracle Cloud
        "fd00:ec2::254",  # AWS
        "fd00:ec2::23",  # AWS EKS Pod Identity
        "fd20:ce::254",  # Google Cloud
    )
)
_IN_THE_LAST_BYTES = tuple(
    ip_network(text)
    for text in (
        "::/96",  # IPv4-compatible, RFC 4291
        "::ffff:0:0/96",  # IPv4-mapped, RFC 4291
        "::ffff:0:0:0/96",  # IPv4-translated, RFC 2765
        "64:ff9b::/96",  # NAT64, RFC 6052
    )
)
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")  # RFC 8215: a network's own prefix of /48 to /96 lies in it
_ISATAP = (b"\x00\x00\x5e\xfe", b"\x02\x00\x5e\xfe")  # RFC 5214, section 6.1


def is_forbidden(address: Address) -> bool:
    """Return whether no picker may be at `address`; an IPv6 address also counts as each IPv4 address it may carry."""
    if address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA:
        return True
    return isinstance(address, IPv6Address) and not address.is_loopback and any(map(is_forbidden, _carried(address)))


def is_loopback(address: Address) -> bool:
    """Return whether `address` is this machine's own; an IPv6 address also counts as each IPv4 address it may carry."""
    return address.is_loopback or (isinstance(address, IPv6Address) and any(map(is_loopback, _carried(address))))


def _carried(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that a translator or a tunnel may take out of `address`."""
    packed = address.packed
    if any(address in network for network in _IN_THE_LAST_BYTES) or packed[8:12] in _ISATAP:
        yield IPv4Address(packed[12:])
    if address.sixtofour is not None:
        yield address.sixtofour
    yield from address.teredo or ()
    if address in _LOCAL_NAT64:
        # Nobody outside knows the length of that prefix. Byte 8 is always left out. Source: RFC 6052, section 2.2.
        places = (*((packed[start:8] + packed[9:])[:4] for start in (6, 7, 8)), packed[12:])
        yield from (IPv4Address(place) for place in places if any(place))
