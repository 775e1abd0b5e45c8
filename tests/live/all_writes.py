"""What is added to the `rights_cluster` so that a few runs make every kind of write, and what was written."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from reconciler.decide.annotations import VICTIM_COST
from reconciler.model import DELETION_COST
from tests.live import rights_cluster
from tests.live.asked import kinds
from tests.live.deployed import OWN
from tests.live.rights_cluster import local
from tests.pipeline.manifests import documents, policy, target_ref
from tests.real.api import JSON_PATCH, Api, Object
from tests.real.objects import (
    a_clone_set,
    a_cron_job,
    a_deployment,
    a_pod_template,
    a_service,
    an_autoscaler,
    an_object,
    for_deployment,
    owned_by,
    status_of,
    with_metadata,
)
from tests.real.proxy import Request

_ANEW = ("overwritten", "selected", "unlabelled", "unmarked", "full")
NIGHT = documents(
    rights_cluster.POLICIES,
    *map(rights_cluster.federated, _ANEW),
    policy("FederatedReplicaSet", "targeted", "replicas: 5", target_ref(name="targeted"), namespace="shop"),
)
DAY = NIGHT.replace("Mon-Sun 20:00-07:00", "Mon-Sun 01:00-02:00")
_LONG_AGO = "2098-01-01T00:00:00Z"
_OWNER = "rights/IdlingPolicy/idle-dev"
_SINCE = "2099-01-06T20:00:00Z"
_MARK = {
    "idling.kubernetes.io/idled-at": _SINCE,
    "reconciler/idled-to": "0",
    "reconciler/owner": _OWNER,
    "reconciler/wake-due": _SINCE,
}


def placed() -> Iterator[Object]:
    """Local ReplicaSets that are not as their policies say, in the namespace shop."""
    # somebody made these: another template, another selector
    another = a_deployment("overwritten", 3, kind="ReplicaSet")
    another["spec"]["template"]["spec"]["containers"][0]["image"] = "another:runs"
    yield another
    other = a_deployment("selected", 3, kind="ReplicaSet", labels={"tier": "front"})
    other["spec"]["selector"]["matchLabels"]["tier"] = "front"
    yield other
    # a part of our marks was taken off
    yield with_metadata(local("unlabelled", 3), labels={})
    yield with_metadata(local("unmarked", 3), annotations={"reconciler/policy-digest": "old"})
    # left git, and is let go
    yield local("released", 1, **{"reconciler/on-delete": "orphan"})
    # two of three pods find no node
    few = {"readyReplicas": 1, "availableReplicas": 1}
    yield local("full", 3) | {"status": status_of("ReplicaSet", 3) | few}
    yield a_deployment("targeted", 2)


def waiting_pods(replica_set: Object) -> Iterator[Object]:
    """The pods of `full`."""
    for number in range(3):
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": _LONG_AGO}
        runs = {"type": "Ready", "status": "True", "lastTransitionTime": _LONG_AGO}
        spec = {**a_pod_template("full")["spec"], **({} if number else {"nodeName": "one"})}
        phase = {"phase": "Pending" if number else "Running", "conditions": [waits if number else runs]}
        pod = an_object("v1", "Pod", f"full-{number}", {"labels": {"app": "full"}}, spec=spec, status=phase)
        yield owned_by(replica_set, pod)


def _with_annotations(one: Object, **annotations: str) -> Object:
    kept = one["metadata"].get("annotations", {})
    return {**one, "metadata": {**one["metadata"], "annotations": {**kept, **annotations}}}


def of_oc_idle() -> Iterator[Object]:
    """What `oc idle` leaves, in the namespace dev."""
    at = {"idling.alpha.openshift.io/idled-at": _LONG_AGO}
    targets = json.dumps([{"kind": "Deployment", "name": "foreign", "apiGroup": "apps", "replicas": 2}])
    marks = {**at, "idling.alpha.openshift.io/unidle-targets": targets}
    yield a_service("foreign", **marks)
    yield an_object("v1", "Endpoints", "foreign", {"annotations": marks})
    yield _with_annotations(a_deployment("foreign", 0), **at, **{"idling.alpha.openshift.io/previous-scale": "2"})


def idle_and_protected() -> Iterator[Object]:
    """What was idled before its namespace, kube-system, was protected."""
    when = {"scale.kubernetes.io/scale-reason": "Idled", "scale.kubernetes.io/scale-time": _SINCE}
    record = {"idling.kubernetes.io/previous-scale": "2", **_MARK, **when}
    targets = json.dumps([{"kind": "Deployment", "name": "resting", "group": "apps", "replicas": 2}])
    yield a_service("resting", **_MARK, **{"idling.kubernetes.io/unidle-targets": targets})
    yield _with_annotations(a_deployment("resting", 0), **record)
    yield _with_annotations(a_deployment("resting-too", 0, kind="StatefulSet"), **record)
    yield _with_annotations(a_clone_set("resting", 0), **record)
    cron_job = a_cron_job("resting", suspend=True)
    yield _with_annotations(cron_job, **_MARK, **when, **{"reconciler/previous-suspend": "false"})
    # held at one, with its autoscaler
    yield _with_annotations(a_deployment("held", 1), **{**record, "reconciler/idled-to": "1"})
    bounds = {"reconciler/previous-bounds": '{"minReplicas":2,"maxReplicas":9}', "reconciler/owner": _OWNER}
    yield with_metadata(an_autoscaler("held", 1, 1), annotations=bounds)
    # chosen to go by a run that died
    marks = {"labels": {"reconciler/victim": "dead"}, "annotations": {DELETION_COST: VICTIM_COST}}
    yield an_object("v1", "Pod", "chosen", marks, spec=a_pod_template("chosen")["spec"])
    # paused with its workload
    yield a_deployment("queue", 0)
    paused = {**record, "autoscaling.keda.sh/paused-replicas": "0"}
    yield with_metadata(for_deployment("keda.sh/v1alpha1", "ScaledObject", "queue"), annotations=paused)


def scale_by_hand(api: Api, path: str, replicas: int) -> None:
    """Undo an idle, as another field manager than ours."""
    change = {"op": "replace", "path": "/spec/replicas", "value": replicas}
    api.patch(path, [change], JSON_PATCH, fieldManager="argocd-controller")


_RESTING = {
    "/apis/apps/v1/{}/deployments/resting": 2,
    "/apis/apps/v1/{}/statefulsets/resting-too": 2,
    "/apis/apps.kruise.io/v1alpha1/{}/clonesets/resting": 2,
    "/apis/apps/v1/{}/deployments/held": 2,
}
_OTHERS = (
    "/apis/batch/v1/{}/cronjobs/resting",
    "/apis/autoscaling/v2/{}/horizontalpodautoscalers/held",
    "/apis/keda.sh/v1alpha1/{}/scaledobjects/queue",
    "/api/v1/{}/services/resting",
    "/api/v1/{}/pods/chosen",
)


def check_awake_and_clear(api: Api) -> None:
    """Check that all of `idle_and_protected` is as it was before it was idled, and that no record is left."""
    space = "namespaces/kube-system"
    found = {path: api.get(path.format(space)) for path in (*_RESTING, *_OTHERS)}
    assert {path: found[path]["spec"]["replicas"] for path in _RESTING} == _RESTING
    cron_job, autoscaler, _, _, pod = (found[path] for path in _OTHERS)
    assert cron_job["spec"]["suspend"] is False
    assert (autoscaler["spec"]["minReplicas"], autoscaler["spec"]["maxReplicas"]) == (2, 9)
    assert "labels" not in pod["metadata"]
    left = {key for one in found.values() for key in one["metadata"].get("annotations", ())}
    assert left == {"reconciler/awake-since", "scale.kubernetes.io/scale-time"}, left


# What was written


def verbs(requests: Iterable[Request]) -> set[tuple[str, str]]:
    """(verb, resource with its subresource) of all writes."""
    return {
        (verb, resource) for _, resource, verb, _, _ in kinds(requests, OWN) if verb in ("create", "patch", "delete")
    }


def changed(requests: Iterable[Request]) -> set[tuple[str, str]]:
    """(resource, path) of all that patches changed; keys of data are left out."""
    found = set()
    for request in requests:
        if request.method == "PATCH":
            resource = next(resource for _, resource, _, _, _ in kinds([request], OWN))
            found |= {(resource, path) for path in _paths(json.loads(request.body))}
    return found


def _paths(operations: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for operation in operations:
        path, value = operation["path"].replace("~1", "/"), operation.get("value")
        if operation["op"] == "test":
            continue
        if path in ("/metadata/annotations", "/metadata/labels"):
            yield from (f"{path}/{key}" for key in value)
        else:
            yield "/data" if path.startswith("/data") else path


_ALL_WITH_REPLICAS = ("deployments", "statefulsets", "replicasets", "replicationcontrollers", "clonesets")
FIELDS = {
    *((resource, "/spec/replicas") for resource in _ALL_WITH_REPLICAS),
    *((f"{resource}/scale", "/spec/replicas") for resource in _ALL_WITH_REPLICAS),
    ("cronjobs", "/spec/suspend"),
    ("horizontalpodautoscalers", "/spec/minReplicas"),
    ("horizontalpodautoscalers", "/spec/maxReplicas"),
    ("replicasets", "/spec/template"),
    ("scaledobjects", "/metadata/annotations/autoscaling.keda.sh/paused-replicas"),
    ("services", "/metadata/annotations/idling.kubernetes.io/unidle-targets"),
    ("endpoints", "/metadata/annotations/idling.kubernetes.io/unidle-targets"),
    ("services", "/metadata/annotations/idling.alpha.openshift.io/unidle-targets"),
    ("endpoints", "/metadata/annotations/idling.alpha.openshift.io/unidle-targets"),
    ("deployments", "/metadata/annotations/idling.alpha.openshift.io/previous-scale"),
    ("pods", "/metadata/annotations/controller.kubernetes.io/pod-deletion-cost"),
    ("pods", "/metadata/labels/reconciler/victim"),
    ("replicasets", "/metadata/labels/reconciler/frs"),
    ("configmaps", "/data"),
    ("configmaps", "/metadata/annotations/reconciler/status"),
    ("leases", "/spec/holderIdentity"),
}
"""Resources with a path that must have been changed."""

_IDLING = ("idling.kubernetes.io/idled-at", "idling.kubernetes.io/previous-scale")
_SCALING = ("scale.kubernetes.io/scale-reason", "scale.kubernetes.io/scale-time")
_OURS = (
    *("awake-since", "awake-until", "cause", "exclude-until", "idled-to", "observed-capacity", "on-delete", "owner"),
    *(
        "policy-digest",
        "previous-bounds",
        "previous-suspend",
        "undone",
        "wake-begun-at",
        "wake-due",
        "wake-requested-at",
    ),
)
MARKS = {f"annotations/{key}" for key in (*_IDLING, *_SCALING, *(f"reconciler/{name}" for name in _OURS))}
"""Marks of ours that must have been written or taken off somewhere."""
