"""`--context NAME`: one cluster without a Fleet, planned with rights in one namespace only, woken and restored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reconciler.backends.kubernetes.rights import RIGHTS, role_rules
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import fleet, idling
from tests.real.cluster import allow, create
from tests.real.control_plane import ControlPlane
from tests.real.kubeconfig import write_kubeconfig
from tests.real.objects import a_deployment, a_service, status_of

NIGHT = "2035-11-20T23:00:00Z"
POLICIES = idling('namespaces: {include: ["test-*"]}, services: {}', name="idle-nights")
FLEET = fleet(["member"], name="mine")


@pytest.fixture
def world(api_server: ControlPlane, api_namespace: str) -> str:
    """A namespace with one Deployment of three, behind a Service."""
    web = a_deployment("web", 3) | {"status": status_of("Deployment", 3)}
    create(api_server.api, [a_service("web"), web], api_namespace)
    return api_namespace


@pytest.fixture
def cli(api_server: ControlPlane, world: str, tmp_path: Path) -> Folder:
    """Who may list what is in the namespace `world`, and nothing else."""
    token = api_server.service_account(world, "reader")
    rules = role_rules(right for right in RIGHTS if not (right.apply or right.own or right.name or right.use))
    inside = [rule for rule in rules if rule["resources"] != ["namespaces"]]
    own = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"], "resourceNames": [world]}
    allow(api_server.api, "reader", world, [*inside, own], inside=world)
    cli = Folder(tmp_path, api_server.kubeconfig("member", token=token))
    cli.write("policies/idling.yaml", POLICIES)
    return cli


def test_what_may_not_be_listed_is_unknown_and_names_the_rule_that_is_missing(cli: Folder, world: str) -> None:
    said = cli.call("plan", "--context", "member", "--now", NIGHT, "-o", "json", "--fail-on", "unknown")
    unknown = json.loads(said.out)["unknown"]
    assert said.code == 6
    assert json.loads(said.out)["actions"] == []
    assert "a ClusterRole with {apiGroups: [apps], resources: [deployments], verbs: [list]}" in str(unknown)
    assert str(unknown).count(", or look at one namespace: -n NAMESPACE") == len(unknown) > 10


def test_a_fleet_beside_a_context_is_refused(cli: Folder) -> None:
    cli.write("policies/fleet.yaml", FLEET)
    said = cli.call("plan", "--context", "member")
    assert said.code == 64
    assert said.err.startswith("error: --context: policies/fleet.yaml:1 is a Fleet, expected policies without one;"), (
        said.err
    )
    assert len(said.err.splitlines()) == 1


def test_one_object_of_a_cluster_without_a_fleet_is_explained(
    api_server: ControlPlane, world: str, tmp_path: Path
) -> None:
    cli = Folder(tmp_path, api_server.kubeconfig("member"))
    cli.write("policies/idling.yaml", POLICIES.replace("test-*", world))  # limits count all that are selected
    said = cli.call("explain", "--context", "member", f"member/{world}/deploy/web", "--now", NIGHT)
    assert said.code == 0, said.err
    assert "Next run: idle, replicas 3 -> 0" in said.out
    ranked = cli.call("rank", "--context", "member", f"member/{world}/deploy/web", "--now", NIGHT)
    assert ranked.out.startswith(f"member/{world}/Deployment/web: has 3 replicas, and none of its pods was found"), (
        ranked
    )


@pytest.fixture
def idled(api_server: ControlPlane, api_namespace: str) -> str:
    """A namespace with two Deployments that a Fleet idled whose policies are gone, one by each of two runs."""
    for name, run in (("api", "run-1"), ("web", "run-2")):
        one = a_deployment(name, 0)
        one["metadata"]["annotations"] = {
            "idling.kubernetes.io/idled-at": "2020-11-20T20:00:00Z",
            "idling.kubernetes.io/previous-scale": "3",
            "reconciler/owner": "gone/IdlingPolicy/nights",
            "reconciler/cause": json.dumps({"run": run}),
        }
        create(api_server.api, [one], api_namespace)
    return api_namespace


def test_what_a_lost_fleet_idled_is_given_back_through_a_context(
    api_server: ControlPlane, idled: str, tmp_path: Path
) -> None:
    cli = Folder(tmp_path, api_server.kubeconfig("member"))
    without = ("--context", "member", "--own-namespace", "default")

    def replicas() -> list[int]:
        path = f"/apis/apps/v1/namespaces/{idled}/deployments"
        return [api_server.api.get(f"{path}/{name}")["spec"]["replicas"] for name in ("api", "web")]

    unknown = cli.call("restore", f"member/{idled}", "--run", "zzzz", *without, "--auto-approve")
    assert unknown.code == 64
    assert (
        f'--run: no idle object below member/{idled} records run "zzzz", expected one of 2: run-1, run-2' in unknown.err
    )
    assert cli.call("wake", "member", *without).code == 64
    assert replicas() == [0, 0]
    reports = ("--report-dir", str(tmp_path / "reports"))
    said = cli.call("restore", f"member/{idled}", "--run", "run-2", *without, "--auto-approve", *reports)
    assert (said.code, replicas()) == (0, [0, 3]), said
    (report,) = (tmp_path / "reports").iterdir()
    user = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = api_server.api.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", user)
    assert json.loads(report.read_text())["user"] == answer["status"]["userInfo"]["username"]
    said = cli.call("wake", f"member/{idled}", *without)
    assert (said.code, replicas()) == (0, [3, 3]), said


def test_a_context_may_be_called_what_no_cluster_may(api_server: ControlPlane, tmp_path: Path) -> None:
    name = "arn:aws:eks:eu-west-1:1234:cluster/shop"
    config = write_kubeconfig(tmp_path / "kubeconfig", {name: api_server.access()})
    said = Folder(tmp_path, config).call("plan", "--context", name, "-o", "json")
    assert list(json.loads(said.out)["clusters"]) == ["arn-aws-eks-eu-west-1-1234-cluster-shop"], said.err
