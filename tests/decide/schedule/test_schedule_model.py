"""The fast answer against a model that looks at the clock on the wall minute by minute."""

from __future__ import annotations

from bisect import bisect_left
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import accumulate, pairwise
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from reconciler.decide.schedule import is_open, open_periods, open_until, opens_next
from reconciler.policy.types import AbsoluteWindow, Calendar, WeeklyWindow
from tests.laws import tries

MINUTE = timedelta(minutes=1)
CHANGES = (
    ("Europe/Paris", datetime(2026, 3, 29, tzinfo=UTC)),
    ("Europe/Paris", datetime(2026, 10, 25, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 8, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 11, 1, tzinfo=UTC)),
    ("Australia/Sydney", datetime(2026, 4, 4, tzinfo=UTC)),
    ("Australia/Sydney", datetime(2026, 10, 3, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 4, tzinfo=UTC)),
    ("America/Santiago", datetime(2026, 4, 5, tzinfo=UTC)),
    ("America/Santiago", datetime(2026, 9, 6, tzinfo=UTC)),
    ("Africa/Cairo", datetime(2026, 4, 24, tzinfo=UTC)),
    ("Asia/Kolkata", datetime(2026, 3, 29, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 30, tzinfo=UTC)),  # a whole day was skipped
    ("America/St_Johns", datetime(2010, 11, 7, tzinfo=UTC)),  # back at 00:01, to the day before
)
BEFORE, AFTER = 12, 6  # days around the change that the model looks at


class Wall:
    """What a clock on the wall shows in each minute around a change."""

    def __init__(self, zone: str, around: datetime) -> None:
        self.zone = ZoneInfo(zone)
        self.start = around - timedelta(days=BEFORE)
        minutes = (BEFORE + AFTER) * 24 * 60
        shown = [(self.start + n * MINUTE).astimezone(self.zone).replace(tzinfo=None) for n in range(minutes)]
        self.reached = list(accumulate(shown, max))
        self.left = list(accumulate(reversed(shown), min))[::-1]

    def first(self, wall: datetime) -> int:
        """The first minute at which the clock showed `wall` or later."""
        return bisect_left(self.reached, wall)

    def last(self, wall: datetime) -> int:
        """The first minute from which on it never shows a time before `wall`."""
        return bisect_left(self.left, wall)

    def open_minutes(self, calendar: Calendar) -> list[bool]:
        minutes = [False] * len(self.reached)
        for window in calendar.windows:
            for start, end in self._instances(window):
                a, b = self.first(start), self.first(end)
                minutes[a:b] = [True] * (b - a)
        for hole in calendar.exceptions:
            a, b = self.first(hole.start), self.last(hole.end)
            minutes[a:b] = [False] * (b - a)
        return minutes

    def _instances(self, window: WeeklyWindow | AbsoluteWindow) -> list[tuple[datetime, datetime]]:
        if isinstance(window, AbsoluteWindow):
            return [(window.start, window.end)]
        midnight = datetime.combine(self.start.date(), datetime.min.time())
        days = [midnight + timedelta(days=n) for n in range(-10, BEFORE + AFTER + 3)]
        return [
            (day + window.start_minute * MINUTE, day + timedelta(days=window.days) + window.end_minute * MINUTE)
            for day in days
            if day.weekday() == window.start_day
        ]


@lru_cache
def wall(zone: str, around: datetime) -> Wall:
    return Wall(zone, around)


minutes_of_day = st.integers(0, 1440) | st.sampled_from((0, 60, 90, 120, 150, 180, 1380, 1410, 1440))


@st.composite
def weekly(draw):
    day, start, end = draw(st.integers(0, 6)), draw(minutes_of_day), draw(minutes_of_day)
    days = draw(st.integers(0, 6)) if start < end else draw(st.integers(1, 6))
    return WeeklyWindow(day, start, days, end)


@st.composite
def absolute(draw, around):
    naive = around.replace(tzinfo=None)
    start = naive + draw(st.integers(-5 * 1440, 4 * 1440)) * MINUTE
    return AbsoluteWindow(start, start + draw(st.integers(1, 3 * 1440)) * MINUTE)


@st.composite
def situations(draw):
    zone, around = draw(st.sampled_from(CHANGES))
    windows = draw(st.lists(weekly() | absolute(around), max_size=4))
    exceptions = draw(st.lists(absolute(around), max_size=3))
    calendar = Calendar(ZoneInfo(zone), zone, tuple(windows), tuple(exceptions))
    start = around + draw(st.integers(-3 * 1440, 1440)) * MINUTE
    return wall(zone, around), calendar, start, start + draw(st.integers(1, 4 * 1440)) * MINUTE


@given(situations())
@tries(100, at_length=20_000)
def test_periods_are_those_of_a_clock_on_the_wall(situation):
    model, calendar, start, end = situation
    minutes = model.open_minutes(calendar)
    first, last = int((start - model.start) / MINUTE), int((end - model.start) / MINUTE)
    edges = [
        n for n in range(first, last + 1) if (first < n < last and minutes[n - 1] != minutes[n]) or n in (first, last)
    ]
    expected = [
        (model.start + a * MINUTE, model.start + b * MINUTE) for a, b in pairwise(edges) if a < b and minutes[a]
    ]
    found = open_periods(calendar, start, end)
    assert list(found) == expected
    assert is_open(calendar, start) is minutes[first]
    check_borders(calendar, start, end, found)


def check_borders(calendar, start, end, found):
    until, following = open_until(calendar, start), opens_next(calendar, start)
    if found and found[0][0] == start and found[0][1] < end:
        assert until == found[0][1]
    if not (found and found[0][0] == start):
        assert until is None
    later = [period for period in found if period[0] > start]
    if later:
        assert following == later[0][0]
    elif following is not None:
        assert following >= end
