"""`reconciler status`: the state of a Fleet on one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from datetime import UTC, timedelta

from msgspec.structs import replace

from reconciler.cli.exit_codes import no_cluster_read
from reconciler.cli.object_names import check_there, known_cluster, object_name
from reconciler.cli.options import argument, option, output_option, policies_option, verb
from reconciler.cli.output import Formats, say, say_each, show
from reconciler.cli.run_options import READ_WORLD, RunOptions
from reconciler.decide.decisions import DesiredState
from reconciler.decide.desired_state import decide
from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.errors import ExitCode, PolicyError, reason_of
from reconciler.history.changes import Change
from reconciler.history.config_maps import History
from reconciler.model import ObservedState, Run, by_key
from reconciler.pipeline import Decide, plan_and_state
from reconciler.policy.types import Fleet, PolicySet
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
from reconciler.untrusted_text import one_line
from reconciler.workload_kinds import BY_KIND
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
