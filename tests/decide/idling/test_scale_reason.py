"""What `scale.kubernetes.io/scale-reason` and `-time` say, and that what somebody else scaled is theirs."""

from __future__ import annotations

import pytest

from reconciler.decide.idling.restore import Restoration, decide_restore, idle_workloads
from tests.builders import a_fleet, a_ref, a_run
from tests.decide.idling.idling_policies import NIGHT, an_idle_world, decided, why_of
from tests.decide.idling.world import World

WEB = a_ref("web")
REASON = "scale.kubernetes.io/scale-reason"
OTHERS = pytest.mark.parametrize("reason", ["Maintenance", "", None], ids=["foreign", "empty", "cleared"])


def taken_over(reason: str | None = "Maintenance") -> World:
    world = an_idle_world()
    world.annotate(WEB, REASON, reason)
    return world


@OTHERS
class TestTakenOver:
    def test_explain_says_so(self, reason):
        outcome = decided(taken_over(reason).state(), now=NIGHT)
        assert why_of(outcome) == "scaled by another writer (scale-reason)"
        (told,) = (one for one in outcome.desired.explanations if one.ref == WEB)
        assert told.outcome == "left as it is"

    def test_wake_and_restore_find_it(self, reason):
        world = taken_over(reason)
        (found, *_) = idle_workloads(a_fleet(), world.state(), a_run(world.now), lambda ref: ref == WEB)
        assert found.asked.ref == WEB
        world.apply(decide_restore(a_fleet(), world.state(), a_run(world.now), Restoration()).decisions)
        assert world.replicas(WEB) == 3
