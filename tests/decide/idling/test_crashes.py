"""Killed between any two writes: the next run knows what to do."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.builders import a_ref, a_service, a_workload
from tests.decide.idling.idling_policies import MONDAY, NIGHT, a_policy, an_idle_world, run_in, verbs
from tests.decide.idling.world import a_world

WEB = a_ref("web")
SERVICE = a_ref("web", kind="Service")
MINUTE = timedelta(minutes=1)


def marks(world, ref=SERVICE):
    prefixes = ("idling.kubernetes.io/", "scale.kubernetes.io/scale-reason", "reconciler/owner", "reconciler/wake-due")
    return sorted(key for key in world.objects[ref].annotations if key.startswith(prefixes))


class TestScaledUpAndTheServiceNotCleared:
    def world(self):
        world = an_idle_world()
        world.now = MONDAY
        run_in(world, writes=1)
        assert world.replicas(WEB) == 3
        assert marks(world)
        return world

    def test_a_request_that_comes_after_it_was_woken_counts_as_another_wake(self):
        world = self.world()
        world.now = MONDAY + timedelta(days=1, hours=16)
        world.need_pods(SERVICE)
        assert verbs(run_in(world)) == [("repair", "Deployment/web"), ("clear", "Service/web")]
        assert run_in(world).desired.decisions == ()

    def test_it_is_cleared_where_somebody_takes_it_to_zero_and_another_service_has_no_mark(self):
        world = self.world()
        world.now += MINUTE
        world.scale(WEB, 0)
        world.add(a_service("other", selector={"app": "web"}))
        assert verbs(run_in(world)) == [("clear", "Service/web")]


@pytest.mark.parametrize(
    ("annotations", "where"),
    [({"idling.kubernetes.io/previous-scale": "many"}, WEB), ({"idling.kubernetes.io/unidle-targets": "[{"}, SERVICE)],
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


class TestAfterAMarkOnTheServiceOnly:
    """The crash came after the first write of an idle."""

    def world(self):
        world = a_world(a_service(), a_workload(), now=NIGHT)
        run_in(world, writes=1)
        assert marks(world)
        assert world.replicas(WEB) == 3
        return world

    def test_a_new_object_of_that_name_starts_its_min_age(self):
        world = self.world()
        world.add(a_workload(uid="another", created_at=world.now))
        outcome = run_in(world, a_policy(min_age=timedelta(hours=1)))
        assert verbs(outcome) == [("clear", "Service/web")]
