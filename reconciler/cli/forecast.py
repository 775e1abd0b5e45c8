"""`reconciler forecast` and `reconciler calendar`: what the policies do in the days to come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from reconciler.backends.protocols import Cluster
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.cli.option_values import LONGEST_PAST, duration, prices_of
from reconciler.cli.options import days_option, is_on_command_line, option, output_option, price_option, verb
from reconciler.cli.output import Formats, say_each, show
from reconciler.cli.run_options import REQUESTS, RunOptions
from reconciler.cli.second_process import in_processes
from reconciler.decide.annotations import format_time
from reconciler.errors import ExitCode, SnapshotError, UsageError
from reconciler.forecast.expected_savings import GROUPS, check_grouping
from reconciler.forecast.html import render_html
from reconciler.forecast.json import forecast_to_dict
from reconciler.forecast.query_history import HISTORY_FILE, QueryHistory, read_history
from reconciler.forecast.replay import replay
from reconciler.forecast.simulation import Simulation
from reconciler.forecast.text import ForecastStyle, render_markdown, render_text
from reconciler.forecast.timelines import Forecast, forecast
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import PolicySet
from reconciler.report.calendar import render_calendars
from reconciler.world import victim_order


def _values(shown: Forecast, style: ForecastStyle) -> dict[str, Any]:
    return forecast_to_dict(shown, style.by, style.prices)


FORMATS: Formats = {
    "text": render_text,
    "json": _values,
    "yaml": _values,
    "markdown": render_markdown,
    "html": render_html,
}


class _ForecastOptions(RunOptions):
    snapshot: str | None = option("The snapshot to play on; it stays as it is.", metavar="DIR")
    past: timedelta | None = option(
        "Play the past that long with what the queries said then, recorded in the snapshot, or asked of Prometheus.",
        "--replay",
        type=duration(timedelta(days=1), LONGEST_PAST),
    )
    days: int = days_option("How many days to play.")
    by: str = option(f"Group by {', '.join(GROUPS)} or a label, for example team.", metavar="GROUP", default="policy")
    price: tuple[str, ...] = price_option()
    output: str = output_option(*FORMATS)


@verb("forecast", _ForecastOptions, "path", *REQUESTS, "now", "tick", "tenant", "color_choice", "verbose", "quiet")
def forecast_command(options: _ForecastOptions) -> int:
    """Show what the policies below PATH do in the days to come, and what that saves.

    The runs of those days are played on a copy of a snapshot in memory. Nothing is written. With --replay they are
    days of the past, and metrics have the values that they had then.

    # Play the next seven days on a snapshot
    forecast --snapshot DIR
    # What does each team save in two weeks, in money?
    forecast --snapshot DIR --days 14 --by team --price cpu=0.031 --price memory=0.0042
    # What would the policies have done in the last month?
    forecast --replay 30d
    """
    past = options.past
    if options.snapshot is None and past is None:
        raise UsageError("--snapshot: a forecast plays on a snapshot, expected DIR; `reconciler snapshot` writes one")
    if past is not None and is_on_command_line("days"):
        raise UsageError(
            "--days: are days to come, expected no --replay beside it; leave it out, or say with --replay how long"
        )
    stated, policies = prices_of(options.price), options.policies()
    style = ForecastStyle(options.by, stated.over(policies.fleet.prices), options.color, options.verbose)
    with past_snapshot(options, past, policies) if past is not None else nullcontext(options) as on_snapshot:
        played = SimulatedSnapshot(on_snapshot, policies)
        say_each("warning", played.opened.warnings())
        shown = played.forecast(policies, options.days) if past is None else played.replay(policies, past)
    check_grouping(shown, style.by)
    show(FORMATS[options.output](shown, style), options.output)
    say_each("error", (f"{name}: {why}" for name, why in shown.first.unknown.items()))
    lacking = shown.replay is not None and shown.replay.lacking
    return ExitCode.PARTIAL if shown.first.unknown or lacking else ExitCode.DONE


class _CalendarOptions(RunOptions):
    days: int = days_option("How many days to list.", 366)


@verb("calendar", _CalendarOptions, "path", "now")
def calendar_command(options: _CalendarOptions) -> None:
    """List when the calendars below PATH are idle, in their own time, with changes of the clocks.

    # List the idle hours of the next seven days
    calendar
    # List those around a change of the clocks
    calendar --now 2026-10-20T00:00:00Z --days 10
    """
    policies, until = options.policies(), options.now + timedelta(days=options.days)
    found = [(calendar.name, calendar) for calendar in policies.calendars]
    for policy in policies.idling:
        found += [(f"{policy.name} (its own)", calendar) for calendar in policy.calendars if not calendar.name]
    show(render_calendars(found, options.now, until))


# The snapshot on which days are simulated: those to come, or those of the past with what their queries said.


_SAID_BY_HISTORY = {"now": "when the past ends", "tick": "how often a run comes"}


@contextmanager
def past_snapshot(options: RunOptions, past: timedelta, policies: PolicySet) -> Iterator[RunOptions]:
    """Yield `options` with a snapshot: their own, or one of live clusters with the history, which is removed then.

    Raises:
        UsageError: what the history of a snapshot says stands on the command line too.
    """
    if options.snapshot is not None:
        for flag, what in _SAID_BY_HISTORY.items():
            if is_on_command_line(flag):
                words = f"the history in the snapshot says {what}, expected no --{flag} beside --snapshot"
                raise UsageError(f"--{flag}: {words}")
        yield options
        return
    from reconciler.cli.snapshot import recorded, write_snapshot

    recorders, plan = recorded(options, policies, past)
    if not plan.clusters:
        raise SnapshotError("no cluster answers, expected one to replay")
    with TemporaryDirectory(prefix="reconciler-replay-") as folder:
        target = Path(folder, "snapshot")
        write_snapshot(target, {name: recorder.files(format_time(options.now)) for name, recorder in recorders.items()})
        yield options.replace(snapshot=str(target))


class SimulatedSnapshot:
    """The snapshot that `options` name, read once; a simulation of days to come, or past, copies it."""

    def __init__(self, options: RunOptions, *sets: PolicySet) -> None:
        """It has the clusters of all `sets`.

        Raises:
            SnapshotError: it cannot be read.
        """
        assert options.snapshot is not None
        names = tuple(dict.fromkeys(cluster.name for policies in sets for cluster in policies.fleet.clusters))
        self._options = options
        self.top = Path(options.snapshot)
        self.opened = open_snapshot(options.snapshot, names, victim_order(lambda: options.now), options.now)

    def simulation(self, policies: PolicySet) -> Simulation:
        return Simulation(policies, self.opened, self._options.tick)

    def forecast(self, policies: PolicySet, days: int) -> Forecast:
        """Return what the runs of so many days to come do."""
        start = self._options.now
        return forecast(policies, self.simulation(policies), start, start + timedelta(days=days))

    @cached_property
    def histories(self) -> dict[str, QueryHistory]:
        """What was recorded of the queries of each cluster that has a history.

        Raises:
            SnapshotError: one is malformed.
        """
        names = [name for name, one in self.opened.backends.items() if one.cluster is not None]
        found = {name: read_history(self.top / name, self.top) for name in names}
        return {name: history for name, history in found.items() if history is not None}

    @property
    def measured(self) -> dict[str, Cluster]:
        """The clusters that have a history."""
        sources = {name: backend.cluster for name, backend in self.opened.backends.items() if name in self.histories}
        return {name: source for name, source in sources.items() if source is not None}

    def recorded(self, past: timedelta) -> dict[str, QueryHistory]:
        """Return `histories`.

        Raises:
            SnapshotError: there is none, or one is malformed.
        """
        if not self.histories:
            raise SnapshotError(
                f"{self.top}: holds no history of queries, expected {HISTORY_FILE} in a cluster's folder; "
                f"record it with `reconciler snapshot --with-history {spelt_duration(past)}`"
            )
        return self.histories

    def replay(self, policies: PolicySet, past: timedelta) -> Forecast:
        """Return what `policies` would have done in the `past`; raises what `recorded` does."""
        return replay(policies, self.opened, self.recorded(past), past, in_processes)
