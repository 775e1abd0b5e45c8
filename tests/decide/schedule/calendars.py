"""Calendars written the way policies write them, for tests of schedules."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from reconciler.policy.types import AbsoluteWindow, Calendar, WeeklyWindow

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_SPAN = re.compile(r"(\w{3}) (\d\d):(\d\d)-(?:(\w{3}) )?(\d\d):(\d\d)")


def a_window(text: str) -> WeeklyWindow | AbsoluteWindow:
    """One window: "Fri 20:00-Mon 07:00", "Mon 20:00-07:00" or "2026-12-24T18:00/2027-01-02T08:00"."""
    if "/" in text:
        return an_absolute(text)
    found = _SPAN.fullmatch(text)
    assert found, text
    day, hour, minute, end_day, end_hour, end_minute = found.groups()
    start = DAYS.index(day)
    start_minute, last_minute = int(hour) * 60 + int(minute), int(end_hour) * 60 + int(end_minute)
    days = (DAYS.index(end_day) - start) % 7 if end_day else int(last_minute <= start_minute)
    return WeeklyWindow(start, start_minute, days, last_minute)


def an_absolute(text: str) -> AbsoluteWindow:
    start, _, end = text.partition("/")
    return AbsoluteWindow(datetime.fromisoformat(start), datetime.fromisoformat(end))


def a_calendar(zone: str, *windows: str, exceptions: tuple[str, ...] = ()) -> Calendar:
    return Calendar(
        zone=ZoneInfo(zone),
        zone_name=zone,
        windows=tuple(map(a_window, windows)),
        exceptions=tuple(map(an_absolute, exceptions)),
        texts=windows,
    )
