"""Saved plans that somebody wrote to: nothing is done that no run plans, and nothing that this run would not plan."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.errors import ClusterError
from reconciler.plan.json import plan_from_dict
from reconciler.saved_plan.allowed_changes import check_allowed
from reconciler.untrusted_text import short
from tests.cases import cases
from tests.pipeline.calls import Folder, Said, Terminal
from tests.pipeline.manifests import idling
from tests.scenarios.running import HERE, Scenario

NOW = "2026-11-20T22:00:00Z"
LOOK = ("--snapshot", "snapshot", "--now", NOW)
USUAL, NOTHING = "fleet: {share: 10%, atLeast: 10}", "fleet: {share: 0%, atLeast: 0}"
Edit = Callable[[dict[str, Any]], None]


def edited(folder: Folder, edit: Edit, *more: str) -> Said:
    """Save a plan, let `edit` at it, and apply it."""
    assert folder.plan(NOW, "--out", "plan.json").code in (0, 4)
    file = folder.path / "plan.json"
    made = json.loads(file.read_text())
    edit(made)
    file.write_text(json.dumps(made))
    return folder.call("apply", "plan.json", *LOOK, "-q", *more)


def action(made: dict[str, Any], kind: str, name: str) -> Any:
    return next(one for one in made["actions"] if (one["object"]["kind"], one["object"]["name"]) == (kind, name))


def setting(kind: str, name: str, value: Any, *path: str) -> Edit:
    """Return what sets the value at `path` of one action."""

    def edit(made: dict[str, Any]) -> None:
        found = action(made, kind, name)
        for key in path[:-1]:
            found = found[key]
        found[path[-1]] = value

    return edit


def field(kind: str, name: str, path: str, value: Any, before: Any = None) -> Edit:
    """Return what writes one more field of an object, or another value to it."""

    def edit(made: dict[str, Any]) -> None:
        found = action(made, kind, name)
        found["before"].setdefault(path, before)
        found["after"][path] = value

    return edit


def added(**changes: Any) -> Edit:
    """Return what puts one more action at the end: the status of a federated ReplicaSet, but for `changes`."""

    def edit(made: dict[str, Any]) -> None:
        new = json.loads(json.dumps(made["actions"][-1]))
        new |= {"id": len(made["actions"]) + 1, "key": "new", "group": "new", "needs": []} | changes
        new["object"] = made["actions"][-1]["object"] | changes.get("object", {})
        made["actions"].append(new)

    return edit


def created(api_version: str, kind: str, name: str, namespace: str, **content: Any) -> Edit:
    manifest = {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **content}
    group = api_version.rpartition("/")[0]
    ref = {"apiVersion": api_version, "group": group, "kind": kind, "name": name, "namespace": namespace, "uid": None}
    return added(verb="create", phase="increase", object=ref, manifest=manifest)


def both(*edits: Edit) -> Edit:
    def edit(made: dict[str, Any]) -> None:
        for one in edits:
            one(made)

    return edit


BINDING = {
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
    "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "dev-a"}],
}
POD = {"spec": {"containers": [{"name": "x", "image": "evil", "securityContext": {"privileged": True}}]}}
SET = {"selector": {"matchLabels": {"app": "x"}}, "template": {"metadata": {"labels": {"app": "x"}}, **POD}}
RBAC = "rbac.authorization.k8s.io/v1"
STATUS = "reconciler-status-shop.web"
NEVER = [
    pytest.param(created(RBAC, "ClusterRoleBinding", "x", "", **BINDING), "object is a ClusterRoleBinding", id="RBAC"),
    pytest.param(
        both(
            created("apps/v1", "ReplicaSet", "x", "dev-a", spec={"replicas": 1, **SET}),
            lambda made: made["actions"][-1].update(replicas={"before": 0, "after": 1}),
        ),
        "its template, labels, annotations or minReadySeconds are not those of the FederatedReplicaSet of its name",
        id="a ReplicaSet of its own",
    ),
    pytest.param(
        added(
            object={"namespace": "kube-system"},
            manifest={
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": STATUS, "namespace": "kube-system"},
                "data": {},
            },
        ),
        'object.namespace is "kube-system", expected "reconciler", where our ConfigMaps are',
        id="a ConfigMap elsewhere",
    ),
    pytest.param(
        lambda made: action(made, "Deployment", "api")["object"].update(
            apiVersion="apps.example.com/v1", group="apps.example.com", kind="Game"
        ),
        "is of no kind that has its scale there",
        id="a custom kind that is not there",
    ),
]
"""What is not on the list of changes and kinds is in `tests/saved_plan/test_allowed_changes.py`, case by case."""


@pytest.mark.parametrize(("edit", "words"), NEVER)
def test_what_no_run_plans_is_refused_even_if_approved(quickstart, edit, words):
    before = quickstart.objects()
    said = edited(quickstart, edit, "--approve-differences")
    assert (said.code, said.out) == (5, ""), said
    assert words in said.err
    assert quickstart.objects() == before


def moved_in(made: dict[str, Any]) -> None:
    """Let through what a limit holds back."""
    held = made["heldBack"].pop()["changes"]
    for one in held:
        one["id"] += len(made["actions"])
        one["needs"] = [need + len(made["actions"]) for need in one["needs"]]
    made["actions"] += held


def without(kind: str, name: str) -> Edit:
    def edit(made: dict[str, Any]) -> None:
        gone = action(made, kind, name)["id"]
        made["actions"] = [one for one in made["actions"] if one["id"] != gone]
        for one in made["actions"]:
            one["needs"] = [need for need in one["needs"] if need != gone]

    return edit


def to(replicas: int) -> Callable[[dict[str, Any]], None]:
    """Another count of replicas in the wake of reports, which records 2."""

    def edit(made: dict[str, Any]) -> None:
        found = action(made, "Deployment", "reports")
        found["after"]["/spec/replicas"] = found["replicas"]["after"] = replicas

    return edit


PICKER = {
    "host": "evil.example.svc",
    "port": 443,
    "scheme": "https",
    "path": "/",
    "headers": [{"name": "X", "value": None, "secret": {"name": "token", "key": "token"}}],
    "caBundle": None,
    "allowInsecureAuth": False,
    "maxRetries": 0,
    "timeoutSeconds": 1,
    "onError": "skip",
    "onTooFew": "fill",
}
DIFFERENT = [
    pytest.param(to(50), ("Deployment", "reports"), id="other replicas"),
    pytest.param(without("Service", "api"), ("Deployment", "api"), id="what must be done before is gone"),
]
"""Each part of a change that may differ is in `tests/saved_plan/test_differences.py`."""


@pytest.mark.parametrize(("edit", "about"), DIFFERENT)
def test_what_this_run_would_not_plan_is_left_undone(quickstart, edit, about):
    before = {key: one for key, one in quickstart.objects().items() if key[2:] == about}
    said = edited(quickstart, edit)
    assert said.code in (5, 6), said
    assert "a fresh plan" in said.out
    after = {key: one for key, one in quickstart.objects().items() if key[2:] == about}
    assert after == before
    assert re.search("\nApplied: [1-9]", said.out), "everything else is done"


def test_what_a_limit_holds_back_is_not_let_through(quickstart):
    file = quickstart.path / "policies" / "fleet.yaml"
    file.write_text(file.read_text().replace(USUAL, NOTHING))
    said = edited(quickstart, moved_in)
    assert said.code == 6, said
    assert quickstart.replicas("eu-west", "ci", "StatefulSet", "runner") == 2
    edited(quickstart, lambda _: None, "--allow-exceed", "idle-runners")
    assert quickstart.replicas("eu-west", "ci", "StatefulSet", "runner") == 2, "it is not in the plan"


def test_a_limit_that_was_lifted_for_the_plan_is_lifted_for_its_apply(quickstart):
    file = quickstart.path / "policies" / "fleet.yaml"
    file.write_text(file.read_text().replace(USUAL, NOTHING))
    lifted = ("--allow-exceed", "idle-runners", "--allow-exceed", "idle-dev=1")
    assert quickstart.plan(NOW, *lifted, "--out", "plan.json").code == 0
    assert quickstart.call("apply", "plan.json", *LOOK, "-q", *lifted).code == 0
    assert quickstart.replicas("eu-west", "ci", "StatefulSet", "runner") == 0


def test_show_says_of_policies_without_workloads_what_the_plan_says(quickstart):
    for name, namespace in (("nobody", "nowhere"), ("money", "payments")):
        selector = f"namespaces: {{include: [{namespace}]}}, services: {{}}"
        quickstart.write(f"policies/{name}.yaml", idling(selector, name=name))
    planned = quickstart.plan(NOW, "--out", "plan.json").out
    assert "No workload is selected by IdlingPolicy nobody (policies/nobody.yaml:1).\n" in planned
    assert "No workload outside production is selected by IdlingPolicy money (policies/money.yaml:1).\n" in planned
    assert quickstart.call("show", "plan.json").out == planned
    made = json.loads((quickstart.path / "plan.json").read_text())
    lacking = ("places", "withoutWorkloads", "onlyProduction", "keptUp")
    of_an_older_one = {key: made[key] for key in made if key not in lacking}
    quickstart.write("plan.json", json.dumps(of_an_older_one))
    assert "selected by" not in quickstart.call("show", "plan.json").out


def test_the_words_of_an_event_are_those_of_the_fresh_plan(quickstart):
    said = edited(quickstart, setting("StatefulSet", "runner", "forged", "cause", "reason"))
    assert said.code == 0
    written = "".join(file.read_text() for file in (quickstart.path / "snapshot").rglob("*") if file.is_file())
    assert "reason: Idled" in written
    assert "forged" not in written


def test_differences_are_done_when_somebody_says_so(quickstart):
    said = edited(quickstart, to(1), "--approve-differences")
    assert said.code == 0, said
    assert "action 1 (us-east/dev-b/Deployment/reports replicas 0 -> 1): a fresh plan makes another change" in said.err
    assert quickstart.replicas("us-east", "dev-b", "Deployment", "reports") == 1


AUTOSCALER = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: api, namespace: dev-a}
spec: {minReplicas: 2, maxReplicas: 5, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}}
"""


def with_autoscaler(folder: Folder) -> None:
    """Idle at one replica, where the bounds of an autoscaler are held."""
    folder.write("snapshot/eu-west/autoscaler.yaml", AUTOSCALER)
    policies = folder.path / "policies" / "idling.yaml"
    at_one = policies.read_text().replace("  wakeOrder:", "  idleReplicas: 1\n  wakeOrder:", 1)
    policies.write_text(at_one)


MANY = '[{"kind":"Deployment","name":"api","group":"apps","replicas":2147483647}]'


LISTED, SCALED = (f"/metadata/annotations/idling.kubernetes.io~1{key}" for key in ("unidle-targets", "previous-scale"))
EXCLUDED = "/metadata/annotations/reconciler~1exclude"
FORGED = {"before": 2**31 - 1, "after": None}


def unchanged(kind: str, name: str, path: str, value: Any) -> Edit:
    """Return what says that `value` stands at `path` already."""
    return both(*(setting(kind, name, value, side, path) for side in ("before", "after")))


def created_with(made: dict[str, Any]) -> None:
    found = next(one["manifest"] for one in made["actions"] if one["verb"] == "create")
    found["metadata"]["annotations"]["idling.kubernetes.io/previous-scale"] = "2147483647"


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(
            both(
                setting("HorizontalPodAutoscaler", "api", 2**31 - 1, "after", "/spec/maxReplicas"),
                setting("HorizontalPodAutoscaler", "api", FORGED, "replicas"),
            ),
            id="replicas of an autoscaler",
        ),
        pytest.param(
            both(setting("Service", "api", MANY, "after", LISTED), setting("Service", "api", FORGED, "replicas")),
            id="replicas of a Service",
        ),
        pytest.param(
            both(
                setting("Service", "api", MANY, "after", LISTED),
                setting("HorizontalPodAutoscaler", "api", 2**31 - 1, "before", "/spec/maxReplicas"),
            ),
            id="a bound of the group",
        ),
        pytest.param(
            both(
                setting("Service", "api", MANY, "after", LISTED),
                setting("Deployment", "api", 2**31 - 1, "before", "/spec/replicas"),
                setting("Deployment", "api", {"before": 2**31 - 1, "after": 1}, "replicas"),
            ),
            id="replicas of the group",
        ),
        pytest.param(unchanged("Service", "api", LISTED, MANY), id="a list in an object without annotations"),
        pytest.param(unchanged("Deployment", "api", SCALED, "2147483647"), id="a record in one without annotations"),
        pytest.param(unchanged("Service", "api", EXCLUDED, "true"), id="an exclusion in one without annotations"),
    ],
)
def test_what_a_plan_says_of_before_lets_nobody_approve_more(quickstart, edit):
    with_autoscaler(quickstart)
    before = quickstart.objects()
    said = edited(quickstart, edit, "--approve-differences")
    assert (said.code, quickstart.objects()) == (5, before), said


STRANGER = """\
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: other, namespace: dev-a, uid: "1"}
spec: {replicas: 1, selector: {matchLabels: {app: other}}, template: {metadata: {labels: {app: other}}}}
"""
OTHER = {"apiVersion": "apps/v1", "group": "apps", "kind": "ReplicaSet", "namespace": "dev-a", "name": "other"}
SETTINGS = {"policy": "x", "strategy": "PodPicker", "logarithmBase": 2, "topologyKey": "", "onForeignCost": "Skip"}
ASKED = {**SETTINGS, "settleSeconds": 0, "verifySeconds": 0, "picker": PICKER}
ANNOTATION, MOST = "/metadata/annotations/", 2**31 - 1
EXPECTED_MOST = f"asks for {MOST} replicas, expected at most "
RECORDS = [
    *(
        f"{prefix}~1previous-scale"
        for prefix in ("idling.kubernetes.io", "idling.alpha.openshift.io", "scale.kubernetes.io")
    ),
    "reconciler~1idled-to",
]


def marked(key: str, value: str | None) -> Edit:
    """Return what writes one more annotation to the Deployment api, which has none of that key."""
    return field("Deployment", "api", f"{ANNOTATION}{key}", value)


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        pytest.param(to(3), "asks for 3 replicas, expected at most 2, which its record or its Fed", id="more replicas"),
        *(pytest.param(marked(key, f"{MOST}"), EXPECTED_MOST, id=f"recorded in {key}") for key in RECORDS),
        pytest.param(
            marked("reconciler~1placed", f'{{"previous":{MOST},"replicas":0,"owner":"x"}}'), EXPECTED_MOST, id="placed"
        ),
        pytest.param(created_with, EXPECTED_MOST, id="recorded in a ReplicaSet that is made"),
        pytest.param(
            setting("Deployment", "api", ASKED, "downscale"),
            "asks pod picker https://evil.example.svc:443, expected one as a policy states it; plan again",
            id="another pod picker, which is sent a Secret",
        ),
        pytest.param(
            added(verb="delete", phase="decrease", cluster="eu-west", object={**OTHER, "uid": "1"}, manifest=None),
            "deletes a ReplicaSet, expected what a fresh plan deletes; plan again",
            id="the deletion of a workload",
        ),
        pytest.param(marked("reconciler~1exclude", "true"), "expected what belongs there", id="an exclusion"),
        pytest.param(marked("reconciler~1exclude-until", "true"), "expected what belongs", id="one until a time"),
        *(
            pytest.param(marked(f"reconciler~1{key}", value), "it would not be idled; plan again", id=key)
            for key, value in (
                ("contested", '{"by":"argocd","since":"2026-11-20T20:00:00Z"}'),
                ("awake-until", "2099-01-01T00:00:00Z"),
                ("awake-since", "2099-01-01T00:00:00Z"),
            )
        ),
    ],
)
def test_what_nobody_can_approve(quickstart, edit, words):
    quickstart.write("snapshot/eu-west/other.yaml", STRANGER)
    before = quickstart.objects()
    said = edited(quickstart, edit, "--approve-differences")
    assert (said.code, quickstart.objects()) == (5, before), said
    assert words in said.err


def listed_and_unread(made: dict[str, Any], patched: pytest.MonkeyPatch) -> None:
    """Let a list on a Service be another one, and the autoscaler beside it not be read."""
    get = SnapshotCluster.get

    def fail(cluster: SnapshotCluster, resource: Any, namespace: str, name: str) -> Any:
        if resource.kind == "HorizontalPodAutoscaler":
            raise ClusterError("the connection was refused")
        return get(cluster, resource, namespace, name)

    action(made, "Service", "api")["after"][LISTED] = MANY.replace("2147483647", "1")
    patched.setattr(SnapshotCluster, "get", fail)


def of_a_kind_that_is_unknown(made: dict[str, Any], patched: pytest.MonkeyPatch) -> None:
    def fail(_: SnapshotCluster) -> Any:
        raise ClusterError("the connection was refused")

    game = {"apiVersion": "apps.example.com/v1", "group": "apps.example.com", "kind": "Game"}
    action(made, "Deployment", "api")["object"].update(game)
    patched.setattr(SnapshotCluster, "scale_kinds", fail)


@pytest.mark.parametrize(
    ("edit", "words", "kinds"),
    [
        pytest.param(
            listed_and_unread,
            "what is there cannot be checked",
            ("Service", "Deployment", "HorizontalPodAutoscaler"),
            id="an object",
        ),
        pytest.param(of_a_kind_that_is_unknown, "its kind cannot be checked", ("Game", "Service"), id="a kind"),
    ],
)
def test_nothing_is_approved_of_what_cannot_be_read_nor_of_its_group(quickstart, monkeypatch, edit, words, kinds):
    if "HorizontalPodAutoscaler" in kinds:
        with_autoscaler(quickstart)
    said = edited(quickstart, lambda made: edit(made, monkeypatch), "--approve-differences", "-o", "json")
    assert said.code == 6, said
    report = json.loads(said.out)
    why = {one["action"]: one["message"] for one in report["outcomes"] if one["status"] == "stale"}
    for kind in kinds:
        assert why[action(report["plan"], kind, "api")["id"]].endswith(
            f"{words}: the connection was refused; plan again"
        )
    assert quickstart.replicas("eu-west", "ci", "StatefulSet", "runner") == 0, "everything else is done"


def test_what_an_autoscaler_has_and_a_service_lists_may_be_approved(quickstart):
    """The other changes of the same group, when only one thing is not as in a fresh plan."""
    with_autoscaler(quickstart)
    path = "/metadata/annotations/idling.kubernetes.io~1unidle-targets"
    said = edited(
        quickstart, setting("Service", "api", MANY.replace("2147483647", "1"), "after", path), "--approve-differences"
    )
    assert said.code in (0, 6), said
    assert quickstart.replicas("eu-west", "dev-a", "Deployment", "api") == 1


def test_every_field_that_differs_is_shown_before_it_is_done(quickstart):
    path = "/metadata/annotations/idling.kubernetes.io~1unidle-targets"
    text = MANY.replace("2147483647", "1")
    said = edited(quickstart, both(to(1), setting("Service", "api", text, "after", path)), "--approve-differences")
    assert said.code in (0, 6), said
    assert "action 1: after /spec/replicas is 1, a fresh plan has 2" in said.err
    assert "action 1: replicas after is 1, a fresh plan has 2" in said.err
    assert f"after {path} is {short(repr(text))}, a fresh plan has " in said.err


@cases(
    "answer code replicas",
    ("yes in full", "yes\n", 0, 1),
    ("yes cut short", "y\n", 1, 0),
)
def test_differences_are_asked_about_on_a_terminal(quickstart, monkeypatch, answer, code, replicas):
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    said = edited(quickstart, to(1))
    assert (said.code, "Do these too?" in said.err) == (code, True), said
    assert quickstart.replicas("us-east", "dev-b", "Deployment", "reports") == replicas


def test_what_is_idle_until_a_time_that_has_passed_by_now_is_stale(quickstart):
    assert quickstart.plan("2026-11-23T05:40:00Z", "--policy", "idle-runners", "--out", "plan.json").code == 0
    late = ("apply", "plan.json", "--snapshot", "snapshot", "-q", "-o", "json", "--now")
    said = quickstart.call(*late, "2026-11-23T06:00:00Z")
    outcomes = json.loads(said.out)["outcomes"]
    assert (said.code, {one["status"] for one in outcomes}) == (5, {"stale"})
    assert outcomes[0]["message"].endswith("its schedule ended 0s ago; plan again")
    assert quickstart.replicas("eu-west", "ci", "StatefulSet", "runner") == 2
    assert quickstart.call(*late, "2026-11-23T05:59:59Z").code == 0
    assert quickstart.replicas("eu-west", "ci", "StatefulSet", "runner") == 0


def test_without_policies_nothing_is_compared_and_nothing_done(quickstart, tmp_path):
    assert quickstart.plan(NOW, "--out", "plan.json").code == 0
    shutil.move(quickstart.path / "policies", quickstart.path / "elsewhere")
    before = quickstart.objects()
    call = ("apply", "plan.json", *LOOK, "-q", "--policies", "elsewhere/fleet.yaml")
    said = quickstart.call(*call)
    assert (said.code, quickstart.objects()) == (5, before)
    assert "there are no policies to compare it with, expected --policies PATH" in said.err
    made = json.loads((quickstart.path / "plan.json").read_text())
    refused = quickstart.call(*call, "--approve-differences")
    assert (refused.code, quickstart.objects()) == (5, before), "a pod template is never taken on trust"
    made["actions"] = [one for one in made["actions"] if one["job"] == "idling"]
    (quickstart.path / "plan.json").write_text(json.dumps(made))
    assert quickstart.call(*call, "--approve-differences").code == 0
    assert quickstart.replicas("eu-west", "ci", "StatefulSet", "runner") == 0


def test_the_policies_may_lie_elsewhere_by_now(quickstart):
    assert quickstart.plan(NOW, "--out", "plan.json").code == 0
    shutil.move(quickstart.path / "policies", quickstart.path / "elsewhere")
    assert quickstart.call("apply", "plan.json", *LOOK, "-q", "--policies", "elsewhere").code == 0


def plan_of(folder: Path, now: str) -> Any:
    folder_of = Folder(folder)
    assert folder_of.plan(now, "--out", "plan.json").code in (0, 4, 6)
    return plan_from_dict(json.loads((folder / "plan.json").read_text()))


@pytest.mark.parametrize("name", sorted(path.name for path in HERE.iterdir() if (path / "before").is_dir()))
def test_what_a_run_plans_is_permitted_and_the_same_the_second_time(name, tmp_path):
    scenario = Scenario(HERE / name)
    shutil.copytree(scenario.path / "policies", tmp_path / "policies")
    shutil.copytree(scenario.path / "before", tmp_path / "snapshot")
    now = str(scenario.settings["now"])
    plan = plan_of(tmp_path, now)
    check_allowed(plan, "plan")
    said = Folder(tmp_path).call("apply", "plan.json", "--snapshot", "snapshot", "--now", now, "-o", "json")
    assert [one["status"] for one in json.loads(said.out)["outcomes"]] == ["applied"] * len(plan.actions), said


def test_the_report_of_an_apply_is_no_plan_to_apply(quickstart):
    report = quickstart.call(
        "apply", "policies", "--snapshot", "snapshot", "--now", NOW, "--auto-approve", "-o", "json"
    )
    (quickstart.path / "report.json").write_text(report.out)
    said = quickstart.call("apply", "report.json", "--snapshot", "snapshot", "--now", NOW)
    words = "error: report.json: is the report of an apply, expected a saved plan; `reconciler show` shows it\n"
    assert (said.code, said.err) == (5, words)
