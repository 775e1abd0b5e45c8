"""What is told: the status in home, the report's rows, and what `explain` knows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.decide.annotations import ObservedCapacity
from reconciler.decide.decisions import Verb
from reconciler.decide.placement.recorded_status import read_rejection, rejection_after_failure
from reconciler.policy.types import ClusterPreference
from tests.builders import NOW, a_cluster, a_ref, change_if_of
from tests.cases import cases

from .placements import (
    EVENLY,
    a_deployment,
    a_federated,
    a_fleet_with,
    a_full,
    a_local,
    a_placed,
    about,
    ago,
    numbers,
    place,
    row,
    settled,
    some_pods,
    with_pods,
)


@pytest.mark.parametrize(("state", "expected"), [("ReadOnly", []), ("Frozen", [(Verb.REMEMBER, "east", "ConfigMap")])])
def test_a_frozen_home_keeps_its_records_and_a_read_only_one_keeps_none(state, expected):
    fleet = replace(a_fleet_with(state, "west", "east"), home="east")
    written = place(settled("east", 6), lost=("west",), fleet=fleet).decisions
    assert sorted({(one.verb, one.ref.cluster, one.ref.kind) for one in written}) == expected


def test_no_more_wait_at_a_full_cluster_than_it_would_get_if_there_was_room():
    desired = place(settled("a", 5), a_full("d", 5, 3), federated=a_federated(8))
    assert row(desired, "d").why == "weight 1 of 2, capacity 3, 1 waiting"


def weighing(weight=0, least=0, most=None):
    return ClusterPreference(least, most, weight)


@cases(
    "total preferences current expected",
    ("no weight, so no maximum binds", 50, {"*": weighing(0, 2, 2)}, {}, ("minimum 2: no weight, min 2, max 2", "")),
    (
        "at a maximum that does not bind",
        12,
        EVENLY | {"c": weighing(1, 0, 4)},
        {},
        ("share 4: weight 1 of 3, max 4", ""),
    ),
    (
        "at a maximum that binds",
        14,
        EVENLY | {"c": weighing(1, 0, 4)},
        {},
        ("share 4: weight 1 of 3, max 4", "maxReplicas is above 4"),
    ),
    ("all of them are kept elsewhere", 12, EVENLY | {"c": weighing()}, {"a": 6, "b": 6}, ("no weight", "")),
    ("the minimums take all of them", 60, {"*": weighing(0, 20)}, {}, ("minimum 20: no weight, min 20", "")),
    (
        "a weight of 1 would not be enough",
        4,
        {"*": weighing(9), "c": weighing()},
        {},
        ("no weight", "its weight is higher"),
    ),
    (
        "a weight of 1 may not be enough, as others of that weight come first",
        1,
        {"*": weighing(1), "c": weighing()},
        {},
        ("no weight", "its weight is higher"),
    ),
    (
        "replicas are given up, so the next total gives none here",
        7,
        {"a": weighing(2, 1, 5), "b": weighing(1, 1), "c": weighing(1, 1)},
        {"b": 7},
        ("minimum 1: weight 1 of 4, min 1, weights share what the minimums leave, 4 of 7", ""),
    ),
    (
        "a weight is a share of what the minimums leave",
        20,
        {"a": weighing(50), "b": weighing(30, 4), "c": weighing(20, 4)},
        {},
        (
            "minimum 4 + share 2: weight 20 of 100, min 4, weights share what the minimums leave, 12 of 20",
            "replicas is 21",
        ),
    ),
    (
        "it keeps what it has",
        30,
        {"*": weighing(1), "c": weighing(1, 2)},
        {"c": 5},
        (
            "minimum 2 + kept 3 + share 6: weight 1 of 3, min 2, weights share what the minimums leave, 28 of 30",
            "replicas is 31",
        ),
    ),
)
def test_explain_names_only_what_would_change_the_number(total, preferences, current, expected):
    federated = a_federated(total, clusters=preferences, rebalance=False)
    clusters = [settled(name, current[name]) if name in current else a_cluster(name) for name in "abc"]
    told = {one.ref.cluster: (one.why, change_if_of(one)) for one in place(*clusters, federated=federated).explanations}
    assert told["c"] == expected


def test_the_next_total_is_the_one_at_which_the_cluster_gets_one_more():
    fleet = [f"c{number}" for number in range(7)]
    clusters = {name: ClusterPreference(weight=number % 3 + 1) for number, name in enumerate(fleet)}

    def given(total):
        desired = place(*(a_cluster(name) for name in fleet), federated=a_federated(total, clusters=clusters))
        return {row.cluster: row.desired for row in desired.placements[0].rows}, desired.explanations

    numbers_now, told = given(23)
    for one in told:
        total = int(change_if_of(one).removeprefix("replicas is "))
        assert given(total)[0][one.ref.cluster] == numbers_now[one.ref.cluster] + 1
        assert given(total - 1)[0][one.ref.cluster] == numbers_now[one.ref.cluster]


# What one run tells the next: the room of a full cluster, refused writes.

CAPACITY = "reconciler/observed-capacity"


def known(replicas, at=NOW, **fields):
    """The annotation of a cluster known to hold `replicas`."""
    marks = a_local("west", 1).annotations
    return {"annotations": {**marks, CAPACITY: ObservedCapacity(replicas, at, **fields).text}}


def written(desired, cluster="west"):
    """What a run writes about the room of `cluster`: the text, None to forget it, "" where nothing is."""
    for decision in about(desired, cluster):
        for change in decision.changes:
            if change.path[-1] == CAPACITY and change.before != change.after:
                return change.after
    return ""


class TestCapacity:
    def test_what_is_stuck_is_written_down_with_the_replicas(self):
        desired = place(settled("east", 5), a_full("west", 5, 1), federated=a_federated(10))
        assert written(desired) == '{"at":"2026-11-20T15:41:23Z","replicas":1}'
        assert len(about(desired, "west")) == 1

    def test_it_is_forgotten_when_it_does_not_bind(self):
        west = with_pods(settled("west", 3, **known(3)), some_pods(3))
        assert written(place(settled("east", 3), west)) is None

    def test_a_target_remembers_whose_it_is(self):
        status = {"ready_replicas": 1, "available_replicas": 1}
        west = with_pods(settled("west", 5, **status, made=a_deployment), some_pods(1, 4))
        east = settled("east", 5, made=a_deployment)
        desired = place(east, west, federated=a_placed(10))
        assert written(desired) == (
            '{"at":"2026-11-20T15:41:23Z","owner":"production/FederatedReplicaSet/shop/web","replicas":1}'
        )

    def test_it_grows_with_each_waiting_replica_that_got_a_node(self):
        west = a_full("west", 3, 2, **known(1))
        desired = place(settled("east", 9), west, federated=a_federated(10))
        assert written(desired) == '{"at":"2026-11-20T15:41:23Z","replicas":2}'
        assert numbers(desired) == {"east": "scale 9 -> 8", "west": "scale 3 -> 4"}


class TestProbes:
    """With `waitingReplicas: 0` one replica is tried at the retry time, and nothing else is touched for that."""

    federated = a_federated(10, waiting_replicas=0)

    @pytest.mark.parametrize(("minutes", "expected"), [(1, {}), (0, {"west": "scale 1 -> 2"})])
    def test_one_replica_tries_when_the_time_has_come(self, minutes, expected):
        retry = NOW + timedelta(minutes=minutes)
        west = with_pods(settled("west", 1, **known(1, ago(minutes=5), retry_after=retry)), some_pods(1))
        desired = place(settled("east", 9), west, federated=self.federated)
        assert (numbers(desired), written(desired)) == (expected, "")

    def test_while_it_waits_for_less_than_allowed_it_stays(self):
        west = a_full("west", 2, 1, minutes=3, **known(1, ago(minutes=8), retry_after=ago(minutes=3)))
        desired = place(settled("east", 9), west, federated=self.federated)
        assert (numbers(desired), written(desired)) == ({}, "")


class TestRejections:
    def test_from_the_third_in_a_row_on_there_is_a_retry_time(self):
        text, retries = None, []
        at = NOW
        for _ in range(8):
            text = rejection_after_failure(text, a_ref(), "exceeded quota", at)
            kept = read_rejection(text)
            retries.append(None if kept.retry_after is None else (kept.retry_after - at) // timedelta(minutes=1))
            at = kept.retry_after or at + timedelta(minutes=1)
        assert retries == [None, None, 5, 10, 20, 40, 60, 60]
        assert (kept.count, kept.why) == (8, "exceeded quota")
        assert '"since":"2026-11-20T15:41:23Z"' in text

    @pytest.mark.parametrize("text", [None, "", "{", "[]", '{"count":"3"}', '{"count":3}'])
    def test_what_cannot_be_read_counts_as_none(self, text):
        assert read_rejection(text) is None
        assert read_rejection(rejection_after_failure(text, a_ref(), "no", NOW)).count == 1
