"""`reconciler forecast` and `reconciler calendar`: what the policies do in the days to come."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from reconciler.backends.backend import Opened
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.backends.snapshot.query_history import HISTORY_FILE, QueryHistory, read_history
from reconciler.cli.options import (
    LONGEST_PAST,
    color_option,
    days_option,
    duration,
    now_option,
    option,
    output_option,
    path_argument,
    quiet_option,
    request_options,
    tenant_option,
    tick_option,
    verb,
    verbose_option,
)
from reconciler.cli.output import as_text, say, show
from reconciler.cli.run import RunOptions
from reconciler.cli.second_process import shared
from reconciler.decide.annotations import format_time
from reconciler.decide.idling.verdicts import schedules_of
from reconciler.errors import ExitCode, SnapshotError, UsageError
from reconciler.forecast.replay import replay
from reconciler.forecast.savings import GROUPS, check_grouping
from reconciler.forecast.simulation import Simulation
from reconciler.forecast.text import ForecastStyle, render_text
from reconciler.forecast.timelines import Forecast, forecast
from reconciler.policy.kinds.fields import spelt_duration
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
@request_options
@now_option
@option(
    "--replay",
    "past",
    type=duration(timedelta(days=1), LONGEST_PAST),
    metavar="DURATION",
    help="Play the past that long with what the queries said then, recorded in the snapshot, or asked of Prometheus.",
)
@days_option("How many days to play.")
@tick_option
@option("--by", metavar="GROUP", default="policy", help=f"Group by {', '.join(GROUPS)} or a label, for example team.")
@price_option
@tenant_option
@output_option("text", "json", "yaml", "markdown", "html")
@color_option
@verbose_option
@quiet_option
def forecast_command(path: str, output: str, days: int, past: timedelta | None, **flags: Any) -> int:
    """Show what the policies below PATH do in the days to come, and what that saves.

    The runs of those days are played on a copy of a snapshot in memory. Nothing is written. With --replay they are
    days of the past, and metrics have the values that they had then.
    """
    options = RunOptions.of(path, flags)
    if options.snapshot is None and past is None:
        raise UsageError("--snapshot: a forecast plays on a snapshot, expected DIR; `reconciler snapshot` writes one")
    stated, policies = prices_of(flags["price"]), options.policies()
    style = ForecastStyle(flags["by"], stated.over(policies.fleet.prices), options.color, options.verbose)
    if past is None:
        made = played_forecast(policies, options, timedelta(days=days), flags["tick"])
    else:
        with past_snapshot(options, past, flags["tick"], policies) as with_history:
            made = replayed(policies, with_history, past)
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


@contextmanager
def past_snapshot(options: RunOptions, past: timedelta, tick: timedelta, policies: PolicySet) -> Iterator[RunOptions]:
    """Yield `options` with a snapshot: their own, or one of live clusters with the history, which is removed then."""
    if options.snapshot is not None:
        yield options
        return
    from reconciler.cli.snapshot import Past, recorded, write_snapshot

    recorders, made = recorded(options, policies, Past(past, tick))
    if not made.clusters:
        raise SnapshotError("no cluster answers, expected one to replay")
    with TemporaryDirectory(prefix="reconciler-replay-") as folder:
        target = Path(folder, "snapshot")
        write_snapshot(target, {name: one.files(format_time(options.now)) for name, one in recorders.items()})
        yield replace(options, snapshot=str(target))


def replayed(policies: PolicySet, options: RunOptions, past: timedelta) -> Forecast:
    """Return what `policies` would have done in the `past`, by the history in the snapshot of `options`.

    Raises:
        SnapshotError: the snapshot cannot be read, or holds no history.
    """
    opened = opened_snapshot(options, policies)
    return replay(policies, opened, histories_of(Path(options.snapshot or ""), opened, past), past, shared)


def histories_of(top: Path, opened: Opened, past: timedelta) -> dict[str, QueryHistory]:
    """Return what `histories_in` does.

    Raises:
        SnapshotError: there is none, or one is malformed.
    """
    found = histories_in(top, opened)
    if not found:
        raise SnapshotError(
            f"{top}: holds no history of queries, expected {HISTORY_FILE} in a cluster's folder; "
            f"record it with `reconciler snapshot --with-history {spelt_duration(past)}`"
        )
    return found


def histories_in(top: Path, opened: Opened) -> dict[str, QueryHistory]:
    """Return what was recorded of the queries of each cluster that has a history.

    Raises:
        SnapshotError: one is malformed.
    """
    found = {name: read_history(top / name, top) for name, one in opened.backends.items() if one.cluster is not None}
    return {name: history for name, history in found.items() if history is not None}


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
