"""Calendars, as documents of their own and inside policies -> Calendar."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, tzinfo
from typing import Literal

from reconciler.policy.building import Reading
from reconciler.policy.types import AbsoluteWindow, Calendar, WeeklyWindow
from reconciler.policy.windows import parse_absolute, parse_window, the_rest_of_the_week, weekend_warnings
from reconciler.policy.words import nearest
from reconciler.yaml.words import Path, shown

STATED: tuple[Literal["downtime", "uptime"], ...] = ("downtime", "uptime")
"""The fields that state the hours of a calendar, of which one is given."""

_OF_THIS_MACHINE = re.compile(r"localtime$|posixrules$|posix/|right/")  # names that mean something else elsewhere


def build_calendar(reading: Reading, path: Path, name: str) -> Calendar:
    """Return the calendar at `path`; problems and warnings are gathered in `reading`."""
    field = _field(reading, path)
    texts = reading.texts((*path, field))
    stated = _windows(reading, (*path, field), texts)
    windows = stated if field == "downtime" else the_rest_of_the_week(stated)
    for words in weekend_warnings(windows) if field == "downtime" else _uptime_warnings(windows):
        reading.warn((*path, field), words)
    zone_name = str(reading.get((*path, "timeZone"), "UTC"))
    return Calendar(
        zone=_zone(reading, (*path, "timeZone"), zone_name),
        zone_name=zone_name,
        windows=windows,
        exceptions=_exceptions(reading, (*path, "exceptions")),
        awake=tuple(one for one in stated if isinstance(one, AbsoluteWindow)) if field == "uptime" else (),
        name=name,
        field=field,
        texts=texts,
        place=reading.place,
    )


def _uptime_warnings(windows: tuple[WeeklyWindow | AbsoluteWindow, ...]) -> list[str]:
    """Return what is hardly meant of an uptime that leaves `windows`; its weekends are as somebody wrote them."""
    return [] if windows else ["leaves no hour of the week, so nothing is ever idle by it"]


def _field(reading: Reading, path: Path) -> Literal["downtime", "uptime"]:
    """Return the one of downtime and uptime that is given."""
    given = [field for field in STATED if reading.get((*path, field)) is not None]
    if len(given) == len(STATED):
        reading.add((*path, "uptime"), "stands beside downtime, expected one of the two", key=True)
    if not given and all(reading.document.is_judged((*path, stated)) for stated in STATED):
        reading.add((*path, "downtime"), "is missing, expected downtime or uptime")
    return "uptime" if given == ["uptime"] else "downtime"


def _windows(reading: Reading, path: Path, texts: tuple[str, ...]) -> tuple[WeeklyWindow | AbsoluteWindow, ...]:
    found: list[WeeklyWindow | AbsoluteWindow] = []
    for position, text in enumerate(texts):
        windows = parse_window(text)
        if windows is None:
            reading.add(
                (*path, position),
                f'is {shown(text)}, expected a window like "Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00" '
                'or "2026-12-24T18:00/2027-01-02T08:00"',
            )
        found += windows or ()
    return tuple(found)


def _exceptions(reading: Reading, path: Path) -> tuple[AbsoluteWindow, ...]:
    found: list[AbsoluteWindow] = []
    for position in range(len(reading.get(path, ()))):
        inside = (*path, position)
        start, end = (str(reading.get((*inside, field), "")) for field in ("from", "to"))
        window = parse_absolute(f"{start}/{end}")
        if window is not None:
            found.append(replace(window, reason=str(reading.get((*inside, "reason"), ""))))
        elif start and end:
            reading.add((*inside, "to"), f"is {shown(end)}, expected a time after {shown(start)}")
    return tuple(found)


def _zone(reading: Reading, path: Path, name: str) -> tzinfo:
    from zoneinfo import ZoneInfo, available_timezones

    if not _OF_THIS_MACHINE.match(name):
        try:
            return ZoneInfo(name)
        except (OSError, ValueError, LookupError):
            pass
    near = nearest(name, available_timezones())
    reading.add(path, f"is {shown(name)}, expected a time zone like Europe/Paris{near}")
    return UTC
