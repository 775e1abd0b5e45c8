"""Waits of an exchange with a server, each in steps of its `TimeLimit`."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.backends.http.errors import TimedOutError
from reconciler.time_limit import TimeLimit


def step_of(limit: TimeLimit, words: str) -> float:
    """Return for how many seconds to wait before asking again.

    Raises:
        TimedOutError: `limit` is over; `words` say what was waited for.
    """
    step = limit.step()
    if step <= 0:
        raise TimedOutError(words)
    return step


@contextmanager
def alone(guard: threading.Lock, limit: TimeLimit, words: str) -> Iterator[None]:
    """Let one thread in; the others wait, each as long as it has time.

    Raises:
        TimedOutError: `limit` was over first; `words` say what was waited for.
    """
    if not limit.until(lambda seconds: guard.acquire(timeout=seconds)):
        raise TimedOutError(words)
    try:
        yield
    finally:
        guard.release()
