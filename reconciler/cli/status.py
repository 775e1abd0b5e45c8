"""`reconciler status`: the state of a Fleet, on one screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, timedelta
from typing import Any

import click

from reconciler.apply.history import Change, History
from reconciler.cli.exit_codes import no_cluster_read
from reconciler.cli.object_names import known_cluster, object_name
from reconciler.cli.options import option, output_option, policies_option, verb, world_options
from reconciler.cli.output import as_text, say, show, show_lines
from reconciler.cli.run import RunOptions
from reconciler.errors import ExitCode, reason_of
from reconciler.pipeline import plan_and_state
from reconciler.policy.types import Fleet, PolicySet
from reconciler.report.status import (
    FleetStatus,
    RunSummary,
    fleet_status,
    idle_lines,
    placement_lines,
    status_lines,
    status_values,
)
from reconciler.report.status_page import check_wake_form, render_status_page
from reconciler.world import World


@verb("status")
@click.argument("subject", metavar="[OBJECT]", required=False)
@policies_option()
@world_options
@option(
    "--wake-form",
    metavar="URL",
    help="With -o html: the form that wakes, with {object} and {for} where these go.",
    group="Output",
)
@output_option("text", "json", "yaml", "html")
def status_command(subject: str | None, policies: str, wake_form: str | None, output: str, **flags: Any) -> int:
    """Show the Fleet on one screen: clusters, what is idle until when, placement, what needs somebody, the last runs.

    OBJECT is NAMESPACE/NAME of a FederatedReplicaSet, shown cluster by cluster, or CLUSTER, CLUSTER/NAMESPACE or
    CLUSTER/NAMESPACE/KIND/NAME: what is idle below it. JSON, YAML and HTML always have everything.
    """
    options = RunOptions.of(policies, flags)
    form = "" if wake_form is None else check_wake_form(wake_form)
    found = _status(options, options.policies())
    if output == "text":
        show_lines(status_lines(found) if subject is None else _lines_of(found, options, subject))
    elif output == "html":
        show(render_status_page(found, form), output)
    else:
        show(as_text(status_values(found), output), output)
    return ExitCode.NOTHING_DONE if no_cluster_read(found.plan) else ExitCode.DONE


def _status(options: RunOptions, policies: PolicySet) -> FleetStatus:
    world = options.world(policies.fleet)
    state, made = plan_and_state(policies, world, options.request())
    return fleet_status(policies.fleet, state, made, _last_runs(policies.fleet, world, options))


def _last_runs(fleet: Fleet, world: World, options: RunOptions) -> list[RunSummary]:
    """Return the runs of today and yesterday that changed anything, the latest first."""
    today = options.now.astimezone(UTC).date()
    try:
        days = History(world.access(fleet.home).cluster, fleet.namespace).since(today - timedelta(days=1), today)
    except Exception as error:  # noqa: BLE001 - whatever it is, the rest of the status is known
        say(f"warning: the last runs are unknown: {reason_of(error)}")
        return []
    return _runs([one for day in days.values() for one in day.changes if one.run])


def _runs(changes: Sequence[Change]) -> list[RunSummary]:
    verbs: dict[str, Counter[str]] = {}
    for one in changes:
        verbs.setdefault(one.run, Counter())[one.verb] += 1
    last = {one.run: one.time for one in changes}
    return sorted((RunSummary(run, last[run], found) for run, found in verbs.items()), key=lambda one: one.at)[::-1]


def _lines_of(status: FleetStatus, options: RunOptions, subject: str) -> list[str]:
    view = next((one for one in status.plan.placements if one.key == subject), None)
    if view is not None:
        return list(placement_lines(view, status.plan))
    name = object_name(subject)
    known_cluster(options.policies().fleet, name, subject)
    found = [one for one in status.idle if name.matches(one.ref)]
    return list(idle_lines(found, status.plan)) if found else [f"Nothing is idle below {subject}."]
