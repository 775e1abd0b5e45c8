"""How a value that a program gave is told in a message."""

from __future__ import annotations

from typing import Any

_LONGEST = 60


def shown(value: Any) -> str:
    """Return `value` as Python writes it, cut to a line; where Python cannot, of what type it is."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a number of too many digits, too deep a nesting, or a class of the caller's own
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
