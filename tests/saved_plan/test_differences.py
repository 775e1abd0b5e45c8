"""A saved plan beside a fresh one, and beside what the policies say of local ReplicaSets."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.decide.decisions import Cause, Decision, FieldChange, Phase, Verb
from reconciler.decide.placement.local_replica_sets import Form, form_of, metadata_changes
from reconciler.errors import PlanFileError
from reconciler.plan.model import Plan
from reconciler.plan.order import numbered_actions
from reconciler.saved_plan.allowed_changes import check_allowed
from reconciler.saved_plan.beyond_approval import not_as_stated, refuse
from reconciler.saved_plan.differences import NO_POLICIES, NOT_PLANNED, NOT_WHOLE, OTHERWISE, compared
from tests.builders import a_fleet, a_forecast, a_policy_set, a_ref, said
from tests.decide.placement.placements import a_federated, a_local
from tests.plans import a_decision, a_plan

CAUSE = ("metadata", "annotations", "reconciler/cause")
WEB, API, DB = (a_decision(name, key=name, group=group) for name, group in (("web", "g"), ("api", "g"), ("db", "h")))
TEMPLATE = replace(DB, verb=Verb.OVERWRITE)
MEMORY = a_decision("memory", key="memory", group="g", verb=Verb.REMEMBER, phase=Phase.RECORD)


def plan_of(*decisions: Decision) -> Plan:
    return replace(a_plan(), actions=numbered_actions(decisions))


def differing(saved: Plan, fresh: Plan | None) -> dict[str, str]:
    """Return by key why the actions of `saved` are not those of `fresh`."""
    names = {action.id: action.decision.key for action in saved.actions}
    return {names[number]: why for number, why in compared(saved, fresh).differing.items()}


def caused(decision: Decision, text: str) -> Decision:
    return replace(decision, changes=(*decision.changes, FieldChange(CAUSE, None, text)))


def recorded(text: str) -> Decision:
    changes = (
        *WEB.changes,
        FieldChange(("metadata", "annotations", "idling.kubernetes.io/previous-scale"), None, text),
    )
    return replace(WEB, changes=changes)


ELSEWHERE, HERE = (json.dumps({"at": at, "policy": "idle-dev"}) for at in ("/a/dev.yaml:1", "dev.yaml:1"))
OTHER_POLICY = json.dumps({"at": "dev.yaml:1", "policy": "other"})


@pytest.mark.parametrize(
    ("saved", "fresh", "expected"),
    [
        pytest.param([WEB, DB], [WEB, DB], {}, id="the same"),
        pytest.param([DB, WEB], [WEB, DB], {}, id="in another order"),
        pytest.param([WEB, DB], [WEB], {"db": NOT_PLANNED}, id="one that is not planned"),
        pytest.param([WEB, API], [WEB], {"web": NOT_WHOLE, "api": NOT_PLANNED}, id="nor the rest of its group"),
        pytest.param([WEB, DB], [WEB, API, DB], {"web": NOT_WHOLE}, id="one that is missing of a group"),
        pytest.param([WEB], [WEB, DB], {}, id="one that is missing elsewhere"),
        pytest.param([WEB, MEMORY], [WEB], {"memory": NOT_PLANNED}, id="a record alone that is not planned"),
        pytest.param([WEB], [WEB, MEMORY], {}, id="a record alone that is missing"),
        pytest.param(
            [WEB, API, DB],
            [replace(WEB, replicas_after=1), API, DB],
            {"web": OTHERWISE, "api": NOT_WHOLE},
            id="other replicas",
        ),
        pytest.param([replace(WEB, uid="x"), DB], [WEB, DB], {"web": OTHERWISE}, id="another object"),
        pytest.param([replace(WEB, ref=a_ref("web", namespace="x"))], [WEB], {"web": OTHERWISE}, id="elsewhere"),
        pytest.param([replace(WEB, phase=Phase.WAKE)], [WEB], {"web": OTHERWISE}, id="another phase"),
        pytest.param([replace(WEB, event="x")], [WEB], {"web": OTHERWISE}, id="another Event"),
        pytest.param([recorded("9")], [recorded("3")], {"web": OTHERWISE}, id="another record"),
        pytest.param(
            [replace(WEB, cause=Cause("idle-dev", "x:1", said("why")), victims=a_forecast(("a",)))],
            [WEB],
            {},
            id="other words and victims",
        ),
        pytest.param([caused(WEB, ELSEWHERE)], [caused(WEB, HERE)], {}, id="a cause that stands elsewhere"),
        pytest.param([caused(WEB, OTHER_POLICY)], [caused(WEB, HERE)], {"web": OTHERWISE}, id="another cause"),
        pytest.param([caused(WEB, "x")], [caused(WEB, HERE)], {"web": OTHERWISE}, id="a cause that is no JSON"),
        pytest.param([caused(WEB, "x")], [caused(WEB, "y")], {"web": OTHERWISE}, id="both of them no JSON"),
        pytest.param([caused(WEB, "[1]")], [caused(WEB, "[2]")], {"web": OTHERWISE}, id="a cause that is no object"),
        pytest.param([caused(WEB, "x")], [caused(WEB, "x")], {}, id="the same that is no JSON"),
        pytest.param([DB, replace(WEB, needs=("db",))], [DB, WEB], {"web": OTHERWISE}, id="one more that it needs"),
        pytest.param(
            [API, DB, replace(WEB, needs=("api", "db"))], [DB, API, replace(WEB, needs=("db", "api"))], {},
            id="the same that it needs",
        ),
        pytest.param([WEB], [DB, replace(WEB, needs=("db",))], {"web": OTHERWISE}, id="one that it needs is missing"),
        pytest.param([WEB], [TEMPLATE, replace(WEB, needs=("db",))], {}, id="a template that the filters left out"),
        pytest.param([TEMPLATE, WEB], [TEMPLATE, replace(WEB, needs=("db",))], {"web": OTHERWISE}, id="its template"),
        pytest.param(
            [replace(DB, wake_tier="low"), replace(WEB, wait_ready="low")],
            [replace(DB, wake_tier="low"), replace(WEB, wait_ready="low")],
            {},
            id="the same tier that it waits for",
        ),
        pytest.param(
            [replace(DB, wake_tier="low"), replace(WEB, wait_ready="low")],
            [replace(DB, wake_tier="low"), WEB],
            {"web": OTHERWISE},
            id="a tier that it does not wait for",
        ),
        pytest.param(
            [replace(WEB, wait_ready="low")],
            [replace(DB, wake_tier="low"), replace(WEB, wait_ready="low")],
            {},
            id="a tier of which the saved plan has nothing",
        ),
    ],
)  # fmt: skip
def test_what_a_fresh_plan_would_not_do(saved, fresh, expected):
    assert differing(plan_of(*saved), plan_of(*fresh)) == expected


def test_without_policies_everything_differs():
    assert differing(plan_of(WEB, DB), None) == {"web": NO_POLICIES, "db": NO_POLICIES}


STATED: dict[str, Any] = {
    "labels": {"team": "shop"},
    "annotations": {"example.com/pager": "team-shop"},
    "min_ready_seconds": 5,
}
LABELS, ANNOTATIONS = ("metadata", "labels"), ("metadata", "annotations")
NOT_STATED = (
    "its template, labels, annotations or minReadySeconds are not those of the FederatedReplicaSet of its name in the "
    "policies"
)


def form() -> Form:
    found = form_of(a_federated(**STATED), a_fleet())
    assert found is not None
    return found


def refused(decision: Decision, *, name: str = "web", stated: bool = True) -> bool:
    policies = a_policy_set(a_fleet(), federated=(a_federated(name=name, **STATED),) if stated else ())
    made = plan_of(decision)
    check_allowed(made, "plan.json")
    try:
        refuse(not_as_stated(made, policies), "plan.json")
    except PlanFileError as error:
        return f"plan.json: action 1 ({decision.ref}): {NOT_STATED}; plan again" == str(error) or pytest.fail(
            str(error)
        )
    return False


def changing(*changes: FieldChange, **fields: Any) -> Decision:
    defaults: dict[str, Any] = {
        "ref": a_ref("web", kind="ReplicaSet"),
        "verb": Verb.REPAIR,
        "replicas_before": None,
        "replicas_after": None,
    }
    return a_decision(changes=changes, **(defaults | fields))


def creating(replicas: int = 3, **changes: Any) -> Decision:
    manifest = {**form().manifest(3), **changes}
    return changing(verb=Verb.CREATE, uid=None, manifest=manifest, replicas_before=0, replicas_after=replicas)


def test_what_a_run_plans_is_taken():
    """Also what is carried over of the annotations of a FederatedReplicaSet, and its minReadySeconds."""
    assert not refused(creating())
    changes = metadata_changes(a_local("east", 3, min_ready_seconds=2), form())
    assert {change.path[-1] for change in changes} >= {"team", "example.com/pager", "minReadySeconds"}
    assert not refused(changing(*changes))


def creating_other(parent: str, key: str, value: Any) -> Decision:
    return creating(**{parent: {**form().manifest(3)[parent], key: value}})


def overwriting(template: Any) -> Decision:
    return changing(FieldChange(("spec", "template"), {"spec": {"x": 1}}, template), verb=Verb.OVERWRITE)


@pytest.mark.parametrize(
    ("decision", "fields", "expected"),
    [
        pytest.param(creating_other("metadata", "labels", {"app": "other"}), {}, True, id="other labels"),
        pytest.param(creating_other("metadata", "annotations", {"example.com/pager": "x"}), {}, True, id="annotations"),
        pytest.param(creating_other("spec", "minReadySeconds", 9), {}, True, id="another minReadySeconds"),
        pytest.param(creating_other("spec", "template", {"spec": {}}), {}, True, id="another template"),
        pytest.param(creating_other("spec", "selector", {"matchLabels": {}}), {}, True, id="another selector"),
        pytest.param(creating(), {"name": "api"}, True, id="policies of another one"),
        pytest.param(creating(), {"stated": False}, True, id="policies of none"),
        pytest.param(overwriting(form().federated.template), {}, False, id="its template written over another"),
        pytest.param(overwriting({"spec": {}}), {}, True, id="another template written"),
        pytest.param(overwriting(form().federated.template), {"stated": False}, True, id="the template of none"),
        pytest.param(
            changing(FieldChange((*LABELS, "reconciler/frs"), None, "web"), ref=a_ref("web")),
            {"stated": False},
            False,
            id="other kinds are not held against policies",
        ),
    ],
)
def test_a_local_replica_set_that_the_policies_do_not_say(decision, fields, expected):
    assert refused(decision, **fields) is expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(FieldChange((*LABELS, "team"), None, "shop"), False, id="a label as stated"),
        pytest.param(FieldChange((*LABELS, "team"), "shop", "other"), True, id="another label"),
        pytest.param(FieldChange((*LABELS, "team"), "shop", None), True, id="a label taken off"),
        pytest.param(FieldChange((*LABELS, "more"), "x", None), True, id="a label taken off that is not stated"),
        pytest.param(FieldChange((*LABELS, "team"), "other", "other"), False, id="a label that is only tested"),
        pytest.param(FieldChange((*LABELS, "reconciler/frs"), "web", None), False, id="our label taken off"),
        pytest.param(FieldChange((*LABELS, "reconciler/frs"), "web", "api"), True, id="our label of another one"),
        pytest.param(
            FieldChange((*ANNOTATIONS, "example.com/pager"), None, "team-shop"), False, id="an annotation as stated"
        ),
        pytest.param(FieldChange((*ANNOTATIONS, "example.com/pager"), None, "x"), True, id="another annotation"),
        pytest.param(FieldChange((*ANNOTATIONS, "other"), None, "x"), True, id="an annotation that is not stated"),
        pytest.param(FieldChange((*ANNOTATIONS, "other"), "x", None), True, id="an annotation of others taken off"),
        pytest.param(FieldChange((*ANNOTATIONS, "reconciler/owner"), None, "x"), False, id="an annotation of ours"),
        pytest.param(
            FieldChange((*ANNOTATIONS, "reconciler/on-delete"), None, "orphan"), False, id="onDelete as stated"
        ),
        pytest.param(
            FieldChange((*ANNOTATIONS, "reconciler/on-delete"), "orphan", "delete"), True, id="another onDelete"
        ),
        pytest.param(
            FieldChange((*ANNOTATIONS, "reconciler/on-delete"), "delete", None), False, id="onDelete taken off"
        ),
        pytest.param(FieldChange(("spec", "minReadySeconds"), 2, 5), False, id="minReadySeconds as stated"),
        pytest.param(FieldChange(("spec", "minReadySeconds"), 2, 6), True, id="another minReadySeconds"),
        pytest.param(FieldChange(("spec", "minReadySeconds"), 2, None), True, id="minReadySeconds taken off"),
    ],
)
def test_a_change_that_the_policies_do_not_say(change, expected):
    assert refused(changing(change)) is expected


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (FieldChange(("spec", "minReadySeconds"), 2, None), False),
        (FieldChange(("spec", "minReadySeconds"), 2, 5), True),
        (FieldChange((*LABELS, "team"), None, "shop"), True),
        (FieldChange((*ANNOTATIONS, "example.com/pager"), None, "team-shop"), True),
        (FieldChange((*ANNOTATIONS, "reconciler/owner"), None, "x"), False),
        (FieldChange((*ANNOTATIONS, "reconciler/on-delete"), None, "delete"), True),
    ],
    ids=str,
)
def test_a_change_of_what_no_policy_states(change, expected):
    assert refused(changing(change), stated=False) is expected
