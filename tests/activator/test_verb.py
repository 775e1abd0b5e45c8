"""`reconciler activator` as a process: what it may have, and what it keeps for itself."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from reconciler.activator.connection_limits import ActivatorSettings
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.protocols import RequestSettings
from reconciler.cli.activator import activator_command, within_descriptors


def test_a_process_that_lives_long_collects_garbage(tmp_path: Path) -> None:
    """It is off for verbs that end soon. What an hour without API server raises is made of cycles: 86 MB."""
    program = (
        "import asyncio, gc, sys\n"
        "def run(work):\n"
        "    work.close()\n"
        "    print('collects' if gc.isenabled() else 'collects nothing')\n"
        "asyncio.run = run\n"
        "sys.argv = ['reconciler', 'activator', '--pod-name=a', '--pod-uid=u', '--pod-ips=127.0.0.1']\n"
        "from reconciler.__main__ import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "collects\n"), ended.stderr


def test_what_clients_wait_for_has_no_rate_and_wakes_have_requests_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[ApiClient] = []
    original = ApiClient.__init__

    def noted(self: ApiClient, connection: Any, settings: RequestSettings) -> None:
        assert settings.qps == 0
        made.append(self)
        original(self, connection, settings)

    monkeypatch.setattr(ApiClient, "__init__", noted)
    monkeypatch.setattr("reconciler.cli.activator.asyncio.run", lambda work: work.close())
    flags = ["--pod-name=a", "--pod-uid=u", "--pod-ips=127.0.0.1"]
    assert CliRunner().invoke(activator_command(), flags).exit_code == 0
    assert len(made) == 2
    assert CliRunner().invoke(activator_command(), [*flags, "--qps=50"]).exit_code != 0


@pytest.mark.parametrize(
    ("hard", "taken", "limits"),
    [
        pytest.param(900_000, 900_000, (10_000, 5_000, 10_000), id="all there are"),
        pytest.param(resource.RLIM_INFINITY, 50_512, (10_000, 5_000, 10_000), id="enough where there is no limit"),
        pytest.param(25_512, 25_512, (2_083, 1_041, 9_375), id="half of what is needed"),
        pytest.param(512, 512, (21, 10, 96), id="fewer than are kept: half of them"),
    ],
)
def test_some_descriptors_are_always_left_for_the_api_server(
    hard: int, taken: int, limits: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else clients that wait take them all, and nothing is woken, and the Lease is lost."""
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_to.append(limits))
    found = within_descriptors(ActivatorSettings(held=10_000, spliced=5_000, listeners=10_000), 1)
    assert set_to == [(taken, hard)]
    assert (found.held, found.spliced, found.listeners) == limits
    used = 2 * (found.held + found.spliced) + 2 * found.listeners
    assert taken - used >= min(512, taken // 2)
