"""A plan or the report of an apply as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reconciler.apply.outcomes import Outcome, Status
from reconciler.decide.selection import format_time
from reconciler.decide.types import Decision
from reconciler.plan.actions import Action, HeldBackActions, Plan
from reconciler.plan.counts import Effect, effect_of
from reconciler.plan.one_line import one_line
from reconciler.plan.plan import number
from reconciler.report.changes import arrow_of, fields_of, name_of, victims_of, what_of, why_of
from reconciler.report.groups import Line, grouped, is_quiet
from reconciler.report.outcome_words import NOT_APPROVED, status_of, went_well, words_of
from reconciler.report.told import after_summary, allow_once, apply_summary, no_changes, plan_summary, told_of

_HELD_SHOWN = 5
_COLORS = {
    Effect.DELETE: "31",
    Effect.OVERWRITE: "33",
    Effect.IDLE: "31",
    Effect.DOWN: "31",
    Effect.UP: "32",
    Effect.CREATE: "32",
    Effect.WAKE: "32",
    Effect.REPAIR: "33",
    Effect.NOTE: "2",
}
_STATUS_COLORS = {
    Status.APPLIED: "32",
    Status.STALE: "33",
    Status.FAILED: "31",
    Status.SKIPPED: "33",
    Status.POSTPONED: "33",
}


@dataclass(frozen=True, slots=True)
class _Style:
    color: bool
    verbose: bool

    def paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and text else text


def render_text(
    plan: Plan, outcomes: Sequence[Outcome] | None = None, *, color: bool = False, verbose: bool = False
) -> str:
    """Return `plan`, or with `outcomes` the report of its apply, as lines of text.

    With `verbose` every change has its own line, with every field before and after.
    """
    style = _Style(color, verbose)
    changes = _changes(plan, outcomes, style)
    blocks = [line for block in (_observed(plan, style), _held(plan, style), _told(plan, style)) for line in block]
    head = [*_heading(plan, style), *(changes or [no_changes(plan)])]
    after = list(after_summary(plan, everything=verbose))
    if not changes and not blocks and not after:
        return "\n".join(head) + "\n"
    summary = plan_summary(plan) if outcomes is None else apply_summary(plan, outcomes)
    middle = ["", *blocks, ""] if blocks else []
    return "\n".join([*head, *middle, style.paint("1", summary), *after]) + "\n"


def _heading(plan: Plan, style: _Style) -> Iterator[str]:
    if style.verbose:
        looked_at = "a snapshot" if plan.source == "snapshot" else "live clusters"
        yield one_line(f"Plan {plan.run} of Fleet {plan.fleet}, made from {looked_at} at {format_time(plan.made_at)}.")
        revision = f"Source revision {plan.revision}. " if plan.revision else ""
        yield one_line(f"{revision}Digest of policies {plan.policy_digest}, of inputs {plan.input_digest}.")


def _changes(plan: Plan, outcomes: Sequence[Outcome] | None, style: _Style) -> list[str]:
    by_action = None if outcomes is None else {outcome.action: outcome for outcome in outcomes}
    found = grouped(
        plan.actions,
        fold=lambda action: not style.verbose and went_well(action, by_action),
        urgent=lambda action: not went_well(action, by_action),
    )
    return [text for group in found for line in group.lines for text in _line(line, by_action, style)]


def _line(line: Line, outcomes: Mapping[int, Outcome] | None, style: _Style) -> Iterator[str]:
    if outcomes is None:
        yield _change(line.decision, style)
        yield from _below(line, style, "    ")
        return
    outcome = outcomes.get(line.action.id)
    yield f"{_status(outcome, style)} {_change(line.decision, style)}"
    yield from ("    " + text for text in words_of(outcome))
    yield from _below(line, style, "    ")


def _change(decision: Decision, style: _Style) -> str:
    where = f"{one_line(decision.ref.cluster)} {name_of(decision.ref)}"
    if is_quiet(decision) and effect_of(decision) is Effect.NOTE:
        return style.paint("2", f"{arrow_of(decision)} {where} {what_of(decision)} ({why_of(decision)})")
    arrow = style.paint(_COLORS[effect_of(decision)], arrow_of(decision))
    return f"{arrow} {where} {what_of(decision)} {style.paint('2', f'({why_of(decision)})')}"


def _below(line: Line, style: _Style, indent: str) -> Iterator[str]:
    victims = victims_of(line.decision, all_names=style.verbose)
    if victims:
        yield indent + victims
    if line.along:
        words = "; ".join(f"{_short(line.decision, action)} {what_of(action.decision)}" for action in line.along)
        yield indent + style.paint("2", f"with it: {words}")
    if style.verbose:
        yield from (indent + style.paint("2", text) for text in _details(line.action))


def _short(beside: Decision, action: Action) -> str:
    ref = action.decision.ref
    return name_of(ref) if ref.namespace != beside.ref.namespace else one_line(f"{ref.kind}/{ref.name}")


def _details(action: Action) -> Iterator[str]:
    decision = action.decision
    yield from fields_of(decision)
    if decision.cause.values:
        yield one_line("decided by: " + ", ".join(f"{key}={value}" for key, value in decision.cause.values.items()))
    if decision.victims is not None and any(decision.victims.rules):
        pairs = zip(decision.victims.pods, decision.victims.rules, strict=False)
        yield one_line("order of the pods: " + ", ".join(f"{pod} by {rule}" for pod, rule in pairs))
    if action.needs:
        yield f"change {action.id}, after {', '.join(map(str, action.needs))}"


def _status(outcome: Outcome | None, style: _Style) -> str:
    color = "33" if outcome is None else _STATUS_COLORS[outcome.status]
    return style.paint(color, status_of(outcome).ljust(len(NOT_APPROVED)))


def _observed(plan: Plan, style: _Style) -> Iterator[str]:
    if plan.observed:
        yield style.paint("1", "Observed only, never applied (mode: Observe):")
        yield from _decisions(plan.observed, style, len(plan.observed))


def _decisions(decisions: Sequence[Decision], style: _Style, most: int) -> Iterator[str]:
    lines = [line for group in grouped(number(decisions)) for line in group.lines]
    for line in lines[:most]:
        yield "  " + _change(line.decision, style)
        yield from _below(line, style, "      ")
    if len(lines) > most:
        yield f"  and {len(lines) - most} more (--verbose shows them)"


def _held(plan: Plan, style: _Style) -> Iterator[str]:
    for held in plan.held_back:
        yield f"{style.paint('1;33', 'Held back:')} {one_line(held.why)}"
        yield f"  {allow_once(held)}"
        yield from _decisions(held.decisions, style, _shown(held, style))


def _shown(held: HeldBackActions, style: _Style) -> int:
    return len(held.decisions) if style.verbose else _HELD_SHOWN


def _told(plan: Plan, style: _Style) -> Iterator[str]:
    for told in told_of(plan, everything=style.verbose):
        yield f"{style.paint('1;33', told.about + ':')} {told.text}"
