"""Servers on a loopback socket that do what a test tells them."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import trustme
from cryptography.hazmat.primitives import serialization

Answer = Callable[[socket.socket], None]
AUTHORITY = trustme.CA()
BUNDLE = AUTHORITY.cert_pem.bytes().decode()
HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def secured(*names: str) -> ssl.SSLContext:
    """What a server has whose certificate, of AUTHORITY, is for `names`, by default for loopback."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    AUTHORITY.issue_cert(*(names or ("127.0.0.1", "localhost"))).configure_cert(context)
    return context


def encrypted_key(issued: trustme.LeafCert) -> bytes:
    """A certificate and its key, which a password is needed for."""
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    password = serialization.BestAvailableEncryption(b"secret")
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, password)
    return issued.cert_chain_pems[0].bytes() + pem


class SocketServer:
    """Listens on a loopback port, and hands each connection to `serve`, in a thread of its own."""

    def __init__(
        self, serve: Callable[[socket.socket], None], port: int = 0, *, address: str = "127.0.0.1", backlog: int = 128
    ) -> None:
        self.connections = 0
        self._serve_one = serve
        self._listener = socket.create_server((address, port), backlog=backlog)
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="test", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._handle, args=(client,), name="test", daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), client:
            self._serve_one(client)


class Server(SocketServer):
    """Answers the nth request with the nth of `answers`, the last one from then on; keeps the requests."""

    closes = False

    def __init__(self, *answers: Answer | bytes, tls: ssl.SSLContext | bool = False, port: int = 0) -> None:
        self.requests: list[bytes] = []
        self._answers = answers
        self._tls = secured() if tls is True else tls or None
        super().__init__(self._serve, port)
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.port}"

    def _serve(self, client: socket.socket) -> None:
        opened = client if self._tls is None else self._tls.wrap_socket(client, server_side=True)
        with opened, opened.makefile("rb") as stream:
            while line := stream.readline():
                head = line
                while (line := stream.readline()).strip():
                    head += line
                length = int(dict(headers_in(head)).get(b"content-length", 0))
                body = stream.read(length)
                if len(body) < length:
                    return  # nothing that a server could act on
                self.requests.append(head + b"\r\n" + body)
                answer = self._answers[min(len(self.requests), len(self._answers)) - 1]
                opened.sendall(answer) if isinstance(answer, bytes) else answer(opened)
                if self.closes:
                    return


def headers_in(head: bytes) -> Iterator[tuple[bytes, bytes]]:
    for line in head.splitlines()[1:]:
        name, _, value = line.partition(b":")
        yield name.strip().lower(), value.strip()


@dataclass(frozen=True)
class Received:
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class PickerServer(Server):
    """One that closes each connection after its answer."""

    closes = True

    @property
    def received(self) -> list[Received]:
        return [_received(one) for one in self.requests]


def _received(request: bytes) -> Received:
    head, _, body = request.partition(b"\r\n\r\n")
    headers = {name.decode(): value.decode() for name, value in headers_in(head)}
    return Received(head.splitlines()[0].decode(), headers, body)


def hang(_: socket.socket) -> None:
    time.sleep(120)


def raw(data: bytes) -> Answer:
    """Send exactly `data`, then close."""
    return lambda connection: connection.sendall(data)


def reply(body: bytes | str, status: int = 200, **headers: str) -> Answer:
    """A whole reply."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return raw("\r\n".join([*lines, "", ""]).encode() + content)


def says(chosen: Sequence[str] = (), tied: Sequence[str] = ()) -> Answer:
    return reply(json.dumps({"chosen_pods": list(chosen), "tied_pods": list(tied)}))


def drip(data: bytes, seconds: float) -> Answer:
    """Send `data` byte by byte, each `seconds` after the one before."""

    def script(connection: socket.socket) -> None:
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(seconds)

    return script


def silent(connection: socket.socket) -> None:
    """Say nothing until the other side goes away."""
    connection.recv(1)
