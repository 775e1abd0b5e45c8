"""One small cluster on which an apply makes every kind of request it ever makes; nothing acts there but the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from reconciler.model import ACTIVATOR_LABELS, ACTIVATOR_MANAGER, ACTIVATOR_POD_LABEL, MANAGED_BY_LABEL
from tests.live.deployed import OPEN, OWN
from tests.real.api import Api, ApiError, Object
from tests.real.objects import (
    CLONE_SET,
    SCALED_OBJECT,
    a_deployment,
    a_namespace,
    a_node,
    a_pod_template,
    a_service,
    an_object,
)
from tests.real.worlds import create, create_missing

CLUSTER = "east"
NOW = "2099-01-06T22:00:00Z"  # a Tuesday night, later than anything that a test makes
NAMESPACES = ("batch", "dev", "floor", "shop", "targets")
_ZONES = {"one": "a", "two": "b"}
LASTING = (
    CLONE_SET,
    SCALED_OBJECT,
    *(a_namespace(name, **OPEN) for name in NAMESPACES),
    *(a_node(name, **{"topology.kubernetes.io/zone": zone}) for name, zone in _ZONES.items()),
)
"""What is made once and stays: nothing writes it."""

_FLEET = """
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: rights}
spec:
  home: east
  clusters: [{name: east, connection: {kubeconfig: kubeconfig.yaml}}]
  limits:
    default: {perCluster: {share: 100%}, fleet: {share: 100%}}
---"""
IDLING = """
apiVersion: reconciler/v1alpha1
kind: Calendar
metadata: {name: night}
spec:
  timeZone: UTC
  downtime: ["Mon-Sun 20:00-07:00"]
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: idle-dev}
spec:
  selector:
    namespaces: {include: [dev]}
    services: {}
    workloads: {kinds: [Deployment, StatefulSet, ReplicationController, CronJob, CloneSet]}
  idleWhen: [{schedule: {calendar: night}}]
  markEndpoints: true
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: idle-to-one}
spec:
  selector:
    namespaces: {include: [floor]}
    workloads: {kinds: [Deployment]}
  idleWhen: [{schedule: {calendar: night}}]
  idleReplicas: 1
---"""
_REST = """
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "nothing:runs"}]}
---
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: cache, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: cache}}
  template:
    metadata: {labels: {app: cache}}
    spec: {containers: [{name: main, image: "nothing:runs"}]}
---
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: targets}
spec:
  selector:
    namespaces: {include: [targets]}
    workloads: {kinds: [Deployment, StatefulSet, ReplicaSet, ReplicationController, CloneSet]}
  target: {replicas: 2}
---
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: workers}
spec:
  selector:
    namespaces: {include: [batch]}
    workloads: {kinds: [Deployment]}
  target: {replicas: 2}
  strategy: ZoneBalanced
  settleSeconds: 0
  verifySeconds: 0
"""
POLICIES = _FLEET + IDLING + _REST

_LISTS = {
    "Deployment": "/apis/apps/v1/{}deployments",
    "StatefulSet": "/apis/apps/v1/{}statefulsets",
    "ReplicaSet": "/apis/apps/v1/{}replicasets",
    "ReplicationController": "/api/v1/{}replicationcontrollers",
    "CronJob": "/apis/batch/v1/{}cronjobs",
    "CloneSet": "/apis/apps.kruise.io/v1alpha1/{}clonesets",
    "ScaledObject": "/apis/keda.sh/v1alpha1/{}scaledobjects",
    "HorizontalPodAutoscaler": "/apis/autoscaling/v2/{}horizontalpodautoscalers",
    "Service": "/api/v1/{}services",
    "Endpoints": "/api/v1/{}endpoints",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/{}endpointslices",
    "Pod": "/api/v1/{}pods",
    "ConfigMap": "/api/v1/{}configmaps",
}
_PASSING = ("/api/v1/{}events", "/apis/coordination.k8s.io/v1/{}leases")
_OF_THIS_TIME = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences")


def objects() -> Iterator[Object]:
    """The world, but for the pods of batch/worker."""
    # idled through its Service, with the marks on the Endpoints too
    yield _in("dev", a_service("api"))
    yield _in("dev", an_object("v1", "Endpoints", "api"))
    yield _in("dev", a_deployment("api", 3))
    # idled by themselves; a ScaledObject is paused with its workload
    yield _in("dev", a_deployment("db", 2, kind="StatefulSet"))
    yield _in("dev", _controller("old", 2))
    yield _in("dev", a_cron_job("nightly"))
    yield _in("dev", a_clone_set("runner", 2))
    yield _in("dev", a_deployment("queue", 2))
    yield _in("dev", _for_deployment("keda.sh/v1alpha1", "ScaledObject", "queue"))
    # woken
    yield _in("dev", _idled("docs", 2))
    # idled to one, held there by its autoscaler
    yield _in("floor", a_deployment("slow", 4))
    yield _in(
        "floor", _for_deployment("autoscaling/v2", "HorizontalPodAutoscaler", "slow", minReplicas=2, maxReplicas=9)
    )
    # placed: `web` is made, `cache` grows, `gone` left git
    yield _in("shop", _local("cache", 1))
    yield _in("shop", _local("gone", 1, **{"reconciler/on-delete": "delete"}))
    yield _status_of_gone()
    # scaled, nothing else changes
    yield _in("targets", a_deployment("web", 3))
    yield _in("targets", a_deployment("store", 3, kind="StatefulSet"))
    yield _in("targets", a_deployment("alone", 3, kind="ReplicaSet"))
    yield _in("targets", _controller("old", 3))
    yield _in("targets", a_clone_set("runner", 3))
    # deleted: what an activator that died left
    yield _lease_of_dead_activator()
    yield _in("targets", _slice_of_dead_activator())
    # shrunk, and who goes is ours to choose
    yield _in("batch", a_deployment("worker", 4))


def fill(api: Api) -> None:
    """Make the world anew."""
    create_missing(api, LASTING)
    empty(api)
    made = create(api, objects())
    worker = next(one for one in made if one["metadata"]["name"] == "worker")
    (replicas,) = create(api, [_owned(worker, a_deployment("worker", 4, kind="ReplicaSet"), "worker-1")], "batch")
    create(api, (_pod(replicas, number) for number in range(4)), "batch")


def empty(api: Api) -> None:
    """Take away all that `fill` makes and a run writes, but for what lasts."""

    paths = [*_LISTS.values(), *_PASSING]
    with ThreadPoolExecutor(8) as threads:
        lists = list(threads.map(lambda path: api.items(path.format("")), paths))
        found = [(path, one["metadata"]) for path, items in zip(paths, lists, strict=True) for one in items]
        ours = [(path, one) for path, one in found if one["namespace"] in (*NAMESPACES, OWN)]
        list(threads.map(lambda place: _delete(api, *place), ours))


def _delete(api: Api, path: str, metadata: Mapping[str, Any]) -> None:
    inside = path.format(f"namespaces/{metadata['namespace']}/")
    try:
        api.delete(f"{inside}/{metadata['name']}", propagationPolicy="Background", gracePeriodSeconds=0)
    except ApiError as error:
        if error.status != 404:  # Endpoints go with their Service
            raise


def settle(api: Api) -> None:
    """Do what the controller of ReplicaSets would: all local ones run what they should."""
    for one in api.items(_LISTS["ReplicaSet"].format("namespaces/shop/")):
        path = f"{_LISTS['ReplicaSet'].format('namespaces/shop/')}/{one['metadata']['name']}/status"
        api.patch(path, {"status": _all_run(one["spec"]["replicas"], one["metadata"]["generation"])})


def _all_run(replicas: int, generation: int) -> Object:
    counts = ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    return {**dict.fromkeys(counts, replicas), "observedGeneration": generation}


def state(api: Api) -> dict[tuple[str, str, str], Object]:
    """What the world is like by namespace, kind and name: all but what differs each time it is made, as the
    history does.
    """
    with ThreadPoolExecutor(4) as threads:
        lists = list(threads.map(lambda path: api.items(path.format("")), _LISTS.values()))
    return {
        (one["metadata"]["namespace"], kind, one["metadata"]["name"]): _lasting(one)
        for kind, items in zip(_LISTS, lists, strict=True)
        for one in items
        if one["metadata"]["namespace"] in (*NAMESPACES, OWN)
        and not one["metadata"]["name"].startswith("reconciler-history-")
    }


def _lasting(one: Object) -> Object:
    metadata = {key: value for key, value in one["metadata"].items() if key not in _OF_THIS_TIME}
    rest = {key: value for key, value in one.items() if key not in ("metadata", "status", "kind", "apiVersion")}
    rest.get("spec", {}).pop("clusterIP", None)
    rest.get("spec", {}).pop("clusterIPs", None)
    return {"metadata": metadata, **rest}


def _in(namespace: str, one: Object) -> Object:
    return {**one, "metadata": {**one["metadata"], "namespace": namespace}}


def _controller(name: str, replicas: int) -> Object:
    spec = {"replicas": replicas, "selector": {"app": name}, "template": a_pod_template(name)}
    return an_object("v1", "ReplicationController", name, spec=spec)


def a_cron_job(name: str) -> Object:
    """One that runs every hour."""
    pod = a_pod_template(name)
    pod["spec"]["restartPolicy"] = "Never"
    return an_object(
        "batch/v1", "CronJob", name, spec={"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": pod}}}
    )


def a_clone_set(name: str, replicas: int) -> Object:
    """One of OpenKruise, whose controller does not run."""
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": a_pod_template(name)}
    return an_object("apps.kruise.io/v1alpha1", "CloneSet", name, spec=spec)


def _for_deployment(version: str, kind: str, name: str, **spec: Any) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return an_object(version, kind, name, spec={"scaleTargetRef": target, **spec})


def _idled(name: str, replicas: int) -> Object:
    since = "2099-01-06T20:00:00Z"
    annotations = {
        "idling.kubernetes.io/idled-at": since,
        "idling.kubernetes.io/previous-scale": str(replicas),
        "reconciler/idled-to": "0",
        "reconciler/owner": "rights/IdlingPolicy/idle-dev",
        "reconciler/wake-requested-at": "2099-01-06T21:58:00Z",
        "scale.kubernetes.io/scale-reason": "Idled",
        "scale.kubernetes.io/scale-time": since,
    }
    made = a_deployment(name, 0)
    return {**made, "metadata": {**made["metadata"], "annotations": annotations}}


def _local(name: str, replicas: int, **annotations: str) -> Object:
    made = a_deployment(name, replicas, kind="ReplicaSet")
    metadata = {
        "labels": {"reconciler/frs": name},
        "annotations": {"reconciler/owner": f"rights/FederatedReplicaSet/shop/{name}", **annotations},
    }
    return {**made, "metadata": {**made["metadata"], **metadata}, "status": _all_run(replicas, 1)}


def _status_of_gone() -> Object:
    annotations = {"reconciler/owner": "rights/FederatedReplicaSet/shop/gone", "reconciler/status": "{}"}
    metadata = {"namespace": OWN, "annotations": annotations}
    return an_object("v1", "ConfigMap", "reconciler-status-shop.gone", metadata=metadata)


def _lease_of_dead_activator() -> Object:
    labels = dict(ACTIVATOR_LABELS)
    metadata = {"namespace": OWN, "labels": {**labels, ACTIVATOR_POD_LABEL: "gone"}}
    spec = {"leaseDurationSeconds": 15, "renewTime": "2020-01-01T00:00:00.000000Z"}
    return an_object("coordination.k8s.io/v1", "Lease", "reconciler-activator-gone", metadata=metadata, spec=spec)


def _slice_of_dead_activator() -> Object:
    labels = {MANAGED_BY_LABEL: ACTIVATOR_MANAGER, ACTIVATOR_POD_LABEL: "gone"}
    made = an_object("discovery.k8s.io/v1", "EndpointSlice", "web-activator-gone-ipv4", metadata={"labels": labels})
    return {**made, "addressType": "IPv4", "endpoints": [{"addresses": ["198.18.1.9"]}], "ports": []}


def _owned(owner: Object, one: Object, name: str) -> Object:
    by = {"apiVersion": "apps/v1", "kind": owner["kind"], "name": owner["metadata"]["name"]}
    references = [{**by, "uid": owner["metadata"]["uid"], "controller": True}]
    return {**one, "metadata": {"name": name, "labels": {"app": "worker"}, "ownerReferences": references}}


def _pod(replicas: Object, number: int) -> Object:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": f"20{30 + number}-01-01T00:00:00Z"}
    spec = {**a_pod_template("worker")["spec"], "nodeName": "one" if number else "two"}
    made = {"apiVersion": "v1", "kind": "Pod", "spec": spec, "status": {"phase": "Running", "conditions": [ready]}}
    return _owned(replicas, made, f"worker-1-{number}")
