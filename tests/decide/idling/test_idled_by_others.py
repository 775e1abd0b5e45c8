"""Marks of others, and what wakes while the policies cannot be read."""

from __future__ import annotations

import pytest

from reconciler.decide.decisions import DesiredState
from reconciler.decide.idling.decide import decide_wakes_due
from tests.builders import a_fleet, a_ref, a_run, a_service, a_workload, an_endpoints, an_hpa
from tests.cases import cases
from tests.decide.idling.idled_by_others import AT, LIST, OC_IDLE, OC_RECORD, RECORD, STAGING, WEB, a_foreign_world
from tests.decide.idling.idling_policies import MONDAY, NIGHT, a_policy, an_idle_world, notices_of, run_in, verbs
from tests.decide.idling.world import World, a_world

SERVICE = a_ref("web", kind="Service")
SEED = {"idling.kubernetes.io/idled-at": AT, "idling.kubernetes.io/unidle-targets": LIST}

OC_TARGETS = "idling.alpha.openshift.io/unidle-targets"
WEB_AND_API = '[{"kind":"Deployment","name":"web","replicas":4},{"kind":"Deployment","name":"api","replicas":2}]'
OURS_BROKEN = {"reconciler/owner": "production/IdlingPolicy/idle-dev", "idling.kubernetes.io/idled-at": "yesterday"}


FOREIGN = [
    ("the seed's", SEED, RECORD),
    ("oc idle's", OC_IDLE, OC_RECORD),
    ("another Fleet's", SEED | STAGING, RECORD | STAGING),
    ("on the scalable alone", None, RECORD),
    ("oc idle's, on the scalable alone", None, OC_RECORD),
]


class TestForeign:
    @cases("service workload", *FOREIGN)
    @pytest.mark.parametrize("now", [NIGHT, MONDAY])
    def test_they_are_told_and_left_alone(self, service, workload, now):
        world = a_foreign_world(service, workload)
        world.now = now
        outcome = run_in(world)
        assert outcome.desired.decisions == ()
        assert notices_of(outcome, "foreignRecord")
        assert outcome.claims == {}
        assert {one.policy for one in outcome.desired.explanations} == {"idle-dev"}

    @cases("service workload", *FOREIGN)
    def test_an_explicit_signal_wakes_them(self, service, workload):
        world = a_foreign_world(service, workload)
        world.annotate(WEB, "reconciler/wake-requested-at", "2026-11-20T21:30:00Z")
        run_in(world)
        assert world.replicas(WEB) == 4
        for ref in (WEB, SERVICE):
            assert not [key for key in world.objects[ref].annotations if "idling" in key or key == "reconciler/owner"]
        assert run_in(world).desired.decisions == ()

    def test_on_endpoints_where_the_seed_and_oc_idle_put_them(self):
        world = a_foreign_world(workload=OC_RECORD, endpoints=an_endpoints(annotations=OC_IDLE))
        assert run_in(world).desired.decisions == ()
        world.need_pods(SERVICE)
        run_in(world)
        assert world.replicas(WEB) == 4
        assert world.objects[an_endpoints().ref].annotations == {}

    @cases(
        "service endpoints",
        ("ours, which cannot be read", OURS_BROKEN, OC_IDLE),
        ("theirs, which cannot be read", OC_IDLE | {OC_TARGETS: "[{"}, OC_IDLE),
        ("one that lists what sleeps", OC_IDLE | {OC_TARGETS: WEB_AND_API}, OC_IDLE),
    )
    @cases("turned", ("on the Service", False), ("on its Endpoints", True))
    def test_a_mark_stays_beside_one_of_which_everything_is_woken(self, service, endpoints, turned):
        on_service, on_endpoints = (endpoints, service) if turned else (service, endpoints)
        world = a_foreign_world(on_service, OC_RECORD, an_endpoints(annotations=on_endpoints))
        world.add(a_workload("api", replicas=0))
        world.need_pods(SERVICE)
        run_in(world)
        stays, goes = (an_endpoints().ref, SERVICE) if turned else (SERVICE, an_endpoints().ref)
        assert world.replicas(WEB) == 4
        assert (world.objects[stays].annotations, world.objects[goes].annotations) == (service, {})

    def test_a_passed_wake_due_of_another_fleet_is_overdue(self):
        outcome = run_in(a_foreign_world(SEED | STAGING, RECORD | STAGING))
        (notice,) = (one for one in outcome.desired.notices if one.kind == "foreignOverdue")
        assert (notice.subject, notice.partial) == (str(WEB), False)
        assert notice.text.endswith(f"idled by Fleet staging; to wake it: reconciler restore {WEB} --adopt")

    def test_the_mark_stays_while_it_lists_a_kind_that_nobody_can_read(self):
        two = '[{"kind":"Deployment","name":"web","replicas":4},{"kind":"DeploymentConfig","name":"x","replicas":2}]'
        world = a_foreign_world(OC_IDLE | {"idling.alpha.openshift.io/unidle-targets": two}, OC_RECORD)
        world.need_pods(SERVICE)
        assert verbs(run_in(world)) == [("wake", "Deployment/web")]

    def test_the_mark_stays_while_it_lists_something_that_sleeps(self):
        world = a_foreign_world(SEED | {"idling.kubernetes.io/unidle-targets": WEB_AND_API}, RECORD)
        world.add(a_workload("api", replicas=0))
        world.annotate(WEB, "reconciler/wake-requested-at", "2026-11-20T21:30:00Z")
        assert verbs(run_in(world)) == [("wake", "Deployment/web")]
        assert world.replicas(a_ref("api")) == 0

    def test_what_is_behind_a_service_that_somebody_else_marked_is_not_idled(self):
        world = a_foreign_world(SEED | {"idling.kubernetes.io/unidle-targets": "[]"}, replicas=3)
        outcome = run_in(world)
        assert outcome.desired.decisions == ()
        assert "Service/web was idled by somebody else" in outcome.desired.explanations[0].why


def due(world: World, fleet=None) -> DesiredState:
    desired = decide_wakes_due(fleet or a_fleet(), world.state(), a_run(world.now))
    world.apply(desired.decisions)
    return desired


class TestBrokenPolicies:
    """A typo must not keep a morning dark."""

    def test_nothing_else_is_put_right(self):
        world = an_idle_world()
        world.annotate(WEB, "reconciler/exclude", "true")
        world.annotate(SERVICE, "reconciler/owner", "production/IdlingPolicy/other")
        assert due(world).decisions == ()


def test_broken_policies_hold_no_autoscaler():
    world = a_world(a_service(), a_workload(replicas=5), an_hpa(), now=NIGHT)
    run_in(world, a_policy(idle_replicas=1), writes=2)
    assert due(world).decisions == ()
    assert world.objects[an_hpa().ref] == an_hpa()
