"""`reconciler savings`: what idling saved in the days that the history keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from msgspec import Struct

from reconciler.cli.exit_codes import no_cluster_read
from reconciler.cli.history import read_history
from reconciler.cli.option_values import duration, is_duration, prices_of
from reconciler.cli.options import option, output_option, price_option, verb
from reconciler.cli.output import Formats, document, say_each, show
from reconciler.cli.run_options import READ_WORLD, RunOptions
from reconciler.decide.annotations import format_time
from reconciler.errors import ExitCode
from reconciler.history.config_maps import KEPT
from reconciler.history.realised_savings import IdlePeriod, ended_periods, lasting_periods
from reconciler.messages import counted
from reconciler.model import by_key
from reconciler.pipeline import plan
from reconciler.plan.model import Plan
from reconciler.pod_requests import Hours
from reconciler.policy.types import Fleet, Prices
from reconciler.report.groups import columns
from reconciler.report.times import common_zone, time_and_zone, weekday_and_time
from reconciler.untrusted_text import one_line

_NONE = "(none)"
GROUPS = ("policy", "tenant", "namespace", "cluster")


class _RealisedSavings(Struct, frozen=True):
    """What idling saved from `start` until the plan was made, by group; the history has nothing before
    `known_from`, and nothing at all where that is None. `complete`: all clusters, lists and histories were read."""

    plan: Plan
    start: datetime
    known_from: datetime | None
    groups: Mapping[str, list[IdlePeriod]]
    prices: Prices
    complete: bool

    def lines(self, by: str) -> Iterator[str]:
        """Yield what people read."""
        zone = common_zone(self.plan.time_zones)
        begin, end = weekday_and_time(self.start, zone), time_and_zone(self.plan.made_at, zone)
        yield f"Savings of Fleet {one_line(self.plan.fleet)}, {begin} to {end}"
        if self.known_from is not None and self.known_from > self.start:
            first = weekday_and_time(self.known_from, zone)
            if not self.groups and self.known_from > self.plan.made_at:
                yield f"The history begins {first}: whether anything was idle before is not known."
                return
            yield f"The history begins {first}; what ended before that is not known."
        if not self.groups:
            yield "Nothing was idle." if self.complete else "Whether anything was idle is not known."
            return
        head = (by, "workloads", "replica-hours", "CPU-hours", "GiB-hours", *["money"] * self.prices.known)
        rows = [self._row(one_line(name), periods) for name, periods in self._ordered()]
        yield from (f"  {line}" for line in columns(head, [*rows, self._row("all", self._all)], numbers=True))
        with_replicas = {period.object for period in self._all if period.asleep}
        without = len({period.object for period in self._all} - with_replicas)
        if without:
            kinds = "CronJobs, switches, autoscalers at a lower minimum, and what KEDA has not scaled yet"
            yield f"No replicas are counted of {counted(without, 'workload')}: {kinds}."

    def values(self, by: str) -> dict[str, Any]:
        """Return the same as JSON values."""
        values = {
            "fleet": self.plan.fleet,
            "from": format_time(self.start),
            "to": format_time(self.plan.made_at),
            "knownFrom": None if self.known_from is None else format_time(self.known_from),
            "complete": self.complete,
            "by": by,
            "groups": [{"name": name, **self._values(periods)} for name, periods in self._ordered()],
            "all": self._values(self._all),
        }
        return document("Savings", values)

    @property
    def _all(self) -> tuple[IdlePeriod, ...]:
        return tuple(period for periods in self.groups.values() for period in periods)

    def _ordered(self) -> list[tuple[str, list[IdlePeriod]]]:
        return sorted(self.groups.items(), key=lambda pair: (-self._hours(pair[1]).replicas, pair[0]))

    def _hours(self, periods: Iterable[IdlePeriod]) -> Hours:
        return sum((period.saved(self.start, self.plan.made_at) for period in periods), Hours())

    def _row(self, name: str, periods: Sequence[IdlePeriod]) -> tuple[str, ...]:
        hours, workloads = self._hours(periods), len({period.object for period in periods})
        numbers = (workloads, hours.replicas, hours.requests.cpu, hours.requests.memory)
        money = [f"{self.prices.cost(hours):,.2f}"] * self.prices.known
        return name, *(f"{number:,.0f}" for number in numbers), *money

    def _values(self, periods: Sequence[IdlePeriod]) -> dict[str, Any]:
        hours = self._hours(periods)
        money = {"money": round(self.prices.cost(hours), 4)} if self.prices.known else {}
        return {"workloads": len({period.object for period in periods}), **hours.values(), **money}


FORMATS: Formats = {"text": _RealisedSavings.lines, "json": _RealisedSavings.values}


class _SavingsOptions(RunOptions):
    since: timedelta = option(
        "How far back; 35 days are kept.",
        type=duration(timedelta(seconds=1), KEPT),
        default=timedelta(days=30),
        elsewhere=is_duration,
    )
    by: str = option("What to group by.", type=click.Choice(GROUPS), default="policy", elsewhere=bool)
    price: tuple[str, ...] = price_option()
    output: str = output_option(*FORMATS)


@verb("savings", _SavingsOptions, "path", "context", *READ_WORLD)
def savings_command(options: _SavingsOptions) -> int:
    """Show what idling saved: the replicas that did not run, for how long, and what their pods request.

    The periods in which workloads were idle come from the history, and those that last from the clusters. Nothing is
    written.

    # What did idling save in the last 30 days?
    savings
    # Of each tenant, in money
    savings --by tenant --price cpu=0.031 --price memory=0.0042
    """
    by, length = options.by, options.since
    stated, read = prices_of(options.price), options.policies()
    world = options.world(read.fleet)
    current_plan = plan(read, world, options.request())
    start = current_plan.made_at - length
    days, failures = read_history(read.fleet, world, (current_plan.made_at - KEPT).astimezone(UTC).date())
    unread = [f"{what}: {why}" for what, why in current_plan.unread.items()]
    failures = list(dict.fromkeys((*failures, *unread)))
    say_each("error", map(one_line, failures))
    changes = [change for day in days for change in day.changes]
    ended = tuple(one for one in ended_periods(changes) if one.until > start and one.since <= current_plan.made_at)
    group = _group(by, read.fleet)
    lasting = (one for one in lasting_periods(current_plan, ended) if one.since <= one.until)
    found = _RealisedSavings(
        current_plan,
        start,
        min((scaled.time for scaled in changes), default=None),
        by_key((group(period), period) for period in (*ended, *lasting)),
        stated.over(read.fleet.prices),
        complete=not failures,
    )
    show(FORMATS[options.output](found, by), options.output)
    if no_cluster_read(current_plan):
        return ExitCode.NOTHING_DONE
    return ExitCode.DONE if found.complete else ExitCode.PARTIAL


def _group(by: str, fleet: Fleet) -> Callable[[IdlePeriod], str]:
    def tenant(period: IdlePeriod) -> str:
        found = fleet.tenant_at(*period.object.split("/", 2)[:2])
        return _NONE if found is None else found.name

    known: dict[str, Callable[[IdlePeriod], str]] = {
        "policy": lambda period: period.policy or _NONE,
        "tenant": tenant,
        "namespace": lambda period: "/".join(period.object.split("/", 2)[:2]),
        "cluster": lambda period: period.cluster,
    }
    return known[by]
