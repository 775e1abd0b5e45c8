"""Periods and moments that are alike are one line."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from reconciler.report.calendar import Span, recurring

FRIDAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
WEEK = (FRIDAY, FRIDAY + timedelta(days=7))
FORTNIGHT = (FRIDAY, FRIDAY + timedelta(days=14))


def nights(*days: int, hour: int = 20, hours: int = 10) -> list[Span]:
    starts = [datetime(2026, 11, 1, hour, tzinfo=UTC) + timedelta(days=day - 1) for day in days]
    return [(start, start + timedelta(hours=hours)) for start in starts]


def within(spans: list[Span], window: Span) -> list[Span]:
    return [(max(start, window[0]), min(end, window[1])) for start, end in spans]


@pytest.mark.parametrize(
    ("spans", "window", "expected"),
    [
        pytest.param(nights(*range(20, 27)), WEEK, ["each day 20:00-06:00"], id="each day"),
        pytest.param(nights(20, 23, 24, 25, 26), WEEK, ["each weekday 20:00-06:00"], id="each weekday"),
        pytest.param(nights(23, 24, 25), WEEK, ["Mon to Wed 20:00-06:00"], id="days that follow one another"),
        pytest.param(nights(22, 23, 20), WEEK, ["Fri, Sun, Mon 20:00-06:00"], id="days in their order"),
        pytest.param(nights(21), WEEK, ["Sat 2026-11-21 20:00-06:00"], id="one night has a date"),
        pytest.param(
            nights(20, hours=59), WEEK, ["Fri 2026-11-20 20:00 to Mon 2026-11-23 07:00"], id="one weekend has dates"
        ),
        pytest.param(
            nights(20, 27, hours=59), FORTNIGHT, ["Fri 20:00 to Mon 07:00"], id="weekends of all the days looked at"
        ),
        pytest.param(
            nights(23, 24, 30),
            FORTNIGHT,
            ["Mon 2026-11-23 20:00-06:00", "Tue 2026-11-24 20:00-06:00", "Mon 2026-11-30 20:00-06:00"],
            id="a Tuesday that is not like the other",
        ),
        pytest.param(
            nights(20, 24, hours=10) + nights(21, 22, hours=12),
            WEEK,
            ["Fri, Tue 20:00-06:00", "Sat, Sun 20:00-08:00"],
            id="two sorts",
        ),
        pytest.param([WEEK], WEEK, ["all the time"], id="all the time"),
        pytest.param(
            [(FRIDAY, FRIDAY + timedelta(hours=3))], WEEK, ["until Fri 2026-11-20 15:00"], id="from before the days on"
        ),
        pytest.param(
            [(WEEK[1] - timedelta(hours=3), WEEK[1])], WEEK, ["from Fri 2026-11-27 09:00 on"], id="to the end"
        ),
        pytest.param(
            within(nights(*range(19, 27), hour=22, hours=15), WEEK),
            WEEK,
            ["each day 22:00-13:00"],
            id="what is cut at both ends is like the others",
        ),
        pytest.param([(at, at) for at, _ in nights(20, 23, 24, 25, 26)], WEEK, ["each weekday 20:00"], id="moments"),
    ],
)
def test_alike_is_one_line(spans: list[Span], window: Span, expected: list[str]) -> None:
    assert recurring(spans, window, UTC) == expected


def test_the_clock_of_the_zone_counts_also_where_clocks_change() -> None:
    paris = ZoneInfo("Europe/Paris")
    start = datetime(2026, 10, 23, 12, tzinfo=paris)
    spans = [
        (datetime(2026, 10, day, 20, tzinfo=paris), datetime(2026, 10, day + 1, 7, tzinfo=paris))
        for day in range(23, 28)
    ]
    assert recurring(spans, (start, start + timedelta(days=5)), paris) == ["Fri to Tue 20:00-07:00"]
