"""What is never idled, and what a person is told instead."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from reconciler.labels import LabelRequirement, LabelSelector
from reconciler.model import Condition
from reconciler.policy.types import ObjectSelector
from tests.builders import a_cluster, a_fleet, a_namespace, a_service, a_state, a_workload
from tests.cases import cases
from tests.decide.idling.idling_policies import NIGHT, a_policy, decided, services_selector, verbs, why_of

HOUR = timedelta(hours=1)
UNLABELLED = ObjectSelector(labels=LabelSelector((), (LabelRequirement("x", "DoesNotExist"),)))
EXCLUDED = {"reconciler/exclude": "true"}
OF_ANOTHER = a_service("other", selector={"app": "web"}, annotations=EXCLUDED, labels={"x": "y"})
PAUSED = (Condition("Progressing", "Unknown", "DeploymentPaused"),)
OF_KUBE_DOWNSCALER = {"downscaler/exclude": "true"}


def idle_state(*, service: dict[str, Any] | None = None, state: dict[str, Any] | None = None, **workload: Any):
    """A Service and its Deployment, which a policy would idle."""
    found = a_cluster(services=(a_service(**(service or {})),), workloads=(a_workload(**workload),))
    return a_state(replace(found, **(state or {})))


def in_a_namespace(annotations: dict[str, str]):
    return idle_state(state={"namespaces": (a_namespace(annotations=annotations),)})


@cases(
    "workload words",
    ("younger than minAge", {"created_at": NIGHT - HOUR + timedelta(seconds=1)}, "younger than minAge"),
    ("just woken", {"annotations": {"reconciler/awake-since": "2026-11-20T20:00:01Z"}}, "less than minAwake"),
    (
        "kept awake",
        {"annotations": {"reconciler/awake-until": "2026-11-20T22:00:01Z"}},
        "kept awake until 2026-11-20T22:00:01Z",
    ),
    ("kept awake, who knows how long", {"annotations": {"reconciler/awake-until": "tomorrow"}}, "expected a time"),
    ("excluded", {"annotations": EXCLUDED}, 'excluded: Deployment/web: reconciler/exclude: "true"'),
    ("excluded until", {"annotations": {"reconciler/exclude-until": "2026-11-21T00:00:00Z"}}, "exclude-until"),
    ("excluded, unreadable", {"annotations": {"reconciler/exclude": "yes"}}, 'expected "true"'),
    ("at the floor", {"replicas": 0}, "already at or below idleReplicas"),
    ("a rollout", {"updated_replicas": 1}, "rollout in progress"),
    ("a change the controller has not seen", {"generation": 2}, "rollout in progress"),
    ("none updated yet", {"updated_replicas": 0}, "rollout in progress"),
    ("a rollout that somebody paused", {"updated_replicas": 0, "conditions": PAUSED}, "its rollout is paused"),
    ("a paused one that goes on", {"generation": 2, "conditions": PAUSED}, "rollout in progress"),
    ("being deleted", {"terminating": True}, "being deleted"),
    ("no place", {"no_place": "it has no spec.pool"}, "it has no spec.pool"),
    ("the reconciler", {"labels": {"app.kubernetes.io/name": "reconciler"}}, "does not idle itself"),
)
def test_what_holds_a_workload(workload, words):
    outcome = decided(idle_state(**workload), a_policy(min_age=HOUR))
    assert outcome.desired.decisions == ()
    assert words in why_of(outcome)


@cases(
    "workload",
    ("old enough", {"created_at": NIGHT - HOUR}),
    ("awake long enough", {"annotations": {"reconciler/awake-since": "2026-11-20T20:00:00Z"}}),
    ("kept awake long enough", {"annotations": {"reconciler/awake-until": "2026-11-20T22:00:00Z"}}),
    ("not excluded", {"annotations": {"reconciler/exclude": "false"}}),
    ("not excluded any more", {"annotations": {"reconciler/exclude-until": "2026-11-20T22:00:00Z"}}),
    (
        "a rollout that gave up",
        {"updated_replicas": 1, "conditions": (Condition("Progressing", "False", "ProgressDeadlineExceeded"),)},
    ),
    ("KEDA pauses ScaledObjects only", {"annotations": {"autoscaling.keda.sh/paused": "true"}}),
    ("an absent number of replicas is 1", {"replicas": None}),
)
def test_what_does_not_hold_a_workload(workload):
    outcome = decided(idle_state(**workload), a_policy(min_age=HOUR))
    assert ("idle", "Deployment/web") in verbs(outcome)


@cases(
    "state words",
    ("its Service", idle_state(service={"annotations": EXCLUDED}), "excluded"),
    ("its namespace", in_a_namespace(EXCLUDED), "excluded"),
    ("another Service in front of it", idle_state(state={"services": (a_service(), OF_ANOTHER)}), "excluded"),
)
def test_opting_out(state, words):
    outcome = decided(state, a_policy(selector=services_selector(services=UNLABELLED)))
    assert outcome.desired.decisions == ()
    assert words in why_of(outcome)


@cases(
    "state words",
    (
        "the workload",
        idle_state(annotations=OF_KUBE_DOWNSCALER),
        'excluded: Deployment/web: downscaler/exclude: "true"',
    ),
    (
        "its namespace",
        in_a_namespace({"downscaler/exclude-until": "2026-12-01"}),
        "excluded: Namespace/shop: downscaler/exclude-until: 2026-12-01",
    ),
)
def test_opting_out_with_the_annotations_of_kube_downscaler(state, words):
    outcome = decided(state)
    assert outcome.desired.decisions == ()
    assert words in why_of(outcome)
    ignoring = decided(state, fleet=a_fleet(kube_downscaler_annotations="Ignore"))
    assert ("idle", "Deployment/web") in verbs(ignoring)


def test_kube_downscaler_has_no_annotations_on_services():
    assert ("idle", "Deployment/web") in verbs(decided(idle_state(service={"annotations": OF_KUBE_DOWNSCALER})))


def test_a_record_on_its_service_that_cannot_be_read_keeps_it_up():
    broken = {"reconciler/owner": "production/IdlingPolicy/idle-dev", "idling.kubernetes.io/idled-at": "yesterday"}
    outcome = decided(idle_state(service={"annotations": broken}))
    assert "idle" not in [verb for verb, _ in verbs(outcome)]
    assert why_of(outcome) == "the idle record of Service/web cannot be read"


@cases("seconds expected", ("a second ago", -1, ["idle"]), ("now", 0, []), ("by a clock that is ahead", 1, []))
def test_what_was_woken_in_this_second_is_not_idled_without_min_awake(seconds, expected):
    woken = {"reconciler/awake-since": f"{NIGHT + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"}
    outcome = decided(idle_state(annotations=woken), a_policy(min_awake=timedelta(0)))
    assert [verb for verb, name in verbs(outcome) if name == "Deployment/web"] == expected
