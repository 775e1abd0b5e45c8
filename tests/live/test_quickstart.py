"""The quickstart on three real control planes with a real Prometheus: plan, apply, the pods that run, plan again."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.live import deployed
from tests.live.fleet import LiveFleet, fill
from tests.real.api import Api
from tests.real.cluster import create, pods_of, wait_until
from tests.real.objects import a_node

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane
    from tests.real.prometheus import Prometheus

ZONE = "topology.kubernetes.io/zone"


def friday_night() -> datetime:
    """A Friday 22:00 UTC that lies far enough ahead for all that is created now to be old: the offices are closed."""
    later = datetime.now(UTC) + timedelta(days=7)
    friday = later + timedelta(days=(4 - later.weekday()) % 7)
    return friday.replace(hour=22, minute=0, second=0, microsecond=0)


NOW = friday_night()


def requests_until_now() -> list[object]:
    """Nobody asked for api and reports in the last two hours; frontend was asked every minute."""
    from tests.real.prometheus import Series, every

    minutes = range(121)
    since = (NOW - timedelta(hours=2)).timestamp()
    counters = {("dev-a", "api"): 0, ("dev-a", "frontend"): 1, ("dev-b", "reports"): 0}
    return [
        Series(
            "nginx_ingress_controller_requests",
            {"namespace": namespace, "service": service},
            every(60, since=since, values=[100.0 + step * minute for minute in minutes]),
        )
        for (namespace, service), step in counters.items()
    ]


@pytest.fixture
def quickstart(
    control_planes: Callable[..., list[ControlPlane]],
    prometheus_server: Callable[..., Prometheus],
    repository: Path,
    tmp_path: Path,
) -> LiveFleet:
    """eu-west with a node in each of three zones, us-east with room for all, ap-south with room for two pods."""
    nodes = {
        "eu-west": [a_node(f"node-{zone}", **{ZONE: f"eu-west-1{zone}"}) for zone in "abc"],
        "us-east": [a_node("node-1")],
        "ap-south": [a_node("node-1", pods=2)],
    }
    planes = dict(zip(nodes, control_planes(3), strict=True))
    example = repository / "examples" / "quickstart"
    for name, plane in planes.items():
        create(plane.api, nodes[name])
        fill(plane, example / "snapshot" / name)
    fleet = LiveFleet(tmp_path, planes, example / "policies")
    fleet.connect({name: plane.access(deployed.token(plane)) for name, plane in planes.items()})
    url = prometheus_server(requests_until_now()).url
    for name in planes:
        fleet.edit_fleet(name, prometheus={"url": url})
    return fleet


def running(api: Api, namespace: str, name: str) -> int:
    """How many pods of `name` run, as the API server counts them."""
    pods = pods_of(api, namespace, name, running=True)
    return len([pod for pod in pods if not pod["metadata"].get("deletionTimestamp")])


def at(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def annotations(fleet: LiveFleet, cluster: str, namespace: str, kind: str, name: str) -> dict[str, str]:
    """What `kubectl get -o json` shows; without kubectl, what it asks the API server for."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        root = "/api/v1" if kind == "services" else "/apis/apps/v1"
        found = fleet.planes[cluster].api.get(f"{root}/namespaces/{namespace}/{kind}/{name}")
    else:
        asked = [kubectl, "--context", cluster, "--namespace", namespace, "get", kind, name, "--output", "json"]
        found = json.loads(subprocess.run(asked, env=fleet.environment(), check=True, capture_output=True).stdout)
    marks: dict[str, str] = found["metadata"].get("annotations", {})
    return marks


def test_plan_apply_pods_and_plan_again(quickstart: LiveFleet) -> None:
    east, west, south = (quickstart.planes[name].api for name in ("us-east", "eu-west", "ap-south"))
    wait_until(lambda: running(west, "shop", "web") == 5, "web runs in eu-west")
    wait_until(lambda: running(south, "shop", "web") == 2, "two of four fit in ap-south")
    wait_until(lambda: running(west, "batch", "worker") == 7, "the workers run")
    wait_until(lambda: running(west, "dev-a", "api") == 3, "api runs")

    planned = quickstart.plan(at(NOW), "--detailed-exitcode")
    assert planned.code == 2, planned.err
    for line in (
        "IdlingPolicy idle-dev (policies/idling.yaml:2): outside-office-hours until Mon ",
        "~ eu-west/dev-a/Deployment/api      replicas  3 -> 0  idle  metric 0, idle at <= 0 (30m)",
        "~ eu-west/batch/Deployment/worker  replicas  7 -> 4  scale down",
        "~ eu-west/ci/CronJob/nightly     suspend   false -> true  idle",
        "~ us-east/dev-b/Deployment/reports  replicas  0 -> 2  wake  requested ",
        "+ us-east/shop/ReplicaSet/web  replicas  0 -> 5  create",
        "Plan: 1 to create, 6 to change (3 idle, 1 wake, 2 scale down), 0 to delete.\n",
    ):
        assert line in planned.out

    applied = quickstart.apply(at(NOW))
    assert (applied.code, applied.err) == (0, ""), applied.out
    assert "Applied: 7 of 7 changes (1 create, 3 idle, 1 wake, 2 scale down), 7 of 7 metadata updates.\n" in applied.out

    wait_until(lambda: running(east, "shop", "web") == 5, "five of web run in us-east")
    wait_until(lambda: running(east, "dev-b", "reports") == 2, "reports is awake")
    wait_until(lambda: running(west, "batch", "worker") == 4, "four workers are left")
    wait_until(lambda: not pods_of(west, "dev-a", "api"), "api sleeps")
    assert [running(api, "shop", "web") for api in (east, west, south)] == [5, 5, 2]
    assert [running(api, "shop", "cache") for api in (east, west, south)] == [2, 4, 0]
    assert running(west, "dev-a", "frontend") == 2
    nodes = {pod["spec"]["nodeName"] for pod in pods_of(west, "batch", "worker", running=True)}
    assert nodes == {"node-a", "node-b", "node-c"}

    again = quickstart.plan(at(NOW), "--detailed-exitcode")
    assert (again.code, again.out.splitlines()[-1]) == (
        0,
        "No changes. 1 workload waits for minAwake for another 120m.",
    )

    marks = annotations(quickstart, "eu-west", "dev-a", "deployments", "api")
    assert marks["idling.kubernetes.io/previous-scale"] == "3"
    assert marks["idling.kubernetes.io/idled-at"] == at(NOW)
    assert marks["scale.kubernetes.io/scale-reason"] == "Idled"
    targets = annotations(quickstart, "eu-west", "dev-a", "services", "api")["idling.kubernetes.io/unidle-targets"]
    assert json.loads(targets) == [{"group": "apps", "kind": "Deployment", "name": "api", "replicas": 3}]

    monday = NOW + timedelta(days=2, hours=9)
    woken = quickstart.apply(at(monday))
    assert "~ eu-west/dev-a/Deployment/api  replicas  0 -> 3  wake" in woken.out
    wait_until(lambda: running(west, "dev-a", "api") == 3, "api is awake with what it had")
    wait_until(lambda: running(west, "ci", "runner") == 2, "the runners are awake")
