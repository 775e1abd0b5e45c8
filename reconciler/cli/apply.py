"""`reconciler apply`: plan and apply, or exactly a saved plan."""

from __future__ import annotations

from collections.abc import Callable, Set
from datetime import datetime, timedelta
from pathlib import Path

import click
from click.core import ParameterSource
from msgspec.structs import replace

from reconciler.cli.approval import Approval, approved_differences, tell_differences
from reconciler.cli.exit_codes import exit_of_apply, exit_of_saved, tracked
from reconciler.cli.option_values import duration, seconds, this_second
from reconciler.cli.options import (
    DEFAULT_PATH,
    auto_approve_option,
    is_on_command_line,
    option,
    output_option,
    path_argument,
    policies_option,
    terminal_or,
    verb,
)
from reconciler.cli.output import FORMATS, failure_lines, say_each
from reconciler.cli.plan_file import is_saved_plan, json_in_file
from reconciler.cli.policy_source import commit_of
from reconciler.cli.progress import TrackedRun
from reconciler.cli.run_options import FILTERS, PROGRESS, RUN, STYLE, WORLD, RunOptions
from reconciler.errors import ExitCode, PolicyError, ReconcilerError, UsageError, first_exit_code
from reconciler.pipeline import Applied, Control, Stage, apply, apply_wakes_due
from reconciler.plan.model import Action, Plan
from reconciler.policy.load import read_fleet, read_policies
from reconciler.policy.types import Fleet, PolicySet
from reconciler.saved_plan.differences import Compared
from reconciler.saved_plan.saved_plan import SavedPlan, apply_saved, check_fleet, read_saved, still_allowed


class _ApplyOptions(RunOptions):
    path: str = path_argument("[PATH|PLAN]")
    output: str = output_option(*FORMATS)
    auto_approve: bool = auto_approve_option()
    lock_timeout: float = option("How long to wait for the lock of each cluster.", type=seconds, default=30.0)
    policies_path: str | None = policies_option(
        "With a PLAN: the policies to compare it with.", default=None, default_words=DEFAULT_PATH
    )
    approve_differences: bool = option("With a PLAN: apply also what a fresh plan does not have.", default=False)
    max_plan_age: timedelta = option("With a PLAN: refuse an older one.", type=duration(), default=timedelta(hours=1))
    live: bool = option("With a PLAN made from a snapshot: apply it to live clusters.", default=False)


@verb("apply", _ApplyOptions, *WORLD, "fail_on", *FILTERS, "shard", *RUN, "report_dir", *STYLE, *PROGRESS)
def apply_command(options: _ApplyOptions) -> int:
    """Apply the policies below PATH, or exactly the saved PLAN.

    On a terminal the plan is shown and asked about. The plan that is made again under the locks of the clusters is
    applied as far as it was approved.

    # Show the plan, ask, and apply it
    apply
    # Apply without a terminal, as a CronJob does
    apply --auto-approve --timeout 540
    # Apply exactly what was saved
    apply plan.json
    """
    path = options.path
    saved = is_saved_plan(path)
    if not saved and is_on_command_line("policies"):
        raise UsageError(f"--policies: {path} is no saved plan, expected it beside one; what is applied is PATH")
    terminal_or(options.auto_approve or saved, "apply")
    if saved and not options.filters.empty:
        raise UsageError(f"{path}: is a saved plan, expected no filters; plan again with them")
    if saved and options.shard is not None:
        raise UsageError(f"{path}: is a saved plan, which is of the whole Fleet, expected no --shard beside it")
    approval = Approval(options.output, options, ask=not options.auto_approve and not saved)

    def work(run: TrackedRun[_ApplyOptions]) -> ExitCode:
        control = replace(
            approval.control(run.progress),
            clock=_clock(options),
            lock_timeout=options.lock_timeout,
            commit=commit_of((options.policies_path or DEFAULT_PATH) if saved else path),
            report_dir=options.report_dir,
        )
        return (_saved if saved else _fresh)(run, control, approval)

    return tracked("apply", options, work)


def _clock(options: _ApplyOptions) -> Callable[[], datetime] | None:
    """Return what tells the time once a person was asked; None where none is, or the time of the run was stated."""
    is_stated = click.get_current_context().get_parameter_source("now") is not ParameterSource.DEFAULT
    return None if options.auto_approve or is_stated else this_second


def _fresh(run: TrackedRun[_ApplyOptions], control: Control, approval: Approval) -> ExitCode:
    options = run.options
    try:
        policies = options.policies(partly=True)
        applied = apply(policies, run.world(policies.fleet), options.request(), control)
    except (click.ClickException, click.Abort, OSError):
        raise
    except Exception as error:
        if isinstance(error, ReconcilerError) and not isinstance(error, PolicyError):
            raise
        return _due_only(run, control, approval, error)
    _report(applied, approval, run)
    return exit_of_apply(applied, options.fail_on)


def _due_only(run: TrackedRun[_ApplyOptions], control: Control, approval: Approval, problem: Exception) -> ExitCode:
    """Wake what is due by its own record although the policies cannot be used, whatever is wrong with them.

    A bug that some policy brings about must not keep a morning dark either. Only what a wake needs of the Fleet has to
    be there.
    """
    options = run.options
    fleet, lines = options.fleet_despite(problem), failure_lines(problem)
    say_each("warning", ["the policies decide nothing in this run; only what is due or requested is woken"])
    applied = apply_wakes_due(fleet, run.world(fleet), options.request(), control)
    approval.options = options.replace(nothing="Nothing is due or requested: no policy was compared.")
    _report(applied, approval, run, f"{lines[0]}{f' (and {len(lines) - 1} more)' if lines[1:] else ''}")
    return first_exit_code([ExitCode.MALFORMED, exit_of_apply(applied)])


def _saved(run: TrackedRun[_ApplyOptions], control: Control, approval: Approval) -> ExitCode:
    options, file = run.options, run.options.path
    plan = read_saved(json_in_file(file), file, options.now, options.max_plan_age)
    policies, fleet = _policies_at_hand(options.policies_path)
    check_fleet(plan, fleet, file)
    then = options.replace(now=plan.made_at, run_id=plan.run, source_revision=plan.revision)
    world = run.noted(then.world(fleet), fleet)
    saved = SavedPlan(plan, file, fleet, policies, world, then.request())
    not_doable = saved.not_doable(live=options.live)

    def compared() -> Compared:
        found = saved.compared()
        run.progress.stage(Stage.APPROVE)
        return found

    approved: Set[int] = {action.id for action in plan.actions}
    if not options.approve_differences:
        known = policies is not None
        approved = approved_differences(plan, file, compared, ask=not options.auto_approve, known=known)
    saved.check_policies()
    not_doable |= saved.ended(control.clock() if control.clock else options.now)

    def allowed(plan: Plan) -> tuple[Action, ...]:
        approval.choose_all(plan)
        return still_allowed(plan, fleet)

    def left(found: Compared) -> Compared:
        if options.approve_differences:
            tell_differences(plan, file, found)
        return replace(found, differing={one: why for one, why in found.differing.items() if one not in approved})

    control = replace(control, choose=run.progress.counted(allowed))
    applied = apply_saved(saved, control, left, not_doable, options.callbacks)
    _report(applied, approval, run)
    return exit_of_saved(applied, options.fail_on)


def _policies_at_hand(policies: str | None) -> tuple[PolicySet | None, Fleet]:
    """Return what a saved plan is compared with, None where there is nothing, and the Fleet.

    `policies` is the flag of this name. Of a file that does not hold all policies only the Fleet is read.

    Raises:
        PolicyError: they, or the Fleet, cannot be used.
    """
    place = policies or DEFAULT_PATH
    fleet = read_fleet(place)
    try:
        return read_policies(place, partly=True), fleet
    except PolicyError:
        if Path(place).is_file():
            return None, fleet
        raise


def _report(applied: Applied, approval: Approval, run: TrackedRun[_ApplyOptions], problem: str = "") -> None:
    run.applied(applied, problem)
    say_each("warning", (outcome.message for outcome in applied.outcomes if outcome.picker_failed))
    approval.report(applied)
