"""`reconciler restore`, which gives what is idle its replicas back, without any policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import timedelta
from fnmatch import fnmatchcase

from msgspec.structs import replace

from reconciler.cli.approval import Approval
from reconciler.cli.exit_of_run import exit_of_apply
from reconciler.cli.object_names import check_cluster, check_there, object_name
from reconciler.cli.option_values import duration
from reconciler.cli.options import GENERAL, argument, auto_approve_option, option, terminal_or, verb
from reconciler.cli.progress import run_progress
from reconciler.cli.run_limit import cut_by_signals
from reconciler.cli.run_options import BY_HAND, ByHandOptions
from reconciler.decide.decisions import DesiredState
from reconciler.decide.idling.restore import (
    Restoration,
    decide_restore,
    origins,
    restore_notices,
)
from reconciler.decide.placement.removed_policies import decide_scales_to_restore
from reconciler.errors import FailOn, UsageError
from reconciler.messages import first_of, nearest
from reconciler.model import ObservedState, Run
from reconciler.pipeline import apply
from reconciler.policy.types import Fleet, PolicySet

_LISTED = 10


class RestoreOptions(ByHandOptions):
    subject: str | None = argument("[OBJECT]", required=False)
    everything: bool = option("Restore everything that this Fleet idled.", "--all", default=False)
    idled_by: tuple[str, ...] = option(
        "Restore what these policies idled; may be repeated.", "--policy", multiple=True, metavar="GLOB", group=GENERAL
    )
    runs: tuple[str, ...] = option(
        "Restore what these runs idled; may be repeated.", "--run", multiple=True, metavar="ID"
    )
    hold: timedelta | None = option(
        "Exclude it from idling for this long, like 12h.", type=duration(timedelta(minutes=1))
    )
    adopt: bool = option("Restore also what `oc idle` or another Fleet idled.", default=False)
    auto_approve: bool = auto_approve_option()


@verb("restore", RestoreOptions, *BY_HAND)
def restore_command(options: RestoreOptions) -> int:
    """Restore the replicas of what was idled: below OBJECT, by a policy or run, or --all of it.

    OBJECT is CLUSTER, CLUSTER/NAMESPACE or CLUSTER/NAMESPACE/KIND/NAME. Of the policies only the Fleet is read.
    """
    subject = options.subject
    narrowed = subject or options.idled_by or options.runs
    if bool(narrowed) == options.everything:
        raise UsageError("restore: expected an OBJECT, --policy, --run, or --all alone")
    terminal_or(options.auto_approve, "restore")
    found = options.fleet()
    options = options.replace(
        title="Restore in Fleet",
        nothing=f"Nothing to restore: nothing{_below(subject)} is idle, or was scaled down by placement.",
    )
    if subject is not None:
        check_cluster(found, object_name(subject), subject)
    restoration = restoration_of(options)
    unmatched = Unmatched(restoration, subject)

    def decide(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
        if subject is not None:
            check_there(state, object_name(subject), subject)
        unmatched.check(policies.fleet, state, run)
        return _restored(policies.fleet, state, run, restoration)

    approval = Approval(options.output, options, ask=not options.auto_approve)
    with run_progress(options) as (settings, shown), cut_by_signals(options.limit) as limit:
        control = options.by_hand(approval.control(shown))
        applied = apply(PolicySet(found), options.world(found), settings.request(), control, decide)
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


def restoration_of(options: RestoreOptions) -> Restoration:
    """Return what is to be restored."""
    narrowed = Restoration() if options.subject is None else Restoration(objects=object_name(options.subject).matches)
    return replace(
        narrowed,
        policies=options.idled_by,
        runs=frozenset(options.runs),
        adopt=options.adopt,
        any_fleet=options.any_fleet,
        hold_until=None if options.hold is None else options.now + options.hold,
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
        placed = {decision.cause.policy for decision in _scales(fleet, state, self._restoration, ()).decisions}
        policies, runs = {origin.policy for origin in found} - {""} | placed, {origin.run for origin in found} - {""}
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
    return f"expected {f'one of {len(known)}: ' if len(known) > 1 else ''}{first_of(sorted(known), _LISTED)}"
