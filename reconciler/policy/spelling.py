"""The nearest of known words to a misspelt one, and words as a list in a sentence."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

_LONGEST = 60


def nearest(word: Any, known: Iterable[str]) -> str:
    """Return `, did you mean "weight"?`, or "" where nothing known is near."""
    found = nearest_of(word, known)
    return "" if found is None else f', did you mean "{found}"?'


def nearest_of(word: Any, known: Iterable[str]) -> str | None:
    """Return the one of `known` that is nearest to `word`, None where none is near."""
    if len(str(word)) > _LONGEST:
        return None
    options = sorted(known)
    lower = {option.lower(): option for option in options}
    found = difflib.get_close_matches(str(word).lower(), list(lower), n=1, cutoff=0.6)
    return lower[found[0]] if found else None


def listed(options: Iterable[Any]) -> str:
    """Return `"a", "b" or "c"`."""
    texts = [f'"{option}"' for option in options]
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"
