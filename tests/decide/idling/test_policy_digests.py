"""Digests of policies in annotations on clusters: a release must not change them, and they tell what is known."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace

from reconciler.decide.idling.contested import fingerprint
from reconciler.decide.last_idled import hours_of, is_known, last_idled, last_idled_text
from reconciler.model import NOTHING
from reconciler.policy.types import (
    AbsoluteWindow,
    AllOf,
    AnyOf,
    IdlingPolicy,
    ObjectSelector,
    Place,
    ScheduleCriterion,
    Selector,
    WakeMetric,
)
from tests.builders import policies_of
from tests.cases import cases
from tests.decide.idling.idling_policies import MONDAY, NIGHT, a_metric, a_policy, a_schedule, office_hours_off

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
    return policies_of("".join([text.replace("METRIC", metric), *(f"  {line}\n" for line in lines)])).idling[0]


@cases(
    "policy expected",
    ("all at their defaults", stated(), "f9a7c1d94f1b"),
    ("a wake group", stated("wakeOrder: {group: g, perRun: 3}"), "9f4d5f8629e4"),
    ("an autoscaler left alone", stated("autoscalers: {hpa: Leave}"), "f92d301c7ad3"),
    ("Flux paused, and a duration", stated("gitOps: {flux: Pause}", "minAge: 5m"), "f445899403c3"),
    ("it insists", stated("onRevert: Insist"), "00c5270252cb"),
    ("a limit is no part of it", stated("limits: {workloads: 7}"), "f9a7c1d94f1b"),
    ("a wake metric at its defaults", stated("wakeWhen: [{metric: {query: x}}]"), "ed4e2280018c"),
    ("a coverage", stated(metric="{query: q, coverage: c, coverageAtLeast: 4, noSeries: Zero}"), "1b462e5f7344"),
)
def test_the_fingerprint_of_a_policy_is_that_of_earlier_releases(policy: IdlingPolicy, expected: str):
    assert fingerprint(policy) == expected


@cases(
    "policy expected",
    ("a schedule", stated("idleReplicas: 1", text=SCHEDULE), "c311398e7fd087eb"),
    ("a schedule and a metric", stated(), "83622cc397af141e"),
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


@cases(
    "calendar same",
    ("place", {"place": Place("elsewhere.yaml", 7), "name": "nights", "texts": ("as written",)}, True),
    ("its zone", {"zone_name": "Europe/Rome"}, False),
    ("its windows", {"windows": office_hours_off().windows[1:]}, False),
    ("holes", {"exceptions": (AbsoluteWindow(datetime(2026, 12, 24), datetime(2026, 12, 27)),)}, False),
)
@cases("wrap", ("alone", lambda one: one), ("nested", lambda one: AnyOf((one, a_metric()))))
def test_another_schedule_is_another_policy_and_another_place_is_not(wrap, calendar, same):
    policy = a_policy(idle_when=AllOf((wrap(a_schedule()),)))
    changed = ScheduleCriterion(replace(office_hours_off(), **calendar))
    assert (fingerprint(policy) == fingerprint(replace(policy, idle_when=AllOf((wrap(changed),))))) is same


# What was idled on the same hours before is known: no limit counts it.

DAY = timedelta(days=1)
WRITTEN = office_hours_off()
TURNED = tuple(reversed(WRITTEN.windows))
LATER = (*WRITTEN.windows[:-1], replace(WRITTEN.windows[-1], start_minute=22 * 60))


def by_schedule(calendar=WRITTEN, **fields):
    return a_policy(**{"idle_when": AllOf((ScheduleCriterion(calendar),))} | fields)


BEFORE = by_schedule()


@cases(
    "policy known",
    ("the same", by_schedule(), True),
    ("another priority and age", by_schedule(min_age=DAY, priority=7), True),
    ("an exception", by_schedule(replace(WRITTEN, exceptions=(AbsoluteWindow(NIGHT, MONDAY, "fair"),))), True),
    ("another policy", by_schedule(name="other"), True),
    ("other idleReplicas", by_schedule(idle_replicas=1), True),
    ("a selector", by_schedule(selector=Selector(namespaces=ObjectSelector(("prod-*",)))), True),
    ("other words", by_schedule(replace(WRITTEN, windows=TURNED, texts=("other words",))), True),
    ("another owner", by_schedule(tenant="a"), False),
    ("another window", by_schedule(replace(WRITTEN, windows=LATER)), False),
    ("another time zone", by_schedule(replace(WRITTEN, zone_name="UTC")), False),
    ("another way to combine schedules", by_schedule(idle_when=AnyOf((ScheduleCriterion(WRITTEN),))), False),
    ("a metric", by_schedule(idle_when=AllOf((a_metric(),))), False),
)
def test_what_is_idled_on_the_same_hours_is_known(policy, known):
    annotations = {"reconciler/last-idled": text(hours_of(BEFORE))}
    assert is_known(hours_of(policy), annotations, NIGHT + DAY) is known


@pytest.mark.parametrize("other", [a_metric(query="other", at_most=7), a_metric(name="other")])
def test_one_metric_is_like_another(other):
    both = AnyOf((a_metric(), a_metric(query="more")))
    for criteria in ((other,), (both,), (other, both)):
        assert hours_of(by_schedule(idle_when=AllOf(criteria))) == hours_of(by_schedule(idle_when=AllOf((a_metric(),))))
    beside = by_schedule(idle_when=AllOf((ScheduleCriterion(WRITTEN), a_metric())))
    assert hours_of(beside) == hours_of(by_schedule(idle_when=AllOf((ScheduleCriterion(WRITTEN), other))))


def text(hours, annotations=NOTHING, now=NIGHT, *, counts=True):
    return last_idled_text("p", hours, annotations, now, counts=counts)


@cases(
    "said known",
    ("last night", '{"hours":{"h":"2026-11-20T22:00:00Z"}}', True),
    ("35 days ago", '{"hours":{"h":"2026-10-18T22:00:00Z"}}', True),
    ("longer ago", '{"hours":{"h":"2026-10-18T21:59:59Z"}}', False),
    ("in this second", '{"hours":{"h":"2026-11-22T22:00:00Z"}}', True),
    ("not yet", '{"hours":{"h":"2026-11-22T22:00:01Z"}}', False),
    ("others since", '{"hours":{"h":"2026-11-20T22:00:00Z","x":"2026-11-21T22:00:00Z"}}', True),
    ("other hours", '{"hours":{"x":"2026-11-20T22:00:00Z"}}', False),
    ("no time", '{"hours":{"h":"yesterday"}}', False),
    ("no hours", '{"hours":["h"]}', False),
    ("another form", '{"at":"2026-11-20T22:00:00Z","digest":"h","policy":"p"}', False),
    ("no JSON", "no JSON", False),
    ("empty", "", False),
    ("absent", None, False),
)
def test_what_the_annotation_says(said, known):
    annotations = {} if said is None else {"reconciler/last-idled": said}
    assert is_known("h", annotations, NIGHT + 2 * DAY) is known


def test_what_slept_for_long_is_known_when_it_wakes():
    said = '{"hours":{"h":"2026-09-01T22:00:00Z","x":"2026-08-01T22:00:00Z"}}'
    for hours, woken, known in (
        ("h", "2026-11-20T07:00:00Z", True),
        ("h", "2026-10-01T07:00:00Z", False),
        ("x", "2026-11-20T07:00:00Z", False),
    ):
        annotations = {"reconciler/last-idled": said, "reconciler/awake-since": woken}
        assert is_known(hours, annotations, NIGHT) is known


def test_eight_hours_are_kept_and_none_longer_than_35_days():
    annotations: dict[str, str] = {}
    for number in range(10):
        annotations = {"reconciler/last-idled": text(f"h{number}", annotations, NIGHT + number * DAY)}
    assert sorted(last_idled(annotations).hours) == [f"h{number}" for number in range(2, 10)]
    annotations = {"reconciler/last-idled": text("h0", annotations, NIGHT + 40 * DAY)}
    assert sorted(last_idled(annotations).hours) == ["h0", *(f"h{number}" for number in range(5, 10))]
