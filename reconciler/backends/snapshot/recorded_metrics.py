"""Recorded answers to queries, in place of Prometheus.

`metrics.yaml` (or .yml, .json) stands in a cluster's folder, or at the top of the snapshot; what the folder says counts
first. Fields that are not known are refused.

    results:
      - query: 'sum by (namespace, service) (...)'    # as rendered; compared after folding white space
        at: 2026-11-20T15:40:00Z                      # when it was recorded; absent: as of now
        series: [{labels: {namespace: dev-a, service: api}, value: 0}]   # a number, "NaN", "+Inf" or "-Inf"
        warnings: []                                  # makes the answer partial
        error: ""                                     # the query failed to load

At the top each result has a field `cluster`, or `clusters` takes the place of `results` and maps a cluster to its own.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from reconciler.backends.decode.mismatches import FieldPath, problem_at
from reconciler.backends.decode.values import Instant, Number, Wire, datetime_of
from reconciler.backends.snapshot.files import METRICS_FILES, read_side_file
from reconciler.errors import Problem
from reconciler.model import QueryAnswer, Sample

NOT_RECORDED = "not recorded in the snapshot"

RecordedAnswers = dict[tuple[str, str], QueryAnswer]
"""(cluster, folded query) -> answer."""


class SnapshotMetrics:
    """`MetricsSource` over the recorded answers of one cluster."""

    def __init__(
        self, cluster: str, answers: Mapping[tuple[str, str], QueryAnswer], now: datetime | None = None
    ) -> None:
        """`now` is the run's: an answer recorded for just that time is as of now."""
        self._cluster = cluster
        self._answers = answers
        self._now = now

    def query(self, text: str) -> QueryAnswer:
        """Return the recorded answer to `text`; one that was not recorded is an error."""
        found = self._answers.get((self._cluster, one_spaced(text)), QueryAnswer(error=NOT_RECORDED))
        return replace(found, at=None) if found.at is not None and found.at == self._now else found


def one_spaced(query: str) -> str:
    """Return `query` with every run of white space as one blank."""
    return " ".join(query.split())


def result_value(query: str, answer: QueryAnswer, now: str) -> dict[str, Any]:
    """Return one entry of `results`; `now` is the time of an answer that is as of now."""
    value: dict[str, Any] = {"query": query}
    if answer.error:
        return {**value, "error": answer.error}
    value["at"] = now
    if answer.warnings:
        value["warnings"] = list(answer.warnings)
    series = [{"labels": dict(sample.labels), "value": _written(sample.value)} for sample in answer.samples]
    return {**value, "series": series}


def _written(number: float) -> float | str:
    if math.isnan(number):
        return "NaN"
    return number if math.isfinite(number) else "+Inf" if number > 0 else "-Inf"


class _Series(Wire, forbid_unknown_fields=True):
    value: Number
    labels: dict[str, str] | None = None


class _RecordedResult(Wire, forbid_unknown_fields=True):
    query: str
    at: Instant | None = None
    series: list[_Series] | None = None
    warnings: list[str] | None = None
    error: str | None = None

    @property
    def answer(self) -> QueryAnswer:
        samples = tuple(Sample(series.labels or {}, float(series.value)) for series in self.series or ())
        return QueryAnswer(
            samples=() if self.error else samples,
            at=datetime_of(self.at),
            warnings=tuple(self.warnings or ()),
            error=self.error or "",
        )


class _NamedResult(_RecordedResult, forbid_unknown_fields=True, kw_only=True):
    cluster: str


class _OfCluster(Wire, forbid_unknown_fields=True):
    results: list[_RecordedResult] | None = None


class _OfAll(Wire, forbid_unknown_fields=True):
    results: list[_NamedResult] | None = None
    clusters: dict[str, list[_RecordedResult] | None] | None = None


def read_metrics(directory: str, cluster: str | None, root: str = "") -> tuple[RecordedAnswers, list[Problem]]:
    """Return what is recorded in `directory`, and all that is wrong; `cluster` None: at the top of the snapshot.

    Links may lead anywhere below `root`, by default the directory.
    """
    answers: RecordedAnswers = {}
    problems: list[Problem] = []
    for name in METRICS_FILES:
        shape: type[_OfCluster | _OfAll] = _OfCluster if cluster else _OfAll
        read = read_side_file(directory, name, root, shape)
        if isinstance(read, list):
            problems += read
            continue
        value, document = read
        of_file: RecordedAnswers = {}
        for path, whose, result in _results(value, cluster):
            key = (whose, one_spaced(result.query))
            if key in of_file:
                problems.append(problem_at(document, (*path, "query"), "is recorded twice, expected once"))
            of_file[key] = result.answer
        answers |= of_file
    return answers, problems


def _results(value: _OfCluster | _OfAll, cluster: str | None) -> Iterator[tuple[FieldPath, str, _RecordedResult]]:
    """Yield where each result stands, whose it is, and the result."""
    for index, result in enumerate(value.results or ()):
        yield ("results", index), result.cluster if isinstance(result, _NamedResult) else cluster or "", result
    for name, results in (value.clusters or {}).items() if isinstance(value, _OfAll) else ():
        for index, result in enumerate(results or ()):
            yield ("clusters", name, index), name, result
