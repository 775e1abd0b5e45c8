"""Cost of the victim order. Source of the budget: 10,000 pods well below 50 ms."""

from __future__ import annotations

import random
from typing import Any

import pytest

from reconciler.decide.downscale.deletion_order import rank_victims
from reconciler.model import Pod
from tests.builders import NOW_NS

pytestmark = pytest.mark.bench


def pods(count: int, spread_ns: int) -> list[Pod]:
    """Pods on 100 nodes, Ready at random times (whole seconds) within `spread_ns`, some restarted."""
    draw = random.Random(1)

    def pod(index: int) -> Pod:
        at = NOW_NS - (1 << 50) - draw.randrange(spread_ns // 10**9 + 1) * 10**9
        uid, node = f"{draw.getrandbits(128):032x}", f"node-{draw.randrange(100)}"
        return Pod(f"web-{index}", uid, node, ready_since_ns=at, created_ns=at, restarts=draw.choice((0, 0, 0, 1)))

    return [pod(index) for index in range(count)]


@pytest.mark.parametrize("siblings", [(), None], ids=["Deployment", "bare"])
@pytest.mark.parametrize("spread_ns", [5 * 10**9, 10**15], ids=["one rollout", "over weeks"])
@pytest.mark.parametrize("count", [100, 1_000, 10_000])
def test_rank_victims(benchmark: Any, count: int, spread_ns: int, siblings: tuple[Pod, ...] | None) -> None:
    found = pods(count, spread_ns)
    ranking = benchmark(rank_victims, found, count // 2, now_ns=NOW_NS, siblings=siblings)
    assert len(ranking.victims) == count // 2
