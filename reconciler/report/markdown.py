"""A plan or the report of an apply as Markdown for a pull request: the groups, words and order of the text form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from reconciler.apply.outcomes import Outcome
from reconciler.decide.decisions import PlacementView
from reconciler.plan.model import Plan
from reconciler.report.groups import Group, clock_of, grouped, updates_of
from reconciler.report.markdown_text import code, code_element, details, fence, joined, prose
from reconciler.report.outcome_words import went_well
from reconciler.report.summary import (
    Held,
    apply_summary,
    blocks_of,
    heading,
    held_of,
    held_title,
    plan_summary,
)
from reconciler.report.text import Style, entries_of, lines_of
from reconciler.report.wording import counted, edge
from reconciler.untrusted_text import one_line

_PLACEMENTS = 10
_PLAIN = Style()


def render_markdown(plan: Plan, outcomes: Sequence[Outcome] | None = None) -> str:
    """Return `plan`, or with `outcomes` the report of its apply, as Markdown in fixed blocks."""
    title, source = heading(plan, applied=outcomes is not None)
    by_action = None if outcomes is None else {outcome.action: outcome for outcome in outcomes}
    groups = grouped(plan, plan.actions, lambda action: not went_well(action, by_action))
    return joined(
        [
            [f"## {title} {code(plan.fleet)} {source}"],
            summary_of(plan, outcomes),
            *groups_of(groups, by_action),
            *held_back_of(plan),
            *told_in(plan),
            *_placements(plan),
            origin_of(plan),
        ]
    )


def summary_of(plan: Plan, outcomes: Sequence[Outcome] | None = None) -> list[str]:
    """Return the last lines of the text form: the first in bold."""
    first, *rest = plan_summary(plan, everything=True) if outcomes is None else apply_summary(plan, outcomes)
    return [f"**{prose(first)}**", *(f"<br>{prose(line)}" for line in rest)]


def groups_of(groups: Iterable[Group], outcomes: Mapping[int, Outcome] | None = None) -> list[list[str]]:
    """Return each group under its heading, and folded away below them the metadata updates of all."""
    found = [group for group in groups if group.lines or group.updates]
    blocks = [[_title(group), "", *fence(lines_of(group.lines, outcomes, _PLAIN))] for group in found if group.lines]
    updates = [line for group in found for line in group.updates]
    if updates:
        blocks.append(details(updates_of(len(updates)), fence(lines_of(updates, outcomes, _PLAIN))))
    return blocks


def _title(group: Group) -> str:
    place = f" ({prose(group.place)})" if group.place else ""
    reason = f": {prose(group.reason)}" if group.reason else ""
    return f"**{group.kind}**{' ' if group.name else ''}{code(group.name)}{place}{reason}"


def held_back_of(plan: Plan) -> list[list[str]]:
    """Return a block for everything a limit or guard holds back."""
    held = held_of(plan)
    return [*([[f"**{held_title(held)}**"]] if held else []), *map(_held_back, held)]


def _held_back(held: Held) -> list[str]:
    return [
        prose(held.what),
        *([f"<br>{prose(held.where)}"] if held.where else []),
        f"<br>{prose(held.allow)}",
        "",
        *folded(counted(held.number, "change"), held.groups),
    ]


def told_in(plan: Plan) -> list[list[str]]:
    """Return what else a person should read, block by block."""
    return [
        folded(block.title, block.groups)
        if block.groups
        else [f"**{prose(block.title)}**", "", *fence(entries_of(block))]
        for block in blocks_of(plan)
    ]


def folded(words: str, groups: Iterable[Group]) -> list[str]:
    """Return `groups` folded away under `words`."""
    return details(words, [line for block in groups_of(groups) for line in (*block, "")][:-1])


def _placements(plan: Plan) -> list[list[str]]:
    changing = [view for view in plan.placements if any(row.current != row.spec_replicas for row in view.rows)]
    left = len(changing) - _PLACEMENTS
    more = [[f"and {left} more placements; the JSON form has them all."]] if left > 0 else []
    return [*(_placement(view, plan) for view in changing[:_PLACEMENTS]), *more]


def _placement(view: PlacementView, plan: Plan) -> list[str]:
    head = ("cluster", "current", "desired", "available", "capacity", "reason")
    clock = clock_of(plan)
    rows = [
        (
            one_line(row.cluster),
            *map(_known, (row.current, row.spec_replicas, row.running, row.capacity)),
            clock.reason(row.why),
        )
        for row in view.rows
    ]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows))
    words = f"Placement of {code_element(view.key)}: {counted(view.total, 'replica')}, {counted(len(rows), 'cluster')}"
    return details(words, fence(f"  {line}".rstrip() for line in lines))


def _known(replicas: int | None) -> str:
    return "-" if replicas is None else str(replicas)


def origin_of(plan: Plan) -> list[str]:
    """Return where the plan comes from, in small letters."""
    source = "a snapshot" if plan.source == "snapshot" else "live clusters"
    revision = f", policies at {code_element(plan.revision)}" if plan.revision else ""
    return [f"<sub>Run {code_element(plan.run)}, planned from {source} at {edge(plan.made_at)}{revision}.</sub>"]
