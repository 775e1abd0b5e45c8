"""A run that is measured and whose progress is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from reconciler.cli.exit_codes import exit_words
from reconciler.cli.metrics import Measuring, measuring
from reconciler.cli.progress import Progress, run_progress
from reconciler.cli.running import Call
from reconciler.cli.stopping import stopping
from reconciler.cli.talk import say
from reconciler.errors import ExitCode


@dataclass(frozen=True)
class Watched:
    """`call` with somebody looking on."""

    call: Call
    measuring: Measuring
    progress: Progress

    def ended(self, code: ExitCode) -> ExitCode:
        """Return what the run ends with; what that means is said on stderr, unless all is well."""
        code = self.call.stop.ended(code)
        self.measuring.ended(code)
        made = self.measuring.measured()
        words = exit_words(code, made.plan, made.outcomes)
        if words and not self.call.quiet:
            say(f"exit code {int(code)}: {words}")
        return code


@contextmanager
def watched(verb: str, call: Call, flags: Mapping[str, Any]) -> Iterator[Watched]:
    """Yield `call` as a run that is measured and shown, as the flags say.

    Raises:
        UsageError: a flag cannot be meant.
    """
    with measuring(verb, flags, call.stop) as run, run_progress(call, flags, run.stage) as (shown_call, shown):
        yield Watched(shown_call, run, shown)


def planned_run(verb: str, call: Call, flags: Mapping[str, Any], shown: Callable[[Watched], ExitCode]) -> ExitCode:
    """Run `shown`, which makes a plan and shows it; return what the call ends with."""
    with stopping(None, call.stop) as stop:
        with watched(verb, call, flags) as run:
            code = run.ended(shown(run))
        return stop.ended(code)  # it may be asked to stop while it pushes its metrics, too
