"""`reconciler snapshot`: a plan from it is, byte for byte, the plan from the live clusters at the same time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from reconciler.backends.kubernetes.rights import RIGHTS, custom_rights, role_rules
from reconciler.workload_kinds import WorkloadKind
from tests.live import everything
from tests.live.stage import populate
from tests.pipeline.calls import Folder
from tests.pipeline.manifests import documents
from tests.real.cluster import allow, create, create_missing, path_of, wait_until
from tests.real.control_plane import API_ONLY, ControlPlane
from tests.real.fixtures import started
from tests.real.kubeconfig import Access, write_kubeconfig
from tests.real.objects import (
    a_deployment,
    a_namespace,
    a_pod_template,
    a_service,
    an_object,
    owned_by,
)

NOW = everything.NOW
SECRET = "c2VjcmV0LW9mLXRoZS1zaG9w"  # in base64
PIN = "pin-in-a-template"
CLONES = WorkloadKind("apps.kruise.io", "v1alpha1", "CloneSet", "clonesets")
_UNUSED = "{metric: {query: 'sum by (namespace, service) (increase(requests[{{ window }}]))', atMost: 0, window: 30m}}"
_EAST = '{name: east, prometheus: {url: "PROMETHEUS"}}'
POLICIES = (
    everything.policies()
    .replace("[{name: east}, {name: west}]", f"[{_EAST}, {{name: west}}, {{name: south}}]")
    .replace("idleWhen: [", f"idleWhen: [{_UNUSED}, ", 1)
)


def fill(plane: ControlPlane) -> None:
    """Make the world of everything.py, and beside it what has no status, what is stuck, and what is none of ours."""
    api = plane.api
    create(api, [a_namespace(name) for name in everything.NAMESPACES])
    made = everything.objects()["east"]
    builder = next(one for one in made if one["kind"] == "CloneSet")
    builder["spec"]["note"], builder["status"]["note"] = "not ours to read", "nor this"
    populate(api, made)
    fresh = (a_deployment("fresh", 2), a_service("fresh"))  # nothing has looked at it yet: it has no status
    loose = a_deployment("loose", 1, kind="ReplicaSet")  # nothing places it
    loose["spec"]["template"]["spec"]["containers"][0] |= {"env": [{"name": "PIN", "value": PIN}], "args": [PIN]}
    create(api, [*fresh, loose], "dev")
    since = {"lastTransitionTime": "2035-11-20T22:00:00Z"}
    stuck = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room", **since}]
    status = {"phase": "Pending", "conditions": stuck}
    pod = an_object("v1", "Pod", "web-1", {"labels": {"app": "web"}}, spec=a_pod_template("web")["spec"], status=status)
    create(api, [owned_by(api.get(path_of("ReplicaSet", "shop", "web")) | _REPLICA_SET, pod)], "shop")
    secret = an_object("v1", "Secret", "password", data={"password": SECRET})
    for namespace in ("dev", "shop", "reconciler"):
        create(api, [secret], namespace)
    others = [an_object("v1", "ConfigMap", name, data={"note": "of others"}) for name in ("kube-root-ca.crt", "theirs")]
    memory = an_object("v1", "ConfigMap", "reconciler-memory", data={"unreachable-since": "{}"})
    create(api, [*others, memory], "reconciler")


_REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with started(ControlPlane(tmp_path_factory.mktemp("recorded"), API_ONLY)) as found:
        fill(found)
        yield found


def vector(request: Request) -> Response:
    """What a Prometheus says: nobody asks for api and docs, somebody for wiki, and of fresh it has no idea."""
    assert request.form["query"].startswith("sum by")
    values = {"api": "0", "docs": "0", "wiki": "17.25", "fresh": "NaN"}
    result = [{"metric": {"namespace": "dev", "service": name}, "value": [0, value]} for name, value in values.items()]
    answer = {"status": "success", "data": {"resultType": "vector", "result": result}}
    return Response(json.dumps(answer), content_type="application/json")


@pytest.fixture
def cli(plane: ControlPlane, tmp_path: Path, httpserver: HTTPServer) -> Folder:
    """Three clusters: one may be read but for its ReplicationControllers, one does not answer, one knows us not."""
    httpserver.expect_request("/api/v1/query").respond_with_handler(vector)
    token = plane.service_account("reconciler", "reader")
    if plane.api.find("/apis/rbac.authorization.k8s.io/v1/clusterroles/bound") is None:
        may = [right for right in (*RIGHTS, *custom_rights([CLONES])) if right.resource != "endpoints"]
        allow(plane.api, "reader", "reconciler", role_rules(right for right in may if not right.apply))
        plane.api.create(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            an_object("rbac.authorization.k8s.io/v1", "ClusterRole", "bound", rules=[]),
        )
    east = plane.access(token)
    nobody = Access(plane.url, plane.ca_file, {"token": "of-nobody"})
    away = Access("https://127.0.0.1:1", plane.ca_file, {"token": token})
    config = write_kubeconfig(tmp_path / "kubeconfig", {"east": east, "west": away, "south": nobody})
    cli = Folder(tmp_path, config)
    cli.write("policies/all.yaml", POLICIES.replace("PROMETHEUS", httpserver.url_for("").rstrip("/")))
    return cli


LIVE = ("--request-timeout", "5")  # for so long it is tried again to reach the one that does not answer


def live(*more: str) -> tuple[str, ...]:
    return ("plan", "--now", NOW, *LIVE, *more)


@pytest.mark.real
def test_a_snapshot_is_what_is_read_and_no_more_and_a_plan_from_it_that_from_the_clusters(cli: Folder) -> None:
    cli.write("recorded/gone/recording.yaml", "read: []")
    for name in ("recorded", "again"):
        made = cli.call("snapshot", name, "--overwrite", "--now", NOW, *LIVE)
        assert (made.code, f"{name}/east: " in made.out) == (6, True), made
    assert sorted(path.name for path in (cli.path / "recorded").iterdir()) == ["east", "south", "west"]
    assert [path.name for path in cli.path.iterdir() if path.name.startswith(".recorded")] == []
    assert files_in(cli, "recorded") == files_in(cli, "again")
    assert_nothing_else_is_in(files_in(cli, "recorded"))
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in (cli.path / "recorded").rglob("*")}
    assert modes == {True: 0o700, False: 0o600}
    for output in ((), ("-v",), ("-o", "json")):
        wanted = ("--fail-on", "unknown", *output)
        from_live = cli.call(*live(*wanted))
        from_snapshot = cli.call("plan", "--now", NOW, "--snapshot", "recorded", *wanted)
        assert from_live.code == from_snapshot.code == 6
        assert from_snapshot.out == as_snapshot(from_live.out)
    assert_everything_is_in(json.loads(from_snapshot.out))


def files_in(cli: Folder, name: str) -> dict[str, str]:
    folder = cli.path / name
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.*")}


def matrix(request: Request) -> Response:
    """What a Prometheus said over time: api was called at noon of each day, docs never, `up` was there."""
    start, end, step = (int(float(request.form[name])) for name in ("start", "end", "step"))
    times = range(start, end + 1, step)
    noon = [(at, "7" if at % 86400 == 43200 else "0") for at in times]
    series = {"api": noon, "docs": [(at, "0") for at in times]}
    result = [{"metric": {"namespace": "dev", "service": name}, "values": values} for name, values in series.items()]
    if request.form["query"] == "count(up)":
        result = [{"metric": {}, "values": [(at, "3") for at in times]}]
    if "count_over_time" in request.form["query"]:
        result = [{"metric": {}, "values": [(at, "60") for at in times]}]
    answer = {"status": "success", "data": {"resultType": "matrix", "result": result}}
    return Response(json.dumps(answer), content_type="application/json")


@pytest.mark.real
def test_a_replay_of_live_clusters_is_that_of_a_snapshot_with_history(cli: Folder, httpserver: HTTPServer) -> None:
    httpserver.expect_request("/api/v1/query_range").respond_with_handler(matrix)
    assert cli.call("snapshot", "recorded", "--with-history", "3d", "--now", NOW, *LIVE).code == 6
    assert (cli.path / "recorded/east/query-history.jsonl").is_file()
    asked = ("forecast", "--replay", "3d")
    from_live, from_snapshot = cli.call(*asked, "--now", NOW, *LIVE), cli.call(*asked, "--snapshot", "recorded")
    assert from_snapshot.out == from_live.out
    assert "Replay for Fleet everything, 3 days from" in from_live.out
    assert "IdlingPolicy idle-dev: quiet in " in from_live.out
    asked = ("suggest", "--query", "sum by (x) (calls)", "--now", NOW, *LIVE)
    few, learned = cli.call(*asked, "--since", "8d"), cli.call(*asked, "--since", "14d")
    assert few.out.startswith("# No window found: 4 nights from Monday to Thursday"), few
    assert "include:\n      - api\n" in learned.out, learned


def as_snapshot(text: str) -> str:
    """The one word that says what was looked at."""
    text = text.replace("planned from live clusters", "planned from a snapshot")
    return text.replace('"source": "live"', '"source": "snapshot"').replace("(live, ", "(snapshot, ")


def assert_everything_is_in(plan: dict[str, Any]) -> None:
    """What the test is about is there: else equal bytes show nothing."""
    verbs = {(action["verb"], action["object"]["name"]) for action in plan["actions"]}
    names = {name for _, name in verbs}
    assert {"api", "builder", "runner", "nightly", "slow", "worker"} <= names, sorted(verbs)
    assert any(action["victims"] and action["victims"]["pods"] for action in plan["actions"])
    unknown = plan["unknown"]
    assert unknown["west"] == "get /apis: the connection was refused, expected an answer"
    assert "credentials were not accepted" in unknown["south"]
    assert "bind a ClusterRole with" in unknown["east/endpoints"]


def assert_nothing_else_is_in(files: dict[str, str]) -> None:
    text = "".join(files.values())
    for words in (SECRET, "kind: Secret", PIN, "not ours to read", "nor this", "of others"):
        assert words not in text
    replica_sets = {
        one["metadata"]["name"]: one["spec"]["template"]
        for one in yaml.safe_load_all(files["east/replicasets.apps.yaml"])
    }
    assert "containers" in replica_sets["web"]["spec"]
    requests = {"containers": [{"resources": {"requests": {"cpu": "1m"}}}]}
    assert replica_sets["loose"] == {"metadata": {"labels": {"app": "loose"}}, "spec": requests}
    assert [name for name in files if "kind: ConfigMap\n" in files[name]] == ["east/configmaps.yaml"]
    (ours,) = yaml.safe_load_all(files["east/configmaps.yaml"])
    assert ours["metadata"]["name"] == "reconciler-memory"
    assert not re.search(r"^  spec:\n    containers", files["east/pods.yaml"], re.MULTILINE)
    managers = [
        entry
        for one in yaml.safe_load_all(files["east/deployments.apps.yaml"])
        for entry in one["metadata"]["managedFields"]
    ]
    assert [entry["fieldsV1"] for entry in managers] == [{"f:spec": {"f:replicas": {}}}] * len(managers)
    assert sorted(name for name in files if name.startswith("west/")) == ["west/metrics.yaml", "west/recording.yaml"]


@pytest.mark.real
def test_what_was_not_recorded_is_unknown_to_other_policies(cli: Folder) -> None:
    text = (cli.path / "policies" / "all.yaml").read_text()
    cli.write("policies/all.yaml", text.replace("strategy: ZoneBalanced", "strategy: NewestFirst"))
    cli.call("snapshot", "recorded", "--now", NOW, *LIVE)
    cli.write("policies/all.yaml", text)
    said = cli.call("plan", "--now", NOW, "--snapshot", "recorded", "-o", "json")
    assert json.loads(said.out)["unknown"]["east/nodes"] == (
        "east: nodes was not recorded in the snapshot, expected it; "
        "a recording has what a plan of its policies reads, and no history"
    )


@pytest.mark.real
def test_one_namespace_of_one_cluster(cli: Folder) -> None:
    text = (cli.path / "policies" / "all.yaml").read_text()
    chosen = [one for one in text.split("---\n") if "name: night}" in one or "name: idle-runners}" in one]
    cli.write("policies/all.yaml", documents(*chosen))
    look = ("--context", "east", "-n", "ci", "--now", NOW)
    assert cli.call("snapshot", "recorded", *look).code == 6
    from_live = cli.call("plan", *look, "-o", "json")
    from_snapshot = cli.call("plan", *look, "-o", "json", "--snapshot", "recorded")
    assert from_snapshot.out == as_snapshot(from_live.out)
    assert "runner" in from_snapshot.out


@pytest.mark.real
@pytest.mark.parametrize(
    ("there", "flags", "words"),
    [
        pytest.param({"notes.txt": "mine"}, [], "recorded: holds other things, expected an empty folder", id="other"),
        pytest.param({"notes.txt": "mine"}, ["--overwrite"], "recorded: holds other things", id="other, overwrite"),
        pytest.param({"east/recording.yaml": "read: []"}, [], "replace it with --overwrite", id="a snapshot"),
        pytest.param({}, ["--snapshot", "former"], "--snapshot: former is a snapshot already", id="of a snapshot"),
        pytest.param({}, ["-n", "ci"], "--namespace: narrows nothing that is read of a Fleet", id="-n alone"),
    ],
)
def test_what_is_refused(cli: Folder, there: dict[str, str], flags: list[str], words: str) -> None:
    for name, content in there.items():
        cli.write(f"recorded/{name}", content)
    said = cli.call("snapshot", "recorded", *flags)
    assert (said.code, said.out) == (64, "")
    assert words in said.err
    assert len(said.err.splitlines()) == 1
    found = {str(path.relative_to(cli.path / "recorded")) for path in (cli.path / "recorded").rglob("*.*")}
    assert found == set(there)


@pytest.mark.real
def test_nothing_is_written_where_nothing_answers(cli: Folder) -> None:
    said = cli.call("snapshot", "recorded", "--context", "south", "--policies", "nothing-here")
    assert said.code == 3
    cli.write("policies/all.yaml", "")
    (cli.path / "policies" / "all.yaml").unlink()
    (cli.path / "policies").rmdir()
    said = cli.call("snapshot", "recorded", "--context", "south")
    assert said.code == 1
    assert not (cli.path / "recorded").exists()


def test_the_same_where_everything_runs(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Controllers, a scheduler and nodes write statuses, managers, owners, EndpointSlices and pods of their own."""
    plane = control_plane
    create_missing(plane.api, [*(a_namespace(name) for name in everything.NAMESPACES), everything.RUNNERS])
    made = [one for one in everything.objects()["east"] if one["kind"] not in ("Node", "CustomResourceDefinition")]
    create(plane.api, [{key: value for key, value in one.items() if key != "status"} for one in made])
    cli = Folder(tmp_path, write_kubeconfig(tmp_path / "kubeconfig", {"east": plane.access(), "west": plane.access()}))
    one_cluster = everything.policies().replace("{name: east}, {name: west}", "{name: east}")
    cli.write("policies/all.yaml", one_cluster.replace(", west: {weight: 1}", ""))
    look = ("--now", everything.NOW, "-o", "json")
    wait_until(lambda: len(plane.api.items("/api/v1/namespaces/batch/pods")) == 7, "pods of the workers")
    wait_until(lambda: _is_the_plan_again(cli, look), "a plan from a snapshot of a world that stands still")
    assert cli.call("apply", *look, "--snapshot", "recorded", "--auto-approve", "--allow-removed").code == 0
    shown = cli.call("plan", "--now", everything.NOW, "--snapshot", "recorded").out
    assert shown.count("\n  ~ ") == 0, shown
    assert "No changes." in shown or "Plan: 0 to create, 0 to change, 0 to delete" in shown, shown
    for name in {*everything.NAMESPACES} - {"reconciler"}:
        plane.api.delete(f"/api/v1/namespaces/{name}")


def _is_the_plan_again(cli: Folder, look: Sequence[str]) -> bool:
    """Compare with the plan from the snapshot; False where the clusters went on meanwhile."""
    before = cli.call("plan", *look)
    cli.call("snapshot", "recorded", "--overwrite", "--now", everything.NOW)
    if cli.call("plan", *look).out != before.out:
        return False
    assert cli.call("plan", *look, "--snapshot", "recorded").out == as_snapshot(before.out)
    return True
