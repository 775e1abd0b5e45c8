"""How plan, apply, report, forecast and review grow up to 100,000 workloads on 200 clusters, in memory.

`python -m tests.bench.growth_to_100_000 [WORKLOADS ...]`: processor time of this process, so that others on the machine
count little, and the exponent from each size to the next: 1 is linear. A fifth of the workloads goes idle each night.
"""

from __future__ import annotations

import gc
import math
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.forecast.review import review_of
from reconciler.forecast.simulation import Simulation
from reconciler.forecast.timelines import forecast
from reconciler.pipeline import RunRequest, plan
from reconciler.policy.types import PolicySet
from reconciler.report.text import render_text
from tests.forecast.nights import a_deployment, a_service
from tests.forecast.random_fleets import document, first_of, policy_set

T = TypeVar("T")
SIZES = (1_000, 10_000, 100_000)
PER_CLUSTER, MOST_CLUSTERS = 500, 200
EVENING = datetime(2026, 11, 16, 17, tzinfo=UTC)
NIGHT = EVENING.replace(hour=23)


def policies(clusters: list[str], begin: str) -> PolicySet:
    whole = {"share": "100%", "atLeast": 10}
    limits = {"default": {"perCluster": whole, "fleet": whole}}
    fleet = {"home": clusters[0], "limits": limits, "clusters": [{"name": name} for name in clusters]}
    nights = {"schedule": {"timeZone": "Europe/Paris", "downtime": [f"Mon-Sun {begin}-07:00"]}}
    selector = {"namespaces": {"include": ["dev-0"]}, "services": {}}
    idling = {"selector": selector, "idleWhen": [nights]}
    return policy_set([document("Fleet", "growth", fleet), document("IdlingPolicy", "nights", idling)])


def opened(clusters: list[str], workloads: int) -> Opened:
    backends = {}
    for place, name in enumerate(clusters):
        objects = [
            {**one, "metadata": {**one["metadata"], "namespace": f"dev-{number % 5}"}}
            for number in range(place, workloads, len(clusters))
            for one in (a_deployment(f"app-{number}"), a_service(f"app-{number}"))
        ]
        backends[name] = Backend(name, cluster=MemoryCluster.of_manifests(name, objects, first_of))
    return Opened(backends)


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Return the processor time of `call`, without the collector, as the command line runs, and what it returned."""
    gc.collect()
    gc.freeze()
    gc.disable()
    start = time.process_time()
    found = call()
    seconds = time.process_time() - start
    gc.enable()
    return seconds, found


def used(size: int, clusters: list[str]) -> Iterator[tuple[str, float]]:
    """Yield each step with its processor time for so many workloads."""
    base, head = policies(clusters, "20:00"), policies(clusters, "19:00")
    there, end = opened(clusters, size), EVENING + timedelta(days=1)
    simulation = Simulation(base, there)
    seconds, made = timed(lambda: plan(base, simulation.world, RunRequest(NIGHT)))
    assert sum(one.decision.idles for one in made.actions) == size // 5
    yield "plan", seconds
    yield "report", timed(lambda: render_text(made))[0]
    seconds, step = timed(lambda: simulation.run(NIGHT))
    assert len(step.outcomes) == len(made.actions)
    yield "apply", seconds
    seconds, before = timed(lambda: forecast(base, Simulation(base, there), EVENING, end))
    yield "forecast", seconds
    after = forecast(head, Simulation(head, there), EVENING, end)
    seconds, review = timed(lambda: review_of((base, head), (before, after), (before.first, after.first)))
    assert len(review.differences) == size // 5
    yield "review", seconds


def main(sizes: tuple[int, ...]) -> None:
    """Print a line for each step and size."""
    last: dict[str, tuple[int, float]] = {}
    for size in sizes:
        clusters = [f"c{number:03}" for number in range(min(MOST_CLUSTERS, max(1, size // PER_CLUSTER)))]
        for work, seconds in used(size, clusters):
            words = ""
            if work in last:
                less, fewer = last[work]
                words = f"  exponent {math.log(seconds / fewer) / math.log(size / less):.2f}"
            last[work] = size, seconds
            print(f"{work:9} {size:8,} workloads {len(clusters):4} clusters {seconds:9.2f} s{words}", flush=True)


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SIZES)
