"""Steps that never dip: what a decrease costs, and how much of it a run may do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reconciler.decide.placement.desired_replicas import next_step
from reconciler.decide.placement.local_workloads import LocalWorkload
from tests.builders import a_ref


def a_place(cluster, asked, available):
    return LocalWorkload(cluster, a_ref(cluster=cluster), spec_replicas=asked, available=available)


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
