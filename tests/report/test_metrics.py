"""The metrics of a run, read back by somebody else's parser."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from reconciler.apply.outcomes import Failure, Outcome, OutcomeStatus
from reconciler.backends.protocols import REQUEST_SECONDS, ApiTraffic
from reconciler.decide.decisions import Notice, PlacementRow, PlacementView, PolicyExplanation
from reconciler.history.realised_savings import SavedBefore
from reconciler.pod_requests import Hours, PodRequests
from reconciler.report.metrics import Family, Measured, last_success_in, open_metrics_text, render_metrics
from tests.builders import NOW, a_forecast, a_ref
from tests.plans import a_plan, a_scale, a_wake, an_idle

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def samples(text: str) -> Samples:
    """Return every sample by its name and labels, each there once."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            key = (sample.name, tuple(sorted(sample.labels.items())))
            assert key not in found
            found[key] = sample.value
    return found


def of(text: str, name: str) -> dict[tuple[str, ...], float]:
    """Return the samples of `name` by the values of their labels, in the order of the labels' names."""
    return {
        tuple(value for _, value in labels): number
        for (found, labels), number in samples(text).items()
        if found == name
    }


def test_a_run_that_failed_before_it_had_a_plan_says_nothing_of_clusters_and_success() -> None:
    text = render_metrics(Measured(stages={"observe": 0.5}))
    assert samples(text) == {("reconciler_stage_duration_seconds", (("stage", "observe"),)): 0.5}


def test_the_time_of_the_last_success_is_read_back() -> None:
    text = render_metrics(Measured(last_success=1795189283.25))
    assert of(text, "reconciler_last_success_timestamp_seconds") == {(): 1795189283.25}
    assert last_success_in(text) == 1795189283.25


@pytest.mark.parametrize("text", ["", "# EOF\n", "reconciler_last_success_timestamp_seconds soon\n"])
def test_no_last_success_is_found_where_there_is_none(text: str) -> None:
    assert last_success_in(text) is None


def test_requests_are_a_histogram_for_each_cluster_that_was_asked() -> None:
    counts = (0, 2, 1, *[0] * (len(REQUEST_SECONDS) - 2))
    text = render_metrics(
        Measured(traffic={"east": ApiTraffic(4, 1000, 0.75, (*counts[:-1], 1)), "west": ApiTraffic()})
    )
    buckets = of(text, "reconciler_request_duration_seconds_bucket")
    assert buckets["east", "0.005"] == 0
    assert buckets["east", "0.01"] == 2
    assert buckets["east", "0.025"] == 3
    assert buckets["east", "+Inf"] == 4
    assert len(buckets) == len(REQUEST_SECONDS) + 1
    assert of(text, "reconciler_request_duration_seconds_count") == {("east",): 4}
    assert of(text, "reconciler_request_duration_seconds_sum") == {("east",): 0.75}


def test_replicas_of_a_federated_replica_set_and_none_for_what_is_unknown() -> None:
    rows = (PlacementRow("east", 5, 4, 3, 2), PlacementRow("west", 1, None, None, None))
    text = render_metrics(Measured(a_plan(placements=(PlacementView("shop/web", 6, rows),))))
    assert of(text, "reconciler_replicas") == {
        ("east", "web", "shop", "desired"): 5,
        ("east", "web", "shop", "spec"): 4,
        ("east", "web", "shop", "current"): 3,
        ("east", "web", "shop", "running"): 2,
        ("west", "web", "shop", "desired"): 1,
    }


def considered(name: str, policy: str, idled_by: str = "", cluster: str = "eu-west") -> PolicyExplanation:
    ref = a_ref(name, cluster=cluster, namespace="dev-a")
    idled, asleep = ((ref, idled_by), 2) if idled_by else (None, 0)
    return PolicyExplanation(ref, "idling", policy, "", (), idled=idled, asleep=asleep)


@pytest.mark.parametrize(
    ("plan", "outcomes", "idled"),
    [
        pytest.param(
            a_plan(explanations=[considered(str(n), policy, policy) for n in range(300) for policy in (f"{n}" * 999,)]),
            (),
            {("eu-west", "(none)"): 300},
            id="policies that do not exist are one label",
        ),
        pytest.param(a_plan(explanations=[considered("a", "p")]), (), {("eu-west", "p"): 0}, id="nothing idle"),
        pytest.param(
            a_plan(explanations=[considered("a", "p", "p"), considered("a", "q", "p"), considered("b", "p", "p")]),
            (),
            {("eu-west", "p"): 2, ("eu-west", "q"): 0},
            id="counted once, for the policy of the mark",
        ),
        pytest.param(
            a_plan(an_idle("a"), explanations=[considered("a", "idle-dev")]),
            (OutcomeStatus.APPLIED,),
            {("eu-west", "idle-dev"): 1},
            id="idled by this run",
        ),
        pytest.param(
            a_plan(an_idle("a"), explanations=[considered("a", "idle-dev")]),
            (OutcomeStatus.FAILED,),
            {("eu-west", "idle-dev"): 0},
            id="refused to be idled",
        ),
        pytest.param(
            a_plan(a_wake("a"), explanations=[considered("a", "idle-dev", "idle-dev")]),
            (OutcomeStatus.APPLIED,),
            {("eu-west", "idle-dev"): 0},
            id="woken by this run",
        ),
        pytest.param(a_plan(an_idle("a")), (OutcomeStatus.APPLIED,), {}, id="a saved plan does not know who was idle"),
    ],
)
def test_idled_workloads(plan: Any, outcomes: tuple[OutcomeStatus, ...], idled: dict[tuple[str, str], float]) -> None:
    done = (
        [Outcome(action.id, status) for action, status in zip(plan.actions, outcomes, strict=True)] if outcomes else []
    )
    there = replace(plan, places={f"IdlingPolicy {name}": "p.yaml:1" for name in ("p", "q", "idle-dev")})
    assert of(render_metrics(Measured(there, done)), "reconciler_idled_workloads") == idled


def test_replicas_asleep_are_those_of_what_was_idle_and_of_what_this_run_idles() -> None:
    cron = an_idle("job", replicas=1, ref=a_ref("job", cluster="eu-west", kind="CronJob"))
    plan = a_plan(
        an_idle("a", replicas=5, idle_replicas=1), cron, explanations=[considered("b", "idle-dev", "idle-dev")]
    )
    there = replace(plan, places={"IdlingPolicy idle-dev": "p.yaml:1"})
    done = [Outcome(action.id, OutcomeStatus.APPLIED) for action in plan.actions]
    assert of(render_metrics(Measured(there, done)), "reconciler_idled_replicas") == {("eu-west", "idle-dev"): 6}
    assert of(render_metrics(Measured(there, done)), "reconciler_idled_workloads") == {("eu-west", "idle-dev"): 3}


def test_overdue_and_contested_are_counted_by_object_and_zero_elsewhere() -> None:
    notices = (
        Notice("overdueWake", "eu-west/dev-a/Deployment/a", "frozen"),
        Notice("overdueWake", "eu-west/dev-a/Deployment/a", "somebody else's"),
        Notice("contested", "west/dev-a/Deployment/b", ""),
        Notice("foreignRecord", "west/dev-a/Deployment/c", ""),
    )
    plan = a_plan(a_wake("a"), a_wake("b"), an_idle("c"), clusters={"eu-west": "1", "west": "2"}, notices=notices)
    text = render_metrics(Measured(plan))
    assert of(text, "reconciler_overdue_wakes") == {("eu-west",): 1, ("west",): 0}
    assert of(text, "reconciler_contested") == {("eu-west",): 0, ("west",): 1}
    refused = render_metrics(Measured(plan, [Outcome(action.id, OutcomeStatus.FAILED) for action in plan.actions]))
    assert of(refused, "reconciler_overdue_wakes") == {("eu-west",): 2, ("west",): 0}


def test_a_scaled_object_and_its_target_are_one_overdue_workload() -> None:
    scaled, target = a_ref("a", cluster="eu-west", kind="ScaledObject"), a_ref("a", cluster="eu-west")
    said = replace(considered("a", "p", "p"), ref=target, written=scaled)
    plan = a_plan(a_wake("a", ref=scaled), a_wake("a", ref=target), explanations=[said])
    failed = [Outcome(action.id, OutcomeStatus.FAILED) for action in plan.actions]
    assert of(render_metrics(Measured(plan, failed)), "reconciler_overdue_wakes")["eu-west",] == 1


def test_how_long_clusters_have_been_unknown() -> None:
    since = {"gone": NOW - timedelta(hours=2), "just-now": NOW}
    text = render_metrics(Measured(a_plan(clusters={"east": "1"}, unknown_since=since)))
    assert of(text, "reconciler_cluster_unknown_seconds") == {("east",): 0, ("gone",): 7200, ("just-now",): 1}


def test_the_age_ratio_counts_each_victim_that_went_and_that_age_decided() -> None:
    ratios = ((1.5, 9.0), (None,), ())
    shrinks = [a_scale(5, 2, f"web-{number}", victims=a_forecast(age_ratios=one)) for number, one in enumerate(ratios)]
    plan = a_plan(*shrinks, a_scale(5, 2, "failed", victims=a_forecast(age_ratios=(1.0,))))
    outcomes = [
        Outcome(action.id, OutcomeStatus.FAILED if action.ref.name == "failed" else OutcomeStatus.APPLIED)
        for action in plan.actions
    ]
    text = render_metrics(Measured(plan, outcomes))
    buckets = of(text, "sorting_deletion_age_ratio_bucket")
    assert [buckets[le,] for le in ("1.0", "2.0", "8.0", "+Inf")] == [0, 1, 1, 2]
    assert of(text, "sorting_deletion_age_ratio_sum") == {(): 10.5}


def test_pickers_that_fail_are_counted_by_cluster() -> None:
    plan = a_plan(a_scale(5, 2, "web"), a_scale(5, 2, "db"), clusters={"eu-west": "1", "west": "2"})
    outcomes = [
        Outcome(action.id, OutcomeStatus.APPLIED, picker_failed=action.ref.name == "web") for action in plan.actions
    ]
    text = render_metrics(Measured(plan, outcomes))
    cluster = plan.actions[0].ref.cluster
    found = of(text, "reconciler_picker_failures")
    assert found == {**dict.fromkeys([("eu-west",), ("west",)], 0), (cluster,): 1}


def test_what_tenants_may_not_do_is_counted_by_cluster_and_tenant() -> None:
    plan = a_plan(a_scale(5, 2, "web"), a_scale(5, 2, "db"), a_scale(5, 2, "behind"), a_scale(5, 2, "broken"))
    forbidden = Failure("ForbiddenError", forbidden="write")
    told = {"web": ("a", forbidden), "db": ("a", forbidden), "behind": ("a", None)}
    outcomes = [
        Outcome(one.id, OutcomeStatus.FAILED if failure else OutcomeStatus.SKIPPED, tenant=tenant, failure=failure)
        for one in plan.actions
        for tenant, failure in [told.get(one.ref.name, ("", forbidden))]
    ]
    found = of(render_metrics(Measured(plan, outcomes)), "reconciler_tenant_forbidden_changes")
    assert found == {(plan.actions[0].ref.cluster, "a"): 2}


def test_label_values_are_escaped() -> None:
    odd = 'a"b\\c\nd'
    text = open_metrics_text([Family("x", 'says "y"\nand \\', [({"label": odd}, 1.0)])])
    assert samples(text) == {("x", (("label", odd),)): 1.0}
    assert text.count("\n") == 4


def test_what_policies_saved_that_are_not_there_is_counted_together() -> None:
    plan = replace(a_plan(), places={"IdlingPolicy nights": "p.yaml:1"})
    names = ("nights", "gone", "made up", "")
    saved = [SavedBefore("east", name, Hours(10, PodRequests(1, 2))) for name in names]
    saved += [SavedBefore("east", name, Hours(5), "a") for name in names]
    found = of(render_metrics(Measured(plan, saved=saved)), "reconciler_saved_replica_hours_total")
    assert found == {
        ("east", "nights", ""): 10,
        ("east", "(none)", ""): 30,
        ("east", "nights", "a"): 5,
        ("east", "(none)", "a"): 15,
    }
