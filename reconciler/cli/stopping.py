"""SIGTERM, Ctrl-C and --timeout: no new writes, finish those in flight, report."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from reconciler.backends.stop import Stop
from reconciler.errors import ExitCode, first_exit_code

_SIGNALS = {signal.SIGTERM: ExitCode.TERMINATED, signal.SIGINT: ExitCode.INTERRUPTED}


@dataclass
class Stopping(Stop):
    """A stop with the exit code it leads to; None while nobody asked, and for --timeout (what was left counts then)."""

    exit_code: ExitCode | None = None

    def ended(self, code: ExitCode) -> ExitCode:
        """Return with what a call ends that came to `code`."""
        return code if self.exit_code is None else first_exit_code([code, self.exit_code])


@contextmanager
def stopping(timeout_seconds: float | None, stop: Stopping) -> Iterator[Stopping]:
    """Yield `stop`, which requests and actions look at; signals and the timeout set it. Ctrl-C twice means at once."""

    def on_signal(number: int, _: FrameType | None) -> None:
        if stop.exit_code is ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        stop.exit_code = _SIGNALS[signal.Signals(number)]
        stop.ask(f"stopped by {signal.Signals(number).name}")

    timer = None
    if timeout_seconds is not None:
        timer = threading.Timer(timeout_seconds, stop.ask, [f"--timeout of {timeout_seconds:g} s reached"])
        timer.daemon = True
        stop.until = time.monotonic() + timeout_seconds
        timer.start()
    former = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        if timer is not None:
            timer.cancel()


@contextmanager
def interruptible() -> Iterator[None]:
    """While somebody is asked, Ctrl-C is an answer."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
