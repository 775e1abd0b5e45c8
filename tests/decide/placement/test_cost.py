"""What a decision costs, counted."""

from __future__ import annotations

from reconciler.decide.desired_state import decide
from reconciler.decide.placement.decide import decide_placement
from reconciler.decide.placement.recorded_status import placement_group
from reconciler.decide.placement.replicas_per_cluster import allocate
from reconciler.model import ObservedState
from reconciler.policy.kinds.federated_replica_set import TargetRef
from reconciler.policy.types import ClusterPreference
from tests.builders import a_cluster, a_fleet, a_policy_set, a_run, a_workload
from tests.decide.idling.idling_policies import NIGHT, a_policy, a_schedule, workloads_selector
from tests.laws import counted

from .placements import a_federated, a_local, a_placed

JOINED = decide.__code__.co_filename


def idled(number):
    """Return what decides about `number` federated ReplicaSets that are to be idled."""
    names = [f"web-{one}" for one in range(number)]
    policies = a_policy_set(
        federated=tuple(a_placed(3, name=name, target=TargetRef("apps/v1", "Deployment", name)) for name in names),
        idling=(a_policy("nights", a_schedule(), selector=workloads_selector()),),
    )
    state = ObservedState({"east": a_cluster(workloads=tuple(a_workload(name) for name in names))})

    def decided():
        assert sum(one.idles for one in decide(policies, state, a_run(NIGHT)).decisions) == number

    return decided


def test_the_workloads_are_not_gone_through_for_each_that_is_idled():
    """Ten times as many workloads take ten times as many steps where idling and placement are joined."""
    few, many = (counted(idled(size), "line", lambda frame: frame.f_code.co_filename == JOINED) for size in (10, 100))
    assert many < 11 * few


def allocations(clusters):
    """Return how many allocations it takes to place a federated ReplicaSet whose clusters are all at their maximum."""
    names = [f"c{number}" for number in range(clusters)]
    federated = a_federated(2 * clusters, clusters={"*": ClusterPreference(weight=1, max_replicas=2)})
    state = ObservedState({name: a_cluster(name) for name in names})
    policies = a_policy_set(a_fleet(*names), federated=(federated,))
    return counted(
        lambda: decide_placement(policies, state, a_run(), {}.get),
        "call",
        lambda frame: frame.f_code is allocate.__code__,
    )


def test_a_plan_does_not_allocate_once_more_for_each_full_cluster():
    assert allocations(20) == allocations(2)


def names_of_groups(removed):
    """Return how many names of groups are made where `removed` policies left git at once, and nothing is done."""
    names = [f"gone-{number}" for number in range(removed)]
    workloads = tuple(a_local("east", 3, a_federated(name=name), name=name) for name in names)
    state = ObservedState({"east": a_cluster("east", workloads=workloads)})

    def decided():
        [held] = decide_placement(a_policy_set(a_fleet("east")), state, a_run(), {}.get).held_back
        assert len(held.decisions) == removed

    return counted(decided, "call", lambda frame: frame.f_code is placement_group.__code__)


def test_policies_that_left_git_are_not_gone_through_for_each_of_them():
    assert names_of_groups(40) < 5 * names_of_groups(10)
