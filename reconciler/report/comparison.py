"""What a change of policies means, as Markdown for its pull request: base against head, same clusters, same time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.decide.decisions import Decision
from reconciler.model import ObjectRef, QueryKey
from reconciler.plan.model import Action, Plan
from reconciler.report.groups import Group, Line, grouped
from reconciler.report.markdown import (
    code,
    details,
    fence,
    folded,
    groups_of,
    held_back_of,
    joined,
    origin_of,
    summary_of,
    table,
    told_in,
)
from reconciler.report.wording import counted, edge, name_of, what_of
from reconciler.untrusted_text import escaped

Periods = tuple[tuple[datetime, datetime], ...]


class PolicyChange(Struct, frozen=True):
    """What a change of policies means beside the two plans.

    `windows_before` and `windows_after` are the idle periods of the next seven days (UTC) by calendar or policy, which
    `zones` has the zones of.
    `unanswered` are the queries of head that the snapshot does not hold. `fleet_changes` are the fields of the Fleet
    that differ; with `fleet_from_base` head was planned with the base's.
    """

    newly_selected: tuple[ObjectRef, ...] = ()
    no_longer_selected: tuple[ObjectRef, ...] = ()
    windows_before: Mapping[str, Periods] = field(default_factory=dict)
    windows_after: Mapping[str, Periods] = field(default_factory=dict)
    zones: Mapping[str, tzinfo] = field(default_factory=dict)
    unanswered: tuple[QueryKey, ...] = ()
    fleet_changes: tuple[str, ...] = ()
    fleet_from_base: bool = False


def render_markdown_comparison(base: Plan, head: Plan, change: PolicyChange) -> str:
    """Return what head does that base does not, in fixed blocks; a block with nothing in it says so."""
    known = {_identity(action.decision) for action in base.actions}
    wanted = {_identity(action.decision) for action in head.actions}
    return joined(
        [
            ["## What this change of policies does"],
            summary_of(head),
            _fleet(change),
            ["### Now"],
            *_now(base, head, known, wanted),
            *held_back_of(head),
            *told_in(head),
            ["### Scope"],
            *_scope(change),
            ["### Next seven days"],
            *_windows(change),
            ["### Not evaluated"],
            _unanswered(change),
            ["### What drifts already"],
            _drift(head, [action for action in head.actions if _identity(action.decision) in known]),
            origin_of(head),
        ]
    )


def _fleet(change: PolicyChange) -> list[str]:
    if not change.fleet_changes:
        return []
    fields = ", ".join(map(code, change.fleet_changes))
    if change.fleet_from_base:
        return [
            f"**The Fleet is changed** ({fields}). All of this is planned with that of the base: review it as text."
        ]
    return [f"**The Fleet is changed** ({fields})."]


def _identity(decision: Decision) -> Hashable:
    """What makes a change of base and one of head the same: the object and what becomes of it, whatever the reason."""
    return (decision.ref, decision.verb, what_of(decision))


def _now(base: Plan, head: Plan, known: set[Hashable], wanted: set[Hashable]) -> list[list[str]]:
    new = [action for action in head.actions if _identity(action.decision) not in known]
    gone = [action for action in base.actions if _identity(action.decision) not in wanted]
    if not new and not gone:
        return [["Nothing: the next run does exactly what it would do without this change."]]
    changed = {action.ref for action in new}
    instead = {action.ref: what_of(action.decision) for action in gone if action.ref in changed}
    left = [action for action in gone if action.ref not in changed]
    return [*groups_of(_beside(group, instead) for group in grouped(head, new)), *_gone(base, left)]


def _beside(group: Group, instead: Mapping[ObjectRef, str]) -> Group:
    """Return `group` with what its lines replace."""
    return replace(group, lines=tuple(_instead(line, instead) for line in group.lines))


def _instead(line: Line, instead: Mapping[ObjectRef, str]) -> Line:
    ref = line.action.ref
    return replace(line, reason=f"{line.reason} (instead of {instead[ref]})".lstrip()) if ref in instead else line


def _gone(base: Plan, actions: Sequence[Action]) -> list[list[str]]:
    if not actions:
        return []
    return [[f"{counted(len(actions), 'change')} no longer made:"], *groups_of(grouped(base, actions))]


def _scope(change: PolicyChange) -> list[list[str]]:
    if not change.newly_selected and not change.no_longer_selected:
        return [["The same objects are selected as before."]]
    return [
        _objects(change.newly_selected, "newly selected, whatever their state"),
        _objects(change.no_longer_selected, "no longer selected"),
    ]


def _objects(refs: Sequence[ObjectRef], words: str) -> list[str]:
    if not refs:
        return []
    return details(f"{counted(len(refs), 'object')} {words}", fence(f"  {name_of(ref)}" for ref in sorted(refs)))


def _windows(change: PolicyChange) -> list[list[str]]:
    names = sorted({*change.windows_before, *change.windows_after})
    before, after = change.windows_before, change.windows_after
    differing = [name for name in names if before.get(name, ()) != after.get(name, ())]
    if not differing:
        return [["The same idle periods as before."]]
    return [
        _window_table(name, before.get(name, ()), after.get(name, ()), change.zones.get(name, UTC))
        for name in differing
    ]


def _window_table(name: str, before: Periods, after: Periods, zone: tzinfo) -> list[str]:
    rows = [
        (_fate_of(period, before, after), edge(period[0], zone), edge(period[1], zone))
        for period in sorted({*before, *after})
    ]
    return [f"{code(name)}:", "", *table(("", "idle from", "until"), rows)]


def _fate_of(period: tuple[datetime, datetime], before: Periods, after: Periods) -> str:
    if period in after:
        return "same" if period in before else "new"
    return "gone"


def _unanswered(change: PolicyChange) -> list[str]:
    if not change.unanswered:
        return ["Every query of the policies has an answer."]
    keys = ((key.cluster, key.policy, key.template, key.window) for key in sorted(change.unanswered))
    rows = ["  ".join(filter(None, key)) for key in keys]
    queries, them = (counted(len(rows), "query", "queries"), "it" if len(rows) == 1 else "them")
    words = f"The snapshot holds no answer to {queries} of the policies; what depends on {them} is not decided here."
    return [words, "", *fence(f"  {escaped(row)}" for row in rows)]


def _drift(head: Plan, actions: Sequence[Action]) -> list[str]:
    if not actions:
        return ["Nothing."]
    words = f"{counted(len(actions), 'change')} that the next run makes with this change or without it"
    return folded(words, grouped(head, actions))
