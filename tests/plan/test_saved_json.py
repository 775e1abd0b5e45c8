"""A plan as JSON, and read back: all that it may hold, each part once."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.connection_settings import PickerHeader, PodPicker
from reconciler.decide.decisions import (
    Cause,
    DownscaleSettings,
    FieldChange,
    HeldBack,
    LimitUse,
    Notice,
    Overridden,
    PlacementRow,
    PlacementView,
    Undecided,
    Verb,
    VictimForecast,
)
from reconciler.errors import PlanFileError
from reconciler.plan.build import number
from reconciler.plan.documents import json_value
from reconciler.plan.json import plan_from_dict, plan_to_dict
from reconciler.plan.model import Plan
from tests.builders import NOW, a_ref, said
from tests.plan.decisions import a_decision
from tests.report.plans import a_plan

LIMIT = LimitUse("fleet default", "replicas", 3, 2, 9, "east", "nights")
PICKER = PodPicker(
    "picker.shop.svc",
    headers=(PickerHeader("a", "b"), PickerHeader("token", secret=("name", "key"))),
)
CAUSE = Cause("nights", "nights.yaml:1", said("why"), {"requests": 0})


def decided(name: str, **fields):
    return a_decision(name, key=name, cause=CAUSE, **fields)


def saved(*decisions, **fields) -> Plan:
    return replace(a_plan(), clusters={"east": "x"}, actions=number(decisions), **fields)


ROW = PlacementRow("east", 6, None, 3, 2, reasons=said("why"))


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(saved(), id="nothing"),
        pytest.param(saved(decided("web", order=(1, 2), wake_tier="low"), decided("api", needs=())), id="two"),
        pytest.param(saved(decided("web", changes=(FieldChange(("spec", "replicas"), 3, 3),))), id="only a test"),
        pytest.param(saved(replace(decided("web"), replicas_before=None), unknown={"east": "refused"}), id="no before"),
        pytest.param(saved(replace(decided("web"), replicas_after=None)), id="no after"),
        pytest.param(saved(replace(decided("web"), replicas_before=None, replicas_after=None)), id="no replicas"),
        pytest.param(saved(decided("web", verb=Verb.CREATE, uid=None, manifest={"kind": "x"})), id="a manifest"),
        pytest.param(
            saved(decided("web", victims=VictimForecast(("a", "b"), rules=("x", "y"), age_ratios=(0.5, None)))),
            id="victims",
        ),
        pytest.param(saved(decided("web", downscale=DownscaleSettings("nights", "PodPicker", PICKER))), id="a picker"),
        pytest.param(saved(decided("web", downscale=DownscaleSettings("nights", "NewestFirst"))), id="a strategy"),
        pytest.param(
            saved(held_back=(HeldBack("nights", "why", (decided("web"),), (LIMIT,)),), limits=(LIMIT,)), id="a limit"
        ),
        pytest.param(saved(held_back=(HeldBack("", "why", (decided("web"),)),)), id="a guard"),
        pytest.param(saved(observed=(decided("web"),), dropped=3, revision="abc"), id="observed"),
        pytest.param(saved(undecided=(Undecided("web", "idling", "nights", said("why")),)), id="undecided"),
        pytest.param(
            saved(overridden=(Overridden(a_ref(), "idling", "nights", "idle", "days", said("why")),)), id="overridden"
        ),
        pytest.param(saved(notices=(Notice("picker", "web", "why", "nights", True, said("why")),)), id="a notice"),
        pytest.param(
            saved(placements=(PlacementView("shop/web", 6, (ROW,)),)),
            id="a placement",
        ),
    ],
)
def test_what_is_written_is_read_back(plan):
    assert plan_from_dict(plan_to_dict(plan)) == plan


def test_what_is_written_of_an_action():
    tested = FieldChange(("spec", "replicas"), 3, 3)
    made = plan_to_dict(saved(decided("web", changes=(tested, FieldChange(("spec", "replicas"), 3, 0), tested))))
    assert (made["actions"][0]["before"], made["actions"][0]["after"]) == (
        {"/spec/replicas": 3},
        {"/spec/replicas": 0},
    )
    assert made["actions"][0]["replicas"] == {"before": 3, "after": 0}
    unscaled = replace(decided("web"), replicas_before=None, replicas_after=None)
    assert plan_to_dict(saved(unscaled))["actions"][0]["replicas"] is None


def test_two_actions_have_not_one_key():
    made = plan_to_dict(saved(decided("web"), decided("api")))
    made["actions"][1]["key"] = "web"
    with pytest.raises(PlanFileError, match="has the id or key of an earlier change, expected its own"):
        plan_from_dict(made)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
        (NOW, "2026-11-20T15:41:23Z"),
        (timedelta(minutes=1), 60.0),
    ],
)
def test_what_json_has_no_number_for(value, expected):
    assert json_value(value) == expected
