"""A month of traffic in a real Prometheus: its replay, and the same month played run by run, each asking Prometheus."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from reconciler.backends.prometheus import PrometheusMetrics
from reconciler.backends.snapshot.query_history import recorded_history
from reconciler.connection_settings import PrometheusConnection
from reconciler.forecast.savings import savings_of
from reconciler.model import QueryAnswer
from tests.forecast.test_replay import FLEET, QUERY, SHAPES, START, STEP, a_policy, cron, of, opened_of, replayed
from tests.forecast.traffic import SCRAPE, calls
from tests.forecast.worlds import policy_set
from tests.real.prometheus import Prometheus, Series, every

pytestmark = pytest.mark.real


class AskedEachTime:
    """A metrics source that asks a Prometheus about the time `now`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.now = START

    def query(self, text: str) -> QueryAnswer:
        return PrometheusMetrics(PrometheusConnection(self.url), self.now).query(text)


@pytest.mark.parametrize(
    ("count", "days", "within"),
    [
        pytest.param(8, 3, 0.15, id="a few days"),
        pytest.param(200, 30, 0.01, id="a month of 200 Services", marks=pytest.mark.soak),
    ],
)
def test_a_replay_is_the_past_played_run_by_run(
    prometheus_server: Callable[[list[Series]], Prometheus], count: int, days: int, within: float
) -> None:
    end = START + timedelta(days=days)
    before = START - timedelta(hours=2)
    names = [(f"ns-{n % max(2, count // 10)}", f"app-{n}") for n in range(count)]
    made = [calls(*name, SHAPES[n % len(SHAPES)], before, end, "real") for n, name in enumerate(names)]
    scrapes = every(SCRAPE.total_seconds(), since=before.timestamp(), values=[1.0] * (int((end - before) / SCRAPE) + 1))
    up = Series("up", {"job": "proxy"}, scrapes)
    server = prometheus_server([up, *(one.series(before, end) for one in made)])
    spaces = sorted({space for space, _ in names})
    policies = policy_set([FLEET, *(a_policy(f"nights-{space}", space) for space in spaces)])

    metrics = PrometheusMetrics(PrometheusConnection(server.url), end, seconds=120)
    history = recorded_history(metrics, [QUERY], START, round((end - START) / STEP), STEP)
    assert history.answers[QUERY].error == ""
    assert history.scrape_interval == SCRAPE
    found = replayed(policies, opened_of(made), history, end - START)

    past = cron(policies, made, end, AskedEachTime(server.url))
    played = sum(past.hours(end).values())
    saved = savings_of(found.selected)
    assert saved.most.replicas == pytest.approx(played)
    number, seconds, wakes = past.waiting(end)
    replays = [of(found, f"nights-{space}") for space in spaces]
    waiting = [one.waiting for one in replays if one.waiting is not None]
    told = (sum(one.wakes for one in replays), sum(one.requests for one in waiting))
    total = sum(one.total.total_seconds() for one in waiting)
    print(f"replica-hours {saved.most.replicas:.1f} and {played:.1f}; wakes {told[0]} and {wakes}")
    print(f"waited {told[1]:.0f} and {number}; seconds {total:.0f} and {seconds:.0f}")
    assert told[0] == pytest.approx(wakes, rel=within)
    assert told[1] == pytest.approx(number, rel=within)
    assert total == pytest.approx(seconds, rel=within)
