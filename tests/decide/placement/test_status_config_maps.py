"""What one run tells the next: the room of a full cluster, refused writes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reconciler.decide.annotations import ObservedCapacity
from reconciler.decide.placement.status import read_rejection, rejection_after_failure
from tests.builders import NOW, a_ref

from .placements import (
    a_deployment,
    a_federated,
    a_full,
    a_local,
    a_placed,
    about,
    ago,
    numbers,
    place,
    settled,
    some_pods,
    with_pods,
)

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
