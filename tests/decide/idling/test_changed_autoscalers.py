"""Autoscalers that are changed in place of their workload: a lower minimum, and what they scaled to zero themselves."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.decide.idling.decide import IdlingOutcome
from reconciler.decide.idling.restore import Restoration, decide_restore
from reconciler.decide.reasons import text_of
from reconciler.model import FieldWriter, ObjectRef, Run
from reconciler.policy.types import Autoscalers
from tests.builders import a_fleet, a_ref, a_service, a_workload, an_hpa
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    MONDAY,
    NIGHT,
    a_policy,
    notices_of,
    run_in,
    verbs,
    workloads_selector,
    written,
)
from tests.decide.idling.world import World, a_world

WEB, API = a_ref("web"), a_ref("api")
HPA = a_ref(kind="HorizontalPodAutoscaler")
SERVICE = a_ref("web", kind="Service")
IDLED_AT, PREVIOUS = "idling.kubernetes.io/idled-at", "idling.kubernetes.io/previous-scale"
PREVIOUS_UP = "reconciler/previous-scale-up"
LOWERED = a_policy(idle_replicas=1, autoscalers=Autoscalers("LowerMinimum"))
DISABLED = {"scaleUp": {"selectPolicy": "Disabled"}}


def said_of(outcome: IdlingOutcome, ref: ObjectRef = WEB) -> tuple[str, str]:
    """What becomes of a workload, and why."""
    found = next(one for one in outcome.desired.explanations if one.ref == ref)
    return found.outcome, text_of(found.reasons)


class TestALowerMinimum:
    def world(self, **hpa: Any) -> World:
        return a_world(a_service(), a_workload(replicas=5), an_hpa(**({"minimum": 3} | hpa)), now=NIGHT)

    def bounds(self, world: World) -> tuple[int | None, int]:
        return world.objects[HPA].minimum, world.objects[HPA].maximum

    def test_a_night(self):
        world = self.world()
        assert said_of(run_in(world, LOWERED))[0] == "gets a lower minimum"
        assert (self.bounds(world), world.replicas(WEB)) == ((1, 10), 5)
        assert not world.objects[WEB].annotations
        assert not world.objects[SERVICE].annotations
        world.scale(WEB, 1, "kube-controller-manager")  # the load is low, and high after that
        world.scale(WEB, 7, "kube-controller-manager")
        outcome = run_in(world, LOWERED)
        assert outcome.desired.decisions == ()
        assert said_of(outcome) == (
            "keeps its lower minimum",
            "schedule office-hours-off until 2026-11-23T06:00:00Z, "
            "HorizontalPodAutoscaler/web scales it, from 1 up, before from 3 up",
        )
        world.now = MONDAY
        outcome = run_in(world, LOWERED)
        assert verbs(outcome) == [("wake", "HorizontalPodAutoscaler/web")]
        assert said_of(outcome)[0] == "gets its minimum back"
        assert (self.bounds(world), world.replicas(WEB)) == ((3, 10), 7)
        assert not any(key in world.objects[HPA].annotations for key in (IDLED_AT, PREVIOUS, "reconciler/owner"))
        assert run_in(world, LOWERED).desired.decisions == ()

    def test_what_keda_made_and_nothing_of_keda_controls_any_more_gets_its_own_back(self):
        world = self.world(labels={"scaledobject.keda.sh/name": "web"})
        run_in(world, LOWERED)
        assert self.bounds(world) == (1, 10)
        run_in(world, a_policy(selector=workloads_selector("CronJob")))
        assert self.bounds(world) == (3, 10)

    def test_what_idling_leaves_of_it_runs(self):
        world = self.world()
        run_in(world, LOWERED)
        outcome = run_in(world, LOWERED)
        assert outcome.after(world.state(), frozenset({"production"}))(WEB) is None

    def test_one_without_an_autoscaler_goes_idle_unless_it_shares_a_service(self):
        world = self.world().add(a_workload("api", replicas=4, template_labels={"app": "api"}))
        policy = replace(LOWERED, selector=workloads_selector())
        run_in(world, policy)
        assert (self.bounds(world), world.replicas(API)) == ((1, 10), 1)
        world = self.world().add(a_workload("api", replicas=4, template_labels={"app": "web"}))
        outcome = run_in(world, LOWERED)
        assert (self.bounds(world), world.replicas(API)) == ((1, 10), 4)
        assert said_of(outcome, API)[1].startswith("Deployment/web behind Service/web stays awake")

    @cases(
        "others minimum replicas",
        ("one that leaves autoscalers alone wins", "Leave", 3, 5),
        ("one that idles them does not", "Idle", 1, 5),
    )
    def test_of_several_policies(self, others, minimum, replicas):
        world = self.world()
        other = a_policy("other", selector=workloads_selector(), autoscalers=Autoscalers(others))
        run_in(world, LOWERED, other)
        assert (world.objects[HPA].minimum, world.replicas(WEB)) == (minimum, replicas)

    @cases("may_be_zero minimum", ("with an external metric", True, 0), ("with none", False, 3))
    def test_to_zero_where_its_metrics_allow_that(self, may_be_zero, minimum):
        world = self.world(may_be_zero=may_be_zero)
        outcome = run_in(world, replace(LOWERED, idle_replicas=0))
        assert world.objects[HPA].minimum == minimum
        no_metric = (
            "idleReplicas is 0, which HorizontalPodAutoscaler/web cannot have without an Object or External metric"
        )
        assert (said_of(outcome) == ("stays awake", no_metric)) is not may_be_zero

    def test_a_wake_stays_within_a_maximum_that_somebody_lowered(self):
        world = self.world()
        run_in(world, LOWERED)
        world.put_back(replace(world.objects[HPA], maximum=2), "kubectl")
        assert notices_of(run_in(world, LOWERED), "fieldManager") == []  # its minimum is ours
        world.now = MONDAY
        run_in(world, LOWERED)
        assert self.bounds(world) == (2, 2)

    def test_somebody_who_raises_it_is_respected_for_the_night(self):
        world = self.world()
        run_in(world, LOWERED)
        world.objects[HPA] = replace(world.objects[HPA], minimum=4, minimum_writer=FieldWriter("kubectl", NIGHT))
        outcome = run_in(world, LOWERED)
        assert verbs(outcome) == [("release", "HorizontalPodAutoscaler/web")]
        assert outcome.desired.decisions[0].cause.why == "kubectl changed the bounds of HorizontalPodAutoscaler/web"
        assert run_in(world, LOWERED).desired.decisions == ()
        assert self.bounds(world) == (4, 10)

    def test_restored_by_hand(self):
        world = self.world()
        run_in(world, LOWERED)
        run = Run(now=world.now)
        world.apply(decide_restore(a_fleet(), world.state(), run, Restoration(lambda ref: ref == WEB)).decisions)
        assert self.bounds(world) == (3, 10)

    @cases(
        "before after",
        ("to the workload", LOWERED, a_policy(idle_replicas=0)),
        ("to its minimum", a_policy(idle_replicas=0), LOWERED),
    )
    def test_another_way_begins_with_the_next_night(self, before, after):
        world = self.world()
        run_in(world, before)
        idle = (self.bounds(world), world.replicas(WEB))
        run_in(world, after)
        assert (self.bounds(world), world.replicas(WEB)) == idle
        world.now = MONDAY
        run_in(world, after)
        assert (self.bounds(world), world.replicas(WEB)) == ((3, 10), 5)

    def test_a_policy_that_is_gone_and_a_workload_that_is_gone(self):
        for gone in (True, False):
            world = self.world()
            run_in(world, LOWERED)
            if gone:
                del world.objects[WEB]
            run_in(world, *(() if gone else (a_policy(selector=workloads_selector("CronJob")),)))
            assert self.bounds(world) == (3, 10)

    def test_a_minimum_that_its_metrics_do_not_allow_is_not_written_when_the_policy_changes_either(self):
        world = self.world()
        run_in(world, LOWERED)
        at_zero = a_policy(autoscalers=Autoscalers("LowerMinimum"))
        run_in(world, at_zero)
        assert self.bounds(world) == (1, 10)
        world.now = MONDAY
        run_in(world, at_zero)
        assert self.bounds(world) == (3, 10)


class TestScaledToZeroByItself:
    """Since Kubernetes 1.36 no bound keeps such an autoscaler at zero: only that it does not scale up at all."""

    IDLE = a_policy(idle_replicas=1)

    def world(self, **hpa: Any) -> World:
        fields = {"minimum": 0, "scaled_to_zero": True, "may_be_zero": True}
        return a_world(a_service(), a_workload(replicas=0), an_hpa(**(fields | hpa)), now=NIGHT)

    def test_a_night(self):
        world = self.world()
        (hold,) = run_in(world, self.IDLE).desired.decisions
        changed = written(hold)
        assert (hold.ref, changed["behavior"], changed[PREVIOUS_UP]) == (HPA, DISABLED, "null")
        assert PREVIOUS not in changed
        world.controllers()  # the metric rises
        outcome = run_in(world, self.IDLE)
        assert (outcome.desired.decisions, world.replicas(WEB)) == ((), 0)
        assert said_of(outcome) == (
            "stays idle",
            "schedule office-hours-off until 2026-11-23T06:00:00Z, "
            "HorizontalPodAutoscaler/web scaled it to zero, and does not scale it up until it wakes",
        )
        world.now = MONDAY
        assert verbs(run_in(world, self.IDLE)) == [("wake", "HorizontalPodAutoscaler/web")]
        assert (world.objects[HPA].behavior, world.replicas(WEB)) == ({}, 0)
        assert PREVIOUS_UP not in world.objects[HPA].annotations
        world.controllers()
        assert world.replicas(WEB) == 1

    @cases(
        "behavior meanwhile after",
        ("none", {}, DISABLED, {}),
        (
            "none, with the defaults of the API server",
            {},
            {
                "scaleUp": {
                    "selectPolicy": "Disabled",
                    "stabilizationWindowSeconds": 0,
                    "policies": [
                        {"type": "Pods", "value": 4, "periodSeconds": 15},
                        {"type": "Percent", "value": 100, "periodSeconds": 15},
                    ],
                },
                "scaleDown": {
                    "selectPolicy": "Max",
                    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
                },
            },
            {},
        ),
        (
            "none, and somebody stated one meanwhile",
            {},
            {"scaleDown": {"selectPolicy": "Min"}, **DISABLED},
            {"scaleDown": {"selectPolicy": "Min"}, "scaleUp": {"selectPolicy": "Max"}},
        ),
        (
            "stated",
            {"scaleUp": {"selectPolicy": "Min", "policies": []}},
            {"scaleUp": {"selectPolicy": "Disabled", "policies": []}},
            {"scaleUp": {"selectPolicy": "Min", "policies": []}},
        ),
    )
    def test_its_behavior_is_restored(self, behavior, meanwhile, after):
        world = self.world(behavior=behavior)
        run_in(world, self.IDLE)
        assert world.objects[HPA].behavior["scaleUp"]["selectPolicy"] == "Disabled"
        world.objects[HPA] = replace(world.objects[HPA], behavior=meanwhile)
        world.now = MONDAY
        run_in(world, self.IDLE)
        assert world.objects[HPA].behavior == after

    def test_somebody_who_lets_it_scale_up_is_respected(self):
        world = self.world()
        run_in(world, self.IDLE)
        world.objects[HPA] = replace(world.objects[HPA], behavior={})
        assert verbs(run_in(world, self.IDLE)) == [("release", "HorizontalPodAutoscaler/web")]
        assert run_in(world, self.IDLE).desired.decisions == ()

    def test_who_scales_it_by_hand_is_respected_and_gets_its_autoscaler_back(self):
        world = self.world()
        run_in(world, self.IDLE)
        world.scale(WEB, 3, "kubectl")
        outcome = run_in(world, self.IDLE)
        assert verbs(outcome) == [("wake", "HorizontalPodAutoscaler/web")]
        assert outcome.desired.decisions[0].cause.why == "scaled to 3 by kubectl"
        assert world.objects[HPA].behavior == {}
        world.objects[HPA] = replace(world.objects[HPA], scaled_to_zero=False)
        assert run_in(world, self.IDLE).desired.decisions == ()

    def test_what_is_woken_for_some_hours_is_not_idled_when_it_is_scaled_up(self):
        held = {"reconciler/exclude-until": "2026-11-23T00:00:00Z"}
        world = self.world(annotations=held, scaled_to_zero=False)
        world.scale(WEB, 3, "kube-controller-manager")
        assert run_in(world, self.IDLE).desired.decisions == ()

    @pytest.mark.parametrize("hpa", ["Leave", "LowerMinimum"])
    def test_policies_that_leave_it_autoscaled(self, hpa):
        policy = replace(self.IDLE, autoscalers=Autoscalers(hpa))
        assert run_in(self.world(), policy).desired.decisions == ()
