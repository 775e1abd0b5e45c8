"""Scaled by hand, undone by a program, contested."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.apply.events import event_message
from reconciler.decide.decisions import Verb
from reconciler.decide.idling.contested import advice
from reconciler.model import FieldWriter, HorizontalPodAutoscaler, ObjectRef
from reconciler.plan.model import Action
from reconciler.policy.types import Place
from tests.builders import a_ref, a_service, a_workload, an_hpa
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    NIGHT,
    a_metric,
    a_policy,
    a_schedule,
    an_idle_world,
    answers,
    decided,
    notices_of,
    run_in,
    workloads_selector,
)
from tests.decide.idling.world import World, a_world
from tests.laws import tries

WEB = a_ref("web")
HPA = a_ref(kind="HorizontalPodAutoscaler")
NIGHTLY = a_ref("nightly", kind="CronJob")
MINUTE = timedelta(minutes=1)
WEEK = timedelta(days=7)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
FLOOR = a_policy(idle_replicas=1)
GIT = "argocd-controller"


def the_world(minimum: int | None = 2, replicas: int = 5) -> World:
    declared = an_hpa(minimum=minimum, bounds_writer=FieldWriter(GIT, LONG_AGO))
    return a_world(a_service(), a_workload(replicas=replicas), declared, now=NIGHT)


def bounds(world: World) -> tuple[int | None, int]:
    return world.objects[HPA].minimum, world.objects[HPA].maximum


def said(world: World, name: str, ref: ObjectRef = WEB) -> dict[str, Any]:
    return dict(json.loads(world.objects[ref].annotations.get(f"reconciler/{name}", "{}")))


class TestByHand:
    def test_or_for_min_awake_where_no_window_is_open(self):
        policy = a_policy("idle-dev", a_metric())
        world = a_world(a_service(), a_workload(), now=NIGHT)
        world.answers = answers(("web", 0))
        run_in(world, policy)
        world.scale(WEB, 2)
        run_in(world, policy)
        assert world.objects[WEB].annotations["reconciler/awake-until"] == "2026-11-21T00:00:00Z"
        world.now += timedelta(hours=2)
        run_in(world, policy)
        assert world.replicas(WEB) == 0
        assert world.objects[WEB].annotations["idling.kubernetes.io/previous-scale"] == "2"

    @pytest.mark.parametrize("on_revert", ["Yield", "Insist"])
    def test_an_autoscaler_that_goes_on_from_there_undoes_nothing(self, on_revert):
        policy = a_policy(on_revert=on_revert)
        world = a_world(a_service(), a_workload(replicas=5), an_hpa(), now=NIGHT)
        for _ in range(3):
            run_in(world, policy)
            assert world.replicas(WEB) == 0
            world.scale(WEB, 1)
            world.controllers()
            world.now += MINUTE
            outcome = run_in(world, policy)
            assert notices_of(outcome, "contested") == []
            assert outcome.desired.decisions[0].cause.why == "scaled to 2 by somebody"
            assert (world.replicas(WEB), said(world, "undone")["by"]) == (2, "unknown")
            world.now += timedelta(days=7)

    def test_a_change_of_field_manager_alone_is_only_told(self):
        world = an_idle_world()
        world.objects[WEB] = replace(world.objects[WEB], replicas_writer=FieldWriter("argocd-controller", NIGHT))
        outcome = run_in(world)
        assert outcome.desired.decisions == ()
        assert notices_of(outcome, "fieldManager") == [
            "east/shop/Deployment/web is idle, and argocd-controller wrote its replicas last at 2026-11-20T22:00:00Z"
        ]
        adopted = FieldWriter("python-requests", NIGHT - MINUTE)  # it was idle before it had the record
        world.objects[WEB] = replace(world.objects[WEB], replicas_writer=adopted)
        assert notices_of(run_in(world), "fieldManager") == []
        world.objects[WEB] = replace(world.objects[WEB], replicas_writer=FieldWriter("kube-controller-manager"))
        assert notices_of(run_in(world), "fieldManager") == []  # an autoscaler that is held at the idled count


def fight(world: World, *, by: str = "argocd-controller", after: timedelta = MINUTE, timed: bool = True) -> None:
    """One episode: we idle it, and it is undone some time later."""
    world.now += timedelta(days=7)
    run_in(world)
    assert world.replicas(WEB) == 0
    world.now += after
    world.scale(WEB, 3, by, timed=timed)
    run_in(world)


class TestContested:
    @cases(
        "episodes contested",
        ("once", [{}], False),
        ("in two episodes running", [{}, {}], True),
        ("by somebody else", [{}, {"by": "helm"}], False),
        ("by somebody else in between", [{}, {"by": "helm"}, {}], False),
        ("in two windows, however late", [{}, {"after": timedelta(hours=5)}], True),
        ("a person", [{"by": "kubectl"}] * 3, False),
        ("a person, applying", [{"by": "kubectl-client-side-apply"}] * 3, False),
        ("a browser", [{"by": "Mozilla"}] * 3, False),
        ("a person, on a page of Argo CD", [{"by": "argocd-server"}] * 3, False),
        ("a person, by virtctl", [{"by": "virt-api"}] * 3, False),
        ("a person, on a page of a cloud", [{"by": "GoogleCloudConsole"}] * 3, False),
        ("through /scale", [{"timed": False, "after": timedelta(hours=1)}] * 2, True),
    )
    def test_who_undoes_us_twice_running_is_left_alone(self, episodes, contested):
        world = a_world(a_service(), a_workload(), now=NIGHT)
        for episode in episodes:
            fight(world, **episode)
        assert ("reconciler/contested" in world.objects[WEB].annotations) is contested

    def contested_world(self) -> World:
        world = a_world(a_service(), a_workload(), now=NIGHT)
        fight(world)
        fight(world)
        return world

    def test_it_is_written_and_told(self):
        world = a_world(a_service(), a_workload(), now=NIGHT)
        fight(world)
        world.now += timedelta(days=7)
        run_in(world)
        world.now += MINUTE
        world.scale(WEB, 3, "argocd-controller", timed=True)
        outcome = run_in(world)
        release = outcome.desired.decisions[0]
        assert release.event == "IdlingContested"
        assert event_message(Action(1, release)) == (
            "scaled to 3 by argocd-controller (idle-dev, policies/idle-dev.yaml:4); "
            f"{advice('argocd', WEB)}; left alone until reconciler/contested is taken off or its policy changes"
        )
        since = datetime.fromisoformat(json.loads(world.objects[WEB].annotations["reconciler/contested"])["since"])
        assert since == world.now
        (text,) = notices_of(outcome, "contested")
        assert "contested by argocd-controller, which reverted it 2 times" in text
        assert "ignoreDifferences" in text

    def test_or_the_policy_changes(self):
        world = self.contested_world()
        world.now += timedelta(days=7)
        assert run_in(world, a_policy(place=Place("moved.yaml", 90))).desired.decisions == ()
        run_in(world, a_policy(min_awake=timedelta(hours=3)))
        assert world.replicas(WEB) == 0
        assert "reconciler/contested" not in world.objects[WEB].annotations

    def test_what_is_idle_is_woken_when_somebody_writes_that_it_is_contested(self):
        world = an_idle_world()
        world.annotate(WEB, "reconciler/contested", '{"by":"argocd-controller"}')
        world.now += MINUTE
        run_in(world)
        assert world.replicas(WEB) == 3


DEPLOYMENT = ("apps", "Deployment")
FLUX = "kustomize-controller"


@cases(
    "by of autoscaler expected",
    (
        "maxReplicas cannot be left out",
        FLUX,
        DEPLOYMENT,
        "web",
        "or annotate the HorizontalPodAutoscaler with kustomize.toolkit.fluxcd.io/reconcile: disabled;",
    ),
    (
        "replicas can be left out",
        FLUX,
        DEPLOYMENT,
        "",
        "leave spec.replicas out of the manifest, or in the Kustomization: spec.ignore: "
        "[{paths: [/spec/replicas], target: {kind: Deployment}}], or annotate the "
        "Deployment with kustomize.toolkit.fluxcd.io/reconcile: disabled",
    ),
    (
        "the core group",
        "argocd",
        ("", "ReplicationController"),
        "",
        'ignoreDifferences: [{group: "", kind: ReplicationController, jsonPointers: [/spec/replicas]}]',
    ),
    (
        "an annotation as people write it",
        FLUX,
        ("keda.sh", "ScaledObject"),
        "",
        'leave metadata.annotations["autoscaling.keda.sh/paused-replicas"] out',
    ),
)
def test_14_advice_that_can_be_followed(by, of, autoscaler, expected):
    group, kind = of
    assert expected in f"^{advice(by, ObjectRef('east', 'shop', kind, 'web', group), autoscaler)}"


# What somebody puts back while we hold it: bounds of an autoscaler, a CronJob's suspension.


def undone_night(world: World, *, acts: bool, after: timedelta = MINUTE, **how: Any) -> None:
    """We idle it, somebody puts the bounds back some time later, and we run again."""
    declared = world.objects[HPA]
    run_in(world, FLOOR)
    assert (world.replicas(WEB), bounds(world)) == (1, (1, 1))
    world.now += after
    world.put_back(declared, GIT, **how)
    if acts:
        world.controllers()
    world.now += MINUTE
    run_in(world, FLOOR)


@cases("whole", ("the bounds", False), ("all of it", True))
class TestBoundsPutBack:
    def test_at_its_floor_it_is_woken_and_the_undo_is_counted(self, whole):
        world = the_world()
        undone_night(world, acts=False, whole=whole)
        assert (world.replicas(WEB), bounds(world), world.objects[HPA].annotations) == (5, (2, 10), {})
        assert said(world, "undone") == {"by": GIT, "at": "2026-11-20T22:01:00Z", "count": 1}
        assert world.objects[WEB].annotations["reconciler/awake-until"] == "2026-11-23T06:00:00Z"
        assert run_in(world, FLOOR).desired.decisions == ()

    @cases("acts", ("", False), ("the autoscaler acts", True))
    def test_in_two_windows_it_is_contested_and_left_alone(self, whole, acts):
        world = the_world()
        undone_night(world, acts=acts, whole=whole, after=timedelta(hours=1))
        world.now += WEEK
        undone_night(world, acts=acts, whole=whole, after=timedelta(hours=1))
        contest = said(world, "contested")
        assert (contest["by"], contest["autoscaler"]) == (GIT, "web")
        world.now += WEEK
        outcome = run_in(world, FLOOR)
        assert outcome.desired.decisions == ()
        (text,) = notices_of(outcome, "contested")
        assert f"contested by {GIT}" in text
        assert "group: autoscaling, kind: HorizontalPodAutoscaler" in text
        assert "/spec/minReplicas, /spec/maxReplicas" in text


def test_the_event_and_the_notice_name_the_writer_and_what_ends_the_fight():
    world = the_world()
    undone_night(world, acts=False)
    world.now += WEEK
    declared = world.objects[HPA]
    run_in(world, FLOOR)
    world.now += MINUTE
    world.put_back(declared)
    outcome = run_in(world, FLOOR)
    wake = next(one for one in outcome.desired.decisions if one.ref == WEB)
    assert (wake.event, wake.replicas_after) == ("IdlingContested", 5)
    message = event_message(Action(1, wake))
    assert f"{GIT} restored the bounds of HorizontalPodAutoscaler/web" in message
    assert "kind: HorizontalPodAutoscaler" in message
    assert "left alone until reconciler/contested is taken off" in message
    (text,) = notices_of(outcome, "contested")
    assert f"contested by {GIT}, which reverted it 2 times" in text


@cases("seconds undone", ("as far as clocks differ", 30, True), ("longer ago", 90, False))
def test_a_whole_autoscaler_that_was_written_just_before_the_idle(seconds, undone):
    """The server's clock may be behind ours; a run of ours that died leaves no annotations either."""
    world = the_world()
    run_in(world, FLOOR, writes=2)
    written = FieldWriter(GIT, world.now - timedelta(seconds=seconds))
    world.objects[HPA] = replace(world.objects[HPA], bounds_writer=written)
    run_in(world, FLOOR)
    assert (world.replicas(WEB), bounds(world)) == ((5, (2, 10)) if undone else (1, (1, 1)))


def test_a_suspension_that_is_put_back_in_two_windows_is_contested():
    policy = a_policy(selector=workloads_selector("CronJob"))
    job = a_workload("nightly", kind="CronJob", replicas=None, suspend=False)
    world = a_world(job, now=NIGHT)
    for _ in range(2):
        run_in(world, policy)
        assert world.objects[NIGHTLY].switch.is_off
        world.now += timedelta(hours=1)
        world.scale(NIGHTLY, 1, GIT, timed=True)
        outcome = run_in(world, policy)
        world.now += WEEK
    assert said(world, "contested", NIGHTLY)["by"] == GIT
    (text,) = notices_of(outcome, "contested")
    assert "group: batch, kind: CronJob, jsonPointers: [/spec/suspend]" in text
    assert run_in(world, policy).desired.decisions == ()


RUNS = st.tuples(
    st.sampled_from([7, 40, 160, 700, 1500]),  # minutes until it
    st.sampled_from([None, None, None, 0, 1, 2, 3]),  # killed after that many writes
    st.booleans(),  # the autoscaler acts
    st.booleans(),  # the replicas are put back too
    st.booleans(),  # the whole autoscaler is put back
)
IDLES = 2  # how often it may be idled before it is contested


@pytest.mark.laws
@tries(150, at_length=300)
@given(st.lists(RUNS, min_size=4, max_size=40), st.booleans(), st.integers(1, 3), st.sampled_from([None, 1, 2, 4]))
def test_what_is_put_back_after_each_run_comes_to_rest(runs, metric, floor, minimum):
    """Whatever is put back, whenever our runs come or die: what is undone twice is contested, and nothing is written
    then. Each idle takes one run, and one that answers the undo.
    """
    policy = a_policy("idle-dev", a_metric() if metric else a_schedule(), idle_replicas=floor)
    world = the_world(minimum)
    world.answers = answers(("web", 0))
    declared, had, most = world.objects[HPA], world.replicas(WEB), IDLES
    for minutes, writes, acts, replicas, whole in runs:
        world.now += timedelta(minutes=minutes)
        before = len(world.idled)
        outcome = run_in(world, policy, writes=writes)
        wakes = [one for one in outcome.desired.decisions if one.verb is Verb.WAKE and one.ref == WEB]
        assert all(one.replicas_after == world.idled[-1][1] for one in wakes)
        if len(world.idled) > before and bounds(world) == (declared.minimum, declared.maximum):
            most += 2  # it died before there was anything to put back, so that a wake may come first: the row ends
        world.now += timedelta(seconds=20)
        world.put_back(declared, whole=whole)
        if replicas and world.replicas(WEB) != had:
            world.scale(WEB, had, GIT, timed=True)
        if acts:
            world.controllers()
        assert len(world.idled) <= most
        if "reconciler/contested" in world.objects[WEB].annotations:
            break
    calm(world, policy, declared, most)


def calm(world: World, policy: Any, declared: HorizontalPodAutoscaler, most: int) -> None:
    """Some more nights that are undone, and none of it is ours any more."""
    for _ in range(2 * IDLES):
        world.now = replace_night(world.now)
        for _ in range(2):
            run_in(world, policy)
            world.now += MINUTE
            world.put_back(declared)
    world.now = replace_night(world.now)
    assert len(world.idled) <= most
    assert decided(world.state(), policy, now=world.now).desired.decisions == ()
    assert said(world, "contested")["by"] == GIT


def replace_night(now: datetime) -> datetime:
    """The next Friday night."""
    weeks = (now - NIGHT) // WEEK + 1
    return NIGHT + weeks * WEEK
