"""The seven scenarios of the seed. Source: federated-replicasets.md, FederateReplicaSet preferences."""

from __future__ import annotations

import pytest

from reconciler.decide.placement.replicas_per_cluster import allocate_replicas
from tests.cases import cases

EVENLY = {"*": {"weight": 1}}
AT_MOST_20_IN_C = {"*": {"weight": 1}, "C": {"maxReplicas": 20, "weight": 1}}
A_FIRST = {"A": {"weight": 1000000}, "B": {"weight": 1}, "C": {"weight": 1}}


def spread(entries, rebalance=True, fleet="ABC", key="default/web", **known):
    """Return the replicas as "A=16 B=17 C=17"."""
    preferences = {"rebalance": rebalance, "clusters": entries}
    found = allocate_replicas(preferences, 50, list(fleet), key=key, **known).replicas
    return " ".join(f"{name}={found[name]}" for name in sorted(found))


@cases(
    "fleet capacity expected",
    ("all have capacity", "ABC", {}, "A=16 B=17 C=17"),
    ("C has capacity for 6", "ABC", {"C": 6}, "A=22 B=22 C=6"),
    ("B and C are offline", "A", {}, "A=50"),
)
def test_scenario_1_evenly(fleet, capacity, expected):
    assert spread(EVENLY, fleet=fleet, capacity=capacity) == expected


@cases(
    "entry",
    ("maximum and weight", {"maxReplicas": 2, "weight": 1}),
    ("minimum without weight", {"minReplicas": 2, "weight": 0}),
    ("minimum and maximum", {"minReplicas": 2, "maxReplicas": 2}),
)
def test_scenario_2_two_in_each(entry):
    assert spread({"*": entry}) == "A=2 B=2 C=2"


def test_scenario_3_minimums_above_the_total():
    assert spread({"*": {"minReplicas": 20, "weight": 0}}, key="default/nginx") == "A=20 B=20 C=10"


@cases(
    "fleet capacity expected",
    ("all have capacity", "ABC", {}, "A=16 B=17 C=17"),
    ("B has no capacity", "ABC", {"B": 0}, "A=30 B=0 C=20"),
    ("B is offline", "AC", {}, "A=30 C=20"),
    ("A and B are offline", "C", {}, "C=20"),
)
def test_scenario_4_evenly_with_a_maximum(fleet, capacity, expected):
    assert spread(AT_MOST_20_IN_C, fleet=fleet, capacity=capacity) == expected


@pytest.mark.parametrize("rebalance", [False, True])
@cases(
    "capacity expected",
    ("all have capacity", {}, "A=50 B=0 C=0"),
    ("A has capacity for 40", {"A": 40}, "A=40 B=5 C=5"),
)
def test_scenario_5_one_cluster_first(rebalance, capacity, expected):
    assert spread(A_FIRST, rebalance, capacity=capacity) == expected


def test_scenario_6_twice_as_much_in_one():
    found = spread({"A": {"weight": 2}, "B": {"weight": 1}, "C": {"weight": 1}})
    assert found in ("A=25 B=12 C=13", "A=25 B=13 C=12")


@cases(
    "current capacity expected",
    ("A already has 20", {"A": 20}, {}, "A=20 B=15 C=15"),
    ("A has 20, C has capacity for 6", {"A": 20}, {"C": 6}, "A=22 B=22 C=6"),
    ("A has 30, C has capacity for 6", {"A": 30}, {"C": 6}, "A=30 B=14 C=6"),
)
def test_scenario_7_evenly_without_moving(current, capacity, expected):
    assert spread(EVENLY, rebalance=False, current=current, capacity=capacity) == expected
