"""Windows of calendars: text -> values, and what about them is worth a warning."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from reconciler.policy.types import AbsoluteWindow, WeeklyWindow

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = "(?:mon|tue|wed|thu|fri|sat|sun)"
_TIME = r"([01]?\d|2[0-4]):([0-5]\d)"
_SPAN = re.compile(rf"({_DAY})\s+{_TIME}\s*-\s*({_DAY})\s+{_TIME}", re.IGNORECASE | re.ASCII)
_DAILY = re.compile(
    rf"(?:({_DAY}(?:-{_DAY})?(?:\s*,\s*{_DAY}(?:-{_DAY})?)*)\s+)?{_TIME}\s*-\s*{_TIME}", re.IGNORECASE | re.ASCII
)
_MINUTES_A_DAY = 24 * 60
_MINUTES_A_WEEK = 7 * _MINUTES_A_DAY
_SATURDAY = 5 * _MINUTES_A_DAY
_SHORT_GAP = 12 * 60


def parse_window(text: str) -> tuple[WeeklyWindow | AbsoluteWindow, ...] | None:
    """Return the windows that `text` stands for, one for each day it starts on; None where it is none."""
    stripped = text.strip()
    if "/" in stripped:
        absolute = parse_absolute(stripped)
        return None if absolute is None else (absolute,)
    span = _SPAN.fullmatch(stripped)
    if span is not None:
        return _span(span)
    daily = _DAILY.fullmatch(stripped)
    return None if daily is None else _daily(daily)


def parse_absolute(text: str) -> AbsoluteWindow | None:
    """Return `2026-12-24T18:00/2027-01-02T08:00` as a window; None where it is none, or ends before it starts."""
    parts = text.strip().split("/")
    if len(parts) != 2:
        return None
    try:
        start, end = (datetime.fromisoformat(part.strip()) for part in parts)
    except ValueError:
        return None
    if start.tzinfo is not None or end.tzinfo is not None or end <= start:
        return None
    return AbsoluteWindow(start, end)


def _minute(hour: str, minute: str) -> int | None:
    found = int(hour) * 60 + int(minute)
    return found if found <= _MINUTES_A_DAY else None


def _span(match: re.Match[str]) -> tuple[WeeklyWindow, ...] | None:
    start, end = _minute(match[2], match[3]), _minute(match[5], match[6])
    if start is None or end is None or start == _MINUTES_A_DAY:
        return None
    first, last = _DAYS.index(match[1].lower()), _DAYS.index(match[4].lower())
    days = (last - first) % 7
    if days == 0 and end <= start:
        days = 7
    return (WeeklyWindow(first, start, days, end),)


def _daily(match: re.Match[str]) -> tuple[WeeklyWindow, ...] | None:
    start, end = _minute(match[2], match[3]), _minute(match[4], match[5])
    if start is None or end is None or start == _MINUTES_A_DAY:
        return None
    days = 0 if end > start else 1
    return tuple(WeeklyWindow(day, start, days, end) for day in _days(match[1]))


def _days(text: str | None) -> list[int]:
    if text is None:
        return list(range(7))
    found: list[int] = []
    for part in text.lower().split(","):
        first, _, last = part.strip().partition("-")
        start = _DAYS.index(first)
        count = (_DAYS.index(last) - start) % 7 + 1 if last else 1
        found += [(start + offset) % 7 for offset in range(count)]
    return sorted(set(found))


def weekend_warnings(windows: Sequence[WeeklyWindow | AbsoluteWindow]) -> list[str]:
    """Return what about the weekends of `windows` is rarely meant: a gap of less than 12 hours awake inside one, and a
    Monday that is awake earlier than the other weekdays."""
    idle = _idle_minutes([window for window in windows if isinstance(window, WeeklyWindow)])
    if not any(idle[_SATURDAY:]) or all(idle):
        return []
    short = [gap for gap in _gaps(idle) if gap[1] - gap[0] < _SHORT_GAP and _touches_weekend(*gap)]
    return [f"is awake for less than 12 hours on a weekend, from {_moment(a)} to {_moment(b)}" for a, b in short] + [
        f"is awake on Mon from {_moment(monday)[4:]}, on other weekdays from {_moment(usual)[4:]}"
        for monday, usual in _early_monday(idle)
    ]


def _idle_minutes(weekly: Sequence[WeeklyWindow]) -> bytearray:
    """Return a flag for each minute of the week: whether a window is open."""
    idle = bytearray(_MINUTES_A_WEEK)
    for window in weekly:
        start = window.start_day * _MINUTES_A_DAY + window.start_minute
        length = min(window.days * _MINUTES_A_DAY + window.end_minute - window.start_minute, _MINUTES_A_WEEK)
        for minute in range(start, start + length):
            idle[minute % _MINUTES_A_WEEK] = 1
    return idle


def _early_monday(idle: bytearray) -> list[tuple[int, int]]:
    starts = [idle.find(0, day * _MINUTES_A_DAY) - day * _MINUTES_A_DAY for day in range(5)]
    usual = max(set(starts[1:]), key=starts[1:].count)
    return [(starts[0], usual)] if 0 <= starts[0] < usual < _MINUTES_A_DAY else []


def _gaps(idle: bytearray) -> list[tuple[int, int]]:
    """Return the stretches awake as minutes of the week, [start, end); the end may lie in the next week."""
    twice = idle + idle
    found = []
    position = idle.index(1)
    last = position + _MINUTES_A_WEEK
    while (start := twice.find(0, position, last)) >= 0:
        end = twice.find(1, start)
        found.append((start, end))
        position = end
    return found


def _touches_weekend(start: int, end: int) -> bool:
    weekend_end = _MINUTES_A_WEEK + 1
    return any(
        start + shift < weekend_end and end + shift > _SATURDAY for shift in (0, -_MINUTES_A_WEEK, _MINUTES_A_WEEK)
    )


def _moment(minute: int) -> str:
    day, rest = divmod(minute % _MINUTES_A_WEEK, _MINUTES_A_DAY)
    return f"{_DAYS[day].capitalize()} {rest // 60:02}:{rest % 60:02}"
