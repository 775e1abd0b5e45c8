"""What `reconciler.api` raises: the errors it names, and nothing else."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import get_type_hints

import pytest

from reconciler.api import Allocation, Plan, Pod, SnapshotError, UsageError, plan, validate
from tests.cases import cases
from tests.pipeline.calls import Folder

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
POLICIES, SNAPSHOT = QUICKSTART / "policies", QUICKSTART / "snapshot"
NIGHT = datetime(2026, 11, 20, 22, 0, tzinfo=UTC)
EAST, WEST = (timezone(timedelta(hours=hours)) for hours in (5, -5))


@cases(
    "now",
    ("the last moment", datetime.max.replace(tzinfo=UTC)),
    ("the first", datetime.min.replace(tzinfo=UTC)),
    ("after the last", datetime.max.replace(tzinfo=WEST)),
    ("before the first", datetime.min.replace(tzinfo=EAST)),
    ("nearly the last", datetime(9999, 12, 30, tzinfo=UTC)),
    ("nearly the first", datetime(1, 1, 2, tzinfo=UTC)),
    ("before the epoch", datetime(1969, 12, 31, tzinfo=UTC)),
)
def test_a_time_from_which_nothing_can_be_counted(now):
    with pytest.raises(UsageError, match=r"^now: .* is too far away, expected a year from 1970 to 9000$"):
        plan(POLICIES, snapshot=SNAPSHOT, now=now)


@pytest.mark.parametrize("now", [datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 12, 31, 23, 59, 59, tzinfo=UTC)])
def test_the_first_and_the_last_time_are_planned_for(now):
    assert plan(POLICIES, snapshot=SNAPSHOT, now=now).actions


def test_a_time_without_a_zone():
    with pytest.raises(UsageError, match=r"^now: 2026-11-20T22:00:00 has no time zone, expected one"):
        plan(POLICIES, snapshot=SNAPSHOT, now=NIGHT.replace(tzinfo=None))


@pytest.mark.parametrize("now", [None, "2026-11-20T22:00:00Z", 0, NIGHT.date()])
def test_what_is_no_time(now):
    with pytest.raises(UsageError, match=r"^now: .*, expected a datetime with a time zone"):
        plan(POLICIES, snapshot=SNAPSHOT, now=now)


@cases("path", ("a NUL", "a\0b"), ("no Unicode", "\ud800"))
def test_what_can_be_no_path(path):
    with pytest.raises(SnapshotError, match=r"^'.*': is no path, expected a folder with a folder for each cluster$"):
        plan(POLICIES, snapshot=path, now=NIGHT)
    [problem] = validate(path).problems
    assert problem.message == "does not exist, expected a directory with policy files"
    assert str(problem).encode()


def test_the_fields_of_a_pod_stand_where_other_programs_give_them():
    pod = Pod("web-1", "u1", "n1", "Running", False, 1, 2, 3, 4, "5", True)
    assert pod == Pod(
        name="web-1",
        uid="u1",
        node="n1",
        phase="Running",
        ready=False,
        ready_since_ns=1,
        created_ns=2,
        restarts=3,
        sidecar_restarts=4,
        deletion_cost="5",
        terminating=True,
    )


def test_a_plan_is_what_the_command_line_prints_as_json(monkeypatch):
    monkeypatch.chdir(QUICKSTART)
    made = plan("policies", snapshot="snapshot", now=NIGHT)
    printed = Folder(QUICKSTART).plan("2026-11-20T22:00:00Z", "-o", "json").out
    assert isinstance(made, Plan)
    assert made.to_dict() == json.loads(printed)


def test_plans_are_equal_where_what_they_say_is():
    made = plan(POLICIES, snapshot=SNAPSHOT, now=NIGHT)
    again = plan(str(POLICIES), snapshot=str(SNAPSHOT), now=NIGHT.astimezone(EAST))
    assert {made} == {again}
    assert made != plan(POLICIES, snapshot=SNAPSHOT, now=NIGHT + timedelta(hours=12))


@pytest.mark.parametrize("field", ["replicas", "overflow", "planner_overflow"])
def test_an_allocation_promises_dicts(field):
    assert get_type_hints(Allocation)[field] == dict[str, int]
