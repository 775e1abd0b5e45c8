"""YAML: what is written is read as it was meant, by readers of 1.1 and of 1.2."""

from __future__ import annotations

import math
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from reconciler.backends.snapshot.yaml_places import KEY, place_of, places
from reconciler.backends.snapshot.yaml_reader import read_yaml
from reconciler.backends.snapshot.yaml_writer import block_text, flow_text
from reconciler.yaml_scalars import plain_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("Null", None), ("nUll", "nUll"),
        ("true", True), ("False", False), ("yes", "yes"), ("on", "on"), ("n", "n"),
        ("0", 0), ("-12", -12), ("+7", 7), ("010", 10), ("0o17", 15), ("0xfF", 255),
        ("0b11", "0b11"), ("1_000", "1_000"),
        ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), ("-1.5E-2", -0.015), ("1.2.3", "1.2.3"),
        (".inf", math.inf), ("-.Inf", -math.inf), ("inf", "inf"),
        ("22:30", "22:30"), ("2026-11-20", "2026-11-20"), ("=", "="),
    ],
)  # fmt: skip
def test_plain_scalars_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    assert plain_value(text) == value
    assert type(plain_value(text)) is type(value)
    documents, faults = read_yaml(f"a: {text}\n")
    assert (documents[0].value, faults) == ({"a": value}, [])


def test_not_a_number() -> None:
    assert math.isnan(plain_value(".NaN"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("!!str 3", "3"), ("! 3", "3"), ('"3"', "3"), ("'on'", "on"), ('!!int "3"', 3), ("!!float 3", 3.0),
        ("!!map {}", {}),
    ],
)  # fmt: skip
def test_tags_and_quotes(text: str, value: Any) -> None:
    documents, faults = read_yaml(f"a: {text}\n")
    assert (documents[0].value, faults) == ({"a": value}, [])


def test_documents_know_where_they_stand() -> None:
    text = "# c\na: 1\n---\n# d\n--- {b: 2} # e\n...\n%YAML 1.2\n---\nc: 3\n"
    documents, faults = read_yaml(text)
    assert faults == []
    assert [text[one.root.start : one.root.end] for one in documents] == ["a: 1", "{b: 2}", "c: 3"]
    assert [text[one.lead : one.root.start] for one in documents] == ["", "--- ", "%YAML 1.2\n---\n"]
    assert [(one.root.line, one.root.column, one.root.flow, one.plain) for one in documents] == [
        (2, 1, False, True),
        (5, 5, True, True),
        (9, 1, False, False),
    ]


def test_places() -> None:
    found = places("a:\n  b: [1, {c: 2}]\n  d:\n")
    assert (found["a", "b", KEY], found["a", "b", 1, "c", KEY]) == ((1, 2), (1, 10))
    assert {path: place for path, place in found.items() if KEY not in path} == {
        (): (0, 0),
        ("a",): (1, 2),
        ("a", "b"): (1, 5),
        ("a", "b", 0): (1, 6),
        ("a", "b", 1): (1, 9),
        ("a", "b", 1, "c"): (1, 13),
        ("a", "d"): (2, 4),
    }
    assert place_of(found, ("a", "b", 1, "x", "y")) == (1, 9)
    assert place_of(places("a: ["), ("b",)) == (0, 0)


AWKWARD = """
22:30 on 3 0x1f 0X1F 1e3 08 y null ~ - ? : , [ { # | > @ ` % & * ! --- ... << = 2026-11-20 2026-11-20T15:40:00Z 1_000
.5 5. +1 0o7 0O7 0b1 190:20:30 190:20:30.15 .inf -.INF NaN .nan true TRUE no off Y a:b a: #c -x é
""".strip().split()
BROKEN = [
    "a: b",
    "- x",
    "a\nb",
    "a\n",
    "\n",
    "a\n\n",
    "a \nb",
    "\ta",
    " a",
    "a ",
    "a\r\nb",
    "a\rb",
    "\n a",
    "a\n\n\nb\n",
    " ",
    "a #b",
]
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12) | st.sampled_from(AWKWARD + BROKEN)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=10,
)


def same(one: Any, other: Any) -> bool:
    """Equal, of the same types, keys in the same order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@settings(max_examples=400)
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_what_is_written_is_read_again(value: dict[str, Any]) -> None:
    documents, faults = read_yaml(block_text(value))
    assert faults == []
    assert same(documents[0].value, value)
    line = flow_text(value)
    assert "\n" not in line
    documents, faults = read_yaml(f"[{line}]")
    assert faults == []
    assert same(documents[0].value, [value])


@settings(max_examples=400)
@given(st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=4))
def test_texts_stay_texts_for_readers_of_yaml_1_1(value: dict[str, str]) -> None:
    assert yaml.load(block_text(value), yaml.SafeLoader) == value


def test_manifests_look_as_people_write_them() -> None:
    value = {
        "at": "2026-11-20T15:41:23Z",
        "version": "1.2.3",
        "uid": "0b7e0c70-7d0c",
        "text": "a\nb\n",
        "list": [{"a": 1}],
    }
    assert block_text(value) == (
        'at: "2026-11-20T15:41:23Z"\nversion: 1.2.3\nuid: 0b7e0c70-7d0c\ntext: |\n  a\n  b\nlist:\n- a: 1\n'
    )


@settings(max_examples=300)
@given(st.text(max_size=80) | st.text(alphabet="ab:-[]{}&*!|>'\"#%\n \t,?<", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    text = text.encode(errors="ignore").decode()
    documents, faults = read_yaml(text)
    lines = text.count("\n") + text.count("\r") + 2
    assert all(
        1 <= fault.line <= lines + text.count("\x85") + text.count("\u2028") + text.count("\u2029") for fault in faults
    )
    assert all(0 <= one.lead <= one.root.start <= one.root.end <= len(text) for one in documents)
