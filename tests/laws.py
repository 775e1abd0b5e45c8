"""How many cases the laws of hypothesis try: in `make test` a third of them, with RECONCILER_LAWS=full all of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import settings

_IS_FULL = os.environ.get("RECONCILER_LAWS") == "full"


def share_of(count: int) -> int:
    """Return how many of `count` cases are tried in this run."""
    return count if _IS_FULL else -(-count // 3)


def tries(count: int, parent: settings | None = None, at_length: int = 0, **more: Any) -> settings:
    """Return the settings of a law that tries `count` cases, or `at_length` of them where all are tried; it may take
    as long as it does.
    """
    cases = at_length if _IS_FULL and at_length else share_of(count)
    return settings(parent, max_examples=cases, deadline=None, **more)


def counted(function: Callable[[], object], event: str, seen: Callable[[FrameType], bool] = lambda _: True) -> int:
    """Return how many times `event` ("line", "call") happens in frames that are `seen` while `function` runs."""
    count = 0

    def trace(frame: FrameType, happened: str, argument: object) -> Any:
        nonlocal count
        count += happened == event and seen(frame)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
