"""A plan or the report of an apply as Markdown for a pull request: the groups, words and order of the text form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from reconciler.apply.outcomes import Outcome
from reconciler.decide.decisions import PlacementView
from reconciler.messages import counted
from reconciler.plan.model import Plan
from reconciler.report.groups import Block, PolicyGroup, blocks_of, columns, made_at, placement_rows, updates_of
from reconciler.report.summary import Held, held_of, held_title, report_of
from reconciler.report.text import Style, block_entries, lines_of
from reconciler.untrusted_text import short

_NOTHING_WIDE = "\u200b"  # zero width space: ends a mention or reference before it starts
_NOTHING_WRITTEN = "&#8203;"  # the same, as what can be seen in the text
_MARKUP = {ord(character): f"&#{ord(character)};" for character in "\\`*_[]<>|~&$"}
_UNSAFE_IN_BACKTICKS = frozenset("`|\\")
_MENTION = re.compile(r"@(?=\w)")
_REFERENCE = re.compile(r"(?:[#!$]|\bGH-)(?=\d)", re.IGNORECASE)
_BACKTICKS = re.compile(r"`+")
_FENCE = re.compile(r"`{3,}")
_WWW = re.compile(r"\bwww\.", re.IGNORECASE)
MOST_ROWS = 100
"""How many rows of a table or list are shown, where there is room for them."""

LONGEST_TEXT = 60_000
"""Characters; a comment on a pull request holds 65,536."""

_FEWER_ROWS = (MOST_ROWS, 50, 25, 10, 5, 2, 1)


def prose(text: str) -> str:
    """Return `text` as Markdown that reads as exactly this text, on one line; one that is too long is cut."""
    line = _REFERENCE.sub(rf"\g<0>{_NOTHING_WIDE}", _MENTION.sub(f"@{_NOTHING_WIDE}", short(text)))
    quiet = line.translate(_MARKUP).replace("://", "&#58;//").replace(_NOTHING_WIDE, _NOTHING_WRITTEN)
    return _WWW.sub(lambda found: found.group()[:3] + "&#46;", quiet)


def code(text: str) -> str:
    """Return `text` as Markdown code, also inside a table; "" stays empty."""
    line = short(text)
    if not line.strip():
        return ""
    if _UNSAFE_IN_BACKTICKS.isdisjoint(line):
        return f"`{line}`"
    return code_element(text)


def code_element(text: str) -> str:
    """Return `text` as a code element, for places inside HTML where backticks are not read."""
    return f"<code>{prose(text)}</code>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table over cells that are Markdown already."""
    return [_row(head), _row(["---"] * len(head)), *map(_row, rows)]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def details(summary: str, lines: Iterable[str]) -> list[str]:
    """Return `lines` folded away under `summary`, which is Markdown without blocks."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>"]


def fence(lines: Iterable[str]) -> list[str]:
    """Return printable `lines` as a block of code: no name is broken, nothing is markup; a line too long is cut."""
    found = [short(line) for line in lines]
    longest = max((len(run) for line in found for run in _BACKTICKS.findall(line)), default=0)
    marks = "`" * max(3, longest + 1)
    return [f"{marks}text", *found, marks]


def joined(blocks: Iterable[Sequence[str]], longest: int = LONGEST_TEXT) -> str:
    """Return `blocks` of lines as one text of at most `longest` characters, an empty line between them.

    Where that is too little, tables, lists and blocks of code end earlier, their worst rows being first, then the last
    blocks are left out; what is left out is counted.
    """
    found = [block for block in blocks if block]
    for rows in _FEWER_ROWS:
        text = _text([list(_cut(block, rows)) for block in found])
        if len(text) <= longest:
            return text
    return _text(_first_blocks([list(_cut(block, 1)) for block in found], longest))


def _text(blocks: Iterable[Sequence[str]]) -> str:
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _cut(block: Sequence[str], rows: int) -> Iterator[str]:
    """Yield the lines of `block` with at most so many rows of each table, list and block of code."""
    shown = rows + 2  # a table has two lines above its rows, a block of code one above and one below
    signed = (
        (f"`{number}" if number else line[:1] if line.startswith(("| ", "- ")) else "", line)
        for number, _, line in in_code(block)
    )  # what a line is part of: "|" a table, "-" a list, "`" and a number a block of code, "" none
    for sign, run in groupby(signed, key=lambda pair: pair[0]):
        lines = [line for _, line in run]
        if not sign or len(lines) <= shown:
            yield from lines
            continue
        end = [lines[-1]] if sign.startswith("`") else []
        yield from (*lines[: shown - len(end)], *end, "", f"and {len(lines) - shown} more; the JSON form has them all.")


def in_code(lines: Iterable[str]) -> Iterator[tuple[int, str, str]]:
    """Yield each line behind the number of the block of code that it is part of, from 1, and the marks that end that
    block; 0 and "" outside.
    """
    end, blocks = "", 0
    for line in lines:
        opening = None if end else _FENCE.match(line)
        if opening:
            end, blocks = opening[0], blocks + 1
        yield blocks if end else 0, end, line
        if line == end and not opening:
            end = ""


def _first_blocks(blocks: Sequence[Sequence[str]], longest: int) -> list[Sequence[str]]:
    """Return as many of `blocks` as there is room for, and how many are left out."""
    room = longest - len(_left_out(len(blocks))) - 2
    shown: list[Sequence[str]] = []
    for block in blocks:
        room -= len("\n".join(block)) + 2
        if room < 0:
            break
        shown.append(block)
    return [*shown, [_left_out(len(blocks) - len(shown))]]


def _left_out(blocks: int) -> str:
    return f"and {blocks} more parts; the JSON form has them all."


_PLACEMENTS = 10


def render_markdown(plan: Plan, outcomes: Sequence[Outcome] | None = None, style: Style = Style()) -> str:
    """Return `plan`, or with `outcomes` the report of its apply, as Markdown in fixed blocks; `style` has its words."""
    shown = report_of(plan, outcomes, title=style.title, nothing=style.nothing)
    (first, *rest), held = shown.last, held_of(plan)
    return joined(
        [
            [f"## {shown.title} {code(plan.fleet)} {shown.source}"],
            [f"**{prose(first)}**", *(f"<br>{prose(line)}" for line in rest)],
            *_group_lines(shown.groups, shown.outcomes),
            *([[f"**{held_title(held)}**"], *map(_held_back, held)] if held else []),
            *map(_block, blocks_of(plan)),
            *_placements(plan),
            origin_of(plan),
        ]
    )


def _group_lines(groups: Iterable[PolicyGroup], outcomes: Mapping[int, Outcome] | None = None) -> list[list[str]]:
    """Return each group under its heading, and folded away below them the metadata updates of all."""
    found = [group for group in groups if group.lines or group.updates]
    blocks = [[_title(group), "", *fence(lines_of(group.lines, outcomes))] for group in found if group.lines]
    updates = [line for group in found for line in group.updates]
    if updates:
        blocks.append(details(updates_of(len(updates)), fence(lines_of(updates, outcomes))))
    return blocks


def _title(group: PolicyGroup) -> str:
    place = f" ({prose(group.place)})" if group.place else ""
    reason = f": {prose(group.reason)}" if group.reason else ""
    return f"**{group.kind}**{' ' if group.name else ''}{code(group.name)}{place}{reason}"


def _held_back(held: Held) -> list[str]:
    where = [f"<br>{prose(held.where)}"] if held.where else []
    return [prose(held.what), *where, "", *_folded(counted(held.number, "change"), held.groups)]


def _block(block: Block) -> list[str]:
    if block.groups:
        return _folded(block.title, block.groups)
    return [f"**{prose(block.title)}**", "", *fence(block_entries(block))]


def _folded(words: str, groups: Iterable[PolicyGroup]) -> list[str]:
    """Return `groups` folded away under `words`."""
    return details(words, [line for block in _group_lines(groups) for line in (*block, "")][:-1])


def _placements(plan: Plan) -> list[list[str]]:
    changing = [view for view in plan.placements if any(row.current != row.spec_replicas for row in view.rows)]
    left = len(changing) - _PLACEMENTS
    more = [[f"and {left} more placements; the JSON form has them all."]] if left > 0 else []
    return [*(_placement(view, plan) for view in changing[:_PLACEMENTS]), *more]


def _placement(view: PlacementView, plan: Plan) -> list[str]:
    head, *rows = placement_rows(view, plan)
    words = f"Placement of {code_element(view.key)}: {counted(view.total, 'replica')}, {counted(len(rows), 'cluster')}"
    return details(words, fence(f"  {line}" for line in columns(head, rows)))


def origin_of(plan: Plan) -> list[str]:
    """Return where the plan comes from, in small letters."""
    source = "a snapshot" if plan.source == "snapshot" else "live clusters"
    revision = f", policies at {code_element(plan.revision)}" if plan.revision else ""
    return [f"<sub>Run {code_element(plan.run)}, planned from {source} at {made_at(plan)}{revision}.</sub>"]
