"""A live plan of policies whose author is anybody: what their Fleet may not make this machine do."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from pytest_httpserver import HTTPServer

import reconciler.backends.credentials.allowed_sources
from reconciler.backends.credentials.allowed_sources import PROMETHEUS_FILES, allowed_file
from reconciler.connection_settings import CredentialSources, PrometheusConnection
from reconciler.errors import UnauthorisedError
from tests.backends.kubernetes.kubeconfigs import a_kubeconfig
from tests.pipeline.calls import Folder, Said

NOW = "2026-11-20T22:00:00Z"
LOOK = ("--snapshot", "snapshot", "--now", NOW)
TOKEN = "the-secret-word"
EXEC_VERSION = "client.authentication.k8s.io/v1"
LIVE = [
    ("plan", "policies"),
    ("plan", "policies", "--base", "policies", "-o", "markdown"),
    ("apply", "policies", "--auto-approve"),
    ("explain", "east/dev/Deployment/x"),
    ("rank", "east/dev/Deployment/x"),
    ("wake", "east/dev"),
    ("restore", "east/dev", "--auto-approve"),
    ("doctor", "policies"),
    ("snapshot", "taken"),
]


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests let their Fleets use is not let be used here, and nobody is waited for long."""
    for name in ("RECONCILER_CREDENTIALS_DIR", "RECONCILER_NO_EXEC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RECONCILER_REQUEST_TIMEOUT", "1")


@pytest.fixture
def closed() -> Iterator[str]:
    """An address where nobody listens."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"https://127.0.0.1:{reserved.getsockname()[1]}"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def a_fleet(folder: Folder, where: str = "policies", **cluster: object) -> None:
    spec = {"home": "east", "clusters": [{"name": "east", **cluster}]}
    fleet = {"apiVersion": "reconciler/v1alpha1", "kind": "Fleet", "metadata": {"name": "f"}, "spec": spec}
    folder.write(f"{where}/fleet.yaml", yaml.safe_dump(fleet))


def ran(folder: Folder) -> bool:
    return (folder.path / "calls").exists()


def with_plugin(folder: Folder, server: str, file: str = "kubeconfig") -> str:
    """Write a kubeconfig that has a program run, one that begins at once, and return its path."""
    path, plugin = folder.path / file, folder.path / "plugin"
    path.parent.mkdir(exist_ok=True)
    credential = {"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": {"token": "t"}}
    plugin.write_text(f"#!/bin/sh\necho x >>'{folder.path}/calls'\necho '{json.dumps(credential)}'\n")
    plugin.chmod(0o700)
    user = {"exec": {"apiVersion": EXEC_VERSION, "command": str(plugin)}}
    return a_kubeconfig(path, user, {"server": server})


@pytest.mark.parametrize("verb", LIVE, ids=" ".join)
def test_no_program_is_run_with_no_exec(folder, closed, monkeypatch, verb):
    monkeypatch.setenv("KUBECONFIG", with_plugin(folder, closed))
    a_fleet(folder)
    said = folder.call(*verb, "--no-exec")
    assert not ran(folder)
    words = 'context "east" has an exec plugin, expected none with --no-exec; give its user a token'
    assert words in said.out.replace("&quot;", '"') + said.err
    assert said.code != 0
    if verb == LIVE[0]:
        folder.call(*verb)
        assert ran(folder), "it is the flag that keeps it from being run"


def test_no_exec_is_said_once_for_all_verbs_by_its_variable(folder, closed, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", with_plugin(folder, closed))
    monkeypatch.setenv("RECONCILER_NO_EXEC", "1")
    a_fleet(folder)
    folder.call("plan", "policies")
    (folder.path / "policies" / "fleet.yaml").unlink()
    (folder.path / "policies").rmdir()
    assert folder.call("plan", "--context", "east").code == 1
    assert not ran(folder)


def test_no_auth_provider_is_asked_with_no_exec(folder, closed, monkeypatch):
    user = {"auth-provider": {"name": "gcp", "config": {"id-token": "a.b.c", "access-token": "t", "cmd-path": "/x"}}}
    monkeypatch.setenv("KUBECONFIG", a_kubeconfig(folder.path / "kubeconfig", user, {"server": closed}))
    a_fleet(folder)
    said = folder.call("plan", "policies", "--no-exec")
    assert '? east  context "east" has an auth provider, expected none with --no-exec' in said.out


def test_a_token_is_no_plugin(folder, closed, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", a_kubeconfig(folder.path / "k", {"token": "t"}, {"server": closed}))
    a_fleet(folder)
    assert "the connection was refused" in folder.call("plan", "policies", "--no-exec").out


@pytest.mark.parametrize("verb", [LIVE[0], *LIVE[-2:]], ids=" ".join)
def test_a_kubeconfig_beside_the_policies_is_not_used(folder, closed, verb):
    a_fleet(folder, connection={"kubeconfig": with_plugin(folder, closed, "policies/kubeconfig.txt")})
    said = folder.call(*verb)
    assert not ran(folder)
    assert "of the Fleet is not looked at, expected a file below /var/run/secrets or ~/.kube" in said.out + said.err
    if verb == LIVE[0]:
        folder.call(*verb, "--credentials-dir", str(folder.path))
        assert ran(folder), "it is the folder that keeps it from being used"


def test_the_variable_names_several_folders(folder, closed, monkeypatch):
    a_fleet(folder, connection={"kubeconfig": with_plugin(folder, closed, "policies/kubeconfig.txt")})
    monkeypatch.setenv("RECONCILER_CREDENTIALS_DIR", os.pathsep.join(["/nowhere", str(folder.path / "policies")]))
    folder.call("plan", "policies")
    assert ran(folder)


def test_every_file_that_a_fleet_may_name_is_judged():
    named = {field for field in PrometheusConnection.__struct_fields__ if field.endswith("_file")}
    assert set(PROMETHEUS_FILES) == named


@pytest.mark.parametrize(("field", "inside"), [("bearerTokenFile", ""), ("passwordFile", "basicAuth"), ("caFile", "")])
def test_no_file_is_sent_to_a_metrics_source(folder, closed, monkeypatch, httpserver: HTTPServer, field, inside):
    monkeypatch.setenv("KUBECONFIG", a_kubeconfig(folder.path / "k", {"token": "t"}, {"server": closed}))
    secret = folder.path / "secret"
    secret.write_text(TOKEN)
    said_file = {inside: {"username": "u", field: str(secret)}} if inside else {field: str(secret)}
    a_fleet(folder, prometheus={"url": httpserver.url_for("").rstrip("/"), "allowInsecureAuth": True, **said_file})
    said = folder.call("doctor", "policies")
    assert httpserver.log == []
    assert f"{field} {secret} of the Fleet is not looked at" in said.out
    assert TOKEN not in said.out + said.err
    folder.call("doctor", "policies", "--credentials-dir", str(folder.path))
    sent = [request.headers.get("Authorization") for request, _ in httpserver.log]
    assert sent, "it is the folder that keeps it from being sent"
    words = {"bearerTokenFile": f"Bearer {TOKEN}", "passwordFile": f"Basic {b64encode(f'u:{TOKEN}'.encode()).decode()}"}
    assert words.get(field) in sent


def reached(tmp_path: Path, file: str, *folders: str) -> str:
    """Where `file` leads when it may lie below `folders`, "" where it may not."""
    sources = CredentialSources(folders or (str(tmp_path / "allowed"),))
    try:
        return allowed_file(sources, "east", "kubeconfig", file)
    except UnauthorisedError:
        return ""


def test_links_are_followed_before_a_file_is_judged(tmp_path, monkeypatch):
    allowed, other = tmp_path / "allowed", tmp_path / "allowed-too"
    for one in (allowed / "..data", other):
        one.mkdir(parents=True)
        (one / "token").write_text("x")
    (allowed / "token").symlink_to("..data/token")  # as Kubernetes mounts a Secret
    (allowed / "out").symlink_to(other / "token")
    (allowed / "folder").symlink_to(other)
    (allowed / "circle").symlink_to(allowed / "circle")
    (tmp_path / "in").symlink_to(allowed / "token")
    (tmp_path / "linked").symlink_to(allowed)
    inside = str(allowed / "..data" / "token")
    assert reached(tmp_path, str(allowed / "token")) == inside
    assert reached(tmp_path, str(tmp_path / "in")) == inside
    assert reached(tmp_path, str(allowed / "token"), str(tmp_path / "linked")) == inside
    for file in ("out", "folder/token", "../allowed-too/token", "circle"):
        assert reached(tmp_path, str(allowed / file)) == ""
    assert reached(tmp_path, str(other / "token")) == "", "a name that only begins alike"
    assert reached(tmp_path, "x\0y") == ""
    monkeypatch.chdir(allowed)
    assert reached(tmp_path, "token") == inside
    monkeypatch.setenv("HOME", str(tmp_path))
    assert reached(tmp_path, "~/allowed/token") == inside
    assert reached(tmp_path, "~/allowed/token", "~/allowed") == inside


OWN_TOKENS = (
    ("kubernetes.io/serviceaccount", "token"),
    ("eks.amazonaws.com/serviceaccount", "token"),
    ("azure/tokens", "azure-identity-token"),
)


@pytest.mark.parametrize(("folder", "name"), OWN_TOKENS)
def test_a_token_of_the_pod_is_sent_only_where_its_own_folder_is_named(tmp_path, monkeypatch, folder, name):
    secrets = tmp_path / "secrets"
    own = secrets / folder
    (own / "..2026").mkdir(parents=True)
    (own / "..2026" / name).write_text("x")
    (own / "..data").symlink_to("..2026")
    (own / name).symlink_to(f"..data/{name}")  # as Kubernetes mounts it
    (secrets / "prom").mkdir()
    (secrets / "prom" / "token").write_text("x")
    (secrets / "prom" / "linked").symlink_to(own / name)
    monkeypatch.setattr(reconciler.backends.credentials.allowed_sources, "SECRETS", str(secrets))
    assert reached(tmp_path, str(secrets / "prom" / "token"), str(secrets)) == str(secrets / "prom" / "token")
    for file in (own / name, secrets / "prom" / "linked"):
        assert reached(tmp_path, str(file), str(secrets)) == ""
        assert reached(tmp_path, str(file), str(own)) == str(own / "..2026" / name)
    sources = CredentialSources((str(secrets),))
    with pytest.raises(UnauthorisedError, match=f"{name} of the Fleet is a token of the pod itself, expected another"):
        allowed_file(sources, "east", "bearerTokenFile", str(own / name))


@pytest.mark.parametrize("name", ["ca.crt", "service-ca.crt"])
def test_the_certificates_of_the_service_account_may_be_used(tmp_path, monkeypatch, name):
    file = tmp_path / "secrets" / "kubernetes.io" / "serviceaccount" / name
    file.parent.mkdir(parents=True)
    file.write_text("x")
    monkeypatch.setattr(reconciler.backends.credentials.allowed_sources, "SECRETS", str(tmp_path / "secrets"))
    assert reached(tmp_path, str(file), str(tmp_path / "secrets")) == str(file)


def changed(quickstart: Folder, old: str, new: str, *more: str) -> Said:
    """Compare with policies whose Fleet is another."""
    if not (quickstart.path / "head").exists():
        shutil.copytree(quickstart.path / "policies", quickstart.path / "head")
    file = quickstart.path / "head" / "fleet.yaml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))
    compared = ("head", "--base", "policies", *LOOK, "--days", "1")
    return quickstart.call("plan", *compared, "-o", "markdown", "-q", *more)


def test_the_limits_of_the_base_hold_and_a_changed_fleet_is_told(quickstart):
    base = quickstart.path / "policies" / "fleet.yaml"
    base.write_text(base.read_text().replace("share: 10%, atLeast: 10", "share: 0%, atLeast: 0"))
    lifted = ("share: 0%, atLeast: 0", "share: 100%, atLeast: 100")
    assert "The Fleet is changed" not in changed(quickstart, "region: eu", "region: eu", "--fleet-from", "base").out
    free = changed(quickstart, *lifted)
    assert "The Fleet is changed (spec.limits).\n" in free.out
    assert "Held back" not in free.out
    bound = changed(quickstart, *(lifted[1], lifted[1]), "--fleet-from", "base", "--fail-on", "held-back")
    assert "The Fleet is changed (spec.limits). All of this is planned with that of the base" in bound.out
    assert "limits hold back what they hold back without this change" in bound.out
    assert bound.code == 0


def test_a_cluster_of_the_head_alone_is_not_looked_at(quickstart):
    said = changed(
        quickstart,
        "- name: us-east\n      labels: {region: us}",
        "- name: us-east2\n      labels: {region: us}\n      connection: {kubeconfig: x}",
        "--fleet-from",
        "base",
    )
    assert said.code == 3, "the policies of head name us-east"
    for file in (quickstart.path / "head").iterdir():
        file.write_text(re.sub(r"us-east(?!2)", "us-east2", file.read_text()))
    said = changed(quickstart, "us-east2", "us-east2", "--fleet-from", "base")
    assert said.code in (0, 4), said
    assert "The Fleet is changed (spec.clusters)" in said.out
    assert "spec.clusters[us-east2]: none -> " in said.out, "a change of the Fleet is reviewed as text"
    assert "us-east2/" not in said.out


def test_nothing_of_the_fleet_of_the_head_is_opened(folder, closed):
    kubeconfig = a_kubeconfig(folder.path / "k", {"token": "t"}, {"server": closed})
    a_fleet(folder, connection={"kubeconfig": kubeconfig})
    a_fleet(folder, "head", connection={"kubeconfig": with_plugin(folder, closed)})
    call = ("plan", "head", "--base", "policies", "-o", "markdown", "--credentials-dir", str(folder.path))
    said = folder.call(*call, "--fleet-from", "base")
    assert not ran(folder)
    assert "The Fleet is changed (spec.clusters)" in said.out
    folder.call(*call)
    assert ran(folder), "it is the flag that keeps it from being opened"


def test_the_fleet_of_the_base_needs_a_base(quickstart):
    said = quickstart.call("plan", "policies", *LOOK, "--fleet-from", "base", "-o", "json")
    assert said.code == 64
    assert json.loads(said.out)["errors"] == [
        "--fleet-from: there is no base to take the Fleet from, expected it beside --base"
    ]
