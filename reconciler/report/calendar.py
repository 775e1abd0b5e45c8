"""The idle periods to come, as text: in the time of the calendar, with the days on which the clocks change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from msgspec import Struct

from reconciler.policy.types import Calendar
from reconciler.report.wording import DAYS, counted, weekday_and_time
from reconciler.untrusted_text import one_line

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


class CalendarView(Struct, frozen=True):
    """A calendar under the `name` to show it by, and its idle `periods` (UTC, in order, clipped to what is shown)."""

    name: str
    calendar: Calendar
    periods: tuple[tuple[datetime, datetime], ...]


class ClockChange(Struct, frozen=True):
    """A change of the clocks: `at` in UTC, `before` and `after` what the clock on the wall shows then."""

    at: datetime
    before: datetime
    after: datetime


def render_calendar(views: Sequence[CalendarView], start: datetime, end: datetime) -> str:
    """Return the idle periods of `views` between `start` and `end` as lines of text."""
    if not views:
        return "No calendars.\n"
    return "\n".join("\n".join(_calendar(view, start, end)) + "\n" for view in views)


def _calendar(view: CalendarView, start: datetime, end: datetime) -> Iterator[str]:
    zone = view.calendar.zone
    yield one_line(f"{view.name} ({view.calendar.zone_name}): {_stated(view.calendar)}".removesuffix(": "))
    lines = [(first, _period(first, last, zone, (start, end))) for first, last in view.periods]
    lines += [(change.at, _clock_change(change)) for change in clock_changes(zone, start, end)]
    yield from ("  " + text for _, text in sorted(lines))
    yield "  " + _summary(view, start, end)


def _stated(calendar: Calendar) -> str:
    """Return the hours as written; what is listed below them are those that are idle, whichever were stated."""
    texts = ", ".join(calendar.texts)
    if not texts:
        return ""
    return f"idle outside {texts}" if calendar.field == "uptime" else f"idle {texts}"


def _period(first: datetime, last: datetime, zone: tzinfo, shown: tuple[datetime, datetime]) -> str:
    here = f"{weekday_and_time(first, zone)} -> {weekday_and_time(last, zone)}"
    notes = [
        *(["idle already"] if first <= shown[0] else []),
        *(["continues"] if last >= shown[1] else []),
    ]
    aside = f"  ({', '.join(notes)})" if notes else ""
    return f"{here}  {_hours(last - first):>7}{aside}"


def _hours(length: timedelta) -> str:
    minutes = round(length.total_seconds() / 60)
    return f"{minutes // 60}h" + (f"{minutes % 60:02}m" if minutes % 60 else "")


def _clock_change(change: ClockChange) -> str:
    way = "forward" if change.after > change.before else "back"
    day = f"{DAYS[change.before.weekday()]} {change.before:%Y-%m-%d}"
    shown = f"{change.before:%H:%M} to {change.after:%H:%M}"
    return f"{day}: the clocks go {way} from {shown}"


def _summary(view: CalendarView, start: datetime, end: datetime) -> str:
    if not view.periods:
        days = counted(round((end - start) / _DAY), "day")
        return f"not idle in the {days} from {weekday_and_time(start, view.calendar.zone)}"
    opened = sum((last - first for first, last in view.periods), timedelta())
    return f"idle {_hours(opened)} of {_hours(end - start)}, in {counted(len(view.periods), 'period')}"


def clock_changes(zone: tzinfo, start: datetime, end: datetime) -> tuple[ClockChange, ...]:
    """Return the changes of the clocks in `zone` between `start` and `end`, to the second."""
    found: list[ClockChange] = []
    day = start
    while day < end:
        until = min(day + _DAY, end)
        if _offset(day, zone) != _offset(until, zone):
            at = _change_between(day, until, zone).astimezone(UTC)
            before = (at - _SECOND).astimezone(zone).replace(tzinfo=None) + _SECOND
            found.append(ClockChange(at, before, at.astimezone(zone).replace(tzinfo=None)))
        day = until
    return tuple(found)


def _change_between(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    """Return the first second after `low` at which the clock of `high` holds."""
    old = _offset(low, zone)
    while high - low > _SECOND:
        middle = low + timedelta(seconds=int((high - low).total_seconds()) // 2)
        low, high = (middle, high) if _offset(middle, zone) == old else (low, middle)
    return high


def _offset(at: datetime, zone: tzinfo) -> timedelta | None:
    return at.astimezone(zone).utcoffset()
