"""Any value as JSON can hold it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from pathlib import PurePosixPath

import pytest

from reconciler.plan.model import json_value


class Word(StrEnum):
    ONE = "one"


class Number(IntEnum):
    ONE = 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(None, None, id="nothing"),
        pytest.param(True, True, id="a truth value"),
        pytest.param("a", "a", id="a text"),
        pytest.param(3, 3, id="a number"),
        pytest.param(0.5, 0.5, id="a fraction"),
        pytest.param(math.nan, "NaN", id="not a number"),
        pytest.param(math.inf, "+Inf", id="without end"),
        pytest.param(-math.inf, "-Inf", id="without end, below zero"),
        pytest.param({"b": 1, "a": {2: math.inf}}, {"a": {"2": "+Inf"}, "b": 1}, id="a mapping"),
        pytest.param((1, [2.5, (None,)]), [1, [2.5, [None]]], id="lists"),
        pytest.param({"b", "a"}, ["a", "b"], id="a set"),
        pytest.param(frozenset({2, 10}), [10, 2], id="a set of numbers, by their texts"),
        pytest.param(datetime(2026, 11, 20, 22, tzinfo=UTC), "2026-11-20T22:00:00Z", id="a time"),
        pytest.param(
            datetime(2026, 11, 20, 22, tzinfo=timezone(timedelta(hours=1))), "2026-11-20T21:00:00Z", id="of a zone"
        ),
        pytest.param(timedelta(minutes=1.5), 90.0, id="a duration"),
        pytest.param(Word.ONE, "one", id="a word of a list"),
        pytest.param(Number.ONE, 1, id="a number of a list"),
        pytest.param(PurePosixPath("a/b"), "a/b", id="anything else"),
    ],
)
def test_values(value, expected):
    found = json_value(value)
    assert (found, type(found)) == (expected, type(expected))
