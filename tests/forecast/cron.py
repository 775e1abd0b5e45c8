"""A cron that runs the real `apply` on the folder of a snapshot, with nothing of the forecast in it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from reconciler.backends.backend import Opened
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.forecast.simulation import Simulation, Step
from reconciler.forecast.timelines import Forecast, WorkloadTimeline, forecast
from reconciler.model import ObjectRef
from reconciler.pipeline import Control, RunRequest, apply, plan
from reconciler.policy.types import PolicySet
from reconciler.world import open_world
from tests.forecast.random_fleets import NAMES, NAMESPACES, TICK, RandomFleet, first_of

Workload = tuple[str, str, str, str]
"""Cluster, namespace, kind and name."""

Steps = dict[Workload, list[tuple[datetime, int | None]]]
"""When the replicas of each workload change, and to what; None: it is not there."""

_SCALED = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController")
_EVERYTHING = Control(choose=lambda made: made.actions)


@dataclass(frozen=True)
class CronFolder:
    """The folder of a snapshot; values without a time in `metrics.yaml` are fresh whenever they are read."""

    path: Path

    @classmethod
    def of(cls, fleet: RandomFleet, path: Path) -> CronFolder:
        """Write the snapshot of `fleet` to `path`."""
        values = [
            {"labels": {"namespace": namespace, "service": name}, "value": 5 if name in fleet.busy else 0}
            for namespace in NAMESPACES
            for name in NAMES
        ]
        answers = {"results": [{"query": "requests", "series": values}]}
        for cluster, manifests in fleet.snapshot.items():
            (path / cluster).mkdir(parents=True)
            (path / cluster / "metrics.yaml").write_text(json.dumps(answers))
            (path / cluster / "all.yaml").write_text("".join(f"---\n{json.dumps(one)}\n" for one in manifests))
        return cls(path)

    def copied(self, path: Path) -> CronFolder:
        shutil.copytree(self.path, path)
        return CronFolder(path)

    def runs(self, policies: PolicySet, moments: Iterable[datetime]) -> Steps:
        """Run at each of `moments`; return what that came to. Where the plan is empty there is nothing to apply."""
        found: Steps = {}
        world = None
        for at in moments:
            world = world or open_world(policies.fleet, str(self.path), at)
            if not found:
                _note(found, at, self.replicas())
            if plan(policies, world, RunRequest(at)).actions:
                world = open_world(policies.fleet, str(self.path), at)
                apply(policies, world, RunRequest(at), _EVERYTHING)
                _note(found, at, self.replicas())
        return found

    def replicas(self) -> dict[Workload, int]:
        """Return what every workload asks for by the files themselves; a CronJob 1, suspended 0.

        What KEDA keeps paused has the replicas it is paused at.
        """
        found: dict[Workload, int] = {}
        paused: dict[Workload, int] = {}
        for cluster, one in self._objects():
            metadata, spec = one["metadata"], one.get("spec") or {}
            place = (cluster, metadata["namespace"]) if "namespace" in metadata else (cluster, "")
            if one["kind"] == "CronJob":
                found[*place, "CronJob", metadata["name"]] = 0 if spec.get("suspend") else 1
            elif one["kind"] == "ScaledObject":
                count = (metadata.get("annotations") or {}).get("autoscaling.keda.sh/paused-replicas")
                target = spec["scaleTargetRef"]
                if count is not None:
                    paused[*place, target.get("kind", "Deployment"), target["name"]] = int(count)
            elif one["kind"] in _SCALED and not any(o.get("controller") for o in metadata.get("ownerReferences", ())):
                found[*place, one["kind"], metadata["name"]] = spec.get("replicas", 1)
        return found | {key: count for key, count in paused.items() if key in found}

    def _objects(self) -> Iterator[tuple[str, Any]]:
        for cluster in sorted(one for one in self.path.iterdir() if one.is_dir()):
            for file in sorted(cluster.glob("*.yaml")):
                if file.name != "metrics.yaml":
                    read = yaml.load_all(file.read_text(), yaml.CSafeLoader)
                    yield from ((cluster.name, one) for one in read if one)

    def forecast(self, policies: PolicySet, start: datetime, end: datetime) -> tuple[Forecast, frozenset[datetime]]:
        """Return the forecast of these days, and at which times it played a run."""
        names = [cluster.name for cluster in policies.fleet.clusters]
        simulation = _Noted(policies, open_snapshot(self.path, names, first_of, start), TICK)
        return forecast(policies, simulation, start, end), frozenset(simulation.played)


class _Noted(Simulation):
    """One that keeps at which times it played a run."""

    def __init__(self, policies: PolicySet, opened: Opened, tick: timedelta) -> None:
        super().__init__(policies, opened, tick)
        self.played: set[datetime] = set()

    def run(self, at: datetime) -> Step:
        self.played.add(at)
        return super().run(at)


def _note(steps: Steps, at: datetime, replicas: Mapping[Workload, int]) -> None:
    for key in {*steps, *replicas}:
        known, now = steps.get(key), replicas.get(key)
        if known is None or known == [(at, known[0][1])]:
            steps[key] = [(at, now)]
        elif known[-1][1] != now:
            known.append((at, now))


def steps_of(made: Forecast) -> Steps:
    """Return the same of a forecast."""
    return {key_of(one.ref): _steps(one, made.end) for one in made.timelines}


def _steps(one: WorkloadTimeline, end: datetime) -> list[tuple[datetime, int | None]]:
    found: list[tuple[datetime, int | None]] = []
    for segment in one.segments:
        if found and found[-1] == (segment.start, None):
            found.pop()  # it is there all along
        if not found or found[-1][1] != segment.replicas:
            found.append((segment.start, segment.replicas))
        if segment.end < end:
            found.append((segment.end, None))
    return found


def key_of(ref: ObjectRef) -> Workload:
    return (ref.cluster, ref.namespace, ref.kind, ref.name)
