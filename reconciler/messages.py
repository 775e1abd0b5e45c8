"""The words of messages: values and paths as they are quoted, known words as a list, and the nearest of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
    return f'"{printable(cut(text, _LONGEST))}"'


def literal(value: Any) -> str:
    """Return `value` as Python writes it, cut to a line; where Python cannot, of what type it is."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a number of too many digits, too deep a nesting, or a class of the caller's own
        return f"a value of type {type(value).__name__}"
    return cut(text, _LONGEST)


def cut(text: str, longest: int) -> str:
    """Return `text`; of one with more than `longest` characters the beginning, the last of them an ellipsis."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


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


def nearest(word: Any, known: Iterable[str]) -> str:
    """Return `, did you mean "weight"?`, or "" where nothing known is near."""
    found = nearest_of(word, known)
    return "" if found is None else f', did you mean "{found}"?'


def nearest_of(word: Any, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Return the one of `known` that is nearest to `word`, None where none is near. `likeness` 1 is the word itself."""
    if len(str(word)) > _LONGEST:
        return None
    from difflib import get_close_matches  # only who has a problem waits for it

    options = sorted(known)
    lower = {option.lower(): option for option in options}
    found = get_close_matches(str(word).lower(), list(lower), n=1, cutoff=likeness)
    return lower[found[0]] if found else None


def alternatives(options: Iterable[Any]) -> str:
    """Return `"a", "b" or "c"`."""
    texts = [f'"{option}"' for option in options]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def first_of(names: Sequence[str], most: int, between: str = ", ") -> str:
    """Return the first of `names` and how many more there are: "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return between.join(names[:most]) + more


def counted(number: int, one: str, many: str = "") -> str:
    """Return "1 replica", "2 replicas"."""
    return f"{number} {one}" if number == 1 else f"{number} {many or one + 's'}"
