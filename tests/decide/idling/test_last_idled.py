"""What the same schedule idled before is known: no limit counts it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from reconciler.decide.idling.last_idled import ScheduleDigest, schedule_of
from reconciler.policy.types import AbsoluteWindow, AllOf, AnyOf, ObjectSelector, ScheduleCriterion, Selector
from tests.builders import a_ref, a_service, a_workload
from tests.decide.idling.idling_policies import (
    MONDAY,
    NIGHT,
    a_metric,
    a_policy,
    answers,
    labelled,
    office_hours_off,
    run_in,
)
from tests.decide.idling.world import a_world

WEB = a_ref("web")
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
        pytest.param(by_schedule(name="other"), False, id="another policy"),
        pytest.param(by_schedule(idle_replicas=1), False, id="other idleReplicas"),
        pytest.param(by_schedule(replace(WRITTEN, windows=TURNED, texts=("other words",))), True, id="other words"),
        pytest.param(by_schedule(selector=Selector(services=ObjectSelector(("*",)))), True, id="a default written out"),
        pytest.param(by_schedule(replace(WRITTEN, windows=LATER)), False, id="another window"),
        pytest.param(by_schedule(replace(WRITTEN, zone_name="UTC")), False, id="another time zone"),
        pytest.param(
            by_schedule(selector=Selector(namespaces=ObjectSelector(("prod-*",)))), False, id="another selector"
        ),
        pytest.param(
            by_schedule(idle_when=AnyOf((ScheduleCriterion(WRITTEN),))), False, id="another way to combine schedules"
        ),
    ],
)
def test_the_same_schedule_knows_what_it_idled(policy, known):
    annotations = {"reconciler/last-idled": schedule_of(BEFORE).text(NIGHT)}
    assert schedule_of(policy).knows(annotations, NIGHT + DAY) is known


@pytest.mark.parametrize("idle_when", [AllOf, AnyOf])
def test_what_a_metric_decides_is_never_known(idle_when):
    assert schedule_of(by_schedule(idle_when=idle_when((ScheduleCriterion(WRITTEN), a_metric())))) is None
    assert schedule_of(by_schedule(idle_when=AllOf((idle_when((a_metric(),)),)))) is None


@pytest.mark.parametrize(
    ("text", "known"),
    [
        pytest.param('{"at":"2026-11-20T22:00:00Z","digest":"d","policy":"p"}', True, id="last night"),
        pytest.param('{"at":"2026-10-18T22:00:00Z","digest":"d","policy":"p"}', True, id="35 days ago"),
        pytest.param('{"at":"2026-10-18T21:59:59Z","digest":"d","policy":"p"}', False, id="longer ago"),
        pytest.param('{"at":"2026-11-22T22:00:00Z","digest":"d","policy":"p"}', True, id="in this second"),
        pytest.param('{"at":"2026-11-22T22:00:01Z","digest":"d","policy":"p"}', False, id="not yet"),
        pytest.param('{"at":"yesterday","digest":"d","policy":"p"}', False, id="no time"),
        pytest.param('{"digest":"d","policy":"p"}', False, id="without a time"),
        pytest.param("no JSON", False, id="no JSON"),
        pytest.param("", False, id="empty"),
        pytest.param(None, False, id="absent"),
    ],
)
def test_what_the_annotation_says(text, known):
    annotations = {} if text is None else {"reconciler/last-idled": text}
    assert ScheduleDigest("p", "d").knows(annotations, NIGHT + 2 * DAY) is known


def test_a_later_release_knows_what_an_earlier_one_idled():
    written = '{"at":"2026-11-20T22:00:00Z","digest":"b0d0d2e6e17decb3","policy":"idle-dev"}'
    assert schedule_of(BEFORE).text(NIGHT) == written


def test_what_slept_for_long_is_known_when_it_wakes():
    text = '{"at":"2026-09-01T22:00:00Z","digest":"d","policy":"p"}'
    for woken, known in (("2026-11-20T07:00:00Z", True), ("2026-10-01T07:00:00Z", False)):
        annotations = {"reconciler/last-idled": text, "reconciler/awake-since": woken}
        assert ScheduleDigest("p", "d").knows(annotations, NIGHT) is known


def idled_twice(*policies):
    """Return the decisions that idle `web` in two nights."""
    world = a_world(a_service(), a_workload(), now=NIGHT)
    found = []
    for policy in policies:
        idles = [one for one in run_in(world, policy).desired.decisions if one.idles]
        found += idles
        world.now = MONDAY
        run_in(world, policy)
        assert world.replicas(WEB) == 3
        world.now = MONDAY + timedelta(hours=15)
    return found


def test_the_second_night_is_known():
    first, second = idled_twice(BEFORE, BEFORE)
    assert (first.ref, first.known, second.ref, second.known) == (WEB, False, WEB, True)


def test_after_a_change_of_the_schedule_everything_is_new_again():
    _, second = idled_twice(BEFORE, by_schedule(replace(WRITTEN, windows=LATER)))
    assert not second.known


def test_a_policy_that_asks_metrics_forgets_what_a_schedule_knew():
    asks = by_schedule(idle_when=AnyOf((ScheduleCriterion(WRITTEN), a_metric())))
    asleep = a_workload(annotations={"reconciler/last-idled": schedule_of(BEFORE).text(NIGHT)})
    world = a_world(a_service(), asleep, now=NIGHT + DAY)
    (idle,) = [one for one in run_in(world, asks).desired.decisions if one.idles]
    assert not idle.known
    assert "reconciler/last-idled" not in world.objects[WEB].annotations


def test_a_metric_of_another_service_that_it_stands_behind_has_a_say_too():
    one, two = (a_service(name, labels={"policy": name}, selector={"app": "web"}) for name in ("one", "two"))
    policies = [
        by_schedule(name="a", selector=labelled("policy", "one")),
        a_policy("b", ScheduleCriterion(WRITTEN), a_metric(), selector=labelled("policy", "two")),
    ]
    slept = a_workload(annotations={"reconciler/last-idled": schedule_of(policies[0]).text(NIGHT)})
    world = a_world(one, two, slept, now=NIGHT + DAY)
    world.answers = answers(("two", 0), policy="b")
    assert [(one.ref, one.known) for one in run_in(world, *policies).desired.decisions if one.idles] == [(WEB, False)]
