"""When calendars are open: tables over daylight-saving changes, weeks and exceptions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reconciler.decide.schedule import is_open, open_periods, open_until, opens_next
from tests.cases import cases
from tests.decide.schedule.calendars import a_calendar


def every_night(span: str) -> tuple[str, ...]:
    return tuple(f"{day} {span}" for day in ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def written(periods: tuple[tuple[datetime, datetime], ...]) -> list[str]:
    return [f"{start:%m-%dT%H:%M}/{end:%m-%dT%H:%M}" for start, end in periods]


@cases(
    "zone window day expected",
    # Europe/Paris: forward 2026-03-29 02:00 -> 03:00 (01:00 UTC), back 2026-10-25 03:00 -> 02:00 (01:00 UTC)
    ("a short night", "Europe/Paris", "Sat 20:00-07:00", "2026-03-28", "03-28T19:00/03-29T05:00"),
    ("a long night", "Europe/Paris", "Sat 20:00-07:00", "2026-10-24", "10-24T18:00/10-25T06:00"),
    ("start in the gap", "Europe/Paris", "Sun 02:30-05:00", "2026-03-29", "03-29T01:00/03-29T03:00"),
    ("at any minute", "Europe/Paris", "Sun 02:22-05:00", "2026-03-29", "03-29T01:00/03-29T03:00"),
    ("end in the gap", "Europe/Paris", "Sat 22:00-02:30", "2026-03-28", "03-28T21:00/03-29T01:00"),
    ("wholly in the gap", "Europe/Paris", "Sun 02:15-02:45", "2026-03-29", ""),
    ("start twice", "Europe/Paris", "Sun 02:30-05:00", "2026-10-25", "10-25T00:30/10-25T04:00"),
    ("end twice", "Europe/Paris", "Sat 22:00-02:30", "2026-10-24", "10-24T20:00/10-25T00:30"),
    ("both twice", "Europe/Paris", "Sun 02:15-02:45", "2026-10-25", "10-25T00:15/10-25T00:45"),
    ("around the fold", "Europe/Paris", "Sun 01:00-03:00", "2026-10-25", "10-24T23:00/10-25T02:00"),
    # America/Santiago: forward 2026-09-06 00:00 -> 01:00 (04:00 UTC), back 2026-04-04 24:00 -> 23:00 (03:00 UTC)
    ("no midnight", "America/Santiago", "Sun 00:00-08:00", "2026-09-06", "09-06T04:00/09-06T11:00"),
    ("24:00 in gap", "America/Santiago", "Sat 20:00-24:00", "2026-09-05", "09-06T00:00/09-06T04:00"),
    ("23:30 twice", "America/Santiago", "Sat 23:30-24:00", "2026-04-04", "04-05T02:30/04-05T04:00"),
    ("to 23:30 once", "America/Santiago", "Sat 20:00-23:30", "2026-04-04", "04-04T23:00/04-05T02:30"),
    # Pacific/Apia: 2011-12-30 was skipped (10:00 UTC); America/Juneau: 1867-10-18 came twice (10-19 00:33 UTC)
    ("a day skipped", "Pacific/Apia", "Fri 20:00-07:00", "2011-12-30", "12-30T10:00/12-30T17:00"),
    ("wholly on it", "Pacific/Apia", "Fri 08:00-24:00", "2011-12-30", ""),
    ("midnight twice", "America/St_Johns", "Sun 00:00-06:00", "2010-11-07", "11-07T02:30/11-07T09:30"),
)
def test_the_wall_clock_is_followed_over_daylight_saving_changes(zone, window, day, expected):
    """Of other zones, and of zones without a change, see the law in `test_schedule_model.py`."""
    start = utc(f"{day}T12:00") - timedelta(days=1, hours=18)
    found = open_periods(a_calendar(zone, window), start, start + timedelta(days=4))
    assert "".join(written(found)) == expected
    assert all(at.second == 0 for period in found for at in period)


def test_a_weekly_window_comes_each_week():
    found = open_periods(a_calendar("UTC", "Wed 08:00-10:00"), utc("2026-11-20T12:00"), utc("2026-12-11T12:00"))
    assert written(found) == [f"{day}T08:00/{day}T10:00" for day in ("11-25", "12-02", "12-09")]


@cases(
    "windows expected",
    ("Sunday into Monday", ("Sun 22:00-06:00",), ["11-22T22:00/11-23T06:00"]),
    ("24:00 meets 00:00", ("Sat 00:00-24:00", "Sun 00:00-24:00"), ["11-21T00:00/11-23T00:00"]),
    ("overlapping windows are one", ("Sat 08:00-Sun 10:00", "Sun 09:00-12:00"), ["11-21T08:00/11-22T12:00"]),
    ("a window within a window", ("Sat 08:00-Sun 20:00", "Sat 10:00-11:00"), ["11-21T08:00/11-22T20:00"]),
    ("apart", ("Sat 08:00-09:00", "Sat 09:01-10:00"), ["11-21T08:00/11-21T09:00", "11-21T09:01/11-21T10:00"]),
    ("six days, clipped", ("Fri 20:00-Thu 20:00",), ["11-20T20:00/11-25T00:00"]),
    (
        "absolute and weekly windows meet",
        ("2026-11-21T08:00/2026-11-22T09:00", "Sun 09:00-10:00"),
        ["11-21T08:00/11-22T10:00"],
    ),
    (
        "one alone, then three that are one",
        ("Sat 08:00-09:00", "Sun 08:00-10:00", "Sun 10:00-12:00", "Sun 10:30-11:00"),
        ["11-21T08:00/11-21T09:00", "11-22T08:00/11-22T12:00"],
    ),
    ("clipped at both ends", ("2026-01-01T00:00/2027-01-01T00:00",), ["11-20T12:00/11-25T00:00"]),
    ("no windows", (), []),
)
def test_windows_are_joined_and_clipped(windows, expected):
    start, end = utc("2026-11-20T12:00"), utc("2026-11-25T00:00")
    found = open_periods(a_calendar("UTC", *windows), start, end)
    # six-day windows of two weeks meet in "six days": both are cut to what was asked for
    assert [period for period in written(found) if period != "11-20T12:00/11-20T20:00"] == expected


def test_an_exception_that_the_clock_skips_cuts_nothing():
    calendar = a_calendar("Europe/Paris", "Sat 20:00-07:00", exceptions=("2026-03-29T02:15/2026-03-29T02:45",))
    assert written(open_periods(calendar, utc("2026-03-28T12:00"), utc("2026-03-29T12:00"))) == [
        "03-28T19:00/03-29T05:00"
    ]


@cases(
    "calendar until following",
    ("always open", a_calendar("UTC", *every_night("00:00-24:00")), None, None),
    ("never open", a_calendar("UTC"), None, None),
    ("ends within the year", a_calendar("UTC", "2026-11-01T00:00/2027-10-01T00:00"), "2027-10-01T00:00", None),
    ("ends later than that", a_calendar("UTC", "2026-11-01T00:00/2028-01-01T00:00"), None, None),
    ("ends in 366 days", a_calendar("UTC", "2026-11-01T00:00/2027-11-21T15:40"), "2027-11-21T15:40", None),
    ("ends a minute later", a_calendar("UTC", "2026-11-01T00:00/2027-11-21T15:41"), None, None),
    ("opens in 366 days", a_calendar("UTC", "2027-11-21T15:40/2028-06-02T00:00"), None, "2027-11-21T15:40"),
    ("opens a minute later", a_calendar("UTC", "2027-11-21T15:41/2028-06-02T00:00"), None, None),
    ("opens within the year", a_calendar("UTC", "2027-06-01T00:00/2027-06-02T00:00"), None, "2027-06-01T00:00"),
    ("opens later than that", a_calendar("UTC", "2028-06-01T00:00/2028-06-02T00:00"), None, None),
    (
        "open up to an exception",
        a_calendar("UTC", *every_night("00:00-24:00"), exceptions=("2027-03-01T00:00/2027-03-02T00:00",)),
        "2027-03-01T00:00",
        "2027-03-02T00:00",
    ),
)
def test_a_year_is_looked_at(calendar, until, following):
    at = utc("2026-11-20T15:41")
    assert open_until(calendar, at) == (utc(until) if until else None)
    assert opens_next(calendar, at) == (utc(following) if following else None)


def test_a_window_that_opened_stays_open_when_the_clock_goes_back_to_the_day_before():
    calendar = a_calendar("America/St_Johns", "Sun 00:00-06:00")  # 00:01 -> 23:01 on 2010-11-07 at 02:31 UTC
    assert is_open(calendar, utc("2010-11-07T02:45"))
