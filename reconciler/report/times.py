"""Times and ages as people read them, in the zone of the calendars: also those in reasons and in what would change a
decision.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import parse_time
from reconciler.decide.change_codes import ChangeIf
from reconciler.decide.reasons import WORDS, Reason, Reasons, filled, phrase_parts, stable
from reconciler.plan.model import Plan
from reconciler.untrusted_text import one_line

_STORED_TIME = r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def weekday_and_time(at: datetime, zone: tzinfo) -> str:
    """Return "Fri 2026-11-20 20:00": what calendar and clock in `zone` show at `at`."""
    here = at.astimezone(zone)
    return f"{DAYS[here.weekday()]} {here:%Y-%m-%d %H:%M}"


def time_and_zone(at: datetime, zone: tzinfo) -> str:
    """Return the time of a heading: "Fri 2026-11-20 20:00, times in Europe/Paris". No time below it says its zone."""
    return f"{weekday_and_time(at, zone)}, times in {zone}"


def common_zone(names: Collection[str]) -> tzinfo:
    """Return the time zone in which an output shows times: that of all its calendars, `names`, else UTC."""
    return _zone(next(iter(names))) if len(names) == 1 else UTC


def stored_text_in_utc(text: str) -> str:
    """Return stored `text` with its times as people read them, in UTC: they are stored as RFC 3339."""

    def shown(found: re.Match[str]) -> str:
        at = parse_time(found[0])
        return weekday_and_time(at, UTC) if at else found[0]

    return re.sub(_STORED_TIME, shown, text)


def age(length: timedelta) -> str:
    """Return a length of time as kubectl does: "90s", "6m", "5h", "3d"; of one that is still to come "in 90s"."""
    if length < timedelta(0):  # clocks differ
        return f"in {age(-length)}"
    seconds = int(length.total_seconds())
    for size, unit, least in ((86400, "d", 2), (3600, "h", 3), (60, "m", 2)):
        if seconds >= least * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def ago(length: timedelta) -> str:
    """Return how long ago something was: "90s ago"; "in 90s" where it is still to come."""
    return age(length) if length < timedelta(0) else f"{age(length)} ago"


class ReasonWords(Struct, frozen=True):
    """Reasons as a person reads them `now`, their times in `zone`, which each names where no heading does."""

    now: datetime
    zone: tzinfo = UTC
    names_zone: bool = False

    def time(self, at: datetime) -> str:
        """Return `at` as calendar and clock show it: "Fri 2026-11-20 20:00", or "Fri 2026-11-20 20:00 UTC"."""
        return f"{weekday_and_time(at, self.zone)} {self.zone}" if self.names_zone else weekday_and_time(at, self.zone)

    def reason(self, reasons: Iterable[Reason]) -> str:
        return ", ".join(map(self.part, phrase_parts(reasons)))

    def part(self, part: Reasons) -> str:
        return one_line(" ".join(map(self._filled, part)))

    def change_if(self, found: ChangeIf) -> str:
        """Return what would change a decision as a clause: "the metric is above 0"."""
        return one_line(found.shown(self._filled))

    def _filled(self, coded: Reason | ChangeIf) -> str:
        return filled(WORDS[coded.code], coded.values, self._shown)

    def _shown(self, value: Any, form: str) -> str:
        if form == "metric":
            return str(value or "metric")
        at = parse_time(value) if form and isinstance(value, str) else None
        if at is None:
            return stable(value, form)
        if form in ("edge", "until"):
            return f"{'until ' if form == 'until' else ''}{self.time(at)}"
        if form == "ago":
            return ago(self.now - at)
        length = age(abs(self.now - at))
        return f"for {length}" if form == "since" else length


def reasons_in(plan: Plan) -> ReasonWords:
    """Return how reasons and times of `plan` are worded: in the one time zone that its heading names."""
    return ReasonWords(plan.made_at, common_zone(plan.time_zones))


@cache
def _zone(name: str) -> tzinfo:
    """Return the time zone of that name, UTC where there is none of it."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        return UTC
