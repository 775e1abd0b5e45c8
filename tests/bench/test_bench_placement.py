"""Idling and placement joined, for many federated ReplicaSets: the time grows with their number, no faster."""

from __future__ import annotations

import time

import pytest

from reconciler.decide.desired_state import decide
from reconciler.model import ObservedState
from reconciler.policy.kinds.federated_replica_set import TargetRef
from reconciler.policy.types import ClusterPreference
from tests.bench.measure import SHARES, Work, measured
from tests.builders import a_cluster, a_fleet, a_policy_set, a_run, a_workload
from tests.decide.idling.idling_policies import NIGHT, NOON, a_policy, a_schedule, workloads_selector
from tests.decide.placement.placements import a_placed

# As in the program, which collects no garbage; and the time of the processor, as others may be using the machine.
pytestmark = [pytest.mark.bench, pytest.mark.benchmark(disable_gc=True, timer=time.process_time)]
WORKLOADS = 20_000
CLUSTERS = ("east", "west")
FULL = {"*": ClusterPreference(weight=1, max_replicas=3)}


def world(workloads: int):
    """Policies and clusters with so many Deployments, each of which stands at its maximum."""
    names = [f"app-{number}" for number in range(workloads // len(CLUSTERS))]
    federated = tuple(
        a_placed(6, name=name, target=TargetRef("apps/v1", "Deployment", name), clusters=FULL) for name in names
    )
    policies = a_policy_set(
        a_fleet(*CLUSTERS),
        federated=federated,
        idling=(a_policy("nights", a_schedule(), selector=workloads_selector()),),
    )
    found = {
        name: a_cluster(name, workloads=tuple(a_workload(one, cluster=name) for one in names)) for name in CLUSTERS
    }
    return policies, ObservedState(found)


@pytest.mark.parametrize(("now", "changes"), [(NOON, False), (NIGHT, True)], ids=["placed only", "all to idle"])
@pytest.mark.parametrize("count", [WORKLOADS // share for share in SHARES])
def test_federated_replica_sets(benchmark, count, now, changes):
    policies, state = world(count)
    words = "all to idle" if changes else "all of them at their maximum"
    work = Work(f"decisions about federated ReplicaSets, {words}", count, rounds=3, growth=1.05)
    desired = measured(benchmark, work, lambda: decide(policies, state, a_run(now)))
    assert sum(one.idles for one in desired.decisions) == (count if changes else 0)
