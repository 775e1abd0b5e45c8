"""Moving in from kube-downscaler and out again on a real cluster: no pod more or less, and nothing of ours is left.

`KUBE_DOWNSCALER` may hold the command line of py-kube-downscaler, which then really runs; else its writes are made here
as it makes them.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.live.one_cluster import Desk
from tests.real.api import Api, Object
from tests.real.control_plane import ControlPlane
from tests.real.objects import a_deployment, a_namespace, a_service, an_object
from tests.real.worlds import create, wait_for_ready, wait_until

_KINDS = {"deployments": "apps/v1", "statefulsets": "apps/v1", "cronjobs": "batch/v1"}
_FLAGS = ("--include-resources=deployments,statefulsets,cronjobs", "--grace-period=0", "--exclude-deployments=kept")
_OURS = ("reconciler/", "idling.kubernetes.io/", "scale.kubernetes.io/")


def stamp(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%S+00:00")


@pytest.fixture
def night() -> tuple[datetime, datetime]:
    """A night that began an hour ago, and ends in eight."""
    now = datetime.now(UTC).replace(microsecond=0)
    return now - timedelta(hours=1), now + timedelta(hours=8)


@pytest.fixture
def space(control_plane: ControlPlane, namespace: str, night: tuple[datetime, datetime]) -> str:
    """A namespace that kube-downscaler is to put to sleep, and its controller, which was stopped."""
    api = control_plane.api
    if api.find("/api/v1/namespaces/reconciler") is None:
        create(api, [a_namespace("reconciler")])
    downtime = f"{stamp(night[0])}-{stamp(night[1])}"
    api.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"annotations": {"downscaler/downtime": downtime}}})
    database = a_deployment("db", 2, kind="StatefulSet")
    database["spec"]["serviceName"] = "db"
    job = {"containers": [{"name": "a", "image": "registry.example/a:1"}], "restartPolicy": "Never"}
    spec = {"schedule": "0 3 1 1 *", "jobTemplate": {"spec": {"template": {"spec": job}}}}
    controller = a_deployment("downscaler", 0)
    controller["spec"]["template"]["spec"]["containers"] = [
        {"name": "a", "image": "ghcr.io/caas-team/py-kube-downscaler:26.4.0", "args": [*_FLAGS]}
    ]
    nightly = an_object("batch/v1", "CronJob", "nightly", spec=spec)
    up = [a_deployment("web", 3), a_deployment("kept", 1), database]
    create(api, [a_service("web"), *up, nightly, controller], namespace)
    for name, replicas in (("web", 3), ("kept", 1)):
        wait_for_ready(api, namespace, name, replicas)
    wait_until(lambda: len(pods(api, namespace)) == 6, "6 pods")
    return namespace


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


def run_kube_downscaler(plane: ControlPlane, namespace: str, folder: Path) -> None:
    """Let kube-downscaler put `namespace` to sleep."""
    command = os.environ.get("KUBE_DOWNSCALER")
    if command:
        arguments = [*shlex.split(command), "--once", f"--namespace={namespace}", *_FLAGS]
        environment = {**os.environ, "KUBECONFIG": str(plane.kubeconfig("member")), "HOME": str(folder)}
        done = subprocess.run(arguments, env=environment, check=False, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return
    for path, one in workloads(plane.api, namespace):
        if one["metadata"]["name"] in ("kept", "downscaler"):
            continue
        cron = one["spec"].get("schedule")
        had = "1" if cron else str(one["spec"]["replicas"])
        spec = {"suspend": True} if cron else {"replicas": 0}
        plane.api.patch(path, {"metadata": {"annotations": {"downscaler/original-replicas": had}}, "spec": spec})


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
    control_plane: ControlPlane, space: str, night: tuple[datetime, datetime], tmp_path: Path
) -> None:
    api, desk = control_plane.api, Desk(tmp_path, control_plane.kubeconfig("member"))
    before, up = specs(api, space), pods(api, space)
    run_kube_downscaler(control_plane, space, tmp_path)
    wait_until(lambda: len(pods(api, space)) == 1, "1 pods")
    asleep = pods(api, space)
    assert asleep.items() <= up.items()

    said = desk.call("import", "kube-downscaler", "--context", "member")
    assert said.code == 0, said.err
    desk.write("policies/imported.yaml", said.out)
    assert desk.call("validate").code == 0, said.out
    adopted = desk.call("adopt", "kube-downscaler", "--yes")
    assert adopted.code == 0, adopted
    assert "Applied: 3 of 3 metadata updates." in adopted.out, adopted.out
    assert desk.call("plan", "--detailed-exitcode").code == 0, desk.call("plan", "-v").out
    again = desk.call("adopt", "kube-downscaler", "--yes")
    assert again.out.endswith("\nNothing to adopt: kube-downscaler has nothing asleep.\n"), again
    late = (night[1] - timedelta(minutes=5)).isoformat()
    assert desk.call("plan", "--detailed-exitcode", "--now", late).code == 0
    assert pods(api, space) == asleep

    morning = (night[1] + timedelta(minutes=1)).isoformat()
    woken = desk.call("apply", "--auto-approve", "--now", morning)
    assert woken.code == 0, woken
    assert specs(api, space) == before
    wait_until(lambda: len(pods(api, space)) == 6, "6 pods")
    assert asleep.items() <= pods(api, space).items()

    again_up = pods(api, space)
    gone = desk.call("uninstall", "--yes")
    assert gone.code == 0, gone
    assert marked(api) == []
    assert pods(api, space) == again_up
    assert specs(api, space) == before


def test_uninstall_wakes_first_and_goes_on_where_it_was_stopped(
    control_plane: ControlPlane, space: str, tmp_path: Path
) -> None:
    api, desk = control_plane.api, Desk(tmp_path, control_plane.kubeconfig("member"))
    before = specs(api, space)
    desk.write("policies/all.yaml", desk.call("import", "kube-downscaler", "--context", "member").out)
    now = (datetime.now(UTC) + timedelta(minutes=30)).isoformat()
    idled = desk.call("apply", "--auto-approve", "--allow-exceed", "fleet", "--allow-exceed", space, "--now", now)
    assert "idle" in idled.out, idled
    wait_until(lambda: len(pods(api, space)) == 1, "1 pods")
    gone = desk.call("uninstall", "--yes")
    assert gone.code == 0, gone
    assert specs(api, space) == before
    assert marked(api) == []
    assert desk.call("uninstall", "--yes").code == 0
