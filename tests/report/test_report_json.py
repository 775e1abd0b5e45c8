"""The report of an apply as JSON, and the schemas of plan and report."""

from __future__ import annotations

import pytest

from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.errors import PlanFileError
from reconciler.plan.json import plan_to_dict
from reconciler.report.json import plan_and_outcomes, report_to_dict
from tests.plans import a_create, a_plan, a_scale, an_idle
from tests.report.validators import output_schema


def test_totals_count_what_was_applied():
    plan = a_plan(a_create(4), an_idle(replicas=3), a_scale(6, 2), a_scale(9, 1, "db"))
    ids = {action.ref.name: action.id for action in plan.actions if action.verb != "create"}
    outcomes = (
        Outcome(ids["api"], OutcomeStatus.APPLIED),
        Outcome(ids["web"], OutcomeStatus.STALE, "replicas are 5, expected 6"),
        Outcome(ids["db"], OutcomeStatus.FAILED, "denied"),
    )
    counts = report_to_dict(plan, outcomes)["counts"]
    assert counts == {
        "applied": 1,
        "stale": 1,
        "failed": 1,
        "skipped": 0,
        "deferred": 0,
        "notChosen": 1,
        "replicasFewer": 3,
        "replicasMore": 0,
    }


COUNTED = {"hit": 0, "missed": 0, "substituted": 0, "locked": False, "pickerFailed": False}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"outcomes": [{"action": 7}]}, "`$.outcomes[0]`", id="fields are missing"),
        pytest.param({"schemaVersion": "v0"}, '$.schemaVersion is "v0"', id="another version"),
        pytest.param({"plan": {}}, "`$.plan`", id="no plan inside"),
        pytest.param(
            {"outcomes": [{"action": 7, "status": "applied", "message": "", **COUNTED}]},
            "$.outcomes[0].action is 7, expected the id of a planned change",
            id="an outcome of nothing",
        ),
    ],
)
def test_what_is_no_report_is_refused(change, message):
    document = report_to_dict(a_plan(an_idle()), ()) | change
    with pytest.raises(PlanFileError) as error:
        plan_and_outcomes(document, where="report.json")
    assert str(error.value).startswith("report.json: ")
    assert message in str(error.value)


def test_what_is_neither_plan_nor_report_is_refused():
    with pytest.raises(PlanFileError, match='kind is "Pod"'):
        plan_and_outcomes(plan_to_dict(a_plan()) | {"kind": "Pod"}, where="x.json")


@pytest.mark.parametrize("schema", [output_schema("Plan"), output_schema("Report")], ids=["plan", "report"])
def test_schemas_are_closed_and_describe_every_field(schema):
    objects = {title: found for title, found in schema["$defs"].items() if "properties" in found}
    for title, definition in {"the document": schema, **objects}.items():
        fields = definition["properties"]
        assert definition["description"], title
        assert all(field["description"] for field in fields.values()), title
        assert definition["additionalProperties"] is False, title
        lacked = {name for name, field in fields.items() if field["description"].endswith("Older plans lack it.")}
        assert sorted({*definition["required"], *lacked}) == sorted(fields), title
