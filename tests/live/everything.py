"""A small world of two clusters on which a plan has all kinds of actions; nothing in it acts but the run under test.

What controllers would do, tests do with `settle`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.pipeline.manifests import UNLIMITED, documents, downscale, fleet, placed, policy, template
from tests.real.api import Object
from tests.real.objects import (
    CLONE_SET,
    a_clone_set,
    a_cron_job,
    a_deployment,
    a_node,
    a_pod_template,
    a_service,
    an_autoscaler,
    an_object,
    owned_by,
    status_of,
    with_metadata,
    within,
)

NOW = "2035-11-23T22:00:00Z"  # a Friday evening, later than any object that a test makes
NAMESPACES = ("batch", "ci", "dev", "floor", "shop", "reconciler")
VICTIMS, STAYING = 3, 4
"""How many of the seven workers go, and how many stay."""

_NIGHT = "idleWhen: [{schedule: {calendar: night}}]"


def _idling(name: str, selector: str, *more: str) -> str:
    return policy("IdlingPolicy", name, f"selector: {{{selector}}}", _NIGHT, *more)


def _federated(name: str, replicas: int, weights: str) -> str:
    preferences = f"rebalance: true, clusters: {{{weights}}}"
    return placed(replicas, preferences, template(name, _IMAGE), name=name)


_IMAGE = "registry.example/shop:1"
_WORKERS = (
    "clusters: {include: [east]}, namespaces: {include: [batch]}, "
    "workloads: {kinds: [Deployment], matchLabels: {app: worker}}"
)
RUNNERS = CLONE_SET
_OWNER = "everything/IdlingPolicy/idle-dev"
_IDLED_AT = "2035-11-23T20:00:00Z"


def policies() -> str:
    """The text of all policy documents."""
    downtime = 'downtime: ["Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"]'
    runners = "workloads: {kinds: [StatefulSet, CronJob, CloneSet]}"
    more = ("strategy: ZoneBalanced", "settleSeconds: 0", "verifySeconds: 2")
    return documents(
        fleet(["east", "west"], UNLIMITED, name="everything"),
        policy("Calendar", "night", "timeZone: Europe/Paris", downtime),
        _idling("idle-dev", "namespaces: {include: [dev]}, services: {}"),
        _idling("idle-runners", f"namespaces: {{include: [ci]}}, {runners}"),
        _idling("idle-to-one", "namespaces: {include: [floor]}, workloads: {kinds: [Deployment]}", "idleReplicas: 1"),
        _federated("web", 8, '"*": {weight: 1}'),
        _federated("cache", 7, "east: {weight: 2}, west: {weight: 1}"),
        downscale(_WORKERS, STAYING, *more, name="workers"),
    )


def objects() -> dict[str, list[Object]]:
    """The world as manifests, by cluster; what has a status says it."""
    return {"east": list(_east()), "west": list(_west())}


def _east() -> Iterator[Object]:
    yield from (a_node(f"node-{zone}", **{"topology.kubernetes.io/zone": zone}) for zone in "abc")
    yield RUNNERS
    # idled: a Service with its two targets
    yield within("dev", a_service("api"))
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
    yield within("ci", a_cron_job("nightly", startingDeadlineSeconds=60))
    builder = within("ci", a_clone_set("builder", 4))
    yield builder | {"status": {**status_of("CloneSet", 4), "labelSelector": "app=builder"}}
    # idled to one, with an autoscaler that must let it
    yield _settled("slow", "floor", 4)
    yield within("floor", an_autoscaler("slow", 2, 10))
    # placed
    yield _replica_set("web", 8)
    yield _replica_set("cache", 2)
    yield _left_git("old", 3, on_delete="delete")
    yield _left_git("older", 2, on_delete="orphan")
    # shrunk, and who goes is ours to choose
    yield _settled("worker", "batch", STAYING + VICTIMS)


def _west() -> Iterator[Object]:
    yield within("dev", a_service("api"))
    yield _settled("api", "dev", 2)
    yield _replica_set("cache", 4)


def workers(deployment: Object) -> Iterator[Object]:
    """The ReplicaSet of the Deployment `worker`, then its pods."""
    labels = {"app": "worker", "pod-template-hash": "1"}
    spec = deployment["spec"]
    template = {**spec["template"], "metadata": {"labels": labels}}
    inner = {"replicas": spec["replicas"], "selector": {"matchLabels": labels}, "template": template}
    made = an_object("apps/v1", "ReplicaSet", "worker-1", {"namespace": "batch", "labels": labels}, spec=inner)
    yield owned_by(deployment, made)


def pods(replica_set: Object) -> Iterator[Object]:
    """The pods of the ReplicaSet of `worker`: five in zone a, one in b, one in c, each older than the one before."""
    labels = replica_set["spec"]["selector"]["matchLabels"]
    for number, zone in enumerate("aaaaabc"):
        ready = f"{2034 - 2**number:04}-01-01T00:00:00Z"
        spec = {**a_pod_template("worker")["spec"], "nodeName": f"node-{zone}"}
        conditions = [
            {"type": kind, "status": "True", "lastTransitionTime": ready} for kind in ("PodScheduled", "Ready")
        ]
        status = {"phase": "Running", "startTime": ready, "conditions": conditions}
        metadata = {"namespace": "batch", "labels": labels}
        yield owned_by(replica_set, an_object("v1", "Pod", f"worker-1-{number}", metadata, spec=spec, status=status))


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
    more = {"labels": {"app": app or name}, "annotations": {**(annotations or {})}}
    made = with_metadata(made, name=name, namespace=namespace, **more)
    if kind == "StatefulSet":
        made["spec"]["serviceName"] = name
    return {**made, "status": status_of(kind, replicas)}


def _idled_service(name: str, replicas: int) -> Object:
    service = _half_woken_service(name, replicas)
    service["metadata"]["annotations"]["reconciler/wake-requested-at"] = "2035-11-23T21:30:00Z"
    return service


def _half_woken_service(name: str, replicas: int) -> Object:
    targets = [{"kind": "Deployment", "name": name, "group": "apps", "replicas": replicas}]
    marks = {**_marks(), "idling.kubernetes.io/unidle-targets": json.dumps(targets)}
    return within("dev", a_service(name, **marks))


def _idled(name: str, replicas: int) -> Object:
    record = {
        "idling.kubernetes.io/previous-scale": str(replicas),
        "scale.kubernetes.io/scale-reason": "Idled",
        "scale.kubernetes.io/scale-time": _IDLED_AT,
    }
    return _settled(name, "dev", 0, annotations={**_marks(), **record})


def _marks() -> dict[str, str]:
    return {"idling.kubernetes.io/idled-at": _IDLED_AT, "reconciler/owner": _OWNER, "reconciler/idled-to": "0"}


def _replica_set(name: str, replicas: int) -> Object:
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": _template(name)}
    owner = {"reconciler/owner": f"everything/FederatedReplicaSet/shop/{name}"}
    metadata = {"namespace": "shop", "labels": {"reconciler/frs": name}, "annotations": owner}
    return an_object("apps/v1", "ReplicaSet", name, metadata, spec=spec, status=status_of("ReplicaSet", replicas))


def _left_git(name: str, replicas: int, *, on_delete: str) -> Object:
    made = _replica_set(name, replicas)
    made["metadata"]["annotations"]["reconciler/on-delete"] = on_delete
    return made


def _template(name: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": _IMAGE}]}}
