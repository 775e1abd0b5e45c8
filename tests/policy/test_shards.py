"""Shards: each part of a Fleet belongs to one, few clusters move when their number changes, limits are divided."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.policy.types import PolicySet, Shard, shard_of
from tests.builders import a_fleet
from tests.cases import cases

NAMES = [f"cluster-{number:03}" for number in range(200)]
COUNTS = range(2, 12)


@pytest.mark.parametrize("count", COUNTS)
def test_one_shard_more_only_takes_clusters(count: int) -> None:
    moved = [name for name in NAMES if shard_of(name, count) != shard_of(name, count + 1)]
    assert {shard_of(name, count + 1) for name in moved} == {count}
    assert len(moved) < 2 * len(NAMES) / (count + 1)


def test_no_shard_has_many_more_clusters_than_another() -> None:
    assert sorted(Counter(shard_of(name, 8) for name in NAMES).values()) == pytest.approx([25] * 8, abs=10)


@pytest.mark.parametrize("placed", [frozenset(), frozenset({"shop"})])
def test_each_namespace_of_each_cluster_belongs_to_one_shard(placed: frozenset[str]) -> None:
    shards = [Shard(index, 5, placed=placed) for index in range(5)]
    for name in NAMES[:40]:
        for namespace in ("", "dev", "shop"):
            deciding = [shard for shard in shards if shard.decides_on(name)(namespace)]
            assert len(deciding) == 1
            known = deciding[0].namespaces_on(name)
            assert known is None or namespace in known, "a shard reads what it decides"


@given(st.integers(0, 10_000), st.lists(st.integers(0, 300), min_size=1, max_size=9))
def test_the_parts_of_a_number_sum_to_it(number: int, weights: list[int]) -> None:
    count = len(weights)
    parts = [Shard(index, count).part(number, weights) for index in range(count)]
    assert sum(parts) == (number if sum(weights) else 0)
    assert all(part == 0 for part, weight in zip(parts, weights, strict=True) if not weight)


@cases(
    "placed selected namespaces expected",
    ("nothing is placed", "", "abcdefgh", "*", (2, 2, 2, 2)),
    ("only what is placed is of the first shard", "shop", "abcdefgh", "shop", (1, 0, 0, 0)),
    ("all, where what is placed counts like one shard more", "shop", "abcdefgh", "*", (4, 2, 2, 2)),
    ("one cluster of another shard", "shop", "b", "*", (1, 1, 0, 0)),
    ("no cluster", "", "", "*", (0, 0, 0, 0)),
)
def test_what_policies_state_is_divided_by_what_they_may_select(
    placed: str, selected: str, namespaces: str, expected: tuple[int, ...]
) -> None:
    clusters = tuple((one, index % 4) for index, one in enumerate(a_fleet(*"abcdefgh").clusters))
    shard = Shard(0, 4, clusters, frozenset({placed} - {""}))
    assert shard.weights(lambda one: one.name in selected, (namespaces,)) == expected


def test_a_shard_without_placement_reads_its_clusters_and_home() -> None:
    policies = PolicySet(a_fleet(*NAMES[:30], home=NAMES[0]))
    names = [{one.name for one in policies.in_shard(index, 3).fleet.clusters} for index in range(3)]
    assert set().union(*names) == set(NAMES[:30])
    assert sum(map(len, names)) == 30 + 2, "home is read in each"
