"""One HTTP exchange within a wall-clock limit, from the name lookup to the last byte."""

from __future__ import annotations

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import quote

from reconciler.backends.http.retry import retry_after_seconds
from reconciler.model import PodPicker

LARGEST_ANSWER = 1 << 20

_CHUNK = 1 << 16
_NAT64 = ip_network("64:ff9b::/96")
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

Address = IPv4Address | IPv6Address
SocketAddress = tuple[socket.AddressFamily, tuple[str, int] | tuple[str, int, int, int]]


class Refused(Exception):
    """No answer, and no use in asking again."""


class Retryable(Exception):
    """No answer this time."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is sent where. `headers` may hold secrets, so they show nowhere."""

    picker: PodPicker
    headers: tuple[tuple[str, bytes], ...] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Reply:
    """`body` only with status 200; `retry_after` in seconds, None where the server does not say."""

    status: int
    body: bytes = b""
    retry_after: float | None = None


def exchange(attempt: Attempt) -> Reply:
    """Return the reply to one request. Redirects are not followed, no proxy is used.

    Raises:
        Retryable: no connection, or not everything within the picker's time limit. Refused: anything else.
    """
    running = _Running(attempt)
    thread = threading.Thread(target=running.run, name="pod-picker", daemon=True)
    thread.start()
    thread.join(attempt.picker.timeout_seconds)
    if running.finish():
        raise Retryable(f"no whole answer within {attempt.picker.timeout_seconds:g} s")
    return running.reply()


class _Running:
    """One exchange in a thread of its own, so that neither a slow resolver nor a dripping server can hold us up."""

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._guard = threading.Lock()
        self._over = False
        self._socket: socket.socket | None = None
        self._result: Reply | Exception = Retryable("the exchange did not end")

    def run(self) -> None:
        try:
            result: Reply | Exception = self._exchanged()
        except Exception as error:  # noqa: BLE001 - carried over to the thread that asked, which tells them apart
            result = _told(error)
        with self._guard:
            if not self._over:
                self._result = result
                self._over = True
            if self._socket is not None:
                self._socket.close()

    def finish(self) -> bool:
        """End the exchange; return whether it was still going on."""
        with self._guard:
            unfinished = not self._over
            self._over = True
            if unfinished and self._socket is not None:
                with contextlib.suppress(OSError):  # where it is not connected yet, connecting ends by itself
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # not the TLS state, the thread uses that
            return unfinished

    def reply(self) -> Reply:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def _keep(self, opened: socket.socket) -> socket.socket:
        """Remember what has to be closed when time is up."""
        with self._guard:
            self._socket = opened
            if self._over:
                raise Retryable("time is up")
        return opened

    def _exchanged(self) -> Reply:
        picker = self._attempt.picker
        connection = http.client.HTTPConnection(picker.host, picker.port)
        connection.sock = self._secured(self._connected(addresses_of(picker)))
        connection.putrequest(
            "POST", quote(picker.path, safe="%/:=&?~+!$,;'@()*[]"), skip_host=True, skip_accept_encoding=True
        )
        for name, value in self._headers():
            connection.putheader(name, value)
        connection.endheaders(self._attempt.body)
        return _reply(connection.getresponse())

    def _headers(self) -> Iterator[tuple[str, bytes]]:
        """Yield all headers; Accept and the like only where the policy does not say them."""
        given = {name.lower() for name, _ in self._attempt.headers}
        yield "Host", _host_header(self._attempt.picker).encode()
        yield "Content-Type", b"application/json"
        yield "Content-Length", str(len(self._attempt.body)).encode()
        yield "Connection", b"close"
        yield from self._attempt.headers
        for name, value in (("Accept", b"application/json"), ("Accept-Encoding", b"identity")):
            if name.lower() not in given:
                yield name, value

    def _connected(self, addresses: Iterable[SocketAddress]) -> socket.socket:
        failure = OSError("the name has no address")
        for family, address in addresses:
            opened = self._keep(socket.socket(family, socket.SOCK_STREAM))
            opened.settimeout(self._attempt.picker.timeout_seconds)
            try:
                opened.connect(address)
            except OSError as error:
                failure = error
                opened.close()
                continue
            return opened
        raise failure

    def _secured(self, opened: socket.socket) -> socket.socket:
        picker = self._attempt.picker
        if picker.scheme == "http":
            return opened
        secured = tls_context(picker.ca_bundle).wrap_socket(
            opened, server_hostname=_bare_host(picker), do_handshake_on_connect=False
        )
        self._keep(secured)
        secured.do_handshake()
        return secured


def tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    """Return a context that verifies names and certificates, against `ca_bundle` alone where one is given.

    Raises:
        Refused: the bundle cannot be read.
    """
    if ca_bundle is not None and not ca_bundle.strip():
        raise Refused("caBundle is empty, expected certificates in PEM")
    try:
        context = ssl.create_default_context(cadata=ca_bundle)
    except (ssl.SSLError, ValueError):
        raise Refused("caBundle cannot be read, expected certificates in PEM") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def addresses_of(picker: PodPicker) -> list[SocketAddress]:
    """Return the addresses of the picker's host, all of them or none.

    Raises:
        Refused: one of them is link-local or belongs to a metadata service. OSError: the name cannot be resolved.
    """
    found = socket.getaddrinfo(_bare_host(picker), picker.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    for *_, address in found:
        if is_forbidden(ip_address(str(address[0]))):
            raise Refused(f"the host resolves to {address[0]}, expected no link-local or metadata address")
    return [(family, (str(address[0]), int(address[1]), *address[2:])) for family, _, _, _, address in found]


def is_forbidden(address: Address) -> bool:
    """Return whether no picker may be there: link-local, a metadata service, or no host at all."""
    inner = _inner(address)
    if inner is not None:
        return is_forbidden(inner)
    return address.is_link_local or address.is_multicast or address.is_unspecified or address in _METADATA


def _inner(address: Address) -> IPv4Address | None:
    """Return the IPv4 address that an IPv6 address stands for, None where it stands for itself."""
    if isinstance(address, IPv4Address):
        return None
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour


def _bare_host(picker: PodPicker) -> str:
    return picker.host.strip("[]").rstrip(".")


def _host_header(picker: PodPicker) -> str:
    host = f"[{_bare_host(picker)}]" if ":" in picker.host else picker.host
    default = 443 if picker.scheme == "https" else 80
    return host if picker.port == default else f"{host}:{picker.port}"


def _reply(response: http.client.HTTPResponse) -> Reply:
    if response.status != 200:
        pause = retry_after_seconds(response.getheader("Retry-After"), response.getheader("Date"))
        return Reply(response.status, retry_after=pause)
    body = bytearray()
    while chunk := response.read(min(_CHUNK, LARGEST_ANSWER + 1 - len(body))):
        body += chunk
        if len(body) > LARGEST_ANSWER:
            raise Refused(f"the answer is too long, expected at most {LARGEST_ANSWER} bytes")
    if response.length:
        raise Retryable("the answer ended early")
    return Reply(200, bytes(body))


def _told(error: Exception) -> Exception:
    """Return `error` as ours, in words that hold nothing of what was sent or received."""
    if isinstance(error, Refused | Retryable):
        return error
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refused(f"its certificate is not valid: {error.verify_message}")
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return Refused(f"TLS failed: {error.reason}")
    if isinstance(error, OSError | http.client.IncompleteRead):
        return Retryable(f"no connection: {_errno_words(error)}")
    return Refused(f"the answer is no HTTP ({type(error).__name__}), expected HTTP/1.1")


def _errno_words(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
