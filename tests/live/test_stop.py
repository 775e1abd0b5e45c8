"""SIGTERM ends a run within five seconds, whichever peer hangs in whichever step of an exchange.

Reads of API servers and exec plugins are in tests/cli/test_unreachable.py, answers that never end in
test_hostile_servers.py.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.stage import Stage
from tests.live.test_hostile_servers import WRITES
from tests.real import faults
from tests.real.kubeconfig import write_kubeconfig
from tests.real.worlds import wait_until

LIMIT_SECONDS = 15
"""Five seconds where the machine has nothing else to do. Each peer hangs for a minute."""

COMMAND = """
import socket, sys, threading
from pathlib import Path
from reconciler.__main__ import main

found = socket.getaddrinfo

def looked_up(host, *rest, **more):
    if not str(host).endswith(".hanging"):
        return found(host, *rest, **more)
    while not Path("resolves").exists():
        Path("asked").touch()
        threading.Event().wait(90)
    return found("127.0.0.1", *rest, **more)

socket.getaddrinfo = looked_up
sys.exit(main())
"""
"""The command line, where names below .hanging are looked up only while there is a file `resolves`."""

Asked = Callable[[], bool]


class Gate:
    """Passes connections on to `port` until it is armed: then it cuts them, and new ones hang in `phase`."""

    def __init__(self, port: int, phase: str, folder: Path) -> None:
        self._to = port
        self._phase = phase
        self._folder = folder
        self._passing: list[socket.socket] = []
        self._armed_at = 0.0
        self._filled = 1 << 16
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=8)
        self.port: int = self._listener.getsockname()[1]
        self._hung = threading.Event()
        (folder / "resolves").touch()

    @contextlib.contextmanager
    def open(self) -> Iterator[Gate]:
        thread = threading.Thread(target=self._accept, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._listener.close()
            for connection in self._passing:
                connection.close()

    def arm(self) -> None:
        """Let new connections hang from now on."""
        if self._armed_at:
            return
        if self._phase == "lookup":
            (self._folder / "resolves").unlink()
        self._armed_at = time.monotonic()
        for connection in list(self._passing):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        if self._phase == "connect":
            self._fill()

    def asked(self) -> bool:
        """Whether a run hangs here now."""
        if self._phase == "lookup":
            return (self._folder / "asked").exists()
        if self._phase == "connect":
            return bool(self._armed_at) and connecting(self.port) > self._filled
        return self._hung.is_set()

    def _fill(self) -> None:
        """Fill the queue of connections that nobody accepts any more."""
        for _ in range(24):
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex(self._listener.getsockname())
            self._passing.append(waiting)
        self._filled = connecting(self.port)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while not (self._armed_at and self._phase == "connect"):
                near = self._listener.accept()[0]
                self._passing.append(near)
                if self._armed_at:
                    threading.Thread(target=self._hold, args=(near,), daemon=True).start()
                    continue
                far = socket.create_connection(("127.0.0.1", self._to))
                self._passing.append(far)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_pump, args=(one, other), daemon=True).start()

    def _hold(self, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            near.recv(1)
            self._hung.set()


def connecting(port: int) -> int:
    """Return how many connections to `port` are asked for and not answered. Source: Linux, proc_net_tcp.rst."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(line[2].endswith(f":{port:04X}") and line[3] == "02" for line in lines)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            target.sendall(piece)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def started(stage: Stage, *words: str) -> Iterator[subprocess.Popen[str]]:
    folder = stage.folder.path
    options = ("--request-timeout", "60", "--credentials-dir", str(folder))
    process = subprocess.Popen(
        [sys.executable, "-c", COMMAND, *stage.apply_words(*options, *words)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={key: value for key, value in os.environ.items() if not key.startswith("RECONCILER_")},
    )
    try:
        yield process
    finally:
        process.kill()
        (folder / "asked").unlink(missing_ok=True)
        (folder / "resolves").unlink(missing_ok=True)


def ends_in_time(process: subprocess.Popen[str], asked: Asked) -> None:
    wait_until(lambda: asked() or process.poll() is not None, "the run hangs", 60)
    assert process.poll() is None, "".join(process.communicate())
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert time.monotonic() - began < LIMIT_SECONDS, said
    assert (process.returncode, "Traceback" in said) == (143, False), said


QUICK = {
    "Lease": ("lookup", "TLS"),
    "Deployment": ("connect", "body"),
    "Prometheus": ("lookup", "headers"),
    "pod picker": ("connect", "body"),
    "push gateway": ("TLS", "headers"),
}
"""In which steps whose exchange hangs in `make test`: in two each, each step with some; `make soak` has the others."""


def steps(peers: Iterable[str], phases: Sequence[str]) -> list[Any]:
    """Return each peer with each step of an exchange."""
    return [
        pytest.param(peer, phase, id=f"{peer}-{phase}", marks=() if phase in QUICK[peer] else pytest.mark.soak)
        for peer in peers
        for phase in phases
    ]


@pytest.mark.parametrize(("write", "phase"), steps(WRITES, ["lookup", "connect", "TLS", "body"]))
def test_sigterm_while_a_write_hangs(stage: Stage, write: str, phase: str) -> None:
    east = stage.proxies["east"]
    gate = Gate(int(east.url.rpartition(":")[2]), phase, stage.folder.path)
    fault = faults.before(lambda _: gate.arm(), forward=False)
    hung = threading.Event()
    if phase == "body":
        stall = faults.stall()
        fault = lambda exchange: (hung.set(), stall(exchange))  # type: ignore[assignment,return-value]  # noqa: E731
    east.rule(fault, matching=WRITES[write], times=None)
    _connect_through(stage, gate)
    with gate.open(), started(stage) as process:
        ends_in_time(process, hung.is_set if phase == "body" else gate.asked)
    assert stage.holders()["west"] == ""


def _connect_through(stage: Stage, gate: Gate) -> None:
    """Have `east` reached by a name, through the gate."""
    path = stage.folder.path / "through-gate.yaml"
    write_kubeconfig(path, {"east": stage.proxies["east"].access()})
    kubeconfig = yaml.safe_load(path.read_text())
    (cluster,) = (one["cluster"] for one in kubeconfig["clusters"])
    cluster |= {"server": f"https://east.hanging:{gate.port}", "tls-server-name": "127.0.0.1"}
    path.write_text(yaml.safe_dump(kubeconfig))
    file = stage.folder.path / "policies" / "all.yaml"
    documents = list(yaml.safe_load_all(file.read_text()))
    for document in documents:
        if document["kind"] == "Fleet":
            document["spec"]["clusters"][0]["connection"] = {"kubeconfig": str(path)}
    file.write_text(yaml.safe_dump_all(documents, sort_keys=False))


@contextlib.contextmanager
def hanging_peer(phase: str, folder: Path) -> Iterator[tuple[str, int, Asked]]:
    """Yield scheme and host, port, and whether somebody hangs there."""
    if phase == "lookup":
        yield "http://peer.hanging", 80, (folder / "asked").exists
        return
    starts = {"headers": b"HTTP/1.1 200 OK\r\nX: ", "body": b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"}
    asked = threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, contextlib.ExitStack() as held:
        port = listener.getsockname()[1]
        if phase == "connect":
            for _ in range(4):
                waiting = held.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(("127.0.0.1", port))
            filled = connecting(port)
            yield "http://127.0.0.1", port, lambda: connecting(port) > filled
            return
        threading.Thread(target=_drip, args=(listener, starts.get(phase, b""), asked), daemon=True).start()
        yield f"http{'s' if phase == 'TLS' else ''}://127.0.0.1", port, asked.is_set


def _drip(listener: socket.socket, start: bytes, asked: threading.Event) -> None:
    with contextlib.suppress(OSError):
        client = listener.accept()[0]
        client.recv(10)
        asked.set()
        client.sendall(start)
        while start:
            time.sleep(0.1)
            client.sendall(b"x")
        time.sleep(90)


def with_metrics(documents: list[dict[str, Any]], url: str) -> None:
    documents[0]["spec"]["clusters"][0]["prometheus"] = {"url": url}
    criterion = {"metric": {"query": "requests", "atMost": 0, "window": "30m"}}
    (policy,) = (one for one in documents if one["metadata"]["name"] == "idle-dev")
    policy["spec"]["idleWhen"].append(criterion)


def with_picker(documents: list[dict[str, Any]], url: str) -> None:
    scheme, _, address = url.partition("://")
    host, _, port = address.partition(":")
    documents[0]["spec"]["podPickers"] = {"allowedHosts": [host]}
    (policy,) = (one for one in documents if one["metadata"]["name"] == "workers")
    http = {"scheme": scheme, "host": host, "port": int(port)}
    policy["spec"]["podPicker"] = {"http": http, "timeoutSeconds": 30, "maxRetries": 10}


PEERS: dict[str, Callable[[list[dict[str, Any]], str], None]] = {"Prometheus": with_metrics, "pod picker": with_picker}


@pytest.mark.parametrize(
    ("peer", "phase"), steps([*PEERS, "push gateway"], ["lookup", "connect", "TLS", "headers", "body"])
)
def test_sigterm_while_a_peer_hangs(stage: Stage, peer: str, phase: str) -> None:
    with hanging_peer(phase, stage.folder.path) as (server, port, asked):
        url = f"{server}:{port}"
        words = ["--push-gateway", url] if peer == "push gateway" else []
        if peer in PEERS:
            documents = list(yaml.safe_load_all((stage.folder.path / "policies" / "all.yaml").read_text()))
            PEERS[peer](documents, url)
            (stage.folder.path / "policies" / "all.yaml").write_text(yaml.safe_dump_all(documents, sort_keys=False))
        with started(stage, *words) as process:
            ends_in_time(process, asked)
    assert set(stage.holders().values()) == {""}
