"""`make demo`: the main job on the quickstart, as somebody sees it who has just checked the repository out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_the_demo_shows_tests_that_pass_one_that_fails_and_a_plan_that_is_applied(repository):
    """It works on copies: what it plans and applies is not that of the repository."""
    example = repository / "examples" / "quickstart"
    before = {path: path.read_bytes() for path in example.rglob("*") if path.is_file()}
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", str(example / "demo.sh")], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    told = [
        "policies: valid, ",
        "3 cases: 3 passed, 0 failed.",
        "FAIL  policies/idling_test.yaml:10  the api is awake on Monday at seven",
        "    expected  replicas 3, awake",
        "    got       replicas 0, idle",
        "3 cases: 2 passed, 1 failed.",
        "exit code 1: a case fails",
        "Plan: 1 to create, 6 to change",
        "Applied: 7 of 7 changes",
        "No changes. 1 workload waits for minAwake for another",
    ]
    places = [done.stdout.find(words) for words in told]
    assert -1 not in places, dict(zip(told, places, strict=True))
    assert places == sorted(places)
    assert {path: path.read_bytes() for path in example.rglob("*") if path.is_file()} == before
