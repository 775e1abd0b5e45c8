"""A Service in front of a pod whose owner's template has other labels: all behind it goes idle, or nothing does."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.live.one_cluster import Desk
from tests.real.api import Api
from tests.real.control_plane import ControlPlane
from tests.real.objects import a_deployment, a_namespace, an_object
from tests.real.worlds import create, create_missing, deployment_path, replicas_of, wait_for_ready, wait_until

NIGHT = "2035-11-20T23:00:00Z"
TARGETS = "idling.kubernetes.io/unidle-targets"
POLICIES = """
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {{name: mine}}
spec: {{home: member, clusters: [{{name: member}}]}}
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {{name: always}}
spec:
  selector: {{namespaces: {{include: ["{namespace}"]}}, services: {{}}}}
  idleWhen: [{{schedule: {{timeZone: UTC, downtime: ["Mon-Sun 00:00-24:00"]}}}}]
"""


@pytest.fixture
def desk(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Desk:
    create_missing(control_plane.api, [a_namespace("reconciler")])
    desk = Desk(tmp_path, control_plane.kubeconfig("member"))
    desk.write("policies/all.yaml", POLICIES.format(namespace=namespace))
    return desk


def apply(desk: Desk, now: str) -> str:
    said = desk.call("apply", "policies", "--auto-approve", "--now", now)
    assert said.code == 0, said.out + said.err
    return said.out


def fill(api: Api, namespace: str) -> None:
    """A Service that selects `shown`; so is the template of Deployment web, and only the pod of Deployment other."""
    spec = {"selector": {"shown": "yes"}, "ports": [{"port": 80}]}
    create(api, [an_object("v1", "Service", "web", spec=spec)], namespace)
    create(api, [a_deployment("web", 2, labels={"shown": "yes"})], namespace)
    time.sleep(3)  # so that one is older than the other by whole seconds
    create(api, [a_deployment("other", 1)], namespace)
    for name, replicas in (("web", 2), ("other", 1)):
        wait_for_ready(api, namespace, name, replicas)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    [pod] = [one for one in api.items(pods) if one["metadata"]["labels"]["app"] == "other"]
    name = pod["metadata"]["name"]
    api.patch(f"{pods}/{name}", {"metadata": {"labels": {"shown": "yes"}}})
    for number, one in enumerate(api.items(pods)):  # KWOK gives no address, and what has none is no endpoint
        address = f"10.1.1.{number + 1}"
        status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        api.patch(f"{pods}/{one['metadata']['name']}/status", status)
    slices = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
    wait_until(lambda: name in json.dumps(api.items(slices)), "the pod in the endpoints of the Service")


def marks(api: Api, namespace: str) -> dict[str, Any]:
    found = api.get(f"/api/v1/namespaces/{namespace}/services/web")
    return dict(found["metadata"].get("annotations", {}))


def created(api: Api, namespace: str, name: str) -> datetime:
    text = api.get(deployment_path(namespace, name))["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(text).astimezone(UTC)


@pytest.mark.parametrize("held", ["excluded", "too young"])
def test_row_12_a_service_is_not_marked_while_the_owner_of_a_pod_behind_it_runs(
    control_plane: ControlPlane, namespace: str, desk: Desk, held: str
) -> None:
    api = control_plane.api
    fill(api, namespace)
    now = NIGHT
    if held == "excluded":
        exclude = {"metadata": {"annotations": {"reconciler/exclude": "true"}}}
        api.patch(deployment_path(namespace, "other"), exclude)
    else:
        young = created(api, namespace, "other") + timedelta(hours=1, seconds=-1)
        assert created(api, namespace, "web") + timedelta(hours=1) <= young
        now = young.strftime("%Y-%m-%dT%H:%M:%SZ")
    said = apply(desk, now)
    assert "nothing behind it goes idle: Deployment/other behind Service/web stays awake" in " ".join(said.split())
    assert TARGETS not in marks(api, namespace)
    assert [replicas_of(api, namespace, name) for name in ("web", "other")] == [2, 1]


def test_row_12_otherwise_both_go_idle_and_both_come_back(
    control_plane: ControlPlane, namespace: str, desk: Desk
) -> None:
    api = control_plane.api
    fill(api, namespace)
    apply(desk, NIGHT)
    assert [replicas_of(api, namespace, name) for name in ("web", "other")] == [0, 0]
    assert [one["name"] for one in json.loads(marks(api, namespace)[TARGETS])] == ["other", "web"]
    pods = f"/api/v1/namespaces/{namespace}/pods"
    wait_until(lambda: not api.items(pods), "the pods to go")
    assert "No changes" in apply(desk, "2035-11-20T23:10:00Z")
    said = desk.call("wake", f"member/{namespace}/Service/web", "--now", "2035-11-20T23:20:00Z")
    assert said.code == 0, said.out + said.err
    assert [replicas_of(api, namespace, name) for name in ("web", "other")] == [2, 1]
    assert TARGETS not in marks(api, namespace)
