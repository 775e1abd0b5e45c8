"""What a run ends with, without and with --fail-on, and the one line on stderr that says what it means."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.errors import FailOn
from tests.cases import cases
from tests.cli.situations import (
    NOW,
    all_lost,
    in_conflict,
    limited,
    lost,
    malformed,
    nothing,
    overdue,
    shut,
    without_metrics,
)
from tests.pipeline.calls import Folder

LOOK = ("--snapshot", "snapshot", "--now", NOW)
EVERYTHING = ",".join(FailOn)
HELD = "limits hold back 3 changes and 1 metadata update"
PENDING = "exit code 2: 7 changes and 7 metadata updates pending"
PLAN, DIFF, APPLY = ("plan", "policies"), ("diff", "policies"), ("apply", "policies", "--auto-approve")
MORNING = ("--now", "2026-11-23T07:00:00Z")
RUNNERS = ("--policy", "idle-runners", "--detailed-exitcode")


@cases(
    "before verb more code failing line",
    ("plan, all well", nothing, PLAN, ("--fail-on", EVERYTHING), 0, 0, ""),
    ("plan, changes pending", nothing, PLAN, ("--detailed-exitcode",), 2, 2, PENDING),
    ("diff, changes pending", nothing, DIFF, ("--detailed-exitcode",), 2, 2, PENDING),
    ("diff, all well", nothing, DIFF, ("--fail-on", EVERYTHING), 0, 0, ""),
    ("apply, all well", nothing, APPLY, ("--fail-on", EVERYTHING), 0, 0, None),
    ("apply, out of time", nothing, APPLY, ("--timeout", "0"), 1, 1, "exit code 1: nothing was done"),
    ("plan, limits hold back", limited, PLAN, (), 0, 4, f"notice: {HELD}"),
    ("diff, limits hold back", limited, DIFF, (), 0, 4, f"notice: {HELD}"),
    ("apply, limits hold back", limited, APPLY, (), 0, 4, f"notice: {HELD}"),
    ("plan, one policy held back", shut, PLAN, RUNNERS, 2, 4, "exit code 2: limits hold back 2 changes"),
    ("plan, no metrics", without_metrics, PLAN, (), 0, 6, "notice: 1 query unknown"),
    ("plan, one cluster unknown", lost, PLAN, (), 0, 6, "notice: 1 cluster unknown"),
    ("apply, one cluster unknown", lost, APPLY, (), 0, 6, "notice: 1 cluster unknown"),
    ("plan, policies in conflict", in_conflict, PLAN, (), 0, 6, "notice: 1 conflict of policies"),
    ("plan, all clusters unknown", all_lost, PLAN, (), 1, 1, None),
    ("apply, all clusters unknown", all_lost, APPLY, (), 1, 1, None),
    ("plan, wake overdue", overdue, PLAN, MORNING, 6, 6, None),
    ("apply, wake overdue", overdue, APPLY, MORNING, 6, 6, None),
    ("plan, malformed policy", malformed, PLAN, (), 3, 3, None),
)
def test_what_a_run_ends_with_and_says_last(quickstart: Folder, before, verb, more, code, failing, line) -> None:
    before(quickstart)
    copy = Folder.copied(quickstart.path, quickstart.path.parent / "again")
    said = quickstart.call(*verb, *LOOK, *more)
    assert (said.code, line in (None, last_line(said.err))) == (code, True), said
    if failing != code:
        assert copy.call(*verb, *LOOK, *more, "--fail-on", EVERYTHING).code == failing


def last_line(text: str) -> str:
    return text.splitlines()[-1] if text else ""


@cases(
    "before arguments code line",
    ("held back, failed on", limited, (*PLAN, *LOOK, "--fail-on", "held-back,unknown"), 4, f"exit code 4: {HELD}"),
    ("held back, let pass", limited, (*PLAN, *LOOK, "--fail-on", "unknown"), 0, f"notice: {HELD}"),
    (
        "query unknown, failed on",
        without_metrics,
        (*PLAN, *LOOK, "--fail-on", "unknown"),
        6,
        "exit code 6: incomplete: 1 query unknown",
    ),
    (
        "conflict, failed on",
        in_conflict,
        (*PLAN, *LOOK, "--fail-on", "conflict"),
        6,
        "exit code 6: incomplete: 1 conflict of policies",
    ),
    ("status, one cluster unknown", lost, ("status", *LOOK), 0, None),
    ("status, all clusters unknown", all_lost, ("status", *LOOK), 1, None),
    ("validate, policies in conflict", in_conflict, ("validate", "policies"), 3, None),
    ("unknown word to fail on", nothing, (*PLAN, "--fail-on", "held-up"), 64, None),
)
def test_what_is_failed_on_and_verbs_that_fail_on_nothing(quickstart: Folder, before, arguments, code, line) -> None:
    before(quickstart)
    said = quickstart.call(*arguments)
    assert (said.code, line in (None, last_line(said.err))) == (code, True), said
    assert line is None or quickstart.call(*arguments, "-q").err == ""


@pytest.mark.parametrize(("before", "code"), [(nothing, 0), (limited, 4), (lost, 6)])
def test_what_a_saved_plan_left_undone_fails_it_too(
    quickstart: Folder, before: Callable[[Folder], None], code: int
) -> None:
    before(quickstart)
    assert quickstart.call(*PLAN, *LOOK, "--out", "plan.json").code == 0
    assert quickstart.call("apply", "plan.json", *LOOK, "--fail-on", EVERYTHING).code == code
