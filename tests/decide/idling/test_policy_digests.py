"""Digests of policies that are in annotations on clusters: a release must not change them."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from reconciler.decide.idling.contested import fingerprint
from reconciler.decide.last_idled import hours_of
from reconciler.policy.load import check_loaded
from reconciler.policy.policy_files import Loaded
from reconciler.policy.types import AbsoluteWindow, AllOf, AnyOf, IdlingPolicy, Place, ScheduleCriterion, WakeMetric
from reconciler.yaml.reader import read_documents
from tests.decide.idling.idling_policies import a_metric, a_policy, a_schedule, office_hours_off

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
        pytest.param(stated("onRevert: Insist"), "00c5270252cb", id="it insists"),
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


def test_a_field_of_a_later_release_leaves_the_fingerprint_of_a_policy_that_does_not_state_it():
    """A contest ends when the policy changes, and no policy changes with a release."""
    policy = a_policy(min_age=timedelta(minutes=5), wake_when=(WakeMetric("queue", 0, "5m"),))

    class Later(IdlingPolicy, frozen=True):
        a_later_field: bool = False

    values = {name: getattr(policy, name) for name in policy.__struct_fields__}
    assert fingerprint(Later(**values)) == fingerprint(policy)
    assert fingerprint(Later(**values, a_later_field=True)) != fingerprint(policy)


@pytest.mark.parametrize(
    ("calendar", "same"),
    [
        pytest.param(
            {"place": Place("elsewhere.yaml", 7), "name": "nights", "texts": ("as written",)}, True, id="place"
        ),
        pytest.param({"zone_name": "Europe/Rome"}, False, id="its zone"),
        pytest.param({"windows": office_hours_off().windows[1:]}, False, id="its windows"),
        pytest.param(
            {"exceptions": (AbsoluteWindow(datetime(2026, 12, 24), datetime(2026, 12, 27)),)}, False, id="holes"
        ),
    ],
)
@pytest.mark.parametrize("wrap", [lambda one: one, lambda one: AnyOf((one, a_metric()))], ids=["alone", "nested"])
def test_another_schedule_is_another_policy_and_another_place_is_not(wrap, calendar, same):
    policy = a_policy(idle_when=AllOf((wrap(a_schedule()),)))
    changed = ScheduleCriterion(replace(office_hours_off(), **calendar))
    assert (fingerprint(policy) == fingerprint(replace(policy, idle_when=AllOf((wrap(changed),))))) is same
