"""`reconciler forecast` and `reconciler calendar`: what the policies do in the days to come."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from reconciler.backends.backend import Opened
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.cli.options import (
    color_option,
    days_option,
    now_option,
    option,
    output_option,
    path_argument,
    quiet_option,
    tenant_option,
    tick_option,
    verb,
    verbose_option,
)
from reconciler.cli.output import as_text, say, show
from reconciler.cli.run import RunOptions
from reconciler.decide.idling.verdicts import schedules_of
from reconciler.errors import ExitCode, UsageError
from reconciler.forecast.savings import GROUPS, check_grouping
from reconciler.forecast.simulation import Simulation
from reconciler.forecast.text import ForecastStyle, render_text
from reconciler.forecast.timelines import Forecast, forecast
from reconciler.policy.types import Calendar, PolicySet, Prices
from reconciler.report.calendar import render_calendars
from reconciler.world import victim_order

price_option = option(
    "--price",
    multiple=True,
    metavar="RESOURCE=PRICE",
    help="What a core (cpu) or a GiB (memory) costs an hour, in place of prices of the Fleet; may be repeated.",
)


@verb("forecast")
@path_argument()
@option("--snapshot", metavar="DIR", help="The snapshot to play on; it stays as it is.")
@now_option
@days_option("How many days to play.")
@tick_option
@option("--by", metavar="GROUP", default="policy", help=f"Group by {', '.join(GROUPS)} or a label, for example team.")
@price_option
@tenant_option
@output_option("text", "json", "yaml", "markdown", "html")
@color_option
@verbose_option
@quiet_option
def forecast_command(path: str, output: str, days: int, **flags: Any) -> int:
    """Show what the policies below PATH do in the days to come, and what that saves.

    The runs of those days are played on a copy of a snapshot in memory. Nothing is written.
    """
    options = RunOptions.of(path, flags)
    if options.snapshot is None:
        raise UsageError("--snapshot: a forecast plays on a snapshot, expected DIR; `reconciler snapshot` writes one")
    stated, policies = prices_of(flags["price"]), options.policies()
    style = ForecastStyle(flags["by"], stated.over(policies.fleet.prices), options.color, options.verbose)
    made = played_forecast(policies, options, timedelta(days=days), flags["tick"])
    check_grouping(made, style.by)
    show(_rendered(made, output, style), output)
    return ExitCode.PARTIAL if made.unknown else ExitCode.DONE


def played_forecast(policies: PolicySet, options: RunOptions, length: timedelta, tick: timedelta) -> Forecast:
    """Return what the runs from the time of `options` on come to, played on its snapshot.

    Raises:
        SnapshotError: it cannot be read.
    """
    opened = opened_snapshot(options, policies)
    if not options.quiet:
        for warning in opened.warnings():
            say(f"warning: {warning}")
    return forecast(policies, Simulation(policies, opened, tick), options.now, options.now + length)


def opened_snapshot(options: RunOptions, *sets: PolicySet) -> Opened:
    """Return the clusters of all `sets` on the snapshot that `options` name, read once; who plays on them copies them.

    Raises:
        SnapshotError: it cannot be read.
    """
    assert options.snapshot is not None
    names = tuple(dict.fromkeys(cluster.name for policies in sets for cluster in policies.fleet.clusters))
    order = victim_order(lambda: options.now)
    return open_snapshot(options.snapshot, names, order, sets[0].fleet.namespace, options.now)


def prices_of(texts: tuple[str, ...]) -> Prices:
    """Return the prices that `texts` state, RESOURCE=PRICE each.

    Raises:
        UsageError: a resource or a price is none, or a resource is priced twice.
    """
    found: dict[str, float] = {}
    for text in texts:
        resource, _, price = text.partition("=")
        try:
            amount = float(price)
        except ValueError:
            amount = math.nan
        if resource not in ("cpu", "memory") or resource in found or not 0 <= amount < math.inf:
            raise UsageError(f'--price: "{text}" is not a price, expected cpu=NUMBER and memory=NUMBER, each once')
        found[resource] = amount
    return Prices(**found)


def _rendered(made: Forecast, output: str, style: ForecastStyle) -> str:
    if output == "text":
        return render_text(made, style)
    if output == "markdown":
        from reconciler.forecast.text import render_markdown

        return render_markdown(made, style)
    if output == "html":
        from reconciler.forecast.html import render_html

        return render_html(made, style)
    from reconciler.forecast.json import forecast_to_dict

    return as_text(forecast_to_dict(made, style.by, style.prices), output)


@verb("calendar")
@path_argument()
@now_option
@days_option("How many days to list.", 366)
def calendar_command(path: str, days: int, **flags: Any) -> None:
    """List when the calendars below PATH are idle, in their own time, with changes of the clocks."""
    options = RunOptions.of(path, flags)
    show(render_calendars(calendars_of(options.policies()), options.now, options.now + timedelta(days=days)))


def calendars_of(policies: PolicySet) -> list[tuple[str, Calendar]]:
    """Return every calendar with a name to show it under: named ones first, then those written inside policies."""
    inside = [
        (f"{policy.name} (its own)", calendar)
        for policy in policies.idling
        for calendar in schedules_of(policy.idle_when)
        if not calendar.name
    ]
    return [*((calendar.name, calendar) for calendar in policies.calendars), *inside]
