"""What would alter what becomes of an object: of its reason, never of criteria that have no say there."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.policy.types import IdlingPolicy, ObjectSelector, WakeOrder
from tests.builders import a_cluster, a_fleet, a_service, a_state, a_workload
from tests.idling.idling_policies import (
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
from tests.idling.test_idling_others import RECORD, STAGING
from tests.idling.world import a_world

OPENS = "from 2026-11-20T19:00:00Z"
SOON = NIGHT + timedelta(minutes=1)
UNCONTESTED = "taking reconciler/contested off, or a change of its policy"


def told(state: Any, *policies: IdlingPolicy, now: Any = NIGHT, **fields: Any) -> tuple[str, str]:
    """What becomes of the one object, and what would alter it."""
    (one,) = decided(state, *policies, now=now, **fields).desired.explanations
    return one.outcome, one.counterfactual


def up(**workload: Any) -> Any:
    return a_state(a_cluster(services=(a_service(),), workloads=(a_workload(**workload),)))


@pytest.mark.parametrize(
    ("workload", "flip"),
    [
        pytest.param({"annotations": {"reconciler/exclude": "true"}}, "taking reconciler/exclude off", id="excluded"),
        pytest.param({"annotations": {"reconciler/exclude": "yes"}}, "taking reconciler/exclude off", id="unreadable"),
        pytest.param(
            {"annotations": {"reconciler/exclude-until": "2026-11-21T00:00:00Z"}},
            "after 2026-11-21T00:00:00Z",
            id="excluded for a while",
        ),
        pytest.param(
            {"annotations": {"reconciler/exclude-until": "soon"}}, "a time that can be read", id="until when?"
        ),
        pytest.param(
            {"annotations": {"reconciler/wake-requested-at": "2026-11-20T23:00:00Z"}},
            "after 2026-11-20T23:00:00Z",
            id="a request of the future",
        ),
        pytest.param({"replicas": 0}, "more than 0 replicas", id="at 0 already"),
        pytest.param({"annotations": {"reconciler/contested": '{"by":"argocd"}'}}, UNCONTESTED, id="contested"),
        pytest.param({"annotations": RECORD | STAGING, "replicas": 0}, "a wake request", id="somebody else's"),
        pytest.param(
            {"annotations": {"idling.kubernetes.io/idled-at": "now", "reconciler/owner": "production/IdlingPolicy/x"}},
            "a record that can be read",
            id="set aside",
        ),
    ],
)
def test_what_is_not_idled_for_another_reason_than_the_criteria(workload, flip):
    assert told(up(**workload))[1] == flip


@pytest.mark.parametrize(
    ("annotations", "flip"),
    [
        ({}, OPENS),
        ({"reconciler/exclude": "true"}, f"{OPENS} and taking reconciler/exclude off"),
        ({"reconciler/wake-requested-at": "2026-11-20T23:00:00Z"}, OPENS),
    ],
    ids=["nothing else", "an exclusion too", "a request has no say"],
)
def test_what_the_criteria_call_busy(annotations, flip):
    assert told(up(annotations=annotations), now=NOON) == ("stays awake", flip)


@pytest.mark.parametrize(
    ("fleet", "flip"),
    [
        (a_fleet(protected_namespaces=("shop",)), "taking the namespace off protectedNamespaces of the Fleet"),
        (a_fleet(namespace="shop"), ""),
        (of_state("Leaving"), "another state of the cluster"),
        (of_state("Frozen"), "another state of the cluster"),
        (of_state("ReadOnly"), "another state of the cluster"),
    ],
    ids=["protected", "our own", "leaving", "frozen", "readOnly"],
)
def test_what_the_fleet_keeps_up(fleet, flip):
    assert told(up(), fleet=fleet) == ("stays awake", flip)


@pytest.mark.parametrize(
    ("policy", "said", "now", "expected"),
    [
        pytest.param(a_policy("p", a_metric()), 0, SOON, ("stays idle", "a value above 0"), id="called idle"),
        pytest.param(a_policy("p", a_metric()), 5, SOON, ("wakes", "a value of at most 0"), id="called busy"),
        pytest.param(
            a_policy("p", a_metric(), wake="OnSignal"), 5, SOON, ("stays idle", "a wake request"), id="busy, on signal"
        ),
        pytest.param(a_policy("p", idle_replicas=3), 0, SOON, ("wakes", "idleReplicas below 3"), id="the floor"),
        pytest.param(a_policy("p"), 0, MONDAY, ("wakes", ""), id="due"),
        pytest.param(
            a_policy("p", selector=services_selector(namespaces=ObjectSelector(("other",)))),
            0,
            SOON,
            ("wakes", "a policy that selects it"),
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
    assert told(world.state(), now=MONDAY, fleet=of_state("ReadOnly")) == ("stays idle", "another state of the cluster")


def test_what_waits_its_turn():
    world = a_world(a_service(), a_workload(), now=NIGHT)
    run_in(world)
    policy = a_policy(wake_order=WakeOrder("", per_run=0))
    assert told(world.state(), policy, now=MONDAY) == ("stays idle", "a perRun above 0")
