"""`reconciler history`: who scaled what, and why."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, timedelta
from functools import partial

import msgspec
from msgspec.structs import replace

from reconciler.cli.object_names import ObjectArgument, check_there, known_cluster, object_name
from reconciler.cli.option_values import duration
from reconciler.cli.options import argument, option, output_option, text_width, verb
from reconciler.cli.output import Formats, document, say, say_each, show
from reconciler.cli.run_options import READ_WORLD, FleetOptions
from reconciler.errors import ExitCode, reason_on
from reconciler.history.changes import Change
from reconciler.history.config_maps import Day, History
from reconciler.history.files import read_changes
from reconciler.model import ObjectRef
from reconciler.observe.clusters import observe
from reconciler.observe.needed_objects import Scope
from reconciler.policy.types import Fleet, PolicySet
from reconciler.report.groups import columns
from reconciler.report.text import wrapped
from reconciler.report.times import stored_text_in_utc
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
