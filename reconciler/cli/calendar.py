"""`reconciler calendar`: the windows in the days to come."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import click

from reconciler.cli.options import now_option, option, path_argument, verb
from reconciler.cli.output import show
from reconciler.cli.run import RunOptions
from reconciler.decide.idling.criteria import schedules_of
from reconciler.decide.schedule import open_periods
from reconciler.policy.types import Calendar, PolicySet
from reconciler.report.calendar import CalendarView, render_calendar


@verb("calendar")
@path_argument()
@now_option
@option("--days", type=click.IntRange(1, 366), default=7, metavar="N", help="How many days to list.")
def calendar_command(path: str, days: int, **flags: Any) -> None:
    """List when the calendars below PATH are idle, in their own time, with changes of the clocks."""
    options = RunOptions.of(path, flags)
    found = calendars_of(options.policies())
    end = options.now + timedelta(days=days)
    views = [CalendarView(name, one, open_periods(one, options.now, end)) for name, one in found]
    show(render_calendar(views, options.now, end))


def calendars_of(policies: PolicySet) -> list[tuple[str, Calendar]]:
    """Return every calendar with a name to show it under: named ones first, then those written inside policies."""
    inside = [
        (f"{policy.name} (its own)", calendar)
        for policy in policies.idling
        for calendar in schedules_of(policy.idle_when)
        if not calendar.name
    ]
    return [*((calendar.name, calendar) for calendar in policies.calendars), *inside]
