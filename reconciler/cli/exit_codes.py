"""What a run ends with, and the words for it.

A run that did what it could is a success: what limits hold back, a cluster that does not answer and policies of equal
priority are notices, unless --fail-on names them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.cli.output import say, say_each
from reconciler.cli.progress import TrackedRun, run_progress
from reconciler.cli.run_options import RunOptions
from reconciler.cli.run_time_limit import cut_by_signals
from reconciler.decide.decisions import NoticeKind
from reconciler.errors import ExitCode, FailOn, first_exit_code
from reconciler.messages import counted
from reconciler.pipeline import Applied
from reconciler.plan.model import Plan
from reconciler.report.change_words import counted_changes

O = TypeVar("O", bound=RunOptions)  # noqa: E741

_MEANINGS = {
    ExitCode.MALFORMED: "the policies cannot be used; only wakes that are due or requested were done",
    ExitCode.PLAN_REFUSED: "nothing of the saved plan fits the clusters any more; plan again",
    ExitCode.LOCKED: "other runs hold the locks of all clusters; nothing was written",
    ExitCode.INTERRUPTED: "interrupted (SIGINT); what was not done is left to the next run",
    ExitCode.TERMINATED: "terminated (SIGTERM); what was not done is left to the next run",
}


def exit_of_plan(plan: Plan, fail_on: Collection[FailOn], *, detailed: bool = False) -> ExitCode:
    """Return the exit code of `plan` alone; with `detailed`, 2 means that changes are pending or held back."""
    return first_exit_code(_of_plan(plan, fail_on, detailed))


def exit_of_apply(applied: Applied, fail_on: Collection[FailOn] = ()) -> ExitCode:
    """Return the exit code of an apply, its plan included."""
    if applied.declined:
        return ExitCode.NOTHING_DONE
    return first_exit_code([*_of_plan(applied.plan, fail_on, False), *_of_outcomes(applied)])


def exit_of_saved(applied: Applied, fail_on: Collection[FailOn]) -> ExitCode:
    """Return the exit code of a saved plan: refused as a whole when nothing of it fitted any more."""
    outcomes = applied.outcomes
    stale = any(outcome.status is OutcomeStatus.STALE for outcome in outcomes)
    if stale and all(outcome.status in (OutcomeStatus.STALE, OutcomeStatus.SKIPPED) for outcome in outcomes):
        return ExitCode.PLAN_REFUSED
    return first_exit_code([*_of_fail_on(applied.plan, fail_on), *_of_outcomes(applied)])


def exit_of_clusters(done: Collection[str], failures: Sequence[str]) -> ExitCode:
    """Say what failed on clusters, and return the exit code of a verb that was `done` on the others."""
    say_each("error", failures)
    if not done:
        return ExitCode.NOTHING_DONE
    return ExitCode.PARTIAL if failures else ExitCode.DONE


def no_cluster_read(plan: Plan) -> bool:
    """Return whether there are clusters, and none of them could be read."""
    return bool(plan.unknown) and not plan.clusters


def tracked(verb: str, options: O, work: Callable[[TrackedRun[O]], ExitCode]) -> ExitCode:
    """Return what a run ends with that does `work`; its metrics are published, and messages sent, however it ends."""
    run = TrackedRun(options)
    with cut_by_signals(options.limit) as limit:
        try:
            with run_progress(options) as (run.options, run.progress):
                run.code = options.limit.ended(work(run))
                line = exit_line(run.code, run.plan, run.outcomes)
            if line and not options.quiet:
                say(line)
        finally:
            if options.metrics_file or options.push_gateway or run.to_notify:
                from reconciler.cli.deliveries import tell_others

                tell_others(verb, run)
        assert run.code is not None
        return limit.ended(run.code)  # it may be asked to stop while it pushes its metrics, too


def exit_line(code: ExitCode, plan: Plan | None, outcomes: Sequence[Outcome]) -> str:
    """Return what a run that made `plan` and did `outcomes` says last on stderr: what `code` means, or what a run that
    ended well left undone; "" where all is well.
    """
    if plan is not None and code == ExitCode.DONE:
        notices = ", ".join(_fail_on_words(plan).values())
        return f"notice: {notices}" if notices else ""
    words = _meaning(code, plan, outcomes)
    return f"exit code {int(code)}: {words}" if words else ""


def _meaning(code: ExitCode, plan: Plan | None, outcomes: Sequence[Outcome]) -> str:
    fixed = (_stopped(plan) if code == ExitCode.MALFORMED else "") or _MEANINGS.get(code)
    if fixed is not None or plan is None:
        return fixed or ""
    if code == ExitCode.CHANGES_PENDING:
        pending = f"{counted_changes(action.decision for action in plan.actions)} pending" if plan.actions else ""
        return ", ".join(filter(None, [pending, *_fail_on_words(plan).values()]))
    if code == ExitCode.HELD_BACK and not plan.held_back:
        return "limits hold back what this change does in the days to come"
    if code == ExitCode.HELD_BACK:
        return _held_back(plan)
    if code == ExitCode.NOTHING_DONE:
        return "no cluster can be read" if not plan.clusters else "nothing was done"
    if code != ExitCode.PARTIAL:
        return ""
    return f"{'partly done' if outcomes else 'incomplete'}: {', '.join(_why_partial(plan, outcomes))}"


def _stopped(plan: Plan | None) -> str:
    """Return which tenants decide nothing, "" where the policies as a whole are the reason."""
    names = [notice.subject for notice in (() if plan is None else plan.notices) if notice.kind == "tenantStopped"]
    return f"the policies of {' and '.join(names)} cannot be used; only they were stopped" if names else ""


def _held_back(plan: Plan) -> str:
    return f"limits hold back {counted_changes(decision for held in plan.held_back for decision in held.decisions)}"


def _fail_on_words(plan: Plan) -> dict[FailOn, str]:
    """Return in words what --fail-on can name, as far as the plan has it."""
    found: dict[FailOn, str] = {}
    if unknown := _unknown(plan):
        found[FailOn.UNKNOWN] = f"{unknown} unknown"
    if plan.held_back:
        found[FailOn.HELD_BACK] = _held_back(plan)
    if conflicts := _count(plan, "equalPriorities"):
        found[FailOn.CONFLICT] = counted(conflicts, "conflict of policies", "conflicts of policies")
    return found


def _why_partial(plan: Plan, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield what makes a run partial."""
    warnings, left = sum(notice.partial for notice in plan.notices), _fail_on_words(plan)
    ids = {outcome.action for outcome in outcomes if _is_undone(outcome)}
    undone = [action.decision for action in plan.actions if action.id in ids]
    yield from left.values()
    if warnings:
        yield counted(warnings, "warning")
    if undone or not (warnings or left):
        yield f"{counted_changes(undone)} not applied" if undone else "not everything was done"


def _unknown(plan: Plan) -> str:
    """Return what is unknown by sort: "1 cluster, 3 queries"; "" for nothing."""
    clusters, unread = len(plan.unknown_clusters), len(plan.unread)
    queries = len(plan.unknown) - unread + _count(plan, "unknownQuery")
    sorts = ((clusters, "cluster", ""), (unread - clusters, "list", ""), (queries, "query", "queries"))
    return ", ".join(counted(number, one, many) for number, one, many in sorts if number)


def _count(plan: Plan, kind: NoticeKind) -> int:
    return sum(notice.kind == kind for notice in plan.notices)


def _of_plan(plan: Plan, fail_on: Collection[FailOn], detailed: bool) -> Iterator[ExitCode]:
    if _count(plan, "tenantStopped"):
        yield ExitCode.MALFORMED
    if no_cluster_read(plan):
        yield ExitCode.NOTHING_DONE
    if any(notice.partial for notice in plan.notices):
        yield ExitCode.PARTIAL
    yield from _of_fail_on(plan, fail_on)
    if detailed and (plan.actions or plan.held_back):
        yield ExitCode.CHANGES_PENDING


def _of_fail_on(plan: Plan, fail_on: Collection[FailOn]) -> Iterator[ExitCode]:
    for left in _fail_on_words(plan).keys() & set(fail_on):
        yield ExitCode.HELD_BACK if left is FailOn.HELD_BACK else ExitCode.PARTIAL


def _of_outcomes(applied: Applied) -> Iterator[ExitCode]:
    skipped = bool(applied.outcomes) and all(outcome.status is OutcomeStatus.SKIPPED for outcome in applied.outcomes)
    if skipped and all(outcome.locked for outcome in applied.outcomes):
        yield ExitCode.LOCKED
    if skipped and not any(outcome.locked for outcome in applied.outcomes):
        yield ExitCode.NOTHING_DONE
    if applied.dropped or any(map(_is_undone, applied.outcomes)):
        yield ExitCode.PARTIAL


def _is_undone(outcome: Outcome) -> bool:
    """Return whether a change was not made that should be; what a tenant may not do is the fault of that tenant."""
    return outcome.status is not OutcomeStatus.APPLIED and not outcome.tenant
