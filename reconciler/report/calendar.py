"""Periods as the clock on the wall shows them.

The idle periods of calendars, with the days on which the clocks change; and periods that are alike from day to day, in
one line: "each weekday 20:00-07:00".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from operator import itemgetter

from msgspec import Struct

from reconciler.decide.schedule import open_periods
from reconciler.messages import counted
from reconciler.policy.types import Calendar
from reconciler.report.times import DAYS, weekday_and_time
from reconciler.untrusted_text import one_line

Span = tuple[datetime, datetime]
"""From when to before when; a moment ends when it starts."""

_SHOWN_DATES = 3

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


def render_calendars(calendars: Iterable[tuple[str, Calendar]], start: datetime, end: datetime) -> str:
    """Return the idle periods of `calendars`, each under its name, between `start` and `end` as lines of text."""
    return "\n".join("\n".join(_lines(*named, (start, end))) + "\n" for named in calendars) or "No calendars.\n"


def _lines(name: str, calendar: Calendar, shown: Span) -> Iterator[str]:
    zone, periods = calendar.zone, open_periods(calendar, *shown)
    yield one_line(f"{name} ({calendar.zone_name}): {_stated(calendar)}".removesuffix(": "))
    lines = [(first, _period(first, last, zone, shown)) for first, last in periods]
    for at, before, after in clock_changes(zone, *shown):
        way = "forward" if after > before else "back"
        day = f"{DAYS[before.weekday()]} {before:%Y-%m-%d}"
        lines.append((at, f"{day}: the clocks go {way} from {before:%H:%M} to {after:%H:%M}"))
    yield from ("  " + text for _, text in sorted(lines))
    yield "  " + _summary(periods, zone, shown)


def _stated(calendar: Calendar) -> str:
    """Return the hours as written; what is listed below them are those that are idle, whichever were stated."""
    texts = ", ".join(calendar.texts)
    if not texts:
        return ""
    return f"idle outside {texts}" if calendar.field == "uptime" else f"idle {texts}"


def _period(first: datetime, last: datetime, zone: tzinfo, shown: Span) -> str:
    here = f"{weekday_and_time(first, zone)} -> {weekday_and_time(last, zone)}"
    notes = ["idle already"] * (first <= shown[0]) + ["continues"] * (last >= shown[1])
    aside = f"  ({', '.join(notes)})" if notes else ""
    return f"{here}  {_hours(last - first):>7}{aside}"


def _hours(length: timedelta) -> str:
    minutes = round(length.total_seconds() / 60)
    return f"{minutes // 60}h" + (f"{minutes % 60:02}m" if minutes % 60 else "")


def _summary(periods: Sequence[Span], zone: tzinfo, shown: Span) -> str:
    start, end = shown
    if not periods:
        return f"not idle in the {counted(round((end - start) / _DAY), 'day')} from {weekday_and_time(start, zone)}"
    opened = sum((last - first for first, last in periods), timedelta())
    return f"idle {_hours(opened)} of {_hours(end - start)}, in {counted(len(periods), 'period')}"


def clock_changes(zone: tzinfo, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime, datetime]]:
    """Yield the changes of the clocks in `zone` between `start` and `end`, to the second: when, in UTC, and what the
    clock on the wall shows then, before and after.
    """

    def is_new(second: int) -> bool:
        return (day + second * _SECOND).astimezone(zone).utcoffset() != day.astimezone(zone).utcoffset()

    day = start
    while day < end:
        seconds = (min(day + _DAY, end) - day) // _SECOND
        if is_new(seconds):
            at = (day + bisect_left(range(seconds), True, key=is_new) * _SECOND).astimezone(UTC)
            before = (at - _SECOND).astimezone(zone).replace(tzinfo=None) + _SECOND
            yield at, before, at.astimezone(zone).replace(tzinfo=None)
        day += _DAY


# Periods that recur


class _Clock(Struct, frozen=True):
    """A period by the clock: it ends so many days after it starts."""

    start: time
    end: time
    days: int

    def on(self, day: date, zone: tzinfo) -> Span:
        """Return the period that starts on `day`."""
        last = day + self.days * _DAY
        return datetime.combine(day, self.start, zone), datetime.combine(last, self.end, zone)

    def words(self, days: str, last: str) -> str:
        """Return the period in words, which starts on `days`; `last` is the day on which it ends, where it is one."""
        if (self.start, self.days) == (self.end, 0):
            return f"{days} {self.start:%H:%M}"
        if self.days <= 1:
            return f"{days} {self.start:%H:%M}-{self.end:%H:%M}"
        return f"{days} {self.start:%H:%M} to {last} {self.end:%H:%M}"


def recurring(spans: Iterable[Span], within: Span, zone: tzinfo) -> list[str]:
    """Return `spans` in words, as the clock in `zone` shows them: those that are alike together.

    What starts or ends with the days that are looked at, `within`, counts as like the others where it fits them.
    """
    found: dict[_Clock, set[date]] = {}
    cut: list[Span] = []
    for start, end in sorted({(start.astimezone(zone), end.astimezone(zone)) for start, end in spans}):
        if start != end and (start <= within[0] or end >= within[1]):
            cut.append((start, end))
        else:
            clock = _Clock(start.time(), end.time(), (end.date() - start.date()).days)
            found.setdefault(clock, set()).add(start.date())
    left = [span for span in cut if not _fits(span, found, within, zone)]
    words = [(min(days), words) for clock, days in found.items() for words in _in_words(clock, days, within, zone)]
    return [*(_cut_words(span, within) for span in left), *(text for _, text in sorted(words, key=itemgetter(0)))]


def _fits(span: Span, found: dict[_Clock, set[date]], within: Span, zone: tzinfo) -> bool:
    """Return whether `span`, of which only a part is seen, is like others, and count it as one of them."""
    for clock, days in found.items():
        day = span[1].date() - clock.days * _DAY if span[0] <= within[0] else span[0].date()
        start, end = clock.on(day, zone)
        if (max(start, within[0]), min(end, within[1])) == span:
            days.add(day)
            return True
    return False


def _cut_words(span: Span, within: Span) -> str:
    start, end = (f"{_dated(at.date())} {at:%H:%M}" for at in span)
    if span[0] > within[0]:
        return f"from {start} on"
    return f"until {end}" if span[1] < within[1] else "all the time"


def _in_words(clock: _Clock, days: set[date], within: Span, zone: tzinfo) -> Iterator[str]:
    weekdays = list(dict.fromkeys(day.weekday() for day in sorted(days)))
    if len(days) > 1 and set(_possible(clock, weekdays, within, zone)) <= days:
        yield clock.words(_weekdays(weekdays), DAYS[(weekdays[0] + clock.days) % 7])
        return
    shown = sorted(days)[:_SHOWN_DATES]
    yield from (clock.words(_dated(day), _dated(day + clock.days * _DAY)) for day in shown)
    if len(days) > len(shown):
        yield f"{len(days) - len(shown)} more like them"


def _possible(clock: _Clock, weekdays: Iterable[int], within: Span, zone: tzinfo) -> Iterator[date]:
    """Yield the days of these `weekdays` on which such a period starts among the days that are looked at."""
    day = within[0].astimezone(zone).date()
    while (start := clock.on(day, zone)[0]) < within[1]:
        if day.weekday() in weekdays and start >= within[0]:
            yield day
        day += _DAY


def _weekdays(weekdays: list[int]) -> str:
    """Return "each day", "each weekday", "Sat to Mon" or "Mon, Wed"; `weekdays` are in the order of their dates."""
    if len(weekdays) == 7:
        return "each day"
    if sorted(weekdays) == [0, 1, 2, 3, 4]:
        return "each weekday"
    first = [day for day in weekdays if (day - 1) % 7 not in weekdays]
    if len(first) == 1 and len(weekdays) > 2:
        return f"{DAYS[first[0]]} to {DAYS[(first[0] + len(weekdays) - 1) % 7]}"
    return ", ".join(DAYS[day] for day in weekdays)


def _dated(day: date) -> str:
    return f"{DAYS[day.weekday()]} {day}"
