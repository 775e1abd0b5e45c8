"""A morning on which one wake group of two tiers wakes: deciding it, putting it in order, writing the plan."""

from __future__ import annotations

import time

import msgspec
import pytest

from reconciler.model import ObservedState, Service
from reconciler.plan.change_json import change_document
from reconciler.plan.order import in_order, numbered_actions
from reconciler.policy.types import WakeOrder
from tests.bench.measure import SHARES, Work, measured
from tests.builders import a_cluster, a_ref, a_service, a_state, a_workload
from tests.decide.idling.idling_policies import MONDAY, NIGHT, a_policy, decided, labelled, run_in
from tests.decide.idling.world import a_world

# The time of the processor, as others may be using the machine.
pytestmark = [pytest.mark.bench, pytest.mark.benchmark(timer=time.process_time)]
WORKLOADS = 20_000
POLICIES = tuple(
    a_policy(
        f"tier-{tier}",
        selector=labelled("tier", str(tier)),
        wake_order=WakeOrder("all", tier),
    )
    for tier in range(2)
)


def idled(count: int) -> ObservedState:
    """So many workloads, each behind its Service, with the marks that a run left on one of each tier."""
    firsts = ["app-0", "app-1"]
    services = [a_service(name, labels={"tier": name[-1]}) for name in firsts]
    world = a_world(*services, *(a_workload(name) for name in firsts), now=NIGHT)
    run_in(world, *POLICIES)
    marked = [world.objects[a_ref(name, kind="Service")] for name in firsts]
    asleep = [world.objects[a_ref(name)].annotations for name in firsts]
    return a_state(
        a_cluster(
            services=tuple(_service(marked[n % 2], f"app-{n}") for n in range(count)),
            workloads=tuple(a_workload(f"app-{n}", replicas=0, annotations=asleep[n % 2]) for n in range(count)),
        )
    )


def _service(first: Service, name: str) -> Service:
    """Return a Service that is marked like `first`, and in front of the workload of its own name."""
    lists = {key: text.replace(f'"{first.ref.name}"', f'"{name}"') for key, text in first.annotations.items()}
    return a_service(name, labels=first.labels, annotations=lists)


@pytest.mark.parametrize("count", [WORKLOADS // share for share in SHARES])
def test_waking_two_tiers(benchmark, count):
    state = idled(count)

    def wake() -> bytes:
        decisions = decided(state, *POLICIES, now=MONDAY).desired.decisions
        return msgspec.json.encode([change_document(action) for action in numbered_actions(in_order(decisions))])

    work = Work("deciding and ordering the wakes of two tiers", count, rounds=3, growth=1.05)
    assert measured(benchmark, work, wake).count(b'"verb":"wake"') == count
