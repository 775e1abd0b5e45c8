"""Prints what benchmarks.json says: medians by size, how they grow, and ratios beside their budgets.

The exponent is that of size in time: 1 is linear, 2 quadratic, 0 does not depend on the size.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Median:
    """One benchmark: the median of its rounds in seconds."""

    work: str
    size: int | None
    seconds: float
    beside: str = ""
    budget: float | None = None
    figures: str = ""
    growth: float | None = None


def medians_of(document: Mapping[str, Any]) -> list[Median]:
    """Return the benchmarks in the JSON of pytest-benchmark that say what they measure, by work and size."""
    found = [
        Median(
            work=benchmark["extra_info"]["work"],
            size=benchmark["extra_info"]["size"],
            seconds=benchmark["stats"]["median"],
            beside=benchmark["extra_info"].get("beside", ""),
            budget=benchmark["extra_info"].get("budget"),
            figures=benchmark["extra_info"].get("figures", ""),
            growth=benchmark["extra_info"].get("growth"),
        )
        for benchmark in document["benchmarks"]
        if "work" in benchmark.get("extra_info", {})
    ]
    return sorted(found, key=lambda median: (median.work, median.size or 0))


def exponent(smaller: Median, larger: Median) -> float:
    """Return by which power of the size the time grows between the two."""
    return math.log(larger.seconds / smaller.seconds) / math.log((larger.size or 1) / (smaller.size or 1))


def lines_of(medians: Iterable[Median]) -> Iterator[str]:
    """Yield the table: a block for each work, then the ratios."""
    by_work: dict[str, list[Median]] = {}
    for median in medians:
        by_work.setdefault(median.work, []).append(median)
    for work, sizes in by_work.items():
        yield work
        yield from _block(sizes)
        yield ""
    yield from _ratios(by_work)


def _block(sizes: list[Median]) -> Iterator[str]:
    yield f"{_line(sizes[0])}{_figures(sizes[0])}"
    for smaller, larger in pairwise(sizes):
        power = exponent(smaller, larger)
        limit = "" if larger.growth is None else f" (at most {larger.growth:g}: {_held(power, larger.growth)})"
        yield f"{_line(larger)}   exponent {power:5.2f}{limit}{_figures(larger)}"


def _figures(median: Median) -> str:
    return f"   {median.figures}" if median.figures else ""


def _line(median: Median) -> str:
    size = "" if median.size is None else f"{median.size:,}"
    return f"  {size:>10}  {_time(median.seconds):>10}"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def _ratios(by_work: Mapping[str, list[Median]]) -> Iterator[str]:
    for sizes in by_work.values():
        median = sizes[-1]
        other = next((one for one in by_work.get(median.beside, ()) if one.size == median.size), None)
        if other is None:
            continue
        ratio = median.seconds / other.seconds
        verdict = "" if median.budget is None else f" (at most {median.budget:g}: {_held(ratio, median.budget)})"
        yield f"{median.work} takes {ratio:.2f} times as long as {median.beside}{verdict}"


def _held(ratio: float, budget: float) -> str:
    return "kept" if ratio <= budget else "NOT KEPT"


def grow_too_fast(medians: Iterable[Median]) -> list[str]:
    """Return the works whose time grows faster with their size than it may. Budgets depend on the machine."""
    pairs = pairwise(medians)
    return [two.work for one, two in pairs if one.work == two.work and two.growth and exponent(one, two) > two.growth]


def main(file: str) -> int:
    medians = medians_of(json.loads(Path(file).read_text(encoding="utf-8")))
    print("\n".join(lines_of(medians)))
    return int(bool(grow_too_fast(medians)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
