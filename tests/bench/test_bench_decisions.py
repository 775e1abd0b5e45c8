"""Allocations and rankings: the two decisions with the most arithmetic."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from reconciler.api import Allocation, Pod, allocate_replicas, rank_victims
from tests.bench.measure import SHARES, Work, measured
from tests.real.binaries import go_program
from tests.real.fixtures import missing_part_skips

pytestmark = pytest.mark.bench
ALLOCATIONS = 10_000
CLUSTERS = [f"cluster-{n:02}" for n in range(50)]
PREFERENCES = {
    "rebalance": True,
    "clusters": {
        "*": {"weight": 1},
        **{
            name: {"weight": 1 + n % 7, "minReplicas": n % 3, "maxReplicas": 40} for n, name in enumerate(CLUSTERS[:20])
        },
    },
}
PODS = 10_000
SECOND = 10**9
NOW = 1_700_000_000 * SECOND


IN_GO = "the federation planner's algorithm in Go"


def allocations(count: int, rounding: str) -> list[Allocation]:
    return [
        allocate_replicas(PREFERENCES, 100 + n % 200, CLUSTERS, key=f"shop/web-{n}", rounding=rounding)
        for n in range(count)
    ]


@pytest.mark.parametrize("rounding", ["fair", "kubefed"])
@pytest.mark.parametrize("count", [ALLOCATIONS // share for share in SHARES])
def test_allocations(benchmark, rounding, count):
    work = Work(f"allocations over 50 clusters, rounding {rounding}", count, IN_GO, 1, rounds=3)
    assert len(measured(benchmark, work, lambda: allocations(count, rounding))) == count


@pytest.fixture(scope="module")
def go_planner(tmp_path_factory) -> Path:
    """The same work in Go, built; skipped where there is no Go to build it."""
    folder = tmp_path_factory.mktemp("go")
    with missing_part_skips():
        return go_program(Path(__file__).with_name("go_planner"), folder / "go_planner", folder / "build.log")


@pytest.mark.parametrize("count", [ALLOCATIONS // share for share in SHARES])
def test_allocations_in_go(benchmark, go_planner, count):
    given = json.dumps({"clusters": CLUSTERS, "preferences": PREFERENCES["clusters"]})

    def allocate():
        return subprocess.run([go_planner, str(count)], input=given, capture_output=True, text=True, check=True).stdout

    ours = 0
    for found in allocations(count, "kubefed"):
        for name in CLUSTERS:
            ours = (ours * 31 + found.replicas[name]) % 2**32
    assert measured(benchmark, Work(IN_GO, count, rounds=3), allocate) == f"{ours}\n"


@pytest.mark.parametrize("rounding", ["fair", "kubefed"])
@pytest.mark.parametrize("total", [10**4, 10**6, 10**8])
def test_allocation_of_many_replicas(benchmark, rounding, total):
    preferences = {"rebalance": True, "clusters": {"*": {"weight": 3}, "cluster-07": {"weight": 5}}}

    def allocate():
        return allocate_replicas(preferences, total, CLUSTERS, key="shop/web", rounding=rounding)

    work = Work(f"one allocation by its replicas, rounding {rounding}", total, rounds=50)
    assert sum(measured(benchmark, work, allocate).replicas.values()) == total


def pods_of(count: int) -> list[Pod]:
    """Pods of all sorts: most of them ready, of ages over a year, on one node in ten pods."""
    return [
        Pod(
            name=f"web-{n:05}",
            uid=f"uid-{n * 7919 % 100_003:06}",
            node="" if n % 97 == 0 else f"node-{n % (count // 10 + 1)}",
            phase="Pending" if n % 97 == 0 else "Running",
            ready=n % 13 != 0,
            ready_since_ns=NOW - (n * 7919 % 31_536_000) * SECOND,
            created_ns=NOW - (n * 7919 % 31_536_000) * SECOND - SECOND,
            restarts=n % 5,
            deletion_cost=str(n % 3) if n % 11 == 0 else None,
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("count", [PODS // share for share in SHARES])
def test_ranking(benchmark, count):
    pods = pods_of(count)
    work = Work("ranking of the pods of one ReplicaSet", count)
    ranking = measured(benchmark, work, lambda: rank_victims(pods, count // 3, now_ns=NOW))
    assert len(ranking.victims) == count // 3
