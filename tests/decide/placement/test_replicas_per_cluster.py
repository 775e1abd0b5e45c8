"""Allocation: the federation planner's own cases, tables for each step, and what is refused."""

from __future__ import annotations

import json
from collections import UserDict
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from reconciler.decide.placement.replicas_per_cluster import allocate_replicas
from reconciler.decide.placement.rounding import tie_hashes, tie_order
from reconciler.errors import PolicyError
from tests.cases import cases

PLANNER = json.loads((Path(__file__).parents[2] / "data" / "planner.json").read_text(encoding="utf-8"))
"""Inputs and exact results of the federation planner."""


def spread(entries, total, fleet, rebalance=True, **known):
    return allocate_replicas({"rebalance": rebalance, "clusters": entries}, total, fleet, **known)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["name"]) for case in PLANNER["cases"]])
def test_kubefed_rounding_is_the_federation_planner(case):
    preferences = {key: value for key, value in case["preferences"].items() if key != "totalReplicas"}
    found = allocate_replicas(
        preferences,
        case["preferences"]["totalReplicas"],
        case["clusters"],
        current=case["current"],
        capacity=case["capacity"],
        key=case["key"],
        rounding="kubefed",
    )
    assert found.replicas == case["expected_plan"]
    assert found.planner_overflow == case["expected_overflow"]


def test_tie_hash_is_fnv_1_over_name_and_key():
    # Source: test values of FNV-1 32-bit, draft-eastlake-fnv, Appendix C.
    assert tie_hashes(("", "a", "foobar"), "") == (0x811C9DC5, 0x050C5D7E, 0x31F0B262)
    assert tie_hashes(("foo", "", "f"), "bar") == (0x31F0B262, *tie_hashes(("bar", "fbar"), ""))
    assert tie_hashes(("a", "b"), "shop/web") == tie_hashes(("ashop/web", "bshop/web"), "")


# The critical values of chi-squared at one in a million, for 1, 4 and 49 degrees of freedom.
CHANCE = {2: 23.93, 5: 33.38, 50: 110.0}
SHAPES = {
    "numbers at the end": lambda number: f"shop/web-{number:02}",
    "short names": lambda number: f"shop/{chr(97 + number % 26)}{number // 26}",
    "namespaces": lambda number: f"team-{number}/web",
    "UUIDs": lambda number: f"shop/{UUID(int=number * 2**96 + number, version=4)}",
}


def first_served(fleet, key):
    return fleet[tie_order(tuple(fleet), key, "Fair")[0]]


@pytest.mark.parametrize("clusters", CHANCE)
@pytest.mark.parametrize("shape", SHAPES)
def test_federated_replica_sets_of_one_replica_spread_over_the_clusters(shape, clusters):
    """4,000 names land on each cluster as often as by chance."""
    fleet = [f"cluster-{number:02}" for number in range(clusters)]
    landed = dict.fromkeys(fleet, 0)
    for number in range(4_000):
        landed[first_served(fleet, SHAPES[shape](number))] += 1
    expected = 4_000 / clusters
    assert sum((count - expected) ** 2 / expected for count in landed.values()) < CHANCE[clusters]


def test_what_was_checked_before_does_not_stand_for_what_only_looks_like_it():
    entries = {"*": {"weight": 1}, "A": {"minReplicas": 1}}
    seen = spread(entries, 8, ["A", "B"]).replicas
    assert spread(UserDict(entries), 8, ["A", "B"]).replicas == seen
    for odd in (True, 1.0, "1"):
        with pytest.raises(PolicyError, match="expected a whole number"):
            spread({"*": {"weight": odd}, "A": {"minReplicas": 1}}, 8, ["A", "B"])


@cases(
    "entries total known expected",
    ("own entry", {"*": {"weight": 1}, "B": {"weight": 3}}, 8, {}, {"A": 2, "B": 6}),
    ("own replaces * whole", {"*": {"weight": 1, "minReplicas": 2}, "B": {}}, 8, {}, {"A": 8, "B": 0}),
    ("no entry, nothing", {"A": {"weight": 1}}, 8, {}, {"A": 8, "B": 0}),
    ("no weight, no share", {"*": {"weight": 0}}, 8, {}, {"A": 0, "B": 0}),
    ("maximum None is none", {"*": {"weight": 1, "maxReplicas": None}}, 8, {}, {"A": 4, "B": 4}),
    ("maximum 0", {"*": {"weight": 1, "maxReplicas": 0}}, 8, {}, {"A": 0, "B": 0}),
    ("no entries at all", {}, 8, {}, {"A": 0, "B": 0}),
    ("minimum within capacity", {"*": {"minReplicas": 5}}, 8, {"capacity": {"A": 2}}, {"A": 2, "B": 5}),
    ("not of the fleet", {"*": {"weight": 1}}, 8, {"current": {"Z": 9}, "capacity": {"Z": 0}}, {"A": 4, "B": 4}),
)
@pytest.mark.parametrize("rounding", ["fair", "kubefed"])
def test_minimum_share_and_limits(entries, total, known, expected, rounding):
    assert spread(entries, total, ["A", "B"], rounding=rounding, **known).replicas == expected


def test_without_a_word_about_rebalance_replicas_stay_where_they_are():
    found = allocate_replicas({"clusters": {"*": {"weight": 1}}}, 6, ["A", "B"], current={"A": 6})
    assert found.replicas == {"A": 6, "B": 0}


def test_names_may_be_of_any_script():
    assert allocate_replicas({}, 2, ["Köln", "東京"]).replicas == {"Köln": 1, "東京": 1}


def test_planner_overflow_is_told_with_kubefed_rounding_only():
    entries, capacity = {"*": {"weight": 1}}, {"B": 1}
    assert spread(entries, 10, ["A", "B"], capacity=capacity).planner_overflow == {}
    assert spread(entries, 10, ["A", "B"], capacity=capacity, rounding="kubefed").planner_overflow == {"B": 4}


@pytest.mark.parametrize(("total", "expected"), [(5, {"A": 5, "B": 0}), (9, {"A": 3, "B": 6})])
@pytest.mark.parametrize("rounding", ["fair", "kubefed"])
def test_a_maximum_below_the_minimum_is_computed_as_the_planner_does(total, expected, rounding):
    entries = {"A": {"minReplicas": 5, "maxReplicas": 3, "weight": 2}, "B": {"weight": 1}}
    assert spread(entries, total, ["A", "B"], rounding=rounding).replicas == expected


HUGE = 2**53


def test_a_bank_that_lasts_for_millions_of_kubefed_rounds():
    entries = {"A": {"weight": 1}, "B": {"weight": 1, "maxReplicas": 0}}
    found = spread(entries, HUGE, ["A", "B"], rebalance=False, current={"A": HUGE - 1}, rounding="kubefed")
    assert found.replicas == {"A": HUGE, "B": 0}


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


ENDLESS = nested(100_000)
LONGEST = "n" * 253


A = "preferences.clusters.A"


def of_a(entry: Any, name: str = "A") -> dict[str, Any]:
    """The preferences of one cluster."""
    return {"preferences": {"clusters": {name: entry}}}


@cases(
    "arguments message",
    ("negative total", {"total": -1}, "total: -1, expected a whole number from 0 to 2**53"),
    ("total too large", {"total": 2**53 + 1}, f"total: {2**53 + 1}, expected"),
    ("total is a truth value", {"total": True}, "total: True, expected"),
    ("total is a float", {"total": 2.0}, "total: 2.0, expected"),
    ("preferences a list", {"preferences": []}, "preferences: [], expected a mapping"),
    (
        "unknown key",
        {"preferences": {"rebalanced": True}},
        "preferences.rebalanced: unknown field, expected rebalance, clusters",
    ),
    ("number", {"preferences": {"rebalance": 1}}, "preferences.rebalance: 1, expected true or false"),
    ("other total", {"preferences": {"totalReplicas": 4}}, "preferences.totalReplicas: 4, expected the total, 3"),
    ("unknown key of A", of_a({"wieght": 1}), f"{A}.wieght: unknown field, expected minReplicas, maxReplicas, weight"),
    ("no entry", of_a(None), f"{A}: None, expected a mapping"),
    ("negative weight", of_a({"weight": -1}), f"{A}.weight: -1, expected"),
    ("maximum too large", of_a({"maxReplicas": 2**53 + 1}), f"{A}.maxReplicas: {2**53 + 1}, expected"),
    ("number as name", {"preferences": {"clusters": {1: {}}}}, "preferences.clusters.1: unknown field"),
    ("negative current", {"current": {"A": -1}}, "current.A: -1, expected"),
    ("capacity a text", {"capacity": {"A": "6"}}, "capacity.A: '6', expected"),
    ("one text as fleet", {"clusters": "ABC"}, "clusters: 'ABC', expected a list of names"),
    ("twice", {"clusters": ["A", "A"]}, "clusters: 'A' is named twice, expected each cluster once"),
    ("two names twice", {"clusters": ["0", "B", "A", "B", "A"]}, "clusters: 'A' is named twice"),
    ("a number among names", {"clusters": ["A", 5]}, "clusters: ['A', 5], expected a list of names"),
    ("the longest name", of_a({"weight": -1}, LONGEST), f"preferences.clusters.{LONGEST}.weight: -1, expected"),
    ("a name longer than any", of_a({"weight": -1}, f"{LONGEST}x"), f"preferences.clusters.'{LONGEST[:40]}"),
    ("unknown rounding", {"rounding": "up"}, 'rounding: \'up\', expected "fair" or "kubefed"'),
    ("key is nothing", {"key": None}, "key: None, expected a text"),
    ("long total", {"total": 10**100}, f"total: 1{'0' * 58}…, expected a whole number"),
    ("weight without end", of_a({"weight": ENDLESS}), f"{A}.weight: a value of type list, expected a whole number"),
    ("no name to print", of_a({"weight": -1}, "\ud800"), "preferences.clusters.'\\ud800'.weight: -1, expected"),
    ("endless name", {"current": {10**5000: 1}}, "current.a value of type int: unknown field"),
    ("key without meaning", {"key": "\ud800"}, "key: '\\ud800', expected a text in Unicode"),
    ("the last such sign", {"key": "\udfff"}, "key: '\\udfff', expected a text in Unicode"),
    ("such a name", {"clusters": ["A", "\ud800"]}, "clusters: ['A', '\\ud800'], expected a list"),
    ("no fleet", {"clusters": None}, "clusters: None, expected a list of names"),
    ("names that can be read only once", {"clusters": iter("AB")}, "clusters: <str"),
    ("a list of lists", {"clusters": [["A"]]}, "clusters: [['A']], expected a list of names"),
    ("rounding a list", {"rounding": []}, "rounding: [], expected"),
)
def test_what_is_refused(arguments, message):
    given = {"preferences": {}, "total": 3, "clusters": ["A", "B"]} | arguments
    with pytest.raises(PolicyError) as refused:
        allocate_replicas(given.pop("preferences"), given.pop("total"), given.pop("clusters"), **given)
    assert str(refused.value).startswith(message)
