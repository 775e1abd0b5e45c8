"""A small HTTP server for processes that run until they are stopped: whether they are alive and ready, and metrics."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Mapping
from http import HTTPStatus

from reconciler.errors import UsageError

_MOST_BYTES = 4096
_REQUEST_SECONDS = 10.0
MOST_OPEN = 64
"""Connections to the HTTP server. Beyond that the oldest is closed: a probe asks as soon as it is connected."""
_TEXT = "text/plain; charset=utf-8"
_OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"

Answer = Callable[[], tuple[int, str]]
"""Gives the status and the text of an answer."""


async def serve(answers: Mapping[str, Answer], address: str | None, port: int, flag: str) -> asyncio.Server:
    """Return the HTTP server that gives `answers` by their path, at the address that `flag` gave and the --http-port.

    Raises:
        UsageError: it cannot listen there.
    """
    open_ones: dict[asyncio.StreamWriter, None] = {}

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(open_ones) >= MOST_OPEN:
            oldest = next(iter(open_ones))
            del open_ones[oldest]
            oldest.transport.abort()
        open_ones[writer] = None
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _REQUEST_SECONDS)
            path = head.split(b" ", 2)[1].decode("ascii", "replace").partition("?")[0]
            status, text = answers[path]() if path in answers else (404, "not found\n")
            writer.write(response(status, text.encode(), _OPEN_METRICS if path == "/metrics" else _TEXT))
            await asyncio.wait_for(writer.drain(), _REQUEST_SECONDS)
        except (TimeoutError, OSError, IndexError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asks like that gets no answer
        finally:
            open_ones.pop(writer, None)
            writer.close()

    try:
        return await asyncio.start_server(handle, address or None, port, limit=_MOST_BYTES)
    except OSError as error:
        # from Python 3.13 on an address of another machine has neither errno nor strerror
        where, wanted = (
            (f"--http-port: {port}", "a free port")
            if error.errno in (errno.EADDRINUSE, errno.EACCES)
            else (f"{flag}: {address}", "an address of this machine")
        )
        raise UsageError(f"{where}: {error.strerror or error}, expected {wanted}") from error


def response(status: int, body: bytes, content_type: str = _TEXT, *, keeps: bool = False) -> bytes:
    """Return an answer over HTTP; `keeps`: the connection stays open after it."""
    head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {content_type}\r\n"
    connection = "keep-alive" if keeps else "close"
    return f"{head}Content-Length: {len(body)}\r\nConnection: {connection}\r\n\r\n".encode() + body
