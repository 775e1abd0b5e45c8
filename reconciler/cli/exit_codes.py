"""What a run ends with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.errors import ExitCode, first_exit_code
from reconciler.pipeline import Applied
from reconciler.plan.model import Plan


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
