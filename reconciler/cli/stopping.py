"""SIGTERM, Ctrl-C and --timeout: no new writes, finish those in flight, report."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from reconciler.apply.stop import Stop
from reconciler.errors import ExitCode

_SIGNALS = {signal.SIGTERM: ExitCode.TERMINATED, signal.SIGINT: ExitCode.INTERRUPTED}


@dataclass
class Stopping(Stop):
    """A stop with the exit code it leads to; None while nobody asked, and for --timeout (what was left counts then)."""

    exit_code: ExitCode | None = None


@contextmanager
def stopping(timeout_seconds: float | None) -> Iterator[Stopping]:
    """Yield what the writing looks at before each action; signals and the timeout set it."""
    stop = Stopping()

    def on_signal(number: int, _: FrameType | None) -> None:
        stop.exit_code = _SIGNALS[signal.Signals(number)]
        stop.ask(f"stopped by {signal.Signals(number).name}")

    timer = None
    if timeout_seconds is not None:
        timer = threading.Timer(timeout_seconds, stop.ask, [f"--timeout of {timeout_seconds:g} s reached"])
        timer.daemon = True
        timer.start()
    former = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        if timer is not None:
            timer.cancel()
