"""Which pods the plan says will go."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.decide.decisions import Cause, Decision, DesiredState, Notice, Phase, Verb, replicas_change
from reconciler.decide.downscale.deletion_order import RankingRules
from reconciler.decide.downscale.planned_victims import is_steady, picker_requests, with_victims
from reconciler.decide.victim_fields import DownscaleSettings, VictimForecast
from reconciler.model import Node, ObjectRef, Pod, PodsQuestion, Workload
from reconciler.policy.types import ClusterPreference, DownscalePolicy, FederatedReplicaSet
from tests.builders import (
    NOW_NS,
    a_cluster,
    a_federated_replica_set,
    a_fleet,
    a_forecast,
    a_picker,
    a_pod,
    a_policy_set,
    a_run,
    a_state,
    a_workload,
    an_hpa,
    said,
    the_settings,
)
from tests.cases import cases
from tests.decide.downscale.world import a_downscale_policy

DAY = 86_400 * 10**9
PICKER = a_picker("picker.svc")


def pod(name: str, days: int = 1, *, owner: str = "rs", **fields: Any) -> Pod:
    at = NOW_NS - days * DAY
    defaults = {"node": f"n-{name}", "ready_since_ns": at, "created_ns": at, "owner_uid": owner}
    return a_pod(name, **(defaults | fields))


PODS = (pod("a", 40), pod("b", 20), pod("c", 5), pod("d", 1))


def shrinking(workload: Workload, to: int, job: Any = "idling") -> Decision:
    return Decision(
        key="k",
        job=job,
        verb=Verb.SCALE,
        phase=Phase.DECREASE,
        ref=workload.ref,
        api_version=workload.api_version,
        uid=workload.uid,
        changes=(replicas_change(workload.replicas, to),),
        cause=Cause("some", "policies/some.yaml:1", said("because")),
        group="g",
        replicas_before=workload.spec_replicas,
        replicas_after=to,
    )


def forecast(
    *policies: DownscalePolicy,
    kind: str = "Deployment",
    pods: tuple[Pod, ...] | None = PODS,
    to: int = 2,
    federated: tuple[FederatedReplicaSet, ...] = (),
    **cluster: Any,
) -> tuple[Decision, tuple[PodsQuestion, ...], tuple[Notice, ...]]:
    workload = a_workload(kind=kind, replicas=4)
    defaults = {"workloads": (workload,), "pods": {} if pods is None else {workload.ref: pods}}
    state = a_state(a_cluster(**(defaults | cluster)))
    policy_set = a_policy_set(a_fleet(), downscale=policies, federated=federated)
    found = with_victims(DesiredState(decisions=(shrinking(workload, to),)), policy_set, state, a_run())
    return found.decisions[0], found.questions, found.notices


def victims_of(*policies: DownscalePolicy, **options: Any) -> VictimForecast:
    decision, questions, _ = forecast(*policies, **options)
    assert questions == ()
    assert decision.victims is not None
    return decision.victims


def by(strategy: str, kind: str = "Deployment", **fields: Any) -> DownscalePolicy:
    return a_downscale_policy(kind, target=None, strategy=strategy, **fields)


def test_more_than_the_controller_deletes_at_once_is_not_certain() -> None:
    web = a_workload(replicas=1_002)
    pods = tuple(pod(f"p{number:04}", 1 if number < 501 else 40) for number in range(1_002))
    for there, count in ((pods, 501), (pods[1:], 500)):
        state = a_state(a_cluster(workloads=(web,), pods={web.ref: there}))
        decrease = DesiredState(decisions=(shrinking(web, 501),))
        [decision] = with_victims(decrease, a_policy_set(a_fleet()), state, a_run()).decisions
        assert decision.victims is not None
        assert (decision.victims.count, decision.victims.certain) == (count, count <= 500)


def test_a_tie_is_not_certain() -> None:
    found = victims_of(pods=(pod("a"), pod("b"), pod("c")))
    assert (found.pods, found.certain, found.count) == (("a",), False, 1)


@cases(
    "options expected",
    ("to zero", {"to": 0}, a_forecast((), True, "Logarithmic", count=4, note="all pods go")),
    (
        "a StatefulSet",
        {"kind": "StatefulSet"},
        a_forecast((), True, "ordinals", count=2, note="the highest ordinals go first"),
    ),
    (
        "another controller",
        {"kind": "Other"},
        a_forecast((), False, "", count=2, note="the controller of Other chooses"),
    ),
    (
        "unreadable",
        {"pods": (), "unreadable": {"pods of shop/Deployment/web": "forbidden"}},
        a_forecast((), False, "", count=2, note="its pods could not be read: forbidden"),
    ),
    (
        "two ReplicaSets",
        {"pods": (pod("a"), pod("b", owner="other"))},
        a_forecast((), False, "", count=2, note="several of its ReplicaSets have pods; the controller chooses"),
    ),
)
def test_without_names(options: dict[str, Any], expected: VictimForecast) -> None:
    assert victims_of(**options) == expected


@pytest.mark.parametrize("options", [{"to": 0}, {"kind": "StatefulSet"}, {"kind": "CronJob"}, {"to": 4}, {"to": 7}])
def test_no_pods_are_asked_for_where_they_do_not_matter(options: dict[str, Any]) -> None:
    assert forecast(pods=None, **options)[1] == ()


def test_a_clone_sets_own_order_is_newest_first_and_not_certain() -> None:
    pods = (pod("x", 12, uid="1"), pod("y", 10, uid="2"), pod("z", 8, uid="3"))
    found = victims_of(kind="CloneSet", pods=pods)
    assert (found.pods, found.certain) == (("z",), False)
    assert found.note == "the CloneSet's own controller may put its spread and its revisions first"


def test_fewer_pods_than_stay_lose_none() -> None:
    found = victims_of(pods=PODS[:1], to=2)
    assert (found.pods, found.count) == ((), 0)


# Our own choice

ZONES = tuple(
    Node(ObjectRef("east", "", "Node", f"n-{name}"), {"topology.kubernetes.io/zone": zone})
    for name, zone in zip("abcd", "1112", strict=True)
)


def test_zones_that_could_not_be_read() -> None:
    found = victims_of(by("ZoneBalanced"), unreadable={"nodes": "forbidden"})
    assert (found.pods, found.certain) == ((), False)
    assert found.note == "the nodes could not be read, so no zones are known"


COSTLY = (dataclasses.replace(PODS[0], deletion_cost="5"), *PODS[1:3], dataclasses.replace(PODS[3], deletion_cost="-7"))


@pytest.mark.parametrize(("strategy", "costly"), [("NewestFirst", "d"), ("ZoneBalanced", "c")])
def test_what_apply_refuses_is_not_promised(strategy: str, costly: str) -> None:
    pods = tuple(dataclasses.replace(one, deletion_cost="-7") if one.name == costly else one for one in PODS)
    found = victims_of(by(strategy), pods=pods, nodes=ZONES)
    assert (found.pods, found.certain, found.count, found.deferred) == ((), False, 0, True)
    assert found.note == (f"deferred: foreign deletion costs on {costly} (-7), expected none (onForeignCost: Skip)")
    overriding = victims_of(by(strategy, on_foreign_cost="Override"), pods=pods, nodes=ZONES)
    assert (len(overriding.pods), overriding.deferred) == (2, False)


def test_before_a_picker_is_asked_its_choice_may_be_in_the_way() -> None:
    policy = by("Logarithmic", pod_picker=PICKER)
    found = victims_of(policy, pods=COSTLY)
    assert found.chosen_at_apply
    assert found.note == (
        "deferred if it chooses any of d (-7), a (5) with a foreign deletion cost (onForeignCost: Skip)"
    )
    assert victims_of(policy, pods=PODS).note == ""
    assert victims_of(by("Logarithmic", pod_picker=PICKER, on_foreign_cost="Override"), pods=COSTLY).note == ""
    lowest = (*PODS[:3], dataclasses.replace(PODS[3], deletion_cost="-2147483648"))
    assert victims_of(policy, pods=lowest).deferred
    assert not victims_of(by("Logarithmic", pod_picker=PICKER, on_foreign_cost="Override"), pods=lowest).deferred


def test_our_costs_settle_ties_that_the_controller_leaves_to_its_cache() -> None:
    found = victims_of(by("NewestFirst"), pods=tuple(pod(name) for name in "dcba"))
    assert (found.pods, found.certain) == (("a", "b"), True)
    assert found.rules == ("smaller uid among equal ages",) * 2


def test_costs_of_karpenter_are_in_nobodys_way() -> None:
    pods = tuple(dataclasses.replace(one, cost_writer="karpenter") for one in COSTLY)
    assert victims_of(by("Logarithmic", pod_picker=PICKER), pods=pods).note == ""
    assert not victims_of(by("NewestFirst"), pods=pods).deferred


@pytest.mark.parametrize(("foreign", "more"), [(5, ""), (6, ", ...")])
def test_of_many_foreign_costs_five_are_named(foreign: int, more: str) -> None:
    pods = tuple(pod(f"p{index}", uid=f"{index}", deletion_cost="1" if index < foreign else None) for index in range(8))
    found = victims_of(by("Logarithmic", pod_picker=PICKER), pods=pods)
    named = found.note.removeprefix("deferred if it chooses any of ").partition(" with a foreign")[0]
    assert (named.count("(1)"), named.endswith(", ...")) == (5, bool(more))


def test_a_picker_is_asked_at_apply() -> None:
    policy = by("Logarithmic", pod_picker=PICKER, on_foreign_cost="Override", settle_seconds=5, verify_seconds=60)
    decision, _, _ = forecast(policy, pods=(*PODS, pod("x", ready=False)))
    assert decision.victims == a_forecast(
        certain=False, strategy="PodPicker", chosen_at_apply=True, count=3, requested=2, candidates=4
    )
    assert decision.downscale == the_settings(
        "shrink",
        "PodPicker",
        PICKER,
        topology_key="topology.kubernetes.io/zone",
        on_foreign_cost="Override",
        settle_seconds=5,
        verify_seconds=60,
    )


@cases(
    "answer pods rules note",
    (
        "it chooses",
        PickerAnswer(("a",), ("b", "c")),
        ("x", "a", "c"),
        ("not Ready", "chosen by the picker", "tied by the picker"),
        "a tie at the cut was broken by the controller's order",
    ),
    (
        "it has no opinion",
        PickerAnswer(),
        ("x", "d", "c"),
        ("not Ready", "shorter time Ready", "shorter time Ready"),
        "the picker has no preference; the controller chooses",
    ),
    (
        "it names too few",
        PickerAnswer(("a",)),
        ("x", "a", "d"),
        ("not Ready", "chosen by the picker", "the controller's order"),
        "the picker named 1 of 2, the controller's order filled up",
    ),
)
def test_a_picker_that_is_asked_for_the_plan(
    answer: PickerAnswer, pods: tuple[str, ...], rules: tuple[str, ...], note: str
) -> None:
    web = a_workload(replicas=4)
    state = a_state(a_cluster(workloads=(web,), pods={web.ref: (*PODS, pod("x", ready=False))}))
    policies = a_policy_set(a_fleet(), downscale=(by("Logarithmic", pod_picker=PICKER),))
    decreases = DesiredState(decisions=(shrinking(web, 2), shrinking(web, 0)))
    asked = with_victims(decreases, policies, state, a_run()).decisions
    requests = picker_requests(asked, policies, state, a_run())
    assert requests == {web.ref: PickerRequest(PICKER, "shop", 2, ("a", "b", "c", "d"))}
    answered = with_victims(DesiredState(decisions=asked[:1]), policies, state, a_run(), {web.ref: answer})
    [decision] = answered.decisions
    assert decision.victims is not None
    assert (decision.victims.pods, decision.victims.rules, decision.victims.note) == (pods, rules, note)
    assert not decision.victims.chosen_at_apply
    assert not decision.victims.certain, "it is asked again at apply, and may answer otherwise"
    assert decision.downscale == asked[0].downscale


def test_nothing_is_asked_where_those_that_go_first_suffice() -> None:
    pods = (*PODS[:2], pod("x", ready=False), pod("y", phase="Pending", ready=False))
    found = victims_of(by("Logarithmic", pod_picker=PICKER), pods=pods)
    assert (found.pods, found.chosen_at_apply) == (("y", "x"), False)
    assert found.strategy == "Logarithmic", "27: the controller chooses, no picker is asked"


# Whose order


def a_federated(**fields: Any) -> FederatedReplicaSet:
    return a_federated_replica_set(
        **({"replicas": 4, "clusters": {"*": ClusterPreference(weight=1)}, "pod_picker": PICKER} | fields)
    )


def settings(*policies: DownscalePolicy, **options: Any) -> DownscaleSettings | None:
    return forecast(*policies, nodes=ZONES, **options)[0].downscale


def test_the_higher_priority_orders() -> None:
    found = settings(by("ZoneBalanced", name="a"), by("Logarithmic", name="b", pod_picker=PICKER, priority=1))
    assert found is not None
    assert (found.policy, found.strategy) == ("b", "PodPicker")


def test_with_equal_priorities_the_controller_chooses() -> None:
    decision, _, [notice] = forecast(by("ZoneBalanced", name="a"), by("NewestFirst", name="b"))
    assert (decision.downscale, decision.victims and decision.victims.pods) == (None, ("d", "c"))
    assert notice.text == "a and b have the same priority, the controller chooses"


def test_what_is_told_of_the_order_is_told_once_for_each_workload() -> None:
    """Of several decreases of it, and where victims are looked for once more, as after a picker answered."""
    web, policies = a_workload(replicas=4), (by("ZoneBalanced", name="a"), by("NewestFirst", name="b"))
    state, policy_set = a_state(a_cluster(workloads=(web,), pods={web.ref: PODS})), a_policy_set(downscale=policies)
    found = DesiredState(decisions=(shrinking(web, 3), shrinking(web, 2)))
    for _ in range(2):
        found = with_victims(found, policy_set, state, a_run())
        assert [one.kind for one in found.notices] == ["victimOrder"]


def test_the_picker_of_a_federated_replica_set_orders_its_workloads() -> None:
    found = settings(by("ZoneBalanced", priority=9), federated=(a_federated(),))
    assert found == the_settings("web", "PodPicker", PICKER)
    assert settings(federated=(a_federated(pod_picker=None),)) is None


def test_beside_an_autoscaler_that_scales_down_nothing_is_marked() -> None:
    decision, _, [notice] = forecast(by("ZoneBalanced"), nodes=ZONES, autoscalers=(an_hpa(),))
    assert (decision.downscale, decision.victims and decision.victims.pods) == (None, ("d", "c"))
    assert "ZoneBalanced needs HorizontalPodAutoscaler/web to leave scaling down alone" in notice.text
    assert settings(by("ZoneBalanced"), autoscalers=(an_hpa(scale_down_disabled=True),)) is not None


# What an earlier run left


SECOND = 10**9
POWER = 2**41  # nanoseconds, some 37 minutes


def looked_at(*pods: Pod) -> set[int]:
    """Return at which times, after now, a forecast looks for other victims."""
    times: set[int] = set()

    def victims_at(at: int) -> frozenset[str]:
        times.add(at - NOW_NS)
        return frozenset()

    is_steady(pods, NOW_NS, RankingRules(), victims_at)
    return times - {0}


@cases(
    "after expected",
    ("as far as another clock may be behind", -10 * SECOND, True),
    ("a moment later", -10 * SECOND + 1, True),
    ("as old as a plan may be", 3600 * SECOND, True),
    ("a moment older", 3600 * SECOND + 1, False),
)
def test_a_forecast_looks_whenever_an_age_passes_a_power(after: int, expected: bool) -> None:
    pod = a_pod(ready_since_ns=NOW_NS + after - POWER, created_ns=None)
    assert (after in looked_at(pod)) is expected
    assert min(looked_at(pod)) == -10 * SECOND


def test_a_pod_from_this_moment_passes_its_first_power_at_once() -> None:
    assert 1 in looked_at(a_pod(ready_since_ns=NOW_NS, created_ns=None))


@pytest.mark.parametrize(("pods", "steady"), [(199, True), (200, False)])
def test_what_changes_too_often_to_look_is_not_steady(pods: int, steady: bool) -> None:
    old = 2**60  # its next power is far away, its last one long ago
    some = [
        a_pod(f"w-{number}", ready_since_ns=NOW_NS + number - old, created_ns=None) for number in range(1, pods + 1)
    ]
    assert is_steady(some, NOW_NS, RankingRules(), lambda _: frozenset({"a"})) is steady


@pytest.mark.parametrize(("kind", "to"), [("Deployment", 0), ("StatefulSet", 2), ("Other", 2)])
def test_no_marks_where_they_do_nothing(kind: str, to: int) -> None:
    assert forecast(by("ZoneBalanced", kind), kind=kind, to=to)[0].downscale is None
