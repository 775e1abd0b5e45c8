"""Answers to queries that a test gives, in place of those that were recorded."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.backends.protocols import MetricsSource
from reconciler.model import QueryAnswer, Sample
from reconciler.policy.kinds.fields import given
from reconciler.policy.kinds.policy_test import SampleFields, SeriesFields


class GivenAnswers:
    """What queries are answered; it may change between two runs."""

    def __init__(self, series: Iterable[SeriesFields]) -> None:
        self._samples: dict[tuple[str, str], tuple[Sample, ...]] = {}
        for one in series:
            key = (given(one.cluster) or "", one.query)
            self._samples[key] = (*self._samples.get(key, ()), _sample(one))

    def put(self, cluster: str, query: str, series: Iterable[SampleFields]) -> None:
        """Let the answer to `query` be `series` from now on; `cluster` "" is each."""
        self._samples[cluster, query] = tuple(map(_sample, series))

    def find(self, cluster: str, query: str) -> QueryAnswer | None:
        """Return the answer that was given, None where none was."""
        for key in ((cluster, query), ("", query)):
            if key in self._samples:
                return QueryAnswer(self._samples[key])
        return None


def _sample(fields: SampleFields) -> Sample:
    return Sample(dict(fields.labels), float(fields.value))


@dataclass(frozen=True)
class GivenMetrics:
    """The metrics source of one cluster: what is not given was recorded."""

    cluster: str
    answers: GivenAnswers
    recorded: MetricsSource

    def query(self, text: str) -> QueryAnswer:
        return self.answers.find(self.cluster, text) or self.recorded.query(text)
