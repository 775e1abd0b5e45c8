"""A forecast of a week: some thirty moments at which a fifth of the workloads changes."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.forecast.simulation import Simulation
from reconciler.forecast.timelines import Forecast, forecast
from tests.bench.measure import SHARES, Work, measured
from tests.forecast.nights import a_deployment, a_service
from tests.forecast.random_fleets import document, first_of, policy_set

# The time of the processor, as others may be using the machine, and as the command line runs: without the collector.
pytestmark = [pytest.mark.bench, pytest.mark.benchmark(disable_gc=True, timer=time.process_time)]
WORKLOADS = 500
MONDAY = datetime(2026, 11, 16, 12, tzinfo=UTC)
GROUPS = 3


def in_namespace(manifest: dict, namespace: str) -> dict:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def an_idling_policy(group: int) -> dict:
    schedule = {"timeZone": "Europe/Paris", "downtime": [f"Mon-Fri {18 + group}:00-{5 + group:02}:00"]}
    selector = {"namespaces": {"include": [f"dev-{group}"]}, "services": {}}
    return document("IdlingPolicy", f"nights-{group}", {"selector": selector, "idleWhen": [{"schedule": schedule}]})


LIMIT = {"share": "100%", "atLeast": 10}
FLEET = document(
    "Fleet",
    "bench",
    {
        "home": "a",
        "clusters": [{"name": "a"}],
        "limits": {"default": {"perCluster": LIMIT, "fleet": LIMIT}},
    },
)


@pytest.mark.parametrize("count", [WORKLOADS // share for share in SHARES])
def test_a_week(benchmark, count: int) -> None:
    policies = policy_set([FLEET, *map(an_idling_policy, range(GROUPS))])
    objects = [
        in_namespace(made(f"app-{n}"), f"dev-{n % GROUPS}") for n in range(count) for made in (a_deployment, a_service)
    ]
    opened = Opened({"a": Backend("a", cluster=MemoryCluster.of_manifests("a", objects, first_of))})

    def week() -> Forecast:
        return forecast(policies, Simulation(policies, opened), MONDAY, MONDAY + timedelta(days=7))

    work = Work("forecast of a week, 30 events", count, rounds=2, growth=1.3)
    made = measured(benchmark, work, week)
    assert isinstance(made, Forecast)
    assert len({at for one in made.timelines for at, _ in one.steps[1:]}) == 30
