"""Plan and apply under exactly the roles and policies of deploy/, on a real API server; and with one right less."""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from pytest_httpserver import HTTPServer

from reconciler.decide.annotations import Key
from tests.live import all_writes, deployed, rights_cluster
from tests.live.asked import kinds
from tests.live.deployed import APPLY, PLAN, Grant
from tests.live.rights_cluster import RightsCluster
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import UNLIMITED, documents, downscale, fleet
from tests.real.api import MERGE_PATCH, Api, ApiError
from tests.real.cluster import RBAC, Paths, create, create_missing, deployment_path, wait_until
from tests.real.kubeconfig import Access, write_kubeconfig
from tests.real.objects import an_object, manifests
from tests.real.proxy import Request

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane

pytestmark = pytest.mark.real

GRANTS = deployed.every_grant()
_STRIDE = 32
"""Every so many of the rights are taken away in `make test`, the others in `make soak`."""

_TOLD_ONLY = {("create", "events"), ("patch", "configmaps")}
"""Without these all actions are done, and what is missing is told: an Event, a journal that the next run closes."""

_AGAIN = {("get", "events"), ("patch", "events")}
"""These are asked for only where a change fails once more: its Event counts on."""

_NOT_TOLD = {("list", "leases"), *_AGAIN}
"""Without the first no activator is known of, as where there is none; `doctor` tells which right is missing."""


@pytest.fixture(scope="module")
def cluster(member_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RightsCluster]:
    from tests.real.proxy import Proxy

    plane, folder = member_plane, Folder(tmp_path_factory.mktemp("rights"))
    with Proxy(plane.access(), folder.path / "proxy") as proxy:
        tokens = {account: deployed.token(plane, account) for account in (APPLY, PLAN)}
        accesses = {account: proxy.access(token) for account, token in tokens.items()}
        yield RightsCluster(plane, proxy, folder, {**accesses, "admin": proxy.access()})


@pytest.fixture(scope="module")
def undisturbed(cluster: RightsCluster) -> dict[tuple[str, str, str], Any]:
    """How the world ends when nothing is in the way."""
    cluster.fill()
    assert cluster.apply(APPLY).code == 0
    return cluster.come_to_rest()


def a_right(grant: Grant) -> tuple[str, str, str, bool, str]:
    """What is granted, by whatever role."""
    return grant.group, grant.resource, grant.verb, grant.own, grant.name


def test_the_plan_role_sees_all_that_an_admin_sees(cluster: RightsCluster) -> None:
    cluster.fill()

    said = cluster.plan(PLAN, "-o", "json")

    assert (said.code, json.loads(said.out)["unknown"]) == (0, {})
    assert said.out == cluster.plan("admin", "-o", "json").out


def test_the_plan_role_is_enough_for_a_snapshot(cluster: RightsCluster) -> None:
    cluster.fill()

    said = cluster.call(cluster.accesses[PLAN], "snapshot", "taken", "--policies", "policies", "--overwrite")

    assert said.code == 0, said
    assert [request for request in cluster.proxy.requests if request.status == 403] == []


def test_the_plan_role_cannot_apply(cluster: RightsCluster) -> None:
    cluster.fill()
    before = rights_cluster.state(cluster.api)

    said = cluster.apply(PLAN)

    assert said.code == 1, "no credentials for it: nothing was done"
    assert "skipped: east: get leases.coordination.k8s.io" in said.out
    assert "forbidden" in said.out
    assert rights_cluster.state(cluster.api) == before
    assert [request for request in cluster.proxy.writes() if request.status < 300] == []


def test_the_apply_role_applies_all_kinds_of_actions_and_no_right_is_too_much(cluster: RightsCluster) -> None:
    cluster.fill()

    said = cluster.apply(APPLY)

    assert said.code == 0, said.out + said.err
    assert re.search(r"\nApplied: (\d+) of \1 changes \(.*\), (\d+) of \2 metadata updates\.\n", said.out), said.out
    asked = kinds(cluster.proxy.requests, deployed.OWN)
    every = [one for one in GRANTS if (one.verb, one.resource) not in _AGAIN]
    assert set(map(a_right, every)) == asked
    assert [request for request in cluster.proxy.requests if request.status == 403] == []
    cluster.come_to_rest()


def test_a_change_that_fails_once_more_raises_the_count_of_its_event(cluster: RightsCluster) -> None:
    cluster.fill()
    right = next(one for one in GRANTS if (one.verb, one.resource) == ("patch", "statefulsets"))

    with deployed.without(cluster.api, right):
        codes = [cluster.apply(APPLY).code for _ in range(2)]

    events = cluster.api.items("/api/v1/namespaces/dev/events")
    [event] = [one for one in events if one["type"] == "Warning" and "patch statefulsets.apps" in one["message"]]
    assert (codes, event["reason"], event["count"]) == ([6, 6], "Failed", 2)
    assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("StatefulSet", "db")
    asked = kinds(cluster.proxy.requests, deployed.OWN)
    assert {("", resource, verb, False, "") for verb, resource in _AGAIN} <= asked


def _taken_away() -> list[Any]:
    now = {one for number, one in enumerate(GRANTS) if number % _STRIDE == 0 or (one.verb, one.resource) in _TOLD_ONLY}
    return [pytest.param(one, id=str(one), marks=() if one in now else pytest.mark.soak) for one in GRANTS]


@pytest.mark.parametrize("right", _taken_away())
def test_one_right_less_is_told_and_nothing_is_left_half_done(
    cluster: RightsCluster, undisturbed: Any, right: Grant
) -> None:
    cluster.fill()

    with deployed.without(cluster.api, right):
        said = cluster.apply(APPLY)

    told = f"{right.verb} {right.full_name}"
    lines = [line for line in (said.out + said.err).splitlines() if "east" in line and told in line]
    assert any("forbidden" in line for line in lines) or (right.verb, right.resource) in _NOT_TOLD, said
    assert "Traceback" not in said.out + said.err
    assert (said.code == 0) == ((right.verb, right.resource) in _TOLD_ONLY | _NOT_TOLD)
    assert without_reasons(cluster.come_to_rest()) == without_reasons(undisturbed)


def without_reasons(state: Any) -> Any:
    """A Service that is marked one run after what is behind it gives that as the reason."""
    found = copy.deepcopy(state)
    for one in found.values():
        annotations = one["metadata"].get("annotations", {})
        if Key.CAUSE in annotations:
            annotations[Key.CAUSE] = {**json.loads(annotations[Key.CAUSE]), "why": ""}
    return found


def picking(port: int) -> str:
    header = "{name: Authorization, valueFrom: {secretKeyRef: {name: picker, key: token}}}"
    http = f"host: localhost, port: {port}, scheme: http, allowInsecureAuth: true, httpHeaders: [{header}]"
    east = "{name: east, connection: {kubeconfig: kubeconfig.yaml}}"
    return documents(
        fleet([east], UNLIMITED, "podPickers: {allowedHosts: [localhost]}", name="picking", home="east"),
        downscale(
            "namespaces: {include: [batch]}, workloads: {kinds: [Deployment]}",
            2,
            "settleSeconds: 0",
            "verifySeconds: 0",
            f"podPicker: {{http: {{{http}}}, maxRetries: 0, onError: skip}}",
            name="workers",
        ),
    )


@pytest.mark.parametrize("granted", [False, True], ids=["not granted", "granted"])
def test_a_pickers_secret_is_read_where_its_role_is_bound(
    cluster: RightsCluster, httpserver: HTTPServer, granted: bool
) -> None:
    httpserver.expect_request("/", headers={"Authorization": "Bearer abc"}).respond_with_json(
        {"chosen_pods": ["worker-1-0", "worker-1-3"], "tied_pods": []}
    )
    cluster.fill()
    cluster.folder.write("picking/all.yaml", picking(httpserver.port))
    secret = an_object("v1", "Secret", "picker", {"namespace": "batch"}, stringData={"token": "Bearer abc"})
    create_missing(cluster.api, [secret, *(manifests(deployed.PICKER_SECRETS) if granted else [])])

    said = cluster.apply(APPLY, path="picking")
    examined = cluster.folder.call("doctor", "picking").out

    assert ("get secrets picker in batch" in examined) is not granted
    if granted:
        assert said.code == 0, said.out
        assert len(httpserver.log) == 1
    else:
        assert said.code == 6
        assert "Secret batch/picker key token cannot be read (Forbidden)" in said.out
        assert httpserver.log == []
    assert "abc" not in said.out + said.err


def test_the_cron_jobs_pod_is_admitted_where_pods_are_restricted(cluster: RightsCluster) -> None:
    (cron_job,) = manifests(deployed.CRON_JOB)
    template = cron_job["spec"]["jobTemplate"]["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "run"}, "spec": template["spec"]}

    cluster.api.request("POST", f"/apis/batch/v1/namespaces/{deployed.OWN}/cronjobs", cron_job, dryRun="All")
    cluster.api.request("POST", f"/api/v1/namespaces/{deployed.OWN}/pods", pod, dryRun="All")

    del pod["spec"]["containers"][0]["securityContext"]
    with pytest.raises(ApiError, match="violates PodSecurity"):
        cluster.api.request("POST", f"/api/v1/namespaces/{deployed.OWN}/pods", pod, dryRun="All")


def operator(cluster: RightsCluster) -> Access:
    """What an account may do that stands for the group of deploy/components/freeze."""
    subject = {"kind": "ServiceAccount", "namespace": deployed.OWN, "name": "operator"}
    made = [{**one, "subjects": [subject]} if "subjects" in one else one for one in manifests(deployed.FREEZE)]
    create_missing(cluster.api, made)
    return cluster.proxy.access(cluster.plane.service_account(deployed.OWN, "operator"))


def test_the_component_freeze_lets_people_freeze_and_nothing_else(cluster: RightsCluster) -> None:
    cluster.fill()
    access = operator(cluster)

    frozen = cluster.call(access, "freeze", "dev", "--for", "4h", "--reason", "incident", "--by", "alice")
    assert (frozen.code, frozen.err) == (0, "")
    said = cluster.plan(PLAN).out
    assert "frozen by alice until Wed 2099-01-07 02:00: incident" in said
    assert "east/dev/StatefulSet/db" not in said
    unfrozen = cluster.call(access, "unfreeze", "dev")
    assert (unfrozen.code, unfrozen.err) == (0, "")
    assert "east/dev/StatefulSet/db" in cluster.plan(PLAN).out

    role, cluster_role = (one for one in manifests(deployed.FREEZE) if one["kind"] in ("Role", "ClusterRole"))
    assert [one["rules"] for one in (role, cluster_role)] == [
        [{"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["freeze"], "verbs": ["get", "patch"]}],
        [{"apiGroups": [""], "resources": ["namespaces"], "verbs": ["list"]}],
    ]
    refused = [request.path for request in cluster.proxy.requests if request.status == 403]
    assert all("/customresourcedefinitions/" in path for path in refused), refused  # where kinds have their replicas
    patch = {"data": {"freezes": "[]"}}
    own = f"/api/v1/namespaces/{deployed.OWN}/configmaps"
    token = Api(cluster.plane.url, cluster.plane.ca_file, cluster.plane.service_account(deployed.OWN, "operator"))
    tried = [
        deployed.refusal(token, "PATCH", f"{own}/reconciler-journal", patch, MERGE_PATCH),
        deployed.refusal(token, "PATCH", "/api/v1/namespaces/dev/configmaps/freeze", patch, MERGE_PATCH),
        deployed.refusal(token, "POST", own, {"metadata": {"name": "another"}}),
        deployed.refusal(token, "DELETE", f"{own}/freeze"),
        deployed.refusal(token, "PATCH", deployment_path("dev", "api"), {"spec": {"replicas": 0}}, MERGE_PATCH),
        deployed.refusal(token, "GET", deployment_path("dev", "api")),
    ]
    assert [one[:4] for one in tried] == ["403 "] * 6, tried


@deployed.needs_kubectl
def test_the_commands_of_the_documentation_work(cluster: RightsCluster, tmp_path: Path) -> None:
    """All of them, one after another, with two contexts for the one API server."""
    cluster.fill()
    root = deployed.DEPLOY.parent
    access = cluster.plane.access()
    contexts = write_kubeconfig(tmp_path / "kubeconfig", {"eu-west": access, "us-east": access})
    (tmp_path / "deploy").symlink_to(root / "deploy")
    script = "\n".join(deployed.blocks_of(root / "docs" / "how-to" / "deploy.md", "sh"))
    try:
        deployed.shell(script.replace("reconciler connect", "reconciler connect --yes"), tmp_path, contexts)
    finally:
        deployed.admit(cluster.api, deployed.admission())
    assert script.count("kubectl") > 11
    said = cluster.call(user_of_the_runs(cluster), "plan", "policies")
    assert (said.code, said.out) == (0, cluster.plan(APPLY).out)


def user_of_the_runs(cluster: RightsCluster) -> Access:
    """What the one user of the kubeconfig in the Secret is let do, through the proxy."""
    secret = cluster.api.get("/api/v1/namespaces/reconciler/secrets/reconciler-kubeconfig")
    (user,) = yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"]))["users"]
    return cluster.proxy.access(user["user"]["token"])


def test_rights_in_one_namespace_plan_there(cluster: RightsCluster, tmp_path: Path) -> None:
    cluster.fill()
    create_missing(cluster.api, one_namespace("rights.yaml", "dev"))
    token = cluster.plane.service_account("dev", PLAN)
    cli = Folder(tmp_path, cluster.proxy.kubeconfig(rights_cluster.CLUSTER, token=token))
    cli.write("policies/idling.yaml", rights_cluster.IDLING)
    call = (
        "plan",
        "--context",
        rights_cluster.CLUSTER,
        "-n",
        "dev",
        "--now",
        rights_cluster.NOW,
        "--allow-exceed=idle-dev",
        "--fail-on=unknown",
    )

    less = cli.call(*call)
    create_missing(cluster.api, [*one_namespace("administrator.yaml", "dev"), binding_of_clone_sets("dev")])
    enough = cli.call(*call)
    checked = cli.call("doctor", *call[1:5], "--for", "plan")

    assert less.code == 6
    assert (checked.code, "plan has all rights" in checked.out) == (0, True), checked
    unknown = less.out.partition("\nUnknown: ")[2].partition("\n\n")[0].splitlines()[1:]
    assert ["configmaps in reconciler" in line or "clonesets" in line for line in unknown] == [True, True]
    assert enough.code == 0, enough
    assert "east/dev/StatefulSet/db" in enough.out
    assert "east/dev/CloneSet/runner" in enough.out


def one_namespace(file: str, name: str) -> list[Any]:
    text = (deployed.DEPLOY / "one-namespace" / file).read_text().replace("team-a", name)
    return list(yaml.safe_load_all(text))


def binding_of_clone_sets(namespace: str) -> dict[str, Any]:
    return an_object(
        f"{RBAC}/v1",
        "RoleBinding",
        "clone-sets",
        {"namespace": namespace},
        roleRef={"apiGroup": RBAC, "kind": "ClusterRole", "name": "reconciler-plan-clone-sets"},
        subjects=[{"kind": "ServiceAccount", "name": PLAN, "namespace": namespace}],
    )


def test_kinds_that_no_policy_names_are_no_business_of_a_run(cluster: RightsCluster) -> None:
    """With what `reconciler rbac` prints in place of all other rights: CloneSets are served, and may not be read."""
    cluster.fill()
    cluster.folder.write("policies/all.yaml", rights_cluster.POLICIES.replace(", CloneSet", ""))
    printed = list(yaml.safe_load_all(cluster.folder.call("rbac", "policies").out))
    former = [one for one in manifests(*deployed.RIGHTS) if one["apiVersion"].startswith(RBAC)]
    replace_rights(cluster.api, former, printed)
    try:
        planned, said = cluster.plan(PLAN), cluster.apply(APPLY)
    finally:
        replace_rights(cluster.api, printed, former)

    assert (planned.code, said.code) == (0, 0), said.out + said.err
    assert "Unknown" not in planned.out + said.out
    assert cluster.api.get(deployment_path("dev", "api"))["spec"]["replicas"] == 0
    refused = {request.path.rpartition("/")[2] for request in cluster.proxy.requests if request.status == 403}
    assert refused == {"clonesets.apps.kruise.io", "leases"}, "CloneSets, and what dead activators left"


def replace_rights(api: Api, old: list[Any], new: list[Any]) -> None:
    paths = Paths(api)
    for one in old:
        api.delete(paths.of(one))
    create_missing(api, new)
    there = {a_right(one): one for one in deployed.grants(new)}
    for right, one in ({a_right(one): one for one in GRANTS} | there).items():
        wait_until(lambda: deployed.may(api, one, APPLY) is (right in there), f"{one}: {right in there}")  # noqa: B023


def test_everything_that_is_written_is_admitted(cluster: RightsCluster) -> None:
    """Every kind of request that the roles are for, and every field and mark: each is written under the policies."""
    api = cluster.api
    written: list[Request] = []

    def call(*words: str) -> None:
        cluster.proxy.reset()
        said = cluster.call(cluster.accesses[APPLY], *words, "--quiet")
        assert [f"{one}" for one in cluster.proxy.requests if one.status == 403] == []
        assert said.code == 0, said.out + said.err
        written.extend(one for one in cluster.proxy.writes() if one.status < 300)

    def apply(policies: str) -> None:
        cluster.folder.write("policies/all.yaml", policies)
        call("apply", "policies", "--auto-approve", "--allow-removed", "--run-id", f"run-{len(written)}")

    cluster.fill()
    made = create(api, all_writes.placed(), "shop")
    create(api, all_writes.waiting_pods(next(one for one in made if one["metadata"]["name"] == "full")), "shop")
    apply(all_writes.NIGHT)
    rights_cluster.settle(api)
    apply(all_writes.NIGHT)
    apply(all_writes.DAY)

    cluster.fill()
    apply(all_writes.NIGHT)
    call("wake", "east/dev/Deployment/api", "--for", "1h")
    call("restore", "--all", "--hold", "12h", "--auto-approve")
    create(api, all_writes.of_oc_idle(), "dev")
    call("restore", "--all", "--adopt", "--auto-approve")

    cluster.fill()
    apply(all_writes.NIGHT)
    all_writes.scale_by_hand(api, deployment_path("dev", "db", "statefulsets"), 2)
    apply(all_writes.NIGHT)

    create(api, all_writes.idle_and_protected(), "kube-system")
    apply(all_writes.NIGHT)
    all_writes.check_awake_and_clear(api)

    granted = {(one.verb, one.resource) for one in GRANTS if one.verb in ("create", "patch", "delete")}
    assert all_writes.verbs(written) | {("patch", "events")} == granted  # see `forbidden_writes.seldom`
    changed = all_writes.changed(written)
    assert changed >= all_writes.FIELDS, sorted(all_writes.FIELDS - changed)
    assert {path.removeprefix("/metadata/") for _, path in changed} >= all_writes.MARKS
