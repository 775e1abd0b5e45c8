"""A pod picker that does what a test tells it, on a loopback socket."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

Script = Callable[[socket.socket], None]


@dataclass(frozen=True)
class Received:
    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class PickerServer:
    """Answers the nth connection with the nth script, the last one from then on; keeps what it received."""

    def __init__(self, *scripts: Script, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[Received] = []
        self.connections = 0
        self._scripts: Sequence[Script] = scripts
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> PickerServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            script = self._scripts[min(self.connections, len(self._scripts)) - 1]
            with contextlib.suppress(OSError, ValueError), connection:
                connection.settimeout(5)
                self._converse(connection, script)

    def _converse(self, connection: socket.socket, script: Script) -> None:
        secured = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
        with secured, secured.makefile("rb") as stream:
            line = stream.readline().decode().strip()
            headers = {}
            while text := stream.readline().decode().strip():
                name, _, value = text.partition(":")
                headers[name.lower()] = value.strip()
            body = stream.read(int(headers.get("content-length", 0)))
            self.received.append(Received(line, headers, body))
            script(secured)


def raw(data: bytes) -> Script:
    """Send exactly `data`, then close."""
    return lambda connection: connection.sendall(data)


def reply(body: bytes | str, status: int = 200, **headers: str) -> Script:
    """A whole reply."""
    content = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(content)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return raw("\r\n".join([*lines, "", ""]).encode() + content)


def says(chosen: Sequence[str] = (), tied: Sequence[str] = ()) -> Script:
    return reply(json.dumps({"chosen_pods": list(chosen), "tied_pods": list(tied)}))


def drip(data: bytes, seconds: float) -> Script:
    """Send `data` byte by byte, each `seconds` after the one before."""

    def script(connection: socket.socket) -> None:
        for byte in data:
            connection.sendall(bytes([byte]))
            time.sleep(seconds)

    return script


def silent(connection: socket.socket) -> None:
    """Say nothing until the other side goes away."""
    connection.recv(1)
