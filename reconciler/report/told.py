"""What is told beside the changes: held back, observed, undecided, overridden, unknown, notices; and the last line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from reconciler.apply.outcomes import Outcome
from reconciler.decide.types import Notice
from reconciler.plan.actions import HeldBackActions, LimitUse, Plan
from reconciler.plan.counts import Counts, counts_of
from reconciler.plan.one_line import one_line
from reconciler.report.changes import counted, some_names
from reconciler.report.totals import Totals, totals_of


@dataclass(frozen=True, slots=True)
class Told:
    """One thing to tell: `about` is what sort of thing ("Unknown", "Undecided", ...), `text` the words, one line."""

    about: str
    text: str


def told_of(plan: Plan) -> tuple[Told, ...]:
    """Return what a person should read beside the changes of `plan`, the most pressing first."""
    pressing, other = _notices(plan, partial=True), _notices(plan, partial=False)
    return (*_unknown(plan), *pressing, *_undecided(plan), *_overridden(plan), *other)


def _unknown(plan: Plan) -> Iterator[Told]:
    for name in sorted(plan.unknown):
        yield Told("Unknown", one_line(f"{name}: {plan.unknown[name]}. What cannot be read is left as it is."))


def _undecided(plan: Plan) -> Iterator[Told]:
    for one in plan.undecided:
        policy = f" ({one.policy})" if one.policy else ""
        yield Told("Undecided", one_line(f"{one.subject}{policy}: {one.why}"))


def _overridden(plan: Plan) -> Iterator[Told]:
    for lost in plan.overridden:
        yield Told(
            "Overridden",
            one_line(f"{lost.ref}: {lost.policy} wants {lost.wish}, but {lost.winner} decides there ({lost.why})"),
        )


def _notices(plan: Plan, *, partial: bool) -> Iterator[Told]:
    """Yield the notices; those that say the same about several objects as one."""
    about = "Attention" if partial else "Note"
    same: dict[tuple[str, str, str], list[Notice]] = {}
    for notice in plan.notices:
        if notice.partial is partial:
            same.setdefault((notice.kind, notice.policy, notice.text), []).append(notice)
    for notices in same.values():
        yield Told(about, _notice(notices))


def _notice(notices: Sequence[Notice]) -> str:
    first = notices[0]
    policy = f" ({first.policy})" if first.policy and first.policy not in first.text else ""
    subjects = tuple(notice.subject for notice in notices if notice.subject)
    if len(notices) == 1:
        return one_line(f"{first.subject}: {first.text}{policy}" if first.subject else f"{first.text}{policy}")
    return one_line(f"{first.text}{policy}: {len(notices)} objects: ") + some_names(subjects)


def allow_once(held: HeldBackActions) -> str:
    """Return the words that tell how to let through once what is held back."""
    return f"Allow once: --allow-exceed {one_line(held.allow)}"


def plan_summary(plan: Plan) -> str:
    """Return the plan's last line."""
    counts = counts_of(plan)
    parts = [
        f"{counts.to_idle} to idle",
        f"{counts.to_wake} to wake",
        *_some((counts.to_scale_up, "to scale up")),
        f"{counts.to_scale_down} to scale down",
        *_some(
            (counts.to_create, "to create"),
            (counts.to_overwrite, "to replace"),
            (counts.to_delete, "to delete"),
            (counts.to_repair, "to put right"),
        ),
        *([counted(counts.notes, "mark or note", "marks and notes")] if counts.notes else []),
        *_some((counts.held_back, "held back")),
        f"{counts.undecided} undecided",
        f"{counts.unknown} unknown",
    ]
    return f"Plan: {', '.join(parts)}. {_replicas(counts)}{_limits(plan.limits)}"


def apply_summary(plan: Plan, outcomes: Sequence[Outcome]) -> str:
    """Return the last line of the report of an apply."""
    totals = totals_of(plan, outcomes)
    parts = [
        f"{totals.applied} of {counted(len(plan.actions), 'change')} applied",
        f"{totals.stale} stale",
        f"{totals.failed} failed",
        f"{totals.skipped} skipped",
        *_some((totals.postponed, "postponed"), (totals.not_chosen, "not approved")),
    ]
    return f"Apply: {', '.join(parts)}. {_replicas(totals)}"


def after_summary(plan: Plan) -> Iterator[str]:
    """Yield what follows the last line: what was left out of it."""
    if plan.observed:
        yield f"{counted(len(plan.observed), 'change')} only observed (mode: observe); never applied."
    if plan.dropped:
        yield f"{counted(plan.dropped, 'change')} left out by filters."


def _some(*pairs: tuple[int, str]) -> list[str]:
    return [f"{number} {words}" for number, words in pairs if number]


def _replicas(counts: Counts | Totals) -> str:
    fewer, more = counts.replicas_fewer, counts.replicas_more
    if fewer and more:
        return f"{counted(fewer, 'replica')} fewer, {more} more."
    if not fewer and not more:
        return "No replicas change."
    return f"{counted(fewer, 'replica')} fewer." if fewer else f"{counted(more, 'replica')} more."


def _limits(limits: Sequence[LimitUse]) -> str:
    """Return how much of each limit is used: what the run takes away of what it may take away."""
    uses: dict[str, list[str]] = {}
    for limit in limits:
        uses.setdefault(limit.name, []).append(f"{limit.used} of {limit.allowed} {limit.unit}")
    fleet = [", ".join(uses["fleet"])] if "fleet" in uses else []
    own = [one_line(f"{name} {', '.join(uses[name])}") for name in uses if name != "fleet"]
    words = "; ".join([*fleet, *own])
    return f" Limits: {words}." if words else ""
