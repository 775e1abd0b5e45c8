"""Moving in from kube-downscaler and out again on a real cluster: no pod more or less, and nothing of ours is left.

`KUBE_DOWNSCALER` may hold the command line of py-kube-downscaler, `GO_KUBE_DOWNSCALER` that of GoKubeDownscaler, which
then really run; else their writes are made here as they make them.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.model import Write
from tests.laws import share_of
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, idling, placed, target_ref
from tests.real.api import Api, Object
from tests.real.cluster import create, empty, path_of, served_meanwhile, wait_for_ready, wait_until
from tests.real.control_plane import API_ONLY, ControlPlane
from tests.real.fixtures import started
from tests.real.objects import (
    a_crd,
    a_cron_job,
    a_deployment,
    a_namespace,
    a_node,
    a_service,
    an_autoscaler,
    an_object,
    status_of,
)

_KINDS = {
    "deployments": "apps/v1",
    "statefulsets": "apps/v1",
    "cronjobs": "batch/v1",
    "horizontalpodautoscalers": "autoscaling/v2",
}
_EMPTIED = ("Service", *_KINDS)
_FLAGS = ("--include-resources=deployments,statefulsets,cronjobs", "--grace-period=0", "--exclude-deployments=kept")
NIGHTLY = a_cron_job("nightly", schedule="0 3 1 1 *")
_OURS = ("reconciler/", "idling.kubernetes.io/", "scale.kubernetes.io/")

pytestmark = pytest.mark.real


@dataclass(frozen=True)
class Tool:
    """A kube-downscaler: how to run it on `kubeconfig`, and what it remembers of a CronJob that was not suspended."""

    name: str
    variable: str
    image: str
    awake: str

    def command(self, kubeconfig: Path) -> list[str]:
        """Return how it is called for one run, nothing where it is not here."""
        called = shlex.split(os.environ.get(self.variable, ""))
        by_flag = ["-k", str(kubeconfig)] if self.variable.startswith("GO_") else []
        return called and [*called, *by_flag, "--once", *_FLAGS]


PY = Tool("kube-downscaler", "KUBE_DOWNSCALER", "ghcr.io/caas-team/py-kube-downscaler:26.4.0", "1")
GO = Tool("go-kube-downscaler", "GO_KUBE_DOWNSCALER", "ghcr.io/caas-team/gokubedownscaler:1.3.4", "false")


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S+00:00")


@pytest.fixture(scope="module")
def night() -> tuple[datetime, datetime]:
    """A night that began an hour ago, and ends in eight."""
    now = datetime.now(UTC).replace(microsecond=0)
    return now - timedelta(hours=1), now + timedelta(hours=8)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory, night: tuple[datetime, datetime]) -> Iterator[ControlPlane]:
    """A cluster for one tool after the other, with a namespace to put to sleep: all that is on it is looked at."""
    dev = a_namespace("dev")
    dev["metadata"]["annotations"] = {"downscaler/downtime": f"{stamp(night[0])}-{stamp(night[1])}"}
    with started(ControlPlane(tmp_path_factory.mktemp("plane"))) as plane:
        create(plane.api, [a_namespace("reconciler"), dev, a_node("node")])
        yield plane


@pytest.fixture(params=[PY, GO], ids=lambda tool: tool.name)
def tool(request: pytest.FixtureRequest, plane: ControlPlane) -> Iterator[Tool]:
    """A namespace that the tool is to put to sleep, and its controller, which was stopped."""
    api, namespace, tool = plane.api, "dev", request.param
    database = a_deployment("db", 2, kind="StatefulSet")
    database["spec"]["serviceName"] = "db"
    controller = a_deployment("downscaler", 0)
    controller["spec"]["template"]["spec"]["containers"] = [{"name": "a", "image": tool.image, "args": [*_FLAGS]}]
    up = [a_deployment("web", 3), a_deployment("kept", 1), database]
    create(api, [a_service("web"), *up, NIGHTLY, controller], namespace)
    for name, replicas in (("web", 3), ("kept", 1)):
        wait_for_ready(api, namespace, name, replicas)
    wait_until(lambda: len(pods(api, namespace)) == 6, "6 pods")
    yield tool
    empty(api, _EMPTIED, [namespace])
    wait_until(lambda: not pods(api, namespace), "no pods")


@pytest.fixture(scope="module")
def still_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster where nothing acts on objects, for one test after the other: all that is on it is looked at."""
    with started(ControlPlane(tmp_path_factory.mktemp("still"), API_ONLY)) as plane:
        create(plane.api, [a_namespace("reconciler"), a_namespace("dev"), a_namespace("shop")])
        yield plane


@pytest.fixture
def still(still_plane: ControlPlane) -> Iterator[ControlPlane]:
    """That cluster, with empty namespaces."""
    yield still_plane
    empty(still_plane.api, (*_EMPTIED, "ConfigMap", "Event", "Lease"), ("dev", "shop", "reconciler"))


@pytest.fixture
def kube_green(still: ControlPlane) -> Iterator[ControlPlane]:
    """That cluster, where kube-green's kind is served."""
    with served_meanwhile(still.api, [a_crd("SleepInfo", "kube-green.com")]):
        yield still


def pods(api: Api, namespace: str) -> dict[str, str]:
    """Return the pods that are not being deleted, and the uid of each."""
    found = [one["metadata"] for one in api.items(f"/api/v1/namespaces/{namespace}/pods")]
    return {one["name"]: one["uid"] for one in found if "deletionTimestamp" not in one}


def workloads(api: Api, namespace: str) -> Iterator[tuple[str, Object]]:
    for plural, version in _KINDS.items():
        for one in api.items(f"/apis/{version}/namespaces/{namespace}/{plural}"):
            yield f"/apis/{version}/namespaces/{namespace}/{plural}/{one['metadata']['name']}", one


def specs(api: Api, namespace: str) -> dict[str, Any]:
    return {path: one["spec"] for path, one in workloads(api, namespace)}


def put_to_sleep(plane: ControlPlane, tool: Tool, namespace: str, folder: Path) -> None:
    """Let `tool` put `namespace` to sleep."""
    api, kubeconfig = plane.api, plane.kubeconfig("member")
    if command := tool.command(kubeconfig):
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(folder)}
        done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return
    for path, one in workloads(api, namespace):
        if one["metadata"]["name"] in ("kept", "downscaler"):
            continue
        cron = "schedule" in one["spec"]
        had = tool.awake if cron else str(one["spec"]["replicas"])
        spec = {"suspend": True} if cron else {"replicas": 0}
        api.patch(path, {"metadata": {"annotations": {"downscaler/original-replicas": had}}, "spec": spec})


def marked(api: Api) -> list[str]:
    """Return every object of the API server with an annotation, label or finalizer of ours, also in templates."""
    found = []
    roots = ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis")["groups"])]
    for root in roots:
        for resource in api.get(root)["resources"]:
            if "/" in resource["name"] or "list" not in resource["verbs"]:
                continue
            for one in api.items(f"{root}/{resource['name']}"):
                metadata = deepcopy(one["metadata"])
                metadata.pop("managedFields", None)
                template = one.get("spec", {}).get("template", {}) if isinstance(one.get("spec"), dict) else {}
                text = json.dumps([metadata, template.get("metadata") if isinstance(template, dict) else None])
                if any(f'"{key}' in text for key in _OURS):
                    found.append(f"{resource['kind']} {metadata.get('namespace', '')}/{metadata['name']}: {text}")
    return found


def test_what_kube_downscaler_put_to_sleep_wakes_as_it_was_and_nothing_of_ours_is_left(
    plane: ControlPlane, tool: Tool, night: tuple[datetime, datetime], tmp_path: Path
) -> None:
    api, cli, space = plane.api, Folder(tmp_path, plane.kubeconfig("member")), "dev"
    before, up = specs(api, space), pods(api, space)
    put_to_sleep(plane, tool, space, tmp_path)
    wait_until(lambda: len(pods(api, space)) == 1, "1 pods")
    asleep = pods(api, space)
    assert asleep.items() <= up.items()

    said = cli.call("import", tool.name, "--context", "member")
    assert said.code == 0, said.err
    cli.write("policies/imported.yaml", said.out)
    assert cli.call("validate").code == 0, said.out
    adopted = cli.call("adopt", tool.name, "--yes")
    assert adopted.code == 0, adopted
    assert "Applied: 3 of 3 metadata updates." in adopted.out, adopted.out
    assert cli.call("plan", "--detailed-exitcode").code == 0, cli.call("plan", "-v").out
    again = cli.call("adopt", tool.name, "--yes")
    assert again.out.endswith(f"\nNothing to adopt: {tool.name} has nothing idle.\n"), again
    late = (night[1] - timedelta(minutes=5)).isoformat()
    assert cli.call("plan", "--detailed-exitcode", "--now", late).code == 0
    assert pods(api, space) == asleep

    morning = (night[1] + timedelta(minutes=1)).isoformat()
    woken = cli.call("apply", "--auto-approve", "--now", morning)
    assert woken.code == 0, woken
    assert specs(api, space) == before
    wait_until(lambda: len(pods(api, space)) == 6, "6 pods")
    assert asleep.items() <= pods(api, space).items()

    again_up = pods(api, space)
    gone = cli.call("uninstall", "--yes")
    assert gone.code == 0, gone
    assert marked(api) == []
    assert pods(api, space) == again_up
    assert specs(api, space) == before


def test_what_kube_green_remembers_in_a_secret_is_taken_over(kube_green: ControlPlane, tmp_path: Path) -> None:
    api, cli = kube_green.api, Folder(tmp_path, kube_green.kubeconfig("member"))
    restored = {"Deployment.apps": {"web": '{"spec":{"replicas":3}}'}, "CronJob.batch": {"nightly": '{"spec":{}}'}}
    memory = {"operation-type": "SLEEP", "original-resource-info": json.dumps(restored)}
    spec = {"weekdays": "*", "sleepAt": "20:00", "wakeUpAt": "08:00", "suspendCronJobs": True}
    info = an_object("kube-green.com/v1alpha1", "SleepInfo", "nights", spec=spec)
    secret = an_object("v1", "Secret", "sleepinfo-nights", stringData=memory)
    suspended = a_cron_job("nightly", suspend=True)
    create(api, [a_deployment("web", 0), suspended, a_deployment("off", 0), info, secret], "dev")
    said = cli.call("import", "kube-green", "--context", "member", "--out", "policies/imported.yaml")
    assert said.code == 0, said
    at_night = ("--now", "2035-11-20T23:00:00Z")
    adopted = cli.call("adopt", "kube-green", "--yes", *at_night)
    assert adopted.code == 0, adopted
    assert cli.call("plan", "--detailed-exitcode", *at_night).code == 0
    woken = cli.call("apply", "--auto-approve", "--now", "2035-11-21T08:01:00Z")
    assert "Plan: 0 to create, 2 to change (2 wake), 0 to delete." in woken.out, woken
    assert specs(api, "dev")["/apis/apps/v1/namespaces/dev/deployments/web"]["replicas"] == 3


POLICIES = documents(
    fleet(["member"], name="mine"),
    idling(
        "namespaces: {include: [dev]}, services: {}, workloads: {kinds: [CronJob]}",
        "minAge: 0s",
        downtime='"00:00-24:00"',
    ),
    placed(5, "clusters: {member: {weight: 1}}", target_ref(name="placed"), name="placed"),
)


def settle(api: Api) -> None:
    """Say of each Deployment what its controller would say: there is none here."""
    for one in api.items(path_of("Deployment")):
        place, generation = one["metadata"], one["metadata"]["generation"]
        path = path_of("Deployment", place["namespace"], place["name"], "status")
        api.patch(path, {"status": status_of("Deployment", one["spec"]["replicas"], generation)})


class Crash(BaseException):
    """What nobody catches: the process is gone."""


def test_uninstall_goes_on_wherever_it_was_stopped(
    still: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, cli = still.api, Folder(tmp_path, still.kubeconfig("member"))
    create(api, [a_service("web"), a_deployment("web", 3), an_autoscaler("web", 2, 6), NIGHTLY], "dev")
    create(api, [a_deployment("placed", 8)], "shop")
    excluded = {"metadata": {"annotations": {"reconciler/exclude": "false"}}}
    api.patch("/api/v1/namespaces/shop", excluded)
    before = [specs(api, "dev"), specs(api, "shop")]
    cli.write("policies/all.yaml", POLICIES)
    written = 0

    def write(cluster: KubernetesCluster, one: Write) -> None:
        nonlocal written
        if written == 0:
            raise Crash
        written -= 1
        real(cluster, one)

    real = KubernetesCluster.write
    for crash_after in range(0, 100, 5 if share_of(5) < 5 else 1):
        settle(api)
        idled = cli.call("apply", "--auto-approve", "--allow-exceed", "nights", "--allow-exceed", "placed")
        assert "Replicas: 6 fewer (member)." in idled.out, (crash_after, idled)
        written = crash_after
        with monkeypatch.context() as patched:
            patched.setattr(KubernetesCluster, "write", write)
            try:
                whole = cli.call("uninstall", "--yes")
            except Crash:
                whole = None
        gone = cli.call("uninstall", "--yes")
        assert gone.code == 0, (crash_after, gone)
        assert marked(api) == [], crash_after
        assert [specs(api, "dev"), specs(api, "shop")] == before, crash_after
        if whole is not None and whole.code == 0:
            assert crash_after > 10
            return
    raise AssertionError("it never ended")


def test_uninstall_releases_what_placement_raised_and_wakes_what_it_lowered_to_its_number_of_before(
    still: ControlPlane, tmp_path: Path
) -> None:
    api, space, cli = still.api, "shop", Folder(tmp_path, still.kubeconfig("member"))
    create(api, [a_deployment("raised", 2), a_deployment("lowered", 8)], space)
    asleep = f"namespaces: {{include: [{space}]}}, workloads: {{kinds: [Deployment]}}"
    here = "clusters: {member: {weight: 1}}"
    policies = [placed(5, here, target_ref(name=name), name=name, namespace=space) for name in ("raised", "lowered")]
    of_fleet = fleet(["member"], name=space)
    cli.write("policies/all.yaml", documents(of_fleet, *policies))
    assert cli.call("apply", "--auto-approve").code == 0
    nights = idling(asleep, "minAge: 0s", "minAwake: 0s", downtime='"00:00-24:00"')
    cli.write("policies/all.yaml", documents(of_fleet, *policies, nights))
    assert {one["spec"]["replicas"] for _, one in workloads(api, space)} == {5}
    settle(api)
    assert cli.call("apply", "--auto-approve").code == 0
    assert {one["spec"]["replicas"] for _, one in workloads(api, space)} == {0}
    gone = cli.call("uninstall", "--yes")
    assert gone.code == 0, gone
    found = {one["metadata"]["name"]: one for _, one in workloads(api, space)}
    assert {name: one["spec"]["replicas"] for name, one in found.items()} == {"raised": 5, "lowered": 8}
    assert [name for name, one in found.items() if one["metadata"].get("annotations")] == []
