"""What queries said in the past, written beside the manifests of a cluster and read back."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reconciler.errors import SnapshotError
from reconciler.forecast.query_history import (
    HISTORY_FILE,
    SCRAPES,
    SCRAPES_IN_AN_HOUR,
    QueryHistory,
    average_query,
    read_history,
    recorded_history,
)
from reconciler.model import RangeAnswer, RangeSeries

START = datetime(2026, 10, 21, tzinfo=UTC)
STEP = timedelta(minutes=10)


class Said:
    """A metrics source that says the same to every query."""

    def __init__(self, *series: RangeSeries) -> None:
        self.series = series
        self.asked: list[str] = []

    def query_range(self, text: str, start: datetime, count: int, step: timedelta) -> RangeAnswer:
        assert (start, step) == (START, STEP)
        self.asked.append(text)
        return RangeAnswer(error="no") if text == "bad" else RangeAnswer(self.series if text != "empty" else ())


def read(folder: Path, text: str) -> QueryHistory | None:
    (folder / HISTORY_FILE).write_text(text)
    return read_history(folder, folder)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_written_is_read_back(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    some = [None, 0.0, 1.0, 0.25, 12345.6789, 1e-9, -3.0, 1e300, math.inf, -math.inf]
    series = [
        RangeSeries({"namespace": "ns", "service": f"s-{n}"}, tuple(chance.choice(some) for _ in range(50)))
        for n in range(chance.randint(1, 4))
    ]
    made = recorded_history(Said(*series), ["q  1", "q 1", "bad", "empty"], START, 50, STEP)
    found = read(tmp_path, "".join(made.lines()))
    assert found is not None
    assert (found.start, found.step, found.count) == (START, STEP, 50)
    assert dict(found.answers) == dict(made.answers)
    assert set(found.answers) == {SCRAPES, SCRAPES_IN_AN_HOUR, "q 1", "bad", "empty"}
    assert found.gaps == made.gaps


def test_averages_are_asked_with_the_values_and_read_back_with_them(tmp_path: Path) -> None:
    class Averaged(Said):
        def query_range(self, text: str, start: datetime, count: int, step: timedelta) -> RangeAnswer:
            found = super().query_range(text, start, count, step)
            halves = tuple(RangeSeries(one.labels, (0.5, None)) for one in self.series[:1])
            return RangeAnswer(halves) if text == "avg_over_time((q)[599s:60s])" else found

    named = [RangeSeries({"service": name}, (1.0, 2.0)) for name in ("web", "api")]
    made = recorded_history(Averaged(*named), ["q"], START, 2, STEP)
    assert [one.averages for one in made.answers["q"].series] == [(0.5, None), ()]
    found = read(tmp_path, "".join(made.lines()))
    assert found is not None
    assert dict(found.answers) == dict(made.answers)


def test_averages_that_fail_leave_the_values_and_say_so() -> None:
    class Refusing(Said):
        def query_range(self, text: str, start: datetime, count: int, step: timedelta) -> RangeAnswer:
            return RangeAnswer(error="no subqueries") if "[" in text else super().query_range(text, start, count, step)

    series = RangeSeries({}, (1.0,))
    made = recorded_history(Refusing(series), ["q"], START, 1, STEP)
    assert made.answers["q"].series == (series,)
    assert made.answers["avg_over_time((q)[599s:60s])"].error == "no subqueries"


@pytest.mark.parametrize(("seconds", "apart"), [(600, 60), (60, 60), (90, 45), (62, 31), (61, 61), (5, 5)])
def test_averages_are_of_values_a_minute_apart_or_less(seconds: int, apart: int) -> None:
    text = average_query("q", timedelta(seconds=seconds))
    assert text == f"avg_over_time((q)[{seconds - 1}s:{apart}s])"


def test_not_a_number_stays_so(tmp_path: Path) -> None:
    made = recorded_history(Said(RangeSeries({}, (math.nan, None))), ["q"], START, 2, STEP)
    found = read(tmp_path, "".join(made.lines()))
    assert found is not None
    [first, last] = found.answers["q"].series[0].values
    assert first is not None
    assert math.isnan(first)
    assert last is None


def test_values_have_six_digits_and_nothing_becomes_zero(tmp_path: Path) -> None:
    made = recorded_history(Said(RangeSeries({}, (1.0000000001, 1e-30, 0.0))), ["q"], START, 3, STEP)
    assert made.answers["q"].series[0].values == (1.0, 1e-30, 0.0)


def test_gaps_are_where_up_has_no_value_or_where_nothing_has_one() -> None:
    values = RangeAnswer((RangeSeries({}, (None, 1.0, None)),))
    up = RangeAnswer((RangeSeries({}, (1.0, 1.0, None)),))
    assert QueryHistory(START, STEP, 3, {"q": values, SCRAPES: up}).gaps == {2}
    assert QueryHistory(START, STEP, 3, {"q": values, SCRAPES: RangeAnswer()}).gaps == {0, 2}


def test_without_the_file_there_is_no_history(tmp_path: Path) -> None:
    assert read_history(tmp_path, tmp_path) is None


HEAD = '{"start":"2026-10-21T00:00:00Z","stepSeconds":600,"count":3}\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "jsonl:1:1: ", id="empty"),
        pytest.param(
            "{}\n",
            "jsonl:1:1: is malformed (Object missing required field `start`), expected start, stepSeconds and count; ",
            id="no times",
        ),
        pytest.param(HEAD.replace("600", "0"), "jsonl:1:1: has no times", id="no step"),
        pytest.param(HEAD.replace("3}", "1000000000}"), "jsonl:1:1: has no times", id="too many times"),
        pytest.param(HEAD.replace("600", "1000000000000"), "jsonl:1:1: has no times", id="an end in no year"),
        pytest.param(HEAD.replace("2026", "0001"), "jsonl:1:1: has no times", id="a start before all time zones"),
        pytest.param(HEAD.replace("Z", ""), "jsonl:1:1: ", id="no zone"),
        pytest.param(HEAD + "nonsense\n", "jsonl:2:1: ", id="no JSON"),
        pytest.param(HEAD + '{"query":"q","values":[1]}\n', "has no values for 3 times", id="too few values"),
        pytest.param(HEAD + '{"query":"q","values":[[4,1]]}\n', "has no values for 3 times", id="too many values"),
        pytest.param(HEAD + '{"query":"q","values":[[1000000000000,1]]}\n', "for 3 times", id="a bomb"),
        pytest.param(HEAD + '{"query":"q","values":[1,"x",2]}\n', "jsonl:2:1: is malformed (", id="no number"),
        pytest.param(HEAD + '{"labels":{}}\n', "), expected query with labels and values", id="no query"),
        pytest.param(
            HEAD.replace("3}", "100000}") + '{"query":"q","values":[[100000,1]]}\n' * 201,
            "jsonl:202:1: holds more than 20000000 values",
            id="many bombs",
        ),
    ],
)
def test_a_malformed_file_is_an_error_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        read(tmp_path, text)
    assert words in str(caught.value.problems[0])
    assert "record it anew with reconciler snapshot --with-history" in str(caught.value.problems[0])
