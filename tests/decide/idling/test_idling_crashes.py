"""Killed between any two writes: the next run knows what to do."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.decide.decisions import Verb
from tests.builders import a_ref, a_service, a_workload
from tests.decide.idling.idling_policies import MONDAY, NIGHT, NOON, a_policy, an_idle_world, decided, run_in, verbs
from tests.decide.idling.world import a_world

WEB = a_ref("web")
SERVICE = a_ref("web", kind="Service")
MINUTE = timedelta(minutes=1)


def marks(world, ref=SERVICE):
    prefixes = ("idling.kubernetes.io/", "scale.kubernetes.io/scale-reason", "reconciler/owner", "reconciler/wake-due")
    return sorted(key for key in world.objects[ref].annotations if key.startswith(prefixes))


def test_the_service_is_marked_before_anything_is_scaled():
    mark, idle = decided(a_world(a_service(), a_workload(), now=NIGHT).state()).desired.decisions
    assert (mark.verb, idle.verb, idle.needs) == (Verb.RECORD, Verb.IDLE, (mark.key,))
    assert mark.group == idle.group == "idling/east/shop/Service/web"


def test_a_mark_that_fails_removes_its_scalables_from_the_run():
    world = a_world(a_service(), a_workload(), now=NIGHT)
    world.apply(decided(world.state()).desired.decisions, refuse=frozenset({0}))
    assert world.replicas(WEB) == 3
    assert world.writes == 0


def test_the_record_and_the_replicas_are_one_request():
    _, idle = decided(a_world(a_service(), a_workload(), now=NIGHT).state()).desired.decisions
    paths = {change.path for change in idle.changes}
    assert ("spec", "replicas") in paths
    assert ("metadata", "annotations", "idling.kubernetes.io/previous-scale") in paths


class TestAfterAMarkOnTheServiceOnly:
    """The crash came after the first write of an idle."""

    def world(self):
        world = a_world(a_service(), a_workload(), now=NIGHT)
        run_in(world, writes=1)
        assert marks(world)
        assert world.replicas(WEB) == 3
        return world

    def test_it_is_finished(self):
        world = self.world()
        world.now += MINUTE
        run_in(world)
        assert world.replicas(WEB) == 0
        assert world.remembered(WEB) == 3
        assert run_in(world).desired.decisions == ()

    def test_with_the_number_it_has_by_then(self):
        world = self.world()
        world.scale(WEB, 5)
        world.now += MINUTE
        run_in(world)
        assert world.remembered(WEB) == 5
        world.now = MONDAY
        run_in(world)
        assert world.replicas(WEB) == 5

    def test_or_cleared_where_it_is_not_to_be_idled_any_more(self):
        world = self.world()
        world.now = MONDAY
        assert verbs(run_in(world)) == [("clear", "Service/web")]
        assert marks(world) == []

    def test_or_cleared_after_a_signal(self):
        world = self.world()
        world.now += MINUTE
        world.need_pods(SERVICE)
        assert verbs(run_in(world)) == [("repair", "Deployment/web"), ("clear", "Service/web")]
        assert run_in(world).desired.decisions == ()  # it counts as woken now
        assert world.replicas(WEB) == 3

    def test_or_cleared_where_the_object_is_gone(self):
        world = self.world()
        del world.objects[WEB]
        assert verbs(run_in(world)) == [("clear", "Service/web")]

    def test_a_new_object_of_that_name_starts_its_min_age(self):
        world = self.world()
        world.add(a_workload(uid="another", created_at=world.now))
        outcome = run_in(world, a_policy(min_age=timedelta(hours=1)))
        assert verbs(outcome) == [("clear", "Service/web")]


class TestScaledUpAndTheServiceNotCleared:
    def world(self):
        world = an_idle_world()
        world.now = MONDAY
        run_in(world, writes=1)
        assert world.replicas(WEB) == 3
        assert marks(world)
        return world

    def test_it_is_cleared(self):
        world = self.world()
        world.now += MINUTE
        assert verbs(run_in(world)) == [("clear", "Service/web")]
        assert marks(world) == []

    def test_a_request_that_comes_after_it_was_woken_counts_as_another_wake(self):
        world = self.world()
        world.now = MONDAY + timedelta(days=1, hours=16)
        world.need_pods(SERVICE)
        assert verbs(run_in(world)) == [("repair", "Deployment/web"), ("clear", "Service/web")]
        assert run_in(world).desired.decisions == ()

    def test_the_request_that_woke_it_does_not_keep_it_up_for_longer_than_any_other(self):
        world = an_idle_world()
        world.need_pods(SERVICE)
        run_in(world, writes=1)
        world.now += timedelta(hours=3)  # longer than minAwake
        assert ("idle", "Deployment/web") in verbs(run_in(world))
        assert run_in(world).desired.decisions == ()

    def test_it_is_cleared_also_where_it_is_to_be_idle_and_was_just_woken(self):
        world = an_idle_world()
        world.now += MINUTE
        world.need_pods(SERVICE)
        run_in(world, writes=1)
        world.now += MINUTE
        assert verbs(run_in(world)) == [("clear", "Service/web")]
        assert world.replicas(WEB) == 3

    def test_it_is_cleared_where_a_hand_takes_it_to_zero_and_another_service_has_no_mark(self):
        world = self.world()
        world.now += MINUTE
        world.scale(WEB, 0)
        world.add(a_service("other", selector={"app": "web"}))
        assert verbs(run_in(world)) == [("clear", "Service/web")]

    def test_and_idled_again_where_min_awake_is_over(self):
        world = self.world()
        world.now = MONDAY + timedelta(hours=14)
        assert verbs(run_in(world)) == [("record", "Service/web"), ("idle", "Deployment/web")]
        assert run_in(world).desired.decisions == ()


def test_service_cleared_and_the_scalable_still_annotated():
    """Also what `kubectl rollout undo` leaves: old marks on a running object."""
    world = an_idle_world()
    record = world.objects[WEB].annotations
    world.now = MONDAY
    run_in(world)
    world.objects[WEB] = replace(world.objects[WEB], annotations=record)
    world.now += MINUTE
    assert verbs(run_in(world)) == [("repair", "Deployment/web")]
    assert marks(world, WEB) == []
    assert "reconciler/undone" not in world.objects[WEB].annotations  # no hand: nothing keeps it awake
    assert world.replicas(WEB) == 3


class TestRolloutUndo:
    """It replaces all annotations of a Deployment."""

    def test_a_record_that_is_gone_is_remembered_by_the_service(self):
        world = an_idle_world()
        world.objects[WEB] = replace(world.objects[WEB], annotations={})
        world.now += MINUTE
        assert verbs(run_in(world)) == [("repair", "Deployment/web")]
        annotations = world.objects[WEB].annotations
        assert annotations["idling.kubernetes.io/previous-scale"] == "3"
        assert annotations["scale.kubernetes.io/scale-time"] == "2026-11-20T22:00:00Z"
        assert world.replicas(WEB) == 0

    def test_and_wakes_with_the_number_of_the_service(self):
        world = an_idle_world()
        world.objects[WEB] = replace(world.objects[WEB], annotations={})
        world.now = MONDAY
        run_in(world)
        assert world.replicas(WEB) == 3

    def test_of_two_records_the_newer_counts(self):
        world = an_idle_world()
        old = {
            **world.objects[WEB].annotations,
            "idling.kubernetes.io/idled-at": "2026-11-10T22:00:00Z",
            "idling.kubernetes.io/previous-scale": "9",
        }
        world.objects[WEB] = replace(world.objects[WEB], annotations=old)
        world.now += MINUTE
        run_in(world)
        assert world.objects[WEB].annotations["idling.kubernetes.io/previous-scale"] == "3"
        assert run_in(world).desired.decisions == ()

    def test_a_record_older_than_the_last_wake_is_stale(self):
        world = an_idle_world()
        old = {**world.objects[WEB].annotations, "reconciler/awake-since": "2026-11-20T22:00:01Z"}
        world.objects[WEB] = replace(world.objects[WEB], annotations=old, replicas=3)
        world.now = NOON + timedelta(days=3)
        run_in(world)
        assert marks(world, WEB) == []
        assert "reconciler/undone" not in world.objects[WEB].annotations

    def test_a_record_is_never_removed_while_it_stands_at_its_idled_count(self):
        world = an_idle_world()
        old = {**world.objects[WEB].annotations, "reconciler/awake-since": "2026-11-20T22:00:01Z"}
        world.objects[WEB] = replace(world.objects[WEB], annotations=old)
        world.objects[SERVICE] = a_service()
        world.now += MINUTE
        run_in(world)
        assert world.remembered(WEB) == 3


def test_a_target_that_fails_stays_on_the_list_and_the_others_go_on():
    world = a_world(
        a_service(selector={"tier": "app"}),
        *(a_workload(name, template_labels={"tier": "app"}) for name in ("a", "b")),
        now=NIGHT,
    )
    run_in(world)
    world.now = MONDAY
    world.apply(decided(world.state(), now=MONDAY).desired.decisions, refuse=frozenset({0}))
    assert [world.replicas(a_ref(name)) for name in ("a", "b")] == [0, 3]
    outcome = decided(world.state(), a_policy(), now=MONDAY - MINUTE)
    assert verbs(outcome) == [("clear", "Service/web")]  # b is done
    run_in(world)
    assert world.replicas(a_ref("a")) == 3
    assert marks(world) == []


def test_targets_that_are_gone_count_as_done():
    world = an_idle_world()
    del world.objects[WEB]
    assert verbs(run_in(world)) == [("clear", "Service/web")]
    assert marks(world) == []


@pytest.mark.parametrize(
    ("annotations", "where"),
    [
        ({"idling.kubernetes.io/previous-scale": "many"}, WEB),
        ({"idling.kubernetes.io/unidle-targets": "[{"}, SERVICE),
    ],
    ids=["on the scalable", "on the Service"],
)
def test_what_cannot_be_parsed_is_set_aside(annotations, where):
    world = an_idle_world()
    if where == WEB:
        del world.objects[SERVICE]  # which knows its number too
    for key, text in annotations.items():
        world.annotate(where, key, text)
    world.now += MINUTE
    outcome = run_in(world)
    assert outcome.desired.decisions == ()
    (notice,) = (notice for notice in outcome.desired.notices if notice.kind == "setAside")
    assert (notice.subject, notice.partial) == (str(where), False)
    assert "expected" in notice.text


@pytest.mark.parametrize("text", [None, "many", "0"], ids=["missing", "no number", "not above what it is idled to"])
def test_a_broken_record_is_put_right_from_the_list_of_its_service(text):
    world = an_idle_world()
    world.annotate(WEB, "idling.kubernetes.io/previous-scale", text)
    world.now += MINUTE
    assert verbs(run_in(world)) == [("repair", "Deployment/web")]
    assert world.objects[WEB].annotations["idling.kubernetes.io/previous-scale"] == "3"
    assert world.replicas(WEB) == 0


@pytest.mark.parametrize("text", [None, "many", "0"], ids=["missing", "no number", "not above what it is idled to"])
def test_the_list_of_its_service_wakes_what_has_a_broken_record(text):
    world = an_idle_world()
    world.annotate(WEB, "idling.kubernetes.io/previous-scale", text)
    world.now = MONDAY
    run_in(world)
    assert world.replicas(WEB) == 3
    assert marks(world) == []


def test_what_runs_has_no_number_from_the_list():
    world = an_idle_world()
    world.annotate(WEB, "idling.kubernetes.io/previous-scale", "many")
    world.scale(WEB, 7)
    outcome = run_in(world)
    assert [notice.kind for notice in outcome.desired.notices] == ["setAside"]
    assert world.replicas(WEB) == 7


def test_a_record_set_aside_is_never_woken_by_a_policy_and_stays_claimed():
    world = an_idle_world()
    del world.objects[SERVICE]
    world.annotate(WEB, "idling.kubernetes.io/previous-scale", "many")
    world.now = MONDAY
    outcome = run_in(world)
    assert world.replicas(WEB) == 0
    assert WEB in outcome.claims


def test_behind_a_service_whose_mark_cannot_be_read_the_own_record_wakes():
    world = an_idle_world()
    world.annotate(SERVICE, "idling.kubernetes.io/unidle-targets", "[{")
    world.now = MONDAY
    run_in(world)
    assert world.replicas(WEB) == 3
    assert world.objects[SERVICE].annotations["idling.kubernetes.io/unidle-targets"] == "[{"
