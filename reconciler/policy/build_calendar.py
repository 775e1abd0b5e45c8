"""Calendars, as documents of their own and inside policies -> Calendar."""

from __future__ import annotations

import re
from datetime import UTC, tzinfo

from reconciler.policy.building import Reading
from reconciler.policy.types import AbsoluteWindow, Calendar, WeeklyWindow
from reconciler.policy.windows import parse_absolute, parse_window, weekend_warnings
from reconciler.policy.words import nearest
from reconciler.yaml.words import Path, shown

_OF_THIS_MACHINE = re.compile(r"localtime$|posixrules$|posix/|right/")  # names that mean something else elsewhere


def build_calendar(reading: Reading, path: Path, name: str) -> Calendar:
    """Return the calendar at `path`; problems and warnings are gathered in `reading`."""
    texts = reading.texts((*path, "windows"))
    windows = _windows(reading, (*path, "windows"), texts)
    for words in weekend_warnings(windows):
        reading.warn((*path, "windows"), words)
    zone_name = str(reading.get((*path, "timeZone"), "UTC"))
    return Calendar(
        zone=_zone(reading, (*path, "timeZone"), zone_name),
        zone_name=zone_name,
        windows=windows,
        exceptions=_exceptions(reading, (*path, "except")),
        name=name,
        texts=texts,
        place=reading.place,
    )


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
    for position, text in enumerate(reading.texts(path)):
        window = parse_absolute(text)
        if window is None:
            reading.add(
                (*path, position),
                f'is {shown(text)}, expected a window like "2026-12-24T18:00/2027-01-02T08:00", end after start',
            )
        else:
            found.append(window)
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
