"""Requests of the past to services of one cluster, and policies that a replay tries on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise
from typing import Any

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.forecast.idle_periods import ASSUMED_START
from reconciler.forecast.query_history import QueryHistory
from reconciler.forecast.replay import replay
from reconciler.forecast.timelines import Forecast
from reconciler.policy.types import PolicySet
from tests.forecast.nights import a_deployment, a_service
from tests.forecast.random_fleets import document, first_of
from tests.forecast.traffic import NOISE, OFFICE, PARIS, SHOP, Calls, Shape

START = datetime(2026, 10, 23, tzinfo=UTC)  # the clocks go back on the 25th
STEP = timedelta(minutes=10)
WINDOW = timedelta(minutes=30)
QUERY = "sum by (namespace, service) (increase(requests_total[30m]))"
LIMIT = {"share": "100%", "atLeast": 1000}
FLEET = document(
    "Fleet",
    "past",
    {"home": "a", "clusters": [{"name": "a"}], "limits": {"default": {"perCluster": LIMIT, "fleet": LIMIT}}},
)


def a_policy(name: str, namespace: str, **fields: Any) -> dict[str, Any]:
    metric = {"query": QUERY.replace("30m", "{{ window }}"), "window": "30m", **fields.pop("metric", {})}
    schedule = {"timeZone": "Europe/Paris", "downtime": ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]}
    spec = {
        "selector": {"namespaces": {"include": [namespace]}, "services": {}},
        "idleWhen": [{"schedule": schedule}, {"name": "requests", "metric": metric}],
        **fields,
    }
    return document("IdlingPolicy", name, spec)


def inside(manifest: dict[str, Any], namespace: str) -> dict[str, Any]:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def opened_of(made: Sequence[Calls]) -> Opened:
    objects = [inside(make(one.service), one.namespace) for one in made for make in (a_deployment, a_service)]
    return Opened({"a": Backend("a", cluster=MemoryCluster.of_manifests("a", objects, first_of))})


def replayed(policies: PolicySet, opened: Opened, history: QueryHistory, length: timedelta) -> Forecast:
    return replay(policies, opened, {"a": history}, length, lambda work, parts: work(parts))


@dataclass
class Past:
    """The replicas that each workload had, and what that did to every single request."""

    made: Sequence[Calls]
    steps: dict[str, list[tuple[datetime, int]]] = field(default_factory=dict)

    def note(self, at: datetime, workload: str, replicas: int) -> None:
        """Note the replicas of a workload, called namespace/name, after the run at `at`."""
        known = self.steps.setdefault(workload, [])
        if not known or known[-1][1] != replicas:
            known.append((at, replicas))

    def hours(self, end: datetime) -> dict[str, float]:
        """The replica-hours of each workload."""
        return {
            name: sum(n * ((until - at) / timedelta(hours=1)) for (at, n), (until, _) in pairwise([*steps, (end, 0)]))
            for name, steps in self.steps.items()
        }

    def waiting(self, end: datetime) -> tuple[int, float, int]:
        """How many requests found nothing, for how many seconds in all, and how many wakes they caused."""
        number, seconds, wakes = 0, 0.0, 0
        for one in self.made:
            steps = [*self.steps[f"{one.namespace}/{one.service}"], (end, 0)]
            for (start, replicas), (until, _) in pairwise(steps):
                if replicas or until == end:
                    continue
                ready = until.timestamp() + ASSUMED_START.total_seconds()
                waited = [ready - at for at in one.times if start.timestamp() < at < ready]
                number, seconds = number + len(waited), seconds + sum(waited)
                here = until.astimezone(PARIS)
                wakes += here.time() != time(7) or here.weekday() > 4
        return number, seconds, wakes


SHAPES = (OFFICE, SHOP, Shape(8, 19, range(5), strays=1.5), NOISE)
