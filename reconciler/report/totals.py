"""What an apply did, in numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.plan.model import Plan, fewer, more


@dataclass(frozen=True, slots=True)
class Totals:
    """How many changes ended how, and the replicas that the applied ones took and gave."""

    applied: int = 0
    stale: int = 0
    failed: int = 0
    skipped: int = 0
    postponed: int = 0
    not_chosen: int = 0
    replicas_fewer: int = 0
    replicas_more: int = 0


def totals_of(plan: Plan, outcomes: Sequence[Outcome]) -> Totals:
    """Return the totals of `outcomes`; an action of `plan` without an outcome was not chosen."""
    by_status = Counter(outcome.status for outcome in outcomes)
    applied = {outcome.action for outcome in outcomes if outcome.status is OutcomeStatus.APPLIED}
    done = [action.decision for action in plan.actions if action.id in applied]
    return Totals(
        applied=by_status[OutcomeStatus.APPLIED],
        stale=by_status[OutcomeStatus.STALE],
        failed=by_status[OutcomeStatus.FAILED],
        skipped=by_status[OutcomeStatus.SKIPPED],
        postponed=by_status[OutcomeStatus.POSTPONED],
        not_chosen=len({action.id for action in plan.actions} - {outcome.action for outcome in outcomes}),
        replicas_fewer=fewer(done),
        replicas_more=more(done),
    )
