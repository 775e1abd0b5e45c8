"""What verbs say of a cluster that cannot be asked: never that nothing is there."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.backends.kubernetes.kubeconfigs import a_kubeconfig
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import fleet
from tests.real.cluster import wait_until


def reached_by(kubeconfig: str) -> str:
    return fleet([f"{{name: east, connection: {{kubeconfig: {kubeconfig}}}}}"], name="test", home="east")


@pytest.fixture(autouse=True)
def kubeconfigs_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Fleets here name kubeconfigs beside their policies."""
    monkeypatch.setenv("RECONCILER_CREDENTIALS_DIR", str(tmp_path))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A Fleet of one cluster at a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    kubeconfig = a_kubeconfig(tmp_path / "config", {"token": "t"}, {"server": f"https://127.0.0.1:{port}"})
    made = Folder(tmp_path)
    made.write("policies/fleet.yaml", reached_by(kubeconfig))
    return made


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["plan"], 1, "the connection was refused", id="plan"),
        pytest.param(["apply", "--auto-approve"], 1, "the connection was refused", id="apply"),
        pytest.param(["wake", "east/shop"], 1, "east/shop: cluster east cannot be read: ", id="wake"),
        pytest.param(["restore", "east/shop", "--auto-approve"], 1, "the connection was refused", id="restore"),
        pytest.param(["explain", "east/shop/Deployment/web"], 1, "cluster east cannot be read: ", id="explain"),
        pytest.param(["rank", "east/shop/Deployment/web"], 64, 'cluster "east" cannot be looked at: ', id="rank"),
    ],
)
def test_a_cluster_that_refuses_connections(
    folder: Folder, arguments: list[str], code: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RECONCILER_REQUEST_TIMEOUT", "1")  # it is tried again for as long
    said = folder.call(*arguments)
    assert said.code == code
    assert words in said.out + said.err
    assert "Traceback" not in said.err


BLOCKED = """
import socket, sys, threading
from pathlib import Path
from reconciler.__main__ import main

def blocked(*_, **__):
    Path("asked").touch()
    threading.Event().wait(90)

if sys.argv.pop(1) == "lookup":
    socket.getaddrinfo = blocked
sys.exit(main())
"""


@dataclass
class Hanging:
    """Where a run hangs: `server` is its address in the kubeconfig; `asked`: it hangs now."""

    server: str
    asked: Callable[[], bool]


@contextlib.contextmanager
def in_lookup(folder: Path) -> Iterator[Hanging]:
    yield Hanging("https://api.hanging:6443", (folder / "asked").exists)


def dripping(start: bytes) -> Any:
    @contextlib.contextmanager
    def hanging(folder: Path) -> Iterator[Hanging]:
        asked = threading.Event()

        def serve(client: socket.socket) -> None:
            with contextlib.suppress(OSError), client:
                client.recv(10)
                asked.set()
                client.sendall(start)
                for _ in range(900):
                    time.sleep(0.1)
                    client.sendall(b"x")

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        with socket.create_server(("127.0.0.1", 0)) as listener:
            threading.Thread(target=accept, daemon=True).start()
            port = listener.getsockname()[1]
            yield Hanging(f"http://127.0.0.1:{port}", asked.is_set)

    return hanging


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        pytest.param(in_lookup, "its host name was not looked up in time", id="lookup"),
        pytest.param(dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"), "in time|too long", id="body"),
    ],
)
def test_sigterm_ends_the_process_whatever_hangs(tmp_path: Path, phase: Any, words: str) -> None:
    """Each phase of an exchange is in tests/http_room/test_client.py."""
    with phase(tmp_path) as hanging:
        kubeconfig = a_kubeconfig(tmp_path / "config", {"token": "t"}, {"server": hanging.server})
        made = Folder(tmp_path)
        made.write("policies/fleet.yaml", reached_by(kubeconfig))
        name = phase.__name__.removeprefix("in_")
        run = subprocess.Popen(
            [sys.executable, "-c", BLOCKED, name, "apply", "--auto-approve", "--timeout", "80"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "RECONCILER_REQUEST_TIMEOUT": "70"},
        )
        try:
            wait_until(hanging.asked, "the run hangs", 30)
            run.send_signal(signal.SIGTERM)
            out, err = run.communicate(timeout=60)  # what hangs does so for longer
        finally:
            run.kill()
        assert (run.returncode, b"Traceback" in err) == (143, False)
        assert re.search(
            f"Unknown: 1 cluster [(]east[)], unchanged\n  [?] east  .*({words}|stopped by SIGTERM)", out.decode()
        )
