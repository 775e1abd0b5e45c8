"""Text from outside inside Markdown: it never becomes markup, a link, a mention or a reference."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reconciler.plan.one_line import one_line

_NOTHING_WIDE = "\u200b"  # zero width space: ends a mention or reference before it starts
_MARKUP = {ord(character): f"&#{ord(character)};" for character in "\\`*_[]<>|~&"}
_UNSAFE_IN_BACKTICKS = frozenset("`|\\")
_MENTION = re.compile(r"@(?=\w)")
_REFERENCE = re.compile(r"#(?=\d)")
_WWW = re.compile(r"\bwww\.", re.IGNORECASE)
ROWS = 100
"""How many rows of a table are shown: a comment on a pull request holds 65,536 characters."""


def prose(text: str) -> str:
    """Return `text` as Markdown that reads as exactly this text, on one line."""
    line = _REFERENCE.sub(f"#{_NOTHING_WIDE}", _MENTION.sub(f"@{_NOTHING_WIDE}", one_line(text)))
    quiet = line.translate(_MARKUP).replace("://", "&#58;//")
    return _WWW.sub(lambda found: found.group()[:3] + "&#46;", quiet)


def code(text: str) -> str:
    """Return `text` as Markdown code, also inside a table; "" stays empty."""
    line = one_line(text)
    if not line.strip():
        return ""
    if _UNSAFE_IN_BACKTICKS.isdisjoint(line):
        return f"`{line}`"
    return code_element(line)


def code_element(text: str) -> str:
    """Return `text` as a code element, for places inside HTML where backticks are not read."""
    return f"<code>{prose(text)}</code>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table over cells that are Markdown already, and how many rows are left out."""
    lines = [_row(head), _row(["---"] * len(head)), *(_row(row) for row in rows[:ROWS])]
    return lines if len(rows) <= ROWS else [*lines, "", f"and {len(rows) - ROWS} more; the JSON form has them all."]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def details(summary: str, lines: Iterable[str]) -> list[str]:
    """Return `lines` folded away under `summary`, which is Markdown without blocks."""
    return ["<details>", f"<summary>{summary}</summary>", "", *lines, "", "</details>"]


def joined(blocks: Iterable[Sequence[str]]) -> str:
    """Return `blocks` of lines as one text, an empty line between them."""
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"
