"""--metrics-file and --push-gateway: the metrics of a run, written or pushed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from reconciler.apply.outcomes import Outcome
from reconciler.cli.output import say_each
from reconciler.cli.run_options import RunOptions
from reconciler.errors import ExitCode, UsageError, reason_of
from reconciler.pipeline import Stage
from reconciler.plan.model import Plan
from reconciler.policy.types import Fleet
from reconciler.report.metrics import Measured, last_success_in, render_metrics
from reconciler.time_limit import GRACE_SECONDS, TimeLimit
from reconciler.world import World
from reconciler.yaml.files import write_new

if TYPE_CHECKING:
    from reconciler.history.changes import SavedBefore

_ENDED_WELL = (ExitCode.DONE, ExitCode.CHANGES_PENDING, ExitCode.HELD_BACK)  # the last, where --fail-on asks for it
_FOR_COLLECTORS = 0o644


class RunMetrics:
    """Keeps the metrics of a run until its end."""

    def __init__(self) -> None:
        self._stages: dict[str, float] = {}
        self._now: tuple[Stage, float] | None = None
        self._world: World | None = None
        self._fleet: Fleet | None = None
        self._measured = Measured()
        self.ended_well = False

    def stage(self, stage: Stage) -> None:
        """Note that `stage` begins, which ends the one before."""
        self._end_stage()
        self._now = (stage, time.monotonic())

    def opened(self, world: World, fleet: Fleet) -> World:
        """Return `world`, that of `fleet`; what is exchanged with it counts."""
        self._world, self._fleet = world, fleet
        return world

    def decided(self, plan: Plan, outcomes: Sequence[Outcome] = ()) -> None:
        """Keep what was planned and done."""
        self._measured = replace(self._measured, plan=plan, outcomes=outcomes)

    def ended(self, code: ExitCode) -> None:
        """The run ends with `code`."""
        self.ended_well = code in _ENDED_WELL

    def measured(self) -> Measured:
        """Return everything so far; the time of the last success aside."""
        self._end_stage()
        sources = {} if self._world is None else self._world.sources
        traffic = {name: found.traffic() for name, found in sources.items() if found.traffic is not None}
        return replace(self._measured, stages=dict(self._stages), traffic=traffic)

    def saved(self) -> tuple[SavedBefore, ...]:
        """Return what idling saved in all periods that ended until this run; nothing where there is no plan.

        What is idle now is left out: a period that is forgotten, as its workload is deleted, would make a counter fall,
        and Prometheus would take all of it for new.

        Raises:
            ReconcilerError: the history cannot be read.
        """
        plan = self._measured.plan
        if plan is None or self._world is None or self._fleet is None:
            return ()
        from reconciler.history.config_maps import History

        home = History(self._world.access(self._fleet.home).cluster, self._fleet.namespace)
        return home.last(plan.made_at.astimezone(UTC).date()).saved_in_all()

    def _end_stage(self) -> None:
        if self._now is not None:
            stage, since = self._now
            self._stages[stage] = self._stages.get(stage, 0.0) + time.monotonic() - since
        self._now = None


@contextmanager
def run_metrics(verb: str, options: RunOptions) -> Iterator[RunMetrics]:
    """Yield what measures one run of `verb`; at its end, however it ends, the metrics go where `options` say.

    What cannot be written or pushed is a warning: it says nothing about the run. A push takes no longer than the
    run may.

    Raises:
        UsageError: the push gateway's address is none.
    """
    file, gateway, shard = options.metrics_file, options.push_gateway, options.shard
    if gateway is not None:
        _check_gateway(gateway)
    run = RunMetrics()
    try:
        yield run
    finally:
        found, warnings = run.measured(), []
        first = shard is None or shard[0] == 0  # home has one history for all shards: each of them would count it
        if first and (file is not None or gateway is not None):
            try:
                found = replace(found, saved=run.saved())
            except Exception as error:  # noqa: BLE001 - whatever it is, the other metrics are known
                warnings.append(f"metrics: what idling saved is unknown: {reason_of(error)}")
        if shard is not None:
            found = replace(found, shard=shard[0])
        warnings += [
            _written(file, found, run.ended_well) if file is not None else "",
            _pushed(gateway, verb, found, run.ended_well, options.limit) if gateway is not None else "",
        ]
        say_each("warning", filter(None, warnings))


def _check_gateway(gateway: str) -> None:
    from reconciler.cli.deliveries import is_address

    if not is_address(gateway):
        raise UsageError("--push-gateway: is not an address, expected one like http://push.monitoring:9091")


def _written(file: str, found: Measured, ended_well: bool) -> str:
    """Write the metrics to `file`, beside it first; return why that failed, "" where it did not. A shard has a file of
    its own: of metrics.prom that is metrics.shard-2.prom.

    After a run that failed the file goes on to say when one ended well last. What is beside it already is from a run
    that was killed, or a link that somebody planted: it goes, and is never written through.
    """
    path = Path(file)
    if found.shard is not None:
        path = path.with_name(f"{path.stem}.shard-{found.shard}{path.suffix}")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        former = None if ended_well or not path.is_file() else path.read_text(encoding="utf-8", errors="replace")
        last = time.time() if ended_well else last_success_in(former or "")
        beside.unlink(missing_ok=True)
        write_new(str(beside), render_metrics(replace(found, last_success=last)), _FOR_COLLECTORS)
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        return f"{file}: {error.strerror}, expected a file for metrics that can be written"
    return ""


def _pushed(gateway: str, verb: str, found: Measured, ended_well: bool, limit: TimeLimit) -> str:
    """Push the metrics; a run that failed leaves the time of the last success as it is there.

    Once the run is over, the push has what is left of its grace.
    """
    from reconciler.cli.deliveries import push

    text = render_metrics(replace(found, last_success=time.time() if ended_well else None))
    group = verb if found.shard is None else f"{verb}/shard/{found.shard}"
    return push(gateway, group, text, whole=ended_well, limit=limit.within(grace=GRACE_SECONDS))
