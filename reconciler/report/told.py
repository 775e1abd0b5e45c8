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

_AUTOSCALER = "autoscaler"


@dataclass(frozen=True, slots=True)
class Told:
    """One thing to tell: `about` is what sort of thing ("Unknown", "Undecided", ...), `text` the words, one line."""

    about: str
    text: str


def told_of(plan: Plan, *, everything: bool = False) -> tuple[Told, ...]:
    """Return what a person should read beside the changes of `plan`, the most pressing first.

    What is said of several objects in the same words is one thing to tell; with `everything` it names all of them.
    """
    found = (*_unknown(plan), *_notices(plan, True), *_undecided(plan), *_overridden(plan), *_notices(plan, False))
    same: dict[_Said, list[str]] = {}
    for said, subject in found:
        same.setdefault(said, []).append(subject)
    return tuple(Told(said.about, _words(said, subjects, everything)) for said, subjects in same.items())


def no_changes(plan: Plan) -> str:
    """Return what stands in place of the changes where there are none; what was not read may need some."""
    if not plan.unknown:
        return "No changes."
    return "No changes in what could be read." if plan.clusters else "No cluster could be read."


@dataclass(frozen=True, slots=True)
class _Said:
    """Words about a subject that is named apart."""

    about: str
    words: str
    policy: str = ""


def _words(said: _Said, subjects: Sequence[str], everything: bool) -> str:
    policy = f" ({said.policy})" if said.policy and said.policy not in said.words else ""
    if len(subjects) == 1:
        return one_line(f"{subjects[0]}: {said.words}{policy}".lstrip(": "))
    names = some_names(tuple(subjects), everything=everything)
    return f"{one_line(said.words)}{one_line(policy)}: {len(subjects)} objects: {names}"


def _unknown(plan: Plan) -> Iterator[tuple[_Said, str]]:
    for name in sorted(plan.unknown):
        yield _Said("Unknown", f"{plan.unknown[name]}; what cannot be read is left as it is"), name


def _undecided(plan: Plan) -> Iterator[tuple[_Said, str]]:
    for one in plan.undecided:
        yield _Said("Undecided", one.why, one.policy), one.subject


def _overridden(plan: Plan) -> Iterator[tuple[_Said, str]]:
    for lost in plan.overridden:
        words = f"{lost.policy} wants {lost.wish}, but {lost.winner} decides there ({lost.why})"
        yield _Said("Overridden", words), str(lost.ref)


def _notices(plan: Plan, partial: bool) -> Iterator[tuple[_Said, str]]:
    for notice in plan.notices:
        if notice.partial is partial and notice.kind != _AUTOSCALER:
            yield _Said("Attention" if partial else "Note", _bare(notice), notice.policy), notice.subject


def _bare(notice: Notice) -> str:
    """Return the text of `notice` without its subject in front."""
    return notice.text.removeprefix(notice.subject).lstrip(": ")


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


def after_summary(plan: Plan, *, everything: bool = False) -> Iterator[str]:
    """Yield what follows the last line: what was left alone, and what was left out of it."""
    yield from _left_alone(plan, everything)
    if plan.observed:
        yield f"{counted(len(plan.observed), 'change')} only observed (mode: Observe); never applied."
    if plan.dropped:
        yield f"{counted(plan.dropped, 'change')} left out by filters."


def _left_alone(plan: Plan, everything: bool) -> Iterator[str]:
    by_policy: dict[str, list[Notice]] = {}
    for notice in plan.notices:
        if notice.kind == _AUTOSCALER:
            by_policy.setdefault(notice.policy, []).append(notice)
    for policy, notices in by_policy.items():
        whose = f" ({policy})" if policy else ""
        if len(notices) == 1 or everything:
            yield from (one_line(f"{one.subject} left alone: {_bare(one)}{whose}.") for one in notices)
        else:
            names = some_names(tuple(notice.subject for notice in notices))
            yield f"{len(notices)} left alone because of an autoscaler{one_line(whose)}: {names}."


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
    """Return how much of each limit is used: what the run takes away of what it may take away.

    Of the Fleet's limits the one is told that comes nearest to being reached, with its cluster where there are several.
    """
    uses: dict[str, list[LimitUse]] = {}
    for limit in limits:
        uses.setdefault(limit.name, []).append(limit)
    fleet = [", ".join(_nearest(uses["fleet"]))] if "fleet" in uses else []
    own = [one_line(f"{name} {', '.join(map(_use, found))}") for name, found in uses.items() if name != "fleet"]
    return f" Limits: {'; '.join([*fleet, *own])}." if uses else ""


def _nearest(uses: Sequence[LimitUse]) -> Iterator[str]:
    several = len({use.cluster for use in uses}) > 1
    for unit in dict.fromkeys(use.unit for use in uses):
        most = max((use for use in uses if use.unit == unit), key=lambda use: use.used / max(1, use.allowed))
        yield _use(most) + (one_line(f" on {most.cluster}") if several and most.used else "")


def _use(limit: LimitUse) -> str:
    return f"{limit.used} of {limit.allowed} {limit.unit}"
