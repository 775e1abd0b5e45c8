"""`kubectl rollout undo` at night: the record of a Deployment goes, and what proves it on a real cluster stays."""

from __future__ import annotations

from typing import Any

from tests.live.one_namespace import OneNamespace
from tests.real.api import Object
from tests.real.cluster import create, wait_for_ready, wait_until
from tests.real.objects import a_deployment, a_service

NIGHT = "2035-11-20T23:00:00Z"
LATER = "2035-11-20T23:10:00Z"
MORNING = "2035-11-21T08:00:00Z"
RECORDED = "idling.kubernetes.io/previous-scale"
SETS = "/apis/apps/v1/{}replicasets"


def annotations(found: Object) -> dict[str, str]:
    return dict(found["metadata"].get("annotations", {}))


def undo(one: OneNamespace, template: dict[str, Any]) -> None:
    """What `kubectl rollout undo` sends: template and annotations of the revision before, and nothing else."""
    [old] = [found for found in one.items(SETS) if RECORDED not in annotations(found)]
    kept = {key: text for key, text in annotations(old).items() if not key.startswith("deployment.kubernetes.io/")}
    patch = [
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": kept},
    ]
    one.api.patch(one.path("web"), patch, "application/json-patch+json", fieldManager="kubectl-rollout")


def test_the_copy_on_a_replica_set_counts_where_no_service_lists_it(one_namespace: OneNamespace) -> None:
    one, path = one_namespace, one_namespace.path("web")
    one.write(selector="workloads: {kinds: [Deployment]}")
    create(one.api, [a_service("web"), a_deployment("web", 3)], one.namespace)
    wait_for_ready(one.api, one.namespace, "web", 3)
    first = one.api.get(path)["spec"]["template"]
    one.api.patch(path, {"spec": {"template": {"metadata": {"annotations": {"revision": "two"}}}}})
    wait_for_ready(one.api, one.namespace, "web", 3)
    one.apply(NIGHT)
    assert one.replicas("web") == [0]
    wait_until(lambda: any(RECORDED in annotations(found) for found in one.items(SETS)), "a copy of the record")
    undo(one, first)
    assert RECORDED not in one.annotations(path)
    said = one.call("apply", "policies", "--auto-approve", "-v", "--now", LATER)
    assert "its record is restored from its ReplicaSet" in said
    assert one.annotations(path)[RECORDED] == "3"
    one.apply(MORNING)
    assert one.replicas("web") == [3]
