"""The small texts in annotations, as anybody may have written them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from reconciler.decide.annotations import (
    ObservedCapacity,
    capacity_owner,
    idling_owner,
    idling_owner_key,
    parse_kube_downscaler_time,
    parse_time,
    placement_owner,
    quoted,
    read_capacity,
    whole_number,
)
from reconciler.errors import AnnotationError

AT = datetime(2026, 11, 20, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "least", "number"),
    [
        ("0", 0, 0),
        ("0", 1, None),
        ("1", 1, 1),
        ("007", 0, 7),
        ("2147483647", 0, 2147483647),
        ("2147483648", 0, None),
        ("9" * 5000, 0, None),
        ("-1", 0, None),
        ("1.0", 0, None),
        ("\u0663", 0, None),
        ("many", 0, None),
        ("", 0, None),
        (None, 0, None),
    ],
)
def test_a_whole_number(text, least, number):
    if number is not None:
        assert whole_number(text, "x", least) == number
        return
    with pytest.raises(
        AnnotationError, match=f"x is .*, expected a whole number of at (least {least}|most 2147483647)$"
    ):
        whole_number(text, "x", least)


@pytest.mark.parametrize(
    ("text", "shown"),
    [(None, "absent"), ("", '""'), ("a" * 60, f'"{"a" * 60}"'), ("a" * 61, f'"{"a" * 60}..."')],
    ids=["absent", "empty", "the longest", "longer"],
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
    ("annotations", "owner", "key"),
    [
        ({}, None, "reconciler/owner"),
        ({"reconciler/owner": "a/IdlingPolicy/b"}, ("a", "b"), "reconciler/owner"),
        ({"reconciler/owner": "a/IdlingPolicy/b/c"}, ("a", "b/c"), "reconciler/owner"),
        ({"reconciler/owner": "a/IdlingPolicy"}, None, "reconciler/idling-owner"),
        ({"reconciler/owner": "a/FederatedReplicaSet/b/c"}, None, "reconciler/idling-owner"),
        (
            {"reconciler/owner": "a/FederatedReplicaSet/b/c", "reconciler/idling-owner": "d/IdlingPolicy/e"},
            ("d", "e"),
            "reconciler/idling-owner",
        ),
    ],
)
def test_the_idling_policy_that_owns_the_marks(annotations, owner, key):
    assert (idling_owner(annotations), idling_owner_key(annotations)) == (owner, key)


@pytest.mark.parametrize(
    ("text", "owner"),
    [
        ("a/FederatedReplicaSet/b/c", ("a", "b/c")),
        ("a/FederatedReplicaSet/", None),
        ("a/IdlingPolicy/b", None),
        ("a", None),
    ],
)
def test_the_federated_replica_set_that_owns_an_object(text, owner):
    assert placement_owner({"reconciler/owner": text}) == owner
    assert capacity_owner({"reconciler/observed-capacity": json.dumps({"owner": text})}) == owner


@pytest.mark.parametrize(
    ("replicas", "is_read"),
    [(0, True), (2147483647, True), (2147483648, False), (-1, False), (True, False), (1.0, False), ("1", False)],
)
def test_the_capacity_of_a_cluster(replicas, is_read):
    text = json.dumps({"replicas": replicas, "at": "2026-11-20T22:00:00Z"})
    expected = ObservedCapacity(replicas, AT) if is_read else None
    assert read_capacity({"reconciler/observed-capacity": text}) == expected
