"""What somebody with a token of our ServiceAccount could try, and the cluster where it is tried: nothing acts there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.live.deployed import OPEN, OWN
from tests.real.api import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, Object
from tests.real.cluster import path_of
from tests.real.objects import (
    CLONE_SET,
    SCALED_OBJECT,
    a_clone_set,
    a_cron_job,
    a_deployment,
    a_job,
    a_namespace,
    a_node,
    a_pod_template,
    a_replication_controller,
    a_service,
    an_autoscaler,
    an_object,
    for_deployment,
    with_metadata,
    within,
)

SCALED, OWN_OBJECTS, OTHERS = "reconciler-scaled", "reconciler-own", "reconciler-others"
PLACEMENT, CLONE_SETS = "reconciler-placement", "reconciler-clone-sets"
ROLES = ""
"""No policy refuses it, only the roles do: the API server asks no policy about policies."""

_RECORD = {
    "idling.kubernetes.io/idled-at": "2099-01-06T20:00:00Z",
    "idling.kubernetes.io/previous-scale": "2",
    "reconciler/owner": "tests/IdlingPolicy/nights",
}
_IMAGE = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "evil:runs"}]}}}}
_ACCOUNT = {"spec": {"template": {"spec": {"serviceAccountName": "admin"}}}}
_DOWN = {"spec": {"replicas": 1}}
_UP = {"spec": {"replicas": 9}}


# The cluster


KINDS = (CLONE_SET, SCALED_OBJECT)


def objects() -> Iterator[Object]:
    """All that is there besides `KINDS`."""
    yield a_node("one")
    yield from (
        a_namespace("dev"),
        a_namespace("shop", **OPEN),
        a_namespace("loose", **{"reconciler/placement": "enabled"}),
    )
    yield from (within("dev", one) for one in _workloads())
    yield from (within("dev", one) for one in _around())
    yield from (
        within("shop", one)
        for one in (_local("cache"), _plain("theirs"), _owned(_local("owned")), _owned(_plain("controlled")))
    )
    yield from (within("kube-system", one) for one in _protected())
    yield within("kube-node-lease", an_object("coordination.k8s.io/v1", "Lease", "one"))
    yield from (
        within(OWN, an_object("v1", "ConfigMap", name, data={"a": "b"})) for name in ("reconciler-policies", "other")
    )
    yield within(OWN, an_object("coordination.k8s.io/v1", "Lease", "reconciler"))
    yield within(OWN, a_cron_job("reconciler"))


def _workloads() -> Iterator[Object]:
    web = a_deployment("web", 3)
    web["spec"]["minReadySeconds"] = 5
    yield with_metadata(web, annotations={"example.com/team": "web", "idling.alpha.openshift.io/previous-scale": "3"})
    yield with_metadata(a_deployment("awake", 3), annotations={"reconciler/exclude": "true"})
    yield a_deployment("db", 3, kind="StatefulSet")
    yield _plain("alone")
    yield a_replication_controller("old", 3)
    yield a_cron_job("nightly")
    yield a_clone_set("runner", 3)


def _around() -> Iterator[Object]:
    yield a_service("web")
    yield an_object("v1", "Endpoints", "web", subsets=[{"addresses": [{"ip": "10.1.1.1"}], "ports": [{"port": 80}]}])
    yield an_autoscaler("web", 2, 9)
    yield for_deployment("keda.sh/v1alpha1", "ScaledObject", "web", triggers=[{"type": "cron"}])
    yield _pod("web-1-0")
    yield an_object("v1", "ConfigMap", "settings", data={"a": "b"})
    yield an_object("v1", "Secret", "password", stringData={"a": "b"})
    yield an_object("v1", "ServiceAccount", "admin")
    yield _event("seen", "kubelet", "dev")
    yield _event("told", "reconciler", "dev")
    yield a_job("once")


def _protected() -> Iterator[Object]:
    yield a_deployment("dns", 2)
    yield with_metadata(a_deployment("asleep", 0), annotations=_RECORD)
    yield a_cron_job("cleanup")
    yield _local("placed")
    yield a_service("dns")
    yield _pod("dns-1-0")
    yield an_autoscaler("web", 2, 9)


def _plain(name: str, **template: Any) -> Object:
    return a_deployment(name, 3, kind="ReplicaSet", **template)


def _local(name: str, **template: Any) -> Object:
    owner = {"reconciler/owner": f"tests/FederatedReplicaSet/shop/{name}"}
    return with_metadata(_plain(name, **template), labels={"reconciler/frs": name}, annotations=owner)


def _owned(one: Object) -> Object:
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "any", "uid": "0", "controller": True}
    return with_metadata(one, ownerReferences=[reference])


def _pod(name: str, **spec: Any) -> Object:
    return an_object("v1", "Pod", name, spec={**a_pod_template("web")["spec"], **spec})


def _event(name: str, component: str, namespace: str) -> Object:
    told = {"involvedObject": {"kind": "Deployment", "name": "web", "namespace": namespace}, "reason": "NeedPods"}
    by = {"reportingComponent": component, "source": {"component": component}, "reportingInstance": "one"}
    return an_object("v1", "Event", name, {"namespace": namespace}, **told, **by)


# What is tried


@dataclass(frozen=True)
class Attempt:
    """One request. `policy` refuses it; `dry_runs` False: the server has no dry run of it."""

    name: str
    policy: str
    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    dry_runs: bool = True


def _path(place: str) -> str:
    """The path of "dev/deployments/web/scale": namespace, resource, name, subresource."""
    namespace, resource, *rest = place.split("/")
    return path_of(resource, namespace, *rest)


def _patch(name: str, policy: str, place: str, body: Any, content_type: str = MERGE_PATCH) -> Attempt:
    return Attempt(name, policy, "PATCH", _path(place), body, content_type)


def _create(name: str, policy: str, place: str, body: Mapping[str, Any], dry_runs: bool = True) -> Attempt:
    return Attempt(name, policy, "POST", _path(place), body, dry_runs=dry_runs)


def _delete(name: str, policy: str, place: str) -> Attempt:
    return Attempt(name, policy, "DELETE", _path(place))


def attempts() -> Iterator[Attempt]:
    """All that is tried, each refused."""
    yield from _on_workloads()
    yield from _on_replica_sets()
    yield from _on_custom_kinds()
    yield from _on_autoscalers()
    yield from _on_services()
    yield from _on_pods()
    yield from _in_our_namespace()
    yield from _in_protected_namespaces()
    yield from _elsewhere()
    yield from _on_the_cluster()


def _on_workloads() -> Iterator[Attempt]:
    web = "dev/deployments/web"
    yield _patch("another image", SCALED, web, _IMAGE)
    yield _patch("another image with the replicas", SCALED, web, {"spec": {**_IMAGE["spec"], **_DOWN["spec"]}})
    yield _patch("another image by JSON patch", SCALED, web, _replace_image(), JSON_PATCH)
    yield Attempt(
        "another image by apply", SCALED, "PATCH", f"{_path(web)}?fieldManager=evil&force=true", _applied(), APPLY_PATCH
    )
    yield Attempt("the whole Deployment replaced", SCALED, "PUT", _path(web), a_deployment("web", 3, cpu="2m"))
    yield _patch("another ServiceAccount", SCALED, web, _ACCOUNT)
    yield _patch("a rollout stopped", SCALED, web, {"spec": {"paused": True}})
    yield _patch("a field of the spec gone", SCALED, web, {"spec": {"minReadySeconds": None}})
    yield _patch("a label", SCALED, web, {"metadata": {"labels": {"app": "other"}}})
    yield _patch("our label on a Deployment", SCALED, web, {"metadata": {"labels": {"reconciler/frs": "web"}}})
    yield _patch("an annotation of others", SCALED, web, _annotated("example.com/owner", "evil"))
    yield _patch("an annotation of others gone", SCALED, web, _annotated("example.com/team", None))
    yield _patch("an annotation that begins like ours", SCALED, web, _annotated("reconciler.evil/owner", "me"))
    yield _patch("a number of oc idle", SCALED, web, _annotated("idling.alpha.openshift.io/previous-scale", "99"))
    yield _patch("a finalizer", SCALED, web, {"metadata": {"finalizers": ["example.com/never"]}})
    yield _patch("an owner", SCALED, web, {"metadata": _owned(_plain("any"))["metadata"] | {"name": "web"}})
    yield _patch(
        "kept awake by somebody, no more", SCALED, "dev/deployments/awake", _annotated("reconciler/exclude", None)
    )
    yield _patch("kept awake for ever", SCALED, web, _annotated("reconciler/exclude", "true"))
    yield _patch("a status", OTHERS, f"{web}/status", {"status": {"observedGeneration": 99}})
    yield _create("a Deployment", OTHERS, "dev/deployments", a_deployment("evil"))
    yield _delete("a Deployment deleted", OTHERS, web)
    yield _delete("all Deployments deleted", OTHERS, "dev/deployments")
    yield _patch("another image of a StatefulSet", SCALED, "dev/statefulsets/db", _IMAGE)
    yield _delete("a StatefulSet deleted", OTHERS, "dev/statefulsets/db")
    yield _patch("another image of a ReplicationController", SCALED, "dev/replicationcontrollers/old", _IMAGE)
    yield _delete("a ReplicationController deleted", OTHERS, "dev/replicationcontrollers/old")
    yield _patch("another schedule", SCALED, "dev/cronjobs/nightly", {"spec": {"schedule": "* * * * *"}})
    job = {"spec": {"jobTemplate": _ACCOUNT}}
    yield _patch("another ServiceAccount of a CronJob", SCALED, "dev/cronjobs/nightly", job)
    yield _delete("a CronJob deleted", OTHERS, "dev/cronjobs/nightly")


def _annotated(key: str, value: str | None) -> Object:
    return {"metadata": {"annotations": {key: value}}}


def _replace_image() -> list[Object]:
    return [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "evil:runs"}]


def _applied() -> Object:
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, **_IMAGE}


def _on_replica_sets() -> Iterator[Attempt]:
    shop, theirs, ours = "shop/replicasets", "shop/replicasets/theirs", "shop/replicasets/cache"
    yield _create("a ReplicaSet where nobody opted in", PLACEMENT, "dev/replicasets", _local("evil"))
    yield _create("a ReplicaSet where pods are not restricted", PLACEMENT, "loose/replicasets", _local("evil"))
    yield _create("a ReplicaSet in kube-system", PLACEMENT, "kube-system/replicasets", _local("evil"))
    yield _create("a ReplicaSet without our label", PLACEMENT, shop, _plain("evil"))
    yield _create("a ReplicaSet with an owner", PLACEMENT, shop, _owned(_local("evil")))
    noted = with_metadata(_local("evil"), annotations={"argocd.argoproj.io/tracking-id": "evil"})
    yield _create("a ReplicaSet with the annotation of another tool", PLACEMENT, shop, noted)
    tracked = _annotated("argocd.argoproj.io/tracking-id", "evil")
    yield _patch("the annotation of another tool on a local ReplicaSet", PLACEMENT, ours, tracked)
    for field in ("serviceAccountName", "serviceAccount"):
        yield _create(f"a ReplicaSet with another {field}", PLACEMENT, shop, _local("evil", spec={field: "admin"}))
    yield _patch("another ServiceAccount of a local ReplicaSet", PLACEMENT, ours, _ACCOUNT)
    yield _patch("another image of somebody's ReplicaSet", SCALED, theirs, _IMAGE)
    yield _patch("another image where nobody opted in", SCALED, "dev/replicasets/alone", _IMAGE)
    yield _patch("another image of what a Deployment owns", SCALED, "shop/replicasets/owned", _IMAGE)
    label = {"metadata": {"labels": {"reconciler/frs": "theirs"}}}
    yield _patch("a ReplicaSet taken over where nobody opted in", PLACEMENT, "dev/replicasets/alone", label)
    yield _patch("a ReplicaSet of a Deployment taken over", SCALED, "shop/replicasets/controlled", label)
    yield _patch("a label of somebody's ReplicaSet", SCALED, theirs, {"metadata": {"labels": {"app": "theirs"}}})
    yield _patch("a local ReplicaSet that is held", SCALED, ours, {"metadata": {"finalizers": ["example.com/never"]}})
    yield _delete("somebody's ReplicaSet deleted", PLACEMENT, theirs)
    yield _delete("a ReplicaSet of a Deployment deleted", PLACEMENT, "shop/replicasets/owned")
    yield _delete("a ReplicaSet in kube-system deleted", PLACEMENT, "kube-system/replicasets/placed")
    yield _delete("all ReplicaSets deleted", PLACEMENT, shop)


def mounting(namespace: str) -> Attempt:
    """A local ReplicaSet whose pods mount a Secret."""
    volumes = [{"name": "all", "secret": {"secretName": "password"}}]
    made = _local("reader", spec={"volumes": volumes})
    return _create("a Secret mounted", PLACEMENT, f"{namespace}/replicasets", made)


def _on_custom_kinds() -> Iterator[Attempt]:
    runner = "dev/clonesets/runner"
    yield _patch("another image of a CloneSet", CLONE_SETS, runner, _IMAGE)
    yield _patch(
        "another way to scale a CloneSet", CLONE_SETS, runner, {"spec": {"scaleStrategy": {"disablePVCReuse": True}}}
    )
    yield _patch("an annotation of others on a CloneSet", CLONE_SETS, runner, _annotated("example.com/owner", "evil"))
    yield _patch("a status of a CloneSet", OTHERS, f"{runner}/status", {"status": {"replicas": 0}})
    yield _create("a CloneSet", OTHERS, "dev/clonesets", an_object("apps.kruise.io/v1alpha1", "CloneSet", "evil"))
    yield _delete("a CloneSet deleted", OTHERS, runner)


def _on_autoscalers() -> Iterator[Attempt]:
    bounds, queue = "dev/horizontalpodautoscalers/web", "dev/scaledobjects/web"
    yield _patch("another target of an autoscaler", SCALED, bounds, {"spec": {"scaleTargetRef": {"name": "db"}}})
    down = {"spec": {"behavior": {"scaleUp": {"selectPolicy": "Disabled"}}}}
    yield _patch("an autoscaler that never scales up", SCALED, bounds, down)
    recorded = {**down, **_annotated("reconciler/previous-scale-up", "null")}
    yield _patch("one with pods that never scales up, as if it had been idled", SCALED, bounds, recorded)
    yield _delete("an autoscaler deleted", OTHERS, bounds)
    yield _patch("another trigger", SCALED, queue, {"spec": {"triggers": []}})
    yield _patch("paused for ever", SCALED, queue, _annotated("autoscaling.keda.sh/paused", "true"))
    yield _delete("a ScaledObject deleted", OTHERS, queue)


def _on_services() -> Iterator[Attempt]:
    web, addresses = "dev/services/web", [{"addresses": [{"ip": "10.6.6.6"}], "ports": [{"port": 80}]}]
    yield _patch("another selector", SCALED, web, {"spec": {"selector": {"app": "evil"}}})
    yield _patch("an external address", SCALED, web, {"spec": {"externalIPs": ["10.6.6.6"]}})
    yield _patch(
        "an annotation of a load balancer", SCALED, web, _annotated("service.beta.kubernetes.io/internal", "no")
    )
    yield _create("a Service", OTHERS, "dev/services", a_service("evil"))
    yield _delete("a Service deleted", OTHERS, web)
    yield _patch("other addresses", SCALED, "dev/endpoints/web", {"subsets": addresses})
    yield _patch("a label of Endpoints", SCALED, "dev/endpoints/web", {"metadata": {"labels": {"a": "b"}}})
    slice_ = an_object("discovery.k8s.io/v1", "EndpointSlice", "evil", addressType="IPv4", endpoints=[])
    yield _create("an EndpointSlice", OWN_OBJECTS, "dev/endpointslices", slice_)


def _on_pods() -> Iterator[Attempt]:
    pod = "dev/pods/web-1-0"
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil:runs"}]
    yield _patch("another image of a pod", SCALED, pod, image, JSON_PATCH)
    yield _patch("a pod out of its Service", SCALED, pod, {"metadata": {"labels": {"app": "none"}}})
    yield _patch("a pod that is held", SCALED, pod, {"metadata": {"finalizers": ["example.com/never"]}})
    yield _patch("an annotation of others on a pod", SCALED, pod, _annotated("example.com/owner", "evil"))
    yield _patch("an annotation of ours that no pod has", SCALED, pod, _annotated("reconciler/owner", "evil"))
    yield _patch("a pod with a deadline", SCALED, pod, {"spec": {"activeDeadlineSeconds": 1}})
    yield _patch("a status of a pod", OTHERS, f"{pod}/status", {"status": {"phase": "Failed"}})
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "evil:runs"}]}}
    yield _patch("an ephemeral container", OTHERS, f"{pod}/ephemeralcontainers", debug)
    yield _create("a pod", OTHERS, "dev/pods", _pod("evil", hostNetwork=True))
    yield _delete("a pod deleted", OTHERS, pod)
    yield _create("a pod evicted", OTHERS, f"{pod}/eviction", an_object("policy/v1", "Eviction", "web-1-0"))
    bound = an_object("v1", "Binding", "web-1-0", target={"kind": "Node", "name": "one"})
    yield _create("a pod bound to a node", OTHERS, f"{pod}/binding", bound)
    yield _create("a command in a pod", OTHERS, f"{pod}/exec?command=sh", {}, dry_runs=False)
    yield _create("a port of a pod", OTHERS, f"{pod}/portforward?ports=80", {}, dry_runs=False)


def _in_our_namespace() -> Iterator[Attempt]:
    maps, data = f"{OWN}/configmaps", {"data": {"a": "evil"}}
    yield _patch("the policies", OWN_OBJECTS, f"{maps}/reconciler-policies", data)
    yield _delete("the policies deleted", OWN_OBJECTS, f"{maps}/reconciler-policies")
    yield _patch("a ConfigMap that is not ours", OWN_OBJECTS, f"{maps}/other", data)
    yield _create(
        "a ConfigMap with a name that is not ours",
        OWN_OBJECTS,
        maps,
        an_object("v1", "ConfigMap", "reconciler-memory-2"),
    )
    yield _delete("all ConfigMaps deleted", OWN_OBJECTS, maps)
    lease = an_object("coordination.k8s.io/v1", "Lease", "reconciler-2")
    yield _create("another Lease", OWN_OBJECTS, f"{OWN}/leases", lease)
    yield _delete("our Lease deleted", OWN_OBJECTS, f"{OWN}/leases/reconciler")
    yield _patch("our CronJob suspended", SCALED, f"{OWN}/cronjobs/reconciler", {"spec": {"suspend": True}})
    yield _create("a token", OTHERS, f"{OWN}/serviceaccounts/reconciler/token", _token_request())


def _token_request() -> Object:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}


def _in_protected_namespaces() -> Iterator[Attempt]:
    dns, asleep, bounds = (
        f"kube-system/{one}" for one in ("deployments/dns", "deployments/asleep", "horizontalpodautoscalers/web")
    )
    yield _patch("fewer replicas in kube-system", SCALED, dns, _DOWN)
    yield _patch("more replicas in kube-system", SCALED, dns, _UP)
    yield _patch("fewer replicas by /scale in kube-system", SCALED, f"{dns}/scale", _DOWN)
    yield _patch("more replicas by /scale in kube-system", SCALED, f"{dns}/scale", _UP)
    yield _patch("idled in kube-system", SCALED, dns, {"metadata": {"annotations": _RECORD}, "spec": {"replicas": 0}})
    yield _patch("a record in kube-system", SCALED, dns, {"metadata": {"annotations": _RECORD}})
    yield _patch(
        "another number in a record in kube-system",
        SCALED,
        asleep,
        _annotated("idling.kubernetes.io/previous-scale", "99"),
    )
    yield _patch("woken in kube-system with its record", SCALED, asleep, _UP)
    yield _patch(
        "a CronJob of kube-system suspended", SCALED, "kube-system/cronjobs/cleanup", {"spec": {"suspend": True}}
    )
    yield _patch("bounds in kube-system", SCALED, bounds, {"spec": {"minReplicas": 1, "maxReplicas": 99}})
    yield _patch(
        "a Service of kube-system marked", SCALED, "kube-system/services/dns", {"metadata": {"annotations": _RECORD}}
    )
    cost = _annotated("controller.kubernetes.io/pod-deletion-cost", "-1")
    yield _patch("a pod of kube-system chosen to go", SCALED, "kube-system/pods/dns-1-0", cost)
    yield _patch("the Lease of a node", OWN_OBJECTS, "kube-node-lease/leases/one", {"spec": {"holderIdentity": "evil"}})


def _elsewhere() -> Iterator[Attempt]:
    yield _patch("a ConfigMap", OWN_OBJECTS, "dev/configmaps/settings", {"data": {"a": "evil"}})
    ours = an_object("v1", "ConfigMap", "reconciler-journal")
    yield _create("a ConfigMap with our name in another namespace", OWN_OBJECTS, "dev/configmaps", ours)
    yield _create("a Secret", OTHERS, "dev/secrets", an_object("v1", "Secret", "evil"))
    yield _patch("a Secret changed", OTHERS, "dev/secrets/password", {"stringData": {"a": "evil"}})
    yield _delete("a Secret deleted", OTHERS, "dev/secrets/password")
    yield _create("an Event in another's name", OWN_OBJECTS, "dev/events", _event("evil", "kubelet", "dev"))
    yield _patch("an Event changed", OWN_OBJECTS, "dev/events/seen", {"message": "evil"})
    ours = {"reportingComponent": "reconciler", "source": {"component": "reconciler"}}
    yield _patch("an Event of others made ours", OWN_OBJECTS, "dev/events/seen", ours)
    about = {"involvedObject": {"name": "another"}}
    yield _patch("an Event of ours made one about another object", OWN_OBJECTS, "dev/events/told", about)
    reason = {"reportingComponent": "kubelet"}
    yield _patch("an Event of ours made another's", OWN_OBJECTS, "dev/events/told", reason)
    yield _delete("an Event deleted", OTHERS, "dev/events/seen")
    yield _create("a ServiceAccount", OTHERS, "dev/serviceaccounts", an_object("v1", "ServiceAccount", "evil"))
    yield _create("a token of another account", OTHERS, "dev/serviceaccounts/admin/token", _token_request())
    yield _create("a Job", OTHERS, "dev/jobs", a_job("evil"))
    yield _patch("a Job suspended", OTHERS, "dev/jobs/once", {"spec": {"suspend": True}})
    daemon = a_deployment("evil", kind="DaemonSet")
    del daemon["spec"]["replicas"]
    yield _create("a DaemonSet", OTHERS, "dev/daemonsets", daemon)
    closed = an_object("networking.k8s.io/v1", "NetworkPolicy", "evil", spec={"podSelector": {}})
    yield _create("a NetworkPolicy", OTHERS, "dev/networkpolicies", closed)
    role = an_object("rbac.authorization.k8s.io/v1", "Role", "evil", rules=[])
    yield _create("a Role", OTHERS, "dev/roles", role)


_POLICIES = "/apis/admissionregistration.k8s.io/v1"
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


def _on_the_cluster() -> Iterator[Attempt]:
    space = "/api/v1/namespaces"
    yield Attempt("a namespace opted in", OTHERS, "PATCH", f"{space}/dev", {"metadata": {"labels": OPEN}}, MERGE_PATCH)
    yield Attempt("a namespace", OTHERS, "POST", space, a_namespace("evil"))
    yield Attempt("a namespace deleted", OTHERS, "DELETE", f"{space}/dev")
    yield Attempt("a node closed", OTHERS, "PATCH", "/api/v1/nodes/one", {"spec": {"unschedulable": True}}, MERGE_PATCH)
    yield Attempt("a node deleted", OTHERS, "DELETE", "/api/v1/nodes/one")
    role = an_object("rbac.authorization.k8s.io/v1", "ClusterRole", "evil", rules=[])
    yield Attempt("a ClusterRole", OTHERS, "POST", f"{_RBAC}/clusterroles", role)
    all_ = {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}
    yield Attempt("our own role", OTHERS, "PATCH", f"{_RBAC}/clusterroles/reconciler-apply", all_, MERGE_PATCH)
    hook = an_object("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", "evil", webhooks=[])
    yield Attempt("a webhook", OTHERS, "POST", f"{_POLICIES}/mutatingwebhookconfigurations", hook)
    definition = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/clonesets.apps.kruise.io"
    yield Attempt("a kind deleted", OTHERS, "DELETE", definition)
    for kind in ("validatingadmissionpolicies", "validatingadmissionpolicybindings"):
        yield Attempt(f"one of {kind} deleted", ROLES, "DELETE", f"{_POLICIES}/{kind}/{SCALED}")


# What is ours to write, and is written seldom


def seldom() -> Iterator[Attempt]:
    """Writes that pass, with the roles of deploy/."""
    named = {"podsToDelete": ["runner-1"]}
    fewer = {"op": "replace", "path": "/spec/replicas", "value": 2}
    by_name = [fewer, {"op": "add", "path": "/spec/scaleStrategy", "value": named}]
    yield _patch("the pods of a CloneSet by name", "", "dev/clonesets/runner", by_name, JSON_PATCH)
    yield _patch("that somebody undoes an idle", "", "dev/deployments/web", _annotated("reconciler/contested", "{}"))
    gone = _annotated("idling.alpha.openshift.io/previous-scale", None)
    yield _patch("the number of oc idle off", "", "dev/deployments/web", gone)
    template = {"metadata": {"labels": {"reconciler/frs": "theirs"}}, **_IMAGE}
    yield _patch("a ReplicaSet taken over where placement may", "", "shop/replicasets/theirs", template)
    yield _delete("a local ReplicaSet deleted", "", "shop/replicasets/cache")
    refused = an_object("v1", "ConfigMap", "reconciler-memory", data={"rejected.0": "{}"})
    yield _create("that a write was refused", "", f"{OWN}/configmaps", refused)
    count = [{"op": "add", "path": f"/{key}", "value": value} for key, value in (("count", 2), ("message", "again"))]
    yield _patch("that it failed once more", "", "dev/events/told", count, JSON_PATCH)
