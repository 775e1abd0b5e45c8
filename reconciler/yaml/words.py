"""How what stands in a file is quoted in a message."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

Path = Sequence[str | int]

_LONGEST = 60


def shown(value: Any) -> str:
    """Return a value as a problem shows it: scalars in quotes, collections by their kind."""
    if value is None:
        return "empty"
    if isinstance(value, dict):
        return "a mapping" if value else "an empty mapping"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f'"{printable(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")}"'


def printable(text: str) -> str:
    """Return `text` on one line: what cannot be printed is written as in JSON."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json.dumps(char)[1:-1] for char in text)


def dotted(path: Path) -> str:
    """Return `path` as people write it: spec.windows[0]."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return printable(text)
