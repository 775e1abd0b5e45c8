"""JSON Patch against a table, and against an independent model on any document."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.backends.json_patch import equal, patched
from reconciler.errors import RefusedError, StaleError
from reconciler.model import PatchOperation
from tests.laws import tries


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
def test_what_fits(document: Any, given_operation: tuple[Any, ...], expected: Any) -> None:
    before = copy.deepcopy(document)
    assert patched(document, [operation(*given_operation)], "x") == expected
    assert document == before


@pytest.mark.parametrize(
    ("document", "given_operation"),
    [
        pytest.param({"a": 1}, ("test", "/a", 2), id="another value"),
        pytest.param({"a": 1}, ("test", "/a", True), id="one is not true"),
        pytest.param({"a": 0}, ("test", "/a", None), id="zero is not null"),
        pytest.param({"a": 1}, ("test", "/b", 1), id="absent"),
        pytest.param({"a": 1}, ("test", "/b/c", None), id="below what is absent"),
        pytest.param({"a": [1]}, ("test", "/a/1", None), id="behind the end of a list"),
        pytest.param({"a": {"b": 1}}, ("test", "/a", {"b": 1, "c": 2}), id="more keys"),
        pytest.param({"a": [1, 2]}, ("test", "/a", [2, 1]), id="another order"),
        pytest.param({"a": [1]}, ("test", "/a/00", 1), id="a leading zero is no index"),
    ],
)
def test_what_is_stale(document: Any, given_operation: tuple[Any, ...]) -> None:
    with pytest.raises(StaleError):
        patched(document, [operation(*given_operation)], "x")


@pytest.mark.parametrize(
    ("document", "given_operation"),
    [
        pytest.param({}, ("add", "/a/b", 1), id="into what is absent"),
        pytest.param({"a": None}, ("add", "/a/b", 1), id="into null"),
        pytest.param({"a": "x"}, ("add", "/a/b", 1), id="into a text"),
        pytest.param({}, ("remove", "/a"), id="remove what is absent"),
        pytest.param({}, ("replace", "/a", 1), id="replace what is absent"),
        pytest.param([1], ("add", "/2", 1), id="past the end"),
        pytest.param([1], ("replace", "/1", 1), id="replace past the end"),
        pytest.param([1], ("remove", "/-"), id="remove the end"),
        pytest.param([1], ("add", "/01", 1), id="a leading zero"),
        pytest.param([1], ("add", "/" + "9" * 5000, 1), id="an index of too many digits"),
        pytest.param([1], ("add", "/x", 1), id="a word for an index"),
        pytest.param({}, ("remove", ""), id="remove all of it"),
        pytest.param({"a": 1}, ("replace", "a", 2), id="no pointer"),
    ],
)
def test_what_is_refused(document: Any, given_operation: tuple[Any, ...]) -> None:
    with pytest.raises(RefusedError):
        patched(document, [operation(*given_operation)], "x")


KEYS = st.sampled_from(["a", "b", "0", "1", "-", "", "~", "/", "a/b", "~1"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([1.0, 0.5]) | st.sampled_from(["", "a", "1"]),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(KEYS, inside, max_size=3),
    max_leaves=12,
)


class Misfit(Exception):
    """The model's word for an operation that does not fit."""


class Stale(Exception):
    """The model's word for a failed test."""


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


def modelled(document: Any, operations: list[PatchOperation]) -> Any:
    """JSON Patch as RFC 6902 tells it: walk to the parent of a copy, then change it in place."""
    whole = {"root": copy.deepcopy(document)}
    for one in operations:
        names = ["root"]
        if one.path:
            if one.path[0] != "/":
                raise Misfit
            names += [part.replace("~1", "/").replace("~0", "~") for part in one.path[1:].split("/")]
        parent: Any = whole
        error = Stale if one.op == "test" else Misfit
        for name in names[:-1]:
            parent = step(parent, name, error)
        apply_model(parent, names[-1], one, is_root=len(names) == 1)
    return whole["root"]


def step(parent: Any, name: str, error: type[Exception]) -> Any:
    if isinstance(parent, dict) and name in parent:
        return parent[name]
    if isinstance(parent, list) and name in [str(index) for index in range(len(parent))]:
        return parent[int(name)]
    raise error


def apply_model(parent: Any, name: str, one: PatchOperation, is_root: bool) -> None:
    if one.op == "test":
        if isinstance(parent, dict) and name not in parent and one.value is None:
            return
        if leaves(step(parent, name, Stale)) != leaves(one.value):
            raise Stale
        return
    if is_root and one.op == "remove":
        raise Misfit
    if isinstance(parent, dict):
        if one.op != "add" and name not in parent:
            raise Misfit
        parent.pop(name) if one.op == "remove" else parent.update({name: copy.deepcopy(one.value)})
        return
    if not isinstance(parent, list):
        raise Misfit
    places = [str(index) for index in range(len(parent))]
    if one.op == "add" and name in (*places, str(len(parent)), "-"):
        parent.insert(len(parent) if name == "-" else int(name), copy.deepcopy(one.value))
    elif one.op != "add" and name in places:
        parent[int(name) : int(name) + 1] = [] if one.op == "remove" else [copy.deepcopy(one.value)]
    else:
        raise Misfit


@st.composite
def patches(draw: st.DrawFn) -> tuple[Any, list[PatchOperation]]:
    """A document and operations that often point at something in it."""
    document = draw(VALUES)
    paths = [
        "/" + "/".join(str(key).replace("~", "~0").replace("/", "~1") for _, key in path)
        for path in leaves(document)
        if path
    ]
    path = st.sampled_from(["", *paths]) | st.builds(
        lambda start, key: start + "/" + key.replace("~", "~0").replace("/", "~1"), st.sampled_from(["", *paths]), KEYS
    )
    known = st.sampled_from([document]) | VALUES
    kinds = st.sampled_from(["test", "add", "replace", "remove", "add"])
    operations = draw(st.lists(st.builds(operation, kinds, path, known), max_size=5))
    return document, operations


def outcome(document: Any, operations: list[PatchOperation], by_model: bool) -> Any:
    try:
        result = modelled(document, operations) if by_model else patched(document, operations, "x")
    except (Stale, StaleError):
        return "stale"
    except (Misfit, RefusedError):
        return "refused"
    return leaves(result)


@tries(300)
@given(patches())
def test_any_patch_does_what_the_model_does(found: tuple[Any, list[PatchOperation]]) -> None:
    document, operations = found
    before = copy.deepcopy(document)
    assert outcome(document, operations, by_model=False) == outcome(document, operations, by_model=True)
    assert leaves(document) == leaves(before)


@given(VALUES, VALUES)
def test_equal_is_equality_of_json(one: Any, other: Any) -> None:
    assert equal(one, other) == (leaves(one) == leaves(other))
    assert equal(one, copy.deepcopy(one))
