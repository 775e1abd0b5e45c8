"""A small world of two clusters on which a plan has all kinds of actions; nothing in it acts but the run under test.

What controllers would do, tests do with `settle`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.real.api import Object
from tests.real.objects import a_crd, a_deployment, a_node, a_pod_template, a_service, an_object

NOW = "2035-11-23T22:00:00Z"  # a Friday evening, later than any object that a test makes
NAMESPACES = ("batch", "ci", "dev", "floor", "shop", "reconciler")
VICTIMS, STAYING = 3, 4
"""How many of the seven workers go, and how many stay."""

POLICIES = """
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: everything}
spec:
  home: east
  clusters: [{name: east}, {name: west}]
  limits:
    default: {perCluster: {share: 100%}, fleet: {share: 100%}}
---
apiVersion: reconciler/v1alpha1
kind: Calendar
metadata: {name: night}
spec:
  timeZone: Europe/Paris
  downtime: ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: idle-dev}
spec:
  selector:
    namespaces: {include: [dev]}
    services: {}
  idleWhen: [{schedule: {calendar: night}}]
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: idle-runners}
spec:
  selector:
    namespaces: {include: [ci]}
    workloads: {kinds: [StatefulSet, CronJob, CloneSet]}
  idleWhen: [{schedule: {calendar: night}}]
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
---
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: web, namespace: shop}
spec:
  replicas: 8
  preferences:
    rebalance: true
    clusters: {"*": {weight: 1}}
  selector: {matchLabels: {app: web}}
  template: {TEMPLATE: web}
---
apiVersion: reconciler/v1alpha1
kind: FederatedReplicaSet
metadata: {name: cache, namespace: shop}
spec:
  replicas: 7
  preferences:
    rebalance: true
    clusters: {east: {weight: 2}, west: {weight: 1}}
  selector: {matchLabels: {app: cache}}
  template: {TEMPLATE: cache}
---
apiVersion: reconciler/v1alpha1
kind: DownscalePolicy
metadata: {name: workers}
spec:
  selector:
    clusters: {include: [east]}
    namespaces: {include: [batch]}
    workloads: {kinds: [Deployment], matchLabels: {app: worker}}
  target: {replicas: 4}
  strategy: ZoneBalanced
  settleSeconds: 0
  verifySeconds: 2
"""

RUNNERS = a_crd("CloneSet", "apps.kruise.io", scale=True)
_OWNER = "everything/IdlingPolicy/idle-dev"
_IDLED_AT = "2035-11-23T20:00:00Z"


def policies() -> str:
    """The text of all policy documents."""
    text = POLICIES
    for name in ("web", "cache"):
        text = text.replace(f"{{TEMPLATE: {name}}}", json.dumps(_template(name)))
    return text


def objects() -> dict[str, list[Object]]:
    """The world as manifests, by cluster; what has a status says it."""
    return {"east": list(_east()), "west": list(_west())}


def _east() -> Iterator[Object]:
    yield from (a_node(f"node-{zone}", **{"topology.kubernetes.io/zone": zone}) for zone in "abc")
    yield RUNNERS
    # idled: a Service with its two targets
    yield a_service("api") | {"metadata": _metadata("api", "dev")}
    yield _settled("api", "dev", 3)
    yield _settled("api-store", "dev", 2, kind="StatefulSet", app="api")
    # woken: somebody wants it
    yield _idled_service("docs", 2)
    yield _idled("docs", 2)
    # repaired: the run before died after its wake, before it cleared the Service
    yield _half_woken_service("wiki", 1)
    yield _settled("wiki", "dev", 1, annotations={"reconciler/awake-since": "2035-11-23T21:59:00Z"})
    # idled without a Service
    yield _settled("runner", "ci", 2, kind="StatefulSet")
    yield _cron_job("nightly", "ci")
    yield _clone_set("builder", "ci", 4)
    # idled to one, with an autoscaler that must let it
    yield _settled("slow", "floor", 4)
    yield _autoscaler("slow", "floor")
    # placed
    yield _replica_set("web", 8)
    yield _replica_set("cache", 2)
    yield _left_git("old", 3, on_delete="delete")
    yield _left_git("older", 2, on_delete="orphan")
    # shrunk, and who goes is ours to choose
    yield _settled("worker", "batch", STAYING + VICTIMS)


def _west() -> Iterator[Object]:
    yield a_service("api") | {"metadata": _metadata("api", "dev")}
    yield _settled("api", "dev", 2)
    yield _replica_set("cache", 4)


def workers(deployment: Object) -> Iterator[Object]:
    """The ReplicaSet of the Deployment `worker`, then its pods."""
    labels = {"app": "worker", "pod-template-hash": "1"}
    spec = deployment["spec"]
    owned = [_owner(deployment)]
    template = {**spec["template"], "metadata": {"labels": labels}}
    inner = {"replicas": spec["replicas"], "selector": {"matchLabels": labels}, "template": template}
    metadata = {**_metadata("worker-1", "batch"), "labels": labels, "ownerReferences": owned}
    yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": inner}


def pods(replica_set: Object) -> Iterator[Object]:
    """The pods of the ReplicaSet of `worker`: five in zone a, one in b, one in c, each older than the one before."""
    labels = replica_set["spec"]["selector"]["matchLabels"]
    for number, zone in enumerate("aaaaabc"):
        ready = f"{2034 - 2**number:04}-01-01T00:00:00Z"
        metadata = {**_metadata(f"worker-1-{number}", "batch"), "labels": labels}
        metadata["ownerReferences"] = [_owner(replica_set)]
        spec = {**a_pod_template("worker")["spec"], "nodeName": f"node-{zone}"}
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": ready} for kind in ("PodScheduled", "Ready")
        ]
        status = {"phase": "Running", "startTime": ready, "conditions": conditions}
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def _settled(
    name: str,
    namespace: str,
    replicas: int,
    *,
    kind: str = "Deployment",
    app: str = "",
    annotations: Mapping[str, str] | None = None,
) -> Object:
    made = a_deployment(app or name, replicas, kind=kind)
    made["metadata"] = {
        **_metadata(name, namespace),
        "labels": {"app": app or name},
        "annotations": {**(annotations or {})},
    }
    if kind == "StatefulSet":
        made["spec"]["serviceName"] = name
    return {**made, "status": status_of(kind, replicas)}


def status_of(kind: str, replicas: int, generation: int = 1) -> dict[str, Any]:
    """The status of a workload whose controller has nothing left to do."""
    counts = {"replicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}
    updated = {} if kind == "ReplicaSet" else {"updatedReplicas": replicas}
    return {**counts, **updated, "observedGeneration": generation}


def _idled_service(name: str, replicas: int) -> Object:
    service = _half_woken_service(name, replicas)
    service["metadata"]["annotations"]["reconciler/wake-requested-at"] = "2035-11-23T21:30:00Z"
    return service


def _half_woken_service(name: str, replicas: int) -> Object:
    targets = [{"kind": "Deployment", "name": name, "group": "apps", "replicas": replicas}]
    marks = {**_marks(), "idling.kubernetes.io/unidle-targets": json.dumps(targets)}
    return a_service(name) | {"metadata": {**_metadata(name, "dev"), "annotations": marks}}


def _idled(name: str, replicas: int) -> Object:
    record = {
        "idling.kubernetes.io/previous-scale": str(replicas),
        "scale.kubernetes.io/scale-reason": "Idled",
        "scale.kubernetes.io/scale-time": _IDLED_AT,
    }
    return _settled(name, "dev", 0, annotations={**_marks(), **record})


def _marks() -> dict[str, str]:
    return {"idling.kubernetes.io/idled-at": _IDLED_AT, "reconciler/owner": _OWNER, "reconciler/idled-to": "0"}


def _cron_job(name: str, namespace: str) -> Object:
    pod = a_pod_template(name)
    pod["spec"]["restartPolicy"] = "Never"
    spec = {"schedule": "0 * * * *", "startingDeadlineSeconds": 60, "jobTemplate": {"spec": {"template": pod}}}
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": _metadata(name, namespace), "spec": spec}


def _clone_set(name: str, namespace: str, replicas: int) -> Object:
    labels = {"matchLabels": {"app": name}}
    spec = {"replicas": replicas, "selector": labels, "template": a_pod_template(name)}
    status = {**status_of("CloneSet", replicas), "labelSelector": f"app={name}"}
    metadata = _metadata(name, namespace)
    return an_object("apps.kruise.io/v1alpha1", "CloneSet", name, metadata=metadata, spec=spec, status=status)


def _autoscaler(name: str, namespace: str) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    spec = {"minReplicas": 2, "maxReplicas": 10, "scaleTargetRef": target}
    metadata = _metadata(name, namespace)
    return an_object("autoscaling/v2", "HorizontalPodAutoscaler", name, metadata=metadata, spec=spec)


def _replica_set(name: str, replicas: int) -> Object:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": _template(name)}
    metadata = {**_metadata(name, "shop"), "labels": {"reconciler/frs": name}}
    metadata["annotations"] = {"reconciler/owner": f"everything/FederatedReplicaSet/shop/{name}"}
    return an_object(
        "apps/v1", "ReplicaSet", name, metadata=metadata, spec=spec, status=status_of("ReplicaSet", replicas)
    )


def _left_git(name: str, replicas: int, *, on_delete: str) -> Object:
    made = _replica_set(name, replicas)
    made["metadata"]["annotations"]["reconciler/on-delete"] = on_delete
    return made


def _template(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "registry.example/shop:1"}]}
    return {"metadata": {"labels": {"app": name}}, "spec": spec}


def _metadata(name: str, namespace: str) -> dict[str, Any]:
    return {"name": name, "namespace": namespace}


def _owner(one: Object) -> dict[str, Any]:
    metadata = one["metadata"]
    kind = {"apiVersion": "apps/v1", "kind": one["kind"]}
    return {**kind, "name": metadata["name"], "uid": metadata["uid"], "controller": True}
