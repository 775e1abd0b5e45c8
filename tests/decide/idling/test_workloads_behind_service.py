"""From a Service to the scalables behind it."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from reconciler.decide.idling.workloads_behind_service import discover_targets, inventory_of
from reconciler.model import OwnerReference, PodsQuestion
from reconciler.workload_kinds import WorkloadKind
from tests.builders import a_cluster, a_pod, a_service, a_state, a_workload, an_endpoint_slice
from tests.cases import cases
from tests.decide.idling.idling_policies import a_policy, decided, workloads_selector

WEB = a_workload()
ROLLOUTS = WorkloadKind("argoproj.io", "v1alpha1", "Rollout", "rollouts")
DEPLOYMENT_OWNER = OwnerReference("apps/v1", "Deployment", "web", WEB.uid)


def a_replica_set(name: str = "web-1", **fields):
    return a_workload(name, kind="ReplicaSet", template_labels={"app": "web"}, owner=DEPLOYMENT_OWNER, **fields)


def found(service=None, **cluster):
    service = service or a_service()
    return discover_targets(service, inventory_of(a_cluster(services=(service,), **cluster)))


@cases(
    "service workloads expected",
    ("the selector against template labels", a_service(), [WEB, a_workload("api")], ["web"]),
    ("two ReplicaSets", a_service(), [WEB, a_replica_set("web-1"), a_replica_set("web-2")], ["web"]),
    (
        "several, sorted",
        a_service(selector={"tier": "a"}),
        [a_workload(name, template_labels={"tier": "a", "app": name}) for name in ("b", "a")],
        ["a", "b"],
    ),
    ("all pairs have to match", a_service(selector={"app": "web", "x": "y"}), [WEB], []),
    ("an empty selector selects nothing", a_service(selector={}), [WEB], []),
    ("ExternalName has no targets", a_service(type="ExternalName"), [WEB], []),
    (
        "an old ReplicaSet without pods does not tell",
        a_service(),
        [WEB, a_replica_set("old", replicas=0), a_workload(template_labels={"app": "new"})],
        [],
    ),
    *(
        (
            f"an old ReplicaSet that {why} does",
            a_service(),
            [
                a_replica_set("old", replicas=count, status_replicas=there),
                a_workload(template_labels={"app": "new"}),
            ],
            ["web"],
        )
        for count, there, why in ((1, 0, "gets a pod"), (0, 1, "has one still"))
    ),
    (
        "more labels than the selector has",
        a_service(selector={"app": "web", "tier": "a"}),
        [
            a_workload(template_labels={"app": "web", "tier": "a", "more": "x"}),
            a_workload("b", template_labels={"tier": "a"}),
        ],
        ["web"],
    ),
    ("another namespace", a_service(), [a_workload(namespace="other")], []),
)
def test_what_labels_tell(service, workloads, expected):
    result = found(service, workloads=tuple({workload.ref: workload for workload in workloads}.values()))
    assert [workload.ref.name for workload in result.workloads] == expected
    assert result.undecided == ""


class Asked(dict):
    """Labels that count how often they are looked at."""

    count = 0

    def items(self):
        Asked.count += 1
        return super().items()


def test_of_many_releases_of_a_chart_only_few_are_compared_with_each_service(monkeypatch):
    monkeypatch.setattr(Asked, "count", 0)
    labels = [{"app": "web", "release": f"r-{number}"} for number in range(50)]
    workloads = tuple(a_workload(one["release"], template_labels=Asked(one)) for one in labels)
    inventory = inventory_of(a_cluster(workloads=workloads))
    behind = [discover_targets(a_service(selector=one), inventory).workloads for one in labels]
    assert [[one.ref.name for one in found] for found in behind] == [[one["release"]] for one in labels]
    assert Asked.count <= 3 * len(labels)


@cases(
    "owner words",
    ("an operator's", OwnerReference("acme/v1", "Database", "db", "u"), "Database/db, which is not a known scalable"),
    ("cannot be read", OwnerReference("apps/v1", "Deployment", "gone", "u"), "Deployment/gone, which was not found"),
    (
        "of a kind with a scale",
        OwnerReference("argoproj.io/v1", "Rollout", "gone", "u"),
        "Rollout/gone, which was not found",
    ),
)
def test_an_unknown_owner_makes_that_service_undecided_and_never_its_neighbours(owner, words):
    owned = a_workload("db", kind="StatefulSet", owner=owner)
    services = (a_service("db"), a_service("web"))
    state = a_state(a_cluster(services=services, workloads=(owned, WEB), scale_kinds=(ROLLOUTS,)))
    desired = decided(state).desired
    assert [(one.subject, one.policy) for one in desired.undecided] == [("east/shop/Service/db", "idle-dev")]
    assert desired.undecided[0].why == f"StatefulSet/db is owned by {words}"
    assert [str(decision.ref) for decision in desired.decisions] == [
        "east/shop/Service/web",
        "east/shop/Deployment/web",
    ]


def test_owners_that_own_one_another_come_to_an_end():
    circle = [
        a_workload(name, template_labels={"app": "web"}, owner=OwnerReference("apps/v1", "Deployment", owner, ""))
        for name, owner in (("a", "b"), ("b", "a"))
    ]
    assert found(workloads=tuple(circle)).undecided == ""


def test_what_an_external_name_lists_is_not_behind_it():
    listed = '[{"kind":"Deployment","name":"web","replicas":3}]'
    mark = {
        "idling.kubernetes.io/idled-at": "2026-11-20T15:41:23Z",
        "idling.kubernetes.io/unidle-targets": listed,
        "reconciler/owner": "production/IdlingPolicy/idle-dev",
    }
    service = a_service(type="ExternalName", annotations=mark)
    outcome = decided(a_state(a_cluster(services=(service,), workloads=(WEB,))))
    assert [str(decision.ref) for decision in outcome.desired.decisions if decision.idles] == []


class TestEndpoints:
    """Where the Service has no selector, or labels do not tell."""

    service = a_service(selector={"statefulset.kubernetes.io/pod-name": "db-0"}, name="db-0")
    database = a_workload("db", kind="StatefulSet")
    pod = a_pod("db-0", owner_uid=database.uid, owner_kind="StatefulSet", owner_name="db")

    def found(self, **fields):
        slices = (an_endpoint_slice("db-0", "db-0"), an_endpoint_slice("db-0", "db-0", name="db-0-y"))
        return found(self.service, workloads=(self.database,), **({"endpoint_slices": slices} | fields))

    def test_the_pods_are_asked_for(self):
        assert self.found().question == PodsQuestion(self.service.ref)

    @cases(
        "named pod",
        ("by its name alone", ("db-0", ""), pod),
        ("by its uid alone", ("", "uid-db-0"), pod),
        ("one made anew under its name", ("db-0", "uid-of-before"), pod),
        ("one without a uid", ("db-0", ""), dataclasses.replace(pod, uid="")),
        ("of an owner without a name", ("db-0", ""), dataclasses.replace(pod, owner_name="")),
        ("of an owner without a uid", ("db-0", ""), dataclasses.replace(pod, owner_uid="")),
    )
    def test_however_a_pod_is_named(self, named, pod):
        one = replace(an_endpoint_slice("db-0"), pods=(named,))
        result = self.found(endpoint_slices=(one,), pods={self.service.ref: (pod,)})
        assert ([workload.ref.name for workload in result.workloads], result.undecided) == (["db"], "")

    @cases(
        "fields words",
        ("not among the answers", {"pods": {service.ref: ()}}, "Pod/db-0, which its endpoints name, is not there"),
        ("without owner", {"pods": {service.ref: (a_pod("db-0"),)}}, "Pod/db-0 has no owner"),
        (
            "a DaemonSet",
            {"pods": {service.ref: (a_pod("db-0", owner_uid="x", owner_kind="DaemonSet", owner_name="db"),)}},
            "Pod/db-0 is owned by DaemonSet/db, which is not a known scalable",
        ),
        ("forbidden", {"unreadable": {"pods of shop/Service/db-0": "forbidden"}}, "cannot be read: forbidden"),
        ("no slices", {"unreadable": {"endpointslices": "forbidden"}}, "its EndpointSlices cannot be read"),
    )
    def test_undecided(self, fields, words):
        assert words in self.found(**fields).undecided


@pytest.mark.parametrize("kind", ["namespaces", "services", "horizontalpodautoscalers", "scaledobjects"])
def test_what_cannot_be_listed_holds_idles_back(kind):
    policy = a_policy(selector=workloads_selector())
    state = a_state(a_cluster(workloads=(WEB,), unreadable={kind: "forbidden"}))
    outcome = decided(state, policy)
    assert outcome.desired.decisions == ()
    assert "cannot be read" in outcome.desired.explanations[0].why


def test_an_unreadable_kind_keeps_what_it_may_hold_on_the_list():
    mark = {
        "idling.kubernetes.io/idled-at": "2026-11-20T15:41:23Z",
        "idling.kubernetes.io/unidle-targets": '[{"kind":"Deployment","name":"web","replicas":3}]',
        "reconciler/owner": "production/IdlingPolicy/idle-dev",
    }
    service = a_service(annotations=mark)
    unread = a_state(a_cluster(services=(service,), unreadable={"deployments": "forbidden"}))
    assert decided(unread).desired.decisions == ()
    gone = a_state(a_cluster(services=(service,)))
    assert [str(decision.verb) for decision in decided(gone).desired.decisions] == ["clear"]


@pytest.mark.parametrize("kind", ["deployments", "statefulsets", "replicasets", "replicationcontrollers"])
def test_the_targets_of_a_service_sleep_together_or_not_at_all(kind):
    result = found(workloads=(WEB,), unreadable={kind: "forbidden"})
    assert (result.workloads, result.undecided) == ((), f"{kind} cannot be read, and some may be behind it")
