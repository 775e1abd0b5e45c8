"""Calendars, as documents of their own and inside policies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, tzinfo
from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType, field
from msgspec.structs import replace

from reconciler.messages import Path, nearest, shown
from reconciler.policy.kinds.document import PolicyDocument
from reconciler.policy.kinds.fields import KIND, ApiVersionField, Fields, MetadataField, Text, expected, given
from reconciler.policy.types import AbsoluteWindow, Calendar, WeeklyWindow
from reconciler.policy.windows import parse_absolute, parse_window, the_rest_of_the_week, weekend_warnings

STATED: tuple[Literal["downtime", "uptime"], ...] = ("downtime", "uptime")
"""The fields that state the hours of a calendar, of which one is given."""

_OF_THIS_MACHINE = re.compile(r"localtime$|posixrules$|posix/|right/")  # names that mean something else elsewhere
_A_WINDOW = 'a window like "Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00" or "2026-12-24T18:00/2027-01-02T08:00"'

Window = Annotated[str, Meta(min_length=1, extra_json_schema=expected(_A_WINDOW))]
WallClock = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?\Z",
        extra_json_schema=expected('a time like "2026-12-24T18:00"'),
    ),
]


class ExceptionFields(Fields, frozen=True, kw_only=True):
    """A period during which nothing is idle by this calendar."""

    from_: Annotated[
        WallClock, Meta(description="from is the start of the period, in the time zone of the calendar.")
    ] = field(name="from")
    to: Annotated[
        WallClock,
        Meta(description="to is the end of the period, in the time zone of the calendar. It is not included."),
    ]
    reason: Annotated[str, Meta(max_length=200, description="reason is shown to people who read the plan.")] = ""

    json_schema: ClassVar[dict[str, Any]] = expected("a mapping with from and to")


TIME_ZONE = Meta(description="timeZone is the IANA name of the time zone of all times, for example Europe/Paris.")


EXCEPTIONS = Meta(
    description="exceptions lists periods that are not idle, whatever downtime or uptime states.",
    extra_json_schema={"default": []},
)


class HoursFields(Fields, frozen=True, kw_only=True):
    """Hours, stated as downtime or as uptime."""

    time_zone: Annotated[Text | UnsetType, TIME_ZONE] = UNSET
    downtime: Annotated[
        Annotated[tuple[Window, ...], Meta(min_length=1)] | UnsetType,
        Meta(
            description='downtime lists the windows of time that are idle: "Mon-Thu 20:00-07:00", '
            '"Fri 20:00-Mon 07:00", "20:00-07:00" (every day), or once, "2026-12-24T18:00/2027-01-02T08:00". An end '
            "before the start is on the next day, and 24:00 is the end of a day. Either downtime or uptime is set."
        ),
    ] = UNSET
    uptime: Annotated[
        Annotated[tuple[Window, ...], Meta(min_length=1)] | UnsetType,
        Meta(
            description='uptime lists the windows of time that are not idle, for example "Mon-Fri 08:00-18:00". All '
            "other times are idle. The format is that of downtime. Either downtime or uptime is set."
        ),
    ] = UNSET
    exceptions: Annotated[tuple[ExceptionFields, ...] | UnsetType, EXCEPTIONS] = UNSET


class CalendarFields(HoursFields, frozen=True, kw_only=True):
    """The hours of a calendar."""

    time_zone: Annotated[Text, TIME_ZONE]
    exceptions: Annotated[tuple[ExceptionFields, ...], EXCEPTIONS] = ()

    json_schema: ClassVar[dict[str, Any]] = {
        "oneOf": [
            {"required": ["downtime"], "properties": {"uptime": False}},
            {"required": ["uptime"], "properties": {"downtime": False}},
        ],
        "x-expected": '"timeZone", and either "downtime" or "uptime"',
    }


class CalendarDocument(Fields, frozen=True, kw_only=True):
    """A Calendar holds windows of time. Schedules refer to it by name."""

    api_version: ApiVersionField
    kind: Annotated[Literal["Calendar"], KIND]
    metadata: MetadataField
    spec: Annotated[CalendarFields, Meta(description="spec states when a schedule is idle.")]


def calendar_of(document: PolicyDocument, path: Path, fields: HoursFields, name: str = "") -> Calendar:
    """Return the calendar at `path`; problems and warnings are gathered in `document`."""
    stated_as = _stated_as(document, path, fields)
    texts = given(fields.uptime if stated_as == "uptime" else fields.downtime) or ()
    stated = tuple(_windows(document, (*path, stated_as), texts))
    windows = stated if stated_as == "downtime" else the_rest_of_the_week(stated)
    for words in weekend_warnings(windows) if stated_as == "downtime" else _uptime_warnings(windows):
        document.warn((*path, stated_as), words)
    zone_name = given(fields.time_zone) or ""
    return Calendar(
        zone=_zone(document, (*path, "timeZone"), zone_name),
        zone_name=zone_name,
        windows=windows,
        exceptions=tuple(_exceptions(document, (*path, "exceptions"), given(fields.exceptions) or ())),
        awake=tuple(one for one in stated if isinstance(one, AbsoluteWindow)) if stated_as == "uptime" else (),
        name=name,
        field=stated_as,
        texts=texts,
        place=document.place,
    )


def _uptime_warnings(windows: tuple[WeeklyWindow | AbsoluteWindow, ...]) -> list[str]:
    """Return what is hardly meant of an uptime that leaves `windows`; its weekends are as somebody wrote them."""
    return [] if windows else ["leaves no hour of the week, so nothing is ever idle by it"]


def _stated_as(document: PolicyDocument, path: Path, fields: HoursFields) -> Literal["downtime", "uptime"]:
    """Return the one of downtime and uptime that is given."""
    stated = [field for field in STATED if given(getattr(fields, field)) is not None]
    if len(stated) == len(STATED):
        document.add((*path, "uptime"), "stands beside downtime, expected one of the two", key=True)
    if not stated and all(document.is_judged((*path, field)) for field in STATED):
        document.add((*path, "downtime"), "is missing, expected downtime or uptime")
    return "uptime" if stated == ["uptime"] else "downtime"


def _windows(document: PolicyDocument, path: Path, texts: tuple[str, ...]) -> Iterator[WeeklyWindow | AbsoluteWindow]:
    for position, text in enumerate(texts):
        windows = parse_window(text)
        if windows is None:
            document.add((*path, position), f"is {shown(text)}, expected {_A_WINDOW}")
        yield from windows or ()


def _exceptions(document: PolicyDocument, path: Path, fields: tuple[ExceptionFields, ...]) -> Iterator[AbsoluteWindow]:
    for position, one in enumerate(fields):
        window = parse_absolute(f"{one.from_}/{one.to}")
        if window is not None:
            yield replace(window, reason=one.reason)
        elif one.from_ and one.to:
            document.add((*path, position, "to"), f"is {shown(one.to)}, expected a time after {shown(one.from_)}")


def _zone(document: PolicyDocument, path: Path, name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, available_timezones

    if not _OF_THIS_MACHINE.match(name):
        try:
            return ZoneInfo(name)
        except (OSError, ValueError, LookupError):
            pass
    near = nearest(name, available_timezones())
    document.add(path, f"is {shown(name)}, expected a time zone like Europe/Paris{near}")
    return UTC
