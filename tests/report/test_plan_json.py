"""Plans as JSON: nothing is lost, nothing malformed gets in, the same plan gives the same bytes."""

from __future__ import annotations

import json
import math
from datetime import datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.connection_settings import PickerHeader, SecretKey
from reconciler.decide.decisions import (
    Cause,
    Decision,
    FieldChange,
    HeldBack,
    Notice,
    Overridden,
    PlacementRow,
    PlacementView,
    Undecided,
)
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.errors import ExitCode, PlanFileError
from reconciler.model import ObjectRef
from reconciler.plan import change_json
from reconciler.plan import json as plan_json
from reconciler.plan.json import plan_document, plan_from_dict, plan_in_parts, plan_to_dict
from reconciler.plan.model import Plan, json_value
from tests.builders import NOW, a_forecast, a_picker, a_ref, said, the_settings
from tests.cases import cases
from tests.laws import tries
from tests.plans import PLACE_WEB, a_create, a_plan, a_record, a_scale, an_idle
from tests.report.strategies import json_values, plans
from tests.report.validators import validator_of


def plan_to_json(plan):
    return "".join(plan_in_parts(plan))


def check_round_trip(plan):
    text = plan_to_json(plan)
    document = json.loads(text)
    validator_of("plan.schema.json").validate(document)
    again = plan_from_dict(document)
    assert again == plan
    assert plan_to_json(again) == text


@cases(
    "value document others",
    (
        "whole plan",
        Plan,
        plan_json.PlanDocument,
        {"policy_digest", "input_digest", "unanswered", "explanations", "unknown_since", "awake", "seen", "shard"},
    ),
    (
        "decided change",
        Decision,
        change_json.ChangeDocument,
        {"ref", "api_version", "uid", "changes", "replicas_before", "replicas_after", "requests"},
    ),
    ("held back change", HeldBack, plan_json._HeldBackDocument, {"policy", "decisions"}),
    ("overridden policy", Overridden, plan_json._OverriddenDocument, {"ref"}),
    ("object reference", ObjectRef, change_json._ObjectDocument, {"cluster"}),
    ("cause of a change", Cause, change_json.CauseDocument, {"tenant"}),
    ("undecided workload", Undecided, plan_json._UndecidedDocument, set()),
    ("notice of a plan", Notice, plan_json._NoticeDocument, set()),
    ("placement on one cluster", PlacementRow, plan_json._PlacementRowDocument, set()),
    ("placement of replicas", PlacementView, plan_json._PlacementDocument, set()),
)
def test_what_is_written_has_the_fields_of_its_document(value, document, others):
    assert set(value.__struct_fields__) - set(document.__struct_fields__) == others


@given(plans())
@tries(60, at_length=5_000)
def test_a_plan_is_as_its_schema_says_and_read_back_the_plan_that_was_written(plan):
    check_round_trip(plan)


def test_a_reason_has_its_code_and_values_beside_its_text():
    requests = reason(ReasonCode.METRIC_IDLE, value=0.0, atMost=0.0, window="30m", name="requests")
    ends = reason(ReasonCode.IN_DOWNTIME, calendar="nights", until=NOW, timeZone="Europe/Berlin")
    lost = Overridden(a_ref("web"), "idling", "a", "idle", "b", (reason(ReasonCode.HIGHER_PRIORITY, priority=5),))
    unknown = Undecided("east", "idling", "a", (reason(ReasonCode.NO_SERIES),))
    plan = a_plan(
        an_idle(cause=Cause("nights", "p.yaml:1", (requests, ends))), overridden=(lost,), undecided=(unknown,)
    )
    cause = plan_to_dict(plan)["actions"][0]["cause"]
    assert (cause["reason"], cause["reasonCode"]) == (
        "requests 0 at most 0 in 30m, schedule nights until 2026-11-20T15:41:23Z",
        "MetricIdle",
    )
    assert cause["reasons"] == [
        {"code": "MetricIdle", "values": {"atMost": 0.0, "name": "requests", "value": 0.0, "window": "30m"}},
        {
            "code": "InDowntime",
            "values": {"calendar": "nights", "timeZone": "Europe/Berlin", "until": "2026-11-20T15:41:23Z"},
        },
    ]
    assert [plan_to_dict(plan)[name][0]["reasonCode"] for name in ("overridden", "undecided")] == [
        "HigherPriority",
        "NoSeries",
    ]
    check_round_trip(plan)


def test_a_plan_saved_before_reasons_had_codes_is_read_with_their_text():
    value = plan_to_dict(a_plan(an_idle(cause=Cause("p", "f:1", said("0 at most 0")))))
    cause = value["actions"][0]["cause"]
    assert (cause.pop("reasonCode"), len(cause.pop("reasons"))) == ("Other", 1)
    assert plan_from_dict(value).actions[0].decision.cause.reasons == said("0 at most 0")


def test_the_keys_are_in_a_fixed_order_and_the_file_ends_with_a_newline():
    text = plan_to_json(a_plan(an_idle()))
    assert text.startswith(
        '{\n  "schemaVersion": "reconciler/plan/v1alpha2",\n  "kind": "Plan",\n  "madeAt": "2026-11-20T15:41:23Z",'
    )
    assert text.endswith("}\n")


@pytest.mark.parametrize(("count", "parts"), [(0, 1), (1, 3), (2, 3), (5, 5)])
def test_the_text_in_parts_is_that_of_the_whole_document(monkeypatch, count, parts):
    monkeypatch.setattr(plan_json, "_AT_ONCE", 2)
    made = a_plan(*(an_idle(f'web-{n}\n"actions": [') for n in range(count)))
    found = list(plan_in_parts(made))
    assert "".join(found) == msgspec.json.format(msgspec.json.encode(plan_document(made)), indent=2).decode() + "\n"
    assert len(found) == parts


def test_mappings_in_another_order_give_the_same_bytes():
    one = a_plan(
        an_idle(cause=Cause("p", "f:1", said("w"), {"a": 1, "b": {"c": 2, "d": 3}})), unknown={"x": "1", "y": "2"}
    )
    other = a_plan(
        an_idle(cause=Cause("p", "f:1", said("w"), {"b": {"d": 3, "c": 2}, "a": 1})), unknown={"y": "2", "x": "1"}
    )
    assert plan_to_json(one) == plan_to_json(other)


def test_a_time_in_another_zone_is_written_in_utc():
    made_at = datetime(2026, 11, 20, 17, 0, tzinfo=timezone(timedelta(hours=2)))
    assert plan_to_dict(a_plan(made_at=made_at))["madeAt"] == "2026-11-20T15:00:00Z"


def test_counts():
    plan = a_plan(an_idle(replicas=3), a_record(), a_scale(6, 2), a_scale(2, 5, "db"), a_create(4), dropped=2)
    counts = {name: value for name, value in plan_to_dict(plan)["counts"].items() if value}
    assert counts == {
        "toIdle": 1,
        "toScaleUp": 1,
        "toScaleDown": 1,
        "toCreate": 1,
        "metadataUpdates": 1,
        "dropped": 2,
        "replicasFewer": 7,
        "replicasMore": 7,
    }


def test_a_field_that_is_changed_and_tested_keeps_its_change():
    path = ("spec", "replicas")
    changes = (FieldChange(path, 3, 0), FieldChange(path, 3, 3))
    change = plan_to_dict(a_plan(replace(an_idle(), changes=changes)))["actions"][0]
    assert (change["before"], change["after"]) == ({"/spec/replicas": 3}, {"/spec/replicas": 0})


@pytest.mark.parametrize("ratio", [math.nan, math.inf])
def test_an_age_ratio_that_json_cannot_hold_is_left_out(ratio):
    plan = a_plan(a_scale(6, 2, victims=a_forecast(("a", "b"), age_ratios=(ratio, 1.5))))
    assert plan_to_dict(plan)["actions"][0]["victims"]["ageRatios"] == [None, 1.5]


def test_secrets_are_references():
    header = PickerHeader("authentication", None, SecretKey("my-secret", "token"))
    settings = the_settings("workers", "PodPicker", a_picker("picker.svc", headers=(header,)))
    change = plan_to_dict(a_plan(a_scale(6, 2, downscale=settings)))["actions"][0]
    assert change["downscale"]["picker"]["headers"] == [
        {"name": "authentication", "value": None, "secret": {"name": "my-secret", "key": "token"}}
    ]


@given(json_values)
def test_json_values_stay_what_they_are(value):
    assert json_value(value) == value


def _broken(*path, value):
    """The document of a plan with the value at `path` replaced; `...` takes it out."""
    document = plan_to_dict(a_plan(a_scale(6, 2), an_idle(), a_record()))
    inside = document
    for key in path[:-1]:
        inside = inside[key]
    if value is ...:
        del inside[path[-1]]
    else:
        inside[path[-1]] = value
    return document


def _circular():
    """The document of a plan where a tier that is waited for gets one more wake afterwards."""
    document = plan_to_dict(a_plan(a_scale(6, 2), an_idle(), a_record()))
    for n, tiers in enumerate([{"wakeTier": "db"}, {"waitReady": "db"}, {"wakeTier": "db"}]):
        document["actions"][n] |= tiers
    return document


@pytest.mark.every_case
@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param([], "$ is a list, expected a JSON object with a plan", id="no object"),
        pytest.param(None, "$ is absent, expected a JSON object with a plan", id="null"),
        pytest.param({}, '$.kind is absent, expected "Plan"; plan again', id="empty"),
        pytest.param(
            _broken("schemaVersion", value="reconciler/v1alpha1"),
            '$.schemaVersion is "reconciler/v1alpha1", expected "reconciler/plan/v1alpha2"; plan again',
            id="the version before",
        ),
        pytest.param(
            _broken("schemaVersion", value="reconciler/v2"),
            '$.schemaVersion is "reconciler/v2", expected "reconciler/plan/v1alpha2"; plan again',
            id="another version",
        ),
        pytest.param(_broken("kind", value="Report"), '$.kind is "Report", expected "Plan"', id="a report"),
        pytest.param(_broken("run", value=...), "missing required field `run`", id="a field is missing"),
        pytest.param(_broken("colour", value="red"), "unknown field `colour`", id="an unknown field"),
        pytest.param(_broken("madeAt", value="2026-11-20T15:41:23"), "`$.madeAt`", id="a time without zone"),
        pytest.param(_broken("madeAt", value=3), "`$.madeAt`", id="no time"),
        pytest.param(_broken("actions", 0, "cause", "reasons", 0, "code", value="Whim"), "Whim", id="an unknown code"),
        pytest.param(_broken("actions", 1, "id", value="2"), "`$.actions[1].id`", id="no number"),
        pytest.param(_broken("actions", 0, "verb", value="explode"), "`$.actions[0].verb`", id="an unknown verb"),
        pytest.param(
            _broken("actions", 0, "replicas", "after", value=-1),
            "`$.actions[0].replicas.after`",
            id="negative replicas",
        ),
        pytest.param(_broken("actions", 1, "id", value=1), "$.actions[1] has the id or key", id="an id twice"),
        pytest.param(
            _broken("actions", 1, "key", value="idle/eu-west/dev-a/Deployment/api"),
            "$.actions[1] has the id or key",
            id="a key twice",
        ),
        pytest.param(_broken("actions", 0, "needs", value=[3]), "$.actions[0].needs is [3]", id="needs a later one"),
        pytest.param(
            _broken("actions", 0, "waitReady", value="db"), '$.actions[0].waitReady is "db"', id="waits for none"
        ),
        pytest.param(_circular(), '$.actions[2].wakeTier is "db", which', id="a tier grows once it is waited for"),
        pytest.param(
            _broken("actions", 0, "after", value={}), "$.actions[0].after has other fields", id="before without after"
        ),
        pytest.param(
            {**_broken("run", value="x"), "clusters": {}}, '$.actions[0].cluster is "eu-west"', id="an unknown cluster"
        ),
        pytest.param(
            _broken("actions", 0, "verb", value="create"), "$.actions[0].manifest is null", id="creates nothing"
        ),
    ],
)
def test_what_is_no_plan_is_refused(document, message):
    with pytest.raises(PlanFileError) as error:
        plan_from_dict(document, where="plan.json")
    assert str(error.value).startswith("plan.json: ")
    assert message in str(error.value)
    assert error.value.exit_code is ExitCode.PLAN_REFUSED


def test_a_field_that_is_no_pointer_is_refused():
    document = _broken("actions", 0, "before", value={"spec": 1})
    document["actions"][0]["after"] = {"spec": 2}
    with pytest.raises(PlanFileError, match=r'\$\.actions\[0\]\.before has the field "spec", expected a JSON pointer'):
        plan_from_dict(document)


@given(st.data())
@tries(200)
def test_whatever_is_put_anywhere_gives_a_plan_or_a_refusal(data):
    """One value of a good document is replaced by another: it is read, or refused in one line."""
    document = plan_to_dict(a_plan(a_scale(6, 2), a_create(), an_idle(cause=PLACE_WEB)))
    inside, path = document, []
    while isinstance(inside, dict | list) and inside and (not path or data.draw(st.booleans())):
        path.append(data.draw(st.sampled_from(sorted(inside) if isinstance(inside, dict) else range(len(inside)))))
        inside = inside[path[-1]]
    target = document
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = data.draw(json_values)
    assert "\n" not in _refusal(document)


def _refusal(document):
    try:
        plan_from_dict(document)
    except PlanFileError as error:
        return str(error)
    return ""
