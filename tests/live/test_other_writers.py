"""Others who write what we idled, on a real control plane."""

from __future__ import annotations

import json
from datetime import date, timedelta

import pytest

from tests.live.one_namespace import OneNamespace
from tests.real.api import APPLY_PATCH, Object
from tests.real.cluster import create, create_missing, wait_for_ready
from tests.real.objects import (
    SCALED_OBJECT,
    a_cron_job,
    a_deployment,
    a_service,
    an_autoscaler,
    for_deployment,
    with_metadata,
)

GIT = "argocd-controller"
MONDAY = date(2035, 11, 19)


class Night(OneNamespace):
    """The Deployment web of a namespace, idled at night."""

    def run(self, day: int, time: str) -> str:
        """Apply on that night (or the morning before it), and return what was said."""
        return self.apply(f"{MONDAY + timedelta(days=day)}T{time}:00Z")

    @property
    def web(self) -> str:
        return self.path("web")

    @property
    def count(self) -> int:
        return self.replicas("web")[0]

    def marks(self) -> dict[str, str]:
        return self.annotations(self.web)


@pytest.fixture
def night(one_namespace: OneNamespace) -> Night:
    return Night(one_namespace.plane, one_namespace.namespace, one_namespace.folder)


class GitOps:
    """Applies the bounds that git says, from the server's side and by force, as Argo CD and Flux do."""

    def __init__(self, night: Night) -> None:
        self._night = night
        self.autoscaler = f"/apis/autoscaling/v2/namespaces/{night.namespace}/horizontalpodautoscalers/web"
        deployment = a_deployment("web", 5)
        del deployment["spec"]["replicas"]
        self._declared = {night.web: deployment, self.autoscaler: an_autoscaler("web", 2, 9)}

    def sync(self) -> None:
        for path, declared in self._declared.items():
            self._night.api.patch(path, declared, APPLY_PATCH, fieldManager=GIT, force="true")

    def written(self) -> list[Object]:
        """What is there, but for what the controllers say of it."""
        return [
            {"metadata": {**found["metadata"], "managedFields": [], "resourceVersion": ""}, "spec": found["spec"]}
            for found in map(self._night.api.get, self._declared)
        ]


def test_bounds_that_git_puts_back_after_each_run_end_contested(night: Night) -> None:
    git = GitOps(night)
    git.sync()
    create(night.api, [a_service("web")], night.namespace)
    night.api.patch(night.web, {"spec": {"replicas": 5}}, fieldManager="kubectl-scale")
    wait_for_ready(night.api, night.namespace, "web", 5)
    night.write(floor=1)
    for day in (0, 1):
        night.run(day, "23:00")
        assert (night.count, night.api.get(git.autoscaler)["spec"]["maxReplicas"]) == (1, 1)
        git.sync()
        said = night.run(day, "23:40")
        assert f"{GIT}" in said
        assert night.count >= 2
        assert "reconciler/previous-bounds" not in night.annotations(git.autoscaler)
        undone = json.loads(night.marks()["reconciler/undone"])
        assert (undone["by"], undone["count"]) == (GIT, day + 1)
        night.api.patch(night.web, {"spec": {"replicas": 5}}, fieldManager=GIT)
        wait_for_ready(night.api, night.namespace, "web", 5)
    contest = json.loads(night.marks()["reconciler/contested"])
    assert (contest["by"], contest["autoscaler"]) == (GIT, "web")
    assert "ignoreDifferences: [{group: autoscaling, kind: HorizontalPodAutoscaler" in said
    events = night.api.items(f"/api/v1/namespaces/{night.namespace}/events")
    assert any(event["reason"] == "IdlingContested" and GIT in event["message"] for event in events)
    before = git.written()
    for time in ("07:30", "23:00", "23:40"):
        night.run(2, time)
        git.sync()
    assert git.written() == before


TOOLS = {"argo": "argocd-controller", "flux": "kustomize-controller", "chart": "helm"}


class Tool:
    """Applies its Deployment from the server's side and by force; `replicas` None: the field is left out."""

    def __init__(self, night: Night, name: str) -> None:
        self._night, self.name, self.manager = night, name, TOOLS[name]

    def sync(self, replicas: int | None) -> None:
        declared = a_deployment(self.name, 0 if replicas is None else replicas)
        if replicas is None:
            del declared["spec"]["replicas"]
        path = self._night.path(self.name)
        self._night.api.patch(path, declared, APPLY_PATCH, fieldManager=self.manager, force="true")

    def sync_as_documented(self) -> None:
        """Argo CD with RespectIgnoreDifferences applies what is there; Flux and Helm leave the field out."""
        self.sync(self._night.replicas(self.name)[0] if self.name == "argo" else None)

    def marks(self) -> dict[str, str]:
        return self._night.annotations(self._night.path(self.name))


def tools(night: Night, replicas: int | None) -> list[Tool]:
    """Return the three tools, each with a Deployment of its own with three pods, and a Service in front."""
    found = [Tool(night, name) for name in TOOLS]
    create(night.api, [a_service(name) for name in TOOLS], night.namespace)
    for one in found:
        one.sync(replicas)
        night.api.patch(night.path(one.name), {"spec": {"replicas": 3}}, fieldManager="kubectl-scale")
    for one in found:
        wait_for_ready(night.api, night.namespace, one.name, 3)
    return found


def test_a_tool_that_undoes_each_night_is_left_alone_after_the_second(night: Night) -> None:
    found = tools(night, 3)
    for day in range(3):
        said = night.run(day, "23:00")
        assert night.replicas(*TOOLS) == [0 if day < 2 else 3] * 3
        for one in found:
            one.sync(3)
            if day < 2:
                wait_for_ready(night.api, night.namespace, one.name, 3)
        said += night.run(day, "23:40")
        assert night.replicas(*TOOLS) == [3] * 3
        for one in found:
            assert ("reconciler/contested" in one.marks()) is (day >= 1), (day, one.name)
            assert (f"contested by {one.manager}" in said) is (day >= 1), said
    events = night.api.items(f"/api/v1/namespaces/{night.namespace}/events")
    told = [event["message"] for event in events if event["reason"] == "IdlingContested"]
    assert sorted(one.manager for one in found if any(one.manager in message for message in told)) == sorted(
        TOOLS.values()
    )
    metrics = night.folder.path / "metrics.txt"
    night.call("apply", "policies", "--auto-approve", "--now", "2035-11-23T23:00:00Z", "--metrics-file", str(metrics))
    assert 'reconciler_contested{cluster="member"} 3' in metrics.read_text()


PAUSED = "autoscaling.keda.sh/paused-replicas"


class Rest:
    """The CronJob of a tool, and the ScaledObject of a Deployment; it applies both from the server's side and by force.

    What `sync` leaves out (None) is not in its manifests, so an annotation goes that no other manager owns.
    """

    def __init__(self, night: Night, name: str) -> None:
        self._night, self._tool, self.manager = night, name, TOOLS[name]
        self._name = name = f"{name}-rest"
        self.cron_job = f"/apis/batch/v1/namespaces/{night.namespace}/cronjobs/{name}"
        self.scaled_object = f"/apis/keda.sh/v1alpha1/namespaces/{night.namespace}/scaledobjects/{name}"

    def sync(self, suspend: bool | None, paused: str | None) -> None:
        cron_job = a_cron_job(self._name, **({} if suspend is None else {"suspend": suspend}))
        marks = {} if paused is None else {"annotations": {PAUSED: paused}}
        scaled = with_metadata(for_deployment("keda.sh/v1alpha1", "ScaledObject", self._name, triggers=[]), **marks)
        for path, declared in ((self.cron_job, cron_job), (self.scaled_object, scaled)):
            self._night.api.patch(path, declared, APPLY_PATCH, fieldManager=self.manager, force="true")

    def sync_as_documented(self) -> None:
        """As `Tool` does it: Argo CD applies what is there, Flux and Helm leave both out."""
        self.sync(*(self.state() if self._tool == "argo" else (None, None)))

    def state(self) -> tuple[bool, str | None]:
        """Return whether the CronJob is suspended, and at how many replicas the ScaledObject is paused."""
        suspend = self._night.api.get(self.cron_job)["spec"]["suspend"]
        return suspend, self._night.annotations(self.scaled_object).get(PAUSED)

    def marks(self) -> list[dict[str, str]]:
        return [self._night.annotations(path) for path in (self.cron_job, self.scaled_object)]


def test_with_the_documented_settings_no_tool_undoes_anything(night: Night) -> None:
    """Neither replicas, nor CronJobs, nor ScaledObjects."""
    create_missing(night.api, [SCALED_OBJECT])
    night.write(selector="services: {}, workloads: {kinds: [CronJob, Deployment]}")
    create(night.api, [a_deployment(f"{name}-rest", 1) for name in TOOLS], night.namespace)
    found, rests = tools(night, None), [Rest(night, name) for name in TOOLS]
    for name in TOOLS:
        wait_for_ready(night.api, night.namespace, f"{name}-rest", 1)

    def sync() -> None:
        for one in (*found, *rests):
            one.sync_as_documented()

    for one in rests:
        one.sync(None, None)
    for day in range(2):
        for time in ("23:00", "23:40"):
            night.run(day, time)
            sync()
            assert (night.replicas(*TOOLS), [one.state() for one in rests]) == ([0] * 3, [(True, "0")] * 3)
        night.run(day + 1, "07:30")
        sync()
        for one in found:
            wait_for_ready(night.api, night.namespace, one.name, 3)
        assert (night.replicas(*TOOLS), [one.state() for one in rests]) == ([3] * 3, [(False, None)] * 3)
    marks = [*(one.marks() for one in found), *(marks for one in rests for marks in one.marks())]
    assert not any({"reconciler/undone", "reconciler/contested"} & found.keys() for found in marks)
