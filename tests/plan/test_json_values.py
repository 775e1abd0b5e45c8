"""Any value as JSON can hold it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from enum import IntEnum, StrEnum
from pathlib import PurePosixPath

from reconciler.plan.model import json_value
from tests.cases import cases


class Word(StrEnum):
    ONE = "one"


class Number(IntEnum):
    ONE = 1


@cases(
    "value expected",
    ("nothing", None, None),
    ("a truth value", True, True),
    ("a text", "a", "a"),
    ("a number", 3, 3),
    ("a fraction", 0.5, 0.5),
    ("not a number", math.nan, "NaN"),
    ("without end", math.inf, "+Inf"),
    ("without end, below zero", -math.inf, "-Inf"),
    ("a mapping", {"b": 1, "a": {2: math.inf}}, {"a": {"2": "+Inf"}, "b": 1}),
    ("lists", (1, [2.5, (None,)]), [1, [2.5, [None]]]),
    ("a set", {"b", "a"}, ["a", "b"]),
    ("a set of numbers, by their texts", frozenset({2, 10}), [10, 2]),
    ("a time", datetime(2026, 11, 20, 22, tzinfo=UTC), "2026-11-20T22:00:00Z"),
    ("of a zone", datetime(2026, 11, 20, 22, tzinfo=timezone(timedelta(hours=1))), "2026-11-20T21:00:00Z"),
    ("a duration", timedelta(minutes=1.5), 90.0),
    ("a word of a list", Word.ONE, "one"),
    ("a number of a list", Number.ONE, 1),
    ("anything else", PurePosixPath("a/b"), "a/b"),
)
def test_values(value, expected):
    found = json_value(value)
    assert (found, type(found)) == (expected, type(expected))
