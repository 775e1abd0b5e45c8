"""Addresses to which no request to a pod picker is sent, and those of this machine.

Policies are checked by them, and each request once more before it is sent: names resolve later.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address

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
