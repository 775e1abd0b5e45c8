"""`reconciler restore`: restores the replicas of all idle workloads, without any policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

import click
from msgspec.structs import replace

from reconciler.cli.approval import Approval
from reconciler.cli.exit_codes import exit_of_apply
from reconciler.cli.fleet_source import FleetSource, by_hand, fleet_options
from reconciler.cli.object_names import check_cluster, check_there, object_name
from reconciler.cli.options import duration, option, terminal_or, verb
from reconciler.cli.progress import by_hand_options, run_progress
from reconciler.cli.run import RunOptions, cut_by_signals
from reconciler.decide.decisions import DesiredState
from reconciler.decide.idling.restore import Restoration, decide_restore, origins, restore_notices
from reconciler.decide.placement.removed_policies import decide_scales_to_restore
from reconciler.errors import FailOn, UsageError
from reconciler.messages import nearest
from reconciler.model import ObservedState, Run
from reconciler.pipeline import Control, apply
from reconciler.policy.types import Fleet, PolicySet

_LISTED = 10


@verb("restore")
@click.argument("subject", metavar="[OBJECT]", required=False)
@fleet_options
@option("--all", "everything", is_flag=True, help="Restore everything that this Fleet idled.")
@option("--policy", multiple=True, metavar="GLOB", help="Restore what these policies idled; may be repeated.")
@option("--run", "runs", multiple=True, metavar="ID", help="Restore what these runs idled; may be repeated.")
@option(
    "--hold",
    type=duration(timedelta(minutes=1)),
    metavar="DURATION",
    help="Exclude it from idling for this long, like 12h.",
)
@option("--adopt", is_flag=True, help="Restore also what `oc idle` or another Fleet idled.")
@option("--auto-approve", "--yes", is_flag=True, help="Do not ask for approval; required without a terminal.")
@by_hand_options
def restore_command(subject: str | None, everything: bool, output: str, **flags: Any) -> int:
    """Restore the replicas of what was idled: below OBJECT, by a policy or run, or --all of it.

    OBJECT is CLUSTER, CLUSTER/NAMESPACE or CLUSTER/NAMESPACE/KIND/NAME. Of the policies only the Fleet is read.
    """
    narrowed = subject or flags["policy"] or flags["runs"]
    if bool(narrowed) == everything:
        raise UsageError("restore: expected an OBJECT, --policy, --run, or --all alone")
    terminal_or(flags["auto_approve"], "restore")
    source = FleetSource.of(flags)
    found = source.read()
    options = replace(
        RunOptions.of(source.path, {**flags, "policy": (), "context": None}),
        title="Restore in Fleet",
        nothing=f"Nothing to restore: nothing{_below(subject)} is idle, or was scaled down by placement.",
    )
    if subject is not None:
        check_cluster(found, object_name(subject), subject)
    restoration = restoration_of(subject, options, {**flags, "context": source.contexts})
    unmatched = Unmatched(restoration, subject)

    def decide(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
        if subject is not None:
            check_there(state, object_name(subject), subject)
        unmatched.check(policies.fleet, state, run)
        return _restored(policies.fleet, state, run, restoration)

    approval = Approval(output, options, ask=not flags["auto_approve"])
    with run_progress(options, flags) as (tracked_run, shown), cut_by_signals(options.limit) as limit:
        choose = shown.counted(approval.choose)
        control = Control(choose, shown.writing, approval.approve, wakes_early=not approval.ask)
        control = by_hand(control, source, flags)
        world = options.world(found)
        source.check_own_namespace(found, world)
        applied = apply(PolicySet(found), world, tracked_run.request(), control, decide)
    approval.report(applied)
    return limit.ended(exit_of_apply(applied, {FailOn.UNKNOWN}))


def _restored(fleet: Fleet, state: ObservedState, run: Run, restoration: Restoration) -> DesiredState:
    """Return what is woken, and what gets the replicas back that it had before placement, which records no run."""
    restored = decide_restore(fleet, state, run, restoration)
    if not restoration.runs:
        restored = restored.joined(_scales(fleet, state, restoration, restoration.policies))
    notices = restore_notices(state, restored, hold=restoration.hold_until is not None)
    return restored.joined(DesiredState(notices=tuple(notices)))


def _scales(fleet: Fleet, state: ObservedState, restoration: Restoration, policies: tuple[str, ...]) -> DesiredState:
    return decide_scales_to_restore(fleet, state, restoration.objects, policies, any_fleet=restoration.any_fleet)


def restoration_of(subject: str | None, options: RunOptions, flags: dict[str, Any]) -> Restoration:
    """Return what is to be restored."""
    hold = None if flags["hold"] is None else options.now + flags["hold"]
    narrowed = Restoration() if subject is None else Restoration(objects=object_name(subject).matches)
    return replace(
        narrowed,
        policies=tuple(flags["policy"]),
        runs=frozenset(flags["runs"]),
        adopt=flags["adopt"],
        any_fleet=bool(flags["context"]),
        hold_until=hold,
    )


class Unmatched:
    """The names given to --policy and --run that nothing idle has matched yet.

    They are looked for once: what a run has restored by itself matches nothing any more when it looks again.
    """

    def __init__(self, restoration: Restoration, subject: str | None) -> None:
        self._restoration = restoration
        self._where = _below(subject)
        self._policies = set(restoration.policies)
        self._runs = set(restoration.runs)

    def check(self, fleet: Fleet, state: ObservedState, run: Run) -> None:
        """Check that each name matches something, as far as that can be seen.

        Raises:
            UsageError: with what there is, and the nearest name.
        """
        if not self._policies and not self._runs:
            return
        found = origins(fleet, state, run, self._restoration)
        placed = {one.cause.policy for one in _scales(fleet, state, self._restoration, ()).decisions}
        policies, runs = {one.policy for one in found} - {""} | placed, {one.run for one in found} - {""}
        self._policies = {one for one in self._policies if not any(fnmatchcase(name, one) for name in policies)}
        self._runs -= runs
        if state.unreachable or any(cluster.unreadable for cluster in state.clusters.values()):
            return
        self._refuse("policy", self._policies, policies, idle=bool(found))
        self._refuse("run", self._runs, runs, idle=bool(found))

    def _refuse(self, what: str, unmatched: Iterable[str], known: Collection[str], *, idle: bool) -> None:
        for name in sorted(unmatched):
            problem = f'--{what}: no idle object{self._where} records {what} "{name}"'
            if not known:
                raise UsageError(f"{problem}; {f'none records a {what}' if idle else 'nothing is idle'}")
            raise UsageError(f"{problem}, {_expected(known)}" + nearest(name, sorted(known)).replace(", did", "; did"))


def _below(subject: str | None) -> str:
    return "" if subject is None else f" below {subject}"


def _expected(known: Collection[str]) -> str:
    first = ", ".join(sorted(known)[:_LISTED])
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return f"expected {first}{more}" if len(known) == 1 else f"expected one of {len(known)}: {first}{more}"
