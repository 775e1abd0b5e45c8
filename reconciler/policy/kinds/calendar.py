"""Calendars, as documents of their own and inside policies."""

import re
from collections.abc import Iterator
from datetime import UTC, tzinfo
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field
from msgspec.structs import replace

from reconciler.messages import Path, nearest, shown
from reconciler.policy.kinds.document import Place, PolicyDocument
from reconciler.policy.kinds.fields import Fields, OwnDocument, Text, expected, given, matching
from reconciler.policy.kinds.windows import (
    AbsoluteWindow,
    WeeklyWindow,
    parse_absolute,
    parse_window,
    rarely_meant,
    the_rest_of_the_week,
)


class Calendar(Struct, frozen=True):
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

    zones = sorted(available_timezones())
    cities = (zone for zone in zones if not zone.startswith("Etc/GMT"))  # whose Etc/GMT+2 is two hours behind UTC
    of_city = [zone for zone in cities if zone.lower().endswith(f"/{name.lower()}")]
    near = nearest(name, zones) if "/" in name else ""  # EST is near CEST, and seven hours away
    near = f', did you mean "{of_city[0]}"?' if of_city else near
    document.add(path, f"is {shown(name)}, expected a time zone like Europe/Paris{near}")
    return UTC
