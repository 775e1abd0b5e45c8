"""`reconciler status`, the state of a Fleet on one screen, and `reconciler history`, who scaled what and why."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, date, timedelta
from functools import partial

import msgspec
from msgspec.structs import replace

from reconciler.cli.exit_codes import no_cluster_read
from reconciler.cli.object_names import ObjectArgument, check_there, known_cluster, object_name
from reconciler.cli.option_values import duration
from reconciler.cli.options import argument, option, output_option, policies_option, text_width, verb
from reconciler.cli.output import Formats, document, say, say_each, show
from reconciler.cli.run_options import READ_WORLD, FleetOptions, RunOptions
from reconciler.decide.decide import decide
from reconciler.decide.decisions import DesiredState
from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.errors import ExitCode, PolicyError, reason_of, reason_on
from reconciler.history.changes import Change
from reconciler.history.config_maps import Day, History
from reconciler.history.files import read_changes
from reconciler.model import ObjectRef, ObservedState, Run, by_key
from reconciler.observe.clusters import observe
from reconciler.observe.needed_objects import Scope
from reconciler.pipeline import Decide, plan_and_state
from reconciler.policy.types import Fleet, PolicySet
from reconciler.report.groups import columns
from reconciler.report.html import check_wake_form, render_status_page
from reconciler.report.status import (
    FleetStatus,
    RunSummary,
    fleet_status,
    idle_lines,
    placement_lines,
    status_lines,
    status_values,
)
from reconciler.report.text import wrapped
from reconciler.report.times import stored_text_in_utc
from reconciler.untrusted_text import one_line
from reconciler.workload_kinds import BY_KIND, KNOWN, workload_kind
from reconciler.world import World


def _lines_of(status: FleetStatus, options: _StatusOptions) -> Iterable[str]:
    subject = options.subject
    if subject is None:
        return status_lines(status)
    view = next((placement for placement in status.plan.placements if placement.key == subject.strip("/")), None)
    if view is not None:
        return placement_lines(view, status.plan)
    name = object_name(subject)
    found = [idle for idle in (*status.idle, *status.foreign) if name.matches(idle.ref)]
    if found:
        return idle_lines(found, status.plan)
    unread = [why for what, why in status.plan.unread.items() if what.partition("/")[0] == name.cluster]
    what, why = ("Nothing that could be read", f": {'; '.join(unread)}") if unread else ("Nothing", ".")
    return [f"{what} is idle below {subject}{why}"]


FORMATS: Formats = {
    "text": _lines_of,
    "json": lambda status, _: status_values(status),
    "yaml": lambda status, _: status_values(status),
    "html": lambda status, options: render_status_page(status, options.wake_form or ""),
}


class _StatusOptions(RunOptions):
    subject: str | None = argument("[OBJECT]", required=False)
    path: str = policies_option()
    wake_form: str | None = option(
        "With -o html: the form that wakes, with {object} and {for} where these go.", metavar="URL"
    )
    output: str = output_option(*FORMATS)


@verb("status", _StatusOptions, *READ_WORLD)
def status_command(options: _StatusOptions) -> int:
    """Show the Fleet on one screen: clusters, what is idle until when, placement, what needs somebody, the runs since
    yesterday.

    OBJECT is NAMESPACE/NAME of a FederatedReplicaSet, shown cluster by cluster, or CLUSTER, CLUSTER/NAMESPACE or
    CLUSTER/NAMESPACE/KIND/NAME: what is idle below it. JSON, YAML and HTML always have everything. Where the policies
    cannot be used, it shows what is there, and of what would change only the wakes that are due or requested.

    # Show the whole Fleet
    status
    # Show one FederatedReplicaSet, cluster by cluster
    status shop/web
    """
    if options.wake_form is not None:
        check_wake_form(options.wake_form)
    try:
        policies, decides = options.policies(partly=True), decide
    except PolicyError as error:
        policies, decides = PolicySet(options.fleet_despite(error)), _decide_wakes
        say("warning: the policies cannot be used: of what would change only wakes are shown")
    usable = decides is decide and not policies.problems
    found = _status(options, policies, decides)
    show(FORMATS[options.output](found, options), options.output)
    read = ExitCode.NOTHING_DONE if no_cluster_read(found.plan) else ExitCode.DONE
    return read if usable else ExitCode.MALFORMED


def _decide_wakes(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
    """Return the wakes that need no policy; what is idle is explained without what its policy says."""
    idle = (replace(one, reasons=()) for one in decide(policies, state, run).explanations if one.idled is not None)
    return replace(decide_wakes_due(policies.fleet, state, run), explanations=tuple(idle))


def _status(options: _StatusOptions, policies: PolicySet, decides: Decide) -> FleetStatus:
    world = options.world(policies.fleet)
    state, plan = plan_and_state(policies, world, options.request(), decides)
    changes = _last_changes(policies.fleet, world, options)
    kinds = {"HorizontalPodAutoscaler", *(row.ref.kind for found in state.clusters.values() for row in found.workloads)}
    read = [change for change in changes if change.object.partition("/")[0] in state.clusters]
    kinds |= {kind.kind for kind in (*BY_KIND.values(), *policies.fleet.switch_kinds)}
    say_each("warning", _unread(read, kinds))
    subject = options.subject
    if subject is not None and all(placement.key != subject.strip("/") for placement in plan.placements):
        name = object_name(subject)
        known_cluster(policies.fleet, name, subject)
        if name.namespace:
            check_there(state, name, subject)
    return fleet_status(policies.fleet, state, plan, _runs([change for change in changes if change.run]))


def _unread(changes: Iterable[Change], kinds: Container[str]) -> Iterator[str]:
    """Yield what was idled last and is of none of `kinds`: the Fleet may have had it in its switches."""
    for name, last in {change.object: change for change in changes}.items():
        if last.verb == "idle" and name.split("/")[2] not in kinds:
            words = "was idled, and nothing of its kind is read; if switches of the Fleet had it, put it back"
            yield f"{one_line(name)} {words}"


def _last_changes(fleet: Fleet, world: World, options: RunOptions) -> list[Change]:
    """Return the changes of today and yesterday, the latest last."""
    today = options.now.astimezone(UTC).date()
    try:
        days = History(world.access(fleet.home).cluster, fleet.namespace).since(today - timedelta(days=1), today)
    except Exception as error:  # noqa: BLE001 - whatever it is, the rest of the status is known
        say(f"warning: the last runs are unknown: {reason_of(error)}")
        return []
    return sorted((change for day in days.values() for change in day.changes), key=lambda change: change.time)


def _runs(changes: Sequence[Change]) -> list[RunSummary]:
    runs = by_key((change.run, change) for change in changes)
    found = (RunSummary(run, some[-1].time, Counter(one.verb for one in some)) for run, some in runs.items())
    return sorted(found, key=lambda one: one.at)[::-1]


# History.


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
