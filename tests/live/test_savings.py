"""What `savings` counts is what the API server's own pods say: two nights, pods counted after each run."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest

from tests.live.one_namespace import OneNamespace
from tests.real.cluster import create, wait_until
from tests.real.objects import a_deployment

START = datetime.fromisoformat("2035-11-19T12:00:00+00:00")
REPLICAS = {"web": 3, "api": 2}


def test_two_nights_saved_the_pods_that_were_not_there(one_namespace: OneNamespace) -> None:
    api, namespace = one_namespace.api, one_namespace.namespace
    one_namespace.write(selector="workloads: {kinds: [Deployment]}")
    create(api, [a_deployment(name, replicas) for name, replicas in REPLICAS.items()], namespace)

    def pods() -> int:
        return sum("deletionTimestamp" not in one["metadata"] for one in one_namespace.items("/api/v1/{}pods"))

    whole = sum(REPLICAS.values())
    wait_until(lambda: pods() == whole, "all pods")
    absent, at, missing = 0.0, START, 0
    for night in range(2):
        for hour in (20, 31):
            run = START.replace(hour=0) + timedelta(days=night, hours=hour)
            absent += missing * ((run - at) / timedelta(hours=1))
            one_namespace.apply(run.strftime("%Y-%m-%dT%H:%M:%SZ"))
            expected = 0 if hour == 20 else whole
            wait_until(lambda expected=expected: pods() == expected, f"{expected} pods")
            at, missing = run, whole - pods()
    end = (START + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
    said = json.loads(one_namespace.call("savings", "--since", "2d", "--now", end, "--by", "namespace", "-o", "json"))
    saved = {one["name"]: one["replicaHours"] for one in said["groups"]}  # other tests have namespaces there too
    assert saved[f"member/{namespace}"] == pytest.approx(absent, rel=0.01)
    assert absent == 2 * 11 * whole
