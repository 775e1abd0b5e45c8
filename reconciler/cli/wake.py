"""`reconciler wake`: wake now what is idle."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import click

from reconciler.cli.apply import print_applied
from reconciler.cli.exit_codes import exit_of_apply
from reconciler.cli.object_names import ObjectName, check_cluster, object_name
from reconciler.cli.options import (
    color_option,
    duration_of,
    now_option,
    option,
    output_option,
    quiet_option,
    verbose_option,
    world_options,
)
from reconciler.cli.progress import log_format_option, progress
from reconciler.cli.running import Call, fleet_for_wakes
from reconciler.cli.stopping import stopping
from reconciler.cli.talk import say
from reconciler.decide.idling.asleep import Sleeper, sleepers
from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.decide.selection import EXCLUDE_UNTIL, format_time
from reconciler.decide.types import DesiredState, annotation_changes
from reconciler.errors import ExitCode, ReconcilerError, UsageError, first_exit_code, reason_of
from reconciler.model import ObjectRef, ObservedState, Run, Service, Workload, Write
from reconciler.observe.clusters import observe
from reconciler.pipeline import Control, apply
from reconciler.plan.writes import patch_of
from reconciler.policy.types import PolicySet
from reconciler.world import World

WAKE_REQUESTED = "reconciler/wake-requested-at"
_ANNOTATIONS = ("metadata", "annotations")


@click.command(name="wake")
@click.argument("subject", metavar="OBJECT")
@option("--for", "awake_for", metavar="DURATION", help="Keep it awake for this long, like 4h.")
@option("--fleet", default="policies", metavar="FILE", help="Where the Fleet document is.")
@world_options
@now_option
@output_option("text", "json", "yaml", "markdown")
@color_option
@verbose_option
@quiet_option
@log_format_option
def command(subject: str, awake_for: str | None, fleet: str, output: str, **flags: Any) -> int:
    """Ask CLUSTER/NAMESPACE[/KIND/NAME] to wake, and wake it. Reads the Fleet only; broken policies do not matter."""
    found = fleet_for_wakes(fleet)
    call = Call.of(fleet, flags)
    name = object_name(subject)
    check_cluster(found, name, subject)
    world = call.world(found, writes=True)
    until = None if awake_for is None else call.now + duration_of("--for", awake_for)
    state = observe(PolicySet(found), world.sources, readers=world.readers)
    asleep = sleepers(found, state, Run(call.now), name.matches)
    check_looked(asleep, state, name, subject)
    asked = {ref for one in asleep for ref in (one.asked.ref, *one.wakes)}
    failures = request_wakes(asleep, world, call.now, until)
    for failure in failures:
        say(failure)

    def decide(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
        return only(decide_wakes_due(policies.fleet, state, run), name, asked)

    shows = progress(quiet=call.quiet, log_format=flags["log_format"])
    with shows as shown, stopping(flags["timeout"], call.stop) as stop:
        control = Control(shown.counted(lambda plan: plan.actions), shown.writing, stop=stop)
        applied = apply(PolicySet(found), world.without(state.unreachable), call.request(), control, decide)
    print_applied(applied, output, call)
    codes = [exit_of_apply(applied), *([ExitCode.PARTIAL] if failures else [])]
    return stop.ended(first_exit_code(codes))


def check_looked(found: Sequence[Sleeper], state: ObservedState, name: ObjectName, subject: str) -> None:
    """Check that something idle was found, or at least looked for.

    Raises:
        ReconcilerError: it could not be looked for. UsageError: nothing idle is there.
    """
    if found:
        return
    why = state.unreachable.get(name.cluster)
    if why is not None:
        raise ReconcilerError(f"{subject}: cluster {name.cluster} cannot be read: {why}; nothing was done")
    unreadable = state.clusters[name.cluster].unreadable if name.cluster in state.clusters else {}
    if unreadable:
        told = "; ".join(unreadable.values())
        raise ReconcilerError(f"{subject}: nothing idle was found, and not all could be read: {told}")
    raise UsageError(f"{subject}: nothing below it is idle")


def request_wakes(found: Sequence[Sleeper], world: World, now: datetime, until: datetime | None) -> tuple[str, ...]:
    """Write the request on everything of `found`, without a lock; return what could not be written, or is in vain."""
    wanted = {WAKE_REQUESTED: format_time(now), **({} if until is None else {EXCLUDE_UNTIL: format_time(until)})}
    failures = [f"{one.asked.ref}: {one.problem}" for one in found if one.problem]
    for one in found:
        try:
            if not one.problem:
                world.accesses[one.asked.ref.cluster].cluster.write(request_of(one.asked, wanted))
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are asked all the same
            failures.append(reason_of(error))
    return tuple(failures)


def request_of(one: Service | Workload, wanted: Mapping[str, str]) -> Write:
    """Return the tested patch that writes `wanted` on one object."""
    changes = annotation_changes(one.annotations, wanted)
    version = one.api_version if isinstance(one, Workload) else "v1"
    missing = () if one.has_annotations else (_ANNOTATIONS,)
    return Write("patch", one.ref, version, uid=one.uid, patch=tuple(patch_of(changes, missing)))


def only(desired: DesiredState, name: ObjectName, asked: Collection[ObjectRef]) -> DesiredState:
    """Return what of `desired` stands in a group with something that `name` names, or that was asked for its sake."""
    groups = {one.group for one in desired.decisions if one.ref in asked or name.matches(one.ref)}
    return replace(
        desired,
        decisions=tuple(decision for decision in desired.decisions if decision.group in groups),
        held_back=(),
        notices=tuple(notice for notice in desired.notices if is_about(notice.subject, name)),
    )


def is_about(subject: str, name: ObjectName) -> bool:
    """Return whether `subject`, an object as reports name it, is what `name` names."""
    parts = subject.split("/")
    return len(parts) == 4 and name.matches(ObjectRef(*parts))
