"""What is told: the status in home, the report's rows, and what `explain` knows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.decide.decisions import Verb
from reconciler.policy.types import ClusterPreference
from tests.builders import a_cluster, change_if_of

from .placements import EVENLY, a_federated, a_fleet_with, a_full, place, row, settled


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


@pytest.mark.parametrize(
    ("total", "preferences", "current", "expected"),
    [
        pytest.param(
            50,
            {"*": weighing(0, 2, 2)},
            {},
            ("minimum 2: no weight, min 2, max 2", ""),
            id="no weight, so no maximum binds",
        ),
        pytest.param(
            12,
            EVENLY | {"c": weighing(1, 0, 4)},
            {},
            ("share 4: weight 1 of 3, max 4", ""),
            id="at a maximum that does not bind",
        ),
        pytest.param(
            14,
            EVENLY | {"c": weighing(1, 0, 4)},
            {},
            ("share 4: weight 1 of 3, max 4", "maxReplicas is above 4"),
            id="at a maximum that binds",
        ),
        pytest.param(
            12, EVENLY | {"c": weighing()}, {"a": 6, "b": 6}, ("no weight", ""), id="all of them are kept elsewhere"
        ),
        pytest.param(
            60, {"*": weighing(0, 20)}, {}, ("minimum 20: no weight, min 20", ""), id="the minimums take all of them"
        ),
        pytest.param(
            4,
            {"*": weighing(9), "c": weighing()},
            {},
            ("no weight", "its weight is higher"),
            id="a weight of 1 would not be enough",
        ),
        pytest.param(
            1,
            {"*": weighing(1), "c": weighing()},
            {},
            ("no weight", "its weight is higher"),
            id="a weight of 1 may not be enough, as others of that weight come first",
        ),
        pytest.param(
            7,
            {"a": weighing(2, 1, 5), "b": weighing(1, 1), "c": weighing(1, 1)},
            {"b": 7},
            ("minimum 1: weight 1 of 4, min 1, weights share what the minimums leave, 4 of 7", ""),
            id="replicas are given up, so the next total gives none here",
        ),
        pytest.param(
            20,
            {"a": weighing(50), "b": weighing(30, 4), "c": weighing(20, 4)},
            {},
            (
                "minimum 4 + share 2: weight 20 of 100, min 4, weights share what the minimums leave, 12 of 20",
                "replicas is 21",
            ),
            id="a weight is a share of what the minimums leave",
        ),
        pytest.param(
            30,
            {"*": weighing(1), "c": weighing(1, 2)},
            {"c": 5},
            (
                "minimum 2 + kept 3 + share 6: weight 1 of 3, min 2, weights share what the minimums leave, 28 of 30",
                "replicas is 31",
            ),
            id="it keeps what it has",
        ),
    ],
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
