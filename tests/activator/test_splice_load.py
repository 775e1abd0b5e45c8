"""Many connections through an activation: memory is bounded, all are answered, and it is as fast as socat."""

from __future__ import annotations

import contextlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.servers import SocketServer

pytestmark = pytest.mark.soak

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 300
_PIECE = 1 << 20


def discard(connection: socket.socket) -> None:
    with connection, contextlib.suppress(ConnectionResetError):
        buffer = bytearray(_PIECE)
        while connection.recv_into(buffer):
            pass
        connection.sendall(b"done")


def ignore(connection: socket.socket) -> None:
    """Read nothing."""
    with contextlib.suppress(OSError):
        time.sleep(PATIENCE)


@contextlib.contextmanager
def splicing(
    target: int, connections: int = 1000, *, joined: bool = True
) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """The port of an activation that leads to `target`, and its process."""
    command = [sys.executable, "-m", "tests.activator.splice_server", str(target), str(connections)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        if joined:
            process.send_signal(signal.SIGUSR1)
        yield port, process
    finally:
        process.kill()
        process.wait(30)


def memory(process: subprocess.Popen[str]) -> int:
    """Resident MiB."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return next(int(line.split()[1]) // 1024 for line in text.splitlines() if line.startswith("VmRSS:"))


def connected(port: int, source: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(source, 0))


_CONNECTIONS = 20_000


def test_twenty_thousand_connections_are_held_and_then_all_answered() -> None:
    """By as many processes as their descriptors allow: each needs two for a connection once it is joined."""
    most = (resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 1024) // 2
    processes = -(-_CONNECTIONS // most)
    count = -(-_CONNECTIONS // processes)
    with contextlib.ExitStack() as crowds:
        held = [crowds.enter_context(a_crowd(count)) for _ in range(processes)]
        began = time.monotonic()
        for process, clients in held:
            process.send_signal(signal.SIGUSR1)
            say(clients, "go")
        assert [line_of(clients) for _, clients in held] == [str(count)] * processes
        rest = [memory(process) for process, _ in held]
        print(f"all {processes} x {count} answered after {time.monotonic() - began:.1f} s, {rest} MiB")


@contextlib.contextmanager
def a_crowd(count: int) -> Iterator[tuple[subprocess.Popen[str], subprocess.Popen[str]]]:
    """A process that holds `count` connections, and the one that made them."""
    with contextlib.ExitStack() as stack:
        target = stack.enter_context(started(_COUNTING))
        port, process = stack.enter_context(splicing(int(line_of(target)), count, joined=False))
        before, began = memory(process), time.monotonic()
        clients = stack.enter_context(started(_CLIENTS, str(port), str(count)))
        assert line_of(clients) == "all have said hello"
        wait_for(process, lambda held, _: held == count)
        held = memory(process)
        print(f"{count} held in {time.monotonic() - began:.1f} s: {before} -> {held} MiB")
        assert (held - before) * 1024 / count < 16  # KiB each
        yield process, clients


@contextlib.contextmanager
def started(script: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", script, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def say(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    print(line, file=process.stdin, flush=True)


_CLIENTS = """
import resource, socket, sys
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
port, count = map(int, sys.argv[1:])
def connected(number):
    source = (f"127.0.0.{2 + number // 5000}", 0)
    return socket.create_connection(("127.0.0.1", port), timeout=300, source_address=source)
clients = [connected(number) for number in range(count)]
for client in clients:
    client.sendall(b"hello\\n")
print("all have said hello", flush=True)
sys.stdin.readline()
answered = 0
for client in clients:
    client.shutdown(socket.SHUT_WR)
    answered += client.recv(100) == b"HELLO\\n"
print(answered, flush=True)
"""

_COUNTING = """
import asyncio, resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
async def answer(reader, writer):
    writer.write((await reader.readline()).upper())
    await writer.drain()
    writer.close()
async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def wait_for(process: subprocess.Popen[str], true: Callable[[int, int], bool]) -> None:
    """Read what it says each second until that is so."""
    assert process.stdout is not None
    until = time.monotonic() + PATIENCE
    for line in process.stdout:
        if true(*map(int, line.split())):
            return
        assert time.monotonic() < until, line


def seconds_for(port: int, size: int) -> float:
    began = time.monotonic()
    with connected(port) as client:
        piece = bytes(_PIECE)
        for _ in range(size):
            client.sendall(piece)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(100) == b"done"
    return time.monotonic() - began


HAPROXY = """
defaults
  mode tcp
  timeout connect 60s
  timeout client 600s
  timeout server 600s
listen one
  bind 127.0.0.1:{port}
  server target 127.0.0.1:{target}
"""


QUEUE = """
global
  maxconn 4000
defaults
  mode tcp
  timeout connect 600s
  timeout client 600s
  timeout server 600s
  timeout queue 600s
listen one
  bind 127.0.0.1:{port} backlog 4096
  server target 127.0.0.1:{target} maxconn 1
"""
"""HAProxy holds what its server has no place for."""


def proportional_kib(process: subprocess.Popen[Any]) -> int:
    """KiB of memory of a process and of all that it started, shared pages by their share."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            parent = int(entry.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.parent.name))
    found, left = 0, [process.pid]
    while left:
        one = left.pop()
        left += children.get(one, [])
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            found += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return found


def settled_kib(process: subprocess.Popen[Any]) -> int:
    """What `proportional_kib` says once it stays within one percent for two seconds."""
    known, until = proportional_kib(process), time.monotonic() + PATIENCE
    while time.monotonic() < until:
        time.sleep(2)
        now = proportional_kib(process)
        if abs(now - known) * 100 <= known:
            return now
        known = now
    return known


@pytest.mark.bench
def test_what_a_connection_that_waits_takes_beside_others(tmp_path: Path) -> None:
    """KiB of each process for each of 1,000 waiting connections; the kernel's memory is not counted.

    HAProxy queues all but one; `socat` cannot wait, it has joined each with a server that is silent.
    """
    missing = [name for name in ("socat", "haproxy") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    server, count, found = SocketServer(ignore, backlog=4096), 1000, {}
    config, ports = tmp_path / "haproxy.cfg", {name: free_port() for name in ("socat", "haproxy")}
    config.write_text(QUEUE.format(port=ports["haproxy"], target=server.port))
    listen = f"TCP-LISTEN:{ports['socat']},bind=127.0.0.1,fork,reuseaddr,backlog=4096"
    starts: dict[str, Callable[[], contextlib.AbstractContextManager[tuple[int, subprocess.Popen[Any]]]]] = {
        "activator": lambda: splicing(server.port, count, joined=False),
        "haproxy": lambda: running(["haproxy", "-db", "-f", str(config)], ports["haproxy"]),
        "socat": lambda: running(["socat", listen, f"TCP:127.0.0.1:{server.port}"], ports["socat"]),
    }
    for name, start in starts.items():
        with start() as (port, process), contextlib.ExitStack() as clients:
            before = settled_kib(process)
            for _ in range(count):
                clients.enter_context(connected(port)).sendall(b"hello\n")
            if name == "activator":
                wait_for(process, lambda held, _: held == count)
            found[name] = (settled_kib(process) - before) / count
    print({name: round(one, 1) for name, one in found.items()}, "KiB for each")
    server.close()
    assert found["activator"] < found["haproxy"] < found["socat"]


@contextlib.contextmanager
def running(command: list[str], port: int) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    process = subprocess.Popen(command)
    try:
        until = time.monotonic() + 60
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            assert time.monotonic() < until, command
            time.sleep(0.05)
        yield port, process
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.bench
def test_as_fast_as_others(tmp_path: Path) -> None:
    """Bytes per second through it, `socat` and HAProxy by turns; the best of each counts on a busy machine."""
    missing = [name for name in ("socat", "haproxy") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    server, size = SocketServer(discard, backlog=4096), 1024
    with contextlib.ExitStack() as stack:
        ours, _ = stack.enter_context(splicing(server.port))
        ports = {"activator": ours, "socat": free_port(), "haproxy": free_port()}
        config = tmp_path / "haproxy.cfg"
        config.write_text(HAPROXY.format(port=ports["haproxy"], target=server.port))
        listen = f"TCP-LISTEN:{ports['socat']},bind=127.0.0.1,fork,reuseaddr"
        stack.enter_context(running(["socat", listen, f"TCP:127.0.0.1:{server.port}"], ports["socat"]))
        stack.enter_context(running(["haproxy", "-db", "-f", str(config)], ports["haproxy"]))
        found: dict[str, list[float]] = {name: [] for name in ports}
        for _ in range(5):
            for name, port in ports.items():
                found[name].append(size / seconds_for(port, size))
    best = {name: max(each) for name, each in found.items()}
    print({name: [round(one) for one in each] for name, each in found.items()}, "MiB/s")
    server.close()
    assert best["activator"] >= 0.8 * best["socat"]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port: int = listening.getsockname()[1]
        return port
