"""The structs that define the kinds: they and their schemas take the same documents."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.policy.kinds.federated_replica_set import Preferences
from reconciler.policy.kinds.fields import scalar_of
from reconciler.policy.kinds.replica_set import PREFERENCES
from reconciler.policy.policy_kinds import POLICY_KINDS
from reconciler.policy.schemas import validator_of
from tests.laws import tries
from tests.policy.mutations import PARSED, mutated, odd


def fits(value: Any, fields: type[msgspec.Struct]) -> bool:
    try:
        msgspec.convert(value, fields, dec_hook=scalar_of)
    except (msgspec.ValidationError, RecursionError):
        return False
    return True


def test_valid_policies_fit():
    found = {value["kind"]: fits(value, POLICY_KINDS[value["kind"]].document) for value in PARSED}
    assert found == dict.fromkeys(POLICY_KINDS, True)


@given(mutated())
@tries(180, at_length=20_000)
def test_both_say_the_same(documents: list[Any]) -> None:
    """Check that both take the same; only jsonschema takes 3.0 for 3, and knows of a required annotation."""
    for value, valid in zip(documents, PARSED, strict=True):
        kind = valid["kind"]
        errors = list(validator_of(kind).iter_errors(value))
        if fits(value, POLICY_KINDS[kind].document):
            assert [error.message for error in errors if PREFERENCES not in error.message] == []
        elif not errors:
            assert any(isinstance(one, float) and one.is_integer() for one in leaves(value))


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict | list):
        inside = value.values() if isinstance(value, dict) else value
        return [leaf for one in inside for leaf in leaves(one)]
    return [value]


@given(odd | st.dictionaries(st.sampled_from(("rebalance", "clusters", "x")), odd | st.dictionaries(st.text(), odd)))
def test_both_say_the_same_of_preferences(value):
    assert fits(value, Preferences) == validator_of("ReplicaSet", "preferences").is_valid(value)


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"schedule": {"calendar": "nights"}}
    for _ in range(levels):
        value = {"anyOf": [value]}
    return value


@pytest.mark.parametrize(("inner", "valid"), [({}, True), ({"schedul": {}}, False)])
def test_criteria_are_checked_at_any_depth(inner, valid):
    (policy,) = [value for value in PARSED if value["kind"] == "IdlingPolicy"]
    deep = {**nested(20), **inner}
    deep["anyOf"] = [{**deep["anyOf"][0], "anyOf": [{**nested(5), **inner}]}]
    value = {**policy, "spec": {**policy["spec"], "idleWhen": [deep]}}
    assert fits(value, POLICY_KINDS["IdlingPolicy"].document) == validator_of("IdlingPolicy").is_valid(value) == valid
