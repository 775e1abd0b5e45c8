"""What a run ends with, without and with --fail-on, and the one line on stderr that says what it means."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reconciler.errors import FailOn
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


PLAN, DIFF, APPLY = ("plan", "policies"), ("diff", "policies"), ("apply", "policies", "--auto-approve")
MORNING = ("--snapshot", "snapshot", "--now", "2026-11-23T07:00:00Z")


@pytest.mark.parametrize(
    ("before", "arguments", "without", "failing"),
    [
        pytest.param(nothing, (*PLAN, *LOOK), 0, 0, id="changes"),
        pytest.param(nothing, (*PLAN, *LOOK, "--detailed-exitcode"), 2, 2, id="changes, in detail"),
        pytest.param(nothing, (*APPLY, *LOOK), 0, 0, id="applied"),
        pytest.param(limited, (*DIFF, *LOOK), 0, 4, id="held back, as a diff"),
        pytest.param(limited, (*APPLY, *LOOK), 0, 4, id="held back, the rest applied"),
        pytest.param(
            shut,
            (*PLAN, *LOOK, "--policy", "idle-runners", "--detailed-exitcode"),
            2,
            4,
            id="only held back, in detail",
        ),
        pytest.param(lost, (*PLAN, *LOOK), 0, 6, id="one cluster unknown"),
        pytest.param(lost, (*APPLY, *LOOK), 0, 6, id="one cluster unknown, the rest applied"),
        pytest.param(lost, ("status", *LOOK), 0, None, id="one cluster unknown, looked at"),
        pytest.param(all_lost, (*PLAN, *LOOK), 1, 1, id="all clusters unknown"),
        pytest.param(all_lost, (*APPLY, *LOOK), 1, 1, id="all clusters unknown, nothing applied"),
        pytest.param(all_lost, ("status", *LOOK), 1, None, id="all clusters unknown, looked at"),
        pytest.param(in_conflict, ("validate", "policies"), 3, None, id="two policies of equal priority, checked"),
        pytest.param(overdue, (*PLAN, *MORNING), 6, 6, id="a wake is overdue"),
        pytest.param(overdue, (*APPLY, *MORNING), 6, 6, id="a wake is overdue, the rest applied"),
        pytest.param(malformed, (*PLAN, *LOOK), 3, 3, id="malformed"),
        pytest.param(nothing, (*APPLY, *LOOK, "--timeout", "0"), 1, 1, id="no time"),
        pytest.param(nothing, (*PLAN, "--fail-on", "held-up"), 64, None, id="nothing to fail on"),
    ],
)
def test_what_a_situation_ends_with(
    quickstart: Folder,
    before: Callable[[Folder], None],
    arguments: tuple[str, ...],
    without: int,
    failing: int | None,
) -> None:
    before(quickstart)
    copy = Folder.copied(quickstart.path, quickstart.path.parent / "again")
    said = quickstart.call(*arguments)
    assert said.code == without, said
    if failing is not None:
        assert copy.call(*arguments, "--fail-on", EVERYTHING).code == failing


@pytest.mark.parametrize(("before", "code"), [(nothing, 0), (limited, 4), (lost, 6)])
def test_what_a_saved_plan_left_undone_fails_it_too(
    quickstart: Folder, before: Callable[[Folder], None], code: int
) -> None:
    before(quickstart)
    assert quickstart.call(*PLAN, *LOOK, "--out", "plan.json").code == 0
    assert quickstart.call("apply", "plan.json", *LOOK, "--fail-on", EVERYTHING).code == code


@pytest.mark.parametrize("verb", ["plan", "diff"])
def test_all_is_well(quickstart: Folder, verb: str) -> None:
    assert quickstart.call(verb, "policies", *LOOK).err == ""


@pytest.mark.parametrize(
    ("before", "arguments", "code", "line"),
    [
        (nothing, (*PLAN, "--detailed-exitcode"), 2, "exit code 2: 7 changes and 7 metadata updates pending"),
        (nothing, (*DIFF, "--detailed-exitcode"), 2, "exit code 2: 7 changes and 7 metadata updates pending"),
        (limited, PLAN, 0, f"notice: {HELD}"),
        (
            shut,
            (*PLAN, "--policy", "idle-runners", "--detailed-exitcode"),
            2,
            "exit code 2: limits hold back 2 changes",
        ),
        (limited, (*PLAN, "--fail-on", "held-back,unknown"), 4, f"exit code 4: {HELD}"),
        (limited, (*PLAN, "--fail-on", "unknown"), 0, f"notice: {HELD}"),
        (without_metrics, PLAN, 0, "notice: 1 query unknown"),
        (without_metrics, (*PLAN, "--fail-on", "unknown"), 6, "exit code 6: incomplete: 1 query unknown"),
        (lost, PLAN, 0, "notice: 1 cluster unknown"),
        (in_conflict, PLAN, 0, "notice: 1 conflict of policies"),
        (in_conflict, (*PLAN, "--fail-on", "conflict"), 6, "exit code 6: incomplete: 1 conflict of policies"),
        (limited, APPLY, 0, f"notice: {HELD}"),
        (nothing, (*APPLY, "--timeout", "0"), 1, "exit code 1: nothing was done"),
    ],
)
def test_a_run_says_last_what_it_left_undone(
    quickstart: Folder, before: Callable[[Folder], None], arguments: tuple[str, ...], code: int, line: str
) -> None:
    before(quickstart)
    said = quickstart.call(*arguments, *LOOK)
    assert (said.code, said.err.splitlines()[-1]) == (code, line)
    assert quickstart.call(*arguments, *LOOK, "-q").err == ""
