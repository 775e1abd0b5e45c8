"""Some days of a development cluster, run after run: dark when it should be, awake with exactly what it had."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.decide.annotations import Key
from tests.cases import cases
from tests.pipeline.calls import Folder
from tests.pipeline.week import PARIS, a_week, at, run, state

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
        if annotation != Key.SCALE_TIME
    ]


def test_a_night_and_a_weekend_around_each_edge(week):
    """From Thursday to Monday; a whole week is run in `test_savings.py`."""
    start = at("2026-11-19T00:00")
    for hour in range(4 * 24 + 8):
        moment = (start.astimezone(UTC) + timedelta(hours=hour)).astimezone(PARIS)
        if moment.hour not in (6, 7, 19, 20):
            continue
        run(week, moment)
        dark = moment.weekday() >= 5 or moment.hour >= 20 or moment.hour < 7
        assert state(week) == ("dark" if dark else "awake"), str(moment)
        if not dark:
            assert leftovers(week) == [], str(moment)


@cases(
    "friday still_dark awake",
    ("autumn", "2026-10-23T20:00", "2026-10-26T05:59:00+00:00", "2026-10-26T06:00:00+00:00"),
    ("spring", "2027-03-26T20:00", "2027-03-29T04:59:00+00:00", "2027-03-29T05:00:00+00:00"),
)
def test_a_weekend_with_a_daylight_saving_change_ends_at_seven_on_the_wall(week, friday, still_dark, awake):
    becomes(week, at(friday) - timedelta(minutes=1), "awake")
    becomes(week, at(friday), "dark")
    becomes(week, datetime.fromisoformat(still_dark), "dark")
    becomes(week, datetime.fromisoformat(awake), "awake")
    assert leftovers(week) == []
