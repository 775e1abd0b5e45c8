"""A plan or the report of an apply as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from reconciler.apply.outcomes import Outcome
from reconciler.decide.selection import format_time
from reconciler.plan.actions import Action, Plan
from reconciler.plan.counts import counts_of, effect_of
from reconciler.plan.one_line import one_line
from reconciler.plan.plan import number
from reconciler.report.changes import arrow_of, counted, fields_of, name_of, victims_of, what_of
from reconciler.report.distribution import distributions_of
from reconciler.report.groups import is_quiet, worst_first
from reconciler.report.outcome_words import status_of, went_well, words_of
from reconciler.report.told import after_summary, allow_once, apply_summary, no_changes, plan_summary, told_of
from reconciler.report.totals import totals_of

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True, slots=True)
class Row:
    """One change as the page shows it. `status` is "" for a plan."""

    effect: str
    arrow: str
    cluster: str
    object: str
    what: str
    victims: str
    why: str
    policy: str
    at: str
    fields: tuple[str, ...]
    status: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """The changes in one cluster; marks and records are folded away."""

    cluster: str
    rows: tuple[Row, ...]
    quiet: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """What one limit or guard holds back."""

    why: str
    allow: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """One number in large letters."""

    number: int
    words: str
    effect: str


def render_html(plan: Plan, outcomes: Sequence[Outcome] | None = None) -> str:
    """Return `plan`, or with `outcomes` the report of its apply, as a page: no scripts, nothing from elsewhere."""
    return _template().render(
        title="Plan" if outcomes is None else "Apply",
        plan=plan,
        made_at=format_time(plan.made_at),
        summary=plan_summary(plan) if outcomes is None else apply_summary(plan, outcomes),
        after=tuple(after_summary(plan)),
        tiles=_plan_tiles(plan) if outcomes is None else _apply_tiles(plan, outcomes),
        distributions=distributions_of(plan),
        sections=tuple(_sections(plan, outcomes)),
        held=tuple(Held(held.why, allow_once(held), _rows(number(held.decisions))) for held in plan.held_back),
        told=told_of(plan),
        no_changes=no_changes(plan),
        observed=_rows(number(plan.observed)),
        applied=outcomes is not None,
        counted=counted,
    )


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("reconciler", "report/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["one_line"] = one_line
    return environment.get_template("report.html.j2")


def _plan_tiles(plan: Plan) -> tuple[Tile, ...]:
    counts = counts_of(plan)
    return (
        Tile(counts.to_idle, "to idle", "idle"),
        Tile(counts.to_wake, "to wake", "wake"),
        Tile(counts.to_scale_down, "to scale down", "down"),
        Tile(counts.to_scale_up + counts.to_create, "to scale up or create", "up"),
        Tile(counts.replicas_fewer, "replicas fewer", "down"),
        Tile(counts.replicas_more, "replicas more", "up"),
        Tile(counts.held_back, "held back", "held"),
        Tile(counts.undecided + counts.unknown, "undecided or unknown", "held"),
    )


def _apply_tiles(plan: Plan, outcomes: Sequence[Outcome]) -> tuple[Tile, ...]:
    totals = totals_of(plan, outcomes)
    return (
        Tile(totals.applied, "applied", "up"),
        Tile(totals.failed, "failed", "down"),
        Tile(totals.stale, "stale", "held"),
        Tile(totals.skipped + totals.postponed + totals.not_chosen, "left to the next run", "held"),
        Tile(totals.replicas_fewer, "replicas fewer", "down"),
        Tile(totals.replicas_more, "replicas more", "up"),
    )


def _sections(plan: Plan, outcomes: Sequence[Outcome] | None) -> Iterator[Section]:
    """Yield the clusters, the one with the worst change first."""
    by_action = None if outcomes is None else {outcome.action: outcome for outcome in outcomes}
    members: dict[str, list[Action]] = {}
    for action in worst_first(plan.actions, urgent=lambda action: not went_well(action, by_action)):
        members.setdefault(action.ref.cluster, []).append(action)
    for cluster, actions in members.items():
        loud = [action for action in actions if not _folded(action, by_action)]
        quiet = [action for action in actions if _folded(action, by_action)]
        yield Section(cluster, _rows(loud, by_action), _rows(quiet, by_action))


def _folded(action: Action, outcomes: Mapping[int, Outcome] | None) -> bool:
    return is_quiet(action.decision) and went_well(action, outcomes)


def _rows(actions: Sequence[Action], outcomes: Mapping[int, Outcome] | None = None) -> tuple[Row, ...]:
    return tuple(_row(action, outcomes) for action in actions)


def _row(action: Action, outcomes: Mapping[int, Outcome] | None) -> Row:
    decision = action.decision
    outcome = None if outcomes is None else outcomes.get(action.id)
    return Row(
        effect=str(effect_of(decision)),
        arrow=arrow_of(decision),
        cluster=one_line(decision.ref.cluster),
        object=name_of(decision.ref),
        what=what_of(decision),
        victims=victims_of(decision),
        why=one_line(decision.cause.why),
        policy=one_line(decision.cause.policy),
        at=one_line(decision.cause.at),
        fields=tuple(fields_of(decision)),
        status="" if outcomes is None else status_of(outcome),
        message="; ".join(words_of(outcome)),
    )
