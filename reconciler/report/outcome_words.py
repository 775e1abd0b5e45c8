"""What became of a change, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reconciler.apply.outcomes import Outcome, Status
from reconciler.plan.actions import Action
from reconciler.plan.one_line import one_line
from reconciler.report.changes import counted

NOT_APPROVED = "not approved"


def went_well(action: Action, outcomes: Mapping[int, Outcome] | None) -> bool:
    """Return whether there is nothing to say of `action`: it was applied, or nothing was tried yet (None)."""
    if outcomes is None:
        return True
    outcome = outcomes.get(action.id)
    return outcome is not None and outcome.status is Status.APPLIED and not outcome.message


def status_of(outcome: Outcome | None) -> str:
    """Return the one word for what became of a change; None: it was planned, but not chosen."""
    return NOT_APPROVED if outcome is None else str(outcome.status)


def words_of(outcome: Outcome | None) -> Iterator[str]:
    """Yield what else there is to say: the reason, and how many of the chosen pods went."""
    if outcome is None:
        return
    if outcome.message:
        yield one_line(outcome.message)
    asked = outcome.hit + outcome.missed
    if asked:
        words = [f"{outcome.hit} of the {counted(asked, 'chosen pod')} went"]
        words += [f"{outcome.missed} still there"] if outcome.missed else []
        words += [f"{counted(outcome.substituted, 'other pod')} went instead"] if outcome.substituted else []
        yield ", ".join(words)
