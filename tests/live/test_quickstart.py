"""The quickstart on three real control planes with a real Prometheus: plan, apply, the pods that run, plan again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml

from tests.live import deployed
from tests.pipeline.calls import Folder, Said
from tests.real.api import Api, Object
from tests.real.cluster import create, path_of, pods_of, wait_until
from tests.real.kubeconfig import write_kubeconfig
from tests.real.objects import a_namespace, a_node

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
_SERVER_FILLS_IN = ("uid", "creationTimestamp", "generation", "resourceVersion", "managedFields", "ownerReferences")


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


def fill(plane: ControlPlane, snapshot: Path) -> list[Object]:
    """Create what stands in one cluster's folder of a snapshot, and what a member cluster gets.

    What controllers make themselves is left to them: pods, and the ReplicaSets of Deployments. Nodes need room, so the
    test makes them. Runs write under our admission policies.
    """
    deployed.install(plane.api)
    objects = [_as_written(one) for one in _manifests(snapshot) if _is_written_by_people(one)]
    named = {one["metadata"]["namespace"] for one in objects if "namespace" in one["metadata"]}
    return create(
        plane.api, [*(a_namespace(name, **deployed.OPEN) for name in sorted(named - {deployed.OWN})), *objects]
    )


def _manifests(snapshot: Path) -> list[Object]:
    files = [file for file in sorted(snapshot.glob("*.yaml")) if file.name != "metrics.yaml"]
    documents = [document for file in files for document in yaml.safe_load_all(file.read_text()) if document]
    return [one for document in documents for one in document.get("items", [document])]


def _is_written_by_people(one: Object) -> bool:
    owned = any(owner.get("controller") for owner in one["metadata"].get("ownerReferences", ()))
    is_system = one["kind"] == "Namespace" and one["metadata"]["name"].startswith("kube-")
    return one["kind"] not in ("Pod", "Node") and not owned and not is_system


def _as_written(one: Object) -> Object:
    metadata = {key: value for key, value in one["metadata"].items() if key not in _SERVER_FILLS_IN}
    return {**{key: value for key, value in one.items() if key != "status"}, "metadata": metadata}


class Quickstart(NamedTuple):
    """Its clusters by their names, and the command line called on them."""

    planes: dict[str, ControlPlane]
    cli: Folder

    def call(self, verb: str, now: datetime, *more: str) -> Said:
        return self.cli.call(verb, "policies", "--now", at(now), *more)

    def annotations(self, cluster: str, path: str) -> dict[str, str]:
        return dict(self.planes[cluster].api.get(path)["metadata"].get("annotations", {}))


@pytest.fixture
def quickstart(
    three_planes: list[ControlPlane],
    prometheus_server: Callable[..., Prometheus],
    repository: Path,
    tmp_path: Path,
) -> Quickstart:
    """eu-west with a node in each of three zones, us-east with room for all, ap-south with room for two pods."""
    nodes = {
        "eu-west": [a_node(f"node-{zone}", **{ZONE: f"eu-west-1{zone}"}) for zone in "abc"],
        "us-east": [a_node("node-1")],
        "ap-south": [a_node("node-1", pods=2)],
    }
    planes = dict(zip(nodes, three_planes, strict=True))
    example = repository / "examples" / "quickstart"
    for name, plane in planes.items():
        create(plane.api, nodes[name])
        fill(plane, example / "snapshot" / name)
    accesses = {name: plane.access(deployed.token(plane)) for name, plane in planes.items()}
    cli = Folder(tmp_path, write_kubeconfig(tmp_path / "kubeconfig.yaml", accesses))
    shutil.copytree(example / "policies", tmp_path / "policies")
    file = tmp_path / "policies" / "fleet.yaml"
    fleet = yaml.safe_load(file.read_text())
    url = prometheus_server(requests_until_now()).url
    for cluster in fleet["spec"]["clusters"]:
        cluster["prometheus"] = {"url": url}
    file.write_text(yaml.safe_dump(fleet, sort_keys=False))
    return Quickstart(planes, cli)


def running(api: Api, namespace: str, name: str) -> int:
    """How many pods of `name` run, as the API server counts them."""
    pods = pods_of(api, namespace, name, running=True)
    return len([pod for pod in pods if not pod["metadata"].get("deletionTimestamp")])


def at(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_plan_apply_pods_and_plan_again(quickstart: Quickstart) -> None:
    east, west, south = (quickstart.planes[name].api for name in ("us-east", "eu-west", "ap-south"))
    wait_until(lambda: running(west, "shop", "web") == 5, "web runs in eu-west")
    wait_until(lambda: running(south, "shop", "web") == 2, "two of four fit in ap-south")
    wait_until(lambda: running(west, "batch", "worker") == 7, "the workers run")
    wait_until(lambda: running(west, "dev-a", "api") == 3, "api runs")

    planned = quickstart.call("plan", NOW, "--detailed-exitcode")
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

    applied = quickstart.call("apply", NOW, "--auto-approve", "--quiet")
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

    again = quickstart.call("plan", NOW, "--detailed-exitcode")
    assert (again.code, again.out.splitlines()[-1]) == (
        0,
        "No changes. 1 workload waits for minAwake for another 120m.",
    )

    marks = quickstart.annotations("eu-west", path_of("Deployment", "dev-a", "api"))
    assert marks["idling.kubernetes.io/previous-scale"] == "3"
    assert marks["idling.kubernetes.io/idled-at"] == at(NOW)
    assert marks["scale.kubernetes.io/scale-reason"] == "Idled"
    listed = quickstart.annotations("eu-west", path_of("Service", "dev-a", "api"))
    target = {"group": "apps", "kind": "Deployment", "name": "api", "replicas": 3}
    assert json.loads(listed["idling.kubernetes.io/unidle-targets"]) == [target]

    monday = NOW + timedelta(days=2, hours=9)
    woken = quickstart.call("apply", monday, "--auto-approve", "--quiet")
    assert "~ eu-west/dev-a/Deployment/api  replicas  0 -> 3  wake" in woken.out
    wait_until(lambda: running(west, "dev-a", "api") == 3, "api is awake with what it had")
    wait_until(lambda: running(west, "ci", "runner") == 2, "the runners are awake")
