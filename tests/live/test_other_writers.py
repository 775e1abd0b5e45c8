"""Others who write what we idled, on a real control plane; and a cluster that is frozen while something sleeps."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.live.one_cluster import Desk
from tests.real.api import Object
from tests.real.control_plane import ControlPlane
from tests.real.objects import a_deployment, a_namespace, a_service, an_object
from tests.real.worlds import create, create_missing, deployment_path, replicas_of, wait_for_ready, wait_until

GIT = "argocd-controller"
MONDAY = date(2035, 11, 19)
POLICIES = """
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {{name: mine}}
spec: {{home: member, clusters: [{{name: member, state: {state}}}]}}
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {{name: nights}}
spec:
  selector: {{namespaces: {{include: ["{namespace}"]}}, services: {{}}}}
  idleReplicas: {floor}
  idleWhen: [{{schedule: {{timeZone: UTC, downtime: ["Mon-Sun 20:00-07:00"]}}}}]
"""
REASON = "scale.kubernetes.io/scale-reason"


class Night:
    """One namespace, what runs in it, and the command line that idles it."""

    def __init__(self, plane: ControlPlane, namespace: str, desk: Desk) -> None:
        self.api, self.namespace, self.desk = plane.api, namespace, desk
        self.path = deployment_path(namespace, "web")
        self.write()

    def write(self, *, floor: int = 0, state: str = "Active") -> None:
        self.desk.write("policies/all.yaml", POLICIES.format(namespace=self.namespace, floor=floor, state=state))

    def run(self, day: int, time: str) -> str:
        """Apply on that night (or the morning before it), and return what was said."""
        at = f"{MONDAY + timedelta(days=day)}T{time}:00Z"
        return self.call("apply", "policies", "--auto-approve", "--now", at)

    def call(self, *arguments: str) -> str:
        said = self.desk.call(*arguments)
        assert said.code == 0, said.out + said.err
        return said.out

    @property
    def replicas(self) -> int:
        return replicas_of(self.api, self.namespace, "web")

    def annotations(self, path: str = "") -> dict[str, str]:
        return dict(self.api.get(path or self.path)["metadata"].get("annotations", {}))

    def annotate(self, **keys: str | None) -> None:
        self.api.patch(self.path, {"metadata": {"annotations": keys}}, fieldManager="kubectl-annotate")

    def is_up(self, count: int) -> bool:
        return self.replicas == count


@pytest.fixture
def night(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Night:
    create_missing(control_plane.api, [a_namespace("reconciler")])
    return Night(control_plane, namespace, Desk(tmp_path, control_plane.kubeconfig("member")))


def with_web(night: Night) -> Night:
    """The Service and the Deployment web, idle on Monday night."""
    create(night.api, [a_service("web"), a_deployment("web", 3)], night.namespace)
    wait_for_ready(night.api, night.namespace, "web", 3)
    night.run(0, "23:00")
    assert night.replicas == 0
    return night


class GitOps:
    """Applies what git says, from the server's side and by force, as Argo CD and Flux do."""

    def __init__(self, night: Night, *, replicas: bool) -> None:
        self._night = night
        self.autoscaler = f"/apis/autoscaling/v2/namespaces/{night.namespace}/horizontalpodautoscalers/web"
        target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
        bounds = {"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 9}
        deployment = a_deployment("web", 5)
        if not replicas:
            del deployment["spec"]["replicas"]
        self._declared = {
            night.path: deployment,
            self.autoscaler: an_object("autoscaling/v2", "HorizontalPodAutoscaler", "web", spec=bounds),
        }

    def sync(self) -> None:
        for path, declared in self._declared.items():
            self._night.api.patch(path, declared, "application/apply-patch+yaml", fieldManager=GIT, force="true")

    def written(self) -> list[Object]:
        """What is there, but for what the controllers say of it."""
        return [
            {"metadata": {**found["metadata"], "managedFields": [], "resourceVersion": ""}, "spec": found["spec"]}
            for found in map(self._night.api.get, self._declared)
        ]


@pytest.mark.parametrize("replicas", [True, False], ids=["with the replicas", "only the bounds"])
def test_defect_14_bounds_that_git_puts_back_after_each_run_end_contested(night: Night, replicas: bool) -> None:
    git = GitOps(night, replicas=replicas)
    git.sync()
    create(night.api, [a_service("web")], night.namespace)
    night.api.patch(night.path, {"spec": {"replicas": 5}}, fieldManager="kubectl-scale")
    wait_for_ready(night.api, night.namespace, "web", 5)
    night.write(floor=1)
    for day in (0, 1):
        night.run(day, "23:00")
        assert (night.replicas, night.api.get(git.autoscaler)["spec"]["maxReplicas"]) == (1, 1)
        git.sync()
        said = night.run(day, "23:40")
        assert f"{GIT}" in said
        assert night.replicas >= 2
        assert "reconciler/previous-bounds" not in night.annotations(git.autoscaler)
        undone = json.loads(night.annotations()["reconciler/undone"])
        assert (undone["by"], undone["count"]) == (GIT, day + 1)
        night.api.patch(night.path, {"spec": {"replicas": 5}}, fieldManager=GIT)
        wait_for_ready(night.api, night.namespace, "web", 5)
    contest = json.loads(night.annotations()["reconciler/contested"])
    assert (contest["by"], contest["autoscaler"]) == (GIT, "web")
    assert "ignoreDifferences: [{group: autoscaling, kind: HorizontalPodAutoscaler" in said
    events = night.api.items(f"/api/v1/namespaces/{night.namespace}/events")
    assert any(event["reason"] == "IdlingContested" and GIT in event["message"] for event in events)
    before = git.written()
    for day in (2, 3):
        for time in ("07:30", "23:00", "23:40"):
            night.run(day, time)
            git.sync()
    assert git.written() == before


@pytest.mark.parametrize("reason", ["Maintenance", None], ids=["a foreign reason", "a reason that was removed"])
def test_defect_16_who_gives_another_reason_takes_it_over(night: Night, reason: str | None) -> None:
    with_web(night)
    assert night.annotations()[REASON] == "Idled"
    night.annotate(**{REASON: reason})
    night.run(0, "23:40")
    service = f"/api/v1/namespaces/{night.namespace}/services/web"
    assert (night.replicas, night.annotations(service)) == (0, {})
    found = night.annotations()
    assert (found.get(REASON), found["scale.kubernetes.io/previous-scale"]) == (reason, "3")
    assert not any(key.startswith("idling.kubernetes.io/") for key in found)
    version = night.api.get(night.path)["metadata"]["resourceVersion"]
    for time in ("07:30", "12:00"):
        night.run(1, time)
    assert (night.replicas, night.api.get(night.path)["metadata"]["resourceVersion"]) == (0, version)


def test_defect_16_who_asks_for_it_has_it_woken(night: Night) -> None:
    with_web(night)
    night.annotate(**{REASON: "Maintenance"})
    night.call("wake", f"member/{night.namespace}/Deployment/web", "--now", f"{MONDAY}T23:30:00Z")
    assert night.replicas == 3
    assert REASON not in night.annotations()


def due(night: Night) -> None:
    night.run(1, "07:30")


def asked(night: Night) -> None:
    night.annotate(**{"reconciler/wake-requested-at": f"{MONDAY}T23:30:00Z"})
    night.run(0, "23:40")


def woken(night: Night) -> None:
    night.call("wake", f"member/{night.namespace}", "--now", f"{MONDAY}T23:30:00Z")


def restored(night: Night) -> None:
    night.call("restore", f"member/{night.namespace}", "--auto-approve", "--now", f"{MONDAY}T23:30:00Z")


@pytest.mark.parametrize("wake", [due, asked, woken, restored])
def test_defect_17_a_frozen_cluster_holds_no_wake(night: Night, wake: Any) -> None:
    with_web(night)
    night.write(state="Frozen")
    night.run(0, "23:10")
    assert night.replicas == 0
    wake(night)
    assert night.replicas == 3
    wait_until(lambda: "idling.kubernetes.io/previous-scale" not in night.annotations(), "no record")
    night.run(1, "23:00")
    assert night.replicas == 3
