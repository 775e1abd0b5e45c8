"""Scaled by hand, undone by a program, contested."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from reconciler.apply.events import event_message
from reconciler.decide.idling.contested import advice
from reconciler.model import FieldWriter, ObjectRef
from reconciler.plan.model import Action
from reconciler.policy.types import Place
from tests.builders import a_ref, a_service, a_workload, an_hpa
from tests.decide.idling.idling_policies import (
    NIGHT,
    a_metric,
    a_policy,
    an_idle_world,
    answers,
    notices_of,
    run_in,
)
from tests.decide.idling.world import World, a_world

WEB = a_ref("web")
MINUTE = timedelta(minutes=1)


def undone(world: World) -> dict[str, object]:
    return json.loads(world.objects[WEB].annotations["reconciler/undone"])


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
            assert notices_of(run_in(world, policy), "contested") == []
            assert (world.replicas(WEB), undone(world)["by"]) == (2, "unknown")
            world.now += timedelta(days=7)

    def test_a_change_of_field_manager_alone_is_only_told(self):
        world = an_idle_world()
        world.objects[WEB] = replace(world.objects[WEB], replicas_writer=FieldWriter("argocd-controller", NIGHT))
        outcome = run_in(world)
        assert outcome.desired.decisions == ()
        assert notices_of(outcome, "fieldManager") == [
            "east/shop/Deployment/web is idle, and argocd-controller wrote its replicas last at 2026-11-20T22:00:00Z"
        ]
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
    @pytest.mark.parametrize(
        ("episodes", "contested"),
        [
            pytest.param([{}], False, id="once"),
            pytest.param([{}, {}], True, id="in two episodes running"),
            pytest.param([{}, {"by": "helm"}], False, id="by somebody else"),
            pytest.param([{}, {"by": "helm"}, {}], False, id="by somebody else in between"),
            pytest.param([{}, {"after": timedelta(hours=5)}], True, id="in two windows, however late"),
            pytest.param([{"by": "kubectl"}] * 3, False, id="a person"),
            pytest.param([{"by": "kubectl-client-side-apply"}] * 3, False, id="a person, applying"),
            pytest.param([{"by": "Mozilla"}] * 3, False, id="a browser"),
            pytest.param([{"by": "argocd-server"}] * 3, False, id="a person, on a page of Argo CD"),
            pytest.param([{"by": "virt-api"}] * 3, False, id="a person, by virtctl"),
            pytest.param([{"by": "GoogleCloudConsole"}] * 3, False, id="a person, on a page of a cloud"),
            pytest.param([{"timed": False, "after": timedelta(hours=1)}] * 2, True, id="through /scale"),
        ],
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


@pytest.mark.parametrize(
    ("by", "of", "autoscaler", "expected"),
    [
        pytest.param(
            FLUX,
            DEPLOYMENT,
            "web",
            "or annotate the HorizontalPodAutoscaler with kustomize.toolkit.fluxcd.io/reconcile: disabled;",
            id="maxReplicas cannot be left out",
        ),
        pytest.param(
            FLUX,
            DEPLOYMENT,
            "",
            "leave spec.replicas out of the manifest, or in the Kustomization: spec.ignore: "
            "[{paths: [/spec/replicas], target: {kind: Deployment}}], or annotate the "
            "Deployment with kustomize.toolkit.fluxcd.io/reconcile: disabled",
            id="replicas can be left out",
        ),
        pytest.param(
            "argocd",
            ("", "ReplicationController"),
            "",
            'ignoreDifferences: [{group: "", kind: ReplicationController, jsonPointers: [/spec/replicas]}]',
            id="the core group",
        ),
        pytest.param(
            FLUX,
            ("keda.sh", "ScaledObject"),
            "",
            'leave metadata.annotations["autoscaling.keda.sh/paused-replicas"] out',
            id="an annotation as people write it",
        ),
    ],
)
def test_14_advice_that_can_be_followed(by, of, autoscaler, expected):
    group, kind = of
    assert expected in f"^{advice(by, ObjectRef('east', 'shop', kind, 'web', group), autoscaler)}"
