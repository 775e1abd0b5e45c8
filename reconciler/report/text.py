"""A plan or the report of an apply as text for a terminal: a diff, grouped by policy."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.decide.annotations import Key
from reconciler.decide.decisions import Decision
from reconciler.messages import counted
from reconciler.model import NOTHING, pointer
from reconciler.plan.effects import Effect, effect_of
from reconciler.plan.model import Action, Plan
from reconciler.report.change_words import counted_changes, is_metadata, what_of
from reconciler.report.diff import fields_of
from reconciler.report.groups import Block, Line, PolicyGroup, blocks_of, grouped, updates_of
from reconciler.report.summary import held_of, held_title, report_of, went_well, words_of
from reconciler.untrusted_text import one_line

_CAUSE = pointer(("metadata", "annotations", Key.CAUSE))
_RED, _YELLOW, _GREEN = "31", "33", "32"
_PAINT = r"\x1b\[[0-9;]*m"
_COLUMNS = r"((?:.*\S)?)(  +|^ *)(.*)"
"""A line up to its last column, the spaces in front of that, and the column; no column leaves the first empty."""
_NARROW = 30
_SEVERAL = 5
_HANGING = 4
_FEWER = (Effect.IDLE, Effect.DOWN, Effect.OVERWRITE)
_MORE = (Effect.UP, Effect.CREATE, Effect.WAKE)


class Style(Struct, frozen=True):
    """How text is shown: with `color`, with everything (`verbose`), or headings alone (`summary`).

    Lines longer than `width` are wrapped at words; 0 wraps nothing. Without `changes` the report of an apply says only
    what did not go as planned: the plan was shown before. `title` stands in front of the Fleet's name in place of the
    usual words, `nothing` in place of the last line of a run that found nothing to do.
    """

    color: bool = False
    verbose: bool = False
    summary: bool = False
    width: int = 0
    changes: bool = True
    title: str = ""
    nothing: str = ""

    def paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.color and code and text.strip() else text


def render_text(plan: Plan, outcomes: Sequence[Outcome] | None = None, style: Style = Style()) -> str:
    """Return `plan`, or with `outcomes` the report of its apply, as lines of text; nothing is cut."""
    shown = report_of(plan, outcomes, everything=style.verbose, title=style.title, nothing=style.nothing)
    last = [style.paint("1", shown.last[0]), *shown.last[1:]]
    if shown.outcomes is not None and not style.changes and plan.actions:
        return _joined([*_failed(plan, shown.outcomes, style), last], style.width)
    blocks = blocks_of(plan, left="" if style.verbose else "-v lists them")
    parts = [
        [style.paint("1", one_line(f"{shown.title} {plan.fleet} {shown.source}")), *_origin(plan, style)],
        *(list(_block(block, style)) for block in blocks if block.first),
        *_groups(shown.groups, shown.outcomes, style),
        list(_held(plan, style)),
        *(list(_block(block, style)) for block in blocks if not block.first),
        last,
    ]
    return _joined(parts, style.width)


def _joined(parts: Iterable[Sequence[str]], width: int) -> str:
    return "\n\n".join("\n".join(wrapped(part, width)) for part in parts if part) + "\n"


def wrapped(lines: Iterable[str], width: int) -> Iterator[str]:
    """Yield `lines`, those longer than `width` wrapped at words; 0 wraps nothing.

    What stands in columns goes on below its last column, where there is room, else indented; no word is broken.
    """
    for line in lines:
        if not width or _length(line) <= width:
            yield line
        else:
            yield from _wrapped(line, width)


def _wrapped(line: str, width: int) -> Iterator[str]:
    head, gap, text = re.fullmatch(_COLUMNS, line).groups()  # type: ignore[union-attr]
    indent = _length(head + gap)
    if not head:
        head, indent = gap, len(gap) + _HANGING
    elif indent <= width - _NARROW:
        head += gap
    else:
        yield head
        indent = len(head) - len(head.lstrip()) + _HANGING
        head = " " * indent
    words = text.split(" ")
    current = head + words[0]
    for word in words[1:]:
        if _length(current) + 1 + _length(word) > width:
            yield current
            current = " " * indent + word
        else:
            current += f" {word}"
    yield current


def _length(text: str) -> int:
    return len(re.sub(_PAINT, "", text))


def _failed(plan: Plan, outcomes: Mapping[int, Outcome], style: Style) -> Iterator[list[str]]:
    """Yield what did not go as planned, by policy and, in summary too, each with why; of many that were skipped for one
    reason how many those are.
    """
    found = [action for action in plan.actions if not went_well(action, outcomes)]
    if not found:
        return
    yield [style.paint("1;33", f"Not as planned: {counted_changes(action.decision for action in found)}")]
    skipped: dict[str, list[Decision]] = {}
    for action in found:
        if (outcome := outcomes.get(action.id)) is not None and outcome.status is OutcomeStatus.SKIPPED:
            skipped.setdefault(outcome.message, []).append(action.decision)
    many = {} if style.verbose else {why: those for why, those in skipped.items() if len(those) > _SEVERAL}
    yield [f"  {counted_changes(those)} skipped: {one_line(why)} (-v lists them)" for why, those in many.items()]
    others = [action for action in found if action.id not in outcomes or outcomes[action.id].message not in many]
    yield from _groups(grouped(plan, others, lambda _: True), outcomes, replace(style, summary=False))


def render_changed(approved: Plan, plan: Plan, chosen: Collection[int], style: Style) -> str:
    """Return how `plan`, made under the locks, differs from the one that was approved; "" where it does not.

    `chosen` are the ids of its actions that are carried out.
    """
    known = {change_of(action): action for action in approved.actions}
    before = {action.ref: action for action in approved.actions}
    new = [action for action in plan.actions if change_of(action) not in known]
    gone = [action for action in approved.actions if action.ref not in {planned.ref for planned in plan.actions}]
    words = {action.id: _changed_words(before.get(action.ref), action.id in chosen) for action in new}
    groups = [
        *_explained(grouped(plan, new), words),
        *_explained(grouped(approved, gone), {action.id: "no longer needed" for action in gone}),
    ]
    if not groups:
        return ""
    lines, updates = sum(len(group.lines) for group in groups), sum(len(group.updates) for group in groups)
    counts = [counted(lines, "change")] * bool(lines) + [updates_of(updates)] * bool(updates)
    title = style.paint("1;33", f"Changed since the plan was approved: {', '.join(counts)}")
    return _joined([[title], *_groups(groups, None, style)], style.width)


def change_of(action: Action) -> Hashable:
    """Return what makes an action of a plan and one of a later plan the same: the object, and all that is read and
    written of it, less the words for it, which name the run, and with it everything else that was looked at.
    """
    sides = ({path: value for path, value in side.items() if path != _CAUSE} for side in (action.before, action.after))
    return (action.ref, *(repr(sorted(side.items())) for side in sides))


def _changed_words(approved: Action | None, done: bool) -> str:
    fate = "a wake, applied too" if done else "not approved, left to the next run"
    return fate if approved is None or done else f"approved was {what_of(approved.decision)}; left to the next run"


def _explained(groups: Iterable[PolicyGroup], words: Mapping[int, str]) -> Iterator[PolicyGroup]:
    for group in groups:
        lines = tuple(replace(line, reason=words[line.action.id]) for line in group.lines)
        yield replace(group, lines=lines, reason="")


def _origin(plan: Plan, style: Style) -> Iterator[str]:
    if style.verbose:
        revision = f", source revision {plan.revision}" if plan.revision else ""
        policies = f"digest of policies {plan.policy_digest}, of" if plan.policy_digest else "digest of"
        digests = f"{policies} inputs {plan.input_digest}"
        yield one_line(f"Run {plan.run}{revision}, {digests}")


def _groups(groups: Sequence[PolicyGroup], outcomes: Mapping[int, Outcome] | None, style: Style) -> Iterator[list[str]]:
    """Yield the lines of each group; in summary one block with a line for each."""
    found = [group for group in groups if group.lines or style.verbose]
    if style.summary:
        yield [_titled(group, group.summary, style) for group in found]
        return
    shown = groups if style.verbose else ()
    names = {line.action.id: line.name for group in shown for line in (*group.lines, *group.updates)}
    for group in found:
        updates = lines_of(group.updates, outcomes, style, names) if style.verbose else ()
        yield [_titled(group, group.heading, style), *lines_of(group.lines, outcomes, style, names), *updates]


def _titled(group: PolicyGroup, words: str, style: Style) -> str:
    return style.paint("1", group.title) + words.removeprefix(group.title)


def lines_of(
    lines: Sequence[Line],
    outcomes: Mapping[int, Outcome] | None = None,
    style: Style = Style(),
    names: Mapping[int, str] = NOTHING,
) -> Iterator[str]:
    """Yield `lines` below each other, in columns, with what else there is to say of each below it.

    `names` are the objects of the changes that others wait for.
    """
    columns = [(line.name, line.field, line.change, line.verb) for line in lines]
    widths = [max(map(len, cells)) for cells in zip(*columns, strict=True)]
    for line, cells in zip(lines, columns, strict=True):
        name, field, change, verb = map(str.ljust, cells, widths)
        code = _color(line) if style.color else ""
        middle = (field, style.paint(code, change), verb) if line.verb else ()
        text = "  ".join(filter(None, (name, *middle, line.reason)))
        yield f"  {style.paint(code, line.sign)} {text}".rstrip()
        yield from (f"      {text}" for text in _below(line, outcomes, style, names))


def _color(line: Line) -> str:
    effect, after = effect_of(line.decision), line.decision.replicas_after
    if is_metadata(line.decision) or (effect not in _FEWER and effect not in _MORE and effect is not Effect.DELETE):
        return ""
    if effect in _MORE:
        return _GREEN
    return _YELLOW if after and effect is not Effect.DELETE else _RED


def _below(line: Line, outcomes: Mapping[int, Outcome] | None, style: Style, names: Mapping[int, str]) -> Iterator[str]:
    if line.victims:
        yield line.victims
    if not went_well(line.action, outcomes) and outcomes is not None:
        yield from (style.paint("1;33", words) for words in words_of(outcomes.get(line.action.id)))
    if style.verbose:
        yield from _details(line)
        needs = [names.get(number, f"change {number}") for number in line.action.needs]
        yield from ([f"after {', '.join(dict.fromkeys(needs))}"] if needs else [])


def _details(line: Line) -> Iterator[str]:
    decision = line.decision
    yield from fields_of(decision)
    if decision.cause.values:
        yield one_line("values: " + ", ".join(f"{key}={value}" for key, value in decision.cause.values.items()))
    if decision.victims is not None and any(decision.victims.rules):
        pairs = zip(decision.victims.pods, decision.victims.rules, strict=False)
        yield one_line("order of the pods: " + ", ".join(f"{pod} by {rule}" for pod, rule in pairs))


def _held(plan: Plan, style: Style) -> Iterator[str]:
    held = held_of(plan)
    if held:
        yield style.paint("1;33", held_title(held))
    for limited in held:
        where = limited.where if style.verbose or not limited.where else f"{limited.where} (-v lists them)"
        yield f"  {limited.what}"
        yield from [f"    {where}"] * bool(where)
        if style.verbose:
            yield from _indented(limited.groups, style)


def _indented(groups: Sequence[PolicyGroup], style: Style) -> Iterator[str]:
    yield from (f"  {text}" for lines in _groups(groups, None, style) for text in lines)


def _block(block: Block, style: Style) -> Iterator[str]:
    yield style.paint("1;33", block.title)
    if not style.summary or block.always:
        yield from block_entries(block)
    yield from _indented(block.groups, style)


def block_entries(block: Block) -> Iterator[str]:
    """Yield the entries of `block` below each other, in columns."""
    width = max((len(about) for about, _ in block.entries), default=0)
    for about, words in block.entries:
        yield f"  {about.ljust(width)}  {words}".rstrip() if about else f"  {words}"
