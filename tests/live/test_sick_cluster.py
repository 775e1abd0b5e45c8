"""A cluster that is sick in whatever way: the wakes of the others are done, in time, and the run says what it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from reconciler.backends.kubernetes.pages import MOST_KINDS
from tests.live.stage import Stage
from tests.real import faults
from tests.real.proxy import Exchange, Fault, Matching, Request, is_any, is_write
from tests.real.worlds import wait_until

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
KUBE_SYSTEM = "/api/v1/namespaces/kube-system"


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


def same_page_again() -> Fault:
    return changed(lambda said: said["metadata"].update({"continue": "once-more"}))


def many_kinds(groups: int, kinds: int) -> Fault:
    """Aggregated discovery with that many more groups, each with so many custom kinds that have a scale."""

    def change(said: dict[str, Any]) -> None:
        said["items"] += [_group(f"g{number}.example", kinds) for number in range(groups)]

    return changed(change)


def _group(name: str, kinds: int) -> dict[str, Any]:
    resources = [
        {
            "resource": f"k{number}s",
            "responseKind": {"group": name, "version": "v1", "kind": f"K{number}"},
            "scope": "Namespaced",
            "verbs": ["get", "list"],
            "subresources": [{"subresource": "scale", "verbs": ["get"]}],
        }
        for number in range(kinds)
    ]
    return {"metadata": {"name": name}, "versions": [{"version": "v1", "resources": resources}]}


def is_list(request: Request) -> bool:
    return request.method == "GET" and "limit" in request.query


def is_list_of_three(request: Request) -> bool:
    """All that are too long are read up to the bound, again and again with fewer objects: three show what all do."""
    kinds = ("deployments", "statefulsets", "services")
    return is_list(request) and request.path.rpartition("/")[2] in kinds


def is_lease(request: Request) -> bool:
    return request.path.endswith("/leases/reconciler")


def is_discovery(request: Request) -> bool:
    return request.path == "/apis"


@pytest.mark.parametrize(
    ("fault", "matching", "words", "asked"),
    [
        pytest.param(faults.drip_headers(), is_any, "west", 20, id="everything drips"),
        pytest.param(faults.drip_headers(), is_lease, "west", 100, id="the Lease drips"),
        pytest.param(faults.hang(), is_list, "west", 100, id="lists hang"),
        pytest.param(faults.bomb(1200 << 20), is_list_of_three, "longer than 32 MiB", 300, id="gzip bomb of 1.2 MB"),
        pytest.param(faults.flood(500 << 20), is_list_of_three, "longer than 32 MiB", 300, id="plain body of 500 MB"),
        pytest.param(pages_without_end(), is_list, "pages", 1100, id="pages without end"),
        pytest.param(same_page_again(), is_list, "goes on where it was already", 100, id="the same page again"),
        pytest.param(
            many_kinds(1500, 2),
            is_discovery,
            f"custom kinds with a scale, expected at most {MOST_KINDS}; none is read",
            100,
            id="3000 kinds of 1500 groups",
        ),
    ],
)
def test_the_others_wake_in_time(stage: Stage, fault: Fault, matching: Matching, words: str, asked: int) -> None:
    stage.proxies["west"].rule(fault, matching=matching, times=None)
    seconds = "8" if words == "west" else "30"  # what is refused for what it is must not be given up before
    began = time.monotonic()
    run = subprocess.run(
        [sys.executable, "-c", MEASURED, *stage.apply_words("--timeout", "90", "--request-timeout", seconds)],
        cwd=stage.folder.path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert run.returncode == 6, run.stdout
    assert words in run.stdout
    assert "Traceback" not in run.stdout
    assert "unexpected" not in run.stdout
    assert time.monotonic() - began < 80
    assert int((stage.folder.path / "peak").read_text()) < 300 << 10
    assert stage.objects()[DOCS]["spec"]["replicas"] == 2, run.stdout
    assert len(stage.proxies["west"].requests) < asked + 50


@pytest.mark.parametrize(
    "date", ["Fri, 01 Jan 99999999999999999999 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "yesterday"]
)
def test_a_cluster_that_does_not_know_the_time_is_written_like_the_other(stage: Stage, date: str) -> None:
    stage.proxies["west"].rule(faults.dated(date), matching=is_any, times=None)
    said = stage.apply()
    assert (said.code, "Traceback" in said.out + said.err) == (0, False), said
    assert stage.objects()[DOCS]["spec"]["replicas"] == 2
    assert len(stage.proxies["west"].writes()) > 3


def test_a_write_that_hangs_keeps_no_decrease_elsewhere_waiting(stage: Stage) -> None:
    asked, answers = threading.Event(), threading.Event()
    hanging = faults.before(lambda _: asked.set() or answers.wait(120))
    stage.proxies["west"].rule(
        hanging, matching=lambda one: is_write(one) and "/namespaces/shop/replicasets" in one.path, times=None
    )
    idle = {("dev", "Deployment", "api"), ("dev", "StatefulSet", "api-store"), ("ci", "StatefulSet", "runner")}
    run = stage.start(*stage.apply_words("--request-timeout", "120"))

    def running(cluster: str) -> set[tuple[str, str, str]]:
        return {
            key[1:] for key, one in stage.objects().items() if key[0] == cluster and one.get("spec", {}).get("replicas")
        }

    try:
        assert asked.wait(60)
        wait_until(lambda: not running("east") & idle, "east idles what it should", 60)
        assert ("shop", "ReplicaSet", "web") not in running("west")
    finally:
        answers.set()
    said = run.ended(120)
    assert said.code == 0, said
    assert ("shop", "ReplicaSet", "web") in running("west")


def test_a_clone_gets_no_more_than_its_due_wakes_and_neither_does_the_other(stage: Stage) -> None:
    uids = {name: plane.api.get(KUBE_SYSTEM)["metadata"]["uid"] for name, plane in stage.planes.items()}
    shown = faults.replaced(uids["west"].encode(), uids["east"].encode())
    stage.proxies["west"].rule(shown, matching=lambda request: request.path == KUBE_SYSTEM, times=None)
    before = stage.objects()
    said = stage.apply()
    assert said.code == 6, said
    assert f"kube-system has uid {uids['east']}, as west has, expected each cluster once" in said.out
    after = stage.objects()
    replicas = {
        key: one["spec"].get("replicas") for key, one in after.items() if key[2] in ("Deployment", "ReplicaSet")
    }
    assert replicas.pop(DOCS) == 2
    assert replicas == {key: before[key]["spec"].get("replicas") for key in replicas}
