"""Living with HorizontalPodAutoscalers and KEDA."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.model import FieldWriter, ObjectRef
from reconciler.policy.types import Autoscalers
from tests.builders import a_ref, a_service, a_workload, an_hpa, an_idle_record
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    MONDAY,
    NIGHT,
    a_policy,
    decided,
    of_state,
    run_in,
    verbs,
    why_of,
    workloads_selector,
)
from tests.decide.idling.world import World, a_world

WEB = a_ref("web")
HPA = a_ref(kind="HorizontalPodAutoscaler")
FLOOR = a_policy(idle_replicas=1)
SERVICE = a_ref("web", kind="Service")


def marks(world: World, ref: ObjectRef = SERVICE) -> list[str]:
    """The annotations of an idle record on an object."""
    return [key for key in world.objects[ref].annotations if key.startswith("idling.kubernetes.io/")]


def the_world(replicas: int = 5, **bounds: int | None) -> World:
    return a_world(a_service(), a_workload(replicas=replicas), an_hpa(**bounds), now=NIGHT)


def bounds(world: World) -> tuple[int | None, int]:
    return world.objects[HPA].minimum, world.objects[HPA].maximum


@cases(
    "minimum idle_replicas expected",
    ("at zero, from which no autoscaler raises it", 2, 0, 0),
    ("at the minimum of its autoscaler", 1, 1, 1),
    ("below the minimum of its autoscaler", 2, 1, 5),
)
def test_what_is_taken_over_holds_the_rest_back_where_its_autoscaler_raises_it(minimum, idle_replicas, expected):
    policy = a_policy(idle_replicas=idle_replicas)
    world = the_world(minimum=minimum)
    run_in(world, policy)
    world.annotate(WEB, "scale.kubernetes.io/scale-reason", "Maintenance")
    world.add(a_workload("api", replicas=5, template_labels={"app": "web"}))
    run_in(world, policy)
    assert (world.replicas(WEB), world.replicas(a_ref("api"))) == (idle_replicas, expected)


class TestAMinimumOfZero:
    """At zero replicas such an autoscaler goes on: it is held by a minimum of 1, at which it leaves zero alone."""

    def idle_world(self) -> World:
        world = the_world(minimum=0)
        run_in(world)
        return world

    @cases("replicas", ("still at zero", 0), ("raised meanwhile", 3))
    def test_a_run_that_died_before_it_was_held_is_finished_by_the_next(self, replicas):
        world = self.idle_world()
        world.objects[HPA] = an_hpa(minimum=0)
        world.objects[WEB] = replace(world.objects[WEB], replicas=replicas)
        run_in(world)
        assert (world.replicas(WEB), bounds(world)) == (0, (1, 10))
        world.now = MONDAY
        run_in(world)
        assert (world.replicas(WEB), bounds(world)) == (5, (0, 10))

    @cases(
        "changed night morning",
        ("another maximum undoes the idle", {"maximum": 20}, (5, (0, 20)), (5, (0, 20))),
        ("a minimum that leaves zero alone is kept", {"minimum": 3}, (0, (3, 10)), (5, (3, 10))),
        ("its own minimum undoes the idle", {"minimum": 0}, (5, (0, 10)), (5, (0, 10))),
    )
    def test_somebody_changes_its_bounds_meanwhile(self, changed, night, morning):
        world = self.idle_world()
        world.objects[HPA] = replace(world.objects[HPA], **changed)
        run_in(world)
        run_in(world)
        assert (world.replicas(WEB), bounds(world)) == night
        world.now = MONDAY
        run_in(world)
        assert (world.replicas(WEB), bounds(world), world.objects[HPA].annotations) == (*morning, {})


class TestIdledToAFloor:
    @pytest.mark.parametrize(("is_held", "woken"), [(True, 5), (False, 1)])
    def test_that_it_is_held_proves_the_list_where_it_wrote_the_replicas_last(self, is_held, woken):
        """Between the two writes of the idle it scaled up and down; later, a rollout is undone."""
        world = the_world()
        run_in(world, FLOOR)
        world.objects[HPA] = world.objects[HPA] if is_held else an_hpa()
        world.objects[WEB] = replace(
            world.objects[WEB], annotations={}, replicas_writer=FieldWriter("kube-controller-manager")
        )
        assert (run_in(world, FLOOR).desired.notices == ()) is is_held
        world.now = MONDAY
        run_in(world, FLOOR)
        assert (world.replicas(WEB), bounds(world)) == (woken, (2, 10))

    @pytest.mark.parametrize(
        ("state", "cleared"), [("Active", ["HorizontalPodAutoscaler", "Service"]), ("ReadOnly", [])]
    )
    def test_what_is_left_of_a_deleted_workload_is_cleared_where_anything_may_be_written(self, state, cleared):
        world = the_world()
        run_in(world, FLOOR)
        del world.objects[WEB]
        decisions = decided(world.state(), FLOOR, fleet=of_state(state)).desired.decisions
        assert sorted(one.ref.kind for one in decisions) == cleared

    def test_a_broken_record_at_its_idle_replicas_keeps_nothing_else_awake(self):
        world = the_world()
        run_in(world, FLOOR)
        world.annotate(WEB, "idling.kubernetes.io/previous-scale", "many")
        world.annotate(a_ref("web", kind="Service"), "idling.kubernetes.io/unidle-targets", "[]")
        world.add(a_workload("api", template_labels={"app": "web"}))
        outcome = run_in(world, FLOOR)
        assert why_of(outcome) == "its record cannot be read"
        assert [world.replicas(a_ref(name)) for name in ("web", "api")] == [1, 1]

    def test_bounds_of_one_number_stay_where_the_autoscaler_has_scaled_to_it(self):
        world = the_world()
        run_in(world, FLOOR)
        world.objects[HPA] = replace(world.objects[HPA], minimum=3, maximum=3)
        world.controllers()
        run_in(world, FLOOR)
        assert (world.replicas(WEB), bounds(world), world.objects[HPA].annotations) == (3, (3, 3), {})

    def test_bounds_that_cannot_be_read_are_left_and_told(self):
        world = the_world()
        run_in(world, FLOOR)
        world.annotate(HPA, "reconciler/previous-bounds", "{}")
        world.now = MONDAY
        outcome = run_in(world, FLOOR)
        assert world.replicas(WEB) == 5
        assert bounds(world) == (1, 1)
        (notice,) = (one for one in outcome.desired.notices if one.kind == "setAside")
        assert (notice.subject, notice.partial) == (str(HPA), False)

    def test_what_another_fleet_holds_is_not_ours(self):
        world = the_world()
        world.annotate(HPA, "reconciler/previous-bounds", '{"minReplicas":2,"maxReplicas":10}')
        world.annotate(HPA, "reconciler/owner", "staging/IdlingPolicy/x")
        assert run_in(world, FLOOR).desired.decisions == ()

    def test_one_of_another_fleet_or_of_a_kind_that_is_not_known_stays(self):
        world = the_world()
        run_in(world, FLOOR)
        del world.objects[WEB]
        for fields in ({"target": ("Rollout", "web")}, {}):
            world.objects[HPA] = replace(world.objects[HPA], **fields)
            other = {} if fields else {"reconciler/owner": "theirs/IdlingPolicy/nights"}
            world.objects[HPA] = replace(world.objects[HPA], annotations={**world.objects[HPA].annotations, **other})
            run_in(world, FLOOR)
            assert bounds(world) == (1, 1)
            world.objects[HPA] = replace(world.objects[HPA], target=("Deployment", "web"))


STALE_RECORD = an_idle_record(at="2026-11-10T22:00:00Z", awake_since="2026-11-11T06:00:00Z")


class TestSeveral:
    other = a_ref("another", kind="HorizontalPodAutoscaler")

    def a_world(self, minimum: int = 3) -> World:
        world = the_world()
        world.objects[self.other] = an_hpa("another", target=("Deployment", "web"), minimum=minimum)
        return world

    @cases(
        "minimum policy",
        ("idleReplicas, to which one of them would not keep", 3, FLOOR),
        ("a minimum of 0, from which one of them would scale up", 0, a_policy()),
        ("LowerMinimum", 3, a_policy(idle_replicas=1, autoscalers=Autoscalers(hpa="LowerMinimum"))),
    )
    def test_what_several_would_scale_up_stays_awake_and_says_so(self, minimum, policy):
        world = self.a_world(minimum)
        outcome = run_in(world, policy)
        assert verbs(outcome) == []
        (notice,) = outcome.desired.notices
        assert "HorizontalPodAutoscaler/another and HorizontalPodAutoscaler/web scale it" in notice.text

    def test_at_zero_none_of_them_does_anything(self):
        world = self.a_world()
        assert ("idle", "Deployment/web") in verbs(run_in(world))


class TestKeda:
    """The ScaledObject is paused; its target is left to KEDA."""

    def world(self, **annotations: str) -> World:
        scaled = a_workload(
            "jobs", kind="ScaledObject", replicas=None, scale_target=("Deployment", "web"), annotations=annotations
        )
        return a_world(a_service(), a_workload(), scaled, now=NIGHT)

    jobs = a_ref("jobs", kind="ScaledObject")

    @pytest.mark.parametrize(
        "annotations", [{"autoscaling.keda.sh/paused-replicas": "0"}, {"autoscaling.keda.sh/paused": "true"}]
    )
    def test_one_that_somebody_else_paused_is_left_alone(self, annotations):
        outcome = run_in(self.world(**annotations))
        assert outcome.desired.decisions == ()

    @cases("unpaused", ("it wakes when it is due", False), ("they take our pause off", True))
    def test_the_target_of_one_that_somebody_pauses_as_it_is_while_it_is_idle_gets_its_replicas_back(self, unpaused):
        world = self.world()
        run_in(world)
        world.controllers()
        world.annotate(self.jobs, "autoscaling.keda.sh/paused", "true")
        if unpaused:
            world.annotate(self.jobs, "autoscaling.keda.sh/paused-replicas", None)
        assert world.replicas(WEB) == 0
        world.now = MONDAY
        run_in(world)
        assert (world.replicas(WEB), marks(world, WEB), marks(world, self.jobs)) == (3, [], [])
        assert run_in(world).desired.decisions == ()

    @cases("died", ("they take our pause off", False), ("a wake died before its target", True))
    def test_a_target_that_somebody_else_scaled_since_stays_as_it_is(self, died):
        world = self.world()
        run_in(world, FLOOR)
        world.controllers()
        world.annotate(self.jobs, "autoscaling.keda.sh/paused", "true")
        if died:
            world.now = MONDAY
            for decision in decided(world.state(), FLOOR, now=MONDAY).desired.decisions:
                if decision.ref == self.jobs:
                    world.write(decision)
        else:
            world.annotate(self.jobs, "autoscaling.keda.sh/paused-replicas", None)
        world.scale(WEB, 0)
        run_in(world, FLOOR)
        assert (world.replicas(WEB), marks(world, WEB), marks(world, self.jobs)) == (0, [], [])

    def test_the_record_that_keda_copies_to_its_autoscaler_is_not_that_ones(self):
        world = self.world()
        run_in(world)
        world.controllers()
        world.annotate(self.jobs, "autoscaling.keda.sh/paused-replicas", None)  # by hand, and KEDA makes it again
        copied = world.objects[self.jobs].annotations
        world.add(an_hpa(minimum=1, annotations=copied, made_by="ScaledObject"))
        found = verbs(run_in(world))
        assert [verb for verb, what in found if what.startswith("ScaledObject")] == ["release"]
        assert [verb for verb, what in found if what.startswith("Horizontal")] == []

    def test_so_it_is_where_nobody_knows_whether_there_is_a_scaled_object(self):
        world = self.world()
        run_in(world, FLOOR)
        world.add(an_hpa(minimum=1, annotations=world.objects[self.jobs].annotations, made_by="ScaledObject"))
        del world.objects[self.jobs]
        state = world.state()
        clusters = {name: replace(found, unreadable={"scaledobjects": "403"}) for name, found in state.clusters.items()}
        found = decided(replace(state, clusters=clusters), FLOOR, now=MONDAY).desired.decisions
        assert [one.verb for one in found if one.ref == HPA] == []

    def another(self, world: World, name: str) -> None:
        ref = a_ref(name, kind="ScaledObject")
        world.objects[ref] = replace(world.objects[self.jobs], ref=ref, uid=name, annotations={})

    def test_where_two_have_one_target_neither_is_paused_and_a_notice_names_both(self):
        world = self.world()
        self.another(world, "more")
        outcome = run_in(world, a_policy(selector=workloads_selector("Deployment", "ScaledObject")))
        assert outcome.desired.decisions == ()
        (notice,) = outcome.desired.notices
        assert "ScaledObject/jobs and ScaledObject/more have the same scaleTargetRef, expected one" in notice.text

    @pytest.mark.parametrize("name", ["another", "zz"])
    def test_the_one_that_was_paused_wakes_although_there_is_another_now(self, name):
        world = self.world()
        run_in(world)
        self.another(world, name)
        assert run_in(world).desired.decisions == ()
        world.now = MONDAY
        run_in(world)
        assert marks(world, self.jobs) == marks(world, WEB) == []
        assert run_in(world).desired.decisions == ()

    def test_an_old_record_on_its_target_does_not_make_it_ours(self):
        world = self.world()
        for key, text in STALE_RECORD.items():
            world.annotate(WEB, key, text)
        run_in(world, a_policy(selector=workloads_selector("CronJob")))
        assert world.replicas(WEB) == 3
        assert "reconciler/owner" not in world.objects[WEB].annotations

    def test_the_record_of_a_target_stays_that_of_the_one_that_paused_it(self):
        world = self.world()
        queue, more = a_workload("queue", replicas=4), a_ref("more", kind="ScaledObject")
        self.another(world, "more")
        world.objects |= {queue.ref: queue, more: replace(world.objects[more], scale_target=("Deployment", "queue"))}
        policy = a_policy(selector=workloads_selector("ScaledObject"))
        run_in(world, policy)
        assert marks(world, WEB) == marks(world, queue.ref) != []
        world.objects[more] = replace(world.objects[more], scale_target=("Deployment", "web"))
        assert [one.verb for one in run_in(world, policy).desired.decisions if one.ref == WEB] == []

    @pytest.mark.parametrize(("text", "verb"), [("False", "idle"), ("0", "idle"), ("no", None), ("", None)])
    def test_what_keda_takes_for_a_pause_is_one(self, text, verb):
        found = verbs(run_in(self.world(**{"autoscaling.keda.sh/paused": text})))
        assert [said for said, what in found if what == "ScaledObject/jobs" and said == "idle"] == [verb] * bool(verb)
