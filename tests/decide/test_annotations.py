"""The small texts in annotations, as anybody may have written them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from reconciler.decide.annotations import (
    ObservedCapacity,
    parse_kube_downscaler_time,
    parse_time,
    quoted,
    read_capacity,
)
from tests.cases import cases

AT = datetime(2026, 11, 20, 22, tzinfo=UTC)


@cases(
    "text shown",
    ("absent", None, "absent"),
    ("empty", "", '""'),
    ("the longest", "a" * 60, f'"{"a" * 60}"'),
    ("longer", "a" * 61, f'"{"a" * 60}..."'),
)
def test_what_is_quoted_is_cut(text, shown):
    assert quoted(text) == shown


@pytest.mark.parametrize(
    ("text", "year"),
    [
        ("1969-12-31T23:59:59Z", None),
        ("1970-01-01T00:00:00Z", 1970),
        ("1970-01-01T00:00:00+01:00", None),
        ("9000-12-31T23:59:59Z", 9000),
        ("9001-01-01T00:00:00Z", None),
        ("2026-11-20T22:00:00", None),
        (" 2026-11-20t22:00:00.5z ", 2026),
        ("2026-W47-5T22:00:00Z", None),
        ("20261120T220000Z", None),
        ("2026-11-20T22Z", None),
        ("2026-11-20T22:00Z", 2026),
        ("2026-11-20 22:00:00+0100", 2026),
        ("2026-11-20T22:00:00+24:00", None),
    ],
)
def test_a_time_that_can_be_counted_with(text, year):
    found = parse_time(text)
    assert (None if found is None else found.year) == year


@pytest.mark.parametrize(
    "text", ["2026-12-01T00:00:00Z", "2026-12-01T00:00", "2026-12-01 00:00", "2026-12-01", "2026-12-1 0:00"]
)
def test_the_times_of_kube_downscaler(text):
    assert parse_kube_downscaler_time(text) == datetime(2026, 12, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("replicas", "is_read"),
    [(0, True), (2147483647, True), (2147483648, False), (-1, False), (True, False), (1.0, False), ("1", False)],
)
def test_the_capacity_of_a_cluster(replicas, is_read):
    text = json.dumps({"replicas": replicas, "at": "2026-11-20T22:00:00Z"})
    expected = ObservedCapacity(replicas, AT) if is_read else None
    assert read_capacity({"reconciler/observed-capacity": text}) == expected
