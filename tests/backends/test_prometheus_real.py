"""The metrics source against a real Prometheus over made data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.backends.prometheus import PrometheusMetrics
from reconciler.connection_settings import PrometheusConnection
from reconciler.policy.kinds.fields import render_query
from reconciler.policy.load import read_policies
from tests.real.prometheus import Prometheus, Series, every

AT = datetime(2026, 11, 20, 15, 40, tzinfo=UTC)
START = (AT - timedelta(hours=1)).timestamp()
REQUESTS = "nginx_ingress_controller_requests"
QUIET = {"namespace": "dev-a", "service": "api"}
BUSY = {"namespace": "dev-b", "service": "reports"}
HOUR = 61

Start = Callable[..., Prometheus]


@pytest.fixture
def server(prometheus_server: Start) -> Prometheus:
    return prometheus_server(
        [
            Series(REQUESTS, QUIET, every(60, since=START, values=[7.0] * HOUR)),
            Series(REQUESTS, BUSY, every(60, since=START, values=[float(10 * n) for n in range(HOUR)])),
        ]
    )


def asked(server: Prometheus, text: str, at: datetime = AT) -> dict[tuple[str, ...], float]:
    answer = PrometheusMetrics(PrometheusConnection(server.url), at).query(text)
    assert (answer.error, answer.warnings, answer.at) == ("", (), None)
    return {tuple(sample.labels.values()): sample.value for sample in answer.samples}


def test_answers(server):
    increase = f"sum by (namespace, service) (increase({REQUESTS}[30m]))"
    found = asked(server, increase)
    assert found["dev-a", "api"] == 0
    assert found["dev-b", "reports"] == pytest.approx(300)
    assert asked(server, increase, AT - timedelta(days=1)) == {}
    assert asked(server, "1 + 1") == {(): 2.0}
    assert asked(server, "vector(1) / 0") == {(): math.inf}
    assert math.isnan(asked(server, "vector(0) / 0")[()])
    assert asked(server, "time()") == {(): AT.timestamp()}


@pytest.mark.parametrize(
    ("query", "words"),
    [
        pytest.param("sum(", "status 400 (bad_data: ", id="no PromQL"),
        pytest.param(f"{REQUESTS}[5m]", "the result is a matrix, expected a vector or a scalar", id="a matrix"),
        pytest.param('"text"', "the result is a string, expected a vector or a scalar", id="a string"),
        pytest.param(
            f"{REQUESTS} * on () group_left {REQUESTS}", "status 422 (execution: ", id="one that cannot be evaluated"
        ),
    ],
)
def test_refusals_in_its_own_words(server, query, words):
    answer = PrometheusMetrics(PrometheusConnection(server.url), AT).query(query)
    assert answer.error.startswith(f"{server.url}: {words}")
    assert answer.samples == ()


def test_what_it_warns_of_makes_an_answer_partial_and_a_hint_about_a_name_does_not(server):
    source = PrometheusMetrics(PrometheusConnection(server.url), AT)
    assert source.query(f"quantile(2, {REQUESTS})").warnings != ()
    hinted = source.query(f"rate({REQUESTS}[5m])")
    assert (len(hinted.samples), hinted.warnings) == (2, ())


def queries(folder: Path) -> Iterator[str]:
    """Yield every query of the policies below `folder`, as it goes to the metrics source of each cluster."""
    policies = read_policies(str(folder))
    for cluster in policies.fleet.clusters:
        yield from map(render_query, policies.query_keys(cluster.name))


def test_every_query_of_our_policies_and_examples_is_one(server, repository):
    folders = [repository / "policies", *sorted((repository / "examples").glob("*/policies"))]
    found = {query for folder in folders for query in queries(folder)}
    assert len(found) >= 3
    source = PrometheusMetrics(PrometheusConnection(server.url), AT)
    assert {query: source.query(query).error for query in found} == dict.fromkeys(found, "")
