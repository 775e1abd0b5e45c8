"""What the choice of one scalable looks at: which requests count, and which policies it is told of, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from reconciler.decide.idling.observed import IdlingInputs, idling_clusters
from reconciler.decide.idling.rules import Choice, choice_of, deciding_names, idled_by, owner_policy, waking_policy
from reconciler.decide.removal_guard import FleetGuards
from reconciler.policy.types import IdlingPolicy, WakeMetric
from tests.builders import a_cluster, a_run, a_service, a_state, a_workload, an_idle_record
from tests.decide.idling.idling_policies import (
    NIGHT,
    a_metric,
    a_policy,
    answers,
    of_state,
    services_selector,
    workloads_selector,
)

AWAKE_SINCE, EXCLUDE = "reconciler/awake-since", "reconciler/exclude"
REQUESTED, IDLED_AT = "reconciler/wake-requested-at", "idling.kubernetes.io/idled-at"
RECORD = an_idle_record(5, "production/IdlingPolicy/first", idled_to="0")
THEIRS = {**RECORD, "reconciler/owner": "another/IdlingPolicy/theirs"}
LIST = {
    IDLED_AT: "2026-11-20T21:30:00Z",
    "idling.kubernetes.io/unidle-targets": '[{"kind":"Deployment","name":"web","group":"apps","replicas":5}]',
    "reconciler/owner": "production/IdlingPolicy/first",
}
QUEUE = "queue_length"


def policies(**fields: Any) -> tuple[IdlingPolicy, IdlingPolicy]:
    """One that selects web by schedule, and one that selects its Service by a metric."""
    by_metric = a_policy("second", a_metric(), selector=services_selector(), **fields)
    return a_policy("first", selector=workloads_selector("Deployment")), by_metric


def choice(
    replicas: int,
    annotations: dict[str, str],
    *chosen: IdlingPolicy,
    listed: dict[str, str] | None = None,
    requests: float = 0,
    queue: float = 0,
    state: str = "Active",
) -> Choice:
    """The choice of web, behind a Service with the annotations `listed`."""
    web = a_workload(replicas=replicas, annotations=annotations)
    said = {
        **answers(("web", requests), policy="second"),
        **answers(("web", queue), policy="second", query=QUEUE, window="5m"),
    }
    found = a_state(a_cluster(services=(a_service(annotations=listed or {}),), workloads=(web,)), answers=said)
    (cluster,) = idling_clusters(IdlingInputs(of_state(state), found, a_run(NIGHT), chosen or policies()))
    return choice_of(cluster.subjects[0], FleetGuards(), NIGHT)


@pytest.mark.parametrize(
    ("replicas", "annotations", "listed", "action"),
    [
        pytest.param(0, {**RECORD, REQUESTED: "2026-11-20T21:00:00Z"}, {}, "wake", id="in the second of its record"),
        pytest.param(0, {**RECORD, REQUESTED: "2026-11-20T20:59:59Z"}, {}, "keep", id="before its record"),
        pytest.param(0, RECORD, {**LIST, REQUESTED: "2026-11-20T21:15:00Z"}, "keep", id="before its Service's record"),
        pytest.param(0, RECORD, {**LIST, REQUESTED: "2026-11-20T21:30:00Z"}, "wake", id="after its Service's record"),
        pytest.param(
            0,
            {**RECORD, IDLED_AT: "2026-11-20T22:00:00Z", REQUESTED: "2026-11-20T21:59:00Z"},
            {},
            "keep",
            id="before a record of this second",
        ),
        pytest.param(
            0,
            {**RECORD, IDLED_AT: "2026-11-20T22:00:01Z", REQUESTED: "2026-11-20T21:59:00Z"},
            {},
            "wake",
            id="before a record that is still to come",
        ),
        pytest.param(
            3,
            {**RECORD, AWAKE_SINCE: "2026-11-20T12:00:00Z", IDLED_AT: "2026-11-20T11:00:00Z",
             REQUESTED: "2026-11-20T11:30:00Z"},
            {},
            "idle",
            id="before the wake that ended its record",
        ),
    ],
)  # fmt: skip
def test_which_requests_count(replicas, annotations, listed, action):
    assert choice(replicas, annotations, listed=listed).action == action


@pytest.mark.parametrize(
    ("replicas", "annotations", "metrics", "action", "names"),
    [
        pytest.param(3, {}, {"requests": 5}, "leave", ("second",), id="awake, one is busy"),
        pytest.param(3, {}, {}, "idle", ("second", "first"), id="awake, both are idle"),
        pytest.param(3, {EXCLUDE: "true"}, {}, "leave", (), id="awake, excluded"),
        pytest.param(3, {}, {"queue": 5}, "leave", (), id="awake, wakeWhen holds"),
        pytest.param(3, RECORD, {}, "release", (), id="scaled by hand"),
        pytest.param(0, RECORD, {}, "keep", ("second", "first"), id="idle"),
        pytest.param(0, RECORD, {"requests": 5}, "wake", ("second",), id="idle, one is busy"),
        pytest.param(0, RECORD, {"queue": 5}, "wake", ("second",), id="idle, wakeWhen holds"),
        pytest.param(0, {**RECORD, EXCLUDE: "true"}, {}, "wake", (), id="idle, excluded"),
        pytest.param(0, RECORD, {"requests": 5, "state": "ReadOnly"}, "overdue", ("second",), id="idle, read-only"),
    ],
)
def test_whose_criteria_are_the_reason(replicas, annotations, metrics, action, names):
    chosen = policies(wake_when=(WakeMetric(QUEUE, 0, "5m"),))
    found = choice(replicas, annotations, *chosen, **metrics)
    waking = "second" if action == "wake" and names else ""
    assert (found.action, deciding_names(found), waking_policy(found)) == (action, names, waking)


def test_of_several_policies_the_one_with_the_most_idle_replicas_wakes_what_had_no_more():
    found = choice(0, RECORD, *policies(idle_replicas=5))
    assert (found.action, deciding_names(found), waking_policy(found)) == ("wake", (), "second")


@pytest.mark.parametrize(
    ("replicas", "annotations", "policy"),
    [
        pytest.param(0, RECORD, "first", id="what is idle is its record's"),
        pytest.param(3, {}, "second", id="what runs is that of the highest priority"),
        pytest.param(
            3, {**RECORD, IDLED_AT: "2026-11-20T11:00:00Z", AWAKE_SINCE: "2026-11-20T12:00:00Z"}, "second",
            id="what is idled with a stale record is not its record's",
        ),
        pytest.param(0, THEIRS, "second", id="nor what somebody else idled"),
    ],
)  # fmt: skip
def test_who_answers_for_it(replicas, annotations, policy):
    assert owner_policy(choice(replicas, annotations, *policies(priority=5))) == policy


@pytest.mark.parametrize(
    ("selecting", "policy"),
    [
        pytest.param((), "gone", id="no other policy selects it"),
        pytest.param(("first",), "first", id="to the one that selects it the record passes"),
        pytest.param(("first", "gone"), "gone", id="it still selects it, beside another one"),
    ],
)
def test_who_answers_for_what_another_policy_idled(selecting, policy):
    record = {**RECORD, "reconciler/owner": "production/IdlingPolicy/gone"}
    elsewhere = a_policy("elsewhere", selector=workloads_selector("CronJob"))
    found = choice(0, record, elsewhere, *(a_policy(name) for name in selecting))
    assert (owner_policy(found), idled_by(found)) == (policy, "gone")
