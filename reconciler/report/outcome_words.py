"""What became of a change, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.plan.model import Action
from reconciler.report.wording import counted
from reconciler.untrusted_text import one_line

NOT_APPROVED = "not approved"


def went_well(action: Action, outcomes: Mapping[int, Outcome] | None) -> bool:
    """Return whether there is nothing to say of `action`: it was applied as planned, or not tried yet (None)."""
    if outcomes is None:
        return True
    found = outcomes.get(action.id)
    as_planned = found is not None and not (found.message or found.missed or found.substituted)
    return as_planned and found is not None and found.status is OutcomeStatus.APPLIED


def status_of(outcome: Outcome | None) -> str:
    """Return the word for what became of a change; None: it was planned, but not chosen."""
    if outcome is None:
        return NOT_APPROVED
    return "deferred" if outcome.status is OutcomeStatus.POSTPONED else str(outcome.status)


def words_of(outcome: Outcome | None) -> Iterator[str]:
    """Yield what became of a change and why, and how many of the chosen pods were deleted."""
    message = one_line(outcome.message) if outcome is not None else ""
    yield f"{status_of(outcome)}: {message}" if message else status_of(outcome)
    chosen = 0 if outcome is None else outcome.hit + outcome.missed
    if outcome is not None and chosen:
        words = [f"deleted {outcome.hit} of {counted(chosen, 'chosen pod')}"]
        words += [f"{outcome.missed} still there"] if outcome.missed else []
        words += [f"{counted(outcome.substituted, 'other pod')} deleted instead"] if outcome.substituted else []
        yield ", ".join(words)
