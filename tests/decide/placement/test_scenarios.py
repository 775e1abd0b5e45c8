"""The seven scenarios of the seed. Source: federated-replicasets.md, FederateReplicaSet preferences."""

from __future__ import annotations

import pytest

from reconciler.decide.placement.replicas_per_cluster import allocate_replicas

EVENLY = {"*": {"weight": 1}}
AT_MOST_20_IN_C = {"*": {"weight": 1}, "C": {"maxReplicas": 20, "weight": 1}}
A_FIRST = {"A": {"weight": 1000000}, "B": {"weight": 1}, "C": {"weight": 1}}


def spread(entries, rebalance=True, fleet="ABC", key="default/web", **known):
    """Return the replicas as "A=16 B=17 C=17"."""
    preferences = {"rebalance": rebalance, "clusters": entries}
    found = allocate_replicas(preferences, 50, list(fleet), key=key, **known).replicas
    return " ".join(f"{name}={found[name]}" for name in sorted(found))


@pytest.mark.parametrize(
    ("fleet", "capacity", "expected"),
    [
        pytest.param("ABC", {}, "A=16 B=17 C=17", id="all have capacity"),
        pytest.param("ABC", {"C": 6}, "A=22 B=22 C=6", id="C has capacity for 6"),
        pytest.param("A", {}, "A=50", id="B and C are offline"),
    ],
)
def test_scenario_1_evenly(fleet, capacity, expected):
    assert spread(EVENLY, fleet=fleet, capacity=capacity) == expected


@pytest.mark.parametrize(
    "entry",
    [
        pytest.param({"maxReplicas": 2, "weight": 1}, id="maximum and weight"),
        pytest.param({"minReplicas": 2, "weight": 0}, id="minimum without weight"),
        pytest.param({"minReplicas": 2, "maxReplicas": 2}, id="minimum and maximum"),
    ],
)
def test_scenario_2_two_in_each(entry):
    assert spread({"*": entry}) == "A=2 B=2 C=2"


def test_scenario_3_minimums_above_the_total():
    assert spread({"*": {"minReplicas": 20, "weight": 0}}, key="default/nginx") == "A=20 B=20 C=10"


@pytest.mark.parametrize(
    ("fleet", "capacity", "expected"),
    [
        pytest.param("ABC", {}, "A=16 B=17 C=17", id="all have capacity"),
        pytest.param("ABC", {"B": 0}, "A=30 B=0 C=20", id="B has no capacity"),
        pytest.param("AC", {}, "A=30 C=20", id="B is offline"),
        pytest.param("C", {}, "C=20", id="A and B are offline"),
    ],
)
def test_scenario_4_evenly_with_a_maximum(fleet, capacity, expected):
    assert spread(AT_MOST_20_IN_C, fleet=fleet, capacity=capacity) == expected


@pytest.mark.parametrize("rebalance", [False, True])
@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        pytest.param({}, "A=50 B=0 C=0", id="all have capacity"),
        pytest.param({"A": 40}, "A=40 B=5 C=5", id="A has capacity for 40"),
    ],
)
def test_scenario_5_one_cluster_first(rebalance, capacity, expected):
    assert spread(A_FIRST, rebalance, capacity=capacity) == expected


def test_scenario_6_twice_as_much_in_one():
    found = spread({"A": {"weight": 2}, "B": {"weight": 1}, "C": {"weight": 1}})
    assert found in ("A=25 B=12 C=13", "A=25 B=13 C=12")


@pytest.mark.parametrize(
    ("current", "capacity", "expected"),
    [
        pytest.param({"A": 20}, {}, "A=20 B=15 C=15", id="A already has 20"),
        pytest.param({"A": 20}, {"C": 6}, "A=22 B=22 C=6", id="A has 20, C has capacity for 6"),
        pytest.param({"A": 30}, {"C": 6}, "A=30 B=14 C=6", id="A has 30, C has capacity for 6"),
    ],
)
def test_scenario_7_evenly_without_moving(current, capacity, expected):
    assert spread(EVENLY, rebalance=False, current=current, capacity=capacity) == expected
