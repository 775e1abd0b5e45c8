"""What a run reads: ReplicaSets of Deployments where a decision may rest on them, and no kind that nobody names."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.backends.backend import Backend
from reconciler.backends.protocols import REPLICA_SETS
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.model import ObjectRef, ObservedState, PodsQuestion
from reconciler.observe.clusters import observe
from reconciler.observe.needed_objects import EVERYTHING, Scope, needed_objects
from reconciler.observe.pods import answer
from reconciler.policy.kinds.selector import ObjectSelector, Selector, WorkloadSelector
from reconciler.policy.types import PolicySet
from reconciler.workload_kinds import WorkloadKind
from tests.builders import a_downscale_policy, a_federated_replica_set, a_fleet, a_policy_set, an_idling_policy
from tests.decide.downscale.world import controllers_order

WEB = ObjectRef("east", "shop", "Deployment", "web", "apps")
ALL, OTHERS, OF_DEPLOYMENTS = "", "!pod-template-hash", "pod-template-hash"
DEPLOYMENTS = WorkloadSelector(("Deployment",))
SERVICES = ObjectSelector()


class Asked(MemoryCluster):
    """A cluster; `lists` are the label selectors with which its ReplicaSets were listed."""

    lists: list[str]

    def list(self, resource: Any, *, namespace: str = "", labels: str = "") -> Any:
        if resource == REPLICA_SETS:
            self.lists.append(labels)
        return super().list(resource, namespace=namespace, labels=labels)


def an_object(kind: str, name: str, owner: str = "", **annotations: str) -> dict[str, Any]:
    labels = {"app": "web"} | ({"pod-template-hash": "1"} if owner else {})
    metadata = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "labels": labels, "annotations": annotations}
    if owner:
        uid = "uid-web-1" if owner == "ReplicaSet" else "uid-web"
        by = {"apiVersion": "apps/v1", "kind": owner, "name": uid.removeprefix("uid-"), "uid": uid, "controller": True}
        metadata |= {"ownerReferences": [by]}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "status": {"phase": "Running"}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": []}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": metadata, "spec": spec}


def a_service(**annotations: str) -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"selector": {"app": "web"}}}


def a_cluster(*more: dict[str, Any]) -> Asked:
    made = [an_object("Deployment", "web"), an_object("ReplicaSet", "web-1", "Deployment")]
    alone = an_object("ReplicaSet", "alone")
    found = Asked.of_manifests("east", [*made, alone, *more], controllers_order)
    assert isinstance(found, Asked)
    found.lists = []
    return found


def observed(cluster: Asked, policies: PolicySet, scope: Scope = EVERYTHING) -> ObservedState:
    return observe(replace(policies, fleet=a_fleet("east")), {"east": Backend("east", cluster)}, scope=scope)


def names(state: ObservedState) -> list[str]:
    return sorted(one.ref.name for one in state.clusters["east"].workloads)


def selecting(services: ObjectSelector | None = None, *kinds: str, exclude: Selector | None = None) -> PolicySet:
    workloads = WorkloadSelector(kinds) if kinds or services is None else None
    policy = an_idling_policy("nights", selector=Selector(services=services, workloads=workloads))
    return a_policy_set(idling=(replace(policy, exclude=(exclude,) if exclude else ()),))


NIGHTLY = selecting(None, "Deployment")
FEW = a_downscale_policy("few", selector=Selector(workloads=DEPLOYMENTS))


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param(NIGHTLY, id="Deployments"),
        pytest.param(selecting(None, "Deployment", exclude=Selector(workloads=DEPLOYMENTS)), id="not all of them"),
        pytest.param(a_policy_set(downscale=(FEW,)), id="downscale of Deployments"),
    ],
)
def test_those_of_deployments_are_left_out(policies):
    cluster = a_cluster(a_service())
    assert names(observed(cluster, policies)) == ["alone", "web"]
    assert cluster.lists == [OTHERS]


@pytest.mark.parametrize(
    "policies",
    [
        pytest.param(a_policy_set(), id="none, as where somebody asks by hand"),
        pytest.param(selecting(), id="every kind"),
        pytest.param(selecting(None, "replicaset"), id="ReplicaSets"),
        pytest.param(selecting(SERVICES), id="Services"),
        pytest.param(selecting(SERVICES, "Deployment"), id="Services too"),
        pytest.param(selecting(None, "Deployment", exclude=Selector(services=SERVICES)), id="Services are excluded"),
        pytest.param(selecting(None, "Deployment", exclude=Selector()), id="namespaces are excluded"),
        pytest.param(replace(NIGHTLY, federated=(a_federated_replica_set(),)), id="placement"),
    ],
)
def test_all_are_listed_once_where_policies_may_need_them(policies):
    cluster = a_cluster()
    assert names(observed(cluster, policies)) == ["alone", "web", "web-1"]
    assert cluster.lists == [ALL]


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param("idling.kubernetes.io/idled-at", id="asleep"),
        pytest.param("idling.alpha.openshift.io/unidle-targets", id="asleep, by oc idle"),
        pytest.param("reconciler/exclude", id="excluded"),
        pytest.param("reconciler/wake-requested-at", id="asked to wake"),
    ],
)
def test_the_others_are_listed_too_where_a_service_is_decided(annotation):
    cluster = a_cluster(a_service(**{annotation: "x"}))
    assert names(observed(cluster, NIGHTLY)) == ["alone", "web", "web-1"]
    assert cluster.lists == [OTHERS, OF_DEPLOYMENTS]


@pytest.mark.parametrize(
    ("manager", "replicas", "annotations", "listed"),
    [
        pytest.param("reconciler", 0, {}, True, id="lost"),
        pytest.param("reconciler", 0, {"idling.kubernetes.io/idled-at": "x"}, False, id="there"),
        pytest.param("reconciler", 2, {}, False, id="it runs"),
        pytest.param("kubectl", 0, {}, False, id="scaled by somebody else"),
    ],
)
def test_the_others_are_listed_too_where_a_deployment_may_have_lost_its_record(manager, replicas, annotations, listed):
    down = an_object("Deployment", "down", **annotations)
    down["spec"]["replicas"] = replicas
    fields = {"f:spec": {"f:replicas": {}}}
    down["metadata"]["managedFields"] = [{"manager": manager, "operation": "Update", "fieldsV1": fields}]
    cluster = a_cluster(down)
    assert ("web-1" in names(observed(cluster, NIGHTLY))) is listed
    assert cluster.lists == ([OTHERS, OF_DEPLOYMENTS] if listed else [OTHERS])


def test_who_wants_everything_gets_it():
    cluster = a_cluster()
    assert names(observed(cluster, NIGHTLY, Scope(whole=True))) == ["alone", "web", "web-1"]
    assert cluster.lists == [ALL]


def test_those_of_a_deployment_are_listed_with_its_pods():
    cluster = a_cluster(an_object("Pod", "web-1-a", "ReplicaSet"))
    state = answer(observed(cluster, NIGHTLY), [PodsQuestion(WEB)], {"east": Backend("east", cluster)})
    assert [pod.name for pod in state.clusters["east"].pods[WEB]] == ["web-1-a"]
    assert names(state) == ["alone", "web", "web-1"]
    assert cluster.lists == [OTHERS, f"app=web,{OF_DEPLOYMENTS}"]


@pytest.mark.parametrize(
    ("named", "does_without"),
    [
        pytest.param(("StatefulSet.apps",), True, id="one that is called alike, with its group"),
        pytest.param(("Deployment",), True, id="another"),
        pytest.param((), True, id="none"),
        pytest.param(("StatefulSet",), False, id="by its name alone"),
        pytest.param(("statefulset.apps.kruise.io",), False, id="in lower case, with its group"),
    ],
)
def test_a_custom_kind_that_no_policy_names_is_done_without(named, does_without):
    selector = Selector(workloads=WorkloadSelector(named))
    policies = a_policy_set(idling=(an_idling_policy("nights", selector=selector),))
    kruise = WorkloadKind("apps.kruise.io", "v1beta1", "StatefulSet", "statefulsets")
    assert needed_objects(policies, "east", EVERYTHING, frozenset()).forgoes(kruise) is does_without
