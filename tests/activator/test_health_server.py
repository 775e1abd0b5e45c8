"""The HTTP server of health and metrics: whoever opens connections and says nothing takes it from nobody."""

from __future__ import annotations

import asyncio
import socket

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from reconciler.activator.activation_context import ActivatorMetrics
from reconciler.http.server import MOST_OPEN, serve
from reconciler.report.metrics import open_metrics_text
from tests.activator.stage import Stage, play

_MANY = 3 * MOST_OPEN


async def answer(port: int, path: str = "/healthz") -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: activator\r\n\r\n".encode())
    try:
        return await reader.read()
    finally:
        writer.close()


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_of_many_silent_connections_the_oldest_give_way_and_a_probe_is_answered() -> None:
    async def story() -> None:
        server = await serve({"/healthz": lambda: (200, "ok\n")}, "127.0.0.1", 0, "--address")
        port = server.sockets[0].getsockname()[1]
        silent = [socket.socket() for _ in range(_MANY)]
        for client in silent:
            client.setblocking(False)
            await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
        while sum(map(is_closed, silent)) < _MANY - MOST_OPEN:
            await asyncio.sleep(0.005)
        assert [is_closed(client) for client in silent] == [True] * (_MANY - MOST_OPEN) + [False] * MOST_OPEN
        assert (await answer(port)).startswith(b"HTTP/1.1 200 OK")
        assert is_closed(silent[-MOST_OPEN])
        for client in silent:
            client.close()
        server.close()

    asyncio.run(asyncio.wait_for(story(), 60))


def test_metrics_are_served_as_what_they_are() -> None:
    async def story() -> None:
        text = open_metrics_text(ActivatorMetrics().families())
        server = await serve({"/metrics": lambda: (200, text)}, "127.0.0.1", 0, "--address")
        head, _, body = (await answer(server.sockets[0].getsockname()[1], "/metrics")).partition(b"\r\n\r\n")
        server.close()
        assert b"Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n" in head
        found = {family.name: family.type for family in text_string_to_metric_families(body.decode())}
        assert found["reconciler_activator_woken"] == "counter"

    asyncio.run(asyncio.wait_for(story(), 60))


def test_what_fails_in_the_event_loop_is_one_line_and_not_a_traceback_each_time(
    capfd: pytest.CaptureFixture[str],
) -> None:
    async def story(stage: Stage) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(stage.one.unexpected)
        for _ in range(100):
            error = OSError(24, "Too many open files")
            loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": error})
        [line] = stage.told
        assert line.startswith("warning: socket.accept() out of system resource: unexpected OSError")
        assert "\n" not in line

    play(story)
    assert capfd.readouterr().err == ""
