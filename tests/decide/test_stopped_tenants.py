"""What is left of a cluster beside a stopped tenant, what is in its namespaces, and what is told of it."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from reconciler.decide.decisions import DesiredState
from reconciler.decide.stopped_tenants import beside_stopped, with_stopped
from reconciler.errors import Problem
from reconciler.model import (
    Endpoints,
    EndpointSlice,
    Event,
    HorizontalPodAutoscaler,
    ObjectRef,
    ObservedCluster,
    ObservedState,
    OwnerReference,
)
from reconciler.policy.types import Place, PolicySet, Tenant
from tests.builders import (
    NOW,
    a_cluster,
    a_federated_replica_set,
    a_fleet,
    a_namespace,
    a_pod,
    a_policy_set,
    a_ref,
    a_run,
    a_service,
    a_state,
    a_workload,
    an_idle_record,
)
from tests.cases import cases

TEAM_A = Tenant(name="a", place=Place("fleet.yaml", 7), paths=("teams/a/",), namespaces=("a-*",), clusters=("east",))
TEAM_B = replace(TEAM_A, name="b", namespaces=("b-*",), clusters=("*",))
SPACES = ("a-1", "b-1", "shop")
ASKED = an_idle_record(at="2026-11-20T08:00:00Z", wake_requested_at="2026-11-20T12:00:00Z")


def everything_in(cluster: str, *spaces: str) -> ObservedCluster:
    """A cluster with one object of each kind in each namespace."""

    def ref(kind: str, space: str, group: str = "") -> ObjectRef:
        return ObjectRef(cluster, space, kind, "web", group)

    at = {"cluster": cluster}
    return a_cluster(
        cluster,
        namespaces=tuple(a_namespace(one, **at) for one in spaces),
        workloads=tuple(a_workload(namespace=one, **at) for one in spaces),
        services=tuple(a_service(namespace=one, **at) for one in spaces),
        endpoints=tuple(Endpoints(ref("Endpoints", one), "uid") for one in spaces),
        endpoint_slices=tuple(
            EndpointSlice(ref("EndpointSlice", one, "discovery.k8s.io"), "web", ()) for one in spaces
        ),
        autoscalers=tuple(
            HorizontalPodAutoscaler(ref("HorizontalPodAutoscaler", one, "autoscaling"), "uid", ("Deployment", "web"), 3)
            for one in spaces
        ),
        events=tuple(Event("NeedPods", one, ("Service", one, "web"), at=NOW) for one in spaces),
        pods={ref("Service", one): (a_pod(),) for one in spaces},
    )


STATE = a_state(everything_in("east", *SPACES), everything_in("west", *SPACES))


def policies(*stopped: Tenant, **fields: Any) -> PolicySet:
    return a_policy_set(a_fleet("east", "west"), stopped=stopped, **fields)


@cases(
    "stopped east west",
    ("nobody", (), SPACES, SPACES),
    ("on one cluster", (TEAM_A,), ("b-1", "shop"), SPACES),
    ("on all clusters", (TEAM_B,), ("a-1", "shop"), ("a-1", "shop")),
    ("two", (TEAM_A, TEAM_B), ("shop",), ("a-1", "shop")),
)
def test_nothing_of_a_stopped_tenant_is_decided(stopped, east, west):
    _, seen = beside_stopped(policies(*stopped), STATE)
    assert seen == a_state(everything_in("east", *east), everything_in("west", *west))


def test_one_of_another_team_with_that_namespace_in_other_clusters_goes_on():
    theirs = a_federated_replica_set(namespace="a-1", tenant="c", within=("west",))
    usable, _ = beside_stopped(policies(TEAM_A, federated=(theirs,)), STATE)
    assert [one.key for one in usable.federated] == ["a-1/web"]
    assert "placement" not in {one.job for one in told(TEAM_A, federated=(theirs,)).undecided}


def told(*stopped: Tenant, state: ObservedState = STATE, desired: DesiredState | None = None, **fields: Any):
    return with_stopped(desired or DesiredState(), policies(*stopped, **fields), state, a_run(NOW))


def test_clusters_that_only_wake_are_not_woken_twice():
    asleep = a_cluster(workloads=(a_workload(namespace="a-1", replicas=0, annotations=ASKED),))
    assert told(TEAM_A, state=ObservedState(clusters={}, wakes_only={"east": asleep})).decisions == ()


def test_the_notice_names_its_files_once_and_in_order():
    problems = tuple(Problem(f"teams/a/{name}.yaml", line, 1, "", "is wrong") for name in "ba" for line in (1, 2))
    (notice,) = told(TEAM_A, problems={"a": problems, "b": problems}).notices
    assert (notice.kind, notice.subject, notice.partial) == ("tenantStopped", "tenant a", True)
    assert notice.text == (
        "the policies of tenant a cannot be used: teams/a/a.yaml and teams/a/b.yaml; its workloads stay as they are, "
        "and only wakes that are due or requested are done"
    )


def test_each_of_its_federated_replica_sets_is_undecided():
    federated = tuple(a_federated_replica_set(namespace=one) for one in SPACES)
    outcome = told(TEAM_A, TEAM_B, federated=federated)
    assert [(one.subject, one.job, one.policy, one.why) for one in outcome.undecided] == [
        (f"{name}-1/web", "placement", "web", f"the policies of tenant {name} cannot be used") for name in "ab"
    ]


def test_each_of_its_workloads_is_explained_and_what_they_own_is_not():
    owned = a_workload(
        "web-1", namespace="a-1", kind="ReplicaSet", owner=OwnerReference("apps/v1", "Deployment", "web", "")
    )
    state = a_state(replace(STATE.clusters["east"], workloads=(owned, *STATE.clusters["east"].workloads)))
    outcome = told(TEAM_B, TEAM_A, state=state)
    assert [(one.ref, one.outcome, one.selected, one.why) for one in outcome.explanations] == [
        (a_ref(namespace=f"{name}-1"), "left as it is", False, f"the policies of tenant {name} cannot be used")
        for name in "ab"
    ]
