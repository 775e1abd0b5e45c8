"""What a run ends with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.errors import ExitCode, first_exit_code
from reconciler.pipeline import Applied
from reconciler.plan.model import Plan
from reconciler.report.wording import counted

_MEANINGS = {
    ExitCode.MALFORMED: "the policies cannot be used; only wakes that are due or requested were done",
    ExitCode.PLAN_REFUSED: "nothing of the saved plan fits the clusters any more; plan again",
    ExitCode.LOCKED: "other runs hold the locks of all clusters; nothing was written",
    ExitCode.INTERRUPTED: "interrupted (SIGINT); what was not done is left to the next run",
    ExitCode.TERMINATED: "terminated (SIGTERM); what was not done is left to the next run",
}


def exit_of_plan(plan: Plan, *, detailed: bool = False) -> ExitCode:
    """Return the exit code of `plan` alone; with `detailed`, 2 tells that changes are pending."""
    return first_exit_code(_of_plan(plan, detailed))


def exit_of_apply(applied: Applied) -> ExitCode:
    """Return the exit code of an apply, its plan included."""
    if applied.declined:
        return ExitCode.NOTHING_DONE
    return first_exit_code([*_of_plan(applied.plan, False), *_of_outcomes(applied)])


def exit_of_saved(applied: Applied) -> ExitCode:
    """Return the exit code of a saved plan: refused as a whole when nothing of it fitted any more."""
    outcomes = applied.outcomes
    stale = any(outcome.status is OutcomeStatus.STALE for outcome in outcomes)
    if stale and all(outcome.status in (OutcomeStatus.STALE, OutcomeStatus.SKIPPED) for outcome in outcomes):
        return ExitCode.PLAN_REFUSED
    return first_exit_code(_of_outcomes(applied))


def exit_words(code: ExitCode, plan: Plan | None, outcomes: Sequence[Outcome] = ()) -> str:
    """Return what `code` means after a run that made `plan` and did `outcomes`, on one line; "" where all is well."""
    fixed = _MEANINGS.get(code)
    if fixed is not None or plan is None:
        return fixed or ""
    if code == ExitCode.CHANGES_PENDING:
        return f"{counted(len(plan.actions), 'change')} pending, metadata updates included"
    if code == ExitCode.HELD_BACK:
        held = sum(len(one.decisions) for one in plan.held_back)
        return f"limits hold back {counted(held, 'change')}, metadata updates included"
    if code == ExitCode.NOTHING_DONE:
        return "no cluster can be read" if not plan.clusters else "nothing was done"
    return f"partly done: {', '.join(_odd(plan, outcomes))}" if code == ExitCode.PARTIAL else ""


def _odd(plan: Plan, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield what makes a run partial."""
    warnings = sum(notice.partial for notice in plan.notices)
    undone = sum(outcome.status is not OutcomeStatus.APPLIED for outcome in outcomes)
    if plan.unknown:
        yield f"{counted(len(plan.unknown), 'cluster, list or query', 'clusters, lists or queries')} unknown"
    if warnings:
        yield counted(warnings, "warning")
    if undone or not (plan.unknown or warnings):
        yield f"{counted(undone, 'change')} not applied" if undone else "not everything was done"


def _of_plan(plan: Plan, detailed: bool) -> Iterator[ExitCode]:
    if plan.unknown and not plan.clusters:
        yield ExitCode.NOTHING_DONE
    if plan.unknown or any(notice.partial for notice in plan.notices):
        yield ExitCode.PARTIAL
    if plan.held_back:
        yield ExitCode.HELD_BACK
    if detailed and plan.actions:
        yield ExitCode.CHANGES_PENDING


def _of_outcomes(applied: Applied) -> Iterator[ExitCode]:
    written = any(outcome.status is OutcomeStatus.APPLIED for outcome in applied.outcomes)
    if _locked_out(applied.outcomes) and not written:
        yield ExitCode.LOCKED
    if applied.outcomes and not written and all(_left_undone(outcome) for outcome in applied.outcomes):
        yield ExitCode.NOTHING_DONE
    if applied.dropped or any(outcome.status is not OutcomeStatus.APPLIED for outcome in applied.outcomes):
        yield ExitCode.PARTIAL


def _left_undone(outcome: Outcome) -> bool:
    return outcome.status is OutcomeStatus.SKIPPED and not outcome.locked


def _locked_out(outcomes: Sequence[Outcome]) -> bool:
    return bool(outcomes) and all(outcome.status is OutcomeStatus.SKIPPED and outcome.locked for outcome in outcomes)
