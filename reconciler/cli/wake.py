"""`reconciler wake` and `reconciler restore`, which give what is idle its replicas back, without any policy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from reconciler.cli.approval import DECLINED, Approval
from reconciler.cli.exit_codes import exit_of_apply
from reconciler.cli.object_names import ObjectArgument, check_cluster, check_there, object_name
from reconciler.cli.option_values import duration
from reconciler.cli.options import GENERAL, argument, auto_approve_option, option, terminal_or, verb
from reconciler.cli.output import say, say_each
from reconciler.cli.progress import run_progress
from reconciler.cli.run_options import BY_HAND, ByHandOptions
from reconciler.cli.run_time_limit import cut_by_signals
from reconciler.decide.annotations import Key, format_time, parse_time
from reconciler.decide.decisions import DesiredState, Notice, annotation_changes
from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.decide.idling.idle_workloads import IdleWorkload, idle_workloads, once_asked
from reconciler.decide.idling.keeps_awake import MIN_AWAKE_BY_DEFAULT
from reconciler.decide.idling.restore import Restoration, decide_restore, of_every_fleet, origins, restore_notices
from reconciler.decide.placement.removed_policies import decide_releases, scale_to_restore
from reconciler.errors import ExitCode, FailOn, ReconcilerError, UsageError, first_exit_code, reason_of
from reconciler.messages import first_of, nearest
from reconciler.model import ObjectRef, ObservedState, Run, Service, Workload
from reconciler.observe.clusters import observe
from reconciler.pipeline import Control, apply, plan
from reconciler.plan.json_patch import annotation_patch
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import Fleet, PolicySet
from reconciler.world import World

MANY = 20
"""So many objects are woken without a question where somebody could be asked."""


class _WakeOptions(ByHandOptions):
    subject: str = argument("OBJECT")
    awake_for: timedelta | None = option(
        "Keep it awake for this long, like 4h.",
        "--for",
        type=duration(timedelta(minutes=1)),
        elsewhere=("apply", "plan").__contains__,
    )
    auto_approve: bool = auto_approve_option("Do not ask before waking a whole CLUSTER, or much at once.")


@verb("wake", _WakeOptions, *BY_HAND)
def wake_command(options: _WakeOptions) -> int:
    """Wake what is idle below OBJECT: CLUSTER, CLUSTER/NAMESPACE or CLUSTER/NAMESPACE/KIND/NAME.

    Of the policies only the Fleet is read; problems of other policies do not matter. A whole CLUSTER needs approval;
    on a terminal more than 20 objects do too.

    # Wake one Deployment
    wake eu-west/dev-a/Deployment/api
    # Wake a namespace, and keep it awake for four hours
    wake eu-west/dev-a --for 4h
    """
    subject = options.subject
    name = object_name(subject)
    asks = not name.namespace and not options.auto_approve
    options = options.replace(nothing="Nothing is woken: no policy was compared.")
    found = options.fleet()
    check_cluster(found, name, subject)
    terminal_or(not asks, "wake")
    world = options.world(found)
    state = observe(PolicySet(found), world.sources, readers=world.readers)
    waking = _RequestedWake.of(options, found, state, name)
    check_looked(waking.found, state, name, subject)
    asks = asks or (len(waking.found) > MANY and sys.stdin.isatty() and not options.auto_approve)
    approval = Approval(options.output, options, ask=asks)
    world = world.without(state.unreachable)
    if asks and not approval.approve(plan(PolicySet(found), world, options.request(), waking.decide_once_asked)):
        raise ReconcilerError(DECLINED)
    failed = requested(waking, world, quiet=options.quiet)
    with run_progress(options) as (settings, shown), cut_by_signals(options.limit) as limit:
        control = options.by_hand(Control(shown.counted(approval.choose_all), shown.writing))
        applied = apply(PolicySet(found), world, settings.request(), control, waking.decide)
    approval.report(applied)
    return limit.ended(first_exit_code([exit_of_apply(applied, {FailOn.UNKNOWN}), *failed]))


def awake(state: ObservedState, name: ObjectArgument) -> tuple[IdleWorkload, ...]:
    """Return the one Service or workload that `name` names in full, to be kept awake; none where it may not be."""
    cluster = state.clusters.get(name.cluster)
    if cluster is None or cluster.unreadable or not name.name:
        return ()  # what cannot be read may be idle
    found: list[Service | Workload] = [*cluster.services, *(one for one in cluster.workloads if one.owner is None)]
    return tuple(IdleWorkload(target) for target in found if name.matches(target.ref))


class _RequestedWake(Struct, frozen=True):
    """What `name` names, `found` asleep there, and the annotations that ask each of it to wake.

    `any_fleet`: every Fleet's records count as its own.
    """

    name: ObjectArgument
    found: Sequence[IdleWorkload]
    wanted: Mapping[str, str]
    any_fleet: bool = False

    @classmethod
    def of(cls, options: _WakeOptions, fleet: Fleet, state: ObservedState, name: ObjectArgument) -> _RequestedWake:
        """Return it for `name`; what is awake is not asked to wake, only kept awake where that is wanted. Where --for
        may change nothing, as no policy is read, a warning says so.
        """
        length, any_fleet = options.awake_for, options.any_fleet
        if length is not None and length < MIN_AWAKE_BY_DEFAULT:
            short = f"--for {spelt_duration(length)}: is shorter than 2h, the default of minAwake"
            say_each("warning", [f"{short}; it stays awake for minAwake of its policy in any case"])
        stays = {} if length is None else {Key.EXCLUDE_UNTIL: format_time(options.now + length)}
        fleet = of_every_fleet(fleet, state) if any_fleet else fleet
        asleep = idle_workloads(fleet, state, Run(options.now), name.matches)
        if asleep or not stays:
            return cls(name, asleep, {Key.WAKE_REQUESTED_AT: format_time(options.now), **stays}, any_fleet)
        return cls(name, awake(state, name), stays, any_fleet)

    def decide(self, policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
        """Return the wakes that stand in a group with something that was asked, or that `name` names."""
        fleet = of_every_fleet(policies.fleet, state) if self.any_fleet else policies.fleet
        due = decide_wakes_due(fleet, state, run)
        asked = {ref for idle in self.found for ref in (idle.asked.ref, *idle.wakes)}
        groups = {one.group for one in due.decisions if one.ref in asked or self.name.matches(one.ref)}
        decisions = tuple(one for one in due.decisions if one.group in groups)
        return replace(due, decisions=decisions, held_back=(), notices=tuple(filter(self._names, due.notices)))

    def _names(self, notice: Notice) -> bool:
        """Return whether `notice` is about an object that `name` names."""
        parts = notice.subject.split("/")
        return len(parts) == 4 and self.name.matches(ObjectRef(*parts))

    def decide_once_asked(self, policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
        """Return what `decide` will, once everything is asked."""
        refs = {idle.asked.ref for idle in self.found if not idle.in_vain}
        clusters = {name: once_asked(cluster, refs, self.wanted) for name, cluster in state.clusters.items()}
        return self.decide(policies, replace(state, clusters=clusters), run)


def check_looked(asleep: Sequence[IdleWorkload], state: ObservedState, name: ObjectArgument, subject: str) -> None:
    """Check that something idle was found, or at least looked for.

    Raises:
        ReconcilerError: it could not be looked for. UsageError: nothing idle is there.
    """
    if asleep:
        return
    why = state.unreachable.get(name.cluster)
    if why is not None:
        raise ReconcilerError(f"{subject}: cluster {name.cluster} cannot be read: {why}; nothing was done")
    unreadable = state.clusters[name.cluster].unreadable if name.cluster in state.clusters else {}
    if unreadable:
        why = "; ".join(unreadable.values())
        raise ReconcilerError(f"{subject}: nothing idle was found, and not all could be read: {why}")
    check_there(state, name, subject)
    keeps = "; --for keeps a Service, or a workload that nothing owns, awake for longer"
    raise UsageError(f"{subject}: {f'is not idle{keeps}' if name.name else 'nothing below it is idle'}")


def requested(waking: _RequestedWake, world: World, *, quiet: bool) -> list[ExitCode]:
    """Write the requests on everything found, without a lock; report what could not be written, or is in vain, and
    return the exit codes that this leads to.
    """
    asked = [idle.asked for idle in waking.found if not idle.in_vain]
    if asked and not quiet:
        where = str(asked[0].ref) if len(asked) == 1 else f"{len(asked)} objects"
        say(f"annotating {where}: {', '.join(f'{key}={value}' for key, value in waking.wanted.items())}")
    failures = [f"{idle.asked.ref}: {idle.problem}" for idle in waking.found if idle.problem]
    until = parse_time(waking.wanted.get(Key.EXCLUDE_UNTIL, ""))
    for target in asked:
        before = parse_time(target.annotations.get(Key.EXCLUDE_UNTIL, ""))
        if until is not None and before is not None and until < before:
            say_each("warning", [f"{target.ref}: was excluded from idling for longer, until {format_time(before)}"])
        try:
            changes = annotation_changes(target.annotations, waking.wanted)
            world.accesses[target.ref.cluster].cluster.write(annotation_patch(target, changes))
        except Exception as error:  # noqa: BLE001 - whatever it is, the others are asked all the same
            failures.append(reason_of(error))
    say_each("error", failures)
    return [ExitCode.PARTIAL] if failures else []


_LISTED = 10


class _RestoreOptions(ByHandOptions):
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


@verb("restore", _RestoreOptions, *BY_HAND)
def restore_command(options: _RestoreOptions) -> int:
    """Restore the replicas of what was idled: below OBJECT, by a policy or run, or --all of it.

    OBJECT is CLUSTER, CLUSTER/NAMESPACE or CLUSTER/NAMESPACE/KIND/NAME. Of the policies only the Fleet is read.

    # Restore everything that one policy idled
    restore --policy idle-dev
    # Restore a namespace, and keep it from being idled for twelve hours
    restore eu-west/dev-a --hold 12h
    """
    subject = options.subject
    narrowed = subject or options.idled_by or options.runs
    if narrowed and options.everything:
        beside = subject or ("--policy" if options.idled_by else "--run")
        raise UsageError(f"{beside}: stands beside --all, expected one of the two")
    if not narrowed and not options.everything:
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
    check_names = name_check(restoration, subject)

    def decide(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
        if subject is not None:
            check_there(state, object_name(subject), subject)
        check_names(policies.fleet, state, run)
        return _restored(policies.fleet, state, run, restoration)

    approval = Approval(options.output, options, ask=not options.auto_approve)
    with run_progress(options) as (settings, shown), cut_by_signals(options.limit) as limit:
        control = options.by_hand(approval.control(shown))
        applied = apply(PolicySet(found), options.world(found), settings.request(), control, decide)
    approval.report(applied)
    say_each("error", (f"{name}: {why}" for name, why in applied.plan.unknown.items()))
    return limit.ended(exit_of_apply(applied, {FailOn.UNKNOWN}))


def _restored(fleet: Fleet, state: ObservedState, run: Run, restoration: Restoration) -> DesiredState:
    """Return what is woken, and what gets the replicas back that it had before placement, which records no run."""
    restored = decide_restore(fleet, state, run, restoration)
    if not restoration.runs:
        restored = restored.joined(_scales(fleet, state, restoration, restoration.policies))
    notices = restore_notices(state, restored, hold=restoration.hold_until is not None)
    return restored.joined(DesiredState(notices=tuple(notices)))


def _scales(fleet: Fleet, state: ObservedState, restoration: Restoration, policies: tuple[str, ...]) -> DesiredState:
    def is_meant(policy: str, workload: Workload) -> bool:
        named = not policies or any(fnmatchcase(policy, pattern) for pattern in policies)
        return named and restoration.objects(workload.ref) and scale_to_restore(workload) is not None

    return decide_releases(fleet, state, is_meant, any_fleet=restoration.any_fleet)


def restoration_of(options: _RestoreOptions) -> Restoration:
    narrowed = Restoration() if options.subject is None else Restoration(objects=object_name(options.subject).matches)
    return replace(
        narrowed,
        policies=options.idled_by,
        runs=frozenset(options.runs),
        adopt=options.adopt,
        any_fleet=options.any_fleet,
        hold_until=None if options.hold is None else options.now + options.hold,
    )


def name_check(restoration: Restoration, subject: str | None) -> Callable[[Fleet, ObservedState, Run], None]:
    """Return what checks that each name given to --policy and --run matches something idle, as far as can be seen.

    Each is looked for once: what a run has restored by itself matches nothing any more when it looks again. It raises
    a UsageError with what there is, and the nearest name.
    """
    left = {"policy": set(restoration.policies), "run": set(restoration.runs)}

    def check(fleet: Fleet, state: ObservedState, run: Run) -> None:
        if not any(left.values()):
            return
        found = origins(fleet, state, run, restoration)
        placed = {decision.cause.policy for decision in _scales(fleet, state, restoration, ()).decisions}
        known = {
            "policy": {policy for policy, _ in found} - {""} | placed,
            "run": {run for _, run in found} - {""},
        }
        left["policy"] = {one for one in left["policy"] if not any(fnmatchcase(name, one) for name in known["policy"])}
        left["run"] -= known["run"]
        if state.unreachable or any(cluster.unreadable for cluster in state.clusters.values()):
            return
        for what, name in ((what, name) for what, names in left.items() for name in sorted(names)):
            problem = f'--{what}: no idle object{_below(subject)} records {what} "{name}"'
            if not known[what]:
                raise UsageError(f"{problem}; {f'none records a {what}' if found else 'nothing is idle'}")
            near = nearest(name, sorted(known[what])).replace(", did", "; did")
            several = f"one of {len(known[what])}: " if len(known[what]) > 1 else ""
            raise UsageError(f"{problem}, expected {several}{first_of(sorted(known[what]), _LISTED)}{near}")

    return check


def _below(subject: str | None) -> str:
    return "" if subject is None else f" below {subject}"
