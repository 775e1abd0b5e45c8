"""What a decision takes away, and what its cluster must allow for it."""

from __future__ import annotations

import pytest

from reconciler.decide.decisions import Phase
from reconciler.policy.types import Writes
from tests.plans import a_decision


@pytest.mark.parametrize("job", ["idling", "placement"])
@pytest.mark.parametrize("phase", Phase)
def test_a_frozen_cluster_takes_wakes_records_and_the_repairs_of_what_is_idle(job, phase):
    goes_on = phase in {Phase.WAKE, Phase.RECORD} | ({Phase.REPAIR} if job == "idling" else set())
    assert a_decision(job=job, phase=phase).writes is (Writes.WAKES if goes_on else Writes.EVERYTHING)
