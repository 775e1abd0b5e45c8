"""A cluster that is sick in whatever way: the wakes of the others are done, in time, and the run says what it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from tests.live.stage import Stage
from tests.real import faults
from tests.real.proxy import Exchange, Fault, Matching, Request, is_any

MEASURED = """
import re, sys
from pathlib import Path
from reconciler.cli.app import run
code = run(sys.argv[1:])
Path("peak").write_text(re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text())[1])
sys.exit(code)
"""
"""The command line, which leaves its own largest size in KiB: `ru_maxrss` counts what its parent had when it forked.

Source: Linux, getrusage(2), proc(5).
"""
DOCS = ("east", "dev", "Deployment", "docs")  # somebody wants it awake


def changed(change: Callable[[dict[str, Any]], None]) -> Fault:
    """Let the real server answer, without `continue`, and change what it says."""

    def fault(exchange: Exchange) -> None:
        handler = exchange._handler
        handler.path = re.sub(r"[?&]continue=[^&]*", "", handler.path)
        with exchange.forwarded() as answer:
            body, status, kind = answer.read(), answer.status, answer.headers["Content-Type"]
        if status != 200:
            exchange.answer(status, body, {"Content-Type": kind})
            return
        said = json.loads(body)
        change(said)
        exchange.answer(status, json.dumps(said).encode(), {"Content-Type": kind})

    return fault


def pages_without_end() -> Fault:
    numbers = count()
    return changed(lambda said: said["metadata"].update({"continue": f"page-{next(numbers)}"}))


def is_list(request: Request) -> bool:
    return request.method == "GET" and "limit" in request.query


def is_list_of_services(request: Request) -> bool:
    """All that are too long are read up to the bound, again and again with fewer objects: one shows what all do."""
    return is_list(request) and request.path.endswith("/services")


@pytest.mark.parametrize(
    ("fault", "matching", "words", "asked"),
    [
        pytest.param(faults.drip_headers(), is_any, "west", 20, id="everything drips"),
        pytest.param(faults.bomb(1200 << 20), is_list_of_services, "longer than 32 MiB", 300, id="gzip bomb of 1.2 MB"),
        pytest.param(pages_without_end(), is_list, "pages", 1100, id="pages without end"),
    ],
)
def test_the_others_wake_in_time(stage: Stage, fault: Fault, matching: Matching, words: str, asked: int) -> None:
    stage.proxies["west"].rule(fault, matching=matching, times=None)
    seconds = "8" if words == "west" else "30"  # what is refused for what it is must not be given up before
    run = subprocess.run(
        [sys.executable, "-c", MEASURED, *stage.apply_words("--timeout", "180", "--request-timeout", seconds)],
        cwd=stage.folder.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=170,
    )
    assert run.returncode == 6, run.stdout
    assert words in run.stdout
    assert "Traceback" not in run.stdout
    assert "unexpected" not in run.stdout
    assert int((stage.folder.path / "peak").read_text()) < 300 << 10
    assert stage.objects()[DOCS]["spec"]["replicas"] == 2, run.stdout
    assert len(stage.proxies["west"].requests) < asked + 50
    events = stage.planes["east"].api.items("/api/v1/namespaces/reconciler/events")
    of_fleet = [(one["reason"], one["message"]) for one in events if one["involvedObject"]["kind"] == "Fleet"]
    is_unknown = matching is not is_list_of_services  # then all but Services is known
    assert [(reason, text[:6]) for reason, text in of_fleet] == [("ClusterUnknown", "west: ")] * is_unknown
