"""A week of a development cluster, run after run: dark when it should be, awake with exactly what it had."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.decide.annotations import SCALE_TIME
from tests.pipeline.calls import Folder
from tests.pipeline.week import IDLING, PARIS, a_week, at, rfc3339, run, state

pytestmark = pytest.mark.laws


@pytest.fixture
def week(tmp_path: Path) -> Folder:
    return a_week(tmp_path)


def becomes(folder: Folder, moment: datetime, expected: str, code: int = 0) -> None:
    """Run at `moment`; what stands there then is `expected`."""
    run(folder, moment, code=code)
    assert state(folder) == expected, str(moment)


def leftovers(folder: Folder) -> list[str]:
    """Return our idling marks that are still on anything; the time of the last scale stays."""
    return [
        f"{key}: {annotation}"
        for key, one in folder.objects().items()
        for annotation in one["metadata"].get("annotations", {})
        if annotation.startswith(("idling.", "scale.")) or annotation in ("reconciler/owner", "reconciler/wake-due")
        if annotation != SCALE_TIME
    ]


def test_a_week_around_each_edge(week):
    start = at("2026-11-16T00:00")
    for hour in range(7 * 24 + 8):
        moment = (start.astimezone(UTC) + timedelta(hours=hour)).astimezone(PARIS)
        if moment.hour not in (6, 7, 13, 19, 20):
            continue
        run(week, moment)
        weekend = moment.weekday() >= 5
        dark = weekend or moment.hour >= 20 or moment.hour < 7
        if moment.weekday() == 0 and hour < 24 and moment.hour < 7:
            dark = True
        assert state(week) == ("dark" if dark else "awake"), str(moment)
        if not dark:
            assert leftovers(week) == [], str(moment)


@pytest.mark.parametrize(
    ("friday", "still_dark", "awake"),
    [
        pytest.param("2026-10-23T20:00", "2026-10-26T05:59:00+00:00", "2026-10-26T06:00:00+00:00", id="autumn"),
        pytest.param("2027-03-26T20:00", "2027-03-29T04:59:00+00:00", "2027-03-29T05:00:00+00:00", id="spring"),
    ],
)
def test_a_weekend_with_a_daylight_saving_change_ends_at_seven_on_the_wall(week, friday, still_dark, awake):
    becomes(week, at(friday) - timedelta(minutes=1), "awake")
    becomes(week, at(friday), "dark")
    becomes(week, datetime.fromisoformat(still_dark), "dark")
    becomes(week, datetime.fromisoformat(awake), "awake")
    assert leftovers(week) == []


def test_when_the_policy_is_deleted_everything_is_up_again(week):
    week.write("policies/other.yaml", IDLING.format(name="idle-other", namespace="qa-*"))
    becomes(week, at("2026-11-17T20:00"), "dark")
    (week.path / "policies" / "dev.yaml").unlink()
    becomes(week, at("2026-11-17T22:00"), "awake")
    assert leftovers(week) == []


def test_a_typo_on_monday_at_ten_to_seven_does_not_keep_the_morning_dark(week):
    becomes(week, at("2026-11-20T20:00"), "dark")
    file = week.path / "policies" / "dev.yaml"
    file.write_text(file.read_text().replace("idleWhen", "idelWhen"))
    becomes(week, at("2026-11-23T06:50"), "dark", code=3)
    said = week.apply(rfc3339(at("2026-11-23T07:00")))
    assert said.code == 3
    assert 'policies/dev.yaml:9:3: spec.idelWhen: unknown field, did you mean "idleWhen"?' in said.err
    assert state(week) == "awake"
