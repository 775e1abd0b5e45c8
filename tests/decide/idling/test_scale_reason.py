"""What `scale.kubernetes.io/scale-reason` and `-time` say, and that what somebody else scaled is theirs."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.decide.idling.restore import Restoration, decide_restore, idle_workloads
from tests.builders import a_fleet, a_ref, a_run, a_service, a_workload, an_hpa
from tests.decide.idling.idling_policies import MONDAY, NIGHT, a_policy, an_idle_world, decided, run_in, verbs, why_of
from tests.decide.idling.world import World, a_world

WEB = a_ref("web")
SERVICE = a_ref("web", kind="Service")
MINUTE = timedelta(minutes=1)
REASON = "scale.kubernetes.io/scale-reason"
TIME = "scale.kubernetes.io/scale-time"
PREVIOUS = "scale.kubernetes.io/previous-scale"
OTHERS = pytest.mark.parametrize("reason", ["Maintenance", "", None], ids=["foreign", "empty", "cleared"])


def taken_over(reason: str | None = "Maintenance") -> World:
    world = an_idle_world()
    world.annotate(WEB, REASON, reason)
    return world


@OTHERS
class TestTakenOver:
    @pytest.mark.parametrize("policies", [(), (a_policy(priority=3, name="other"),)], ids=["", "another policy"])
    def test_nor_does_its_window_wake_it(self, reason, policies):
        world = taken_over(reason)
        world.now = MONDAY
        run_in(world, *policies)
        run_in(world, *policies)
        assert world.replicas(WEB) == 0

    def test_wake_and_restore_find_it(self, reason):
        world = taken_over(reason)
        (found, *_) = idle_workloads(a_fleet(), world.state(), a_run(world.now), lambda ref: ref == WEB)
        assert found.asked.ref == WEB
        world.apply(decide_restore(a_fleet(), world.state(), a_run(world.now), Restoration()).decisions)
        assert world.replicas(WEB) == 3

    def test_explain_says_so(self, reason):
        outcome = decided(taken_over(reason).state(), now=NIGHT)
        assert why_of(outcome) == "scaled by another writer (scale-reason)"
        (told,) = (one for one in outcome.desired.explanations if one.ref == WEB)
        assert told.outcome == "left as it is"


def test_once_its_writer_scales_it_up_it_is_idled_again_another_night():
    world = taken_over()
    run_in(world)
    world.scale(WEB, 4, "maintainer")
    world.now += timedelta(days=7)
    run_in(world)
    annotations = world.objects[WEB].annotations
    assert (world.replicas(WEB), annotations[REASON], world.remembered(WEB)) == (0, "Idled", 4)
    assert annotations[PREVIOUS] == "4"


def test_a_hand_above_the_floor_keeps_its_reason():
    world = taken_over()
    world.annotate(WEB, TIME, "2026-11-20T22:00:40Z")
    world.scale(WEB, 2, "maintainer")
    assert ("release", "Deployment/web") in verbs(run_in(world))
    annotations = world.objects[WEB].annotations
    assert (annotations[REASON], annotations[TIME]) == ("Maintenance", "2026-11-20T22:00:40Z")
    assert PREVIOUS not in annotations  # it is up, and nobody scaled it down


@pytest.mark.parametrize("floor", [1, 2], ids=["below its minimum", "at its minimum"])
def test_what_is_released_to_its_autoscaler_counts_the_same_in_the_next_run(floor):
    """Found by the laws: it counted as up in the run that released it, and as down in the next one."""
    hpa = an_hpa("api")
    api = a_workload("api", replicas=4, template_labels={"app": "web", "part": "api"})
    policy = a_policy(idle_replicas=floor)
    world = a_world(a_service(), a_workload(), api, hpa, now=NIGHT)
    run_in(world, policy)
    world.objects[SERVICE] = replace(world.objects[SERVICE], annotations={})
    world.annotate(api.ref, REASON, "Maintenance")
    run_in(world, policy)
    assert run_in(world, policy).desired.decisions == ()


def test_a_record_without_reason_and_time_is_ours_all_the_same():
    """Neither says anything, as on a record that something else than this version wrote."""
    world = taken_over(None)
    world.annotate(WEB, TIME, None)
    assert run_in(world).desired.decisions == ()
    world.now = MONDAY
    run_in(world)
    assert world.replicas(WEB) == 3


@pytest.mark.parametrize("reason", ["Maintenance", None])
def test_a_reason_that_a_rollout_undo_brought_back_says_nothing_of_today(reason):
    """The ReplicaSet of a revision keeps what its Deployment had one night; undone, it has it again."""
    world = taken_over(reason)
    run_in(world)
    if reason is None:
        world.copies[WEB][0].pop(REASON)
    world.deploy(WEB)
    world.scale(WEB, 3, "maintainer")
    world.now += timedelta(days=7)
    run_in(world)
    old = dict(world.copies[WEB][0])
    assert {"idling.kubernetes.io/idled-at", TIME} <= set(old)
    world.objects[WEB] = replace(world.objects[WEB], annotations=old)
    world.now += MINUTE
    run_in(world)
    world.now = MONDAY + timedelta(days=7)
    run_in(world)
    assert world.replicas(WEB) == 3
