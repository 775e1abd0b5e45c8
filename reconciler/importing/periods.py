"""The periods of kube-downscaler -> criteria of an IdlingPolicy.

"Mon-Fri 07:30-20:30 Europe/Berlin", "always", "2026-12-24T18:00:00+01:00-2027-01-02T08:00:00+01:00", with commas
between several.

Source: py-kube-downscaler, kube_downscaler/helper.py, matches_time_spec; GoKubeDownscaler,
internal/pkg/values/timespan.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.policy.kinds.calendar import DAYS, MINUTES_A_DAY, MINUTES_A_WEEK, clock

_WEEKLY = re.compile(
    r"(?:(?P<first>[a-z]{3})-(?P<last>[a-z]{3})\s+)?(?P<start>\d\d:\d\d)-(?P<end>\d\d:\d\d)(?:\s+(?P<zone>\S+))?",
    re.IGNORECASE | re.ASCII,
)
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[-+]\d\d:\d\d)"
_ABSOLUTE = re.compile(rf"({_MOMENT}) *- *({_MOMENT})", re.ASCII)
_WHOLE_DAY = "00:00-24:00"

Criterion = Mapping[str, Any]


class PeriodError(ReconcilerError):
    """A period that cannot be carried over; the text says why."""


class Periods(Struct, frozen=True):
    """Windows by time zone. `always`: at all times; without either it is never."""

    always: bool = False
    windows: Mapping[str, tuple[str, ...]] = {}

    @property
    def never(self) -> bool:
        return not self.always and not self.windows


class Dialect(Struct, frozen=True):
    """What the two tools read differently. `wraps`: an end before the start is in the morning of each of the same days.

    `zone` and `days` are the defaults of the tool, "" without one.
    """

    wraps: bool
    zone: str = ""
    days: str = ""


def parse_periods(text: str, dialect: Dialect) -> Periods:
    """Return the periods that `text` stands for.

    Raises:
        PeriodError: they have no counterpart.
    """
    windows: dict[str, tuple[str, ...]] = {}
    for part in text.split(","):
        period = part.strip()
        if period.lower() in ("always", "true"):
            return Periods(always=True)
        if period.lower() in ("never", "false"):
            continue
        zone, found = _absolute(period) or _weekly(period, dialect)
        windows[zone] = (*windows.get(zone, ()), *found)
    return Periods(windows={zone: found for zone, found in windows.items() if found})


def _absolute(text: str) -> tuple[str, tuple[str, ...]] | None:
    match = _ABSOLUTE.fullmatch(text)
    if match is None:
        return None
    start, end = (datetime.fromisoformat(moment).astimezone(UTC).replace(microsecond=0) for moment in match.groups())
    if end <= start:
        raise PeriodError(f'"{text}" ends before it starts')
    return "UTC", (f"{start:%Y-%m-%dT%H:%M:%S}/{end:%Y-%m-%dT%H:%M:%S}",)


def _weekly(text: str, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
    match = _WEEKLY.fullmatch(text)
    days = dialect.days if match is None or match["first"] is None else f"{match['first']}-{match['last']}"
    if match is None or not set(days.lower().split("-")) <= {*DAYS, ""}:
        raise PeriodError(f'"{text}" is no period, expected one like "Mon-Fri 07:30-20:30 Europe/Berlin"')
    zone = match["zone"] or dialect.zone
    if not zone:
        raise PeriodError(f'"{text}" has no time zone, and DEFAULT_TIMEZONE of its tool is not known')
    if not days and not dialect.wraps:
        raise PeriodError(f'"{text}" has no weekdays, and DEFAULT_WEEKFRAME of its tool is not known')
    check_zone(zone)
    spelt = f"{'-'.join(day.capitalize() for day in days.split('-'))} " if days else ""
    start, end = match["start"], match["end"]
    if start < end:
        return zone, (f"{spelt}{start}-{end}",)
    if start == end or not dialect.wraps:
        return zone, ()  # there it matches at no time
    evening = f"{spelt}{start}-24:00"
    return zone, (evening, f"{spelt}00:00-{end}") if end != "00:00" else (evening,)


def check_zone(name: str) -> None:
    """Check that `name` is a time zone.

    Raises:
        PeriodError: it is none.
    """
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise PeriodError(f'"{name}" is not a time zone') from None


def paired(up: str, down: str, dialect: Dialect) -> Periods:
    """Return the uptime that an upscale period `up` and a downscale period `down` of the same days amount to.

    Raises:
        PeriodError: they amount to none.
    """
    why = f'upscale-period "{up}" and downscale-period "{down}" are moments; write the uptime that they mean'
    rise, fall = _WEEKLY.fullmatch(up.strip()), _WEEKLY.fullmatch(down.strip())
    if (
        rise is None
        or fall is None
        or (rise["first"], rise["last"], rise["zone"]) != (fall["first"], fall["last"], fall["zone"])
    ):
        raise PeriodError(why)
    if fall["start"] <= rise["start"]:
        raise PeriodError(why)
    days = f"{rise['first']}-{rise['last']} " if rise["first"] else ""
    zone = f" {rise['zone']}" if rise["zone"] else ""
    return parse_periods(f"{days}{rise['start']}-{fall['start']}{zone}", dialect)


# Periods as criteria. None stands for "at no time", and the empty criteria for "at all times".


def during(periods: Periods) -> Criterion | None:
    """Return the criterion that is met in `periods`, None where it never is."""
    if periods.always:
        return ALWAYS
    return any_of([{"schedule": {"timeZone": zone, "downtime": [*found]}} for zone, found in periods.windows.items()])


def outside(periods: Periods) -> Criterion | None:
    """Return the criterion that is met outside of `periods`, None where it never is."""
    if periods.always:
        return None
    found = [{"schedule": {"timeZone": zone, "uptime": [*texts]}} for zone, texts in periods.windows.items()]
    return all_of(found) if found else ALWAYS


ALWAYS: Criterion = {"schedule": {"timeZone": "UTC", "downtime": [_WHOLE_DAY]}}


def any_of(found: Sequence[Criterion | None]) -> Criterion | None:
    """Return the criterion that is met where any of `found` is."""
    left = [criterion for criterion in found if criterion is not None]
    if ALWAYS in left:
        return ALWAYS
    return left[0] if len(left) == 1 else {"anyOf": left} if left else None


def all_of(found: Sequence[Criterion | None]) -> Criterion | None:
    """Return the criterion that is met where all of `found` are."""
    if None in found:
        return None
    left = [criterion for criterion in found if criterion is not None and criterion is not ALWAYS]
    return left[0] if len(left) == 1 else {"allOf": left} if left else ALWAYS


# Weeks as moments: what goes to sleep at some, and wakes at others.


def downtimes(sleeps: set[int], wakes: set[int]) -> list[str]:
    """Return the windows between moments of a week, in minutes since Monday 00:00: from each sleep to the next wake.

    A moment that is both wakes.
    """
    moments = sorted({**dict.fromkeys(sleeps, True), **dict.fromkeys(wakes, False)}.items())
    spans: list[tuple[int, int]] = []
    for place, (start, asleep) in enumerate(moments):
        if not asleep or moments[place - 1][1]:
            continue  # it sleeps already
        later = [at + (0 if at > start else MINUTES_A_WEEK) for at, sleeps_then in moments if not sleeps_then]
        spans.append((start, min(later)))
    return _texts(spans)


def _texts(spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return spans as windows; those of less than a day at the same hours are one for all their days."""
    daily: dict[tuple[int, int], list[int]] = {}
    weekly: list[str] = []
    for start, end in spans:
        if end - start < MINUTES_A_DAY:
            daily.setdefault((start % MINUTES_A_DAY, end % MINUTES_A_DAY), []).append(start // MINUTES_A_DAY)
        else:
            weekly.append(f"{_day(start)} {clock(start)}-{_day(end)} {clock(end)}")
    found: list[str] = []
    for (start, end), days in daily.items():
        names = "" if len(days) == 7 else f"{','.join(_ranges(days))} "
        found.append(f"{names}{clock(start)}-{clock(end) if end else '24:00'}")
    return [*found, *weekly]


def _ranges(days: Sequence[int]) -> list[str]:
    groups: list[list[int]] = []
    for day in sorted(days):
        if groups and groups[-1][-1] == day - 1:
            groups[-1].append(day)
        else:
            groups.append([day])
    names = [one.capitalize() for one in DAYS]
    return [names[group[0]] if len(group) == 1 else f"{names[group[0]]}-{names[group[-1]]}" for group in groups]


def _day(minute: int) -> str:
    return DAYS[minute // MINUTES_A_DAY % 7].capitalize()
