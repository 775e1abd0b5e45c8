"""What was measured in the past: answers to queries over time, recorded beside the manifests of a cluster.

`query-history.jsonl` has a JSON value on each line. The first says for which times the others have values; a pair in
`values` is a number of times in a row and the value that all of them have, null where the series had none; `averages`
has in the same way what it was on average since the time before each, which says when in between it rose:

    {"start": "2026-10-21T00:00:00Z", "stepSeconds": 600, "count": 4320}
    {"query": "sum by (...)", "labels": {"namespace": "shop", "service": "web"},
     "values": [3, [130, 0], [2, null]], "averages": [1.2, 1.8, [129, 0], [2, null]]}
    {"query": "...", "error": "..."}                     # it failed
    {"query": "...", "labels": {}, "values": []}         # it had no series at all
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import msgspec

from reconciler.backends.snapshot.recorded_metrics import one_spaced
from reconciler.decide.annotations import FIRST_YEAR, LAST_YEAR
from reconciler.errors import Problem, SnapshotError
from reconciler.model import RangeAnswer, RangeSeries
from reconciler.yaml.files import read_bytes

if TYPE_CHECKING:
    from reconciler.backends.prometheus import PrometheusMetrics

HISTORY_FILE = "query-history.jsonl"
SCRAPES = "count(up)"
"""Whether anything was measured at a time: `up` is a series of Prometheus itself for each target."""
SCRAPES_IN_AN_HOUR = "avg(count_over_time(up[1h]))"

_DIGITS = 6
_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_Value = float | Literal["nan", "inf", "-inf", "NaN", "Inf", "+Inf", "-Inf"] | None


class QueryHistory(msgspec.Struct, frozen=True, dict=True):
    """The answers to rendered queries, with white space folded, at `count` times from `start` on, `step` apart.

    Values have six significant digits.
    """

    start: datetime
    step: timedelta
    count: int
    answers: Mapping[str, RangeAnswer]

    @property
    def end(self) -> datetime:
        """The end of the time after the last value."""
        return self.start + self.count * self.step

    def index(self, at: datetime) -> int:
        """Return which of its times is the last that is not after `at`."""
        return int((at - self.start) / self.step)

    @cached_property
    def gaps(self) -> frozenset[int]:
        """The times, by their place, at which nothing was measured at all: `up` has no value or, where it never has
        one, no query has.
        """
        known = [answer for answer in (self.answers[SCRAPES],) if answer.series] if SCRAPES in self.answers else []
        left: Collection[int] = range(self.count)
        for answer in known or self.answers.values():
            for series in answer.series:
                left = [place for place in left if series.values[place] is None]
                if not left:
                    return frozenset()
        return frozenset(left)

    @property
    def scrape_interval(self) -> timedelta:
        """How far apart targets are scraped, as nearly all hours say; nothing where that is not known."""
        from statistics import median

        answer = self.answers.get(SCRAPES_IN_AN_HOUR, RangeAnswer())
        found = [value for series in answer.series for value in series.values if value]
        return timedelta(hours=1) / round(median(found)) if found else timedelta()

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file, each with its line break."""
        head = {
            "start": f"{self.start.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
            "stepSeconds": int(self.step.total_seconds()),
            "count": self.count,
        }
        yield _line(head)
        for query, answer in sorted(self.answers.items()):
            if answer.error:
                yield _line({"query": query, "error": answer.error})
            elif not answer.series:
                yield _line({"query": query, "labels": {}, "values": []})
            for series in answer.series:
                averages = {"averages": list(_packed(series.averages))} if series.averages else {}
                values = list(_packed(series.values))
                yield _line({"query": query, "labels": dict(series.labels), "values": values, **averages})


def recorded_history(
    metrics: PrometheusMetrics, queries: Iterable[str], start: datetime, count: int, step: timedelta
) -> QueryHistory:
    """Ask `metrics` for each of the rendered `queries` at `count` times from `start` on, and for its averages."""
    texts = dict.fromkeys(map(one_spaced, queries))
    asked = dict.fromkeys([SCRAPES, SCRAPES_IN_AN_HOUR, *texts])
    answers = {text: _rounded(metrics.query_range(text, start, count, step)) for text in asked}
    for text in texts:
        if answers[text].series:
            averages = average_query(text, step)
            said = _rounded(metrics.query_range(averages, start, count, step))
            if said.error:
                answers[averages] = said
            else:
                answers[text] = _with_averages(answers[text], said)
    return QueryHistory(start, step, count, answers)


def average_query(text: str, step: timedelta) -> str:
    """Return the query for the average of `text` since a `step` ago, of values that are `average_step` apart."""
    return f"avg_over_time(({text})[{(step - _SECOND) // _SECOND}s:{average_step(step) // _SECOND}s])"


def average_step(step: timedelta) -> timedelta:
    """Return how far apart the values are that an average over a `step` is of: a minute at most, in whole seconds.

    A `step` that has no such part of 10 seconds or more is not divided.
    """
    parts = range(max(1, -(-step // _MINUTE)), step // (10 * _SECOND) + 1)
    return next((step // number for number in parts if not step % (number * _SECOND)), step)


def _with_averages(answer: RangeAnswer, averages: RangeAnswer) -> RangeAnswer:
    known = {frozenset(series.labels.items()): series.values for series in averages.series}
    found = ((one, known.get(frozenset(one.labels.items()), ())) for one in answer.series)
    return RangeAnswer(tuple(RangeSeries(one.labels, one.values, averages) for one, averages in found))


def _rounded(answer: RangeAnswer) -> RangeAnswer:
    return RangeAnswer(
        tuple(
            RangeSeries(one.labels, tuple(None if at is None else float(f"{at:.{_DIGITS}g}") for at in one.values))
            for one in answer.series
        ),
        answer.error,
    )


def _line(value: Mapping[str, object]) -> str:
    return msgspec.json.encode(value).decode() + "\n"


def _packed(values: Iterable[float | None]) -> Iterator[_Value | list[_Value]]:
    for value, run in groupby(values, key=_written):
        number = len(list(run))
        yield value if number == 1 else [number, value]


def _written(value: float | None) -> _Value:
    if value is None:
        return None
    if not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return int(value) if value == int(value) else value


class _Head(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    start: datetime
    step_seconds: int
    count: int


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    query: str
    labels: dict[str, str] = {}
    values: list[_Value | tuple[int, _Value]] = []
    averages: list[_Value | tuple[int, _Value]] = []
    error: str = ""


_SHAPES = ("start, stepSeconds and count", "query with labels and values, or with error")
_MOST_TIMES = 100_000
_YEAR = 366 * 86_400
_MOST_VALUES = 20_000_000  # in one file; pairs make much of little text


def read_history(directory: Path, root: Path) -> QueryHistory | None:
    """Return what is recorded in `directory`, None where there is no such file. A link may lead anywhere below `root`.

    Raises:
        SnapshotError: with the line that is malformed.
    """
    path = directory / HISTORY_FILE
    if not path.exists():
        return None
    read = read_bytes(str(path), str(root))
    if isinstance(read, Problem):
        raise SnapshotError.of([read])
    number, lines = 1, read.splitlines() or [b""]
    try:
        head = msgspec.json.decode(lines[0], type=_Head)
        years = head.count * head.step_seconds / _YEAR
        is_near = head.start.year > FIRST_YEAR and head.start.year + years < LAST_YEAR
        if not (head.start.tzinfo and is_near and 0 < head.count <= _MOST_TIMES and years > 0):
            raise ValueError("has no times, expected a start with a zone, stepSeconds and count")
        answers = _ReadAnswers(head.count)
        for number, text in enumerate(lines[1:], start=2):  # noqa: B007 - also where a line is malformed
            answers.add(msgspec.json.decode(text, type=_Line))
    except (msgspec.MsgspecError, UnicodeDecodeError, ValueError) as error:
        is_ours = type(error) is ValueError
        said = error if is_ours else f"is malformed ({error}), expected {_SHAPES[number > 1]}"
        words = f"{said}; record it anew with reconciler snapshot --with-history"
        raise SnapshotError.of([Problem(str(path), number, 1, "", words)]) from error
    step = timedelta(seconds=head.step_seconds)
    return QueryHistory(head.start.astimezone(UTC), step, head.count, answers.found)


class _ReadAnswers:
    """The answers of a file, line by line."""

    def __init__(self, count: int) -> None:
        self.found: dict[str, RangeAnswer] = {}
        self._count = count
        self._left = _MOST_VALUES

    def add(self, line: _Line) -> None:
        """Raises ValueError: it has not as many values as there are times, or the file has too many."""
        query = one_spaced(line.query)
        known = self.found.setdefault(query, RangeAnswer())
        if line.error:
            self.found[query] = RangeAnswer(error=line.error)
        elif line.values:
            self._left -= self._count * (2 if line.averages else 1)
            if self._left < 0:
                raise ValueError(f"holds more than {_MOST_VALUES} values, expected fewer queries or a shorter past")
            averages = _unpacked(line.averages, self._count) if line.averages else ()
            more = RangeSeries(line.labels, tuple(_unpacked(line.values, self._count)), tuple(averages))
            self.found[query] = RangeAnswer((*known.series, more))


def _unpacked(values: Iterable[_Value | tuple[int, _Value]], count: int) -> list[float | None]:
    found: list[float | None] = []
    for part in values:
        if not isinstance(part, tuple):
            found.append(float(part) if isinstance(part, str) else part)
            continue
        number, value = part
        if not 0 < number <= count - len(found):
            break
        found += [float(value) if isinstance(value, str) else value] * number
    else:
        if len(found) == count:
            return found
    raise ValueError(f"has no values for {count} times, expected as many as the first line says")
