"""Progress on stderr: a line on a terminal, otherwise one now and then; JSON lines where they are asked for."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.cli.output import draw, say, say_json
from reconciler.cli.run_options import RunOptions
from reconciler.errors import ExitCode
from reconciler.messages import counted
from reconciler.observe.clusters import ReadStep, no_progress
from reconciler.pipeline import Applied, ProgressCallbacks, Stage, plan
from reconciler.plan.model import Action, Plan
from reconciler.policy.types import Fleet
from reconciler.worker_pool import started
from reconciler.world import World

_BAR = 24
"""How many characters wide the bar is."""

_EVERY, _IN_PLACE = 10.0, 0.25
"""Seconds between two lines of plain progress, and until the one on a terminal is drawn again."""

Choose = Callable[[Plan], tuple[Action, ...]]
O = TypeVar("O", bound=RunOptions)  # noqa: E741


class _ClusterRead(Struct, frozen=True):
    """What was read of one cluster. `over`: no more comes; `error` then says why it is unknown."""

    cluster: str
    lists: int = 0
    objects: int = 0
    seconds: float = 0.0
    over: bool = False
    error: str = ""


class Progress:
    """Counts the events of a run, from any thread, and shows them by `form`. json: a line for each cluster that is read
    and for each action; plain: a line `every` so many seconds, for logs; bar: that in place of the one before, with a
    bar where changes are written; none: nothing.
    """

    def __init__(self, form: str = "none", every: float = _EVERY) -> None:
        self._form = form
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._since = 0.0
        self._read: dict[str, _ClusterRead] = {}
        self._written = self._applied = 0
        self._chosen = 0
        self._stage: Stage | None = None
        self._seconds: dict[str, float] = {}
        if form in ("plain", "bar"):  # without a thread, a log has fewer lines
            started(threading.Thread(target=self._tell, args=[every], daemon=True))

    def stage(self, stage: Stage) -> None:
        """Note that a stage begins, which ends the one before."""
        with self._lock:
            self._seconds = self.seconds
            self._stage = stage
            self._read = {}
            self._since = time.monotonic()

    @property
    def seconds(self) -> dict[str, float]:
        """How long each stage took until now."""
        if self._stage is None:
            return {}
        so_far = self._seconds.get(self._stage, 0.0) + time.monotonic() - self._since
        return {**self._seconds, self._stage: so_far}

    def reading(self, step: ReadStep) -> None:
        with self._lock:
            found = self._read.pop(step.cluster, _ClusterRead(step.cluster))
            found = replace(found, seconds=time.monotonic() - self._since, over=not step.what, error=step.error)
            if step.what:
                found = replace(found, lists=found.lists + 1, objects=found.objects + step.objects)
            self._read[step.cluster] = found
            if self._form == "json" and found.over:
                status = {"status": "unknown", "message": found.error} if found.error else {"status": "read"}
                counts = {"lists": found.lists, "objects": found.objects, "seconds": round(found.seconds, 3)}
                say_json({"cluster": found.cluster, **status, **counts})

    def counted(self, choose: Choose) -> Choose:
        """Return `choose`; how many actions it chooses is how many are to come."""

        def chosen(plan: Plan) -> tuple[Action, ...]:
            actions = choose(plan)
            with self._lock:
                self._chosen, self._written, self._applied = len(actions), 0, 0
            return actions

        return chosen

    def writing(self, action: Action, outcome: Outcome) -> None:
        """Note what became of one action."""
        with self._lock:
            self._written += 1
            self._applied += outcome.status is OutcomeStatus.APPLIED
            if self._form == "json":
                message = {"message": outcome.message} if outcome.message else {}
                line = {"action": action.id, "verb": action.verb, "object": str(action.ref)}
                say_json({**line, "status": str(outcome.status), **message})

    def _tell(self, every: float) -> None:
        seconds = 0.0
        while not self._over.wait(every):
            seconds += every
            with self._lock:
                if not self.words or self._over.is_set():
                    continue
                line = f"{self.words} ({seconds:.0f}s)"
                if self._form == "plain":
                    say(line)
                    continue
                full = _BAR * self._written // self._chosen if self._chosen else 0
                draw(f"[{'#' * full}{'-' * (_BAR - full)}] {line}" if self._chosen else line)

    def close(self) -> None:
        """Show no more."""
        with self._lock:
            self._over.set()
        draw("")

    @property
    def words(self) -> str:
        """What the run is doing, on one line; "" where somebody is asked, and before it begins."""
        if self._stage in (None, Stage.APPROVE):
            return ""
        if self._chosen and self._stage in (Stage.OBSERVE, Stage.APPLY):
            applied = f"{self._applied} of {self._chosen} changes applied"
            return applied if self._applied == self._written else f"{applied}, {self._written - self._applied} not"
        if self._stage is Stage.OBSERVE:
            return reading_words(tuple(self._read.values())) if self._read else "reading"
        return "waiting for locks" if self._stage is Stage.LOCK else "planning"


def reading_words(read: Sequence[_ClusterRead]) -> str:
    """Return what was read so far of all clusters, on one line."""
    going = [cluster.cluster for cluster in read if not cluster.over]
    lost = [cluster.cluster for cluster in read if cluster.error]
    done = sum(cluster.over and not cluster.error for cluster in read)
    objects, lists = sum(cluster.objects for cluster in read), sum(cluster.lists for cluster in read)
    parts = [f"{counted(done, 'cluster')} read, {counted(objects, 'object')} in {counted(lists, 'list')}"]
    parts += [f"reading {', '.join(going)}"] if going else []
    parts += [f"unknown: {', '.join(lost)}"] if lost else []
    return "; ".join(parts)


@contextmanager
def run_progress(options: O) -> Iterator[tuple[O, Progress]]:
    """Yield `options` with its progress shown as --progress says, and what shows it.

    The reading of a snapshot is not shown: it takes no time.
    """
    form = "none" if options.quiet else options.progress
    if form == "auto":
        only_lines = os.environ.get("TERM") == "dumb" or os.environ.get("NO_COLOR") or os.environ.get("CI")
        form = "bar" if sys.stderr.isatty() and not only_lines else "plain"
    shown = Progress(form, _IN_PLACE if form == "bar" else _EVERY)
    callbacks = ProgressCallbacks(shown.stage, shown.reading if options.snapshot is None else no_progress)
    try:
        yield options.replace(callbacks=callbacks), shown
    finally:
        shown.close()


class TrackedRun(Generic[O]):
    """A run with `options`, shown by `progress`, and what is known of it so far.

    `to_notify` is what an apply did, and why it did no more than wake, "" where the policies were used.
    """

    def __init__(self, options: O) -> None:
        self.options = options
        self.progress = Progress()
        self.opened: tuple[World, Fleet] | None = None
        self.plan: Plan | None = None
        self.outcomes: Sequence[Outcome] = ()
        self.code: ExitCode | None = None
        self.to_notify: tuple[Applied, str] | None = None

    def world(self, fleet: Fleet) -> World:
        """Return the clusters of `fleet`; what is exchanged with them counts in the metrics."""
        return self.noted(self.options.world(fleet), fleet)

    def noted(self, world: World, fleet: Fleet) -> World:
        """Return `world`, that of `fleet`, which counts in the metrics as if this run had opened it."""
        self.opened = world, fleet
        return world

    def planned(self, *, call_pickers: bool = False) -> Plan:
        """Return the plan of the policies and clusters that the options name; nothing more of the progress is shown."""
        policies = self.options.policies(partly=True)
        request = replace(self.options.request(), call_pickers=call_pickers)
        self.plan = plan(policies, self.world(policies.fleet), request)
        self.progress.close()
        return self.plan

    def applied(self, applied: Applied, problem: str = "") -> None:
        """Keep what was done; `problem` is why that was no more than wakes."""
        self.plan, self.outcomes = applied.plan, applied.outcomes
        self.to_notify = None if applied.declined else (applied, problem)
        self.progress.close()
