"""What growth.py makes of the numbers."""

from __future__ import annotations

import json

import pytest

from tests.bench.growth import Median, exponent, lines_of, main, medians_of


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        pytest.param((1.0, 10.0), 1, id="linear"),
        pytest.param((1.0, 100.0), 2, id="quadratic"),
        pytest.param((1.0, 1.0), 0, id="the size does not matter"),
        pytest.param((10.0, 1.0), -1, id="the more, the faster"),
    ],
)
def test_exponent(seconds, expected):
    smaller, larger = (Median("sort", size, time) for size, time in zip((10, 100), seconds, strict=True))
    assert exponent(smaller, larger) == pytest.approx(expected)


def a_benchmark(work, size, median, **extra):
    return {"extra_info": {"work": work, "size": size, **extra}, "stats": {"median": median}}


def test_the_table():
    document = {
        "benchmarks": [
            a_benchmark("sort", 1000, 2.5),
            a_benchmark("sort", 10, 0.025, beside="copy", budget=4),
            a_benchmark("start", None, 0.0000301, beside="pass", budget=4),
            a_benchmark("sort", 100, 0.25),
            a_benchmark("pass", None, 0.00001),
            {"extra_info": {}, "stats": {"median": 1}},
        ]
    }
    assert list(lines_of(medians_of(document))) == [
        "pass",
        f"{'10.0 µs':>24}",
        "",
        "sort",
        "          10    25.00 ms",
        "         100   250.00 ms   exponent  1.00",
        "       1,000      2.50 s   exponent  1.00",
        "",
        "start",
        f"{'30.1 µs':>24}",
        "",
        "start takes 3.01 times as long as pass (at most 4: kept)",
    ]


def test_an_exponent_says_when_its_limit_is_not_kept():
    medians = [Median("sort", size, time, growth=1.05) for size, time in ((10, 1.0), (100, 10.0), (1000, 1000.0))]
    _, _, kept, broken, *_ = lines_of(medians)
    assert kept.endswith("exponent  1.00 (at most 1.05: kept)")
    assert broken.endswith("exponent  2.00 (at most 1.05: NOT KEPT)")


@pytest.mark.parametrize(
    ("seconds", "growth", "code"),
    [
        pytest.param((1, 10, 100), 1.05, 0, id="linear"),
        pytest.param((1, 10, 1000), 1.05, 1, id="quadratic at the end"),
        pytest.param((1, 100, 1000), 1.05, 1, id="quadratic at the beginning"),
        pytest.param((1, 10, 1000), None, 0, id="quadratic without a limit"),
    ],
)
def test_defects_34_to_36_what_grows_too_fast_fails_the_benchmarks(tmp_path, capsys, seconds, growth, code):
    sizes = zip((10, 100, 1000), seconds, strict=True)
    found = [a_benchmark("sort", size, time, growth=growth) for size, time in sizes]
    (tmp_path / "benchmarks.json").write_text(json.dumps({"benchmarks": [a_benchmark("copy", 9, 99.0), *found]}))
    assert main(str(tmp_path / "benchmarks.json")) == code
    assert ("NOT KEPT" in capsys.readouterr().out) is bool(code)


def test_ratios_are_those_of_the_same_size_and_say_when_a_budget_is_not_kept():
    medians = [Median("copy", 10, 1.0), Median("copy", 100, 2.0), Median("sort", 100, 9.0, "copy", 3)]
    assert list(lines_of(medians))[-1] == "sort takes 4.50 times as long as copy (at most 3: NOT KEPT)"
