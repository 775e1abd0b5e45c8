"""A cluster that lags keeps what it has and lagging: receives no replicas until all of its pods run.

Source: seed federated-replicasets.md: "FRSC never moves replicas to LRS that have not scheduled/running pods or that
has pods that failed to be created."
"""

from __future__ import annotations

import pytest

from reconciler.model import Condition
from reconciler.policy.types import ClusterPreference
from tests.builders import a_cluster

from .placements import (
    EVENLY,
    a_federated,
    a_fleet_with,
    a_local,
    a_status,
    ago,
    numbers,
    place,
    row,
    settled,
    some_pods,
    with_pods,
)

QUOTA = (Condition("ReplicaFailure", "True", "FailedCreate", since=ago(seconds=20)),)
DAY = 24 * 60


def running(cluster, ready, pods, **fields):
    """`cluster` with ten replicas, of which `ready` run; `pods` are all there are."""
    status = {"ready_replicas": ready or None, "available_replicas": ready or None}
    return with_pods(settled(cluster, 10, **status, **fields), pods)


LAGGING = [
    pytest.param(running("c", 6, some_pods(6, 4, minutes=4)), id="4 unschedulable for 4 minutes"),
    pytest.param(running("c", 6, some_pods(6), conditions=QUOTA), id="4 cannot be created"),
    pytest.param(running("c", 0, some_pods(10, minutes=DAY, ready=False)), id="10 crash or are pending for a day"),
    pytest.param(running("c", 9, (*some_pods(9), *some_pods(1, minutes=2, ready=False))), id="1 starts for 2 minutes"),
]


@pytest.mark.parametrize("lagging", LAGGING)
def test_a_raised_total_goes_to_calm_clusters_first(lagging):
    assert numbers(place(settled("a", 10), lagging, federated=a_federated(23))) == {"a": "scale 10 -> 13"}


def test_nothing_is_drained_to_a_cluster_that_lags():
    fleet = a_fleet_with("Draining", "c", "d")
    crashing = running("c", 0, some_pods(10, minutes=DAY, ready=False))
    desired = place(crashing, settled("d", 5), fleet=fleet, federated=a_federated(15))
    assert numbers(desired) == {}
    assert row(desired, "d").why == "draining, keeps 5 because the other clusters are full"


def lagging_with(most, current, total, **world):
    """`a` at its maximum, `c` with ten replicas of which six run: what becomes of `c` in one run."""
    clusters = {"a": ClusterPreference(weight=1, max_replicas=most), "c": ClusterPreference(weight=1)}
    maps = {"config_maps": (world.pop("status"),)} if "status" in world else {}
    a = a_cluster("a", workloads=(a_local("a", current),), **maps)
    lagging = running("c", 6, some_pods(6), conditions=QUOTA)
    return place(a, lagging, settled("d", 0), federated=a_federated(total, clusters=clusters), **world)


@pytest.mark.parametrize(
    ("desired_before", "total", "expected"),
    [
        pytest.param(30, 30, 10, id="not raised: what is missing stays missing"),
        pytest.param(29, 30, 11, id="raised by one"),
        pytest.param(31, 30, 10, id="lowered"),
        pytest.param(None, 20, 10, id="nobody knows: all have what there is"),
        pytest.param(None, 21, 11, id="nobody knows: one that nobody has"),
        pytest.param(None, 23, 13, id="nobody knows: three that nobody has"),
    ],
)
def test_a_cluster_that_lags_gets_no_more_than_the_total_was_raised_by(desired_before, total, expected):
    status = "{}" if desired_before is None else f'{{"desired":{desired_before},"clusters":{{}}}}'
    found = lagging_with(10, 10, total, status=a_status(status, cluster="a"))
    assert row(found, "c").desired == expected


def test_where_the_status_cannot_be_read_nothing_counts_as_raised():
    clusters = {"a": ClusterPreference(weight=1, max_replicas=10), "c": ClusterPreference(weight=1)}
    home = a_cluster("h", unreadable={"configmaps": "forbidden"})
    lagging = running("c", 6, some_pods(6), conditions=QUOTA)
    desired = place(home, settled("a", 10), lagging, federated=a_federated(23, clusters=clusters))
    assert row(desired, "c").desired == 10


def test_one_that_would_get_no_more_is_not_said_to_lag():
    clusters = EVENLY | {"c": ClusterPreference(weight=1, max_replicas=10)}
    lagging = running("c", 6, some_pods(6), conditions=QUOTA)
    desired = place(settled("a", 20), lagging, federated=a_federated(30, clusters=clusters))
    assert row(desired, "c").why == "weight 1 of 2, max 10"
