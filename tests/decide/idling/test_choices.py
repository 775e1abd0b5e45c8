"""What the choice of one scalable looks at: which requests count, and which policies it is told of, as tables."""

from __future__ import annotations

from typing import Any

from reconciler.decide.idling.observed import IdlingInputs, idling_clusters
from reconciler.decide.idling.rules import Choice, choice_of, deciding_names, idled_by, owner_policy, waking_policy
from reconciler.decide.removal_guard import FleetGuards
from reconciler.policy.types import IdlingPolicy, WakeMetric
from tests.builders import a_cluster, a_run, a_service, a_state, a_workload, an_idle_record
from tests.cases import cases
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


@cases(
    "replicas annotations listed action",
    ("in the second of its record", 0, {**RECORD, REQUESTED: "2026-11-20T21:00:00Z"}, {}, "wake"),
    ("before its record", 0, {**RECORD, REQUESTED: "2026-11-20T20:59:59Z"}, {}, "keep"),
    ("before its Service's record", 0, RECORD, {**LIST, REQUESTED: "2026-11-20T21:15:00Z"}, "keep"),
    ("after its Service's record", 0, RECORD, {**LIST, REQUESTED: "2026-11-20T21:30:00Z"}, "wake"),
    ("before a record of this second",
        0,
        {**RECORD, IDLED_AT: "2026-11-20T22:00:00Z", REQUESTED: "2026-11-20T21:59:00Z"},
        {},
        "keep"),
    ("before a record that is still to come",
        0,
        {**RECORD, IDLED_AT: "2026-11-20T22:00:01Z", REQUESTED: "2026-11-20T21:59:00Z"},
        {},
        "wake"),
    ("before the wake that ended its record",
        3,
        {**RECORD, AWAKE_SINCE: "2026-11-20T12:00:00Z", IDLED_AT: "2026-11-20T11:00:00Z",
         REQUESTED: "2026-11-20T11:30:00Z"},
        {},
        "idle"),
)  # fmt: skip
def test_which_requests_count(replicas, annotations, listed, action):
    assert choice(replicas, annotations, listed=listed).action == action


@cases(
    "replicas annotations metrics action names",
    ("awake, one is busy", 3, {}, {"requests": 5}, "leave", ("second",)),
    ("awake, both are idle", 3, {}, {}, "idle", ("second", "first")),
    ("awake, excluded", 3, {EXCLUDE: "true"}, {}, "leave", ()),
    ("awake, wakeWhen holds", 3, {}, {"queue": 5}, "leave", ()),
    ("scaled by hand", 3, RECORD, {}, "release", ()),
    ("idle", 0, RECORD, {}, "keep", ("second", "first")),
    ("idle, one is busy", 0, RECORD, {"requests": 5}, "wake", ("second",)),
    ("idle, wakeWhen holds", 0, RECORD, {"queue": 5}, "wake", ("second",)),
    ("idle, excluded", 0, {**RECORD, EXCLUDE: "true"}, {}, "wake", ()),
    ("idle, read-only", 0, RECORD, {"requests": 5, "state": "ReadOnly"}, "overdue", ("second",)),
)
def test_whose_criteria_are_the_reason(replicas, annotations, metrics, action, names):
    chosen = policies(wake_when=(WakeMetric(QUEUE, 0, "5m"),))
    found = choice(replicas, annotations, *chosen, **metrics)
    waking = "second" if action == "wake" and names else ""
    assert (found.action, deciding_names(found), waking_policy(found)) == (action, names, waking)


def test_of_several_policies_the_one_with_the_most_idle_replicas_wakes_what_had_no_more():
    found = choice(0, RECORD, *policies(idle_replicas=5))
    assert (found.action, deciding_names(found), waking_policy(found)) == ("wake", (), "second")


@cases(
    "replicas annotations policy",
    ("what is idle is its record's", 0, RECORD, "first"),
    ("what runs is that of the highest priority", 3, {}, "second"),
    ("what is idled with a stale record is not its record's",
        3, {**RECORD, IDLED_AT: "2026-11-20T11:00:00Z", AWAKE_SINCE: "2026-11-20T12:00:00Z"}, "second"),
    ("nor what somebody else idled", 0, THEIRS, "second"),
)  # fmt: skip
def test_who_answers_for_it(replicas, annotations, policy):
    assert owner_policy(choice(replicas, annotations, *policies(priority=5))) == policy


@cases(
    "selecting policy",
    ("no other policy selects it", (), "gone"),
    ("to the one that selects it the record passes", ("first",), "first"),
    ("it still selects it, beside another one", ("first", "gone"), "gone"),
)
def test_who_answers_for_what_another_policy_idled(selecting, policy):
    record = {**RECORD, "reconciler/owner": "production/IdlingPolicy/gone"}
    elsewhere = a_policy("elsewhere", selector=workloads_selector("CronJob"))
    found = choice(0, record, elsewhere, *(a_policy(name) for name in selecting))
    assert (owner_policy(found), idled_by(found)) == (policy, "gone")
