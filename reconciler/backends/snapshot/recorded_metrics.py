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

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.backends.decode.mismatches import FieldPath, json_path, json_words
from reconciler.backends.decode.wire import instant
from reconciler.backends.snapshot.folder import METRICS_FILES, read_beside
from reconciler.errors import Problem, SnapshotError
from reconciler.messages import nearest
from reconciler.model import QueryAnswer, Sample
from reconciler.yaml.documents import Document

NOT_RECORDED = "not recorded in the snapshot"

_RESULT = ("query", "at", "series", "warnings", "error")
_SERIES = ("labels", "value")
_SPECIAL = {"NaN": math.nan, "+Inf": math.inf, "Inf": math.inf, "-Inf": -math.inf}

_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_HUGE = 10**308

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

    @classmethod
    def of(cls, directory: str | Path, cluster: str) -> SnapshotMetrics:
        """Return what the folder `directory` of `cluster` and the snapshot above it recorded.

        Raises:
            SnapshotError: with all problems.
        """
        top, top_problems = read_metrics(Path(directory).parent, None)
        own, problems = read_metrics(Path(directory), cluster, Path(directory).parent)
        if problems or top_problems:
            raise SnapshotError.of(problems + top_problems)
        return cls(cluster, top | own)

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
    series = [{"labels": dict(one.labels), "value": _written(one.value)} for one in answer.samples]
    return {**value, "series": series}


def _written(number: float) -> float | str:
    if math.isnan(number):
        return "NaN"
    return number if math.isfinite(number) else "+Inf" if number > 0 else "-Inf"


def read_metrics(directory: Path, cluster: str | None, root: str | Path = "") -> tuple[RecordedAnswers, list[Problem]]:
    """Return what is recorded in `directory`, and all that is wrong; `cluster` None: at the top of the snapshot.

    Links may lead anywhere below `root`, by default the directory.
    """
    answers: RecordedAnswers = {}
    problems: list[Problem] = []
    for name in METRICS_FILES:
        read = read_beside(directory, name, root or directory)
        if isinstance(read, Document):
            check = _Check(read)
            answers |= check.answers(read.value, cluster)
            problems += check.problems
        else:
            problems += read or ()
    return answers, problems


class _Recorded(Struct, frozen=True):
    """One result before it is read: where it stands and whose it is."""

    path: FieldPath
    cluster: str
    value: Mapping[str, Any]


class _Check:
    """Reads a metrics file and keeps all that is wrong with it."""

    def __init__(self, document: Document) -> None:
        self.problems: list[Problem] = []
        self._document = document

    def answers(self, value: Any, cluster: str | None) -> RecordedAnswers:
        found: RecordedAnswers = {}
        for recorded in self._recorded(value, cluster):
            self._fields(recorded.value, (*_RESULT, *(() if cluster else ("cluster",))), recorded.path)
            key = (recorded.cluster, one_spaced(self._text(recorded.value, "query", recorded.path)))
            if key in found:
                self._add((*recorded.path, "query"), "is recorded twice, expected once")
            found[key] = self._answer(recorded)
        return found

    def _recorded(self, value: Any, cluster: str | None) -> Iterator[_Recorded]:
        top = self._mapping(value, ())
        self._fields(top, ("results",) if cluster else ("results", "clusters"), ())
        for path, one in self._entries(top.get("results"), ("results",)):
            yield _Recorded(path, cluster or self._text(one, "cluster", path), one)
        for name, results in self._mapping(top.get("clusters") or {}, ("clusters",)).items():
            for path, one in self._entries(results, ("clusters", name)):
                yield _Recorded(path, name, one)

    def _answer(self, recorded: _Recorded) -> QueryAnswer:
        value, path = recorded.value, recorded.path
        at = value.get("at")
        listed = self._list(value.get("warnings"), (*path, "warnings"))
        warnings = [self._is_text(one, (*path, "warnings", index)) for index, one in listed]
        error = self._is_text(value.get("error") or "", (*path, "error"))
        series = self._entries(value.get("series"), (*path, "series"))
        samples = tuple(self._sample(one, inside) for inside, one in series)
        return QueryAnswer(
            samples=() if error else samples,
            at=None if at is None else self._time(at, (*path, "at")),
            warnings=tuple(warnings),
            error=error,
        )

    def _sample(self, value: Mapping[str, Any], path: FieldPath) -> Sample:
        self._fields(value, _SERIES, path)
        labels = self._mapping(value.get("labels") or {}, (*path, "labels"))
        texts = {key: self._is_text(one, (*path, "labels", key)) for key, one in labels.items()}
        return Sample(texts, self._number(value.get("value"), (*path, "value")))

    def _number(self, value: Any, path: FieldPath) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            return (
                float(value) if abs(value) < _HUGE or isinstance(value, float) else math.inf if value > 0 else -math.inf
            )
        if isinstance(value, str) and (value in _SPECIAL or _NUMBER.fullmatch(value)):
            return _SPECIAL[value] if value in _SPECIAL else float(value)
        self._add(path, f'is {json_words(value)}, expected a number, "NaN", "+Inf" or "-Inf"')
        return math.nan

    def _time(self, value: Any, path: FieldPath) -> Any:
        try:
            return instant(value).as_datetime()
        except (ValueError, TypeError):
            self._add(path, f"is {json_words(value)}, expected a time as in RFC 3339")
            return None

    def _text(self, value: Mapping[str, Any], name: str, path: FieldPath) -> str:
        if name not in value:
            self._add((*path, name), "is missing, expected a text")
            return ""
        return self._is_text(value[name], (*path, name))

    def _is_text(self, value: Any, path: FieldPath) -> str:
        if isinstance(value, str):
            return value
        self._add(path, f"is {json_words(value)}, expected a text")
        return ""

    def _mapping(self, value: Any, path: FieldPath) -> Mapping[str, Any]:
        if isinstance(value, dict):
            return value
        self._add(path, f"is {json_words(value)}, expected a mapping")
        return {}

    def _list(self, value: Any, path: FieldPath) -> Iterable[tuple[int, Any]]:
        if value is None or isinstance(value, list):
            return enumerate(value or ())
        self._add(path, f"is {json_words(value)}, expected a list")
        return ()

    def _entries(self, value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
        """Yield the path of each mapping of a list, and the mapping."""
        for index, one in self._list(value, path):
            if isinstance(one, dict):
                yield (*path, index), one
            else:
                self._add((*path, index), f"is {json_words(one)}, expected a mapping")

    def _fields(self, value: Mapping[str, Any], known: tuple[str, ...], path: FieldPath) -> None:
        for name in value:
            if name not in known:
                hint = nearest(name, known) or f", expected one of {', '.join(known)}"
                self._add((*path, name), f"unknown field{hint}", key=True)

    def _add(self, path: FieldPath, words: str, *, key: bool = False) -> None:
        line, column = self._document.place(path, key=key)
        self.problems.append(Problem(self._document.file, line, column, json_path(path), words))
