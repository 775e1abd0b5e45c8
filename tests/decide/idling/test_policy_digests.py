"""Digests of policies that are in annotations on clusters: a release must not change them."""

from __future__ import annotations

import pytest

from reconciler.decide.idling.contested import fingerprint
from reconciler.decide.limit_counts import hours_of
from reconciler.policy.load import check_loaded
from reconciler.policy.policy_files import Loaded
from reconciler.policy.types import IdlingPolicy
from reconciler.yaml.reader import read_documents

POLICY = """\
---
apiVersion: reconciler/v1alpha1
kind: Fleet
metadata: {name: p}
spec: {home: east, clusters: [{name: east}]}
---
apiVersion: reconciler/v1alpha1
kind: IdlingPolicy
metadata: {name: a}
spec:
  selector: {services: {}}
  idleWhen: [{schedule: {timeZone: UTC, downtime: ['20:00-07:00']}}, {name: z, metric: METRIC}]
"""
SCHEDULE = POLICY.replace(", {name: z, metric: METRIC}", "")


def stated(*lines: str, text: str = POLICY, metric: str = "{query: q, window: 30m}") -> IdlingPolicy:
    read = read_documents("p.yaml", "".join([text.replace("METRIC", metric), *(f"  {line}\n" for line in lines)]))
    policies, problems = check_loaded(Loaded(tuple(read.found), tuple(read.problems), True, ""), "p.yaml")
    assert policies is not None, problems
    return policies.idling[0]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(stated(), "f9a7c1d94f1b", id="all at their defaults"),
        pytest.param(stated("wakeOrder: {group: g, perRun: 3}"), "9f4d5f8629e4", id="a wake group"),
        pytest.param(stated("autoscalers: {hpa: Leave}"), "f92d301c7ad3", id="an autoscaler left alone"),
        pytest.param(stated("gitOps: {flux: Pause}", "minAge: 5m"), "f445899403c3", id="Flux paused, and a duration"),
        pytest.param(stated("limits: {workloads: 7}"), "f9a7c1d94f1b", id="a limit is no part of it"),
        pytest.param(stated("wakeWhen: [{metric: {query: x}}]"), "ed4e2280018c", id="a wake metric at its defaults"),
        pytest.param(
            stated(metric="{query: q, coverage: c, coverageAtLeast: 4, noSeries: Zero}"),
            "1b462e5f7344",
            id="a coverage",
        ),
    ],
)
def test_the_fingerprint_of_a_policy_is_that_of_earlier_releases(policy: IdlingPolicy, expected: str):
    assert fingerprint(policy) == expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(stated("idleReplicas: 1", text=SCHEDULE), "c311398e7fd087eb", id="a schedule"),
        pytest.param(stated(), "83622cc397af141e", id="a schedule and a metric"),
    ],
)
def test_the_digest_of_hours_is_that_of_earlier_releases(policy: IdlingPolicy, expected: str):
    assert hours_of(policy) == expected
