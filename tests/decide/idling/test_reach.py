"""How far what is written in one namespace reaches: never into another one."""

from __future__ import annotations

import json

from reconciler.decide.decisions import DesiredState
from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.decide.idling.restore import Restoration, decide_restore
from reconciler.model import EndpointSlice, FieldWriter, ObjectRef, ObservedState, OwnerReference, PodsQuestion
from reconciler.observe.pods import owner_uids
from reconciler.policy.types import ObjectSelector
from tests.builders import a_cluster, a_fleet, a_pod, a_run, a_service, a_state, a_workload, an_idle_record
from tests.cases import cases
from tests.decide.idling import idling_policies
from tests.decide.idling.idling_policies import NIGHT, a_policy, services_selector

EVIL = "dev-evil"
DATABASE = a_workload("db", namespace="prod", replicas=5)
CLAIMED = OwnerReference("apps/v1", "Deployment", "db", DATABASE.uid)
DEV = a_policy(selector=services_selector(namespaces=ObjectSelector(("dev-*",))))


def decided(state: ObservedState, *policies) -> DesiredState:
    return idling_policies.decided(state, *policies).desired


def due(state: ObservedState) -> DesiredState:
    """What is done where the policies cannot be used."""
    return decide_wakes_due(a_fleet(), state, a_run(NIGHT))


def a_claiming_set(**fields):
    """A ReplicaSet that names the Deployment of another namespace as its owner."""
    return a_workload("db-1", kind="ReplicaSet", namespace=EVIL, template_labels={"app": "db"}, owner=CLAIMED, **fields)


def a_claiming_pod():
    service = a_service("db", namespace=EVIL, selector={})
    owner = {"owner_uid": DATABASE.uid, "owner_kind": "Deployment", "owner_name": "db"}
    named = EndpointSlice(ObjectRef("east", EVIL, "EndpointSlice", "db-x", ""), "db", (("db-0", "uid-db-0"),))
    return {
        "services": (service,),
        "workloads": (DATABASE,),
        "endpoint_slices": (named,),
        "pods": {service.ref: (a_pod("db-0", namespace=EVIL, **owner),)},
    }


@cases(
    "cluster",
    ("a ReplicaSet", {"services": (a_service("db", namespace=EVIL),), "workloads": (DATABASE, a_claiming_set())}),
    (
        "a ReplicaSet that a finalizer holds",
        {"services": (a_service("db", namespace=EVIL),), "workloads": (DATABASE, a_claiming_set(terminating=True))},
    ),
    ("a Pod and an EndpointSlice", a_claiming_pod()),
)
def test_an_owner_in_another_namespace_is_no_owner(cluster):
    desired = decided(a_state(a_cluster(**cluster)), DEV)
    assert desired.decisions == ()
    (undecided,) = desired.undecided
    assert undecided.subject == f"east/{EVIL}/Service/db"
    assert "Deployment/db" in undecided.why


def test_pods_of_a_set_that_claims_a_workload_elsewhere_are_not_its_pods():
    """The pods of a workload are found by the uids of its ReplicaSets."""
    own = a_workload(
        "db-2", kind="ReplicaSet", namespace="prod", owner=OwnerReference("apps/v1", "Deployment", "db", DATABASE.uid)
    )
    asked = [PodsQuestion(DATABASE.ref).workload]
    assert owner_uids((DATABASE, own, a_claiming_set()), asked) == {DATABASE.ref: {DATABASE.uid, own.uid}}


MOST = 2**31 - 1
ASKED = "2026-11-20T21:59:00Z"
OURS = FieldWriter("reconciler", NIGHT)


def a_forged_service(*entries: dict, namespace: str = "shop", selector: dict | None = None, **marks: str):
    """A Service that names us as owner, lists what it likes and asks for a wake."""
    annotations = {
        "reconciler/owner": "production/IdlingPolicy/idle-dev",
        "idling.kubernetes.io/idled-at": "2026-11-20T21:00:00Z",
        "idling.kubernetes.io/unidle-targets": json.dumps(list(entries)),
        "reconciler/wake-requested-at": ASKED,
    }
    chosen = {"app": "web"} if selector is None else selector
    return a_service(namespace=namespace, selector=chosen, annotations={**annotations, **marks})


def an_entry(kind: str = "Deployment") -> dict:
    return {"kind": kind, "name": "web", "replicas": MOST}


OC = {
    "reconciler/owner": "",
    "idling.alpha.openshift.io/idled-at": "2026-11-20T21:00:00Z",
    "idling.alpha.openshift.io/unidle-targets": json.dumps([an_entry()]),
}


@cases(
    "service workload",
    ("a Deployment", a_forged_service(an_entry()), a_workload(replicas=0)),
    (
        "somebody scaled it to zero",
        a_forged_service(an_entry()),
        a_workload(replicas=0, replicas_writer=FieldWriter("kubectl", NIGHT)),
    ),
    (
        "in kube-system",
        a_forged_service(an_entry(), namespace="kube-system"),
        a_workload(replicas=0, namespace="kube-system"),
    ),
    ("a CronJob", a_forged_service(an_entry("CronJob")), a_workload(kind="CronJob", replicas=None, suspend=True)),
    ("a list as of oc idle", a_forged_service(an_entry(), **OC), a_workload(replicas=0)),
    (
        "what runs, below a forged floor",
        a_forged_service(an_entry(), **{"reconciler/idled-to": str(MOST - 1)}),
        a_workload(replicas=3, replicas_writer=OURS),
    ),
    (
        "what we wrote, and is not behind it",
        a_forged_service(an_entry(), selector={"app": "api"}),
        a_workload(replicas=0, replicas_writer=OURS),
    ),
)
@cases("way", ("with policies", decided), ("when the policies cannot be used", due))
def test_a_list_on_a_service_scales_nothing_that_we_did_not_idle(service, workload, way):
    api = a_workload("api", namespace=service.ref.namespace)
    desired = way(a_state(a_cluster(services=(service,), workloads=(workload, api))))
    assert [decision for decision in desired.decisions if decision.ref == workload.ref] == []


@cases("copies expected", ("nothing tells the number", (), 1), ("copies on two ReplicaSets", ("3", "5"), 5))
def test_what_we_idled_and_lost_its_record_wakes_to_no_more_than_is_borne_out(copies, expected):
    """`kubectl rollout undo` took its record off; its ReplicaSets keep what the controller copied to them."""
    web = a_workload(replicas=0, replicas_writer=OURS)
    owner = OwnerReference("apps/v1", "Deployment", "web", web.uid)

    def a_copy(previous, namespace="shop"):
        marks = {"reconciler/owner": "production/IdlingPolicy/x", "idling.kubernetes.io/previous-scale": previous}
        name = f"web-{previous}"
        return a_workload(name, namespace=namespace, kind="ReplicaSet", owner=owner, replicas=0, annotations=marks)

    workloads = (web, *map(a_copy, copies), a_copy("99", EVIL))
    state = a_state(a_cluster(services=(a_forged_service(an_entry()),), workloads=workloads))
    desired = decided(state)
    assert [decision.replicas_after for decision in desired.decisions if decision.ref == web.ref] == [expected]
    assert [notice.kind for notice in desired.notices] == ["unproven"]


@cases("adopt", ("by a signal", False), ("by restore --adopt", True))
def test_protected_namespaces_hold_for_what_somebody_else_idled(adopt):
    record = {"idling.kubernetes.io/idled-at": "2026-11-20T20:00:00Z", "idling.kubernetes.io/previous-scale": "3"}
    asked = {"reconciler/wake-requested-at": ASKED}
    web = a_workload(namespace="kube-system", replicas=0, annotations={**record, **asked})
    state = a_state(a_cluster(workloads=(web,)))
    desired = decide_restore(a_fleet(), state, a_run(NIGHT), Restoration(adopt=True)) if adopt else due(state)
    assert desired.decisions == ()


def test_what_we_idled_in_a_namespace_protected_since_still_wakes():
    web = a_workload(namespace="kube-system", replicas=0, annotations=an_idle_record())
    desired = decided(a_state(a_cluster(workloads=(web,))))
    assert [str(decision.verb) for decision in desired.decisions] == ["wake"]
