"""Which values of a metrics answer count, and why the others are unknown."""

from __future__ import annotations

import pytest

from reconciler.decide.query_answers import series_of, value_for
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.model import QueryAnswer, Sample
from tests.builders import NOW


def a_sample(value: float, **labels: str) -> Sample:
    return Sample({"namespace": "shop", "service": "web"} | labels, value)


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
