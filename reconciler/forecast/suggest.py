"""Hours at which nobody calls, found in what was measured, as an IdlingPolicy and a Calendar.

A night goes from noon to noon, in half hours. A window counts where calls leave it free in nearly all nights, and where
that is no chance: if each night were turned by a random time, which keeps its bursts and breaks their hours, as quiet a
window would hardly ever be found. So noise has none, and what is nearly never called has none either: its metric alone
is enough.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct

from reconciler.forecast.idle_periods import Traffic
from reconciler.model import ObjectRef
from reconciler.policy.kinds.calendar import clock

SLOTS = 48
_MIDNIGHT = 24  # the first slot of the next day
_SHORTEST = 8  # slots: what is idle for less than four hours is not worth a schedule
_QUIET = 0.9  # of the nights
FEWEST = 5  # nights of a kind, to learn from
_CHANCE = 0.001
_MEASURED = 0.9  # of a night
_NOON = timedelta(hours=12)


class Weekend(StrEnum):
    """What is idle besides the nights before working days."""

    WHOLE = "whole"  # from Friday's evening to Monday's morning
    NIGHTS = "nights"
    AWAKE = "awake"


class Window(Struct, frozen=True, order=True):
    """From slot `first` to before slot `last` of each night, counted from noon."""

    first: int
    last: int
    weekend: Weekend

    @property
    def downtime(self) -> tuple[str, ...]:
        """The window as a Calendar says it."""
        start, end = (clock(12 * 60 + 30 * slot) for slot in (self.first, self.last))
        if self.weekend is Weekend.NIGHTS:
            return (f"{start}-{end}",)
        days, friday = ("Mon-Thu", "Fri") if self.first < _MIDNIGHT else ("Tue-Fri", "Sat")
        monday = "Mon" if self.last >= _MIDNIGHT else "Sun"
        nights = f"{days} {start}-{end}"
        return (nights, f"{friday} {start}-{monday} {end}") if self.weekend is Weekend.WHOLE else (nights,)

    @property
    def hours(self) -> float:
        """How many hours of a week it has."""
        night = (self.last - self.first) / 2
        more = {Weekend.WHOLE: 48 + night, Weekend.NIGHTS: 3 * night, Weekend.AWAKE: 0.0}
        return 4 * night + more[self.weekend]

    def holds(self, other: Window) -> bool:
        """Whether `other` is idle only when this is."""
        inside = self.first <= other.first and other.last <= self.last
        return inside and _ORDER.index(self.weekend) <= _ORDER.index(other.weekend)


_ORDER = list(Weekend)


def nights_of(
    traffic: Iterable[Traffic], gaps: frozenset[int], times: tuple[datetime, range, timedelta], zone: tzinfo
) -> dict[date, int]:
    """Return of each night that was measured in which slots somebody called: a bit each, the first slot the lowest.

    `times` are the first one, the places of those that count, and how far they are apart.
    """
    _, places, step = times
    slots, seen = _slots(gaps, times, zone)
    called: dict[date, int] = {}
    for one in traffic:
        for place in _called(one, places, step):
            night, slot = slots[place]
            called[night] = called.get(night, 0) | 1 << slot
    enough = _MEASURED * timedelta(days=1) / step
    return {night: called.get(night, 0) for night, number in seen.items() if number >= enough}


def _called(traffic: Traffic, places: range, step: timedelta) -> Iterator[int]:
    """Yield the places before which somebody called: there, the window has more than what came to it earlier.

    Unlike in an idle period, what the value rises by is too little: steady calls come as fast as they leave the window.
    """
    earlier = deque[float](maxlen=max(0, int(traffic.seconds // step.total_seconds()) - 1))
    for place in places[: len(traffic.values)]:
        value = traffic.values[place]
        new = max(0.0, value - sum(earlier)) if value and math.isfinite(value) else 0.0
        earlier.append(new)
        if (round(traffic.scale * new) if traffic.seconds else new) > 0:
            yield place


@lru_cache(maxsize=1)  # all Services of a cluster are measured at the same times
def _slots(
    gaps: frozenset[int], times: tuple[datetime, range, timedelta], zone: tzinfo
) -> tuple[Mapping[int, tuple[date, int]], Mapping[date, int]]:
    """Return the night and the slot of each place, and how many of a night were measured."""
    start, places, step = times
    slots = {place: _slot(start + place * step, zone) for place in places}
    return slots, Counter(night for place, (night, _) in slots.items() if place not in gaps)


def _slot(at: datetime, zone: tzinfo) -> tuple[date, int]:
    here = at.astimezone(zone).replace(tzinfo=None) - _NOON - timedelta(microseconds=1)  # what came before `at`
    return here.date(), (here.hour * 60 + here.minute) // 30


def before_working_days(nights: Iterable[date]) -> list[date]:
    """Return those of the nights that are learned from: Monday's to Thursday's."""
    return [night for night in sorted(nights) if night.weekday() < 4]


def window_of(nights: Mapping[date, int]) -> Window | None:
    """Return the window in which calls leave a Service alone, None where there is none that is no chance."""
    working = [nights[night] for night in before_working_days(nights)]
    if len(working) < FEWEST:
        return None
    found = _best(working)
    if found is None:
        return None
    first, last = found
    inside = _bits(first, last)
    friday, saturday, sunday = (
        {night: called for night, called in nights.items() if night.weekday() == day} for day in (4, 5, 6)
    )
    weekends = [
        (called >> first) | saturday[night + timedelta(days=1)] | (sunday[night + timedelta(days=2)] & _bits(0, last))
        for night, called in friday.items()
        if night + timedelta(days=1) in saturday and night + timedelta(days=2) in sunday
    ]
    busy_days = sum(bool(called & ~inside) for called in working) / len(working)
    if weekends and busy_days > 1 - _QUIET and _nearly_all(weekends, -1):
        return Window(first, last, Weekend.WHOLE)
    others = [*friday.values(), *saturday.values(), *sunday.values()]
    return Window(first, last, Weekend.NIGHTS if _nearly_all(others, inside) else Weekend.AWAKE)


def _best(nights: Sequence[int]) -> tuple[int, int] | None:
    """Return the window that is worth most: a night in which somebody called in it costs a whole day."""
    tried: list[tuple[int, int, int, int]] = []
    for first in range(SLOTS - _SHORTEST + 1):
        for last in range(first + _SHORTEST, SLOTS + 1):
            inside = _bits(first, last)
            quiet = sum(not called & inside for called in nights)
            if quiet >= _QUIET * len(nights):
                tried.append((quiet * (last - first) - (len(nights) - quiet) * SLOTS, quiet, first, last))
    for value, quiet, first, last in sorted(tried, reverse=True):
        if value > 0 and _is_no_chance(nights, quiet, last - first):
            return first, last
    return None


def _bits(first: int, last: int) -> int:
    return (1 << last) - (1 << first)


def _nearly_all(nights: Sequence[int], inside: int) -> bool:
    wrong = sum(bool(called & inside) for called in nights)
    return bool(nights) and wrong <= max((1 - _QUIET) * len(nights), len(nights) > 2)


def _is_no_chance(nights: Sequence[int], quiet: int, length: int) -> bool:
    """Return whether nights that are turned by random times would hardly ever leave a window of this length so free.

    The chance is that of so many quiet nights or more, for any of the windows that are tried.
    """
    chances = [1.0]
    for called in nights:
        free = _free_places(called, length) / SLOTS
        chances = [
            (chances[number] * (1 - free) if number < len(chances) else 0.0)
            + (chances[number - 1] * free if number else 0.0)
            for number in range(len(chances) + 1)
        ]
    return sum(chances[quiet:]) * SLOTS * (SLOTS - _SHORTEST) < _CHANCE


def _free_places(called: int, length: int) -> int:
    """Return at how many of the places of a day, which goes round, a window of this length has no call."""
    blocked = 0
    for _ in range(length):
        blocked |= called
        called = (called >> 1) | (called & 1) << (SLOTS - 1)
    return SLOTS - blocked.bit_count()


class Suggestion(Struct, frozen=True):
    """The window that saves most hours, the Services that it fits, and what else was found: windows of its own by
    Service, and the Services without one.
    """

    window: Window
    services: tuple[ObjectRef, ...]
    others: Mapping[ObjectRef, Window]
    without: tuple[ObjectRef, ...]


def suggestion_of(windows: Mapping[ObjectRef, Window | None]) -> Suggestion | None:
    """Return the one window that saves most hours for all Services that it fits, None where none was found."""
    found = {ref: window for ref, window in windows.items() if window is not None}
    if not found:
        return None
    starts, ends = {known.first for known in found.values()}, {known.last for known in found.values()}
    tried = (
        Window(first, last, kind) for first in starts for last in ends if last - first >= _SHORTEST for kind in Weekend
    )

    def worth(window: Window) -> tuple[float, Window]:
        return window.hours * sum(known.holds(window) for known in found.values()), window

    best = max(tried, key=worth)
    others = {ref: known for ref, known in sorted(found.items()) if not known.holds(best)}
    return Suggestion(
        window=best,
        services=tuple(sorted(found.keys() - others.keys())),
        others=others,
        without=tuple(sorted(ref for ref, known in windows.items() if known is None)),
    )


def documents_of(suggestion: Suggestion, every: Iterable[ObjectRef], zone: str, metric: Mapping[str, Any]) -> list[Any]:
    """Return the Calendar and the IdlingPolicy, which is also idle only while `metric` is met.

    `every` is all Services: one that is called like a suggested one elsewhere is excluded by name.
    """
    names = sorted({ref.name for ref in suggestion.services})
    parts = {part: sorted({getattr(ref, part) for ref in suggestion.services}) for part in ("cluster", "namespace")}
    alike = [ref for ref in every if ref.name in names and ref.namespace in parts["namespace"]]
    others = sorted({ref for ref in alike if ref.cluster in parts["cluster"]} - set(suggestion.services))
    spec: dict[str, Any] = {
        "selector": {
            "clusters": {"include": parts["cluster"]},
            "namespaces": {"include": parts["namespace"]},
            "services": {"include": names},
        },
        **({"exclude": list(_exclusions(others))} if others else {}),
        "idleWhen": [{"schedule": {"calendar": NAME}}, {"name": "calls", "metric": dict(metric)}],
    }
    calendar = {"timeZone": zone, "downtime": list(suggestion.window.downtime)}
    return [_document("Calendar", calendar), _document("IdlingPolicy", spec)]


NAME = "suggested"


def _exclusions(refs: Iterable[ObjectRef]) -> Iterator[dict[str, Any]]:
    for ref in refs:
        where = {"clusters": {"include": [ref.cluster]}, "namespaces": {"include": [ref.namespace]}}
        yield {**where, "services": {"include": [ref.name]}}


def _document(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "reconciler/v1alpha1", "kind": kind, "metadata": {"name": NAME}, "spec": spec}
