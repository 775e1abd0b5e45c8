"""A snapshot on which the days to come are simulated, or those of the past with what their queries said."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.cli.options import is_on_command_line
from reconciler.cli.run_options import RunOptions
from reconciler.cli.second_process import in_processes
from reconciler.decide.annotations import format_time
from reconciler.errors import SnapshotError, UsageError
from reconciler.forecast.query_history import HISTORY_FILE, QueryHistory, read_history
from reconciler.forecast.replay import replay
from reconciler.forecast.simulation import Simulation
from reconciler.forecast.timelines import Forecast, forecast
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import PolicySet
from reconciler.world import victim_order

_SAID_BY_HISTORY = {"now": "when the past ends", "tick": "how often a run comes"}


@contextmanager
def past_snapshot(options: RunOptions, past: timedelta, policies: PolicySet) -> Iterator[RunOptions]:
    """Yield `options` with a snapshot: their own, or one of live clusters with the history, which is removed then.

    Raises:
        UsageError: what the history of a snapshot says stands on the command line too.
    """
    if options.snapshot is not None:
        for flag, what in _SAID_BY_HISTORY.items():
            if is_on_command_line(flag):
                words = f"the history in the snapshot says {what}, expected no --{flag} beside --snapshot"
                raise UsageError(f"--{flag}: {words}")
        yield options
        return
    from reconciler.cli.snapshot import recorded, write_snapshot

    recorders, plan = recorded(options, policies, past)
    if not plan.clusters:
        raise SnapshotError("no cluster answers, expected one to replay")
    with TemporaryDirectory(prefix="reconciler-replay-") as folder:
        target = Path(folder, "snapshot")
        write_snapshot(target, {name: recorder.files(format_time(options.now)) for name, recorder in recorders.items()})
        yield options.replace(snapshot=str(target))


class SimulatedSnapshot:
    """The snapshot that `options` name, read once; a simulation of days to come, or past, copies it."""

    def __init__(self, options: RunOptions, *sets: PolicySet) -> None:
        """It has the clusters of all `sets`.

        Raises:
            SnapshotError: it cannot be read.
        """
        assert options.snapshot is not None
        names = tuple(dict.fromkeys(cluster.name for policies in sets for cluster in policies.fleet.clusters))
        self._options = options
        self.top = Path(options.snapshot)
        self.opened = open_snapshot(options.snapshot, names, victim_order(lambda: options.now), options.now)

    def simulation(self, policies: PolicySet) -> Simulation:
        return Simulation(policies, self.opened, self._options.tick)

    def forecast(self, policies: PolicySet, days: int) -> Forecast:
        """Return what the runs of so many days to come do."""
        start = self._options.now
        return forecast(policies, self.simulation(policies), start, start + timedelta(days=days))

    @cached_property
    def histories(self) -> dict[str, QueryHistory]:
        """What was recorded of the queries of each cluster that has a history.

        Raises:
            SnapshotError: one is malformed.
        """
        names = [name for name, one in self.opened.backends.items() if one.cluster is not None]
        found = {name: read_history(self.top / name, self.top) for name in names}
        return {name: history for name, history in found.items() if history is not None}

    def recorded(self, past: timedelta) -> dict[str, QueryHistory]:
        """Return `histories`.

        Raises:
            SnapshotError: there is none, or one is malformed.
        """
        if not self.histories:
            raise SnapshotError(
                f"{self.top}: holds no history of queries, expected {HISTORY_FILE} in a cluster's folder; "
                f"record it with `reconciler snapshot --with-history {spelt_duration(past)}`"
            )
        return self.histories

    def replay(self, policies: PolicySet, past: timedelta) -> Forecast:
        """Return what `policies` would have done in the `past`; raises what `recorded` does."""
        return replay(policies, self.opened, self.recorded(past), past, in_processes)
