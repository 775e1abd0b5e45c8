"""The periods of kube-downscaler -> criteria of an IdlingPolicy.

"Mon-Fri 07:30-20:30 Europe/Berlin", "always", "2026-12-24T18:00:00+01:00-2027-01-02T08:00:00+01:00", with commas
between several.

Source: py-kube-downscaler, kube_downscaler/helper.py, matches_time_spec; GoKubeDownscaler,
internal/pkg/values/timespan.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct

from reconciler.errors import ReconcilerError
from reconciler.policy.kinds.calendar import (
    DAYS,
    MINUTES_A_DAY,
    MINUTES_A_WEEK,
    WeeklyWindow,
    clock,
    moment,
    parse_window,
    time_zone,
)

_TIME = r"(?:[01]\d|2[0-4]):[0-5]\d"
_WEEKLY = re.compile(
    rf"(?:(?P<first>[a-z]{{3}})-(?P<last>[a-z]{{3}}) )?(?P<start>{_TIME})-(?P<end>{_TIME})(?: (?P<zone>\S+))?",
    re.IGNORECASE | re.ASCII,
)
_MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[-+]\d\d:\d\d)"
_ABSOLUTE = re.compile(rf"({_MOMENT}) *- *({_MOMENT})", re.ASCII)
_DIRECTED = re.compile(rf"(from|until) *-? *({_MOMENT})", re.ASCII)
_START, _END = "1970-01-01T00:00:00Z", "2999-12-31T00:00:00Z"  # the years that a calendar knows
_MIDNIGHT = "24:00"
_MIN_AWAKE = 120  # minutes, the default of a policy
_WHOLE_DAY = f"00:00-{_MIDNIGHT}"

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
    """What the two tools read differently. In GoKubeDownscaler an end before the start is in the morning of each of
    the same days, "true" and "false" are periods, and "from" and "until" a moment.

    `zone` and `days` are the defaults of the tool, "" without one.
    """

    go: bool
    zone: str = ""
    days: str = ""


def parse_periods(text: str, dialect: Dialect) -> Periods:
    """Return the periods that `text` stands for.

    Raises:
        PeriodError: they have no counterpart.
    """
    windows: dict[str, tuple[str, ...]] = {}
    words = WORDS if dialect.go else {}
    parts = text.split(",")
    for part in parts:
        period = words.get(part.strip().lower(), part.strip())
        if period.lower() in ("always", "never") and len(parts) > 1 and not dialect.go:
            raise PeriodError(f'"{text}" has {period.lower()} beside other periods, which the tool cannot read')
        if period.lower() == "always":
            return Periods(always=True)
        if period.lower() == "never":
            continue
        zone, found = _absolute(period, dialect) or _weekly(period, dialect)
        windows[zone] = (*windows.get(zone, ()), *found)
    return Periods(windows={zone: found for zone, found in windows.items() if found})


WORDS = {"true": "always", "false": "never"}


def _absolute(text: str, dialect: Dialect) -> tuple[str, tuple[str, ...]] | None:
    match, directed = _ABSOLUTE.fullmatch(text), _DIRECTED.fullmatch(text) if dialect.go else None
    if match is not None:
        moments = match.groups()
    elif directed is not None:
        moments = (directed[2], _END) if directed[1] == "from" else (_START, directed[2])
    else:
        return None
    try:
        start, end = (datetime.fromisoformat(moment).astimezone(UTC).replace(microsecond=0) for moment in moments)
    except (ValueError, OverflowError):
        raise PeriodError(f'"{text}" has a time that no calendar has') from None
    if end <= start:
        raise PeriodError(f'"{text}" ends before it starts')
    first, last = (datetime.fromisoformat(moment) for moment in (_START, _END))
    if start >= last or end <= first:
        raise PeriodError(f'"{text}" is not between the years {first.year} and {last.year}')
    return "UTC", ("/".join(f"{at:%Y-%m-%dT%H:%M:%S}" for at in (max(start, first), min(end, last))),)


def _weekly(text: str, dialect: Dialect) -> tuple[str, tuple[str, ...]]:
    match = _WEEKLY.fullmatch(" ".join(text.split()) if dialect.go else text)
    days = dialect.days if match is None or match["first"] is None else f"{match['first']}-{match['last']}"
    spelt_out = dialect.go or not match or not match["zone"] or re.fullmatch(r"[A-Za-z/_]+", match["zone"])
    if match is None or not spelt_out or not set(days.lower().split("-")) <= {*DAYS, ""}:
        raise PeriodError(f'"{text}" is no period, expected one like "Mon-Fri 07:30-20:30 Europe/Berlin"')
    zone = match["zone"] or dialect.zone
    if not zone:
        raise PeriodError(f'"{text}" has no time zone, and DEFAULT_TIMEZONE of its tool is not known')
    if not days:
        raise PeriodError(f'"{text}" has no weekdays, and DEFAULT_WEEKFRAME of its tool is not known')
    check_zone(zone)
    spelt = f"{'-'.join(day.capitalize() for day in days.split('-'))} "
    start, end = (min(text, _MIDNIGHT) for text in (match["start"], match["end"]))  # 24:30 is never reached
    spans = [(start, end)] if start <= end else [(start, _MIDNIGHT), ("00:00", end)] if dialect.go else []
    return zone, tuple(f"{spelt}{first}-{last}" for first, last in spans if first < last)


def check_zone(name: str) -> None:
    """Check that `name` is a time zone.

    Raises:
        PeriodError: it is none.
    """
    if time_zone(name) is None:
        raise PeriodError(f'"{name}" is not a time zone')


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


def paired(up: Periods, down: Periods) -> tuple[Criterion | None, bool]:
    """Return when something is idle that is scaled up in `up` and down in `down`, and stays as it is in both and in
    neither; and whether it is scaled up at all.

    Raises:
        PeriodError: there is no week of which that can be said.
    """
    if up.never:
        return during(down), False
    zones = [*{*up.windows, *down.windows}] or ["UTC"]
    rises, falls = _minutes(up), _minutes(down)
    if len(zones) > 1 or (falls and falls >= rises):
        raise PeriodError("upscale-period and downscale-period are no week, expected one time zone and times of each")
    found = downtimes(falls - rises, rises - falls)
    return during(Periods(windows={zones[0]: tuple(found)} if found else {})), True


def _minutes(periods: Periods) -> set[int]:
    """Return the minutes of a week, from Monday 00:00, that are in `periods`."""
    if periods.always:
        return set(range(MINUTES_A_WEEK))
    texts = [text for texts in periods.windows.values() for text in texts]
    once = [text for text in texts if "/" in text]
    if once:
        raise PeriodError(f'"{once[0]}" is once, expected an upscale-period and a downscale-period of each week')
    return _minutes_of(texts)


def _minutes_of(texts: Iterable[str]) -> set[int]:
    """Return the minutes of a week that are in windows; those that are once have none."""
    return {
        minute % MINUTES_A_WEEK
        for text in texts
        for window in parse_window(text) or ()
        if isinstance(window, WeeklyWindow)
        for start in (window.start_day * MINUTES_A_DAY,)
        for minute in range(start + window.start_minute, start + window.days * MINUTES_A_DAY + window.end_minute)
    }


def min_awake(criterion: Criterion) -> dict[str, str]:
    """Return the minAwake of a policy with `criterion`, where something is up for less than the default in a week."""
    times = [length for day in _DAYS_OF_THE_YEAR for length in _awake_times(criterion, day)]
    least = min(times, default=_MIN_AWAKE)
    return {"minAwake": f"{least}m"} if least < _MIN_AWAKE else {}


_DAYS_OF_THE_YEAR = tuple(datetime(2026, month, 1, tzinfo=UTC) for month in (1, 7))  # summer and winter, or the reverse


def _awake_times(criterion: Criterion, day: datetime) -> Iterator[int]:
    """Yield for how many minutes something is up each time in a week, with the offsets of its time zones on `day`."""
    awake = set(range(MINUTES_A_WEEK)) - _idle_minutes(criterion, day)
    ends = sorted(minute for minute in awake if (minute + 1) % MINUTES_A_WEEK not in awake)
    starts = [minute for minute in awake if (minute - 1) % MINUTES_A_WEEK not in awake]
    return (min((end - start) % MINUTES_A_WEEK for end in ends) + 1 for start in starts)


def _idle_minutes(criterion: Criterion, day: datetime) -> set[int]:
    """Return the minutes of a week, of UTC, in which `criterion` is met."""
    if "schedule" in criterion:
        hours, zone = criterion["schedule"], time_zone(criterion["schedule"]["timeZone"])
        ahead = day.replace(tzinfo=zone).utcoffset()
        assert ahead is not None
        local = _minutes_of(hours.get("downtime") or hours["uptime"])
        found = {(minute - ahead // timedelta(minutes=1)) % MINUTES_A_WEEK for minute in local}
        return found if "downtime" in hours else set(range(MINUTES_A_WEEK)) - found
    parts = [_idle_minutes(one, day) for one in criterion.get("anyOf") or criterion["allOf"]]
    return set.union(*parts) if "anyOf" in criterion else set.intersection(*parts)


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
            weekly.append(f"{moment(start)}-{moment(end)}")
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
