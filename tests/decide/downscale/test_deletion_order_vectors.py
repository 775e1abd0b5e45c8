"""The cases of kubernetes pkg/controller/controller_utils_test.go and replica_set_test.go."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reconciler.decide.downscale.deletion_order import RankingRules, rank_victims
from reconciler.model import Pod
from tests.decide.downscale.comparison import compared

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "data" / "downscale.json").read_text(encoding="utf-8")
)


def cases(kind: str) -> list[Any]:
    """The reference implementation's own cases of a kind, as parameters."""
    return [pytest.param(case, id=case["id"]) for case in VECTORS["cases"] if case["kind"] == kind]


def _pod(fields: dict[str, Any]) -> Pod:
    return Pod(
        name=fields["name"],
        uid=fields["uid"],
        node=fields["node"],
        phase=fields["phase"],
        ready=fields["ready"],
        ready_since_ns=fields["readySince"],
        created_ns=fields["created"],
        restarts=fields["restarts"],
        sidecar_restarts=fields["sidecarRestarts"],
        deletion_cost=fields["deletionCost"],
        terminating=fields["terminating"],
    )


PODS = {key: _pod(fields) for key, fields in VECTORS["pods"].items()}


def rules_of(case: dict[str, Any]) -> RankingRules:
    gates = case["gates"]
    return RankingRules(
        logarithmic=gates.get("LogarithmicScaleDown", False), deletion_cost=gates.get("PodDeletionCost", False)
    )


@pytest.mark.parametrize("case", cases("less"))
def test_one_pod_before_another(case: dict[str, Any]) -> None:
    ranks = (case["rankA"], case["rankB"])
    there = compared(PODS[case["a"]], PODS[case["b"]], ranks=ranks, now_ns=VECTORS["now"], rules=rules_of(case))
    back = compared(PODS[case["b"]], PODS[case["a"]], ranks=ranks[::-1], now_ns=VECTORS["now"], rules=rules_of(case))
    assert (there[0], back[0]) == {"equal": (0, 0), "a_before_b": (-1, 1)}[case["expect"]]


@pytest.mark.parametrize("case", cases("filter_active"))
def test_active_pods(case: dict[str, Any]) -> None:
    ranking = rank_victims([PODS[key] for key in case["pods"]], 99, now_ns=VECTORS["now"])
    assert ranking.victims == tuple(PODS[key] for key in case["expectActive"])


@pytest.mark.parametrize("case", cases("get_pods_to_delete"))
def test_pods_to_delete(case: dict[str, Any]) -> None:
    pods = [PODS[key] for key in case["pods"]]
    siblings = Counter(PODS[key] for key in case["related"] or case["pods"]) - Counter(pods)
    ranking = rank_victims(
        pods, case["diff"], now_ns=VECTORS["now"], siblings=tuple(siblings.elements()), rules=rules_of(case)
    )
    assert ranking.victims == tuple(PODS[key] for key in case["expectDeleted"])
    assert ranking.certain
