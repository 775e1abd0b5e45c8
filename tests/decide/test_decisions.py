"""What a decision takes away, and what its cluster must allow for it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.decide.decisions import Phase
from reconciler.policy.types import Writes
from tests.plan.decisions import a_decision


@pytest.mark.parametrize(
    ("before", "after", "removed"), [(3, 1, 2), (3, 3, 0), (1, 3, 0), (3, None, 0), (None, 3, 0), (None, None, 0)]
)
def test_what_it_removes(before, after, removed):
    assert replace(a_decision(), replicas_before=before, replicas_after=after).removed == removed


@pytest.mark.parametrize("job", ["idling", "placement"])
@pytest.mark.parametrize("phase", Phase)
def test_a_frozen_cluster_takes_wakes_records_and_the_repairs_of_what_is_idle(job, phase):
    goes_on = phase in {Phase.WAKE, Phase.RECORD} | ({Phase.REPAIR} if job == "idling" else set())
    assert a_decision(job=job, phase=phase).writes is (Writes.WAKES if goes_on else Writes.EVERYTHING)
