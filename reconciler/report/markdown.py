"""A plan or the report of an apply as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Sequence

from reconciler.apply.outcomes import Outcome
from reconciler.decide.selection import format_time
from reconciler.decide.types import Decision, PlacementRow, PlacementView
from reconciler.plan.actions import Action, HeldBackActions, Plan
from reconciler.plan.plan import number
from reconciler.report.changes import arrow_of, counted, name_of, victims_of, what_of
from reconciler.report.groups import is_quiet, worst_first
from reconciler.report.markdown_text import code, code_element, details, joined, prose, table
from reconciler.report.outcome_words import status_of, went_well, words_of
from reconciler.report.told import after_summary, apply_summary, no_changes, plan_summary, told_of

_PLACEMENTS = 10
_HEAD = ("", "Cluster", "Object", "Change", "Why", "Policy")


def render_markdown(plan: Plan, outcomes: Sequence[Outcome] | None = None) -> str:
    """Return `plan`, or with `outcomes` the report of its apply, as Markdown in fixed blocks."""
    title = "Plan" if outcomes is None else "Apply"
    return joined(
        [
            [f"## {title}: Fleet {code(plan.fleet)}"],
            summary_of(plan, outcomes),
            changes_of(plan, outcomes),
            *held_back_of(plan),
            told_in(plan),
            *_observed(plan),
            *_placements(plan),
            origin_of(plan),
        ]
    )


def summary_of(plan: Plan, outcomes: Sequence[Outcome] | None = None) -> list[str]:
    """Return the summary line in bold, and what follows it."""
    words = plan_summary(plan) if outcomes is None else apply_summary(plan, outcomes)
    return [f"**{prose(words)}**", *(f"<br>{prose(line)}" for line in after_summary(plan))]


def changes_of(plan: Plan, outcomes: Sequence[Outcome] | None = None) -> list[str]:
    """Return a table of the changes, worst first, and a folded one of the marks and records."""
    if not plan.actions:
        return [no_changes(plan)]
    loud = [action for action in plan.actions if not is_quiet(action.decision)]
    quiet = [action for action in plan.actions if is_quiet(action.decision)]
    shown = change_table(loud, outcomes) if loud else []
    if not quiet:
        return shown
    folded = details(counted(len(quiet), "mark or note", "marks and notes"), change_table(quiet, outcomes))
    return [*shown, *([""] if shown else []), *folded]


def change_table(actions: Sequence[Action], outcomes: Sequence[Outcome] | None = None) -> list[str]:
    """Return a table with a row for each of `actions`, worst first; with `outcomes` what became of it comes first."""
    if outcomes is None:
        return table(_HEAD, [change_row(action.decision) for action in worst_first(actions)])
    by_action = {outcome.action: outcome for outcome in outcomes}
    ordered = worst_first(actions, urgent=lambda action: not went_well(action, by_action))
    rows = [(_fate(by_action.get(action.id)), *change_row(action.decision)) for action in ordered]
    return table(("Outcome", *_HEAD), rows)


def change_row(decision: Decision) -> tuple[str, ...]:
    """Return the cells of one change."""
    victims = victims_of(decision)
    return (
        prose(arrow_of(decision)),
        code(decision.ref.cluster),
        code(name_of(decision.ref)),
        prose(what_of(decision)) + (f"<br>{prose(victims)}" if victims else ""),
        prose(decision.cause.why),
        " ".join(part for part in (code(decision.cause.policy), prose(decision.cause.at)) if part),
    )


def _fate(outcome: Outcome | None) -> str:
    return "<br>".join([status_of(outcome), *map(prose, words_of(outcome))])


def held_back_of(plan: Plan) -> list[list[str]]:
    """Return a block for everything a limit or guard holds back."""
    return [_held_back(held) for held in plan.held_back]


def _held_back(held: HeldBackActions) -> list[str]:
    rows = change_table(number(held.decisions))
    return [
        f"**Held back:** {prose(held.why)} Allow once: {code('--allow-exceed ' + held.allow)}",
        "",
        *details(counted(len(held.decisions), "change"), rows),
    ]


def told_in(plan: Plan) -> list[str]:
    """Return what is told beside the changes, as a list."""
    return [f"- **{told.about}:** {prose(told.text)}" for told in told_of(plan)]


def _observed(plan: Plan) -> list[list[str]]:
    if not plan.observed:
        return []
    summary = f"{counted(len(plan.observed), 'change')} only observed, never applied (mode: Observe)"
    return [details(summary, change_table(number(plan.observed)))]


def _placements(plan: Plan) -> list[list[str]]:
    changing = [view for view in plan.placements if any(row.current != row.asked for row in view.rows)]
    left = len(changing) - _PLACEMENTS
    more = [[f"and {counted(left, 'federated ReplicaSet')} more; the JSON form has them all."]] if left > 0 else []
    return [*map(_placement, changing[:_PLACEMENTS]), *more]


def _placement(view: PlacementView) -> list[str]:
    head = ("Cluster", "Now", "After", "Runs", "Fits", "Why")
    rows = [_placement_row(row) for row in view.rows]
    words = f"{code_element(view.key)}: {counted(view.total, 'replica')} over {counted(len(rows), 'cluster')}"
    return details(words, table(head, rows))


def _placement_row(row: PlacementRow) -> tuple[str, ...]:
    fits = "no limit known" if row.capacity is None else str(row.capacity)
    return (code(row.cluster), _known(row.current), _known(row.asked), _known(row.running), fits, prose(row.why))


def _known(replicas: int | None) -> str:
    return "unknown" if replicas is None else str(replicas)


def origin_of(plan: Plan) -> list[str]:
    """Return where the plan comes from, in small letters."""
    looked_at = "a snapshot" if plan.source == "snapshot" else "live clusters"
    revision = f", policies at {code_element(plan.revision)}" if plan.revision else ""
    return [f"<sub>Run {code_element(plan.run)}, made from {looked_at} at {format_time(plan.made_at)}{revision}.</sub>"]
