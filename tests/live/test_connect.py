"""`reconciler connect` on a real API server: what it makes is enough for runs, and its tokens are renewed in time."""

from __future__ import annotations

import base64
import re
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.backends.credentials import kubeconfig
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.cli import connect
from tests.live import deployed
from tests.pipeline.calls import Folder, Said
from tests.pipeline.manifests import APP_AT_NIGHT, ONE_CLUSTER, documents, fleet
from tests.real.api import Api, ApiError
from tests.real.cluster import Paths, create_missing, wait_until
from tests.real.control_plane import API_ONLY, ControlPlane
from tests.real.fixtures import started
from tests.real.kubeconfig import Access, write_kubeconfig
from tests.real.objects import manifests
from tests.real.tokens import claims, signed

pytestmark = pytest.mark.real

OWN = deployed.OWN
CONNECT = ("connect", "east", "--admin-context", "admin", "--file", "hub.kubeconfig", "--auto-approve")
_ROLES = [
    *(f"/apis/rbac.authorization.k8s.io/v1/clusterrole{kind}s" for kind in ("", "binding")),
    *(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OWN}/role{kind}s" for kind in ("", "binding")),
]


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with started(ControlPlane(tmp_path_factory.mktemp("plane"), API_ONLY)) as plane:
        yield plane


@pytest.fixture
def cli(plane: ControlPlane, tmp_path: Path) -> Iterator[Folder]:
    """An administrator of `east`, where nothing of ours is yet, beside the policies."""
    cli = Folder(tmp_path, write_kubeconfig(tmp_path / "admin", {"admin": plane.access()}))
    cli.write("policies/all.yaml", ONE_CLUSTER)
    yield cli
    cleared(plane.api)


def cleared(api: Api) -> None:
    for path in (*_ROLES, f"/api/v1/namespaces/{OWN}/serviceaccounts", f"/api/v1/namespaces/{OWN}/secrets"):
        for one in api.items(path):
            if one["metadata"]["name"].startswith(("reconciler", "token-rotation")):
                api.delete(f"{path}/{one['metadata']['name']}")


def ours(api: Api) -> dict[str, Any]:
    """All that a member has of ours, without what the server adds."""
    found = {}
    for path in (*_ROLES, f"/api/v1/namespaces/{OWN}/serviceaccounts"):
        for one in api.items(path):
            if one["metadata"]["name"].startswith("reconciler"):
                found[f"{path}/{one['metadata']['name']}"] = {
                    key: value for key, value in one.items() if key != "metadata"
                }
    return found


def token_in(file: Path, user: str = "east") -> str:
    (found,) = [one["user"]["token"] for one in yaml.safe_load(file.read_text())["users"] if one["name"] == user]
    return found


def test_what_it_makes_is_enough_for_runs_and_a_second_call_has_nothing_to_do(plane: ControlPlane, cli: Folder) -> None:
    said = cli.call(*CONNECT)

    assert said.code == 0, said
    assert said.out.splitlines()[1:3] == ["  + Namespace reconciler", "  + ServiceAccount reconciler/reconciler"]
    file = cli.path / "hub.kubeconfig"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert token_in(file) not in said.out + said.err
    run = Folder(cli.path, file)
    wait_until(lambda: run.call("doctor").code == 0, "the rights to be there")
    assert "OK    east  credentials  the token expires at " in run.call("doctor").out
    assert run.call("apply", "--auto-approve").code == 0
    before = file.read_bytes()
    again = cli.call(*CONNECT)
    assert (again.code, len(again.out.splitlines()), file.read_bytes()) == (0, 1, before), again


def test_what_somebody_changed_is_put_right_and_what_is_right_stays(plane: ControlPlane, cli: Folder) -> None:
    create_missing(plane.api, manifests(*deployed.MEMBER))

    said = cli.call(*CONNECT)

    assert said.code == 0, said
    lines = [line.partition(", which no longer grants ") for line in said.out.splitlines()[1:-2]]
    assert [bool(less) for _, less, _ in lines] == [True, True, False, False, False]
    assert [line.split() for line, *_ in lines] == [
        ["~", "ClusterRole", "reconciler-plan"],
        ["~", "ClusterRole", "reconciler-apply"],
        ["~", "Role", "reconciler/reconciler-apply"],  # the same rules in another order
        ["+", "Role", "reconciler/reconciler-own-token"],
        ["+", "RoleBinding", "reconciler/reconciler-own-token"],
    ]
    granted = {one.verb for one in deployed.grants(desk_roles(plane.api)) if one.resource == "pods"}
    assert granted == {"list"}, "nothing is scaled down"

    binding = plane.api.get(f"{_ROLES[1]}/reconciler-plan")
    binding["subjects"][0]["namespace"] = "other-fleet"
    plane.api.replace(f"{_ROLES[1]}/reconciler-plan", binding)
    said = cli.call(*CONNECT)
    assert (said.code, said.out) == (64, "")
    words = "is bound to ServiceAccount other-fleet/reconciler-plan, expected ServiceAccounts of this Fleet alone"
    assert f"ClusterRoleBinding reconciler-plan: {words}; delete it where no other Fleet needs it\n" in said.err
    assert plane.api.get(f"{_ROLES[1]}/reconciler-plan")["subjects"] == binding["subjects"]


def desk_roles(api: Api) -> list[Any]:
    return [
        {**one, "kind": "ClusterRole" if "clusterroles" in path else "Role"}
        for path in (_ROLES[0], _ROLES[2])
        for one in api.items(path)
        if one["metadata"]["name"].startswith("reconciler")
    ]


def test_stopped_before_any_write_and_called_again_it_comes_to_the_same_end(
    plane: ControlPlane, cli: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = ApiClient.send
    assert cli.call(*CONNECT).code == 0
    undisturbed = ours(plane.api)
    writes = 0

    def stops_at(number: int) -> None:
        def stopping(self: ApiClient, request: Any, *more: Any) -> Any:
            nonlocal writes
            writes += request.writes
            if request.writes and writes > number:
                raise KeyboardInterrupt
            return send(self, request, *more)

        monkeypatch.setattr(ApiClient, "send", stopping)

    code, number = 130, 0
    while code == 130:
        (cli.path / "hub.kubeconfig").unlink()
        cleared(plane.api)
        writes = 0
        stops_at(number)
        code = cli.call(*CONNECT).code
        stops_at(1000)
        assert cli.call(*CONNECT).code == 0
        assert ours(plane.api) == undisturbed
        assert token_in(cli.path / "hub.kubeconfig").count(".") == 2
        number += 1
    assert (code, number) == (0, len(undisturbed) + 2), "each object but the namespace, and the token"


def a_token(plane: ControlPlane, *, life: float = 3600, left: float) -> str:
    """A token of the ServiceAccount of runs that expires in so many seconds."""
    account = plane.api.get(f"/api/v1/namespaces/{OWN}/serviceaccounts/{deployed.APPLY}")
    now = time.time()
    return signed(plane.folder / "sa.key", claims(account, now + left - life, now + left))


def test_a_token_that_expires_is_warned_of_and_renewed_and_a_member_that_fails_stops_no_other(
    plane: ControlPlane, cli: Folder
) -> None:
    assert cli.call(*CONNECT).code == 0
    expiring = a_token(plane, left=20)
    expired = a_token(plane, left=-61)  # the API server lets a minute pass
    gone = Access("https://127.0.0.1:1", plane.ca_file, {"token": expiring})
    static = Access(plane.url, plane.ca_file, {"token": plane.admin_token})
    file = write_kubeconfig(
        cli.path / "hub.kubeconfig", {"away": gone, "east": plane.access(expiring), "static": static}
    )
    run = Folder(cli.path, file)
    warned = wait_for_line(run, "WARN  east  credentials")
    assert "`reconciler connect east`" in warned

    right = deployed.Grant("reconciler-own-token", "Role", 0, "", "serviceaccounts/token", "create", deployed.APPLY)
    wait_until(lambda: deployed.may(plane.api, right, deployed.APPLY), "the right to ask for a token")

    said = run.call("connect", "--rotate", "--file", "hub.kubeconfig", "--request-timeout", "5")

    assert said.code == 6, said
    assert said.out.splitlines()[0].startswith("east: renewed, its token expires at ")
    assert said.out.splitlines()[1:] == ["static: left as it is, it has no token of a ServiceAccount that expires"]
    assert said.err.startswith("error: away: ")
    assert (token_in(file, "away"), token_in(file, "static")) == (expiring, plane.admin_token)
    assert token_in(file) != expiring
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    wait_for_line(run, "OK    east  credentials")
    assert run.call("plan").code == 0

    write_kubeconfig(file, {"east": plane.access(expired)})
    refused = run.call("doctor")
    assert refused.code == 1
    assert "FAIL  east  server       get /version: the credentials were not accepted" in refused.out
    assert "FAIL  east  credentials  the token expired at " in refused.out
    assert run.call("connect", "--rotate", "--file", "hub.kubeconfig").code == 1


def wait_for_line(run: Folder, begin: str) -> str:
    def there() -> list[str]:
        return [line for line in run.call("doctor").out.splitlines() if line.startswith(begin)]

    return wait_until(there, begin)[0]


def test_it_is_renewed_past_half_of_its_life_and_not_before(plane: ControlPlane, cli: Folder) -> None:
    assert cli.call(*CONNECT).code == 0
    for left, words in ((2000, "left as it is until "), (1700, "renewed, its token expires at ")):
        token = a_token(plane, life=3600, left=left)
        file = write_kubeconfig(cli.path / "hub.kubeconfig", {"east": plane.access(token)})
        said = rotated(cli)
        assert said.out.startswith(f"east: {words}"), said
        assert (token_in(file) == token) is words.startswith("left")


def rotated(cli: Folder) -> Said:
    """What rotation says once the API server knows of the rights."""

    def done() -> Said | None:
        said = cli.call("connect", "--rotate", "--file", "hub.kubeconfig")
        return said if said.code == 0 else None

    said = wait_until(done, "the right to ask for a token")
    assert said is not None
    return said


@pytest.fixture
def pod(plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process has the ServiceAccount of deploy/components/rotation, with its rights."""
    folder = tmp_path / "serviceaccount"
    folder.mkdir()
    create_missing(plane.api, manifests(deployed.DEPLOY / "member" / "namespace.yaml", deployed.ROTATION))
    (folder / "token").write_text(plane.service_account(OWN, "token-rotation"))
    (folder / "namespace").write_text(OWN)
    (folder / "ca.crt").write_bytes(plane.ca_file.read_bytes())
    for module in (kubeconfig, connect):
        monkeypatch.setattr(module, "SERVICE_ACCOUNT", str(folder))
    host, port = plane.url.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)


CRON_JOB = deployed.ROTATION.with_name("cronjob.yaml")
SECRET = f"/api/v1/namespaces/{OWN}/secrets/reconciler-kubeconfig"


def secret_text(api: Api) -> str:
    return base64.b64decode(api.get(SECRET)["data"]["kubeconfig"]).decode()


def test_the_cron_job_renews_what_is_in_the_secret_with_the_one_right_it_has(
    plane: ControlPlane, cli: Folder, pod: None
) -> None:
    """As in its pod: the Secret is mounted, and written to as the ServiceAccount token-rotation."""
    api = plane.api
    to_secret = ("connect", "east", "--admin-context", "admin", "--hub", "admin", "--auto-approve")
    assert cli.call(*to_secret).code == 0
    assert cli.call(*to_secret).out.count("\n") == 1
    mounted = cli.path / "mounted"
    text = yaml.safe_load(secret_text(api))
    text["users"][0]["user"]["token"] = a_token(plane, left=20)
    api.patch(SECRET, {"data": {"kubeconfig": base64.b64encode(yaml.safe_dump(text).encode()).decode()}})
    mounted.write_text(secret_text(api))
    mounted.chmod(0o440)
    (cron_job,) = manifests(CRON_JOB)
    api.create(f"/apis/batch/v1/namespaces/{OWN}/cronjobs", cron_job)
    (container,) = cron_job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    rotate = [word.replace("/etc/reconciler/kubeconfig", "mounted") for word in container["args"]]
    wait_until(lambda: cli.call(*rotate).code == 0, "the right to patch")
    assert secret_text(api) != mounted.read_text()
    renewed = secret_text(api)

    late = cli.call(*rotate)

    assert late.code == 6
    where = "error: hub: Secret reconciler/reconciler-kubeconfig"
    assert late.err == f"{where}: was changed meanwhile, expected it unchanged; call it again\n"
    assert secret_text(api) == renewed
    account = api.with_headers({"Impersonate-User": f"system:serviceaccount:{OWN}:token-rotation"})
    for path in (SECRET, SECRET.rpartition("/")[0], f"/api/v1/namespaces/{OWN}/configmaps"):
        with pytest.raises(ApiError) as refused:
            account.get(path)
        assert refused.value.status == 403


def test_admission_lets_a_token_ask_for_another_one_like_itself_and_for_none_else(
    plane: ControlPlane, cli: Folder
) -> None:
    api = plane.api
    assert cli.call(*CONNECT).code == 0
    create_missing(api, manifests(deployed.OWN_TOKEN))
    objects = deployed.admission("member/admission", "components/own-token")
    deployed.admit(api, objects)
    try:
        said = cli.call(*CONNECT)
        assert (said.code, said.err) == (0, ""), "it sees the admission policies"
        write_kubeconfig(cli.path / "hub.kubeconfig", {"east": plane.access(a_token(plane, left=20))})
        assert rotated(cli).out.startswith("east: renewed")
        thief = deployed.with_every_right(api, deployed.APPLY)
        create_missing(api, manifests(deployed.DEPLOY / "member" / "service-accounts.yaml"))
        for name, spec, allowed in (
            ("reconciler", {}, True),
            ("reconciler", {"expirationSeconds": 10 * 366 * 86400}, False),
            ("reconciler-plan", {}, False),
        ):
            path = f"/api/v1/namespaces/{OWN}/serviceaccounts/{name}/token"
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            assert (deployed.refusal(thief, "POST", path, body) == "") is allowed, (name, spec)
        others = next(one for one in objects if one["metadata"]["name"] == "reconciler-others")
        spec = {"matchConditions": others["spec"]["matchConditions"][:1]}  # that of deploy/member alone
        api.patch(Paths(api).of(others), {"spec": spec})
        lets = (
            "reconciler-others lets no token be renewed, expected that of deploy/components/own-token, or --no-rotation"
        )
        assert cli.call(*CONNECT).err == f"warning: east: its admission policy {lets}\n"
        assert cli.call(*CONNECT, "--no-rotation").err == ""
        cli.write("policies/all.yaml", fleet(["east"], "namespace: elsewhere"))
        not_narrowed = "has no admission policies that narrow these rights, expected those of deploy/member, about"
        said = cli.call(*CONNECT[:-2], "elsewhere.kubeconfig", CONNECT[-1])
        assert said.err.startswith(f"warning: east: {not_narrowed} namespace elsewhere,"), "nor refuse a renewal"
    finally:
        paths = Paths(api)
        for one in objects:
            api.delete(paths.of(one))


def test_with_its_service_account_every_token_goes_and_it_is_connected_anew(plane: ControlPlane, cli: Folder) -> None:
    assert cli.call(*CONNECT).code == 0
    file = cli.path / "hub.kubeconfig"
    stolen = token_in(file)
    plane.api.delete(f"/api/v1/namespaces/{OWN}/serviceaccounts/reconciler")

    assert cli.call(*CONNECT).code == 0

    thief = plane.api.with_headers({"Authorization": f"Bearer {stolen}"})
    wait_until(lambda: deployed.refusal(thief, "GET", "/version").startswith("401"), "the old token to be refused")
    run = Folder(cli.path, file)
    wait_until(lambda: run.call("doctor").code == 0, "the new one to have the rights")


PAGE = deployed.DEPLOY.parent / "docs" / "how-to" / "connect-members.md"


@deployed.needs_kubectl
def test_the_commands_of_the_documentation_work_and_print_what_it_says(plane: ControlPlane, cli: Folder) -> None:
    """With three contexts for the one API server."""
    create_missing(plane.api, manifests(*deployed.MEMBER, deployed.OWN_TOKEN))
    names = {name: plane.access() for name in ("eu-west", "us-east", "us-east-admin")}
    write_kubeconfig(cli.kubeconfig, names)
    clusters = ["us-east", "{name: eu-west, connection: {inCluster: true}}"]
    cli.write("policies/all.yaml", documents(fleet(clusters, name="mine", home="eu-west"), APP_AT_NIGHT))
    shown = deployed.blocks_of(PAGE, "text")[0].splitlines()

    said = cli.call(*shown[0].split()[2:], "--yes")

    assert said.code == 0, said
    expected = [line for line in shown[1:] if not line.startswith("Apply these changes?")]
    assert [without_what_differs(line) for line in said.out.splitlines()] == list(map(without_what_differs, expected))
    script = "".join(deployed.blocks_of(PAGE, "sh")).replace("reconciler connect", "reconciler connect --yes")
    assert "with a token of reconciler/reconciler for 90d at most" in deployed.shell(script, cli.path, cli.kubeconfig)


def without_what_differs(line: str) -> str:
    return re.sub(r"https://\S+:|\w{3} 20\d\d-\d\d-\d\d \d\d:\d\d UTC", "", line)
