"""A plan or the report of an apply as one HTML file that needs nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct

from reconciler.apply.outcomes import Outcome
from reconciler.decide.decisions import Decision, PlacementView
from reconciler.plan.model import Plan, added, counts_of, effect_of
from reconciler.report.diff import fields_of
from reconciler.report.groups import Line, made_at, reasons_in, updates_of
from reconciler.report.json import totals_of
from reconciler.report.summary import blocks_of, held_of, held_title, report_of, went_well, words_of
from reconciler.report.wording import ReasonWords, counted
from reconciler.untrusted_text import one_line

if TYPE_CHECKING:
    from jinja2 import Template


class Bar(Struct, frozen=True):
    """One cluster; None: unknown. `capacity` None: no limit known. `desired` None: as many as `after`."""

    cluster: str
    before: int | None
    after: int | None
    capacity: int | None = None
    why: str = ""
    desired: int | None = None


class ReplicaDistribution(Struct, frozen=True):
    """A row of bars under a title; all bars have the same scale, `top` is its end."""

    title: str
    bars: tuple[Bar, ...]

    @property
    def top(self) -> int:
        numbers = (number for bar in self.bars for number in (bar.before, bar.after, bar.capacity))
        return max((number for number in numbers if number is not None), default=0)

    @property
    def changes(self) -> bool:
        """Whether any cluster has another number afterwards."""
        return any(bar.before != bar.after for bar in self.bars)

    def percent(self, number: int | None) -> float:
        """Return how long the bar of `number` is, in percent of the whole width."""
        return round(100 * (number or 0) / max(1, self.top), 2)


def distributions_of(plan: Plan) -> tuple[ReplicaDistribution, ...]:
    """Return all workloads that the plan changes taken together, then each federated ReplicaSet over its clusters."""
    changed = _changed([action.decision for action in plan.actions])
    clock = reasons_in(plan)
    return (*([changed] if changed.bars else []), *(_placement(view, clock) for view in plan.placements))


def _changed(decisions: Iterable[Decision]) -> ReplicaDistribution:
    before, after = Counter[str](), Counter[str]()
    for decision in decisions:
        if decision.removed or added(decision):
            before[decision.ref.cluster] += decision.replicas_before or 0
            after[decision.ref.cluster] += decision.replicas_after or 0
    return ReplicaDistribution(
        "All workloads this plan changes",
        tuple(Bar(cluster, before[cluster], after[cluster]) for cluster in sorted(before)),
    )


def _placement(view: PlacementView, clock: ReasonWords) -> ReplicaDistribution:
    bars = [
        Bar(
            row.cluster,
            row.current,
            row.spec_replicas,
            row.capacity,
            clock.reason(row.reasons),
            None if row.desired == row.spec_replicas else row.desired,
        )
        for row in view.rows
    ]
    return ReplicaDistribution(f"{view.key}, {counted(view.total, 'replica')} desired", tuple(bars))


def render_html(plan: Plan, outcomes: Sequence[Outcome] | None = None) -> str:
    """Return `plan`, or with `outcomes` the report of its apply, as a page: no scripts, nothing from elsewhere."""
    shown, held = report_of(plan, outcomes), held_of(plan)
    return page_template("report", "report.html.j2").render(
        title=f"{shown.title} {one_line(plan.fleet)} {shown.source}",
        plan=plan,
        made_at=made_at(plan),
        summary=shown.last,
        tiles=_plan_tiles(plan) if outcomes is None else _apply_tiles(plan, outcomes),
        distributions=distributions_of(plan),
        groups=shown.groups,
        held_title=held_title(held),
        held=held,
        blocks=blocks_of(plan),
        outcome_of=lambda line: _outcome(line, shown.outcomes),
        effect_of=effect_of,
        fields_of=fields_of,
        counted=counted,
        updates_of=updates_of,
    )


@cache
def page_template(room: str, name: str) -> Template:
    """Return the template `name` of the pages of `room`; whatever goes into it is escaped, and one_line is a filter."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("reconciler", "."),  # templates of other rooms extend that of report
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["one_line"] = one_line
    return environment.get_template(f"{room}/templates/{name}")


def _plan_tiles(plan: Plan) -> tuple[tuple[int, str, str], ...]:
    """Return the numbers that stand in large letters, each with its words and the effect that gives its colour."""
    counts = counts_of(plan)
    return (
        (counts.to_idle, "to idle", "idle"),
        (counts.to_wake, "to wake", "wake"),
        (counts.to_scale_down, "to scale down", "down"),
        (counts.to_scale_up + counts.to_create, "to scale up or create", "up"),
        (counts.replicas_fewer, "fewer replicas", "down"),
        (counts.replicas_more, "more replicas", "up"),
        (counts.held_back, "held back", "held"),
        (counts.undecided + counts.unknown, "undecided or unknown", "held"),
    )


def _apply_tiles(plan: Plan, outcomes: Sequence[Outcome]) -> tuple[tuple[int, str, str], ...]:
    totals = totals_of(plan, outcomes)
    return (
        (totals.applied, "applied", "up"),
        (totals.failed, "failed", "down"),
        (totals.stale, "stale", "held"),
        (totals.skipped + totals.deferred + totals.not_chosen, "skipped, deferred or not approved", "held"),
        (totals.replicas_fewer, "fewer replicas", "down"),
        (totals.replicas_more, "more replicas", "up"),
    )


def _outcome(line: Line, outcomes: Mapping[int, Outcome] | None) -> str:
    """Return what became of a change, "" for a plan, and for what went as planned."""
    if outcomes is None or went_well(line.action, outcomes):
        return ""
    return "; ".join(words_of(outcomes.get(line.action.id)))
