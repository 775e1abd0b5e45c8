"""The cases of kubernetes pkg/controller/controller_utils_test.go and replica_set_test.go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from reconciler.decide.downscale.deletion_order import RankingRules, compare, rank_victims
from tests.decide.downscale.vectors import cases, load, pods_of

VECTORS = load("downscale.json")
PODS = pods_of(VECTORS)


def rules_of(case: dict[str, Any]) -> RankingRules:
    gates = case["gates"]
    return RankingRules(
        logarithmic=gates.get("LogarithmicScaleDown", False), deletion_cost=gates.get("PodDeletionCost", False)
    )


@pytest.mark.parametrize("case", cases(VECTORS, "less"))
def test_one_pod_before_another(case: dict[str, Any]) -> None:
    ranks = (case["rankA"], case["rankB"])
    there = compare(PODS[case["a"]], PODS[case["b"]], ranks=ranks, now_ns=VECTORS["now"], rules=rules_of(case))
    back = compare(PODS[case["b"]], PODS[case["a"]], ranks=ranks[::-1], now_ns=VECTORS["now"], rules=rules_of(case))
    assert (there.sign, back.sign) == {"equal": (0, 0), "a_before_b": (-1, 1)}[case["expect"]]


@pytest.mark.parametrize("case", cases(VECTORS, "filter_active"))
def test_active_pods(case: dict[str, Any]) -> None:
    ranking = rank_victims([PODS[key] for key in case["pods"]], 99, now_ns=VECTORS["now"])
    assert ranking.victims == tuple(PODS[key] for key in case["expectActive"])


@pytest.mark.parametrize("case", cases(VECTORS, "get_pods_to_delete"))
def test_pods_to_delete(case: dict[str, Any]) -> None:
    pods = [PODS[key] for key in case["pods"]]
    siblings = Counter(PODS[key] for key in case["related"] or case["pods"]) - Counter(pods)
    ranking = rank_victims(
        pods, case["diff"], now_ns=VECTORS["now"], siblings=tuple(siblings.elements()), rules=rules_of(case)
    )
    assert ranking.victims == tuple(PODS[key] for key in case["expectDeleted"])
    assert ranking.certain
