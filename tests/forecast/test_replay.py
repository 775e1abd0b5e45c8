"""The past played again: a cron that runs at every tick, and requests counted one by one, come to the same."""

from __future__ import annotations

import copy
import gc
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.snapshot.memory import MemoryCluster
from reconciler.backends.snapshot.recorded_metrics import one_spaced
from reconciler.errors import SnapshotError
from reconciler.forecast.expected_savings import savings_of
from reconciler.forecast.idle_periods import ASSUMED_START, PolicyReplay
from reconciler.forecast.query_history import SCRAPES, SCRAPES_IN_AN_HOUR, QueryHistory
from reconciler.forecast.replay import replay
from reconciler.forecast.simulation import Simulation
from reconciler.forecast.text import ForecastStyle, compared_replays, render_text, replay_lines
from reconciler.forecast.timelines import Forecast
from reconciler.model import QueryAnswer, RangeAnswer, RangeSeries, Sample
from reconciler.policy.kinds.fields import render_query
from reconciler.policy.types import PolicySet
from tests.forecast.random_fleets import document, first_of, policy_set
from tests.forecast.replays import FLEET, QUERY, SHAPES, START, STEP, WINDOW, Past, a_policy, opened_of, replayed
from tests.forecast.traffic import OFFICE, Calls, calls, history_of
from tests.laws import share_of


def of(made: Forecast, policy: str = "nights") -> PolicyReplay:
    assert made.replay is not None
    return next(one for one in made.replay.policies if one.policy == f"IdlingPolicy {policy}")


def window_in(text: str) -> timedelta:
    [minutes] = re.findall(r"\[(\d+)m\]", text)
    return timedelta(minutes=int(minutes))


@dataclass
class CountedCalls:
    """A metrics source that counts the requests themselves, at the time `now`."""

    made: Sequence[Calls]
    now: datetime = START

    def query(self, text: str) -> QueryAnswer:
        at, window = self.now.timestamp(), window_in(text)
        counts = {one: one.counted(at - window.total_seconds(), at) for one in self.made}
        return QueryAnswer(
            tuple(Sample({"namespace": one.namespace, "service": one.service}, n) for one, n in counts.items())
        )


def cron(policies: PolicySet, made: Sequence[Calls], end: datetime) -> Past:
    """The real plan and apply at every tick from START on, which count the requests themselves."""
    metrics, past = CountedCalls(made), Past(made)
    simulation = Simulation(policies, Opened({"a": Backend("a", opened_of(made).backends["a"].cluster, metrics)}), STEP)
    at = START
    while at < end:
        metrics.now = at
        for ref, replicas in simulation.run(at).replicas.items():
            past.note(at, f"{ref.namespace}/{ref.name}", replicas)
        at += STEP
    return past


def played(count: int, days: int, namespaces: int, seed: object) -> tuple[Forecast, PolicySet, list[Calls], datetime]:
    end = START + timedelta(days=days)
    made = [
        calls(f"ns-{n % namespaces}", f"app-{n}", SHAPES[n % len(SHAPES)], START - WINDOW, end, seed)
        for n in range(count)
    ]
    policies = policy_set([FLEET, *(a_policy(f"nights-{n}", f"ns-{n}") for n in range(namespaces))])
    history = history_of(made, QUERY, WINDOW, START, round((end - START) / STEP), STEP)
    return replayed(policies, opened_of(made), history, end - START), policies, made, end


@pytest.mark.laws
@pytest.mark.parametrize("seed", range(share_of(3)))
def test_a_replay_is_what_a_cron_would_have_done(seed: int) -> None:
    """Every step of every workload is the same, and so are wakes and the number of those that waited."""
    found, played_by, made, end = played(8, 7, 2, seed)
    past = cron(played_by, made, end)
    assert {f"{one.ref.namespace}/{one.ref.name}": list(one.steps) for one in found.timelines} == past.steps
    number, seconds, wakes = past.waiting(end)
    policies = [of(found, f"nights-{n}") for n in range(2)]
    waiting = [one.waiting for one in policies if one.waiting is not None]
    assert number > 50
    assert sum(one.wakes for one in policies) == wakes
    assert sum(one.requests for one in waiting) == pytest.approx(number, rel=0.03)
    assert sum(one.total.total_seconds() for one in waiting) == pytest.approx(seconds, rel=0.01)


SHORT = {"metric": {"query": QUERY.replace("30m", "{{ window }}"), "window": "10m", "above": 1}}
NIGHTS = {"schedule": {"timeZone": "Europe/Paris", "downtime": ["20:00-07:00"]}}
QUIET_HOUR = {
    "metric": {"query": QUERY.replace("30m", "{{ window }}"), "window": "60m", "atMost": 2, "noSeries": "Zero"}
}
VARIANTS: dict[str, dict[str, Any]] = {
    "wake-when": {"wakeWhen": [SHORT], "minAwake": "30m"},
    "any-of": {"idleWhen": [{"anyOf": [NIGHTS, QUIET_HOUR]}]},
    "nested": {"idleWhen": [{"anyOf": [{"allOf": [NIGHTS, QUIET_HOUR]}, QUIET_HOUR]}], "wakeWhen": [SHORT]},
    "idle-replicas": {"idleReplicas": 1, "minAwake": "5h", "metric": {"atMost": 3}},
    "in-turns": {"wakeOrder": {"group": "all", "perRun": 1}},
    "coverage": {
        "metric": {"coverage": QUERY.replace("30m", "{{ window }}"), "coverageAtLeast": 1, "atMost": 3},
    },
}
"""What a policy says besides, by the beginning of the names of two namespaces that it decides."""


@pytest.mark.laws
def test_each_step_is_that_of_a_cron_whatever_the_policies_say() -> None:
    end = START + timedelta(days=3)
    names = [f"{name}-{n % 2}" for name in VARIANTS for n in range(1 + share_of(3))]
    made = [
        calls(name, f"app-{n}", SHAPES[n % len(SHAPES)], START - WINDOW, end, "any") for n, name in enumerate(names)
    ]
    policies = policy_set(
        [FLEET, *(a_policy(name, name, **copy.deepcopy(VARIANTS[name[:-2]])) for name in dict.fromkeys(names))]
    )
    count = round((end - START) / STEP)
    texts = {one_spaced(render_query(key)) for key in policies.query_keys("a")}
    answers = {text: history_of(made, text, window_in(text), START, count, STEP).answers[text] for text in texts}
    past = cron(policies, made, end)
    found = replayed(policies, opened_of(made), QueryHistory(START, STEP, count, answers), end - START)
    assert {f"{one.ref.namespace}/{one.ref.name}": list(one.steps) for one in found.timelines} == past.steps
    for name in VARIANTS:
        assert sum(len(steps) for workload, steps in past.steps.items() if workload.startswith(name)) > 7, name


def test_runs_without_a_change_are_not_played() -> None:
    found, *_ = played(2, 3, 1, "few")
    assert found.runs < 40


def garbage_of(days: int) -> int:
    """How many objects of a replay only the garbage collector frees, which a short process does not run."""
    end = START + timedelta(days=days)
    made = [calls("ns", f"app-{n}", OFFICE, START - WINDOW, end, "garbage") for n in range(2)]
    history = history_of(made, QUERY, WINDOW, START, round((end - START) / STEP), STEP, averages=False)
    policies, opened = policy_set([FLEET, a_policy("nights", "ns")]), opened_of(made)
    replayed(policies, opened, history, end - START)
    gc.collect()
    gc.disable()
    try:
        replayed(policies, opened, history, end - START)
        return gc.collect()
    finally:
        gc.enable()


def test_no_run_leaves_what_only_the_garbage_collector_frees() -> None:
    assert garbage_of(12) <= garbage_of(4)


# What is odd about measurements.

QUIET, BUSY = 0.0, 7.0
NIGHT = datetime(2026, 11, 2, 22, tzinfo=UTC)  # a Monday, 23:00 in Paris


def a_history(
    values: Mapping[datetime, float | None],
    *,
    days: int = 3,
    query: str = QUERY,
    usual: float | None = QUIET,
    scrapes: float | None = None,
) -> QueryHistory:
    """One Service, quiet but at the times of `values`, each for a tick; its targets scraped so often an hour."""
    start = datetime(2026, 11, 2, 12, tzinfo=UTC)
    count = round(timedelta(days=days) / STEP)
    told = tuple(values.get(start + n * STEP, usual) for n in range(count))
    series = RangeSeries({"namespace": "ns", "service": "web"}, told)
    answers = {SCRAPES: (3.0,) * count, SCRAPES_IN_AN_HOUR: (scrapes,) * count}
    known = {name: RangeAnswer((RangeSeries({}, values),)) for name, values in answers.items()}
    return QueryHistory(start, STEP, count, {query: RangeAnswer((series,)), **known})


def a_web(**fields: Any) -> tuple[PolicySet, Opened]:
    policies = policy_set([FLEET, a_policy("nights", "ns", minAwake="0s", **fields)])
    return policies, opened_of([Calls("ns", "web", ())])


def test_a_call_at_night_wakes_at_the_next_run_and_waits_for_it_and_the_start() -> None:
    found = of(replayed(*a_web(), a_history({NIGHT: BUSY}), timedelta(days=3)))
    assert (found.wakes, found.nights, list(found.wrong)) == (1, 3, [date(2026, 11, 2)])
    assert found.waiting is not None
    assert found.waiting.requests == BUSY
    assert found.waiting.longest == STEP + ASSUMED_START
    assert found.waiting.total == BUSY * (STEP / 2 + ASSUMED_START)


@pytest.mark.parametrize(
    ("average", "waited"),
    [
        pytest.param(BUSY, timedelta(minutes=9.5), id="in the first minute of the tick"),
        pytest.param(BUSY / 10, timedelta(minutes=0.5), id="in its last minute"),
        pytest.param(BUSY * 11 / 20, STEP / 2, id="spread evenly"),
        pytest.param(math.nan, STEP / 2, id="no number"),
    ],
)
def test_averages_say_when_in_a_tick_a_call_arrived(average: float, waited: timedelta) -> None:
    history = a_history({NIGHT: BUSY})
    [series] = history.answers[QUERY].series
    averages = tuple(average if value == BUSY else QUIET for value in series.values)
    answers = {**history.answers, QUERY: RangeAnswer((replace(series, averages=averages),))}
    found = of(replayed(*a_web(), QueryHistory(history.start, STEP, history.count, answers), timedelta(days=3)))
    assert found.waiting is not None
    assert found.waiting.total == BUSY * (waited + ASSUMED_START)


@pytest.mark.parametrize(("hour", "wakes"), [(5, 1), (6, 0)])
def test_a_wake_at_the_end_of_a_downtime_is_planned_though_somebody_calls_just_then(hour: int, wakes: int) -> None:
    at = NIGHT.replace(day=3, hour=hour)  # 06:00 and 07:00 in Paris
    found = of(replayed(*a_web(), a_history({at: BUSY}), timedelta(days=3)))
    assert found.wakes == wakes
    assert found.waiting is not None
    assert found.waiting.requests == BUSY


def test_a_signal_wakes_at_once() -> None:
    """An activator signals: the first one waits for the start alone, others share it."""
    found = of(replayed(*a_web(wake="OnSignal"), a_history({NIGHT: BUSY}), timedelta(days=3)))
    assert found.held
    assert found.wakes == 1
    assert found.waiting is not None
    assert found.waiting.longest == ASSUMED_START
    assert 1 < found.waiting.requests < 2


def test_a_signal_that_wakes_after_the_downtime_is_traffic_too() -> None:
    """At 07:00 no schedule wakes what waits for a signal."""
    morning = NIGHT.replace(day=3, hour=8)
    found = of(replayed(*a_web(wake="OnSignal"), a_history({morning: BUSY}), timedelta(days=3)))
    assert found.wakes == 1


@pytest.mark.parametrize(
    "query",
    [
        QUERY.replace("30m", "{{ window }}"),
        QUERY.replace("30m", "5m"),
        QUERY.replace("[30m]", '{path=~"/[ab]"}[5m]'),
        QUERY.replace("30m", "{{ window }}") + " / 2 ^ (increase(x[1h]) * 0)",
    ],
)
def test_a_rate_counts_over_the_range_that_it_states(query: str) -> None:
    rate = query.replace("increase", "rate")
    fields = {"query": rate, **({"window": "5m"} if "{{" in rate else {"window": "30m"})}
    recorded = a_history({NIGHT: 0.01}, query=rate.replace("{{ window }}", "5m"))
    found = of(replayed(*a_web(metric=fields), recorded, timedelta(days=3)))
    assert found.waiting is not None
    assert found.waiting.requests == 3


def test_of_a_cluster_without_a_history_nothing_is_known() -> None:
    clusters = [{"name": "a"}, {"name": "b"}]
    fleet = document("Fleet", "past", {**FLEET["spec"], "clusters": clusters})
    policies = policy_set([fleet, a_policy("nights", "ns")])
    opened = opened_of([Calls("ns", "web", ())])
    other = MemoryCluster.of_manifests("b", [], first_of)
    both = replace(opened, backends={**opened.backends, "b": Backend("b", cluster=other)})
    made = replayed(policies, both, a_history({}), timedelta(days=3))
    assert of(made).unknown == ("b",)
    assert "b: has no history of queries, so nothing is known there" in notes(made)


def test_a_gap_is_unknown_and_changes_nothing() -> None:
    """While nothing was measured a missing series is no traffic of zero."""
    history = a_history({NIGHT + n * STEP: None for n in range(-20, 6)}, usual=None)
    awake = replayed(*a_web(metric={"noSeries": "Zero"}), history, timedelta(days=3))
    assert savings_of(awake.selected).saved.replicas > 0
    answers = {**history.answers, SCRAPES: RangeAnswer((RangeSeries({}, (None,) * history.count),))}
    blind = QueryHistory(history.start, STEP, history.count, answers)
    with pytest.raises(SnapshotError, match="nothing was measured"):
        replayed(*a_web(metric={"noSeries": "Zero"}), blind, timedelta(days=3))
    half = tuple(None if n < 200 else 3.0 for n in range(history.count))
    late = QueryHistory(history.start, STEP, history.count, {**answers, SCRAPES: RangeAnswer((RangeSeries({}, half),))})
    found = replayed(*a_web(metric={"noSeries": "Zero"}), late, timedelta(days=3))
    assert found.start == history.start + 200 * STEP
    assert "measured only from Tue 2026-11-03 22:20 on: 1d14h40m of 3d" in notes(found)


def test_only_gaps_of_the_time_that_is_replayed_are_told() -> None:
    history = a_history({})
    scraped = tuple(None if n in (0, 1, 300, 301, 302) else 3.0 for n in range(history.count))
    answers = {**history.answers, SCRAPES: RangeAnswer((RangeSeries({}, scraped),))}
    found = replayed(*a_web(), QueryHistory(history.start, STEP, history.count, answers), timedelta(days=2))
    assert "a: nothing was measured for 30m in all: metrics are unknown then" in notes(found)


def test_a_query_that_failed_is_named() -> None:
    history = a_history({}, usual=3)
    answers = {**history.answers, "sum(other)": RangeAnswer(error="timeout")}
    found = replayed(*a_web(), QueryHistory(history.start, STEP, history.count, answers), timedelta(days=3))
    assert "a: a query failed: sum(other): timeout" in notes(found)


def test_what_a_policy_with_another_query_would_have_done_is_not_known_and_not_nothing() -> None:
    base, head = (replayed(*a_web(metric=more), a_history({}), timedelta(days=3)) for more in ({}, {"window": "45m"}))
    assert head.replay is not None
    unknown = "IdlingPolicy nights: not known in a, whose history lacks a query of it"
    assert list(replay_lines(head.replay, head.tick)) == [unknown]
    every, policy = compared_replays(base, head)
    assert every.endswith("%) -> not known in a, whose history lacks a query of IdlingPolicy nights")
    assert policy.endswith(" -> not known in a, whose history lacks a query of it")
    text = render_text(head, ForecastStyle(by="namespace")).splitlines()
    words = "What would have been saved is not known in a, whose history lacks a query of IdlingPolicy nights."
    assert text[1].startswith(words)
    cells = ["1", "?", "144", *["?"] * 5]
    assert [line.split() for line in text[4:6]] == [["a/ns", *cells], ["all", *cells]]


def test_what_is_known_of_a_replay_stands_beside_what_is_not() -> None:
    policies = policy_set([FLEET, a_policy("nights", "ns"), a_policy("long", "other", metric={"window": "45m"})])
    opened = opened_of([Calls("ns", "web", ()), Calls("other", "web", ())])
    made = replayed(policies, opened, a_history({}), timedelta(days=3))
    unknown = "not known in a, whose history lacks a query of IdlingPolicy long"
    [every, *_] = compared_replays(None, made)
    text = render_text(made, ForecastStyle())
    hours = f"{savings_of(made.selected).saved.replicas:,.0f}"
    assert hours != "0"
    assert every.startswith(f"all policies: {hours} replica-hours saved (")
    assert every.endswith(f" %), {unknown}")
    assert text.splitlines()[1].startswith(f"-{hours} (")
    assert text.splitlines()[2] == f"What else would have been saved is {unknown}."
    assert [line.split()[:5] for line in text.splitlines()[5:8]] == [
        ["IdlingPolicy", "nights", "1", "78", "144"],
        ["IdlingPolicy", "long", "1", "?", "144"],
        ["all", "2", "222", "288", "23"],
    ]


def test_a_prometheus_that_fails_is_an_error_in_its_words() -> None:
    history = QueryHistory(START, STEP, 10, {QUERY: RangeAnswer(error="http://p: the connection was refused")})
    with pytest.raises(SnapshotError, match="nothing was measured: http://p: the connection was refused"):
        replayed(*a_web(), history, timedelta(days=3))


def test_histories_of_other_times_are_refused() -> None:
    policies, opened = a_web()
    here = a_history({})
    later = QueryHistory(here.start + timedelta(days=90), STEP, here.count, here.answers)
    with pytest.raises(SnapshotError, match="are of other times"):
        replay(policies, opened, {"a": here, "b": later}, timedelta(days=3), lambda work, parts: work(parts))


def notes(made: Forecast) -> str:
    assert made.replay is not None
    return "\n".join(made.replay.notes)


def every_tick(values: Sequence[float]) -> dict[datetime, float | None]:
    start = datetime(2026, 11, 2, 12, tzinfo=UTC)
    return {start + n * STEP: value for n, value in enumerate(values)}


ODD = [
    pytest.param({"usual": 180.0}, {}, "never at most 0, and steady from 180 on, as probes are", id="probes"),
    pytest.param({"values": {NIGHT: -40.0}}, {}, "falls to -40: counters were reset", id="a reset in a difference"),
    pytest.param(
        {"values": every_tick([float(n) for n in range(432)]), "query": "requests_total"},
        {"metric": {"query": "requests_total"}},
        "only rises, as a counter does",
        id="a counter without increase",
    ),
    pytest.param(
        {"values": every_tick([QUIET] * 216), "usual": None},
        {},
        "requests of a/ns/Service/web has no series for about 50 % of the time: it is unknown then",
        id="no series while it slept",
    ),
    pytest.param(
        {"query": QUERY.replace("30m", "10m"), "scrapes": 30.0},
        {"metric": {"window": "10m"}},
        "IdlingPolicy nights has a window of 10m, a run comes each 10m: 20% of the time is in no window, and "
        "calls then wake nothing and are not counted; expected a window of 12m or more",
        id="a window as short as a run is away",
    ),
    pytest.param(
        {"values": every_tick([math.nan]), "usual": 180.0},
        {},
        "never at most 0, and steady from 180 on, as probes are",
        id="probes, and no number at first",
    ),
    pytest.param({"query": "other"}, {}, "a: 1 of 1 query not recorded, so unknown", id="a query that is not recorded"),
    pytest.param({}, {}, "limits are lifted", id="limits"),
]


@pytest.mark.parametrize(("history", "fields", "words"), ODD)
def test_what_is_odd_about_measurements_is_said(history: Any, fields: Any, words: str) -> None:
    made = replayed(*a_web(**fields), a_history(**{"values": {}, **history}), timedelta(days=3))
    assert words in notes(made)


def test_half_a_day_is_no_day() -> None:
    made = replayed(*a_web(), a_history({}), timedelta(hours=36))
    assert "Replay for Fleet past, 1d12h from " in render_text(made, ForecastStyle())


def test_only_the_time_that_is_replayed_is_looked_at() -> None:
    history = a_history({NIGHT: BUSY, **every_tick([QUIET] * 216)}, usual=None)
    assert "has no series for about 100 % of the time" in notes(replayed(*a_web(), history, timedelta(days=1)))


def test_hours_without_a_series_are_said() -> None:
    history = a_history({NIGHT: QUIET}, usual=None)
    made = replayed(*a_web(metric={"noSeries": "Zero"}), history, timedelta(days=3))
    assert of(made).missing == pytest.approx(1, abs=0.01)
    assert "of its idle hours without a series" in render_text(made, ForecastStyle())


def test_what_is_idle_in_the_snapshot_begins_awake() -> None:
    """What runs recorded since does not count in the past, and what people wrote does."""
    policies, opened = a_web()
    simulation = Simulation(policies, Opened({"a": Backend("a", opened.backends["a"].cluster, CountedCalls([]))}), STEP)
    simulation.run(datetime(2026, 11, 10, 22, tzinfo=UTC))
    asleep = Opened({"a": Backend("a", cluster=simulation.clusters["a"])})
    fresh, again = (
        replayed(policies, one, a_history({NIGHT: BUSY}), timedelta(days=3)).timelines for one in (opened, asleep)
    )
    assert [one.steps for one in again] == [one.steps for one in fresh]


def test_a_policy_without_a_query_does_not_know_whether_somebody_called() -> None:
    schedule = {"timeZone": "Europe/Paris", "downtime": ["20:00-07:00"]}
    policies, opened = a_web(idleWhen=[{"schedule": schedule}])
    made = replayed(policies, opened, a_history({NIGHT: BUSY}), timedelta(days=3))
    assert of(made).waiting is None
    assert "no query counts what arrives" in render_text(made, ForecastStyle())
