"""Calendars, as documents of their own and inside policies; and their windows: text -> values, what they leave of a
week, and what about them is rarely meant.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from reconciler.messages import Path, nearest, shown
from reconciler.policy.kinds.document import Place, PolicyDocument
from reconciler.policy.kinds.fields import Fields, OwnDocument, Text, expected, given, matching


class WeeklyWindow(Struct, frozen=True):
    """One window a week, on the wall clock: from `start_day` (0 = Monday) at `start_minute` (0 to 1440) of that day, to
    `end_minute` of the day `days` later. "Mon-Thu 20:00-07:00" is four of these with days=1; "Fri 20:00-Mon 07:00" one
    with days=3.
    """

    start_day: int
    start_minute: int
    days: int
    end_minute: int


class AbsoluteWindow(Struct, frozen=True):
    """From `start` to before `end`, naive wall-clock times in the calendar's zone. `reason` is what people read."""

    start: datetime
    end: datetime
    reason: str = ""


DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY = "(?:mon|tue|wed|thu|fri|sat|sun)"
_WEEKLY = (
    rf"(?ai)(?:(?P<days>{_DAY}(?:-{_DAY})?(?:\s*,\s*{_DAY}(?:-{_DAY})?)*)\s+)?(?P<start>(?:[01]?\d|2[0-3]):[0-5]\d)"
    rf"\s*-\s*(?:(?P<last>{_DAY})\s+)?(?P<end>(?:[01]?\d|2[0-3]):[0-5]\d|24:00)"
)
MINUTES_A_DAY = 24 * 60
MINUTES_A_WEEK = 7 * MINUTES_A_DAY
_SATURDAY = 5 * MINUTES_A_DAY
_SHORT_GAP = 12 * 60
_ABSOLUTE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(?::[0-9]{2})?"
_YEARS = range(1970, 3000)  # what calendars can be asked about without leaving the range of datetime

_Minutes = tuple[int, int]
"""Two minutes counted from the start of a week; a day has 1440."""


@lru_cache(maxsize=256)
def parse_window(text: str) -> tuple[WeeklyWindow | AbsoluteWindow, ...] | None:
    """Return the windows that `text` stands for, one for each day it starts on; None where it is none."""
    stripped = text.strip()
    if "/" in stripped:
        absolute = parse_absolute(stripped)
        return None if absolute is None else (absolute,)
    match = re.fullmatch(_WEEKLY, stripped)
    return None if match is None else _weekly_windows(match["days"], match["start"], match["last"], match["end"])


def parse_absolute(text: str) -> AbsoluteWindow | None:
    """Return `2026-12-24T18:00/2027-01-02T08:00` as a window; None where it is none, or ends before it starts."""
    parts = [part.strip() for part in text.split("/")]
    if len(parts) != 2 or not all(re.fullmatch(_ABSOLUTE, part) for part in parts):
        return None
    try:
        start, end = (datetime.fromisoformat(part) for part in parts)
    except ValueError:
        return None
    if start.year not in _YEARS or end.year not in _YEARS or end <= start:
        return None
    return AbsoluteWindow(start, end)


def _weekly_windows(days: str | None, start: str, last: str | None, end: str) -> tuple[WeeklyWindow, ...] | None:
    """Return the windows from `start` on each of the `days` to `end`; with a `last` day the one from one day to it."""
    if last is not None and len(days or "") != len(last):
        return None
    starts, first, until = _days(days), _minute(start), _minute(end)
    length = 0 if last is None else (DAYS.index(last.lower()) - starts[0]) % 7
    if length == 0 and until < first:
        length = 1 if last is None else 7
    if length * MINUTES_A_DAY + until <= first:
        return None
    return tuple(WeeklyWindow(day, first, length, until) for day in starts)


def _minute(time: str) -> int:
    hour, _, minute = time.partition(":")
    return int(hour) * 60 + int(minute)


def _days(text: str | None) -> list[int]:
    if text is None:
        return list(range(7))
    found: list[int] = []
    for part in text.lower().split(","):
        first, _, last = part.strip().partition("-")
        start = DAYS.index(first)
        count = (DAYS.index(last) - start) % 7 + 1 if last else 1
        found += [(start + offset) % 7 for offset in range(count)]
    return sorted(set(found))


def _weekend_warnings(windows: Sequence[WeeklyWindow | AbsoluteWindow]) -> list[str]:
    """Return what about the weekends of `windows` is rarely meant: a gap of less than 12 hours awake inside one, and a
    Monday that is awake earlier than the other weekdays."""
    idle = _periods(windows)
    if not any(start < MINUTES_A_WEEK and end > _SATURDAY for start, end in idle):
        return []
    short = [(start, end) for start, end in _gaps(idle) if end - start < _SHORT_GAP and (end > _SATURDAY or not start)]
    return [f"is awake for less than 12 hours on a weekend, from {moment(a)} to {moment(b)}" for a, b in short] + [
        f"is awake on Mon from {clock(monday)}, on other weekdays from {clock(usual)}"
        for monday, usual in _early_monday(idle)
    ]


def the_rest_of_the_week(uptime: Sequence[WeeklyWindow | AbsoluteWindow]) -> tuple[WeeklyWindow, ...]:
    """Return the weekly windows of all times that no weekly window of `uptime` has."""
    awake = _periods(uptime)
    if not awake:
        return (WeeklyWindow(0, 0, 7, 0),)
    return tuple(_weekly(start, end) for start, end in _gaps(awake))


def _weekly(start: int, end: int) -> WeeklyWindow:
    (day, minute), (last, until) = divmod(start, MINUTES_A_DAY), divmod(end, MINUTES_A_DAY)
    return WeeklyWindow(day, minute, last - day, until)


def _periods(windows: Sequence[WeeklyWindow | AbsoluteWindow]) -> list[_Minutes]:
    """Return the weekly periods in the week, the one before and the one after, joined where they touch."""
    periods = sorted(
        (start + shift, start + shift + window.days * MINUTES_A_DAY + window.end_minute - window.start_minute)
        for window in windows
        if isinstance(window, WeeklyWindow)
        for start in (window.start_day * MINUTES_A_DAY + window.start_minute,)
        for shift in (-MINUTES_A_WEEK, 0, MINUTES_A_WEEK)
    )
    joined: list[_Minutes] = []
    for start, end in periods:
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


def _early_monday(idle: list[_Minutes]) -> list[_Minutes]:
    """Return when Monday and when three other weekdays wake, in minutes of the day; nothing where it is not earlier."""
    monday, *others = (_wakes(idle, day * MINUTES_A_DAY) for day in range(5))
    usual = max(others, key=others.count)
    return [(monday, usual)] if monday < usual < MINUTES_A_DAY and others.count(usual) >= 3 else []


def _wakes(idle: list[_Minutes], midnight: int) -> int:
    return next((end - midnight for start, end in idle if start <= midnight < end), 0)


def _gaps(idle: list[_Minutes]) -> list[_Minutes]:
    """Return the stretches awake that start within the week; the last may end in the next."""
    gaps = ((before[1], after[0]) for before, after in pairwise(idle))
    return [gap for gap in gaps if 0 <= gap[0] < MINUTES_A_WEEK]


def moment(minute: int) -> str:
    """Return day and time of a minute of the week: "Mon 07:30"."""
    return f"{DAYS[minute % MINUTES_A_WEEK // MINUTES_A_DAY].capitalize()} {clock(minute)}"


def clock(minute: int) -> str:
    """Return what the clock shows so many minutes after a midnight: "07:30"."""
    hour, rest = divmod(minute % MINUTES_A_DAY, 60)
    return f"{hour:02}:{rest:02}"


@lru_cache(maxsize=256)  # most calendars of a company are alike
def rarely_meant(
    windows: tuple[WeeklyWindow | AbsoluteWindow, ...], stated_as: Literal["downtime", "uptime"]
) -> tuple[str, ...]:
    """Return what about `windows`, of a calendar that states its downtime or its uptime, is worth a warning."""
    never = [] if windows else ["leaves no hour of the week, so nothing is ever idle by it"]
    return (*(_weekend_warnings(windows) if stated_as == "downtime" else never), *_inverted(windows, stated_as))


def _inverted(windows: Sequence[WeeklyWindow | AbsoluteWindow], stated_as: str) -> list[str]:
    """Return what is rarely meant where each weekday is idle at noon and awake the nights between them."""
    idle = _periods(windows)
    noon, night = (
        {day for day in range(5) for start, end in idle if start <= day * MINUTES_A_DAY + hour * 60 < end}
        for hour in (12, 2)
    )
    if len(noon) < 5 or night - {0}:  # the night before Monday is one of a weekend
        return []
    other = "uptime" if stated_as == "downtime" else "downtime"
    return [f"is idle by day and awake at night, from Mon to Fri; {other} states the opposite"]


class Calendar(Struct, frozen=True, cache_hash=True):
    """When something is idle: in the windows, less the exceptions and `awake`. `name` "": written inside a policy.

    Of a calendar that states its `uptime`, `windows` are what that leaves of a week, and `awake` what it has but once.
    """

    zone: tzinfo
    zone_name: str
    windows: tuple[WeeklyWindow | AbsoluteWindow, ...]
    exceptions: tuple[AbsoluteWindow, ...] = ()
    awake: tuple[AbsoluteWindow, ...] = ()
    name: str = ""
    field: Literal["downtime", "uptime"] = "downtime"
    texts: tuple[str, ...] = ()  # downtime or uptime, as written
    place: Place = Place("")


STATED: tuple[Literal["downtime", "uptime"], ...] = ("downtime", "uptime")
"""The fields that state the hours of a calendar, of which one is given."""

_OF_THIS_MACHINE = r"localtime$|posixrules$|posix/|right/"  # names that mean something else elsewhere
_A_WINDOW = 'a window like "Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00" or "2026-12-24T18:00/2027-01-02T08:00"'

Window = Annotated[str, Meta(min_length=1, extra_json_schema=expected(_A_WINDOW))]
_WallClock = Annotated[
    str, matching(r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?\Z", 'a time like "2026-12-24T18:00"')
]


class _ExceptionFields(Fields, frozen=True, kw_only=True):
    """A period during which nothing is idle by this calendar."""

    from_: _WallClock = field(name="from")
    """from is the start of the period, in the time zone of the calendar."""
    to: _WallClock
    """to is the end of the period, in the time zone of the calendar. It is not included."""
    reason: Annotated[str, Meta(max_length=200)] = ""
    """reason is shown to people who read the plan."""

    json_schema: ClassVar[dict[str, Any]] = expected("a mapping with from and to")


class HoursFields(Fields, frozen=True, kw_only=True):
    """Hours, stated as downtime or as uptime."""

    time_zone: Text | UnsetType = UNSET
    """timeZone is the IANA name of the time zone of all times, for example Europe/Paris."""
    downtime: Annotated[tuple[Window, ...], Meta(min_length=1)] | UnsetType = UNSET
    """downtime lists the windows of time that are idle: "Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00", "20:00-07:00"
    (every day), or once, "2026-12-24T18:00/2027-01-02T08:00". An end before the start is on the next day, and 24:00 is
    the end of a day. Either downtime or uptime is set."""
    uptime: Annotated[tuple[Window, ...], Meta(min_length=1)] | UnsetType = UNSET
    """uptime lists the windows of time that are not idle, for example "Mon-Fri 08:00-18:00". All other times are idle.
    The format is that of downtime."""
    exceptions: Annotated[tuple[_ExceptionFields, ...] | UnsetType, Meta(extra_json_schema={"default": []})] = UNSET
    """exceptions lists periods that are not idle, whatever downtime or uptime states."""


class _CalendarSpec(HoursFields, frozen=True, kw_only=True):
    """The hours of a calendar."""

    time_zone: Text
    exceptions: tuple[_ExceptionFields, ...] = ()

    json_schema: ClassVar[dict[str, Any]] = {
        "oneOf": [
            {"required": ["downtime"], "properties": {"uptime": False}},
            {"required": ["uptime"], "properties": {"downtime": False}},
        ],
        "x-expected": '"timeZone", and either "downtime" or "uptime"',
    }


class CalendarDocument(OwnDocument[Literal["Calendar"]], frozen=True, kw_only=True):
    """A Calendar holds windows of time. Schedules refer to it by name."""

    spec: _CalendarSpec
    """spec states when a schedule is idle."""


def calendar_policy_of(document: PolicyDocument, fields: CalendarDocument) -> Calendar:
    """Return the Calendar; problems and warnings are gathered in `document`."""
    return calendar_of(document, ("spec",), fields.spec, fields.metadata.name)


def calendar_of(document: PolicyDocument, path: Path, fields: HoursFields, name: str = "") -> Calendar:
    """Return the calendar at `path`; problems and warnings are gathered in `document`."""
    stated_as = _stated_as(document, path, fields)
    texts = given(fields.uptime if stated_as == "uptime" else fields.downtime) or ()
    stated = tuple(_windows(document, (*path, stated_as), texts))
    windows = stated if stated_as == "downtime" else the_rest_of_the_week(stated)
    for warning in rarely_meant(windows, stated_as):
        document.warn((*path, stated_as), warning)
    zone_name = given(fields.time_zone) or ""
    return Calendar(
        zone=_zone(document, (*path, "timeZone"), zone_name),
        zone_name=zone_name,
        windows=windows,
        exceptions=tuple(_exceptions(document, (*path, "exceptions"), given(fields.exceptions) or ())),
        awake=tuple(window for window in stated if isinstance(window, AbsoluteWindow)) if stated_as == "uptime" else (),
        name=name,
        field=stated_as,
        texts=texts,
        place=document.place,
    )


def _stated_as(document: PolicyDocument, path: Path, fields: HoursFields) -> Literal["downtime", "uptime"]:
    """Return the one of downtime and uptime that is given."""
    stated = [field for field in STATED if given(getattr(fields, field)) is not None]
    if len(stated) == len(STATED):
        document.add((*path, "uptime"), "stands beside downtime, expected one of the two", key=True)
    if not stated and all(document.is_readable((*path, field)) for field in STATED):
        document.add((*path, "downtime"), "is missing, expected downtime or uptime")
    return "uptime" if stated == ["uptime"] else "downtime"


def _windows(document: PolicyDocument, path: Path, texts: tuple[str, ...]) -> Iterator[WeeklyWindow | AbsoluteWindow]:
    for position, text in enumerate(texts):
        windows = parse_window(text)
        if windows is None:
            document.add((*path, position), f"is {shown(text)}, expected {_A_WINDOW}")
        yield from windows or ()


def _exceptions(document: PolicyDocument, path: Path, fields: tuple[_ExceptionFields, ...]) -> Iterator[AbsoluteWindow]:
    for position, one in enumerate(fields):
        window = parse_absolute(f"{one.from_}/{one.to}")
        if window is not None:
            yield replace(window, reason=one.reason)
        elif one.from_ and one.to:
            document.add((*path, position, "to"), f"is {shown(one.to)}, expected a time after {shown(one.from_)}")


def time_zone(name: str) -> tzinfo | None:
    """Return the time zone that is called `name` everywhere, None for none."""
    from zoneinfo import ZoneInfo

    try:
        return None if re.match(_OF_THIS_MACHINE, name) else ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        return None


def _zone(document: PolicyDocument, path: Path, name: str) -> tzinfo:
    found = time_zone(name)
    if found is not None:
        return found
    from zoneinfo import available_timezones

    zones = sorted(zone for zone in available_timezones() if not re.match(_OF_THIS_MACHINE, zone))
    cities = (zone for zone in zones if not zone.startswith("Etc/GMT"))  # whose Etc/GMT+2 is two hours behind UTC
    of_city = [zone for zone in cities if f"/{zone}".lower().endswith(f"/{name.lower()}")]
    near = nearest(name, zones) if "/" in name else ""  # EST is near CEST, and seven hours away
    near = f', did you mean "{min(of_city, key=len)}"?' if of_city else near
    document.add(path, f"is {shown(name)}, expected a time zone like Europe/Paris{near}")
    return UTC
