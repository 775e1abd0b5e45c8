"""Answers of a metrics source as values, and why an answer cannot be used."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from reconciler.decide.reasons import Reason, ReasonCode, reason
from reconciler.model import NOTHING, QueryAnswer, QueryKey
from reconciler.policy.kinds.fields import render_query
from reconciler.policy.types import IdlingPolicy
from reconciler.untrusted_text import MOST_REPLICAS

_STALE_AFTER = timedelta(minutes=5)
"""A recorded value that is older is unknown."""


def _why_unusable(answer: QueryAnswer | None, now: datetime) -> Reason | None:
    """Return why nothing in `answer` counts, None where its samples do."""
    if answer is None:
        return reason(ReasonCode.QUERY_NOT_EVALUATED)
    if answer.error:
        return reason(ReasonCode.QUERY_FAILED, error=answer.error)
    if answer.warnings:
        return reason(ReasonCode.QUERY_PARTIAL, warning=answer.warnings[0])
    if answer.at is not None and now - answer.at > _STALE_AFTER:
        return reason(ReasonCode.QUERY_STALE, at=answer.at)
    return None


# The samples of one answer, by Service.


Series = Mapping[tuple[str, str], tuple[float, ...]] | Reason
"""The values of one answer by (namespace, service), or why nothing in it can be used."""


def value_for(series: Series, namespace: str, service: str | None) -> float | Reason | None:
    """Return the one finite value for the Service, None where there is no series, else why it is unknown."""
    if service is None:
        return reason(ReasonCode.NO_SERVICE)
    if isinstance(series, Reason):
        return series
    found = series.get((namespace, service), ())
    if len(found) > 1:
        return reason(ReasonCode.SEVERAL_SERIES, count=len(found))
    if found and not math.isfinite(found[0]):
        return reason(ReasonCode.NOT_FINITE, value=str(found[0]))
    return found[0] if found else None


def coverage_gap(covered: float | Reason | None, least: float) -> Reason | None:
    """Return why the coverage is not enough, None where it is."""
    if isinstance(covered, float) and covered >= least:
        return None
    found = "no series" if covered is None else covered if isinstance(covered, float) else str(covered)
    return reason(ReasonCode.LOW_COVERAGE, coverage=found, atLeast=float(least))


class Answers(Struct, frozen=True):
    """The answers to one policy on one cluster, at `now`. `selects`: whether it selects a Service, by namespace and
    name.
    """

    cluster: str
    policy: str
    said: Mapping[QueryKey, QueryAnswer]
    now: datetime
    selects: Callable[[str, str], bool] = lambda _namespace, _service: True

    def problems(self, policy: IdlingPolicy) -> Iterator[tuple[str, Reason]]:
        """Yield each whole query of `policy` that cannot be used, and why.

        One that failed is among what is unknown in the plan, and is not reported a second time.
        """
        for template, window in dict.fromkeys(policy.queries):
            answer = self._answer(template, window)
            problem = _why_unusable(answer, self.now)
            if problem is not None and not (answer and answer.error):
                yield render_query(QueryKey(self.cluster, self.policy, template, window)), problem

    def series(self, template: str, window: str) -> Series:
        answer = self._answer(template, window)
        return _why_unusable(answer, self.now) or (NOTHING if answer is None else answer.by_service)

    def without_series(self, series: Series, no_series: str) -> float | Reason:
        """Return the value of a Service that `series` does not name, by the field `noSeries`, or why it is unknown.

        Where there are series, and none of them names a selected Service, their labels are not what we look for
        (`exported_namespace`), and the traffic of every Service would be taken for zero.
        """
        if no_series != "Zero":
            return reason(ReasonCode.NO_SERIES)
        # An empty answer is zero traffic; series of other names only are a query with the wrong labels.
        if isinstance(series, Reason) or not series or any(self.selects(*named) for named in series):
            return 0.0
        return reason(ReasonCode.OTHER_LABELS)

    def _answer(self, template: str, window: str) -> QueryAnswer | None:
        return self.said.get(QueryKey(self.cluster, self.policy, template, window))


# The one number of an answer.


def value_in_answer(answer: QueryAnswer | None, now: datetime) -> float | Reason:
    """Return the one number of replicas in `answer`, or why there is none: a negative value is none either."""
    why = _why_unusable(answer, now)
    if why is not None:
        return why
    samples = () if answer is None else answer.samples
    if len(samples) != 1:
        return reason(ReasonCode.NOT_ONE_SERIES, count=len(samples))
    value = samples[0].value
    if not 0 <= value <= MOST_REPLICAS:  # nor does NaN
        return reason(ReasonCode.NO_NUMBER_OF_REPLICAS, value=f"{value:g}")
    return value
