"""A morning on which one wake group of two tiers wakes: deciding it, putting it in order, writing the plan."""

from __future__ import annotations

import msgspec
import pytest

from reconciler.plan.build import in_order, number
from reconciler.plan.file import change_document
from reconciler.policy.types import WakeOrder
from tests.bench.measure import SHARES, Work, measured
from tests.builders import a_service, a_workload
from tests.idling.idling_policies import MONDAY, NIGHT, a_policy, decided, labelled, run_in
from tests.idling.world import a_world

pytestmark = pytest.mark.bench
WORKLOADS = 2_000
POLICIES = tuple(
    a_policy(
        f"tier-{tier}",
        selector=labelled("tier", str(tier)),
        wake_order=WakeOrder("all", tier),
    )
    for tier in range(2)
)


@pytest.mark.parametrize("count", [WORKLOADS // share for share in SHARES])
def test_waking_two_tiers(benchmark, count):
    services = [a_service(f"app-{n}", labels={"tier": str(n % 2)}) for n in range(count)]
    world = a_world(*services, *(a_workload(f"app-{n}") for n in range(count)), now=NIGHT)
    run_in(world, *POLICIES)
    state = world.state()

    def wake() -> bytes:
        decisions = decided(state, *POLICIES, now=MONDAY).desired.decisions
        return msgspec.json.encode([change_document(action) for action in number(in_order(decisions))])

    work = Work("deciding and ordering the wakes of two tiers", count, rounds=3)
    assert measured(benchmark, work, wake).count(b'"verb":"wake"') == count
