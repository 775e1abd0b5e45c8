"""Progress on stderr: a bar on a terminal, plain text where that is asked for, JSON lines otherwise."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import click

from reconciler.apply.outcomes import Outcome
from reconciler.cli.options import option
from reconciler.cli.talk import say, say_json
from reconciler.observe.clusters import ReadStep
from reconciler.pipeline import Stage
from reconciler.plan.model import Action, Plan

log_format_option = option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    help="How progress is told on stderr; default: text on a terminal, JSON lines otherwise.",
)

Choose = Callable[[Plan], tuple[Action, ...]]


@dataclass(frozen=True, slots=True)
class ReadSoFar:
    """What was read of one cluster. `over`: no more comes; `error` then says why it is unknown."""

    cluster: str
    lists: int = 0
    objects: int = 0
    seconds: float = 0.0
    over: bool = False
    error: str = ""


class Progress:
    """Counts what a run tells, from whatever thread, and shows it; this one shows nothing."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since = 0.0
        self._read: dict[str, ReadSoFar] = {}
        self._written = 0
        self._chosen = 0

    def stage(self, stage: Stage) -> None:
        """Note that a stage begins."""
        with self._lock:
            self._read = {}
            self._since = time.monotonic()
            self.show_stage(stage)

    def reading(self, step: ReadStep) -> None:
        """Note one step of the reading."""
        with self._lock:
            found = self._read.pop(step.cluster, ReadSoFar(step.cluster))
            found = replace(found, seconds=time.monotonic() - self._since, over=not step.what, error=step.error)
            if step.what:
                found = replace(found, lists=found.lists + 1, objects=found.objects + step.objects)
            self._read[step.cluster] = found
            self.show_reading(tuple(self._read.values()))

    def counted(self, choose: Choose) -> Choose:
        """Return `choose`; how many actions it chooses is how many are to come."""

        def chosen(plan: Plan) -> tuple[Action, ...]:
            actions = choose(plan)
            with self._lock:
                self._chosen, self._written = len(actions), 0
            return actions

        return chosen

    def writing(self, action: Action, outcome: Outcome) -> None:
        """Note what became of one action."""
        with self._lock:
            self._written += 1
            self.show_writing(action, outcome)

    def show_stage(self, stage: Stage) -> None:
        """Show that a stage begins."""

    def show_reading(self, read: Sequence[ReadSoFar]) -> None:
        """Show what was read of each cluster; the last is the one that was just told of."""

    def show_writing(self, action: Action, outcome: Outcome) -> None:
        """Show one action."""

    def close(self) -> None:
        """Show no more."""


class JsonLines(Progress):
    """One line for each cluster that was read, one for each action."""

    def show_reading(self, read: Sequence[ReadSoFar]) -> None:
        found = read[-1]
        if not found.over:
            return
        status = {"status": "unknown", "message": found.error} if found.error else {"status": "read"}
        counts = {"lists": found.lists, "objects": found.objects, "seconds": round(found.seconds, 3)}
        say_json({"cluster": found.cluster, **status, **counts})

    def show_writing(self, action: Action, outcome: Outcome) -> None:
        line = {"action": action.id, "verb": action.verb, "object": str(action.ref), "status": str(outcome.status)}
        if outcome.message:
            line["message"] = outcome.message
        say_json(line)


class TextLines(Progress):
    """The same for people, where no bar can be drawn."""

    def show_reading(self, read: Sequence[ReadSoFar]) -> None:
        found = read[-1]
        if found.error:
            say(f"{found.cluster}: unknown: {found.error}")
        elif found.over:
            say(f"{found.cluster}: {found.objects} objects in {found.lists} lists, {found.seconds:.1f} s")

    def show_writing(self, action: Action, outcome: Outcome) -> None:
        message = f": {outcome.message}" if outcome.message else ""
        say(f"{self._written} of {self._chosen}: {action.verb} {action.ref} {outcome.status}{message}")


@contextmanager
def progress(*, quiet: bool, log_format: str | None) -> Iterator[Progress]:
    """Yield what shows the progress of one run."""
    shown = _chosen(quiet, log_format)
    try:
        yield shown
    finally:
        shown.close()


def _chosen(quiet: bool, log_format: str | None) -> Progress:
    if quiet:
        return Progress()
    terminal = sys.stderr.isatty()
    if log_format == "json" or (log_format is None and not terminal):
        return JsonLines()
    if terminal and _may_draw():
        from reconciler.cli.progress_bar import Bar

        return Bar()
    return TextLines()


def _may_draw() -> bool:
    """Return whether a terminal takes more than lines of text."""
    return os.environ.get("TERM") != "dumb" and not os.environ.get("NO_COLOR") and not os.environ.get("CI")
