"""--metrics-file and --push-gateway: the metrics of a run, written or pushed."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from reconciler.cli.deliveries import is_address, push
from reconciler.cli.output import say_each
from reconciler.cli.progress import TrackedRun
from reconciler.errors import ExitCode, UsageError, reason_of
from reconciler.history.changes import SavedBefore
from reconciler.history.config_maps import History
from reconciler.report.metrics import Measured, last_success_in, render_metrics
from reconciler.time_limit import GRACE_SECONDS, TimeLimit
from reconciler.yaml.files import write_new

_ENDED_WELL = (ExitCode.DONE, ExitCode.CHANGES_PENDING, ExitCode.HELD_BACK)  # the last, where --fail-on asks for it
_FOR_COLLECTORS = 0o644


def check_gateway(gateway: str | None) -> None:
    """Refuse what is no address of a push gateway; None is no gateway.

    Raises:
        UsageError: it is none.
    """
    if gateway is not None and not is_address(gateway):
        raise UsageError("--push-gateway: is not an address, expected one like http://push.monitoring:9091")


def publish(verb: str, run: TrackedRun[Any]) -> None:
    """Write and push the metrics of a run of `verb`, where its options say. A push takes no longer than the run may.

    What cannot be written or pushed is a warning: it says nothing about the run.
    """
    options, ended_well, warnings = run.options, run.code in _ENDED_WELL, []
    file, gateway, shard = options.metrics_file, options.push_gateway, options.shard
    sources = {} if run.opened is None else run.opened[0].sources
    found = Measured(
        run.plan,
        run.outcomes,
        stages=run.progress.seconds,
        traffic={name: source.traffic() for name, source in sources.items() if source.traffic is not None},
        shard=None if shard is None else shard[0],
    )
    if not found.shard:  # home has one history for all shards: each of them would count it
        try:
            found = replace(found, saved=_saved(run))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other metrics are known
            warnings.append(f"metrics: what idling saved is unknown: {reason_of(error)}")
    warnings.append("" if file is None else _written(file, found, ended_well))
    warnings.append("" if gateway is None else _pushed(gateway, verb, found, ended_well, options.limit))
    say_each("warning", filter(None, warnings))


def _saved(run: TrackedRun[Any]) -> tuple[SavedBefore, ...]:
    """Return what idling saved in all periods that ended until this run; nothing where there is no plan.

    What is idle now is left out: a period that is forgotten, as its workload is deleted, would make a counter fall,
    and Prometheus would take all of it for new.

    Raises:
        ReconcilerError: the history cannot be read.
    """
    if run.plan is None or run.opened is None:
        return ()
    world, fleet = run.opened
    home = History(world.access(fleet.home).cluster, fleet.namespace)
    return home.last(run.plan.made_at.astimezone(UTC).date()).saved_in_all()


def _written(file: str, measured: Measured, ended_well: bool) -> str:
    """Write the metrics to `file`, beside it first; return why that failed, "" where it did not. A shard has a file of
    its own: of metrics.prom that is metrics.shard-2.prom.

    After a run that failed the file goes on to say when one ended well last. What is beside it already is from a run
    that was killed, or a link that somebody planted: it goes, and is never written through.
    """
    path = Path(file)
    if path.exists() and not path.is_file():  # such as /dev/stdout, which a file would take the place of
        return f"{path}: is no regular file, expected a file for metrics that can be written"
    if measured.shard is not None:
        path = path.with_name(f"{path.stem}.shard-{measured.shard}{path.suffix}")
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        former = None if ended_well or not path.is_file() else path.read_text(encoding="utf-8", errors="replace")
        last = time.time() if ended_well else last_success_in(former or "")
        beside.unlink(missing_ok=True)
        write_new(str(beside), render_metrics(replace(measured, last_success=last)), _FOR_COLLECTORS)
        beside.replace(path)
    except OSError as error:
        with suppress(OSError):
            beside.unlink()
        return f"{file}: {error.strerror}, expected a file for metrics that can be written"
    return ""


def _pushed(gateway: str, verb: str, measured: Measured, ended_well: bool, limit: TimeLimit) -> str:
    """Push the metrics; a run that failed leaves the time of the last success as it is there.

    Once the run is over, the push has what is left of its grace.
    """
    text = render_metrics(replace(measured, last_success=time.time() if ended_well else None))
    group = verb if measured.shard is None else f"{verb}/shard/{measured.shard}"
    return push(gateway, group, text, whole=ended_well, limit=limit.within(grace=GRACE_SECONDS))
