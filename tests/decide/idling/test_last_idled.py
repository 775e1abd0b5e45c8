"""What was idled on the same hours before is known: no limit counts it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.decide.last_idled import hours_of, is_known, last_idled, last_idled_text
from reconciler.model import NOTHING
from reconciler.policy.types import AbsoluteWindow, AllOf, AnyOf, ObjectSelector, ScheduleCriterion, Selector
from tests.decide.idling.idling_policies import MONDAY, NIGHT, a_metric, a_policy, office_hours_off

DAY = timedelta(days=1)
WRITTEN = office_hours_off()
TURNED = tuple(reversed(WRITTEN.windows))
LATER = (*WRITTEN.windows[:-1], replace(WRITTEN.windows[-1], start_minute=22 * 60))


def by_schedule(calendar=WRITTEN, **fields):
    return a_policy(**{"idle_when": AllOf((ScheduleCriterion(calendar),))} | fields)


BEFORE = by_schedule()


@pytest.mark.parametrize(
    ("policy", "known"),
    [
        pytest.param(by_schedule(), True, id="the same"),
        pytest.param(by_schedule(min_age=DAY, priority=7), True, id="another priority and age"),
        pytest.param(
            by_schedule(replace(WRITTEN, exceptions=(AbsoluteWindow(NIGHT, MONDAY, "fair"),))), True, id="an exception"
        ),
        pytest.param(by_schedule(name="other"), True, id="another policy"),
        pytest.param(by_schedule(idle_replicas=1), True, id="other idleReplicas"),
        pytest.param(by_schedule(selector=Selector(namespaces=ObjectSelector(("prod-*",)))), True, id="a selector"),
        pytest.param(by_schedule(replace(WRITTEN, windows=TURNED, texts=("other words",))), True, id="other words"),
        pytest.param(by_schedule(tenant="a"), False, id="another owner"),
        pytest.param(by_schedule(replace(WRITTEN, windows=LATER)), False, id="another window"),
        pytest.param(by_schedule(replace(WRITTEN, zone_name="UTC")), False, id="another time zone"),
        pytest.param(
            by_schedule(idle_when=AnyOf((ScheduleCriterion(WRITTEN),))), False, id="another way to combine schedules"
        ),
        pytest.param(by_schedule(idle_when=AllOf((a_metric(),))), False, id="a metric"),
    ],
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


@pytest.mark.parametrize(
    ("said", "known"),
    [
        pytest.param('{"hours":{"h":"2026-11-20T22:00:00Z"}}', True, id="last night"),
        pytest.param('{"hours":{"h":"2026-10-18T22:00:00Z"}}', True, id="35 days ago"),
        pytest.param('{"hours":{"h":"2026-10-18T21:59:59Z"}}', False, id="longer ago"),
        pytest.param('{"hours":{"h":"2026-11-22T22:00:00Z"}}', True, id="in this second"),
        pytest.param('{"hours":{"h":"2026-11-22T22:00:01Z"}}', False, id="not yet"),
        pytest.param('{"hours":{"h":"2026-11-20T22:00:00Z","x":"2026-11-21T22:00:00Z"}}', True, id="others since"),
        pytest.param('{"hours":{"x":"2026-11-20T22:00:00Z"}}', False, id="other hours"),
        pytest.param('{"hours":{"h":"yesterday"}}', False, id="no time"),
        pytest.param('{"hours":["h"]}', False, id="no hours"),
        pytest.param('{"at":"2026-11-20T22:00:00Z","digest":"h","policy":"p"}', False, id="another form"),
        pytest.param("no JSON", False, id="no JSON"),
        pytest.param("", False, id="empty"),
        pytest.param(None, False, id="absent"),
    ],
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
