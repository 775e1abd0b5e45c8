"""The digest of what was observed, and the id of a run: other inputs give another one, the same give the same."""

from __future__ import annotations

from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.model import (
    ActivatorReplica,
    ConfigMap,
    Endpoints,
    EndpointSlice,
    Event,
    HorizontalPodAutoscaler,
    Node,
    ObjectRef,
    ObservedState,
    QueryAnswer,
    QueryKey,
    Sample,
)
from reconciler.plan.digests import digest_with_activators, run_id, state_digest
from reconciler.workload_kinds import WorkloadKind
from tests.builders import NOW, a_cluster, a_namespace, a_pod, a_ref, a_run, a_service, a_state, a_workload
from tests.cases import cases

REF = ObjectRef("east", "shop", "x", "x")
SAID = QueryAnswer((Sample({"service": "web"}, 0.0),))
ASKED = QueryKey("east", "nights", "up", "30m")
FIELDS: dict[str, Any] = {
    "identity": "another",
    "workloads": (a_workload(),),
    "services": (a_service(),),
    "endpoints": (Endpoints(REF, "x"),),
    "endpoint_slices": (EndpointSlice(REF, "web"),),
    "namespaces": (a_namespace("dev"),),
    "nodes": (Node(REF),),
    "autoscalers": (HorizontalPodAutoscaler(REF, "x", ("Deployment", "web"), 3),),
    "events": (Event("NeedPods", "shop", None, None, NOW),),
    "config_maps": (ConfigMap(REF, "x", {}),),
    "scale_kinds": (WorkloadKind("example.com", "v1", "Game", "games"),),
    "pods": {a_ref(): (a_pod(),)},
    "victim_pods": (a_pod(),),
    "unreadable": {"pods": "forbidden"},
    "activators": (ActivatorReplica("uid-a", True),),
    "unlisted_replica_sets": "pod-template-hash",
}


def with_fields(**fields: Any) -> ObservedState:
    return a_state(replace(a_cluster(), **fields))


def test_all_that_was_observed_counts():
    assert {*FIELDS, "name"} == set(a_cluster().__struct_fields__)
    states = [
        a_state(),
        with_fields(),
        a_state(a_cluster("west")),
        *(with_fields(**{name: value}) for name, value in FIELDS.items()),
        with_fields(workloads=(a_workload(replicas=4),)),
        with_fields(pods={a_ref("api"): (a_pod(),)}),
        with_fields(unreadable={"pods": "refused"}),
        with_fields(activators=(ActivatorReplica("uid-a", False),)),
        a_state(a_cluster(), unreachable={"west": "refused"}),
        a_state(a_cluster(), unreachable={"west": "no answer"}),
        a_state(a_cluster(), answers={ASKED: SAID}),
        a_state(a_cluster(), answers={ASKED: replace(SAID, samples=(Sample({"service": "web"}, 1.0),))}),
        a_state(a_cluster(), wakes_only={"west": a_cluster("west")}),
    ]
    assert len({state_digest(state) for state in states}) == len(states)


def test_which_policy_was_answered_what_counts_and_not_whether_answers_are_one_value():
    other, later = replace(SAID, samples=()), replace(ASKED, policy="weekends")
    first, second, third = (
        state_digest(a_state(a_cluster(), answers=answers))
        for answers in (
            {ASKED: SAID, later: other},
            {later: replace(other), ASKED: replace(SAID)},
            {ASKED: other, later: SAID},
        )
    )
    assert first == second != third


@pytest.mark.parametrize("at", [0, 255, 256, 299])
def test_each_of_many_objects_counts(at):
    many = [a_workload(f"w{number}") for number in range(300)]
    other = [*many[:at], replace(many[at], replicas=9), *many[at + 1 :]]
    assert state_digest(with_fields(workloads=tuple(many))) != state_digest(with_fields(workloads=tuple(other)))


def named(**values: str) -> MappingProxyType[str, str]:
    """A mapping that is no dict, as NOTHING is."""
    return MappingProxyType(values)


class Count(int):
    """A number that is no plain one."""


@cases(
    "one other same",
    ("order of labels", {"labels": {"a": "1", "b": "2"}}, {"labels": {"b": "2", "a": "1"}}, True),
    ("of another mapping", {"labels": named(a="1", b="2")}, {"labels": named(b="2", a="1")}, True),
    ("another value there", {"labels": named(a="1")}, {"labels": named(a="2")}, False),
    ("a number of a kind of its own", {"replicas": 3}, {"replicas": Count(3)}, True),
)
def test_what_says_the_same_is_the_same(one, other, same):
    digests = [state_digest(with_fields(workloads=(a_workload(**fields),))) for fields in (one, other)]
    assert (digests[0] == digests[1]) is same


def test_the_order_of_clusters_and_answers_does_not_count():
    def state(*names: str) -> ObservedState:
        answers = {replace(ASKED, cluster=name): SAID for name in names}
        return a_state(*map(a_cluster, names), answers=answers, unreachable={f"no-{name}": "refused" for name in names})

    assert state_digest(state("east", "west")) == state_digest(state("west", "east"))


def test_what_is_no_value_is_a_bug_that_is_told():
    with pytest.raises(TypeError, match="object has no place in an observed state"):
        state_digest(with_fields(workloads=(a_workload(labels={"a": object()}),)))


def test_the_id_of_a_run():
    found = [
        run_id("a", "b", a_run(NOW)),
        run_id("c", "b", a_run(NOW)),
        run_id("a", "c", a_run(NOW)),
        run_id("a", "b", a_run(NOW + timedelta(seconds=1))),
    ]
    assert len(set(found)) == 4
    assert {len(one) for one in found} == {12}
    assert all(set(one) <= set("0123456789abcdef") for one in found)
    assert run_id("a", "b", a_run(NOW)) == found[0]


def test_what_is_known_of_activators_alters_the_digest_of_a_plan_only_where_it_is_known():
    unknown, none, one = (
        a_state(a_cluster(activators=found)) for found in (None, (), (ActivatorReplica("uid-a", True),))
    )
    digests = [digest_with_activators("of-the-rest", state) for state in (unknown, none, one)]
    assert digests[0] == "of-the-rest"
    assert len({*digests}) == 3
