"""The time limit of a run, which --timeout and signals end."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf
from types import FrameType

from reconciler.cli.output import say
from reconciler.errors import ExitCode, PromptInterruptedError, first_exit_code
from reconciler.time_limit import TimeLimit

_SIGNALS = {signal.SIGTERM: ExitCode.TERMINATED, signal.SIGINT: ExitCode.INTERRUPTED}


class RunLimit(TimeLimit):
    """That of a run, from --timeout, with the exit code that a signal leads to; None while none came. When the time is
    over, what was left counts.
    """

    def __init__(self, timeout_seconds: float | None = None) -> None:
        seconds = inf if timeout_seconds is None else timeout_seconds
        super().__init__(seconds, ended=f"--timeout of {seconds:g} s reached")
        self.exit_code: ExitCode | None = None

    def ended(self, code: ExitCode) -> ExitCode:
        """Return with what a run ends that came to `code`."""
        return code if self.exit_code is None else first_exit_code([code, self.exit_code])


@contextmanager
def cut_by_signals(limit: RunLimit) -> Iterator[RunLimit]:
    """Yield `limit`, which requests and actions look at; signals cut it. Ctrl-C twice means at once."""

    def on_signal(number: int, _: FrameType | None) -> None:
        if limit.exit_code is ExitCode.INTERRUPTED:
            raise KeyboardInterrupt
        limit.exit_code = _SIGNALS[signal.Signals(number)]
        limit.cut(f"stopped by {signal.Signals(number).name}")

    with _handled(on_signal):
        yield limit


@contextmanager
def interruptible() -> Iterator[None]:
    """While somebody is asked, a signal is an answer.

    Raises:
        PromptInterruptedError: that was the answer.
    """

    def on_signal(number: int, _: FrameType | None) -> None:
        say("")  # the question stands on a line that nobody ended
        raise PromptInterruptedError(_SIGNALS[signal.Signals(number)])

    with _handled(on_signal):
        yield


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let `handler` have the signals meanwhile."""
    former = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)
