"""What verbs say of a cluster that cannot be asked: never that nothing is there."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.kubernetes.test_connection import a_kubeconfig
from tests.way.calls import Folder

FLEET = """\
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {{name: test}}
spec:
  home: east
  clusters: [{{name: east, connection: {{kubeconfig: {kubeconfig}}}}}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A Fleet of one cluster at a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    kubeconfig = a_kubeconfig(tmp_path / "config", {"token": "t"}, {"server": f"https://127.0.0.1:{port}"})
    made = Folder(tmp_path)
    made.write("policies/fleet.yaml", FLEET.format(kubeconfig=kubeconfig))
    return made


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param(["plan"], 1, "the connection was refused", id="plan"),
        pytest.param(["apply", "--auto-approve"], 1, "the connection was refused", id="apply"),
        pytest.param(["wake", "east/shop"], 1, "east/shop: cluster east cannot be read: ", id="wake"),
        pytest.param(["restore", "east/shop", "--auto-approve"], 1, "the connection was refused", id="restore"),
        pytest.param(["explain", "east/shop/Deployment/web"], 1, "as far as can be seen: ", id="explain"),
        pytest.param(["rank", "east/shop/Deployment/web"], 64, 'cluster "east" cannot be looked at: ', id="rank"),
    ],
)
def test_a_cluster_that_refuses_connections(folder: Folder, arguments: list[str], code: int, words: str) -> None:
    said = folder.call(*arguments)
    assert said.code == code
    assert words in said.out + said.err
    assert "Traceback" not in said.err


def test_sigterm_while_a_cluster_hangs_ends_the_reading(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asked = threading.Event()

        def hang() -> None:
            with listener.accept()[0] as client:
                client.recv(10)
                asked.set()
                time.sleep(60)

        threading.Thread(target=hang, daemon=True).start()
        server = f"http://127.0.0.1:{listener.getsockname()[1]}"
        kubeconfig = a_kubeconfig(tmp_path / "config", {"token": "t"}, {"server": server})
        made = Folder(tmp_path)
        made.write("policies/fleet.yaml", FLEET.format(kubeconfig=kubeconfig))
        run = subprocess.Popen(
            [sys.executable, "-m", "reconciler", "apply", "--auto-approve", "--timeout", "50"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "RECONCILER_REQUEST_TIMEOUT": "40"},
        )
        assert asked.wait(30)
        began = time.monotonic()
        run.send_signal(signal.SIGTERM)
        out, _ = run.communicate(timeout=60)
        assert run.returncode == 143
        assert b"Unknown: east: get /apis: no answer in time" in out
        assert time.monotonic() - began < 20  # the request alone would take forty
