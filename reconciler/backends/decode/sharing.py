"""Equal texts and labels of many objects, kept once: a fleet's objects say the same things over and over."""

from __future__ import annotations

from functools import lru_cache
from sys import intern

_MOST_ENTRIES = 8
_REMEMBERED = 512


def shared(mapping: dict[str, str]) -> dict[str, str]:
    """Return labels or annotations equal to `mapping`, the same object for several; nobody may change it."""
    return _remembered(tuple(mapping.items())) if len(mapping) <= _MOST_ENTRIES else mapping


@lru_cache(_REMEMBERED)
def _remembered(entries: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {intern(key): intern(value) for key, value in entries}


def shared_text(text: str | None) -> str | None:
    """Return a text equal to `text`, the same object wherever it is alive."""
    return None if text is None else intern(text)
