"""Windows of calendars: text -> values, and what about them is rarely meant."""

from __future__ import annotations

from datetime import datetime

import pytest

from reconciler.policy.kinds.calendar import parse_absolute, parse_window, rarely_meant
from reconciler.policy.types import AbsoluteWindow, WeeklyWindow
from tests.cases import cases

HOUR = 60


def every(days: range | tuple[int, ...], start: float, end: float, later: int = 0) -> tuple[WeeklyWindow, ...]:
    return tuple(WeeklyWindow(day, int(start * HOUR), later, int(end * HOUR)) for day in days)


@pytest.mark.parametrize(
    ("text", "windows"),
    [
        ("Mon-Thu 20:00-07:00", every(range(4), 20, 7, later=1)),
        ("Fri 20:00-Mon 07:00", every((4,), 20, 7, later=3)),
        ("Mon,Wed 09:00-17:00", every((0, 2), 9, 17)),
        ("Sat-Sun 00:00-24:00", every((5, 6), 0, 24)),
        ("20:00-07:00", every(range(7), 20, 7, later=1)),
        ("Sun-Tue 20:00-22:30", every((0, 1, 6), 20, 22.5)),
        ("Mon,Sat-Mon 20:00-24:00", every((0, 5, 6), 20, 24)),
        ("Mon-Mon 09:00-10:00", every((0,), 9, 10)),
        ("20:00-00:00", every(range(7), 20, 0, later=1)),
        ("Mon 22:00-Mon 21:00", every((0,), 22, 21, later=7)),
        ("Mon 21:00-Mon 22:00", every((0,), 21, 22)),
        ("Sun 20:00-Mon 07:00", every((6,), 20, 7, later=1)),
        ("  mon - thu 20:00 - 07:00 ", None),
        ("mon-THU  20:00 - 07:00", every(range(4), 20, 7, later=1)),
        ("Mon , Tue 9:00-17:00", every((0, 1), 9, 17)),
        ("Mon 00:00-Mon 24:00", every((0,), 0, 24)),
    ],
)
def test_weekly_windows(text, windows):
    assert parse_window(text) == windows


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Mon",
        "Mon-Thu",
        "Mon-Thu 20:00",
        "Mon-Thu 20:00-25:00",
        "Mon-Thu 20:00-24:01",
        "Mon-Thu 20:60-21:00",
        "Mon-Thu 24:00-07:00",
        "Monday 20:00-07:00",
        "Mo 20:00-07:00",
        "Mon-Thu 20-07",
        "Mon-Thu 8pm-7am",
        "Mon-Thu 20:00–07:00",
        "Mon-Thu, 20:00-07:00",
        "Mon-Thu-Sat 20:00-07:00",
        "Fri 20:00-Mon",
        "Mon 07:00-07:00",
        "Mon 07:00-Mon 07:00",
        "07:00-07:00",
        "Mon-Thu 20:00-07:00 Europe/Paris",
        "Mon-Thu 20:00-07:00\n20:00-07:00",
        "Mon 2٠:00-21:00",
    ],
)
def test_what_is_no_window(text):
    assert parse_window(text) is None


@cases(
    "text start end",
    ("across the new year", "2026-12-24T18:00/2027-01-02T08:00", datetime(2026, 12, 24, 18), datetime(2027, 1, 2, 8)),
    (
        "with seconds and spaces",
        "2026-12-24T18:00:30 / 2026-12-24T18:01",
        datetime(2026, 12, 24, 18, 0, 30),
        datetime(2026, 12, 24, 18, 1),
    ),
    ("leap day", "2028-02-29T00:00/2028-03-01T00:00", datetime(2028, 2, 29), datetime(2028, 3, 1)),
)
def test_absolute_windows(text, start, end):
    assert parse_absolute(text) == AbsoluteWindow(start, end)
    assert parse_window(text) == (AbsoluteWindow(start, end),)


@pytest.mark.parametrize(
    "text",
    [
        "2026-12-24T18:00",
        "2026-12-24T18:00/",
        "2026-12-24T18:00/2026-12-24T18:00",
        "2027-01-02T08:00/2026-12-24T18:00",
        "2026-12-24T18:00/2027-01-02T08:00/2027-01-03T08:00",
        "2026-12-24/2027-01-02",
        "2026-12-24T18:00Z/2027-01-02T08:00Z",
        "2026-12-24T18:00+01:00/2027-01-02T08:00+01:00",
        "2026-02-29T00:00/2026-03-01T00:00",
        "2026-12-24T24:00/2027-01-02T08:00",
        "2026-W52-4T18:00/2027-01-02T08:00",
        "0001-01-01T00:00/2027-01-02T08:00",
        "2026-12-24T18:00/9999-12-31T23:59",
        "Mon-Thu 20:00-07:00",
    ],
)
def test_what_is_no_absolute_window(text):
    assert parse_absolute(text) is None


@pytest.mark.parametrize(
    ("texts", "warnings"),
    [
        pytest.param(
            ["Mon-Fri 20:00-07:00", "Sat-Sun 00:00-24:00"],
            ["is awake on Mon from 00:00, on other weekdays from 07:00"],
            id="the night to Monday forgotten",
        ),
        pytest.param(["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"], [], id="nights and weekends"),
        pytest.param(
            ["Mon-Fri 20:00-07:00", "Sat 12:00-Mon 07:00"],
            ["is awake for less than 12 hours on a weekend, from Sat 07:00 to Sat 12:00"],
            id="a gap on Saturday morning",
        ),
        pytest.param(
            ["Fri 20:00-Sun 18:00", "Mon-Thu 20:00-07:00", "Mon 00:00-07:00"],
            ["is awake for less than 12 hours on a weekend, from Sun 18:00 to Mon 00:00"],
            id="a gap on Sunday evening",
        ),
        pytest.param(["Mon-Thu 20:00-07:00"], [], id="nights only"),
        pytest.param(["20:00-07:00"], [], id="every night, awake for 13 hours"),
        pytest.param(
            ["18:00-09:00"],
            [
                "is awake for less than 12 hours on a weekend, from Sat 09:00 to Sat 18:00",
                "is awake for less than 12 hours on a weekend, from Sun 09:00 to Sun 18:00",
            ],
            id="every night, awake for 9 hours on weekends too",
        ),
        pytest.param(["Sat-Sun 00:00-24:00"], [], id="weekends only"),
        pytest.param(["Mon-Sun 00:00-24:00"], [], id="always"),
        pytest.param(["2026-12-24T18:00/2027-01-02T08:00"], [], id="once"),
        pytest.param(["Sat 00:00-Fri 23:00"], [], id="a short gap in the week"),
    ],
)
def test_weekends_that_are_rarely_meant(texts, warnings):
    windows = tuple(window for text in texts for window in parse_window(text) or ())
    assert list(rarely_meant(windows, "downtime")) == warnings
