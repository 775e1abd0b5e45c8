"""Which values of a metrics answer count, and why the others are unknown."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reconciler.decide.query_answers import series_of, value_for, why_unusable
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.model import QueryAnswer, Sample
from tests.builders import NOW


def a_sample(value: float, **labels: str) -> Sample:
    return Sample({"namespace": "shop", "service": "web"} | labels, value)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param(QueryAnswer(), "None", id="read now"),
        pytest.param(None, "not evaluated", id="not asked"),
        pytest.param(QueryAnswer(error="refused"), "failed to load: refused", id="failed"),
        pytest.param(QueryAnswer(warnings=("one store is away", "b")), "partial: one store is away", id="partial"),
        pytest.param(QueryAnswer(at=NOW - timedelta(minutes=5)), "None", id="recorded five minutes ago"),
        pytest.param(
            QueryAnswer(at=NOW - timedelta(minutes=5, seconds=1)),
            "recorded at 2026-11-20T15:36:22Z, more than 5 minutes ago",
            id="and longer",
        ),
        pytest.param(QueryAnswer(at=NOW + timedelta(hours=1)), "None", id="by a clock that is ahead"),
    ],
)
def test_an_answer_that_cannot_be_used(answer, expected):
    assert str(why_unusable(answer, NOW)) == expected
    series = series_of(answer, NOW)
    assert (str(series.problem), dict(series.values)) == (expected, {})


TWICE = reason(ReasonCode.SEVERAL_SERIES, count=2)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        pytest.param((a_sample(0),), 0.0, id="zero is a value"),
        pytest.param((a_sample(2.5), a_sample(9, service="api"), a_sample(8, namespace="bank")), 2.5, id="its own"),
        pytest.param((), None, id="no series"),
        pytest.param((a_sample(9, service="api"),), None, id="only of another Service"),
        pytest.param((a_sample(1), a_sample(1, pod="web-1")), TWICE, id="several series"),
        pytest.param((a_sample(float("nan")),), reason(ReasonCode.NOT_FINITE, value="nan"), id="not a number"),
        pytest.param((a_sample(float("-inf")),), reason(ReasonCode.NOT_FINITE, value="-inf"), id="infinite"),
    ],
)
def test_the_value_for_a_service(samples, expected):
    assert value_for(series_of(QueryAnswer(samples), NOW), "shop", "web") == expected


def test_a_series_without_labels_is_of_no_service():
    series = series_of(QueryAnswer((Sample({}, 3),)), NOW)
    assert dict(series.values) == {("", ""): (3.0,)}
    assert value_for(series, "shop", "web") is None


def test_what_has_no_service_has_no_value():
    assert value_for(series_of(QueryAnswer((a_sample(1),)), NOW), "shop", None) == reason(ReasonCode.NO_SERVICE)
    assert value_for(series_of(None, NOW), "shop", "web") == reason(ReasonCode.QUERY_NOT_EVALUATED)
