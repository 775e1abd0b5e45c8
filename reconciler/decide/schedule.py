"""When a calendar is open, in UTC.

One rule turns the wall clock into instants: a window starts, and ends, at the first instant at which the clock on the
wall shows its time or a later one. So a time that a daylight-saving change skips is the instant the gap ends (a window
inside the gap does not happen), and a time that occurs twice is its first occurrence: what is dark until 02:30 is not
dark until the second 02:30. An exception, which keeps things awake, lasts as long as the clock shows a time before its
end: of an end that occurs twice it takes the second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache

from reconciler.policy.types import AbsoluteWindow, Calendar, WeeklyWindow

_Period = tuple[datetime, datetime]
"""From the first instant to before the second, both UTC."""

_WEEK = timedelta(days=7)
REACHES = (timedelta(days=8), timedelta(days=60), timedelta(days=366))
"""How far it is looked for what comes next: a year at most."""
_SET_BACK = timedelta(days=1)  # no clock was ever set back by more: in 1867 Alaska had one Friday twice


def is_open(calendar: Calendar, at: datetime) -> bool:
    """Return whether a window of `calendar` is open at `at`; its start belongs to it, its end does not."""
    return any(start == at for start, _ in _periods_after(calendar, at, REACHES[0])[:1])


def open_until(calendar: Calendar, at: datetime) -> datetime | None:
    """Return when the open period around `at` ends, adjacent windows joined and exceptions cut out.

    None: closed at `at`, or open for a year and more.
    """
    for reach in REACHES:
        first = next(iter(_periods_after(calendar, at, reach)), None)
        if first is None or first[0] != at:
            return None
        if first[1] < at + reach:
            return first[1]
    return None


def opens_next(calendar: Calendar, at: datetime) -> datetime | None:
    """Return the first start of an open period after `at`, also when `at` is inside one; None: none within a year."""
    for reach in REACHES:
        later = (start for start, _ in _periods_after(calendar, at, reach) if start != at)
        found = next(later, None)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=1024)  # whether it is open is asked with how long, and many workloads of a policy ask both
def _periods_after(calendar: Calendar, at: datetime, reach: timedelta) -> tuple[_Period, ...]:
    return open_periods(calendar, at, at + reach)


def open_periods(calendar: Calendar, start: datetime, end: datetime) -> tuple[_Period, ...]:
    """Return the open periods between `start` and `end` in order: joined where they touch, clipped at both ends."""
    first_day, last_day = (at.astimezone(calendar.zone).date() for at in (start, end))
    windows = _windows(calendar.windows, calendar.zone, first_day, last_day)
    holes = _joined(_holes(calendar))
    clipped = ((max(first, start), min(last, end)) for first, last in _without(windows, holes))
    return tuple((first.astimezone(UTC), last.astimezone(UTC)) for first, last in clipped if first < last)


@lru_cache(maxsize=4096)  # many policies keep the same hours, and are asked about the same days
def _windows(
    windows: tuple[AbsoluteWindow | WeeklyWindow, ...], zone: tzinfo, first: date, last: date
) -> Sequence[_Period]:
    """Return what `windows` open from the day `first` to the day `last`, joined; absolute ones whenever that is."""
    found: list[_Period] = []
    for window in windows:
        if isinstance(window, AbsoluteWindow):
            found.append((_instant(window.start, zone), _instant(window.end, zone)))
            continue
        for day in _days(window, first, last):
            opens = _wall_time(day, window.start_minute)
            closes = _wall_time(day + timedelta(days=window.days), window.end_minute)
            found.append((_instant(opens, zone), _instant(closes, zone)))
    return tuple(_joined(found))


def _days(window: WeeklyWindow, first: date, last: date) -> Iterator[date]:
    """Yield every day on which `window` starts and from which it could reach into the days `first` to `last`."""
    earliest = first - timedelta(days=window.days)
    day = earliest + timedelta(days=(window.start_day - earliest.weekday()) % 7)
    while day <= last + _SET_BACK:
        yield day
        day += _WEEK


def _wall_time(day: date, minute: int) -> datetime:
    return datetime.combine(day, time()) + timedelta(minutes=minute)


def _holes(calendar: Calendar) -> Iterator[_Period]:
    for hole in (*calendar.exceptions, *calendar.awake):
        yield (_instant(hole.start, calendar.zone), _instant(hole.end, calendar.zone, last=True))


def exception_at(calendar: Calendar, at: datetime) -> AbsoluteWindow | None:
    """Return the exception of `calendar` that keeps things awake at `at`, None where there is none."""
    for exception in calendar.exceptions:
        start, end = _instant(exception.start, calendar.zone), _instant(exception.end, calendar.zone, last=True)
        if start <= at < end:
            return exception
    return None


def _instant(wall: datetime, zone: tzinfo, *, last: bool = False) -> datetime:
    """Return the first instant at which the clock in `zone` shows `wall` or later; `last`: from which on it never shows
    a time before `wall` again.
    """
    # Read with the offset before and after a change: apart where it occurs twice, crossed in a gap.
    first, second = (wall.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    if first > second:
        return _gap_end(second, first, zone)
    return second if last else first


def _gap_end(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """Return the instant between `before` and `after` at which the clock was set forward, to the second."""
    old = before.astimezone(zone).utcoffset()
    low, high = 0, int((after - before).total_seconds())
    while high - low > 1:
        middle = (low + high) // 2
        if (before + timedelta(seconds=middle)).astimezone(zone).utcoffset() == old:
            low = middle
        else:
            high = middle
    return before + timedelta(seconds=high)


def _joined(periods: Iterable[_Period]) -> list[_Period]:
    result: list[_Period] = []
    for start, end in sorted(period for period in periods if period[0] < period[1]):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def _without(windows: Iterable[_Period], holes: list[_Period]) -> Iterator[_Period]:
    """Yield what `holes` leave of `windows`, and some that end before they start; both are in order and joined."""
    for start, end in windows:
        left = start
        for hole_start, hole_end in holes:
            yield (left, min(hole_start, end))
            left = max(left, hole_end)
        yield (left, end)
