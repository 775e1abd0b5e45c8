"""What an apply shows: the plan once, then only what differs from it, what did not go as planned, and one summary."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tests.cases import cases
from tests.pipeline.calls import Folder, Said, Terminal

NOW = "2026-11-20T22:00:00Z"
APPLY = ("apply", "policies", "--snapshot", "snapshot", "--now", NOW)
RUNNER = "eu-west/ci/StatefulSet/runner"
API = "eu-west/dev-a/Deployment/api"


def replaced(folder: Folder, file: str, old: str, new: str) -> Callable[[], None]:
    def replace() -> None:
        path = folder.path / "snapshot" / file
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))

    return replace


def on_a_terminal(folder: Folder, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None], *more: str) -> Said:
    monkeypatch.setattr(sys, "stdin", Terminal("yes\n", meanwhile))
    return folder.call(*APPLY, *more)


@pytest.mark.parametrize("saved", [False, True], ids=["fresh plan", "saved plan"])
@pytest.mark.parametrize(
    ("stated", "left"), [((), 2), (("--now", "2026-11-23T05:40:00Z"), 0)], ids=["by the clock", "--now"]
)
def test_an_idle_whose_schedule_ends_while_somebody_is_asked_is_not_done(quickstart, monkeypatch, saved, stated, left):
    times = [datetime(2026, 11, 23, 5, 40, tzinfo=UTC)]
    monkeypatch.setattr("reconciler.cli.option_values.datetime", SimpleNamespace(now=lambda _: times[-1]))
    planned = ("--policy", "idle-runners", *stated)
    if saved:
        assert quickstart.call("plan", "policies", "--snapshot", "snapshot", *planned, "--out", "plan.json").code == 0
    monkeypatch.setattr(sys, "stdin", Terminal("yes\n", lambda: times.append(times[0] + timedelta(minutes=20))))
    without_policies = ("plan.json", "--policies", "policies/fleet.yaml", *stated)  # so that it asks
    said = quickstart.call("apply", "--snapshot", "snapshot", *(without_policies if saved else ("policies", *planned)))
    assert quickstart.replicas("eu-west", "ci", "StatefulSet", "runner") == left, said
    assert len(times) == 2


def test_with_auto_approve_the_plan_is_shown_once_and_then_one_summary(quickstart):
    said = quickstart.call(*APPLY, "--auto-approve")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith("Plan for Fleet quickstart")
    assert [said.out.count(f"~ {name} ") for name in (RUNNER, API)] == [1, 1]
    end = said.out.partition("\n\nApplied: ")[2]
    assert end.splitlines() == [
        "7 of 7 changes (1 create, 3 idle, 1 wake, 2 scale down), 7 of 7 metadata updates.",
        "Replicas: 9 fewer (eu-west 8, us-east 1), 7 more (us-east).",
    ]


def test_on_a_terminal_nothing_is_said_of_the_plan_under_the_locks_where_it_is_the_same(quickstart, monkeypatch):
    said = on_a_terminal(quickstart, monkeypatch, lambda: None)
    assert said.code == 0
    assert said.out.count(f"~ {RUNNER} ") == 1
    assert "Changed since" not in said.out
    assert said.out.endswith("Replicas: 9 fewer (eu-west 8, us-east 1), 7 more (us-east).\n")
    assert f"~ {RUNNER} " in said.err, "stdout is no terminal here, so whoever is asked reads the plan on stderr"


def test_what_changed_while_somebody_was_asked_is_shown_and_left_to_the_next_run(quickstart, monkeypatch):
    said = on_a_terminal(quickstart, monkeypatch, replaced(quickstart, "eu-west/ci.yaml", "replicas: 2", "replicas: 4"))
    assert said.code == 6
    end = said.out.partition("Changed since the plan was approved: 1 change\n\n")[2]
    assert end.splitlines()[:2] == [
        "IdlingPolicy idle-runners (policies/idling.yaml:19)",
        f"  ~ {RUNNER}  replicas  4 -> 0  idle  approved was replicas 2 -> 0; left to the next run",
    ]
    assert quickstart.replicas("eu-west", "ci", "StatefulSet", "runner") == 4
    assert quickstart.replicas("eu-west", "dev-a", "Deployment", "api") == 0, "the rest was approved as it is"


def test_what_is_no_longer_needed_is_shown(quickstart, monkeypatch):
    said = on_a_terminal(quickstart, monkeypatch, replaced(quickstart, "eu-west/ci.yaml", "replicas: 2", "replicas: 0"))
    assert f"  ~ {RUNNER}  replicas  2 -> 0  idle  no longer needed\n" in said.out
    assert said.code == 0


def test_another_form_is_whole_and_the_plan_is_read_on_stderr(quickstart, monkeypatch):
    said = on_a_terminal(quickstart, monkeypatch, lambda: None, "-o", "json", "-q")
    assert json.loads(said.out)["counts"]["applied"] == 14
    assert f"~ {RUNNER} " in said.err


@cases(
    "number code words",
    ("interrupt signal", signal.SIGINT, 130, "interrupted"),
    ("termination signal", signal.SIGTERM, 143, "terminated"),
)
def test_a_signal_at_the_prompt_ends_it_with_nothing_done(quickstart, monkeypatch, number, code, words):
    before = quickstart.objects()
    said = on_a_terminal(quickstart, monkeypatch, lambda: signal.raise_signal(number))
    assert (said.code, said.err.splitlines()[-1]) == (code, f"error: {words}; nothing was done")
    assert quickstart.objects() == before
