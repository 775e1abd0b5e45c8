"""The quickstart, whole: plan, apply, plan again; the same bytes twice; stopped after every action."""

from __future__ import annotations

import json

import pytest

NOW = "2026-11-20T22:00:00Z"


def test_after_apply_a_second_plan_is_empty_and_a_second_apply_changes_no_byte(quickstart):
    assert quickstart.plan(NOW, "--detailed-exitcode").code == 2
    assert quickstart.apply(NOW).code == 0
    assert quickstart.plan(NOW, "--detailed-exitcode").code == 0
    files = {path: path.read_bytes() for path in sorted(quickstart.path.rglob("*")) if path.is_file()}
    assert quickstart.apply(NOW).code == 0
    assert {path: path.read_bytes() for path in sorted(quickstart.path.rglob("*")) if path.is_file()} == files


@pytest.mark.parametrize("form", ["text", "json", "yaml", "markdown", "html"])
def test_the_same_inputs_and_the_same_now_give_the_same_bytes(quickstart, form):
    first = quickstart.plan(NOW, "-o", form)
    assert first.out == quickstart.plan(NOW, "-o", form).out
    assert len(first.out) > 500


def actions_of(folder):
    return json.loads(folder.plan(NOW, "-o", "json").out)["actions"]


def test_apply_of_one_policy_touches_no_object_of_another(quickstart):
    policies = {action["cause"]["policy"] for action in actions_of(quickstart)}
    assert len(policies) >= 4
    before = quickstart.objects()
    others = {
        (a["cluster"], a["object"]["namespace"], a["object"]["kind"], a["object"]["name"])
        for a in actions_of(quickstart)
        if a["cause"]["policy"] != "idle-dev"
    }
    assert quickstart.apply(NOW, "--policy", "idle-dev").code == 0
    after = quickstart.objects()
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    assert changed
    assert not changed & others
