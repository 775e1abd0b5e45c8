"""The picture of a plan: what `reconciler plan --color always` prints of the quickstart, as SVG."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from tests.docs.pages import ROOT, Reader
from tests.pipeline.calls import Folder

PICTURE = ROOT / "docs" / "images" / "plan.svg"
COMMAND = "reconciler plan policies --snapshot snapshot --now 2026-11-20T22:00:00Z"

_CODE = re.compile(r"\x1b\[([\d;]+)m")
_STYLES = {"1": 'font-weight="bold"', "31": 'fill="#ff7b72"', "32": 'fill="#7ee787"', "33": 'fill="#e3b341"'}
_SIZE, _WIDTH, _LINE = 13, 7.85, 19


def plan_in_colour() -> str:
    reader = Reader(Folder(ROOT / "examples" / "quickstart"))
    said = reader.command(f"{COMMAND} --color always")
    assert reader.code == 0, said
    return said


def svg_of(text: str) -> str:
    """Return a terminal that shows `text`; colours are those of the terminal's codes."""
    lines = [f"$ {COMMAND}", *text.rstrip("\n").split("\n")]
    widest = max(len(_CODE.sub("", line)) for line in lines)
    width, height = round(widest * _WIDTH + 40), len(lines) * _LINE + 36
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-size="{_SIZE}"'
            ' font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace">',
            "<title>A plan: every change, grouped by policy, with its reason</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>',
            *(row(line, 30 + number * _LINE) for number, line in enumerate(lines)),
            "</svg>",
            "",
        ]
    )


def row(line: str, y: int) -> str:
    return f'<text x="20" y="{y}" fill="#e6edf3" xml:space="preserve">{"".join(spans(line))}</text>'


def spans(line: str) -> Iterator[str]:
    style = ""
    for number, part in enumerate(_CODE.split(line)):
        if number % 2:
            style = _STYLES.get(part, "")
        elif part:
            yield f"<tspan {style}>{escape(part)}</tspan>" if style else escape(part)


def picture() -> str:
    return svg_of(plan_in_colour())
