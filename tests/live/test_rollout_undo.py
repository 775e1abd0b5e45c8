"""`kubectl rollout undo` at night: the record of a Deployment goes, and what proves it on a real cluster stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.live.one_cluster import Desk
from tests.real.control_plane import ControlPlane
from tests.real.objects import a_deployment, a_namespace, a_service
from tests.real.worlds import create, create_missing, deployment_path, replicas_of, wait_for_ready, wait_until

NIGHT = "2035-11-20T23:00:00Z"
LATER = "2035-11-20T23:10:00Z"
RECORDED = "idling.kubernetes.io/previous-scale"
POLICIES = """
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {{name: mine}}
spec: {{home: member, clusters: [{{name: member}}]}}
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {{name: nights}}
spec:
  selector: {{namespaces: {{include: ["{namespace}"]}}, services: {{}}}}
  idleWhen: [{{schedule: {{timeZone: UTC, downtime: ["Mon-Sun 20:00-07:00"]}}}}]
"""


@pytest.fixture
def desk(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Desk:
    create_missing(control_plane.api, [a_namespace("reconciler")])
    desk = Desk(tmp_path, control_plane.kubeconfig("member"))
    desk.write("policies/all.yaml", POLICIES.format(namespace=namespace))
    return desk


def annotations(found: dict[str, Any]) -> dict[str, str]:
    return dict(found["metadata"].get("annotations", {}))


def apply(desk: Desk, now: str) -> None:
    said = desk.call("apply", "policies", "--auto-approve", "--now", now)
    assert said.code == 0, said.out + said.err


def undo(plane: ControlPlane, namespace: str, template: dict[str, Any]) -> None:
    """What `kubectl rollout undo` sends: template and annotations of the revision before, and nothing else."""
    sets = plane.api.items(f"/apis/apps/v1/namespaces/{namespace}/replicasets")
    [old] = [one for one in sets if RECORDED not in annotations(one)]
    kept = {key: text for key, text in annotations(old).items() if not key.startswith("deployment.kubernetes.io/")}
    patch = [
        {"op": "replace", "path": "/spec/template", "value": template},
        {"op": "replace", "path": "/metadata/annotations", "value": kept},
    ]
    path = deployment_path(namespace, "web")
    plane.api.patch(path, patch, "application/json-patch+json", fieldManager="kubectl-rollout")


def test_r2_the_list_of_a_service_counts_as_far_as_the_replica_sets_bear_it_out(
    control_plane: ControlPlane, namespace: str, desk: Desk
) -> None:
    api, path = control_plane.api, deployment_path(namespace, "web")
    create(api, [a_service("web"), a_deployment("web", 3)], namespace)
    wait_for_ready(api, namespace, "web", 3)
    first = api.get(path)["spec"]["template"]
    api.patch(path, {"spec": {"template": {"metadata": {"annotations": {"revision": "two"}}}}})
    wait_for_ready(api, namespace, "web", 3)
    apply(desk, NIGHT)
    assert replicas_of(api, namespace, "web") == 0
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    wait_until(lambda: any(RECORDED in annotations(one) for one in api.items(sets)), "a copy of the record")
    undo(control_plane, namespace, first)
    assert RECORDED not in annotations(api.get(path))
    forged = {
        "idling.kubernetes.io/unidle-targets": json.dumps(
            [{"kind": "Deployment", "name": "web", "group": "apps", "replicas": 2**31 - 1}]
        ),
        "reconciler/wake-requested-at": LATER,
    }
    api.patch(f"/api/v1/namespaces/{namespace}/services/web", {"metadata": {"annotations": forged}})
    apply(desk, LATER)
    assert replicas_of(api, namespace, "web") == 3
