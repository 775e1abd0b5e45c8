"""What is said on stderr while a run reads and writes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.cli.progress import Progress, run_progress
from reconciler.cli.run_options import RunOptions
from reconciler.observe.clusters import ReadStep, observe
from reconciler.pipeline import Stage
from reconciler.policy.load import read_policies
from tests.pipeline.calls import Folder
from tests.plans import a_plan, a_wake, an_idle

NOW = "2026-11-20T22:00:00Z"
NOW_TIME = datetime(2026, 11, 20, 22, tzinfo=UTC)


def read_two_clusters(shown: Progress) -> None:
    shown.stage(Stage.OBSERVE)
    shown.reading(ReadStep("east", "services", 3))
    shown.reading(ReadStep("west", error="no connection, expected an API server"))
    shown.reading(ReadStep("east", "pods", 4))
    shown.reading(ReadStep("east"))
    shown.stage(Stage.DECIDE)


def write_two_objects(shown: Progress) -> None:
    plan = a_plan(a_wake("a"), an_idle("b"))
    first, second = shown.counted(lambda plan: plan.actions)(plan)
    shown.writing(first, Outcome(first.id, OutcomeStatus.APPLIED))
    shown.writing(second, Outcome(second.id, OutcomeStatus.STALE, "replicas are 4, expected 3"))


def test_json_lines_one_for_each_cluster_and_each_action(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress("json")
    read_two_clusters(shown)
    write_two_objects(shown)
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in err.splitlines()]
    assert out == ""
    assert all(line.pop("seconds") >= 0 for line in lines[:2])
    assert lines == [
        {
            "cluster": "west",
            "status": "unknown",
            "message": "no connection, expected an API server",
            "lists": 0,
            "objects": 0,
        },
        {"cluster": "east", "status": "read", "lists": 2, "objects": 7},
        {"action": 1, "verb": "wake", "object": "eu-west/dev-a/Deployment/a", "status": "applied"},
        {
            "action": 2,
            "verb": "idle",
            "object": "eu-west/dev-a/Deployment/b",
            "status": "stale",
            "message": "replicas are 4, expected 3",
        },
    ]


def lines_of_plain(capsys: pytest.CaptureFixture[str], shown: Progress, enough: int) -> list[str]:
    """Return what it said once that are so many lines; its tests hang no longer than half a minute."""
    said, until = "", time.monotonic() + 30
    while said.count("\n") < enough and time.monotonic() < until:
        time.sleep(0.01)
        said += capsys.readouterr().err
    shown.close()
    return said.splitlines()


def test_plain_lines_say_now_and_then_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    reading = Progress("plain", every=0.05)
    reading.stage(Stage.OBSERVE)
    reading.reading(ReadStep("east", "services", 3))
    reading.reading(ReadStep("west", error="no connection"))
    first, second, *_ = lines_of_plain(capsys, reading, 2)
    assert first == "0 clusters read, 3 objects in 1 list; reading east; unknown: west (0s)"
    assert second == first
    writing = Progress("plain", every=0.05)
    write_two_objects(writing)
    writing.stage(Stage.APPLY)
    assert lines_of_plain(capsys, writing, 1)[0] == "1 of 2 changes applied, 1 not (0s)"


def test_plain_lines_say_nothing_of_a_short_run_and_while_somebody_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    short = Progress("plain")
    read_two_clusters(short)
    write_two_objects(short)
    short.close()
    asked = Progress("plain", every=0.01)
    asked.stage(Stage.APPROVE)
    time.sleep(0.1)
    asked.close()
    assert capsys.readouterr() == ("", "")


def test_a_second_reading_counts_from_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress("json")
    for _ in range(2):
        read_two_clusters(shown)
    objects = [json.loads(line)["objects"] for line in capsys.readouterr().err.splitlines()]
    assert objects == [0, 7, 0, 7]


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for options in (
        RunOptions(path="", now=NOW_TIME, quiet=True, progress="json"),
        RunOptions(path="", now=NOW_TIME, progress="none"),
    ):
        with run_progress(options) as (_, shown):
            read_two_clusters(shown)
            write_two_objects(shown)
    assert capsys.readouterr() == ("", "")


def test_the_reading_tells_each_list_and_how_each_cluster_ended(quickstart: Folder) -> None:
    policies = read_policies(str(quickstart.path / "policies"))
    opened = open_snapshot(quickstart.path / "snapshot", ["eu-west", "us-east"], lambda pods, count, _: pods[:count])
    steps: list[ReadStep] = []
    state = observe(policies, opened.backends, steps.append)
    ends = {step.cluster: step.error for step in steps if not step.what}
    assert ends == {"eu-west": "", "us-east": "", "ap-south": "not opened"}
    for name in ("eu-west", "us-east"):
        lists = {step.what: step.objects for step in steps if step.cluster == name and step.what}
        assert lists["services"] == len(state.clusters[name].services)
        assert steps.index(ReadStep(name)) == max(n for n, step in enumerate(steps) if step.cluster == name)


def test_a_snapshot_is_read_without_a_word(quickstart: Folder) -> None:
    for form in ("plain", "json"):
        said = quickstart.plan(NOW, "--progress", form)
        assert (said.code, said.err) == (0, "")


def test_json_is_there_where_it_is_asked_for(quickstart: Folder) -> None:
    arguments = ("apply", "policies", "--snapshot", "snapshot", "--now", NOW, "--auto-approve")
    said = quickstart.call(*arguments, "--progress", "json")
    lines = [json.loads(line) for line in said.err.splitlines()]
    assert [line["status"] for line in lines] == ["applied"] * 14
    assert quickstart.call(*arguments).err == ""


TALK = """
import sys
from reconciler.cli.output import say
from reconciler.cli.progress import run_progress
from tests.cli.test_progress import NOW_TIME, ReadStep, RunOptions, Stage, write_two_objects
with run_progress(RunOptions(path="", now=NOW_TIME, progress="auto")) as (_, shown):
    shown.stage(Stage.OBSERVE)
    shown.reading(ReadStep("east", "services", 3))
    sys.stdin.readline()
    say("warning: something")
    write_two_objects(shown)
    shown.stage(Stage.APPLY)
    sys.stdin.readline()
"""


def on_a_terminal(repository: Path, *waits: bytes, **variables: str) -> str:
    """Return what a run says on its stderr, which is a terminal; it goes on each time that one of `waits` was said."""
    own, theirs = pty.openpty()
    unset = ("NO_COLOR", "CI", "TERM", "COLUMNS")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    environment |= {"TERM": "xterm", "COLUMNS": "100", **variables}
    said = subprocess.Popen(
        [sys.executable, "-c", TALK], stdin=subprocess.PIPE, stderr=theirs, cwd=repository, env=environment
    )
    os.close(theirs)
    seen, left = b"", [*waits, b""]
    assert said.stdin is not None
    try:
        while True:
            if left and left[0] in seen:
                said.stdin.write(b"\n")
                said.stdin.flush()
                left.pop(0)
            seen += os.read(own, 65536)
    except OSError:  # the other end is closed
        os.close(own)
    said.stdin.close()
    assert said.wait() == 0
    return seen.decode()


def test_a_line_on_a_terminal_that_is_wiped_off_again(repository: Path) -> None:
    seen = on_a_terminal(repository, b"reading east", b"##] 1 of 2 changes applied, 1 not")
    assert "\r\x1b[2K0 clusters read, 3 objects in 1 list; reading east (" in seen
    assert "s)\r\x1b[2Kwarning: something\r\n" in seen
    assert "\r\x1b[2K[########################] 1 of 2 changes applied, 1 not (" in seen
    assert seen.isascii()
    assert seen.endswith("\r\x1b[2K")


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"CI": "true"}], ids=str)
def test_plain_text_on_a_terminal_that_wants_it(repository: Path, variable: dict[str, str]) -> None:
    assert on_a_terminal(repository, b"", **variable) == "warning: something\r\n"
