"""A real API server takes the Events of the Fleet from our ServiceAccount, under its admission policies."""

from __future__ import annotations

import pytest

from tests.live.stage import Stage
from tests.real import faults
from tests.real.proxy import is_any

pytestmark = pytest.mark.real

EVENTS = "/api/v1/namespaces/reconciler/events"


def test_a_lost_cluster_is_an_event_whose_count_is_raised(stage: Stage) -> None:
    stage.proxies["west"].rule(faults.answer(500), matching=is_any, times=None)
    for count in (1, 2):
        said = stage.apply("--timeout", "16")
        assert "no Event" not in said.err
        found = stage.planes["east"].api.get(EVENTS)["items"]
        [event] = [one for one in found if one["involvedObject"]["kind"] == "Fleet"]
        assert (event["reason"], event["count"]) == ("ClusterUnknown", count)
        assert event["message"].startswith("west: ")
