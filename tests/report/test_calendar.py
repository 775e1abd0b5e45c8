"""The windows to come, in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from msgspec.structs import replace

from reconciler.report.calendar import clock_changes, render_calendars
from tests.decide.schedule.calendars import a_calendar


def shown(calendar, start, days=7, name="office-hours-off"):
    at = datetime.fromisoformat(start).replace(tzinfo=UTC)
    return render_calendars([(name, calendar)], at, at + timedelta(days=days))


def test_a_week():
    nights = a_calendar("Europe/Paris", "Mon 20:00-07:00", "Fri 20:00-Mon 07:00")
    assert shown(nights, "2026-11-20T15:00") == (
        "office-hours-off (Europe/Paris): idle Mon 20:00-07:00, Fri 20:00-Mon 07:00\n"
        "  Fri 2026-11-20 20:00 -> Mon 2026-11-23 07:00      59h\n"
        "  Mon 2026-11-23 20:00 -> Tue 2026-11-24 07:00      11h\n"
        "  idle 70h of 168h, in 2 periods\n"
    )


def test_a_day_on_which_the_clocks_change():
    nights = a_calendar("Europe/Paris", "Sat 20:30-07:00")
    assert shown(nights, "2026-03-28T12:00", days=2) == (
        "office-hours-off (Europe/Paris): idle Sat 20:30-07:00\n"
        "  Sat 2026-03-28 20:30 -> Sun 2026-03-29 07:00    9h30m\n"
        "  Sun 2026-03-29: the clocks go forward from 02:00 to 03:00\n"
        "  idle 9h30m of 48h, in 1 period\n"
    )


def test_what_is_cut_off_says_so():
    always = a_calendar("UTC", "2026-01-01T00:00/2027-01-01T00:00")
    assert shown(always, "2026-11-20T00:00", days=1).splitlines()[1] == (
        "  Fri 2026-11-20 00:00 -> Sat 2026-11-21 00:00      24h  (idle already, continues)"
    )


def test_no_window_and_no_calendar():
    assert shown(a_calendar("UTC"), "2026-11-20T00:00", name="empty") == (
        "empty (UTC)\n  not idle in the 7 days from Fri 2026-11-20 00:00\n"
    )
    assert render_calendars([], datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 8, tzinfo=UTC)) == "No calendars.\n"


def test_12_hours_that_were_stated_as_uptime_are_not_those_listed():
    idle = a_calendar("UTC", "Fri 20:00-Mon 07:00")
    awake = replace(idle, field="uptime", texts=("Mon-Fri 07:00-20:00",))
    assert shown(awake, "2026-11-20T15:00").splitlines() == [
        "office-hours-off (UTC): idle outside Mon-Fri 07:00-20:00",
        "  Fri 2026-11-20 20:00 -> Mon 2026-11-23 07:00      59h",
        "  idle 59h of 168h, in 1 period",
    ]


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        pytest.param("Asia/Kolkata", [], id="never"),
        pytest.param("Europe/Paris", ["03-29T01:00 02:00 03:00", "10-25T01:00 03:00 02:00"], id="Paris"),
        pytest.param("America/Santiago", ["04-05T03:00 00:00 23:00", "09-06T04:00 00:00 01:00"], id="at midnight"),
        pytest.param("Australia/Lord_Howe", ["04-04T15:00 02:00 01:30", "10-03T15:30 02:00 02:30"], id="half an hour"),
    ],
)
def test_clock_changes_of_a_year(zone, expected):
    found = clock_changes(ZoneInfo(zone), datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    assert [f"{at:%m-%dT%H:%M} {before:%H:%M} {after:%H:%M}" for at, before, after in found] == expected
