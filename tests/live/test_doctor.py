"""`reconciler doctor` on real API servers: what it finds is there, and what it prints makes it go away."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from reconciler.backends.backend import Backend
from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.protocols import NoMetrics
from reconciler.cli import doctor
from reconciler.cli.doctor_findings import ClusterCheck, clock_finding, metrics_findings
from reconciler.decide.freeze import freezes_text
from reconciler.model import ACTIVATOR_LABELS, ACTIVATOR_POD_LABEL, QueryAnswer, Sample
from reconciler.observe.needed_objects import EVERYTHING
from reconciler.policy.types import Freeze
from tests.builders import NOW, a_state, policies_of
from tests.cases import cases
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents, fleet, idling
from tests.real.api import APPLY_PATCH
from tests.real.cluster import RBAC, create, deployment_path
from tests.real.control_plane import ControlPlane
from tests.real.kubeconfig import Access, write_kubeconfig
from tests.real.objects import a_deployment, a_service, an_autoscaler, an_object, within

SOON = ("--request-timeout", "5")
"""What does not answer is tried again for so long; what does answers sooner, on a busy machine too."""


def a_cli(folder: Path, contexts: dict[str, Access], own: str) -> Folder:
    cli = Folder(folder, write_kubeconfig(folder / "kubeconfig", contexts))
    nights = idling(f"namespaces: {{include: [{own}-app]}}, services: {{}}", name="idle-nights")
    mine = fleet(contexts, f"namespace: {own}", name="mine", home="east")
    cli.write("policies/all.yaml", documents(mine, nights))
    return cli


def findings(cli: Folder, *more: str) -> dict[tuple[str, str], dict[str, Any]]:
    """What is found, by cluster and check."""
    document = json.loads(cli.call("doctor", "-o", "json", *SOON, *more).out)
    return {
        (cluster["name"], finding["check"]): finding
        for cluster in document["clusters"]
        for finding in cluster["findings"]
    }


def test_all_is_well_for_an_admin(api_server: ControlPlane, api_namespace: str, tmp_path: Path) -> None:
    cli = a_cli(tmp_path, {"east": api_server.access()}, api_namespace)
    said = cli.call("doctor")
    assert said.code == 0, said
    version = api_server.api.get("/version")["gitVersion"]
    assert said.out.splitlines() == [
        f'OK    east  server     {version}, context "east"',
        f"OK    east  identity   {api_server.identity()}",
        "OK    east  clock      within 5 s of the clock of this machine",
        "OK    east  rights     plan and apply have all rights",
        f"OK    east  namespace  {api_namespace} exists",
        f"OK    east  lock       Lease {api_namespace}/reconciler is free",
        "OK    east  metrics    no Prometheus is configured, and no policy has queries",
        "OK    east  activator  none lives",
        "OK    east  writers    no other writer of replicas among 0 selected workloads",
    ]


def test_the_roles_it_prints_are_those_that_are_missing(
    api_server: ControlPlane, api_namespace: str, tmp_path: Path
) -> None:
    token = api_server.service_account(api_namespace, "runner")
    cli = a_cli(tmp_path, {"east": api_server.access(token)}, api_namespace)
    said = cli.call("doctor")
    assert said.code == 6
    for _ in range(2):  # definitions of custom kinds could not be read before, so their kinds were not known
        for role in yaml.safe_load_all(said.out.partition("---\n")[2]):
            bind(api_server, role, api_namespace)
        said = cli.call("doctor")
    assert "---" not in said.out
    assert findings(cli)["east", "rights"]["state"] == "OK"
    assert cli.call("plan", "--now", "2035-11-20T12:00:00Z").code == 0


def bind(plane: ControlPlane, role: dict[str, Any], account_of: str) -> None:
    """Do what a person does with a role that doctor prints."""
    namespace = role["metadata"].get("namespace")
    where = f"/apis/{RBAC}/v1" + (f"/namespaces/{namespace}" if namespace else "")
    kind = role["kind"]
    name = f"{role['metadata']['name']}-{account_of}-{len(str(role))}"
    plane.api.create(f"{where}/{kind.lower()}s", {**role, "metadata": {"name": name}})
    subjects = [{"kind": "ServiceAccount", "namespace": account_of, "name": "runner"}]
    reference = {"apiGroup": RBAC, "kind": kind, "name": name}
    binding = an_object(f"{RBAC}/v1", f"{kind}Binding", name, roleRef=reference, subjects=subjects)
    plane.api.create(f"{where}/{kind.lower()}bindings", binding)


def test_what_stands_in_the_way(api_server: ControlPlane, api_namespace: str, tmp_path: Path) -> None:
    api = api_server.api
    app = f"{api_namespace}-none-app"
    create(api, [an_object("v1", "Namespace", app)])
    create(api, [a_service("web"), a_deployment("web", 2), an_autoscaler("web", 1, 3)], app)
    admin = api_server.access()
    insecure = Access(admin.server, None, admin.user, {"insecure-skip-tls-verify": True})
    away = Access("https://127.0.0.1:1", admin.authority, admin.user)
    cli = a_cli(tmp_path, {"east": admin, "again": insecure, "away": away}, f"{api_namespace}-none")
    found = findings(cli)
    assert found["away", "server"]["state"] == "FAIL"
    assert found["again", "tls"]["state"] == "FAIL"
    assert found["east", "identity"]["text"] == "the same cluster as again"
    assert found["east", "namespace"] == {
        "check": "namespace",
        "state": "FAIL",
        "text": f"there is no namespace {api_namespace}-none",
        "todo": f"kubectl create namespace {api_namespace}-none",
    }
    words = found["east", "writers"]["text"]
    assert words.startswith("of 1 selected workloads: 1 have a HorizontalPodAutoscaler, 1 last written by "), words
    assert cli.call("doctor", *SOON).code == 6


@pytest.mark.parametrize(
    ("ahead", "state", "words"),
    [
        pytest.param(None, "WARN", "the server sends no Date header", id="no Date"),
        pytest.param(timedelta(seconds=4), "OK", "within 5 s of the clock of this machine", id="near"),
        pytest.param(timedelta(seconds=61), "FAIL", "61 s ahead of the clock of this machine", id="ahead"),
        pytest.param(timedelta(seconds=-61), "FAIL", "61 s behind the clock of this machine", id="behind"),
    ],
)
def test_clocks(ahead: timedelta | None, state: str, words: str) -> None:
    found = clock_finding(ahead)
    assert found.state == state
    assert found.text.startswith(words)


class Source:
    """Answers each query with one value, or with nothing."""

    def __init__(self, alive: bool, newest: float | None) -> None:
        self._values = {"vector(1)": 1.0 if alive else None, "max(timestamp(up))": newest}

    def query(self, text: str) -> QueryAnswer:
        value = self._values[text]
        return QueryAnswer(() if value is None else (Sample({}, value),))


QUERY = "{metric: {query: 'sum by (namespace, service) (up)', atMost: 0, window: 5m}}, "


@pytest.mark.parametrize(
    ("source", "state", "words"),
    [
        pytest.param(NoMetrics(), "FAIL", "no Prometheus is configured, but policies have queries", id="none"),
        pytest.param(Source(False, None), "FAIL", "no result for the query vector(1)", id="no answer"),
        pytest.param(Source(True, NOW.timestamp() - 300), "OK", "answers, its newest sample is 300 s", id="fresh"),
        pytest.param(Source(True, NOW.timestamp() - 301), "FAIL", "answers, its newest sample is 301", id="old"),
        pytest.param(Source(True, None), "WARN", "answers, but has no series `up`", id="no series"),
    ],
)
def test_metrics(source: Any, state: str, words: str) -> None:
    text = documents(fleet(["east"]), idling("services: {}").replace("idleWhen: [", f"idleWhen: [{QUERY}"))
    case = ClusterCheck("east", Backend("east", metrics=source), policies_of(text), a_state(), EVERYTHING, NOW, True)
    (found,) = metrics_findings(case)
    assert (found.state, found.text[: len(words)]) == (state, words)


def test_rights_in_one_namespace(api_server: ControlPlane, api_namespace: str, tmp_path: Path) -> None:
    token = api_server.service_account(api_namespace, "runner")
    cli = Folder(tmp_path, api_server.kubeconfig("east", token=token))
    said = cli.call("doctor", "--context", "east", "-n", api_namespace, "--for", "plan")
    assert said.code == 6
    roles = list(yaml.safe_load_all(said.out.partition("---\n")[2]))
    kinds = {(role["kind"], role["metadata"].get("namespace", "")) for role in roles}
    assert ("Role", api_namespace) in kinds
    asked = [role for role in roles if role["metadata"].get("namespace") == api_namespace]
    assert {"apiGroups": [""], "resourceNames": [api_namespace], "resources": ["namespaces"], "verbs": ["get"]} in (
        asked[0]["rules"]
    )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--snapshot", "some"], "--snapshot: some has no server, expected live clusters"),
        (["-n", "dev"], "--namespace: a Fleet needs rights in all namespaces, expected it beside --context"),
    ],
)
def test_what_is_refused(tmp_path: Path, flags: list[str], words: str) -> None:
    said = Folder(tmp_path, tmp_path / "none").call("doctor", *flags)
    assert (said.code, said.out, said.err.splitlines()) == (64, "", [f"error: {words}"])


@pytest.fixture
def pair(api_server: ControlPlane, api_namespace: str, tmp_path: Path) -> Folder:
    """A Fleet of east and west, which are one API server."""
    return a_cli(tmp_path, {"east": api_server.access(), "west": api_server.access()}, api_namespace)


@pytest.mark.parametrize(("check", "named"), [("server", "server"), ("missing", "rights"), ("lock", "lock")])
def test_an_unexpected_error_of_one_cluster_is_its_own(
    pair: Folder, monkeypatch: pytest.MonkeyPatch, check: str, named: str
) -> None:
    inside = getattr(Preflight, check)

    def fails(self: Preflight, *arguments: Any) -> Any:
        if self._client.cluster == "west":
            raise KeyError("nobody foresaw this")
        return inside(self, *arguments)

    monkeypatch.setattr(Preflight, check, fails)
    found = findings(pair)
    told = found["west", named]
    assert (told["state"], told["todo"]) == ("FAIL", "please report it")
    assert "unexpected KeyError ('nobody foresaw this') at " in told["text"]
    assert found["east", named]["state"] == found["east", "writers"]["state"] == "OK"


def test_objects_of_one_cluster_that_cannot_be_decided_are_told_of_it(
    pair: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = doctor.decide

    def fails(policies: Any, state: Any, run: Any) -> Any:
        if "west" in state.clusters:
            raise OverflowError("date value out of range")
        return inside(policies, state, run)

    monkeypatch.setattr(doctor, "decide", fails)
    found = findings(pair)
    assert found["west", "objects"]["state"] == "FAIL"
    assert "unexpected OverflowError (date value out of range) at " in found["west", "objects"]["text"]
    assert ("east", "objects") not in found
    assert found["east", "writers"]["state"] == "OK"


@cases(
    "state words writes",
    ("read only", "ReadOnly", "ReadOnly: nothing is written there, so only the rights of plan are checked", False),
    ("frozen cluster", "Frozen", "Frozen: only wakes and metadata are written there", True),
)
def test_the_state_of_a_cluster_is_told_and_counts(
    api_server: ControlPlane, api_namespace: str, tmp_path: Path, state: str, words: str, writes: bool
) -> None:
    token = api_server.service_account(api_namespace, "nobody")
    cli = a_cli(tmp_path, {"east": api_server.access(token)}, f"{api_namespace}-none")
    text = (tmp_path / "policies" / "all.yaml").read_text()
    cli.write("policies/all.yaml", text.replace("{name: east}", f"{{name: east, state: {state}}}"))
    said = cli.call("doctor", "-o", "json")
    assert said.code == 6, said
    (east,) = json.loads(said.out)["clusters"]
    assert {"check": "state", "state": "WARN", "text": words, "todo": ""} in east["findings"]
    verbs = {verb for part in east["missing"] for rule in part["rules"] for verb in rule["verbs"]}
    assert ("patch" in verbs) is writes


def test_what_freezes_who_holds_the_lock_who_lives_and_who_else_writes_is_told_in_a_line_each(
    api_server: ControlPlane, api_namespace: str, tmp_path: Path
) -> None:
    api, app = api_server.api, f"{api_namespace}-app"
    until = datetime(2099, 1, 1, tzinfo=UTC)
    alice, bob = ("incident", "alice"), ("move", "bob")
    scopes = (("", "", alice), ("", "shop", bob), ("west", "", bob))
    freezes = freezes_text(Freeze(cluster, namespace, until, *who) for cluster, namespace, who in scopes)
    spec = {"renewTime": "2099-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
    labels = {**ACTIVATOR_LABELS, ACTIVATOR_POD_LABEL: "one"}
    lease = an_object("coordination.k8s.io/v1", "Lease", "reconciler-activator-one", {"labels": labels}, spec=spec)
    held = {"holderIdentity": "another run", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
    lock = an_object("coordination.k8s.io/v1", "Lease", "reconciler", spec=held)
    create(api, [an_object("v1", "ConfigMap", "freeze", data={"freezes": freezes}), lease, lock], api_namespace)
    create(api, [an_object("v1", "Namespace", app), within(app, a_service("web"))])
    web = deployment_path(app, "web")
    api.patch(web, a_deployment("web", 2), APPLY_PATCH, fieldManager="argocd-controller", force="true")
    cli = a_cli(tmp_path, {"east": api_server.access()}, api_namespace)
    said = cli.call("doctor")
    assert said.code == 0, said
    lines = said.out.splitlines()
    assert [line for line in lines if line.split()[2] == "freeze"] == [
        "WARN  east  freeze     frozen by alice until Thu 2099-01-01 00:00 UTC: incident; only wakes are written",
        "WARN  east  freeze     namespace shop: frozen by bob until Thu 2099-01-01 00:00 UTC: move; "
        "only wakes are written",
    ]
    holder = rf"WARN  east  lock       Lease {api_namespace}/reconciler is held by another run, renewed \d+d ago"
    assert [line for line in lines if re.fullmatch(holder, line)]
    assert "OK    east  activator  1 live, renewed 0 s ago, 0 EndpointSlices" in lines
    assert (
        "WARN  east  writers    of 1 selected workloads: 1 last written by argocd-controller; argocd-controller: "
        "in the Application: spec.ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: [/spec/replicas]}] "
        "and syncOptions: [RespectIgnoreDifferences=true]" in lines
    )
