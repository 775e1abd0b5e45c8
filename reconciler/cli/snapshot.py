"""`reconciler snapshot`: everything that a plan reads, written to a folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import click
from msgspec.structs import replace

from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.prometheus import PrometheusMetrics
from reconciler.backends.protocols import PODS
from reconciler.backends.snapshot.files import RECORDING_FILE
from reconciler.backends.snapshot.recorder import RecordedCluster, RecordedMetrics, Recorder
from reconciler.cli.option_values import LONGEST_PAST, duration
from reconciler.cli.options import GENERAL, argument, option, policies_option, verb
from reconciler.cli.output import say, show
from reconciler.cli.run_options import REQUESTS, RunOptions
from reconciler.decide.annotations import format_time
from reconciler.errors import ClusterError, ExitCode, UsageError
from reconciler.forecast.query_history import HISTORY_FILE, recorded_history
from reconciler.messages import counted
from reconciler.observe.needed_objects import placed_names
from reconciler.pipeline import plan
from reconciler.plan.model import Plan
from reconciler.policy.kinds.fields import render_query
from reconciler.policy.types import PolicySet
from reconciler.world import open_world
from reconciler.yaml.files import write_private

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _SnapshotOptions(RunOptions):
    """Those of `snapshot`; it refuses a snapshot, with the reason."""

    directory: str = argument("DIR", type=click.Path())
    path: str = policies_option("The policy directory; what these need is read.")
    overwrite: bool = option("Replace an earlier snapshot in DIR.", default=False)
    past: timedelta | None = option(
        "Record what the queries said for so long too, a value each --tick, for forecast --replay; like 30d.",
        "--with-history",
        type=duration(timedelta(days=1), LONGEST_PAST),
    )
    namespace: tuple[str, ...] = option(
        "With --context: read this namespace only.",
        "-n",
        "--namespace",
        multiple=True,
        metavar="NAME",
        group=GENERAL,
    )
    snapshot: str | None = option("A snapshot, in place of live clusters.", metavar="DIR", hidden=True)


@verb("snapshot", _SnapshotOptions, "tick", "context", *REQUESTS, "now", "quiet")
def snapshot_command(options: _SnapshotOptions) -> int:
    """Write to DIR what a plan reads of the live clusters, to plan from it elsewhere. Secrets are never read.

    With the same --now, a plan from the snapshot is the plan from the clusters.

    # Write what a plan reads
    snapshot ./snapshot
    # Write it again, of one context without a Fleet
    snapshot ./snapshot --context kind-dev --overwrite
    # Write what the queries said in the last month too
    snapshot ./snapshot --with-history 30d
    """
    if options.snapshot is not None:
        words = "is a snapshot already, expected live clusters; copy the folder"
        raise UsageError(f"--snapshot: {options.snapshot} {words}")
    if options.namespace and options.context is None:
        raise UsageError("--namespace: narrows nothing that is read of a Fleet, expected it beside --context")
    target = Path(options.directory)
    check_target(target, options.overwrite)
    recorders, current_plan = recorded(options, options.policies(), options.past)
    if not (options.quiet and current_plan.clusters):
        for what in sorted(current_plan.unknown):
            say(f"warning: {what}: {current_plan.unknown[what]}")
    if not current_plan.clusters:
        say(f"error: {options.directory}: nothing was written, expected a cluster that answers")
        return ExitCode.NOTHING_DONE
    at = format_time(options.now)
    write_snapshot(target, {name: recorder.files(at) for name, recorder in recorders.items()})
    if not options.quiet:
        show(_told(target, recorders, at))
    return ExitCode.PARTIAL if current_plan.unknown else ExitCode.DONE


def recorded(
    options: RunOptions, policies: PolicySet, past: timedelta | None = None
) -> tuple[Mapping[str, Recorder], Plan]:
    """Make a plan of live clusters as `plan` does; return what was read for it, by cluster, and the plan.

    With `past`, the answers to the queries over that time, one each tick, and all pods, are read too: these tell start
    times.

    Raises:
        UsageError: no cluster has a Prometheus that could be asked.
    """
    placed = placed_names(policies)
    recorders = {cluster.name: Recorder(cluster.name, placed) for cluster in policies.fleet.clusters}
    world = open_world(options.bounded(policies.fleet), None, options.now, options.settings)
    sources = {
        name: replace(
            source,
            cluster=RecordedCluster(source.cluster, recorders[name]),
            metrics=RecordedMetrics(source.metrics, recorders[name]),
        )
        for name, source in world.sources.items()
        if isinstance(source.cluster, KubernetesCluster)
    }
    found = plan(policies, replace(world, sources=sources), options.request(whole=True))
    if past is None:
        return recorders, found
    asked = {name: one.metrics for name, one in world.sources.items() if isinstance(one.metrics, PrometheusMetrics)}
    if not asked:
        what = "no cluster has a Prometheus, expected prometheus: {url: ...} in one"
        raise UsageError(f"{policies.fleet.place}: {what}; without it nobody knows what was measured")
    failures: dict[str, str] = {}
    step = options.tick
    count, end = past // step, _EPOCH + (options.now - _EPOCH) // step * step
    for name, metrics in asked.items():
        queries = [render_query(key) for key in policies.query_keys(name)]
        history = recorded_history(metrics, queries, end - count * step, count, step)
        recorders[name].beside[HISTORY_FILE] = "".join(history.lines())
        failures |= {f"{name}: history of {query}": said.error for query, said in history.answers.items() if said.error}
        with suppress(ClusterError):
            cluster = sources[name].cluster
            if cluster is not None:
                cluster.list(PODS)
    return recorders, replace(found, unknown={**found.unknown, **failures})


def check_target(target: Path, overwrite: bool) -> None:
    """Refuse to write over anything but an earlier snapshot, and that only where it is asked for.

    Raises:
        UsageError: there is something.
    """
    if not target.exists() and not target.is_symlink():
        return
    if not target.is_dir():
        raise UsageError(f"{target}: is not a directory, expected an empty one, or none of that name")
    inside = list(target.iterdir())
    if not inside:
        return
    if not all((path / RECORDING_FILE).is_file() for path in inside):
        raise UsageError(f"{target}: holds other things, expected an empty folder or an earlier snapshot; name another")
    if not overwrite:
        raise UsageError(f"{target}: holds a snapshot, expected an empty folder; replace it with --overwrite")


def write_snapshot(target: Path, clusters: Mapping[str, Mapping[str, str]]) -> None:
    """Write the files of each cluster's folder: all beside first, then `target` is replaced by them in one step.

    Only we may read them.

    Raises:
        OSError: they cannot be written; `target` is as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{target.name}.", dir=target.parent, ignore_cleanup_errors=True) as beside:
        new, old = Path(beside, "new"), Path(beside, "old")
        new.mkdir(mode=0o700)
        for cluster, files in clusters.items():
            (new / cluster).mkdir(mode=0o700)
            for name, text in files.items():
                write_private(str(new / cluster / name), (text,))
        try:
            if target.is_dir():
                target.rename(old)
            new.rename(target)
        finally:
            if old.exists() and not target.exists():
                old.rename(target)


def _told(target: Path, recorders: Mapping[str, Recorder], at: str) -> Iterator[str]:
    for name, recorder in recorders.items():
        answers = counted(recorder.answers_kept, "answer to queries", "answers to queries")
        yield f"{target / name}: {counted(recorder.objects_kept, 'object')}, {answers}"
    yield f"Plan from it with: --snapshot {target} --now {at}"
