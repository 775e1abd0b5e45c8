"""Periods and moments that are alike from day to day, in one line: "each weekday 20:00-07:00"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta, tzinfo
from operator import itemgetter

from msgspec import Struct

from reconciler.report.wording import DAYS

Span = tuple[datetime, datetime]
"""From when to before when; a moment ends when it starts."""

_DAY = timedelta(days=1)
_SHOWN_DATES = 3


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
    return [*(_cut_words(span, within) for span in left), *(one for _, one in sorted(words, key=itemgetter(0)))]


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
