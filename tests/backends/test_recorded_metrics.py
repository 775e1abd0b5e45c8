"""Recorded answers to queries."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest

from reconciler.backends.protocols import MetricsSource
from reconciler.backends.snapshot.cluster import open_snapshot
from reconciler.backends.snapshot.recorded_metrics import NOT_RECORDED
from reconciler.errors import SnapshotError
from reconciler.model import QueryAnswer, Sample
from tests.backends.folders import a_folder
from tests.decide.downscale.world import controllers_order

QUERY = "sum by (namespace, service) (increase(requests[30m]))"


def metrics_of(directory: Path, own: str = "", top: str = "", name: str = "metrics.yaml") -> MetricsSource:
    """The metrics of cluster east, recorded in its folder and at the top of the snapshot."""
    files: dict[str, str | bytes] = {"east/.keep": ""}
    files |= {f"east/{name}": own} if own else {}
    files |= {"metrics.yaml": top} if top else {}
    return opened_metrics(a_folder(directory, files))


def opened_metrics(directory: Path) -> MetricsSource:
    found = open_snapshot(directory, ["east"], controllers_order).backends["east"].metrics
    assert found is not None
    return found


def test_a_recorded_answer(tmp_path):
    metrics = metrics_of(
        tmp_path,
        """
        results:
          - query: >
              sum by (namespace, service)
                (increase(requests[30m]))
            at: 2026-11-20T15:40:00Z
            series:
              - {labels: {namespace: dev-a, service: api}, value: 0}
              - {labels: {namespace: dev-a, service: web}, value: "1.5e3"}
            warnings: [a series is missing]
        """,
    )
    assert metrics.query(f"  {QUERY}\n") == QueryAnswer(
        samples=(
            Sample({"namespace": "dev-a", "service": "api"}, 0),
            Sample({"namespace": "dev-a", "service": "web"}, 1500),
        ),
        at=datetime(2026, 11, 20, 15, 40, tzinfo=UTC),
        warnings=("a series is missing",),
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3", 3.0),
        ("-0.5", -0.5),
        ('"7"', 7.0),
        ('"+Inf"', math.inf),
        ('"Inf"', math.inf),
        ('"-Inf"', -math.inf),
    ],
)
def test_values(tmp_path, value, expected):
    (sample,) = metrics_of(tmp_path, f"results: [{{query: q, series: [{{value: {value}}}]}}]").query("q").samples
    assert (sample.value, sample.labels) == (expected, {})


def test_not_a_number(tmp_path):
    (sample,) = metrics_of(tmp_path, 'results: [{query: q, series: [{value: "NaN"}]}]').query("q").samples
    assert math.isnan(sample.value)


def test_a_query_that_failed_has_no_samples(tmp_path):
    metrics = metrics_of(tmp_path, "results: [{query: q, error: timed out, series: [{value: 1}]}]")
    assert metrics.query("q") == QueryAnswer(error="timed out")


@pytest.mark.parametrize("own", ["", "results: []", "results: [{query: other}]"])
def test_a_query_that_was_not_recorded(tmp_path, own):
    assert metrics_of(tmp_path, own).query("q") == QueryAnswer(error=NOT_RECORDED)


@pytest.mark.parametrize(
    "top",
    [
        "clusters: {east: [{query: q, series: [{value: 1}]}], west: [{query: q, series: [{value: 2}]}]}",
        "results: [{cluster: east, query: q, series: [{value: 1}]}, {cluster: west, query: q, series: [{value: 2}]}]",
    ],
)
def test_recorded_at_the_top_for_all_clusters(tmp_path, top):
    assert metrics_of(tmp_path, top=top).query("q").samples[0].value == 1
    assert metrics_of(tmp_path, own="results: [{query: q, series: [{value: 9}]}]").query("q").samples[0].value == 9


def test_recorded_in_json(tmp_path):
    metrics = metrics_of(tmp_path, '{"results": [{"query": "q", "series": [{"value": 1}]}]}', name="metrics.json")
    assert metrics.query("q").samples[0].value == 1


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        pytest.param(
            "results:\n- qeury: q\n",
            [
                '2:3: results[0].qeury: unknown field, did you mean "query"?',
                "2:3: results[0].query: is missing, expected a text",
            ],
            id="a misspelt field",
        ),
        pytest.param("apiVersion: v1\n", ["1:1: apiVersion: unknown field, expected one of results"], id="a manifest"),
        pytest.param(
            "results: [{query: q, series: [{value: many}]}]",
            ['1:39: results[0].series[0].value: is "many", expected a number, "NaN", "+Inf" or "-Inf"'],
            id="no number",
        ),
        pytest.param(
            "results: [{query: q, at: noon}]",
            ['1:26: results[0].at: is "noon", expected a time as in RFC 3339'],
            id="no time",
        ),
        pytest.param(
            "results: [{query: q}, {query: ' q '}]",
            ["1:31: results[1].query: is recorded twice, expected once"],
            id="twice",
        ),
        pytest.param(
            "results: [{query: q, cluster: west}]",
            ["1:22: results[0].cluster: unknown field, expected one of query, at, series, warnings, error"],
            id="a cluster inside a cluster",
        ),
        pytest.param("results: {query: q}", ["1:10: results: is a mapping, expected a list"], id="no list"),
        pytest.param("results: []\n---\nresults: []\n", ["1:1: holds 2 documents, expected one"], id="two documents"),
    ],
)
def test_what_is_wrong(tmp_path, own, expected):
    with pytest.raises(SnapshotError) as raised:
        metrics_of(tmp_path, dedent(own))
    assert str(raised.value).splitlines() == [f"{tmp_path}/east/metrics.yaml:{line}" for line in expected]


def test_what_is_wrong_at_the_top(tmp_path):
    with pytest.raises(SnapshotError, match=r"metrics\.yaml:1:11: results\[0\]\.cluster: is missing, expected a text"):
        metrics_of(tmp_path, top="results: [{query: q}]")
