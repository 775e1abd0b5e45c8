"""Reasons as data: closed codes, one text for each, values that JSON can hold."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reconciler.decide import reasons
from reconciler.decide.change_codes import ChangeIf, ChangeIfCode, change_if, joint_change
from reconciler.decide.reasons import CODES, TEXTS, Reason, ReasonCode, filled, phrase_parts, reason, text_of
from tests.cases import cases

CODES_OF = (ReasonCode, ChangeIfCode)
FIVE = datetime(2026, 11, 20, 17, tzinfo=UTC)


def test_the_text_of_a_code_names_its_values():
    for code, template in TEXTS.items():
        values = {name: f"<{name}>" for name in re.findall(r"\{(\w+)", template)}
        text = filled(template, values)
        assert all(value in text for value in values.values()), code
        assert not re.search(r"[{}\[\]]", text.replace("[]", "")), code


def test_every_code_is_given_somewhere():
    package = Path(reasons.__file__).parents[1]
    code = "\n".join(file.read_text() for file in package.rglob("*.py"))
    names = [f"{codes.__name__}.{name}" for codes in CODES_OF for name in vars(codes) if name.isupper()]
    assert [name for name in names if name not in code] == []


def test_each_code_is_stated_once():
    """Of two with one name the later text would be that of both."""
    assert len(TEXTS) == sum(name.isupper() for codes in CODES_OF for name in vars(codes))


def test_no_two_codes_have_one_text_except_where_only_their_rendering_differs():
    texts = [TEXTS[code] for code in CODES if not TEXTS[code].startswith("{")]
    assert len(texts) == len(set(texts))


@cases(
    "template values text",
    ("optional part without its value", "a[ in {b}]", {}, "a"),
    ("optional part with its value", "a[ in {b}]", {"b": "x"}, "a in x"),
    ("zero is a value", "a[ in {b}]", {"b": 0}, "a in 0"),
    ("optional part, one value missing", "a[ in {b} of {c}]", {"b": "x"}, "a"),
    ("optional part, both values known", "a[ in {b} of {c}]", {"b": "x", "c": "y"}, "a in x of y"),
    ("braces and brackets in values", "{a} of {b}", {"a": "{b}", "b": "[c]"}, "{b} of [c]"),
    ("value missing", "{a}", {}, ""),
    ("list joined by and", "{a}", {"a": ["x", "y"]}, "x and y"),
    ("fraction rounded", "{a}", {"a": 0.1 + 0.2}, "0.3"),
    ("words before a time", "{a:ago}, {a:since}, {a:until}, {a:edge}", {"a": "T"}, "at T, since T, until T, T"),
    ("end time missing", "{a:until}", {}, "without end"),
)
def test_a_template_is_filled_with_its_values(template, values, text):
    assert filled(template, values) == text


def test_values_are_those_of_json_and_absent_ones_are_left_out():
    made = reason(ReasonCode.IN_DOWNTIME, calendar="nights", until=FIVE, exception="", other=None, names=("a", "b"))
    assert json.loads(json.dumps(dict(made.values))) == {
        "calendar": "nights",
        "until": "2026-11-20T17:00:00Z",
        "names": ["a", "b"],
    }
    assert reason(ReasonCode.NO_SERIES, name=None) == Reason(ReasonCode.NO_SERIES)


def test_reasons_are_one_phrase_in_which_a_colon_goes_on():
    excluded = reason(ReasonCode.EXCLUDED, object="Deployment/web")
    leaving = reason(ReasonCode.CLUSTER_LEAVING, cluster="east")
    idle = reason(ReasonCode.AT_IDLE_REPLICAS)
    assert phrase_parts((idle, excluded, leaving, idle)) == ((idle,), (excluded, leaving), (idle,))
    assert text_of((idle, excluded, leaving)) == (
        "already at or below idleReplicas, excluded: Deployment/web: the cluster east is leaving"
    )
    assert text_of(()) == ""


@pytest.mark.parametrize(
    ("parts", "text"),
    [((), None), ((None,), None), (("a", None, "a"), "mode is a"), (("a", "b"), "mode is a or mode is b")],
)
def test_changes_are_joined_each_once(parts, text):
    changes: list[ChangeIf | None] = [
        None if value is None else change_if(ChangeIfCode.FIELD_IS, field="mode", value=value) for value in parts
    ]
    found = joint_change(ChangeIfCode.ANY, changes)
    assert (None if found is None else str(found)) == text


def test_alternatives_come_last_so_that_nothing_else_is_read_as_a_part_of_them():
    a, b, c, d = (change_if(ChangeIfCode.FIELD_IS, field=name, value=1) for name in "abcd")
    either = joint_change(ChangeIfCode.ANY, (a, b))
    assert str(joint_change(ChangeIfCode.ALL, (either, c, d))) == "c is 1 and d is 1, and either a is 1 or b is 1"
    both = joint_change(ChangeIfCode.ALL, (c, d))
    assert str(joint_change(ChangeIfCode.ALL, (either, both))) == "c is 1 and d is 1, and either a is 1 or b is 1"
    assert str(joint_change(ChangeIfCode.ANY, (either, both))) == "a is 1, or b is 1, or c is 1 and d is 1"
    assert str(joint_change(ChangeIfCode.ALL, (either, c, a))) == "c is 1 and a is 1"
    assert str(joint_change(ChangeIfCode.ANY, (c, both))) == "c is 1"
