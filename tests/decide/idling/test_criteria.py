"""Idle, busy or unknown: what criteria say, in words, and what would alter it."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from msgspec.structs import replace

from reconciler.decide import schedule
from reconciler.decide.annotations import parse_time
from reconciler.decide.idling import criteria
from reconciler.decide.idling.criteria import CriterionResult, PolicyVerdict, Verdict, evaluator_of, joined
from reconciler.decide.query_answers import Answers
from reconciler.decide.reasons import ReasonCode, reason, text_of
from reconciler.labels import LabelSelector
from reconciler.model import QueryAnswer, QueryKey, Sample
from reconciler.policy.kinds.calendar import parse_window, the_rest_of_the_week
from reconciler.policy.types import (
    AbsoluteWindow,
    AllOf,
    AnyOf,
    ObjectSelector,
    ScheduleCriterion,
    Selector,
    WakeMetric,
    WeeklyWindow,
)
from tests.builders import a_cluster, a_service, a_state, a_workload
from tests.cases import cases
from tests.decide.idling.idling_policies import (
    MONDAY,
    NIGHT,
    NOON,
    REQUESTS,
    a_metric,
    a_policy,
    a_schedule,
    answers,
    decided,
    why_of,
)
from tests.decide.schedule.calendars import a_calendar

IDLE, BUSY, UNKNOWN = CriterionResult.IDLE, CriterionResult.BUSY, CriterionResult.UNKNOWN
OTHER = {IDLE: {BUSY, UNKNOWN}, BUSY: {IDLE}, UNKNOWN: {IDLE}}
POLICY = a_policy()
COVERAGE = "count_over_time(up[{{ window }}])"


def judged(policy, said=None, now=NIGHT, service: str | None = "web") -> PolicyVerdict:
    return evaluator_of(policy, Answers("east", policy.name, said or {}, now))("shop", service)


@cases(
    "said result words",
    ("at the bound", answers(("web", 0)), IDLE, "0 at most 0 in 30m"),
    ("above", answers(("web", 5)), BUSY, "5 above 0 in 30m"),
    ("below", answers(("web", -1)), IDLE, "-1 at most 0 in 30m"),
    ("another Service's", answers(("api", 0)), UNKNOWN, "no series"),
    ("another namespace's", answers(("web", 0), namespace="other"), UNKNOWN, "no series"),
    ("NaN", answers(("web", math.nan)), UNKNOWN, "nan"),
    ("infinite", answers(("web", math.inf)), UNKNOWN, "inf"),
    ("given twice", answers(("web", 0), ("web", 0)), UNKNOWN, "given 2 times"),
    ("with warnings", answers(("web", 0), warnings=("half",)), UNKNOWN, "partial: half"),
    ("failed", answers(error="refused"), UNKNOWN, "failed to load: refused"),
    ("not in the snapshot", {}, UNKNOWN, "not evaluated"),
    (
        "recorded too long ago",
        answers(("web", 0), at=NIGHT - timedelta(minutes=5, seconds=1)),
        UNKNOWN,
        "recorded at 2026-11-20T21:54:59Z, more than 5 minutes ago",
    ),
    ("just in time", answers(("web", 0), at=NIGHT - timedelta(minutes=5)), IDLE, "0 at most 0"),
    ("another policy's", answers(("web", 0), policy="other"), UNKNOWN, "not evaluated"),
    ("another cluster's", answers(("web", 0), cluster="west"), UNKNOWN, "not evaluated"),
    ("another window's", answers(("web", 0), window="5m"), UNKNOWN, "not evaluated"),
)
def test_a_metric(said, result, words):
    evaluation = judged(a_policy("idle-dev", a_metric()), said)
    assert evaluation.result is result
    assert words in text_of(evaluation.reasons)


OTHER_LABELS = {
    QueryKey("east", "idle-dev", REQUESTS, "30m"): QueryAnswer(
        (Sample({"exported_namespace": "shop", "exported_service": "web"}, 90.0),)
    )
}


@cases(
    "said result words",
    ("another selected Service's series", answers(("api", 7)), IDLE, "0 at most 0"),
    ("among others", answers(("api", 7), ("gone", 7)), IDLE, "0 at most 0"),
    ("no series at all", answers(), IDLE, "0 at most 0"),
    ("other labels", OTHER_LABELS, UNKNOWN, "none of its series names a selected Service"),
    ("a namespace not selected", answers(("web", 7), namespace="other"), UNKNOWN, "none of its series"),
    ("a Service that is not there", answers(("gone", 7)), UNKNOWN, "none of its series"),
    ("a Service whose labels are not selected", answers(("db", 7)), UNKNOWN, "none of its series"),
)
def test_no_series_is_zero_only_where_the_series_that_are_there_name_a_selected_service(said, result, words):
    selected = ObjectSelector(labels=LabelSelector((("tier", "web"),)))
    selector = Selector(services=selected, namespaces=ObjectSelector(("shop",)))
    policy = a_policy("idle-dev", a_metric(no_series="Zero"), a_schedule(), selector=selector)
    services = (
        *(a_service(name, labels={"tier": "web"}) for name in ("web", "api")),
        a_service("db"),
        a_service(namespace="other", labels={"tier": "web"}),
    )
    state = a_state(a_cluster(services=services, workloads=(a_workload(),)), answers=said)
    outcome = decided(state, policy)
    told = [(one.ref.name, one.outcome) for one in outcome.desired.explanations if one.ref.kind == "Deployment"]
    assert told == [("web", "goes idle" if result is IDLE else "stays awake")]
    assert words in why_of(outcome)


@cases(
    "coverage result words",
    ("enough", answers(("web", 50), query=COVERAGE), IDLE, "0 at most 0"),
    ("too little", answers(("web", 49), query=COVERAGE), UNKNOWN, "coverage is 49, expected at least 50"),
    ("none", answers(query=COVERAGE), UNKNOWN, "coverage is no series"),
    ("not evaluated", {}, UNKNOWN, "coverage is not evaluated"),
)
def test_coverage(coverage, result, words):
    policy = a_policy("idle-dev", a_metric(coverage=COVERAGE, coverage_at_least=50))
    evaluation = judged(policy, {**answers(("web", 0)), **coverage})
    assert evaluation.result is result
    assert words in text_of(evaluation.reasons)


def test_a_workload_without_a_service_has_no_metric():
    evaluation = judged(a_policy("idle-dev", a_metric()), answers(("web", 0)), service=None)
    assert (evaluation.result, "a metric needs a Service" in text_of(evaluation.reasons)) == (UNKNOWN, True)


@cases(
    "now result words at until",
    ("open", NIGHT, IDLE, "until", "2026-11-23T06:00:00Z", MONDAY),
    ("closed", NOON, BUSY, "closed until", "2026-11-20T19:00:00Z", None),
    ("the end does not belong to it", MONDAY, BUSY, "closed until", "2026-11-23T19:00:00Z", None),
)
def test_a_schedule(now, result, words, at, until):
    evaluation = judged(a_policy(), now=now)
    assert (evaluation.result, evaluation.until) == (result, until)
    assert text_of(evaluation.reasons) == f"schedule office-hours-off {words} {at}"
    assert str(evaluation.change_if(OTHER[result])) == f"it is {at} or later"


def hours(*texts: str) -> ScheduleCriterion:
    windows = tuple(window for text in texts for window in parse_window(text) or ())
    return ScheduleCriterion(replace(a_calendar("Europe/Paris"), windows=windows))


NIGHTS, HOLIDAY = hours("Mon-Thu 20:00-07:00", "Fri 20:00-Mon 07:00"), hours("2026-11-24T00:00/2026-11-25T12:00")
MONDAY_NIGHT = datetime(2026, 11, 23, 22, tzinfo=UTC)


@cases(
    "criterion now result at",
    ("one follows within the other", AnyOf((NIGHTS, HOLIDAY)), MONDAY_NIGHT, IDLE, "2026-11-25T11:00:00Z"),
    ("one begins as the other ends", AnyOf((NIGHTS, hours("Mon 07:00-12:00"))), NIGHT, IDLE, "2026-11-23T11:00:00Z"),
    ("either opens", AnyOf((NIGHTS, HOLIDAY)), NOON, BUSY, "2026-11-20T19:00:00Z"),
    ("either ends", AllOf((NIGHTS, hours("23:00-05:00"))), NIGHT, IDLE, "2026-11-21T04:00:00Z"),
    ("one is over as the other begins", AllOf((hours("12:00-14:00"), HOLIDAY)), NOON, BUSY, "2026-11-24T11:00:00Z"),
    ("always", AnyOf((hours("00:00-12:00"), hours("12:00-24:00"))), NOON, IDLE, None),
    ("never", AllOf((hours("00:00-12:00"), hours("12:00-24:00"))), NOON, BUSY, None),
)
def test_schedules_come_to_another_result_together(criterion, now, result, at):
    evaluation = judged(a_policy("idle-dev", criterion), now=now)
    assert evaluation.result is result
    change = evaluation.change_if(OTHER[result])
    assert (change and str(change)) == (at and f"it is {at} or later")
    assert evaluation.until == (parse_time(at) if at and result is IDLE else None)
    said = [why for why in evaluation.reasons if why.code != ReasonCode.OUTSIDE_DOWNTIME]
    assert {why.values.get("until") for why in said} <= {at}


@cases(
    "now words",
    ("in uptime", NOON, 'in uptime "Mon-Fri 07:00-20:00" until 2026-11-20T19:00:00Z'),
    ("an exception", NIGHT, 'exception to uptime "Mon-Fri 07:00-20:00" until 2026-11-20T22:30:00Z'),
)
def test_of_several_schedules_each_says_how_long_it_keeps_awake(now, words):
    office = replace(
        a_calendar("Europe/Paris", exceptions=("2026-11-20T22:00/2026-11-20T23:30",)),
        windows=the_rest_of_the_week(parse_window("Mon-Fri 07:00-20:00") or ()),
        field="uptime",
        texts=("Mon-Fri 07:00-20:00",),
    )
    said = judged(a_policy("idle-dev", AllOf((ScheduleCriterion(office), hours("Sat 12:00-14:00")))), now=now)
    assert text_of(said.reasons).split(", ")[0] == words


def test_schedules_that_never_meet_are_looked_at_a_few_times_not_at_each_of_their_edges():
    for kept in (schedule._windows, schedule._periods_after, criteria._next_transition):
        kept.cache_clear()
    halves = AllOf((hours("00:00-12:00"), hours("12:00-24:00")))
    busy = judged(a_policy("idle-dev", halves), now=NOON)
    assert schedule._windows.cache_info().misses <= 2, "nobody asked when they meet"
    assert busy.change_if({IDLE}) is None
    assert schedule._windows.cache_info().misses < 10


@cases(
    "criterion now at",
    ("all, never at once", AllOf((hours("12:00-13:00"), a_metric(), hours("15:00-16:00"))), NOON, None),
    (
        "all, one is over as the other begins",
        AllOf((hours("12:00-14:00"), a_metric(), HOLIDAY)),
        NOON,
        "2026-11-24T11:00:00Z",
    ),
    ("any, one follows within the other", AnyOf((NIGHTS, a_metric(), HOLIDAY)), MONDAY_NIGHT, "2026-11-25T11:00:00Z"),
)
def test_beside_a_metric_schedules_come_to_another_result_together(criterion, now, at):
    evaluation = judged(a_policy("idle-dev", criterion), answers(("web", 9)), now)
    change = evaluation.change_if(OTHER[evaluation.result])
    both = evaluation.result is BUSY and at
    assert (change and str(change)) == (at and f"it is {at} or later" + " and the metric is at most 0" * bool(both))
    assert evaluation.until == (parse_time(at) if at and evaluation.result is IDLE else None)


@cases(
    "first second words",
    ("never at once", hours("14:00-15:00"), hours("16:00-17:00"), None),
    (
        "one within the other",
        hours("14:00-18:00"),
        hours("16:00-17:00"),
        "it is 2026-11-20T13:00:00Z or later and it is 2026-11-20T15:00:00Z or later",
    ),
    ("one is over before the other begins", hours("12:00-14:00"), hours("15:00-16:00"), None),
)
def test_what_several_policies_need_is_promised_where_it_comes_true_at_once(first, second, words):
    won = [judged(a_policy(name, one), {}, NOON) for name, one in (("p", first), ("q", second))]
    change = Verdict(tuple(won)).change_if({IDLE})
    assert (change and str(change)) == words


OFFICE_HOURS = the_rest_of_the_week(parse_window("Mon-Fri 07:00-20:00") or ())
ONCE = "2026-01-01T10:00/2026-01-01T12:00"
RELEASE = AbsoluteWindow(datetime(2026, 11, 20, 20), datetime(2026, 11, 20, 23), reason="release")


@cases(
    "now fields result words change",
    ("outside", NIGHT, {}, IDLE, 'outside uptime "Mon-Fri 07:00-20:00" until {}', "2026-11-23T07:00:00Z"),
    ("inside", NOON, {}, BUSY, 'in uptime "Mon-Fri 07:00-20:00" until {}', "2026-11-20T20:00:00Z"),
    ("a name", NIGHT, {"name": "office-hours"}, IDLE, "outside uptime office-hours until {}", "2026-11-23T07:00:00Z"),
    (
        "an exception",
        NIGHT,
        {"exceptions": (RELEASE,)},
        BUSY,
        'exception to uptime "Mon-Fri 07:00-20:00" until {} (release)',
        "2026-11-20T23:00:00Z",
    ),
    (
        "always",
        NOON,
        {"windows": (), "texts": ("00:00-24:00",)},
        BUSY,
        'in uptime "00:00-24:00" without end',
        'there is an end of uptime "00:00-24:00"',
    ),
    (
        "never",
        NOON,
        {"windows": (WeeklyWindow(0, 0, 7, 0),), "texts": (ONCE,)},
        IDLE,
        f'outside uptime "{ONCE}" without end',
        f'there is a window of uptime "{ONCE}"',
    ),
)
def test_12_a_schedule_that_states_its_uptime(now, fields, result, words, change):
    """`change` is the time that is in `words` too, or else what would change it."""
    texts = ("Mon-Fri 07:00-20:00",)
    calendar = replace(a_calendar("UTC"), **{"windows": OFFICE_HOURS, "texts": texts, "field": "uptime"} | fields)
    evaluation = judged(a_policy("idle-dev", ScheduleCriterion(calendar)), now=now)
    ends = "{}" in words
    assert (evaluation.result, text_of(evaluation.reasons)) == (result, words.format(change))
    assert str(evaluation.change_if(OTHER[result])) == (f"it is {change} or later" if ends else change)
    assert ("timeZone" in evaluation.reasons[0].values) is ends


def said(*result: CriterionResult) -> tuple[PolicyVerdict, ...]:
    return tuple(PolicyVerdict(POLICY, one, ()) for one in result)


@cases(
    "parts every some",
    ("both idle", (IDLE, IDLE), IDLE, IDLE),
    ("one idle, one busy", (IDLE, BUSY), BUSY, IDLE),
    ("one idle, one unknown", (IDLE, UNKNOWN), UNKNOWN, IDLE),
    ("one busy, one unknown", (BUSY, UNKNOWN), BUSY, UNKNOWN),
    ("both busy", (BUSY, BUSY), BUSY, BUSY),
    ("both unknown", (UNKNOWN, UNKNOWN), UNKNOWN, UNKNOWN),
    ("one of each", (BUSY, UNKNOWN, IDLE), BUSY, IDLE),
    ("without criteria", (), UNKNOWN, UNKNOWN),
)
def test_three_valued_logic(parts, every, some):
    assert joined(POLICY, said(*parts), is_any=False).result is every
    assert joined(POLICY, said(*parts), is_any=True).result is some


def test_criteria_nest_and_tell_what_decided():
    policy = a_policy("idle-dev", a_metric(name="requests"), AnyOf((a_schedule(), a_metric(window="5m"))))
    evaluation = judged(policy, answers(("web", 0)))
    assert evaluation.result is IDLE
    assert (
        text_of(evaluation.reasons)
        == "requests 0 at most 0 in 30m, schedule office-hours-off until 2026-11-23T06:00:00Z"
    )
    assert (
        str(evaluation.change_if(OTHER[evaluation.result]))
        == "the metric requests is above 0 or it is 2026-11-23T06:00:00Z or later"
    )
    busy = judged(policy, {**answers(("web", 0)), **answers(("web", 3), window="5m")}, NOON)
    assert text_of(busy.reasons) == "schedule office-hours-off closed until 2026-11-20T19:00:00Z, 3 above 0 in 5m"


@cases(
    "value expected words",
    ("above", 1.0, BUSY, "wakeWhen 1 above 0 in 5m"),
    ("at the threshold", 0.0, IDLE, ""),
    ("NaN", math.nan, UNKNOWN, "wakeWhen unknown in 5m: nan"),
    ("no series", None, UNKNOWN, "wakeWhen unknown in 5m: no series"),
)
def test_wake_when_holds_or_may_hold(value, expected, words):
    policy = a_policy(wake_when=(WakeMetric("queue", 0, "5m"),))
    samples = () if value is None else (Sample({"namespace": "shop", "service": "web"}, value),)
    key = QueryKey("east", "idle-dev", "queue", "5m")
    said = judged(policy, {key: QueryAnswer(samples)})
    found = said.wake_when
    assert (found.result, text_of(found.reasons), said.may_wake) == (expected, words, expected is not IDLE)


IDLE_METRIC, BUSY_METRIC, NO_METRIC = (PolicyVerdict(POLICY, one, (), threshold=3.0) for one in (IDLE, BUSY, UNKNOWN))


@cases(
    "evaluation wanted expected",
    ("unknown, to idle", NO_METRIC, {IDLE}, "the metric has a value of at most 3"),
    ("unknown, to busy", NO_METRIC, {BUSY}, "the metric has a value above 3"),
    (
        "what is unknown beside what is busy",
        joined(POLICY, (BUSY_METRIC, NO_METRIC), is_any=False),
        {IDLE},
        "the metric is at most 3 and the metric has a value of at most 3",
    ),
    ("not busy", joined(POLICY, (BUSY_METRIC, NO_METRIC), is_any=False), {IDLE, UNKNOWN}, "the metric is at most 3"),
    (
        "what is unknown beside what is idle",
        joined(POLICY, (IDLE_METRIC, NO_METRIC), is_any=True),
        {BUSY},
        "the metric is above 3 and the metric has a value above 3",
    ),
    ("not idle", joined(POLICY, (IDLE_METRIC, NO_METRIC), is_any=True), {BUSY, UNKNOWN}, "the metric is above 3"),
    (
        "either",
        joined(POLICY, (BUSY_METRIC, NO_METRIC), is_any=True),
        {IDLE},
        "the metric is at most 3 or the metric has a value of at most 3",
    ),
)
def test_what_criteria_change_to_is_said(evaluation, wanted, expected):
    assert str(evaluation.change_if(wanted)) == expected


def test_each_query_that_cannot_be_used_is_told_once():
    policy = a_policy(
        "idle-dev", AnyOf((a_metric(coverage=COVERAGE), a_metric())), wake_when=(WakeMetric("queue", 0, "5m"),)
    )
    said = answers(("web", 0))
    problems = Answers("east", policy.name, said, NIGHT).problems(policy)
    assert [(query, problem.code) for query, problem in problems] == [
        ("queue", ReasonCode.QUERY_NOT_EVALUATED),
        ("count_over_time(up[30m])", ReasonCode.QUERY_NOT_EVALUATED),
    ]


def test_coverage_needs_a_series_and_no_more_where_no_least_is_given():
    policy = a_policy("idle-dev", a_metric(coverage=COVERAGE))
    assert judged(policy, {**answers(("web", 0)), **answers(("web", 0), query=COVERAGE)}).result is IDLE


def test_what_each_criterion_found_is_told():
    policy = a_policy("idle-dev", AnyOf((a_metric(at_most=1), a_schedule())))
    (found,) = judged(policy, answers(("web", 1))).reasons[:1]
    assert found == reason(ReasonCode.METRIC_IDLE, value=1.0, atMost=1.0, window="30m")
