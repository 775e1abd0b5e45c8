"""A whole plan over 20 snapshot clusters, its rendering, and the start of the program."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from reconciler import api
from reconciler.plan.json import plan_in_parts
from reconciler.report.html import render_html
from reconciler.report.markdown import render_markdown
from reconciler.report.text import render_text
from tests.bench.measure import SHARES, Work, measured
from tests.bench.sized_input import write_nightly, write_snapshot

pytestmark = pytest.mark.bench
DEPLOYMENTS = 2_000
DAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
NIGHT = datetime(2026, 11, 20, 23, tzinfo=UTC)
RENDERERS = {
    "text": render_text,
    "JSON": lambda plan: "".join(plan_in_parts(plan)),
    "Markdown": render_markdown,
    "HTML": render_html,
}


@pytest.fixture(scope="module", params=[DEPLOYMENTS // share for share in SHARES])
def world(request, tmp_path_factory):
    """Policies, a snapshot, and how many Deployments are in it."""
    folder = tmp_path_factory.mktemp("world")
    return write_nightly(folder / "policies"), write_snapshot(folder / "snapshot", request.param), request.param


@pytest.mark.parametrize(("now", "changes"), [(DAY, False), (NIGHT, True)], ids=["nothing to change", "all to idle"])
def test_plan(benchmark, world, now, changes):
    policies, snapshot, count = world
    words = "all Deployments to idle" if changes else "nothing to change"
    work = Work(f"plan over 20 snapshot clusters, {words}", count, rounds=3)
    plan = measured(benchmark, work, lambda: api.plan(policies, snapshot=snapshot, now=now))
    assert sum(action.verb == "idle" for action in plan.actions) == (count if changes else 0)


# As in the program, which collects no garbage: passes of the collector over a larger heap would look like growth.
@pytest.mark.benchmark(disable_gc=True, timer=time.process_time)
@pytest.mark.parametrize("form", sorted(RENDERERS))
def test_rendering(benchmark, world, form):
    policies, snapshot, count = world
    plan = api.plan(policies, snapshot=snapshot, now=NIGHT)
    text = measured(benchmark, Work(f"rendering of a plan as {form}", count), lambda: RENDERERS[form](plan))
    assert "app-0" in text


PASS = "python -c pass"


def test_help(benchmark):
    started = measured(
        benchmark, Work("reconciler --help", None, PASS, 4, rounds=20), lambda: run("-m", "reconciler", "--help")
    )
    assert started.returncode == 0


def test_pass(benchmark):
    assert measured(benchmark, Work(PASS, rounds=20), lambda: run("-c", "pass")).returncode == 0


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
