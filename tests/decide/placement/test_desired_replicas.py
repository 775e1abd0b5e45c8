"""Steps that never dip: what a decrease costs, and how much of it a run may do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.decide.placement.desired_replicas import next_step
from reconciler.decide.placement.local_workloads import LocalWorkload
from tests.builders import a_ref


def a_place(cluster, asked, available):
    return LocalWorkload(cluster, a_ref(cluster=cluster), spec_replicas=asked, available=available)


@pytest.mark.parametrize(
    ("now", "targets", "expected"),
    [
        pytest.param({"a": (5, 5), "b": (5, 5)}, {"a": 2, "b": 8}, {"a": 5, "b": 8}, id="increase first"),
        pytest.param({"a": (5, 5), "b": (8, 8)}, {"a": 2, "b": 8}, {"a": 2, "b": 8}, id="then the decrease"),
        pytest.param({"a": (5, 5), "b": (8, 6)}, {"a": 2, "b": 8}, {"a": 4, "b": 8}, id="as far as is available"),
        pytest.param({"a": (5, 0), "b": (8, 0)}, {"a": 2, "b": 8}, {"a": 2, "b": 8}, id="what does not run is free"),
        pytest.param({"a": (9, 4), "b": (8, 6)}, {"a": 2, "b": 8}, {"a": 4, "b": 8}, id="free down to what runs"),
        pytest.param({"a": (5, 5), "b": (9, 9)}, {"a": 0, "b": 10}, {"a": 1, "b": 10}, id="bounded in one cluster"),
        pytest.param(
            {"a": (4, 4), "b": (7, 7), "c": (3, 3)},
            {"a": 2, "b": 2, "c": 6},
            {"a": 4, "b": 3, "c": 6},
            id="largest first",
        ),
        pytest.param({"a": (5, 5), "b": (0, 0)}, {"a": 0, "b": 1}, {"a": 1, "b": 1}, id="a single one is needed too"),
        pytest.param({"a": (5, 5), "b": (5, 5)}, {"a": 0, "b": 0}, {"a": 0, "b": 0}, id="to nothing at once"),
    ],
)
def test_next_step(now, targets, expected):
    placed = [a_place(cluster, *numbers) for cluster, numbers in now.items()]
    available = sum(one.available for one in placed)
    assert next_step(placed, targets, available, sum(targets.values())) == expected


replicas = st.integers(0, 20)


@given(st.lists(st.tuples(replicas, replicas, replicas), min_size=1, max_size=6), st.integers(1, 60), replicas)
def test_a_step_never_costs_what_is_needed(places, wanted, elsewhere):
    placed = [a_place(str(at), asked, min(asked, runs)) for at, (asked, runs, _) in enumerate(places)]
    targets = {str(at): target for at, (_, _, target) in enumerate(places)}
    available = elsewhere + sum(one.available for one in placed)
    step = next_step(placed, targets, available, wanted)
    left = elsewhere + sum(min(one.available, step[one.cluster]) for one in placed)
    assert left >= min(available, wanted)
    for one in placed:
        least, most = sorted((one.spec_replicas, targets[one.cluster]))
        assert least <= step[one.cluster] <= most
