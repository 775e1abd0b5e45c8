"""How the three jobs are joined: what placement looks at, whose workloads are whose, and what cannot wait."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.connection_settings import PodPicker
from reconciler.decide.decide import after_writes, decide, placed_workloads, urgent
from reconciler.decide.decisions import Decision, DesiredState, FieldChange, Phase, Verb
from reconciler.model import ObjectRef
from reconciler.policy.types import ClusterPreference, DownscaleTarget, ObjectSelector, TargetRef
from tests.builders import (
    a_cluster,
    a_downscale_policy,
    a_fleet,
    a_policy_set,
    a_ref,
    a_run,
    a_service,
    a_state,
    a_workload,
)
from tests.decide.idling.idling_policies import MONDAY, NIGHT, a_policy, workloads_selector
from tests.decide.idling.world import World, a_world
from tests.decide.placement.placements import a_federated, a_placed
from tests.plan.decisions import a_decision

WEB = a_ref("web")


@pytest.mark.parametrize(
    ("federated", "expected"),
    [
        pytest.param(a_federated(), ("ReplicaSet", "apps"), id="local ReplicaSets that are made"),
        pytest.param(a_placed(), ("Deployment", "apps"), id="Deployments that others make"),
        pytest.param(
            a_placed(target=TargetRef("apps.kruise.io/v1alpha1", "CloneSet", "web")),
            ("CloneSet", "apps.kruise.io"),
            id="a custom kind",
        ),
    ],
)
def test_what_is_placed_is_claimed_on_every_cluster(federated, expected):
    kind, group = expected
    claimed = placed_workloads(a_policy_set(a_fleet("east", "west"), federated=(federated,)))
    assert claimed == {ObjectRef(name, "shop", kind, "web", group): "web" for name in ("east", "west")}


class TestTenantsWithOneNamespaceInDifferentClusters:
    """Of team a a federated ReplicaSet in east, of team b a Deployment of that name in west."""

    placed = a_placed(
        3,
        tenant="a",
        within=("east",),
        clusters={"east": ClusterPreference(weight=1)},
        pod_picker=PodPicker("a.shop.svc"),
    )
    theirs = a_workload("web", replicas=6, cluster="west")
    state = a_state(a_cluster("east", workloads=(a_workload("web"),)), a_cluster("west", workloads=(theirs,)))

    def decided(self, **policies: Any) -> list[Decision]:
        found = a_policy_set(a_fleet("east", "west"), federated=(self.placed,), **policies)
        return [one for one in decide(found, self.state, a_run(NIGHT)).decisions if one.ref == self.theirs.ref]

    def test_what_is_theirs_is_not_claimed(self):
        claimed = placed_workloads(a_policy_set(a_fleet("east", "west"), federated=(self.placed,)))
        assert [ref.cluster for ref in claimed] == ["east"]

    def test_their_policy_idles_what_is_theirs_whatever_runs_elsewhere(self):
        selector = replace(workloads_selector(), clusters=ObjectSelector(("west",)))
        [idled] = self.decided(idling=(a_policy(selector=selector),))
        assert (idled.verb, idled.replicas_after) == (Verb.IDLE, 0)

    def test_their_policy_scales_down_what_is_theirs_and_the_picker_of_others_is_not_asked(self):
        selector = replace(workloads_selector("Deployment"), clusters=ObjectSelector(("west",)))
        [scaled] = self.decided(
            downscale=(a_downscale_policy("less", selector=selector, target=DownscaleTarget(replicas=2)),)
        )
        assert (scaled.replicas_after, scaled.downscale) == (2, None)


class TestIdlingAndPlacement:
    """A Deployment that idling idles at night, and of which placement wants six by day."""

    policies = a_policy_set(idling=(a_policy(),), federated=(a_placed(6),))

    def decided(self, world: World) -> DesiredState:
        return decide(self.policies, world.state(), a_run(world.now))

    def verbs(self, desired: DesiredState) -> list[str]:
        return [str(one.verb) for one in desired.decisions if one.ref == WEB]

    def is_told_idle(self, desired: DesiredState) -> bool:
        ((row,),) = (view.rows for view in desired.placements)
        return "idle, idle-dev decides" in row.why

    def test_what_is_idle_is_none_of_placement_until_the_run_after_its_wake(self):
        world = a_world(a_service(), a_workload(), now=NIGHT)
        told = []
        for world.now in (NIGHT, NIGHT, MONDAY, MONDAY):
            desired = self.decided(world)
            told.append((self.verbs(desired), self.is_told_idle(desired)))
            world.apply(desired.decisions)
        assert told == [(["idle"], True), ([], True), (["wake"], False), (["scale"], False)]


def idled(*changes: FieldChange, to: int | None = 0) -> Decision:
    return replace(a_decision(), ref=WEB, changes=changes, replicas_before=3, replicas_after=to)


def annotation(key: str, before: str | None, after: str | None) -> FieldChange:
    return FieldChange(("metadata", "annotations", key), before, after)


class TestAfterWrites:
    """What placement looks at: the workloads as idling leaves them."""

    def after(self, decision: Decision, **fields: Any):
        others = (a_workload("api"), a_workload(namespace="other"))
        state = a_state(a_cluster(workloads=(a_workload(**fields), *others)))
        web, *kept = after_writes(state, (decision,)).clusters["east"].workloads
        assert tuple(kept) == others
        return web

    def test_its_replicas_are_settled(self):
        web = self.after(idled(FieldChange(("spec", "replicas"), 3, 0)))
        assert (web.replicas, web.status_replicas, web.updated_replicas) == (0, 0, 0)
        assert (web.ready_replicas, web.available_replicas) == (0, 0)

    def test_its_annotations_are_those_that_were_written(self):
        web = self.after(
            idled(annotation("new", None, "1"), annotation("changed", "1", "2"), annotation("gone", "1", None)),
            annotations={"changed": "1", "gone": "1", "kept": "1"},
        )
        assert web.annotations == {"new": "1", "changed": "2", "kept": "1"}

    def test_a_label_is_no_annotation(self):
        web = self.after(idled(FieldChange(("metadata", "labels", "x"), None, "1")), annotations={"kept": "1"})
        assert web.annotations == {"kept": "1"}

    def test_what_touches_no_replicas_changes_nothing(self):
        assert self.after(idled(annotation("new", None, "1"), to=None)) == a_workload()


@pytest.mark.parametrize(
    ("fields", "is_urgent"),
    [
        pytest.param({"verb": Verb.WAKE, "phase": Phase.WAKE}, True, id="the wake"),
        pytest.param({"verb": Verb.REPAIR, "phase": Phase.REPAIR}, True, id="a repair of its group"),
        pytest.param({"verb": Verb.IDLE, "phase": Phase.DECREASE}, False, id="a decrease in its group"),
        pytest.param({"verb": Verb.REPAIR, "phase": Phase.REPAIR, "group": "other"}, False, id="a repair elsewhere"),
        pytest.param({"verb": Verb.WAKE, "phase": Phase.WAKE, "group": "other"}, False, id="a wake that is not due"),
    ],
)
def test_what_cannot_wait_is_what_is_due_and_the_repairs_of_its_group(fields, is_urgent):
    due = replace(a_decision(), key="due", verb=Verb.WAKE, phase=Phase.WAKE, ref=WEB, group="web")
    other = replace(a_decision(), **({"key": "other", "ref": a_ref("api"), "group": "web"} | fields))
    kept = urgent(DesiredState(decisions=(due, other)), DesiredState(decisions=(due,))).decisions
    assert kept == ((due, other) if is_urgent else (due,))


def test_what_only_repairs_is_not_urgent():
    repair = replace(a_decision(), verb=Verb.REPAIR, phase=Phase.REPAIR, ref=WEB, group="web")
    assert urgent(DesiredState(decisions=(repair,)), DesiredState(decisions=(repair,))).decisions == ()
