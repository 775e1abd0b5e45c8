"""`reconciler history`, who scaled what and why, and `reconciler savings`, what idling saved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any

import click
import msgspec
from msgspec import Struct
from msgspec.structs import replace

from reconciler.cli.exit_codes import no_cluster_read
from reconciler.cli.object_names import ObjectArgument, check_there, known_cluster, object_name
from reconciler.cli.option_values import duration, is_duration, prices_of
from reconciler.cli.options import argument, option, output_option, price_option, text_width, verb
from reconciler.cli.output import Formats, document, say, say_each, show
from reconciler.cli.run_options import READ_WORLD, FleetOptions, RunOptions
from reconciler.decide.annotations import format_time
from reconciler.errors import ExitCode, reason_on
from reconciler.history.changes import Change, IdlePeriod, ended_periods, lasting_periods
from reconciler.history.config_maps import KEPT, Day, History
from reconciler.history.files import read_changes
from reconciler.messages import counted
from reconciler.model import ObjectRef, by_key
from reconciler.observe.clusters import observe
from reconciler.observe.needed_objects import Scope
from reconciler.pipeline import plan
from reconciler.plan.model import Plan
from reconciler.pod_requests import Hours
from reconciler.policy.types import Fleet, PolicySet, Prices
from reconciler.report.groups import columns
from reconciler.report.text import wrapped
from reconciler.report.times import common_zone, stored_text_in_utc, time_and_zone, weekday_and_time
from reconciler.untrusted_text import one_line
from reconciler.workload_kinds import KNOWN, workload_kind
from reconciler.world import World

_SHORT = 12
_WIDTH = 100
"""How wide lines are in a pipe, but for names, which are never broken."""


def _history_lines(changes: Sequence[Change], failures: Sequence[str]) -> Iterable[str]:
    nothing = f"No changes recorded{' in what could be read' if failures else ''}."
    return wrapped(change_lines(changes), text_width() or _WIDTH) if changes else [nothing]


HISTORY_FORMATS: Formats = {
    "text": _history_lines,
    "json": lambda changes, _: document("History", {"changes": msgspec.to_builtins(changes)}),
}


class _HistoryOptions(FleetOptions):
    subject: str | None = argument("[OBJECT]", required=False)
    folder: str | None = option("Read the files of --report-dir in DIR, in place of clusters.", "--from", metavar="DIR")
    since: timedelta = option(
        "How far back, like 36h or 7d; 35 days are kept.", type=duration(), default=timedelta(days=7)
    )
    output: str = output_option(*HISTORY_FORMATS)


@verb("history", _HistoryOptions, *READ_WORLD)
def history_command(options: _HistoryOptions) -> int:
    """List who scaled what, when, from how many to how many, by which policy at which commit, and by which run.

    OBJECT is CLUSTER, CLUSTER/NAMESPACE or CLUSTER/NAMESPACE/KIND/NAME. Of the policies only the Fleet is read; with
    --from nothing of them is.

    # What was scaled in the last week?
    history
    # Who scaled this Deployment in the last month?
    history eu-west/shop/Deployment/web --since 30d
    """
    name = None if options.subject is None else object_name(options.subject)
    since = options.now - options.since
    if options.folder is not None:
        changes, failures = read_changes(options.folder, since)
        days = [Day(changes)]
    else:
        fleet = options.fleet()
        world = options.world(fleet)
        days, failures = read_history(fleet, world, since.astimezone(UTC).date())
        if name is not None and not chosen(days, name):
            _check_known(fleet, world, name, str(options.subject), whole=not failures)
    found = [change for change in chosen(days, name) if since <= change.time <= options.now]
    say_each("error", map(one_line, failures))
    dropped = sum(day.dropped for day in days)
    if dropped:
        say(f"warning: {dropped} older changes of these days are not kept")
    show(HISTORY_FORMATS[options.output](found, failures), options.output)
    return ExitCode.PARTIAL if failures else ExitCode.DONE


def _check_known(fleet: Fleet, world: World, name: ObjectArgument, subject: str, *, whole: bool) -> None:
    """Check that what has no history is there at all; what has one may be gone, and its cluster be called otherwise.
    Where the history is not `whole`, only its cluster is checked.

    Raises:
        UsageError: with the nearest name.
    """
    cluster = known_cluster(fleet, name, subject)
    if whole and name.namespace and (not name.kind or name.kind in KNOWN):
        alone = PolicySet(replace(fleet, home=cluster.name, clusters=(cluster,)))
        look = partial(observe, alone, {cluster.name: world.sources[cluster.name]}, readers=world.readers)
        state = look(scope=Scope(name.namespace))
        if any(not found.namespaces for found in state.clusters.values()):
            state = look()  # for the name of the namespace that is meant
        check_there(state, name, subject)


def read_history(fleet: Fleet, world: World, first: date) -> tuple[list[Day], list[str]]:
    """Return what is kept from the day `first` on, on home and on what stood in for it, and what could not be read."""
    days: list[Day] = []
    failures: list[str] = []
    for cluster in fleet.clusters:
        try:
            kept, unread = History(world.access(cluster.name).cluster, fleet.namespace).kept()
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are read all the same
            failures.append(reason_on(cluster.name, error))
            continue
        days += [day for at, day in kept.items() if at >= first]
        failures += [why for at, why in unread.items() if at >= first]
    return days, failures


def chosen(days: Sequence[Day], name: ObjectArgument | None) -> list[Change]:
    """Return the changes of `days` in the order of their times, those of `name` only where it is given."""
    every = (change for day in days for change in day.changes)
    found = (scaled for scaled in every if name is None or name.matches(ObjectRef(*scaled.object.split("/", 3))))
    return sorted(found, key=lambda one: one.time)


def change_lines(changes: Sequence[Change]) -> Iterator[str]:
    """Yield `changes`, the latest first, all times in UTC: each with who, which policy and run, and why."""
    rows = [
        (one_line(stored_text_in_utc(one.at)), _scale(one), one.verb, one_line(one.object)) for one in reversed(changes)
    ]
    head, *lines = columns(("TIME (UTC)", "REPLICAS", "CHANGE", "OBJECT"), rows)
    yield head
    for line, change in zip(lines, reversed(changes), strict=True):
        yield line
        yield f"    {_origin(change)}"


def _origin(change: Change) -> str:
    policy = f"{change.policy} ({change.place})" if change.place else change.policy
    named = (
        ("by", change.user or change.by),
        ("", policy),
        ("commit", change.commit[:_SHORT]),
        ("run", change.run),
        ("shard", change.shard),
    )
    parts = ", ".join(f"{what} {name}".lstrip() for what, name in named if name)
    return one_line(": ".join(filter(None, (parts, stored_text_in_utc(change.why)))))


def _scale(change: Change) -> str:
    kind = workload_kind(ObjectRef(*change.object.split("/", 3)).kind)
    field = f"{kind.replicas_path[-1]} " if kind.is_switch else ""

    def known(replicas: int) -> str:
        if kind.is_switch:
            return json.dumps(kind.value_at(replicas))
        return ("on" if replicas else "off") if change.switch else str(replicas)

    return field + " -> ".join("?" if count is None else known(count) for count in (change.before, change.after))


# Savings.


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
