"""A run that is measured and whose progress is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from reconciler.cli.metrics import Measuring, measuring
from reconciler.cli.progress import Progress, progress
from reconciler.cli.running import Call
from reconciler.cli.stopping import stopping
from reconciler.errors import ExitCode
from reconciler.observe.clusters import no_progress
from reconciler.pipeline import Stage, Watch


@dataclass(frozen=True)
class Watched:
    """`call` with somebody looking on."""

    call: Call
    measuring: Measuring
    progress: Progress


@contextmanager
def watched(verb: str, call: Call, flags: Mapping[str, Any]) -> Iterator[Watched]:
    """Yield `call` as a run that is measured and shown, as the flags say.

    The reading of a snapshot is not shown: it takes no time.

    Raises:
        UsageError: a flag cannot be meant.
    """
    with measuring(verb, flags, call.stop) as run, progress(quiet=call.quiet, log_format=flags["log_format"]) as shown:

        def stage(begins: Stage) -> None:
            run.stage(begins)
            shown.stage(begins)

        watch = Watch(stage, no_progress if call.snapshot is not None else shown.reading)
        yield Watched(replace(call, watch=watch), run, shown)


def planned_run(verb: str, call: Call, flags: Mapping[str, Any], shown: Callable[[Watched], ExitCode]) -> ExitCode:
    """Run `shown`, which makes a plan and shows it; return what the call ends with."""
    with stopping(None, call.stop) as stop:
        with watched(verb, call, flags) as run:
            code = shown(run)
            run.measuring.ended(stop.ended(code))
        return stop.ended(code)  # it may be asked to stop while it pushes its metrics, too
