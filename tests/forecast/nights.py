"""A namespace of one cluster whose nights are forecast: its objects, its policies, and what is forecast of them."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.forecast.simulation import Simulation
from reconciler.forecast.timelines import Forecast, forecast
from tests.forecast.random_fleets import RecordedRequests, document, first_of, policy_set
from tests.real import objects as manifests

FRIDAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
FLEET = document("Fleet", "mix", {"home": "a", "clusters": [{"name": "a"}]})
NIGHTS = {"schedule": {"timeZone": "UTC", "downtime": ["20:00-06:00"]}}
REQUESTS: dict[str, Any] = {
    "name": "requests",
    "metric": {"query": "requests", "atMost": 0, "window": "30m", "noSeries": "Zero"},
}


def a_deployment(name: str, replicas: int = 2, **metadata: Any) -> dict[str, Any]:
    """One in dev, whose pods ask for half a processor and 1 Gi."""
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    made = manifests.a_deployment(name, replicas, spec={"containers": [container]})
    return manifests.with_metadata(manifests.within("dev", made), **metadata)


def a_service(name: str) -> dict[str, Any]:
    return manifests.within("dev", manifests.a_service(name))


def an_idling_policy(*criteria: Any, **spec: Any) -> dict[str, Any]:
    selector = {"namespaces": {"include": ["dev"]}, "services": {}}
    return document("IdlingPolicy", "nights", {"selector": selector, "idleWhen": list(criteria), **spec})


def played(
    policies: list[dict[str, Any]], objects: list[dict[str, Any]], days: int = 1, fleet: dict[str, Any] = FLEET
) -> Forecast:
    """What is forecast where each cluster of `fleet` has `objects`."""
    requests = RecordedRequests(frozenset({"busy"}))
    names = [one["name"] for one in fleet["spec"]["clusters"]]
    clusters = {name: MemoryCluster.of_manifests(name, copy.deepcopy(objects), first_of) for name in names}
    opened = Opened({name: Backend(name, cluster=one, metrics=requests) for name, one in clusters.items()})
    found = policy_set([fleet, *policies])
    return forecast(found, Simulation(found, opened), FRIDAY, FRIDAY + timedelta(days=days))
