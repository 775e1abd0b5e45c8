"""What would alter what becomes of an object: of its reason, never of criteria that have no say there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.decide.annotations import format_time
from reconciler.decide.decisions import WITHOUT_END
from reconciler.decide.idling.counterfactuals import after, what_lifts
from reconciler.decide.reasons import Counterfactual, CounterfactualCode, change_if, joint_counterfactual
from reconciler.policy.types import ClusterPreference, IdlingPolicy, ObjectSelector, WakeOrder
from tests.builders import (
    a_cluster,
    a_federated_replica_set,
    a_fleet,
    a_ref,
    a_service,
    a_state,
    a_workload,
    flip_of,
)
from tests.decide.idling.idling_policies import (
    MONDAY,
    NIGHT,
    NOON,
    a_metric,
    a_policy,
    answers,
    decided,
    of_state,
    run_in,
    services_selector,
)
from tests.decide.idling.test_idling_others import RECORD, STAGING
from tests.decide.idling.world import a_world

OPENS = "it is 2026-11-20T19:00:00Z or later"
SOON = NIGHT + timedelta(minutes=1)
ANYWHERE = ClusterPreference(weight=1)
UNCONTESTED = "reconciler/contested is removed, or its policy changes"


def told(state: Any, *policies: IdlingPolicy, now: Any = NIGHT, **fields: Any) -> tuple[str, str]:
    """What becomes of the one object, and what would alter it."""
    (one,) = decided(state, *policies, now=now, **fields).desired.explanations
    return one.outcome, flip_of(one)


def up(**workload: Any) -> Any:
    return a_state(a_cluster(services=(a_service(),), workloads=(a_workload(**workload),)))


@pytest.mark.parametrize(
    ("workload", "flip"),
    [
        pytest.param({"annotations": {"reconciler/exclude": "true"}}, "reconciler/exclude is removed", id="excluded"),
        pytest.param({"annotations": {"reconciler/exclude": "yes"}}, "reconciler/exclude is removed", id="unreadable"),
        pytest.param(
            {"annotations": {"reconciler/exclude-until": "2026-11-21T00:00:00Z"}},
            "it is 2026-11-21T00:00:00Z or later",
            id="excluded for a while",
        ),
        pytest.param({"annotations": {"reconciler/exclude-until": "soon"}}, "the time can be read", id="until when?"),
        pytest.param(
            {"annotations": {"reconciler/wake-requested-at": "2026-11-20T23:00:00Z"}},
            "it is 2026-11-20T23:00:00Z or later",
            id="a request of the future",
        ),
        pytest.param({"replicas": 0}, "it has more than 0 replicas", id="at 0 already"),
        pytest.param({"annotations": {"reconciler/contested": '{"by":"argocd"}'}}, UNCONTESTED, id="contested"),
        pytest.param({"annotations": RECORD | STAGING, "replicas": 0}, "there is a wake request", id="somebody else's"),
        pytest.param(
            {"annotations": {"idling.kubernetes.io/idled-at": "now", "reconciler/owner": "production/IdlingPolicy/x"}},
            "the record can be read",
            id="set aside",
        ),
    ],
)
def test_what_is_not_idled_for_another_reason_than_the_criteria(workload, flip):
    assert told(up(**workload))[1] == flip


def test_of_several_that_time_does_not_lift_the_first_is_named():
    rolling = {"observed_generation": 0, "generation": 1}
    found = told(up(annotations={"reconciler/exclude": "true"}, **rolling))
    assert found[1] == "reconciler/exclude is removed"


def test_a_request_made_this_very_second_is_not_one_to_wait_for():
    assert told(up(annotations={"reconciler/wake-requested-at": format_time(NIGHT)}))[1] == ""


@pytest.mark.parametrize(
    ("annotations", "flip"),
    [
        ({}, OPENS),
        ({"reconciler/exclude": "true"}, f"{OPENS} and reconciler/exclude is removed"),
        ({"reconciler/wake-requested-at": "2026-11-20T23:00:00Z"}, OPENS),
    ],
    ids=["nothing else", "an exclusion too", "a request has no say"],
)
def test_what_the_criteria_call_busy(annotations, flip):
    assert told(up(annotations=annotations), now=NOON) == ("stays awake", flip)


@pytest.mark.parametrize(
    ("fleet", "flip"),
    [
        (a_fleet(protected_namespaces=("shop",)), "the namespace is removed from protectedNamespaces of the Fleet"),
        (a_fleet(namespace="shop"), ""),
        (of_state("Leaving"), "its cluster has another state"),
        (of_state("Frozen"), "its cluster has another state"),
        (of_state("ReadOnly"), "its cluster has another state"),
    ],
    ids=["protected", "our own", "leaving", "frozen", "readOnly"],
)
def test_what_the_fleet_keeps_up(fleet, flip):
    assert told(up(), fleet=fleet) == ("stays awake", flip)


@pytest.mark.parametrize(
    ("policy", "said", "now", "expected"),
    [
        pytest.param(a_policy("p", a_metric()), 0, SOON, ("stays idle", "the metric is above 0"), id="called idle"),
        pytest.param(a_policy("p", a_metric()), 5, SOON, ("wakes", "the metric is at most 0"), id="called busy"),
        pytest.param(
            a_policy("p", a_metric(), wake="OnSignal"),
            5,
            SOON,
            ("stays idle", "there is a wake request"),
            id="busy, on signal",
        ),
        pytest.param(a_policy("p", idle_replicas=3), 0, SOON, ("wakes", "idleReplicas is below 3"), id="the floor"),
        pytest.param(a_policy("p"), 0, MONDAY, ("wakes", ""), id="due"),
        pytest.param(
            a_policy("p", selector=services_selector(namespaces=ObjectSelector(("other",)))),
            0,
            SOON,
            ("wakes", "there is a policy that selects it"),
            id="nobody's",
        ),
    ],
)
def test_what_is_idle(policy, said, now, expected):
    world = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(world, a_policy("p"))
    state = replace(world.state(), answers=answers(("web", said), policy="p"))
    assert told(state, policy, now=now) == expected


def test_what_is_overdue_on_a_read_only_cluster():
    world = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(world)
    assert told(world.state(), now=MONDAY, fleet=of_state("ReadOnly")) == (
        "stays idle",
        "its cluster has another state",
    )


def test_what_waits_its_turn():
    world = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(world)
    policy = a_policy(wake_order=WakeOrder("", per_run=0))
    assert told(world.state(), policy, now=MONDAY) == ("stays idle", "perRun is above 0")


def test_what_somebody_scaled_by_hand_would_be_released_whatever_else_changes():
    world = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(world)
    world.scale(a_ref("web"), 2)
    (told,) = (one for one in run_in(world).desired.explanations if one.ref == a_ref("web"))
    assert (told.why, told.counterfactual) == ("scaled by hand", None)


WOKEN_NOW = {"reconciler/awake-since": "2026-11-20T21:50:00Z"}
ENDS = "2026-11-23T06:00:00Z"  # with the window that is open at NIGHT


@pytest.mark.parametrize(
    ("annotations", "flip"),
    [
        pytest.param(WOKEN_NOW, "it is 2026-11-20T23:50:00Z or later", id="minAwake alone"),
        pytest.param(
            WOKEN_NOW | {"reconciler/awake-until": "2026-11-21T03:00:00Z"},
            "it is 2026-11-21T03:00:00Z or later",
            id="the later of two",
        ),
        pytest.param(
            WOKEN_NOW | {"reconciler/awake-until": "2026-11-20T22:30:00Z"},
            "it is 2026-11-20T23:50:00Z or later",
            id="the first is the later",
        ),
        pytest.param(
            WOKEN_NOW | {"reconciler/awake-until": ENDS},
            "it is 2026-11-20T23:50:00Z or later and reconciler/awake-until is removed",
            id="scaled up by hand: until the window ends, when nothing is idled any more",
        ),
        pytest.param({"reconciler/awake-until": ENDS}, "reconciler/awake-until is removed", id="minAwake is over"),
        pytest.param(
            WOKEN_NOW | {"reconciler/exclude-until": "2026-11-20T23:00:00Z"},
            "it is 2026-11-20T23:50:00Z or later",
            id="wake --for, shorter than minAwake",
        ),
        pytest.param(
            WOKEN_NOW | {"reconciler/exclude-until": "2026-11-21T03:00:00Z"},
            "it is 2026-11-21T03:00:00Z or later",
            id="wake --for, longer than minAwake",
        ),
        pytest.param({"reconciler/exclude-until": ENDS}, "reconciler/exclude-until is removed", id="past the window"),
    ],
)
def test_of_all_that_time_lifts_the_latest_counts(annotations, flip):
    assert told(up(annotations=annotations)) == ("stays awake", flip)


def test_what_time_alone_does_not_lift_is_named_besides():
    rolling = up(annotations=WOKEN_NOW, observed_generation=0, generation=1)
    assert told(rolling)[1] == "it is 2026-11-20T23:50:00Z or later and the rollout ends"


def test_minimums_that_outlast_the_window_are_lifted_by_nothing_known():
    woken = up(annotations={"reconciler/awake-since": "2026-11-20T21:50:00Z"})
    assert told(woken, a_policy(min_awake=timedelta(days=3)))[1] == ""


def test_what_waits_for_a_neighbour_waits_for_what_that_one_waits_for():
    together = (a_workload(annotations=WOKEN_NOW), a_workload("api", template_labels={"app": "web"}))
    outcome = decided(a_state(a_cluster(services=(a_service(),), workloads=together)))
    flips = {one.ref.name: (flip_of(one), one.until is None) for one in outcome.desired.explanations}
    awake = "it is 2026-11-20T23:50:00Z or later"
    assert flips == {"web": (awake, False), "api": (awake, True)}


@pytest.mark.parametrize(
    ("paused", "unreachable"),
    [
        pytest.param(False, {"west": "timed out"}, id="a cluster that did not answer"),
        pytest.param(True, {}, id="a pause"),
    ],
)
def test_min_awake_is_not_lost_behind_what_keeps_up_all_of_a_federated_replica_set(paused, unreachable):
    fed = a_federated_replica_set(replicas=3, paused=paused, clusters={"*": ANYWHERE})
    state = replace(up(annotations=WOKEN_NOW), unreachable=unreachable)
    (one,) = decided(state, fleet=a_fleet("east", "west"), federated=(fed,)).desired.explanations
    said = "awake since 2026-11-20T21:50:00Z, less than minAwake"
    assert (one.why, flip_of(one), one.until) == (said, "", None)


@pytest.mark.parametrize(
    ("workload", "until"),
    [
        pytest.param({"annotations": WOKEN_NOW}, NIGHT + timedelta(minutes=110), id="minAwake"),
        pytest.param({"annotations": WOKEN_NOW, "terminating": True}, None, id="minAwake, and it is deleted"),
        pytest.param({"annotations": {"reconciler/awake-until": ENDS}}, WITHOUT_END, id="until its hours end"),
        pytest.param({"annotations": {"reconciler/exclude": "true"}}, None, id="an exclusion"),
        pytest.param({}, None, id="nothing"),
    ],
)
def test_until_when_only_time_keeps_it_up(workload, until):
    (one,) = decided(up(**workload)).desired.explanations
    assert one.until == until


def at(hours: int, annotation: str = "") -> Counterfactual:
    return after(NIGHT + timedelta(hours=hours), annotation)


ROLLOUT, READABLE = (change_if(code) for code in (CounterfactualCode.ROLLOUT_ENDS, CounterfactualCode.READABLE))


def all_of(*changes: Counterfactual) -> Counterfactual | None:
    return joint_counterfactual(CounterfactualCode.ALL, changes)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param((), None, id="nothing"),
        pytest.param((at(1), at(3), at(2)), at(3), id="the latest"),
        pytest.param((at(1), None), None, id="one of which nothing is known"),
        pytest.param((ROLLOUT, at(1), READABLE), all_of(at(1), ROLLOUT, READABLE), id="what time does not lift"),
        pytest.param((all_of(at(3), ROLLOUT), at(1)), all_of(at(3), ROLLOUT), id="one that takes several"),
        pytest.param((all_of(at(1), ROLLOUT), at(3)), all_of(at(3), ROLLOUT), id="one that takes several, earlier"),
        pytest.param((at(8), at(1)), None, id="when the window ends"),
        pytest.param(
            (at(8, "x/y"), at(1)),
            all_of(at(1), change_if(CounterfactualCode.ANNOTATION_REMOVED, annotation="x/y")),
            id="when the window ends, by an annotation",
        ),
    ],
)
def test_what_lifts_several_blockers(changes, expected):
    assert what_lifts(changes, NIGHT + timedelta(hours=8)) == expected
