"""JSON Patch against a table, and against an independent model on any document."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.patched_values import equal, patched
from reconciler.errors import RefusedError, StaleError
from reconciler.model import PatchOperation


def operation(op: Any, path: str, value: Any = None) -> PatchOperation:
    return PatchOperation(op, path, value)


@pytest.mark.parametrize(
    ("document", "given_operation", "expected"),
    [
        pytest.param({"a": 1}, ("add", "/b", 2), {"a": 1, "b": 2}, id="add a key"),
        pytest.param({"a": 1}, ("add", "/a", 2), {"a": 2}, id="add over a key"),
        pytest.param(
            {"a": {"b/c": {"d~e": 1}}}, ("replace", "/a/b~1c/d~0e", 2), {"a": {"b/c": {"d~e": 2}}}, id="escapes"
        ),
        pytest.param({"~1": 1}, ("remove", "/~01"), {}, id="an escaped tilde is no slash"),
        pytest.param({"": 1}, ("replace", "/", 2), {"": 2}, id="the empty key"),
        pytest.param([1, 3], ("add", "/1", 2), [1, 2, 3], id="into a list"),
        pytest.param([1], ("add", "/1", 2), [1, 2], id="behind the last"),
        pytest.param([1], ("add", "/-", 2), [1, 2], id="at the end"),
        pytest.param([1, 2, 3], ("remove", "/1"), [1, 3], id="out of a list"),
        pytest.param([1, [2]], ("replace", "/1/0", 3), [1, [3]], id="inside a list"),
        pytest.param({"a": 1}, ("replace", "", [2]), [2], id="all of it"),
        pytest.param({"a": None}, ("replace", "/a", 1), {"a": 1}, id="over null"),
        pytest.param({"a": {"b": 1}}, ("test", "/a", {"b": 1.0}), {"a": {"b": 1}}, id="numbers are equal by value"),
        pytest.param({"a": 1}, ("test", "/b", None), {"a": 1}, id="absent is null"),
        pytest.param({"a": None}, ("test", "/a", None), {"a": None}, id="null is null"),
    ],
)
def test_what_fits(document, given_operation, expected):
    before = copy.deepcopy(document)
    assert patched(document, [operation(*given_operation)], "x") == expected
    assert document == before


def test_a_mapping_that_a_patch_empties_takes_what_it_adds():
    operations = [operation("remove", "/a/b"), operation("remove", "/a/c"), operation("add", "/a/d", 1)]
    assert patched({"a": {"b": 1, "c": 2}}, operations, "x") == {"a": {"d": 1}}


@pytest.mark.parametrize(
    ("document", "given_operation", "error"),
    [
        pytest.param({"a": 1}, ("test", "/a", 2), StaleError, id="another value"),
        pytest.param({"a": 1}, ("test", "/a", True), StaleError, id="one is not true"),
        pytest.param({"a": 0}, ("test", "/a", None), StaleError, id="zero is not null"),
        pytest.param({"a": 1}, ("test", "/b", 1), StaleError, id="absent"),
        pytest.param({"a": 1}, ("test", "/b/c", None), StaleError, id="below what is absent"),
        pytest.param({"a": [1]}, ("test", "/a/1", None), StaleError, id="behind the end of a list"),
        pytest.param({"a": {"b": 1}}, ("test", "/a", {"b": 1, "c": 2}), StaleError, id="more keys"),
        pytest.param({"a": [1, 2]}, ("test", "/a", [2, 1]), StaleError, id="another order"),
        pytest.param({"a": [1]}, ("test", "/a/00", 1), StaleError, id="a leading zero is no index"),
        pytest.param({}, ("add", "/a/b", 1), RefusedError, id="into what is absent"),
        pytest.param({"a": None}, ("add", "/a/b", 1), RefusedError, id="into null"),
        pytest.param({"a": "x"}, ("add", "/a/b", 1), RefusedError, id="into a text"),
        pytest.param({}, ("remove", "/a"), RefusedError, id="remove what is absent"),
        pytest.param({}, ("replace", "/a", 1), RefusedError, id="replace what is absent"),
        pytest.param([1], ("add", "/2", 1), RefusedError, id="past the end"),
        pytest.param([1], ("replace", "/1", 1), RefusedError, id="replace past the end"),
        pytest.param([1], ("remove", "/-"), RefusedError, id="remove the end"),
        pytest.param([1], ("add", "/01", 1), RefusedError, id="a leading zero"),
        pytest.param([1], ("add", "/" + "9" * 5000, 1), RefusedError, id="an index of too many digits"),
        pytest.param([1], ("add", "/x", 1), RefusedError, id="a word for an index"),
        pytest.param({}, ("remove", ""), RefusedError, id="remove all of it"),
        pytest.param({"a": 1}, ("replace", "a", 2), RefusedError, id="no pointer"),
    ],
)
def test_what_is_stale_or_refused(document, given_operation, error):
    with pytest.raises(error):
        patched(document, [operation(*given_operation)], "x")


KEYS = st.sampled_from(["a", "b", "0", "1", "-", "", "~", "/", "a/b", "~1"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([1.0, 0.5]) | st.sampled_from(["", "a", "1"]),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=3),
    max_leaves=12,
)


def leaves(value: Any, at: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], Any]:
    """A document as a flat map: path -> leaf; collections are leaves that say their kind and their size."""
    if isinstance(value, dict):
        found: dict[tuple[Any, ...], Any] = {at: ("mapping", frozenset(value))}
        for key, inside in value.items():
            found |= leaves(inside, (*at, ("key", key)))
        return found
    if isinstance(value, list):
        found = {at: ("list", len(value))}
        for index, inside in enumerate(value):
            found |= leaves(inside, (*at, ("index", index)))
        return found
    return {
        at: ("number", float(value))
        if isinstance(value, int | float) and not isinstance(value, bool)
        else (type(value), value)
    }


@given(VALUES, VALUES)
def test_equal_is_equality_of_json(one, other):
    assert equal(one, other) == (leaves(one) == leaves(other))
    assert equal(one, copy.deepcopy(one))
