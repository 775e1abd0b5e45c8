"""Another tool that scales up what is idle: a policy that insists, and Flux paused while something is idle."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.decide.annotations import Key
from reconciler.decide.idling.contested import remedy
from reconciler.model import FieldWriter
from reconciler.policy.kinds.idling_policy import GitOps
from reconciler.policy.types import IdlingPolicy
from tests.builders import a_ref, a_service, a_workload, an_hpa
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    MONDAY,
    NIGHT,
    a_policy,
    a_schedule,
    an_idle_world,
    notices_of,
    run_in,
    verbs,
    workloads_selector,
)
from tests.decide.idling.world import World, a_world

WEB = a_ref("web")
HPA = a_ref(kind="HorizontalPodAutoscaler")
GIT = "argocd-controller"
MINUTE = timedelta(minutes=1)
INSISTS = a_policy("nights", a_schedule(), on_revert="Insist")
YIELDS = a_policy("nights", a_schedule())


def reverted(world: World, by: str) -> None:
    """`by` scales what is idle up, and its pods come."""
    world.now += MINUTE
    world.scale(WEB, 5)
    world.objects[WEB] = replace(world.objects[WEB], replicas_writer=FieldWriter(by, world.now))
    world.now += MINUTE


class TestInsist:
    def test_what_a_tool_scales_up_is_idled_again_once_a_run_and_told_for_ever(self):
        world = an_idle_world(INSISTS)
        for count in (1, 2, 3, 4):
            reverted(world, GIT)
            outcome = run_in(world, INSISTS)
            assert ("idle", "Deployment/web") in verbs(outcome)
            assert world.replicas(WEB) == 0
            assert json.loads(world.objects[WEB].annotations[Key.UNDONE])["count"] == count
            assert "reconciler/contested" not in world.objects[WEB].annotations
            (told,) = notices_of(outcome, "contested")
            assert f"by {GIT} {'once' if count == 1 else f'{count} times in a row'}; " in told
            assert "ignoreDifferences" in told
            (later,) = notices_of(run_in(world, INSISTS), "contested") or [""]
            assert ("idled again" in later) is (count > 1)
        world.now = MONDAY
        run_in(world, INSISTS)
        assert world.replicas(WEB) == 5
        assert Key.UNDONE not in world.objects[WEB].annotations

    @pytest.mark.parametrize(("by", "policy"), [("kubectl", INSISTS), (GIT, YIELDS)])
    def test_what_was_yielded_to_is_not_told_as_insisted_on(self, by: str, policy: IdlingPolicy):
        world = an_idle_world(policy)
        for _ in range(2):
            reverted(world, by)
            run_in(world, policy)
            world.annotate(WEB, "reconciler/contested", None)
            world.now += timedelta(days=7)
            outcome = run_in(world, policy)
            assert world.replicas(WEB) == 0
        assert json.loads(world.objects[WEB].annotations[Key.UNDONE])["count"] == 2
        assert notices_of(outcome, "contested") == []

    @pytest.mark.parametrize("through", ["Service", "Deployment"])
    def test_one_policy_that_yields_is_enough(self, through: str):
        """One selects the Service, the other one the Deployment behind it, so that both decide."""
        also = a_policy("also", a_schedule(), selector=workloads_selector())
        insists, yields = (INSISTS, also) if through == "Service" else (replace(also, on_revert="Insist"), YIELDS)
        world = an_idle_world(INSISTS)
        run_in(world, insists, yields)
        reverted(world, GIT)
        assert ("release", "Deployment/web") in verbs(run_in(world, insists, yields))


FLUX = {Key.FLUX_NAME_LABEL: "apps"}
PAUSES = a_policy("nights", a_schedule(), git_ops=GitOps("Pause"))


class TestFlux:
    def test_one_policy_that_pauses_it_is_enough(self):
        also = a_policy("also", a_schedule(), selector=workloads_selector())
        world = a_world(a_service(), a_workload(labels=FLUX), now=NIGHT)
        run_in(world, PAUSES, also)
        assert world.objects[WEB].annotations[Key.FLUX_RECONCILE] == "disabled"

    def test_its_autoscaler_is_left_alone_too_while_its_bounds_are_held(self):
        policy = replace(PAUSES, idle_replicas=1)
        world = a_world(a_service(), a_workload(replicas=5, labels=FLUX), an_hpa(labels=FLUX), now=NIGHT)
        decisions = run_in(world, policy).desired.decisions
        (held,) = [one for one in decisions if one.ref == HPA]
        paths = {change.path[-1] for change in held.changes}
        assert {"minReplicas", "maxReplicas", Key.FLUX_RECONCILE, Key.FLUX_PAUSED} <= paths
        assert world.objects[HPA].annotations[Key.FLUX_RECONCILE] == "disabled"
        assert run_in(world, policy).desired.decisions == ()
        world.now = MONDAY
        run_in(world, policy)
        hpa = world.objects[HPA]
        assert (hpa.minimum, hpa.maximum, world.replicas(WEB)) == (2, 10, 5)
        assert not {Key.FLUX_RECONCILE, Key.FLUX_PAUSED} & hpa.annotations.keys()

    @cases(
        "labels annotations",
        ("not of Flux", {}, {}),
        ("paused by somebody else", FLUX, {Key.FLUX_RECONCILE: "disabled"}),
    )
    def test_an_autoscaler_that_is_not_ours_to_pause_stays_as_it_is(self, labels, annotations):
        policy = replace(PAUSES, idle_replicas=1)
        hpa = an_hpa(labels=labels, annotations=annotations)
        world = a_world(a_service(), a_workload(replicas=5, labels=FLUX), hpa, now=NIGHT)
        for now in (NIGHT, MONDAY):
            world.now = now
            run_in(world, policy)
            assert world.objects[HPA].annotations.get(Key.FLUX_RECONCILE) == annotations.get(Key.FLUX_RECONCILE)
            assert Key.FLUX_PAUSED not in world.objects[HPA].annotations


class TestFirstPlan:
    def test_it_names_who_writes_the_scale_and_what_to_tell_them_for_each_kind(self):
        by = FieldWriter(GIT, NIGHT - timedelta(days=3))
        web, db = a_workload(replicas_writer=by), a_workload("db", kind="StatefulSet", replicas_writer=by)
        person = a_workload("hand", replicas_writer=FieldWriter("argocd-server", NIGHT - timedelta(days=3)))
        policy = a_policy("nights", a_schedule(), selector=workloads_selector("Deployment", "StatefulSet"))
        outcome = run_in(a_world(web, db, person, now=NIGHT), policy, writes=0)
        assert notices_of(outcome, "otherWriter") == [
            "east: argocd-controller writes the scale of 2 workloads that are idled for the first time too, and may "
            "undo that; in the Application: spec.ignoreDifferences: [{group: apps, kind: Deployment, jsonPointers: "
            "[/spec/replicas]}, {group: apps, kind: StatefulSet, jsonPointers: [/spec/replicas]}] and syncOptions: "
            "[RespectIgnoreDifferences=true]"
        ]

    def test_a_single_workload_is_named(self):
        web = a_workload(replicas_writer=FieldWriter("helm", NIGHT - timedelta(days=3)))
        policy = a_policy("nights", a_schedule(), selector=workloads_selector("Deployment"))
        (text,) = notices_of(run_in(a_world(web, now=NIGHT), policy, writes=0), "otherWriter")
        assert text.startswith("east: helm writes the scale of east/shop/Deployment/web too, and may undo that; let ")


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("kustomize-controller", "spec.ignore: [{paths: [/spec/replicas], target: {kind: Deployment}}]"),
        ("helm", "let the values of the chart leave spec.replicas out"),
        ("helm-controller", "in the HelmRelease: spec.driftDetection"),
    ],
)
def test_each_tool_has_its_remedy(by: str, words: str):
    assert words in remedy(by, [a_workload()])


def test_what_helm_writes_of_two_kinds_is_advised_for_each():
    web, job = a_workload(), a_workload("job", kind="CronJob")
    assert remedy("helm", [web, job]) == f"{remedy('helm', [web])}; {remedy('helm', [job])}"


def test_a_custom_kind_has_the_field_that_its_scale_sets():
    shards = a_workload(kind="Prometheus", replicas_path=("spec", "shards"))
    assert "kind: Prometheus, jsonPointers: [/spec/shards]}" in remedy(GIT, [shards])
