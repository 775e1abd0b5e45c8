"""The unified diff: of each object the fields that the plan reads or writes, and nothing that is secret."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from reconciler.decide.decisions import FieldChange, Phase, Verb, replicas_change
from reconciler.report.diff import masked, render_diff
from tests.builders import a_ref
from tests.pipeline.calls import Folder
from tests.plans import PLACE_WEB, a_create, a_plan, a_scale, a_wake, an_idle, decision_of

TEMPLATE = {"spec": {"containers": [{"name": "web", "env": [{"name": "TOKEN", "value": "hunter2"}]}]}}


def test_a_change_shows_the_fields_and_the_metadata_that_it_writes():
    assert render_diff(a_plan(an_idle("api"))) == (
        "--- current/eu-west/dev-a/Deployment/api\n"
        "+++ desired/eu-west/dev-a/Deployment/api\n"
        "@@ -3,5 +3,7 @@\n"
        " metadata:\n"
        "   name: api\n"
        "   namespace: dev-a\n"
        "+  annotations:\n"
        '+    idling.kubernetes.io/previous-scale: "3"\n'
        " spec:\n"
        "-  replicas: 3\n"
        "+  replicas: 0\n"
    )


def test_a_field_that_is_only_read_stands_there_unchanged():
    read = FieldChange(("spec", "suspend"), False, False)
    shown = render_diff(a_plan(an_idle("api", changes=(replicas_change(3, 0), read))))
    assert "\n   suspend: false" in shown


def test_what_is_created_or_deleted_is_there_whole_and_has_nothing_on_the_other_side():
    manifest = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": {"name": "web"}, "spec": {"replicas": 2}}
    created = render_diff(a_plan(a_create(manifest=manifest))).splitlines()
    head = ["--- /dev/null", "+++ desired/ap-south/shop/ReplicaSet/web", "@@ -0,0 +1,7 @@", "+apiVersion: apps/v1"]
    assert (created[:4], "+  replicas: 2" in created) == (head, True)
    gone = decision_of(Verb.DELETE, Phase.REPAIR, a_ref("web"), PLACE_WEB, (replicas_change(3, 3),), job="placement")
    deleted = render_diff(a_plan(gone)).splitlines()
    assert deleted[:2] == ["--- current/east/shop/Deployment/web", "+++ /dev/null"]
    assert "-  replicas: 3" in deleted


def test_two_changes_of_one_object_are_one_diff():
    ref = a_ref("web")
    first = decision_of(Verb.REPAIR, Phase.REPAIR, ref, PLACE_WEB, (FieldChange(("spec", "paused"), True, None),))
    shown = render_diff(a_plan(first, a_scale(6, 2, ref=ref)))
    assert shown.count("--- ") == 1
    assert ("-  paused: true\n-  replicas: 6\n+  replicas: 2\n") in shown


def test_no_changes_are_no_diff():
    assert render_diff(a_plan()) == ""


def overwritten(before: object, after: object) -> str:
    changes = (FieldChange(("spec", "template"), before, after),)
    return render_diff(a_plan(decision_of(Verb.OVERWRITE, Phase.REPAIR, a_ref("web"), PLACE_WEB, changes)))


def test_values_of_environment_variables_are_masked_and_a_change_of_one_still_shows():
    other = json.loads(json.dumps(TEMPLATE).replace("hunter2", "correct horse"))
    assert "hunter2" not in (shown := overwritten(TEMPLATE, other))
    assert "correct horse" not in shown
    assert "-          value: '*** (before)'\n+          value: '*** (after)'\n" in shown.replace('"', "'")
    created = render_diff(a_plan(a_create(manifest={"metadata": {"name": "web"}, "spec": {"template": TEMPLATE}})))
    assert "hunter2" not in created
    assert "***" in created


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"env": [{"name": "A", "value": "x"}]}, {"env": [{"name": "A", "value": "***"}]}, id="plain"),
        pytest.param({"env": [{"name": "A", "valueFrom": {}}]}, {"env": [{"name": "A", "valueFrom": {}}]}, id="from"),
        pytest.param({"env": "production"}, {"env": "production"}, id="a label of that name"),
        pytest.param(
            {"data": '{"env":[{"name":"A","value":"x"}]}'},
            {"data": '{"env": [{"name": "A", "value": "***"}]}'},
            id="in JSON",
        ),
        pytest.param('{"env": [', '{"env": [', id="no JSON"),
        pytest.param({"env": ["odd", None]}, {"env": ["odd", None]}, id="odd entries"),
    ],
)
def test_masked(value, expected):
    assert masked(value, None, "before") == expected


@pytest.mark.parametrize("other", [5, {"name": "a"}, [None], [{"name": ["a"], "value": "1"}]])
def test_what_no_api_server_takes_is_masked_too(other):
    value = {"env": [{"name": ["a"], "value": "secret"}, {"name": "b", "value": "secret"}]}
    assert "secret" not in str(masked(value, {"env": other}, "before"))


def test_git_reads_it_as_a_patch(tmp_path: Path):
    shown = render_diff(a_plan(an_idle("api"), a_wake("b"), a_create()))
    called = ["git", "apply", "--numstat"]
    said = subprocess.run(called, input=shown, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert said.stdout.splitlines() == [
        "5\t0\tap-south/shop/ReplicaSet/web",
        "3\t1\teu-west/dev-a/Deployment/api",
        "1\t1\teu-west/dev-a/Deployment/b",
    ]


def test_colours_are_those_of_git():
    shown = render_diff(a_plan(a_scale(6, 2)), color=True)
    assert "\x1b[31m-  replicas: 6\x1b[0m\n\x1b[32m+  replicas: 2\x1b[0m\n" in shown


def test_the_verb_names_each_object_that_the_plan_writes(quickstart: Folder):
    now = "2026-11-20T22:00:00Z"
    actions = json.loads(quickstart.plan(now, "-o", "json").out)["actions"]
    planned = {
        "/".join((one["cluster"], *(one["object"][part] for part in ("namespace", "kind", "name")))) for one in actions
    }
    shown = quickstart.call("diff", "policies", "--snapshot", "snapshot", "--now", now).out
    assert set(re.findall(r"^(?:---|\+\+\+) (?:current|desired)/(.*)$", shown, re.MULTILINE)) == planned
    assert shown.startswith("--- "), "and nothing else is on stdout"
