"""The quick check of a shape says what jsonschema says."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.policy.fit import KNOWN_KEYWORDS, fit_of
from reconciler.policy.schemas import shape_of, validator_of
from tests.policy.base import FLEET
from tests.policy.mutations import PARSED, mutated, odd

KINDS = ("Fleet", "IdlingPolicy", "Calendar", "FederatedReplicaSet", "DownscalePolicy", "ReplicaSet")


def keywords(schema: Any) -> set[str]:
    if not isinstance(schema, dict):
        return set()
    inside = [schema.get(word) for word in ("items", "additionalProperties", "propertyNames")]
    inside += [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    return set(schema).union(*(keywords(one) for one in inside))


@pytest.mark.parametrize("kind", KINDS)
def test_it_knows_every_keyword_of_the_schemas(kind):
    assert keywords(shape_of(kind)) <= KNOWN_KEYWORDS


def test_valid_policies_fit():
    assert {value["kind"]: fit_of(value["kind"])(value) for value in PARSED} == dict.fromkeys(KINDS, True)


def agree(documents: list[Any]) -> None:
    for value, valid in zip(documents, PARSED, strict=True):
        kind = valid["kind"]
        assert fit_of(kind)(value) == validator_of(kind).is_valid(value)


@given(mutated())
@settings(max_examples=300)
def test_both_say_the_same(documents):
    agree(documents)


@pytest.mark.soak
@given(mutated())
@settings(max_examples=20_000)
def test_both_say_the_same_for_long(documents):
    agree(documents)


@given(odd | st.dictionaries(st.sampled_from(("rebalance", "clusters", "x")), odd | st.dictionaries(st.text(), odd)))
def test_both_say_the_same_of_preferences(value):
    assert fit_of("ReplicaSet", "preferences")(value) == validator_of("ReplicaSet", "preferences").is_valid(value)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"schedule": {"calendar": "nights"}}
    for _ in range(levels):
        value = {"anyOf": [value]}
    return value


@pytest.mark.parametrize(("inner", "fits"), [({}, True), ({"schedul": {}}, False)])
def test_criteria_are_checked_at_any_depth(inner, fits):
    (policy,) = [value for value in PARSED if value["kind"] == "IdlingPolicy"]
    deep = {**nested(20), **inner}
    deep["anyOf"] = [{**deep["anyOf"][0], "anyOf": [{**nested(5), **inner}]}]
    value = {**policy, "spec": {**policy["spec"], "idleWhen": [deep]}}
    assert fit_of("IdlingPolicy")(value) == validator_of("IdlingPolicy").is_valid(value) == fits


WITHOUT_JSONSCHEMA = """
import sys
from reconciler.policy.validate import check_policies
assert check_policies(sys.argv[1])[1] == ()
assert not {"jsonschema", "jinja2"} & sys.modules.keys()
assert check_policies(sys.argv[2])[1] != ()
assert "jsonschema" in sys.modules
"""


def test_jsonschema_is_imported_only_to_tell_what_is_wrong(tmp_path):
    for folder, text in (("good", FLEET), ("wrong", FLEET.replace("home", "hom"))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "fleet.yaml").write_text(text)
    command = [sys.executable, "-c", WITHOUT_JSONSCHEMA, str(tmp_path / "good"), str(tmp_path / "wrong")]
    subprocess.run(command, check=True)
