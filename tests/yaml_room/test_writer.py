"""YAML: what is written is read as it was meant, by readers of 1.1 and of 1.2."""

from __future__ import annotations

import math
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from reconciler.yaml.reader import plain_value, read_documents
from reconciler.yaml.writer import block_text, flow_text
from tests.laws import tries


def only(text: str) -> Any:
    """The value of the only document of `text`."""
    read = read_documents("a.yaml", text)
    assert (len(read.found), read.problems) == (1, [])
    return read.found[0].value


def test_numbers_that_json_does_not_have() -> None:
    assert math.isnan(plain_value(".NaN"))
    assert (plain_value(".inf"), plain_value("-.Inf")) == (math.inf, -math.inf)


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
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
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


@tries(200)
@given(st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4))
def test_what_is_written_is_read_again(value: dict[str, Any]) -> None:
    assert same(only(block_text(value)), value)
    line = flow_text(value)
    assert "\n" not in line
    assert same(only(f"[{line}]"), [value])


@tries(200)
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
