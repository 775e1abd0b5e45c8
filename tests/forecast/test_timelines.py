"""What a forecast comes to: steps, hours, money, what limits hold back, what wakes at once, what rests on metrics."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.forecast.expected_savings import grouped_savings, savings_of
from reconciler.forecast.simulation import Simulation
from reconciler.forecast.timelines import Wake, total
from reconciler.model import ObjectRef
from reconciler.pod_requests import PodRequests, requests_of
from reconciler.policy.policy_changes import policy_changes
from reconciler.policy.types import PolicySet, Prices
from tests.builders import an_idle_record
from tests.forecast.nights import FLEET, FRIDAY, NIGHTS, REQUESTS, a_deployment, a_service, an_idling_policy, played
from tests.forecast.random_fleets import document, first_of, policy_set

WEB = [a_deployment("web"), a_service("web")]
WEB_REF = ObjectRef("a", "dev", "Deployment", "web", "apps")


def of_web() -> Simulation:
    """WEB in one cluster, idle at night."""
    cluster = MemoryCluster.of_manifests("a", WEB, first_of)
    return Simulation(policy_set([FLEET, an_idling_policy(NIGHTS)]), Opened({"a": Backend("a", cluster=cluster)}))


def at(hour: int, day: int = 20) -> datetime:
    return datetime(2026, 11, day, hour, tzinfo=UTC)


def test_steps_and_hours_of_one_night() -> None:
    made = played([an_idling_policy(NIGHTS)], WEB)
    (web,) = made.timelines
    assert web.policy == "IdlingPolicy nights"
    assert web.steps == ((FRIDAY, 2), (at(20), 0), (at(6, 21), 2))
    found = savings_of(made.selected)
    assert (found.without.replicas, found.saved.replicas, found.assumed.replicas) == (48, 20, 0)
    assert found.saved.requests == PodRequests(cpu=10, memory=20)
    assert Prices(cpu=0.1, memory=0.01).cost(found.saved) == pytest.approx(1.2)


def test_what_is_idle_at_the_start_would_run_without_policies() -> None:
    marks = an_idle_record(owner="mix/IdlingPolicy/nights", at="2026-11-20T11:00:00Z", idled_to="0")
    made = played([an_idling_policy(NIGHTS)], [a_deployment("web", 0, annotations=marks), a_service("web")])
    assert made.timelines[0].without == 3


@pytest.mark.parametrize(
    ("criteria", "saved", "assumed", "says"),
    [
        pytest.param([NIGHTS], 20, 0, {""}, id="a schedule alone is certain"),
        pytest.param([NIGHTS, REQUESTS], 0, 20, {"", "requests = 0"}, id="a schedule and a metric is assumed"),
        pytest.param([{"anyOf": [NIGHTS, REQUESTS]}], 20, 28, {"", "requests = 0"}, id="either"),
    ],
)
def test_what_rests_on_a_metric_is_told_apart(criteria: list[Any], saved: int, assumed: int, says: set[str]) -> None:
    made = played([an_idling_policy(*criteria)], WEB)
    found = savings_of(made.selected)
    assert (found.saved.replicas, found.assumed.replicas) == (saved, assumed)
    assert {segment.assumes for segment in made.timelines[0].segments} == says


SCALED: dict[str, Any] = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "events", "namespace": "dev"},
    "spec": {"scaleTargetRef": {"name": "web"}},
}


def test_what_keda_scaled_to_zero_when_it_was_paused_has_what_it_had() -> None:
    paused = copy.deepcopy(SCALED)
    record = an_idle_record(owner="mix/IdlingPolicy/nights", at="2026-11-20T11:00:00Z", idled_to="0")
    paused["metadata"]["annotations"] = {"autoscaling.keda.sh/paused-replicas": "0", **record}
    made = played([an_idling_policy(NIGHTS)], [a_deployment("web", 0), a_service("web"), paused])
    web = next(one for one in made.timelines if one.ref == WEB_REF)
    assert (web.without, web.steps) == (3, ((FRIDAY, 3), (at(20), 0), (at(6, 21), 3)))
    assert [(wake.at, wake.pods) for wake in made.wakes] == [(FRIDAY, 3), (at(6, 21), 3)]


def test_only_what_a_run_may_change_is_decided_again() -> None:
    """Of two namespaces whose nights overlap: a wake in one calls for no run while the other is idle."""
    later = document(
        "IdlingPolicy",
        "later",
        {
            "selector": {"namespaces": {"include": ["test"]}, "services": {}},
            "idleWhen": [{"schedule": {"timeZone": "UTC", "downtime": ["Mon-Sun 21:00-07:00"]}}],
        },
    )
    moved = [{**one, "metadata": {**one["metadata"], "namespace": "test"}} for one in WEB]
    made = played([an_idling_policy(NIGHTS), later], [*WEB, *moved])
    assert [one.steps[1:] for one in made.timelines] == [((at(20), 0), (at(6, 21), 2)), ((at(21), 0), (at(7, 21), 2))]
    assert made.runs == 1 + len((at(20), at(21), at(6, 21), at(7, 21)))


@pytest.mark.parametrize(
    ("key", "until", "ends"),
    [
        pytest.param("reconciler/exclude-until", "2026-11-20T22:00:00Z", at(22), id="ours"),
        pytest.param("downscaler/exclude-until", "2026-11-20T22:00:00Z", at(22), id="of kube-downscaler"),
        pytest.param("downscaler/exclude-until", "2026-11-20T22:00", at(22), id="of kube-downscaler, without a zone"),
        pytest.param("downscaler/exclude-until", "2026-11-21", at(0, 21), id="of kube-downscaler, a day"),
    ],
)
def test_what_is_excluded_until_a_time_goes_idle_then(key: str, until: str, ends: datetime) -> None:
    made = played([an_idling_policy(NIGHTS)], [a_deployment("web", annotations={key: until}), a_service("web")])
    assert made.timelines[0].steps == ((FRIDAY, 2), (ends, 0), (at(6, 21), 2))


@pytest.mark.parametrize(
    ("clusters", "number", "words"),
    [pytest.param(("a",), 8, "4 workloads", id="one cluster"), pytest.param(("a", "b"), 16, "8 workloads", id="two")],
)
def test_a_limit_of_each_cluster_that_holds_back_a_night_is_told_once(
    clusters: tuple[str, ...], number: int, words: str
) -> None:
    limits = {"default": {"perCluster": {"share": "25%", "atLeast": 1}}}
    fleet = document("Fleet", "mix", {"home": "a", "clusters": [{"name": one} for one in clusters], "limits": limits})
    objects = [one for name in "abcd" for one in (a_deployment(name), a_service(name))]
    (held,) = played([an_idling_policy(NIGHTS)], objects, fleet=fleet).held_back
    assert (held.start, held.end, held.policy) == (at(20), at(6, 21), "nights")
    assert (held.clusters, held.number) == (clusters, number)
    assert f"{words} would go idle for the first time, limit 1 " in held.why


def test_what_is_held_back_of_two_policies_of_one_name_is_told_of_both() -> None:
    objects = [*(one for name in "ab" for one in (a_deployment(name), a_service(name))), a_deployment("large", 9)]
    large = {"workloads": {"kinds": ["Deployment"], "include": ["large"]}}
    target = {"selector": large, "target": {"replicas": 1}, "limits": {"replicas": 1}}
    idling, downscale = an_idling_policy(NIGHTS, limits={"workloads": 1}), document("DownscalePolicy", "nights", target)
    held = played([idling, downscale], objects).held_back
    assert [(one.start, {ref.name for ref in one.refs if ref.kind == "Deployment"}) for one in held] == [
        (FRIDAY, {"large"}),
        (at(20), {"a", "b"}),
    ]


def test_criteria_of_one_name_are_told_apart_by_their_place() -> None:
    def policies(most: int) -> PolicySet:
        both = [{**REQUESTS, "metric": {**REQUESTS["metric"], "atMost": one}} for one in (most, 5)]
        return policy_set([FLEET, an_idling_policy(NIGHTS, {"anyOf": both})])

    changed = policy_changes(policies(1), policies(99)).fields
    assert [(one.before, one.after) for one in changed] == [("1", "99")]


def test_capacity_that_is_needed_again() -> None:
    (wake,) = played([an_idling_policy(NIGHTS)], WEB).wakes
    assert (wake.at, wake.pods, wake.requests, wake.clusters) == (at(6, 21), 2, PodRequests(1, 2), {"a": 2})


def test_wakes_that_follow_one_another_are_one() -> None:
    wakes = [Wake(FRIDAY + timedelta(minutes=minutes), 1, PodRequests(), {"a": 1}, ()) for minutes in (0, 50, 100, 170)]
    assert [(wake.at, wake.pods) for wake in total(wakes, timedelta(hours=1))] == [
        (FRIDAY, 3),
        (FRIDAY + timedelta(minutes=170), 1),
    ]


def test_groups_by_label_fall_back_to_the_namespace() -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "dev", "labels": {"team": "blue"}}}
    objects = [*WEB, a_deployment("api", labels={"team": "red"}), a_service("api"), namespace]
    made = played([an_idling_policy(NIGHTS)], objects)
    assert [name for name, _ in grouped_savings(made, "label=team")] == ["blue", "red"]


@pytest.mark.parametrize(
    ("fields", "annotations", "replicas"),
    [
        pytest.param({"spec": {"replicas": 5}}, {}, 5, id="a field"),
        pytest.param({"metadata": {"annotations": {"a": "1", "b": None}}}, {"a": "1"}, 2, id="nothing to take off"),
        pytest.param({"spec": {"replicas": None}}, {}, 1, id="taken off"),
    ],
)
def test_a_change_is_a_merge_patch(fields: dict[str, Any], annotations: dict[str, str], replicas: int) -> None:
    simulation = of_web()
    simulation.change(WEB_REF, fields)
    manifest = simulation.clusters["a"].manifest(WEB_REF)
    assert manifest["metadata"].get("annotations", {}) == annotations
    assert manifest["spec"].get("replicas", 1) == replicas


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param({"containers": [{}]}, PodRequests(), id="nothing is requested"),
        pytest.param(
            {"containers": [{"resources": {"requests": {"cpu": "250m"}}}] * 2}, PodRequests(cpu=0.5), id="sum"
        ),
        pytest.param({"containers": [{"resources": {"limits": {"cpu": 2}}}]}, PodRequests(cpu=2), id="a limit alone"),
        pytest.param(
            {
                "initContainers": [{"resources": {"requests": {"cpu": "3"}}}],
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
            },
            PodRequests(cpu=3),
            id="an init container that needs more",
        ),
        pytest.param(
            {
                "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"cpu": "3"}}}],
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "overhead": {"cpu": "0.5", "memory": "512Mi"},
            },
            PodRequests(cpu=4.5, memory=0.5),
            id="a sidecar, and overhead",
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": {"memory": "lots"}}}]}, PodRequests(), id="no quantity"
        ),
        pytest.param(
            {"containers": [{"resources": {"requests": {"cpu": "1"}}}], "resources": {"requests": {"cpu": "2"}}},
            PodRequests(cpu=2),
            id="the pod itself",
        ),
        pytest.param(
            {
                "containers": [{"resources": {"requests": {"cpu": "1"}}}],
                "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
            },
            PodRequests(cpu=1, memory=1),
            id="a limit of the pod itself",
        ),
        pytest.param({}, PodRequests(), id="nothing stated"),
    ],
)
def test_requests(pod: Any, expected: PodRequests) -> None:
    assert requests_of(pod) == expected
