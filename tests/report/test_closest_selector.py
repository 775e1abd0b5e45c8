"""Of an object that nothing selects: which policy comes closest, and which part of its selector fails."""

from __future__ import annotations

import pytest

from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.model import OwnerReference
from reconciler.policy.kinds.federated_replica_set import TargetRef
from reconciler.policy.types import ClusterPreference, ObjectSelector, Selector, WorkloadSelector
from reconciler.report.explanation import ClosestSelectors
from tests.builders import (
    a_cluster,
    a_downscale_policy,
    a_federated_replica_set,
    a_fleet,
    a_namespace,
    a_policy_set,
    a_ref,
    a_service,
    a_workload,
    an_idling_policy,
)

ALL = ObjectSelector()
API = a_service("api", selector={"app": "api"})
FRONT = a_service("front", selector={"app": "web"}, labels={"tier": "front"})
BACK = a_service("back", selector={"app": "web"}, labels={"tier": "back"})
ELSEWHERE = a_service("elsewhere", namespace="other", selector={"app": "web"})
BARE = a_service("bare", selector={})
TIER = LabelSelector(
    (("tier", "front"),), (LabelRequirement("team", "NotIn", ("a", "b")), LabelRequirement("x", "Exists"))
)


def closest(policies, workload=None, services=()):
    """The kind of policy, its name, how many parts select, and the problem of each that does not."""
    space = a_namespace(labels={"env": "dev"})
    cluster = a_cluster(namespaces=(a_namespace("other"), space), services=tuple(services))
    found = ClosestSelectors(a_policy_set(a_fleet("east"), **policies), cluster).closest_to(workload or a_workload())
    assert found is not None
    problems = {field: problem for field, problem in found.parts if problem}
    assert found.selected == len(found.parts) - len(problems)
    return found.policy.name, problems


def idling(**selector):
    return {"idling": (an_idling_policy("nights", selector=Selector(**selector)),)}


def labelled(**fields):
    return {"workloads": WorkloadSelector(objects=ObjectSelector(labels=TIER)), **fields}


@pytest.mark.parametrize(
    ("selector", "workload", "expected"),
    [
        pytest.param({"workloads": WorkloadSelector()}, a_workload(), {}, id="selected"),
        pytest.param(
            {"workloads": WorkloadSelector(), "clusters": ObjectSelector(("w*", "x"))},
            a_workload(),
            {"clusters": "east is not included in w*, x"},
            id="cluster not included",
        ),
        pytest.param(
            {"workloads": WorkloadSelector(), "namespaces": ObjectSelector(exclude=("a", "sh*"))},
            a_workload(),
            {"namespaces": "shop is excluded by a, sh*"},
            id="namespace excluded",
        ),
        pytest.param(
            {"workloads": WorkloadSelector(), "namespaces": ObjectSelector(exclude=("b",), within=("team-a-*", "a"))},
            a_workload(),
            {"namespaces": "shop is not of the tenant, which has team-a-*, a"},
            id="namespace of another tenant",
        ),
        pytest.param(
            {"workloads": WorkloadSelector(), "namespaces": ObjectSelector(labels=LabelSelector((("env", "prod"),)))},
            a_workload(),
            {"namespaces": 'label env is "dev", expected In prod'},
            id="namespace by label",
        ),
        pytest.param(
            {"workloads": WorkloadSelector(), "namespaces": ObjectSelector(labels=LabelSelector((("env", "dev"),)))},
            a_workload(),
            {},
            id="namespace by label that it has",
        ),
        pytest.param(
            {"workloads": WorkloadSelector(), "clusters": ObjectSelector(labels=LabelSelector((("env", "dev"),)))},
            a_workload(),
            {"clusters": "label env is absent, expected In dev"},
            id="cluster by label",
        ),
        pytest.param(
            labelled(),
            a_workload(labels={"tier": "back", "team": "b"}),
            {
                "workloads": 'label tier is "back", expected In front; label team is "b", expected NotIn a, b; '
                "label x is absent, expected Exists"
            },
            id="labels",
        ),
        pytest.param(labelled(), a_workload(labels={"tier": "front", "x": ""}), {}, id="labels that it has"),
        pytest.param(
            {"workloads": WorkloadSelector(("StatefulSet", "CronJob"))},
            a_workload(),
            {"workloads": "Deployment is not among kinds StatefulSet, CronJob"},
            id="another kind",
        ),
        pytest.param(
            {"workloads": WorkloadSelector()},
            a_workload(kind="CloneSet"),
            {"workloads": "CloneSet is a custom kind, which is selected only where kinds names it"},
            id="a custom kind",
        ),
        pytest.param({"workloads": WorkloadSelector(("CloneSet",))}, a_workload(kind="CloneSet"), {}, id="named"),
        pytest.param(
            {"workloads": WorkloadSelector()},
            a_workload(owner=OwnerReference("apps/v1", "Deployment", "web", "1")),
            {"workloads": "Deployment/web owns it: policies select the owner"},
            id="owned",
        ),
        pytest.param(
            {"services": ObjectSelector()},
            a_workload(kind="StatefulSet", owner=OwnerReference("db/v1", "Database", "main", "1")),
            {"services": "Database/main owns it: policies select the owner"},
            id="owned, behind a Service",
        ),
    ],
)
def test_which_part_fails(selector, workload, expected):
    assert closest(idling(**selector), workload) == ("nights", expected)


def test_a_downscale_policy_selects_nothing_without_replicas():
    policy = a_downscale_policy("less", selector=Selector(workloads=WorkloadSelector()))
    expected = {"workloads": "CronJob has no replicas"}
    assert closest({"downscale": (policy,)}, a_workload(kind="CronJob")) == ("less", expected)


FRONTS = ObjectSelector(labels=LabelSelector((("tier", "front"),)))


@pytest.mark.parametrize(
    ("services", "expected"),
    [
        pytest.param((), "no Service selects its pods", id="there is none"),
        pytest.param((API, ELSEWHERE, BARE), "no Service selects its pods", id="they select other pods, or none"),
        pytest.param((BACK,), 'Service/back: label tier is "back", expected In front', id="one that is not selected"),
        pytest.param((BACK, FRONT), "", id="one of two is selected"),
        pytest.param((FRONT,), "", id="it is selected"),
    ],
)
def test_services_in_front_of_it(services, expected):
    assert closest(idling(services=FRONTS), services=services) == ("nights", {"services": expected} if expected else {})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param({}, {}, id="selected"),
        pytest.param({"name": "api"}, {"name": "is Deployment/api, not Deployment/web"}, id="another name"),
        pytest.param({"namespace": "prod"}, {"namespace": "is prod, not shop"}, id="another namespace"),
        pytest.param(
            {"target": TargetRef("apps/v1", "StatefulSet", "web")},
            {"name": "is StatefulSet/web, not Deployment/web"},
            id="another kind",
        ),
        pytest.param(
            {"clusters": {"west": ClusterPreference()}},
            {"preferences.clusters": "has neither east nor *"},
            id="cluster",
        ),
        pytest.param({"clusters": {"east": ClusterPreference()}}, {}, id="its cluster"),
        pytest.param({"clusters": {"*": ClusterPreference()}}, {}, id="any cluster"),
        pytest.param(
            {"within": ("west", "north")},
            {"preferences.clusters": "east is not of the tenant, which has west, north"},
            id="any cluster of a tenant",
        ),
    ],
)
def test_a_federated_replica_set(fields, expected):
    known = {"clusters": {"*": ClusterPreference()}}
    federated = a_federated_replica_set(**(known | fields))
    assert closest({"federated": (federated,)}) == (federated.name, expected)


def test_the_fewest_parts_that_fail_then_the_most_that_select_then_the_kind_and_the_name():
    api, west = WorkloadSelector(objects=ObjectSelector(("api",))), ObjectSelector(("west",))
    far = an_idling_policy("far", selector=Selector(clusters=west, workloads=api))
    near = an_idling_policy("near", selector=Selector(workloads=api))
    wide = an_idling_policy("wide", selector=Selector(workloads=api, services=ALL))
    assert closest({"idling": (far, near)}) == ("near", {"workloads": "web is not included in api"})
    assert closest({"idling": (near, wide)}, services=(FRONT,))[0] == "wide"
    shrink = a_downscale_policy("zz", selector=Selector(workloads=api))
    assert closest({"idling": (near,), "downscale": (shrink,)})[0] == "zz"
    other = an_idling_policy("a-first", selector=Selector(workloads=api))
    assert closest({"idling": (near, other)})[0] == "a-first"


def test_without_policies_none_comes_close():
    assert ClosestSelectors(a_policy_set(a_fleet()), a_cluster()).closest_to(a_workload()) is None
    unknown = a_workload(cluster="gone")
    assert unknown.ref == a_ref(cluster="gone")
    policies = a_policy_set(a_fleet("east"), **idling(workloads=WorkloadSelector()))
    found = ClosestSelectors(policies, a_cluster("gone")).closest_to(unknown)
    assert found is not None
    assert found.selected == 3


@pytest.mark.parametrize(
    ("exclude", "problems"),
    [
        pytest.param((Selector(workloads=WorkloadSelector()),), {"exclude[0]": "excludes web"}, id="it"),
        pytest.param((Selector(workloads=WorkloadSelector(("Job",))), Selector()), {"exclude[1]": "excludes web"},
                     id="its namespace, by the second"),
        pytest.param((Selector(clusters=ObjectSelector(("west",))),), {}, id="another cluster"),
        pytest.param((Selector(services=ALL),), {}, id="Services"),
    ],
)  # fmt: skip
def test_what_the_policy_excludes_is_a_part_that_fails(exclude, problems):
    policy = an_idling_policy("nights", selector=Selector(workloads=WorkloadSelector()), exclude=exclude)
    assert closest({"idling": (policy,)}) == ("nights", problems)
