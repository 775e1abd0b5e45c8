"""A plan, the report of an apply, or the status of a Fleet as one HTML file that needs nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING
from urllib.parse import quote

from reconciler.apply.outcomes import Outcome
from reconciler.decide.decisions import PlacementRow
from reconciler.errors import UsageError
from reconciler.messages import counted
from reconciler.plan.effects import added, effect_of
from reconciler.plan.json import counts_of
from reconciler.plan.model import Plan
from reconciler.report.diff import fields_of
from reconciler.report.groups import Line, blocks_of, made_at, updates_of
from reconciler.report.json import totals_of
from reconciler.report.status import FleetStatus, cluster_rows, counts_line, placement_line, pressing, run_lines
from reconciler.report.summary import held_of, held_title, report_of, went_well, words_of
from reconciler.report.times import age, reasons_in
from reconciler.untrusted_text import one_line

if TYPE_CHECKING:
    from jinja2 import Template


OBJECT, LENGTH, AWAKE_FOR = "{object}", "{for}", "3h"
"""What of the address of a form stands for the object and for how long it is kept awake, and that length."""


ReplicaBars = tuple[str, Sequence[PlacementRow], int]
"""A row of bars under a title, one for each cluster; all bars have the same scale, whose end is last."""


def distributions_of(plan: Plan) -> Iterator[ReplicaBars]:
    """Yield all workloads that the plan changes taken together, then each federated ReplicaSet over its clusters."""
    before, after = Counter[str](), Counter[str]()
    for decision in (action.decision for action in plan.actions):
        if decision.removed or added(decision):
            before[decision.ref.cluster] += decision.replicas_before or 0
            after[decision.ref.cluster] += decision.replicas_after or 0
    changed = [PlacementRow(name, after[name], after[name], before[name], running=None) for name in sorted(before)]
    placed = ((f"{view.key}, {counted(view.total, 'replica')} desired", view.rows) for view in plan.placements)
    for title, bars in (*([("All workloads this plan changes", changed)] if changed else []), *placed):
        numbers = (number for bar in bars for number in (bar.current, bar.spec_replicas, bar.capacity))
        yield title, bars, max((number for number in numbers if number is not None), default=0)


def percent(number: int | None, top: int) -> float:
    """Return how long the bar of `number` is, in percent of the whole width."""
    return round(100 * (number or 0) / max(1, top), 2)


def render_html(plan: Plan, outcomes: Sequence[Outcome] | None = None) -> str:
    """Return `plan`, or with `outcomes` the report of its apply, as a page: no scripts, nothing from elsewhere."""
    shown, held = report_of(plan, outcomes), held_of(plan)
    changing: list[ReplicaBars] = []
    same: list[ReplicaBars] = []
    for found in distributions_of(plan):
        (changing if any(bar.current != bar.spec_replicas for bar in found[1]) else same).append(found)
    return page_template("report", "report.html.j2").render(
        title=f"{shown.title} {one_line(plan.fleet)} {shown.source}",
        plan=plan,
        made_at=made_at(plan),
        summary=shown.last,
        tiles=_plan_tiles(plan) if outcomes is None else _apply_tiles(plan, outcomes),
        changing=changing,
        same=same,
        percent=percent,
        reason=reasons_in(plan).reason,
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


# The status of a Fleet, to publish: what is idle until when and why, and a link to wake each


def check_wake_form(form: str) -> str:
    """Return `form`, the address of a form that wakes, with {object} where the object goes.

    Raises:
        UsageError: it is no such address.
    """
    if not form.startswith(("https://", "http://")) or OBJECT not in form or not form.isprintable():
        raise UsageError(f'--wake-form: "{form}" is no form, expected https://... with {OBJECT} in it')
    return form


def render_status_page(status: FleetStatus, form: str = "") -> str:
    """Return `status` as a page that needs nothing else; without `form` nothing on it can be woken.

    A script of its own searches and says how old the page is; without scripts all of it can be read.
    """
    plan, at = status.plan, status.plan.made_at
    head, *clusters = cluster_rows(status)
    return page_template("report", "status.html.j2").render(
        title=f"Fleet {one_line(plan.fleet)}",
        counts=counts_line(status),
        made_at=made_at(plan),
        made=at,
        snapshot=plan.source == "snapshot",
        tiles=_idle_tiles(status, at),
        pressing=pressing(plan),
        namespaces=[
            (f"{cluster}/{namespace}", list(idle))
            for (cluster, namespace), idle in groupby(status.idle, key=lambda one: (one.ref.cluster, one.ref.namespace))
        ],
        hours_saved=lambda idle: round(sum(one.saved_by(at) for one in idle)),
        words=reasons_in(plan),
        age=age,
        wake_address=partial(wake_address, form),
        awake_for=AWAKE_FOR if LENGTH in form else "",
        head=head,
        clusters=clusters,
        placements=list(map(placement_line, plan.placements)),
        foreign=[one_line(f"{idle.ref} ({idle.by})") for idle in status.foreign],
        runs=list(run_lines(plan, status.runs)),
        counted=counted,
    )


def wake_address(form: str, name: str) -> str:
    """Return the address of `form` for what is called `name`, CLUSTER/NAMESPACE or an object; "" without a form."""
    return form.replace(OBJECT, quote(name)).replace(LENGTH, AWAKE_FOR)


def _idle_tiles(status: FleetStatus, at: datetime) -> tuple[tuple[int, str], ...]:
    return (
        (len(status.idle), "idle"),
        (sum(idle.asleep for idle in status.idle), "idle replicas"),
        (round(sum(idle.saved_by(at) for idle in status.idle)), "replica-hours saved so far"),
        (
            round(sum(idle.saved_by(max(at, idle.until or at)) for idle in status.idle)),
            "replica-hours when they wake as planned",
        ),
    )
