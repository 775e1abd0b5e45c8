"""Prints what benchmarks.json says: medians by size, how they grow, and ratios beside their budgets.

The exponent is that of size in time: 1 is linear, 2 quadratic, 0 does not depend on the size.
`growth.py FILE PAGE` writes them as a table into PAGE too, between the two comments that say so.
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

BEGIN, END = "<!-- written by make bench -->", "<!-- end of what make bench wrote -->"


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
    by_work = _by_work(medians)
    for work, sizes in by_work.items():
        yield work
        yield from _block(sizes)
        yield ""
    yield from _ratios(by_work)


def _by_work(medians: Iterable[Median]) -> dict[str, list[Median]]:
    """Return them by their work, each in the order of its sizes."""
    by_work: dict[str, list[Median]] = {}
    for median in medians:
        by_work.setdefault(median.work, []).append(median)
    return by_work


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
        other = _beside(median, by_work)
        if other is None:
            continue
        ratio = median.seconds / other.seconds
        verdict = "" if median.budget is None else f" (at most {median.budget:g}: {_held(ratio, median.budget)})"
        yield f"{median.work} takes {ratio:.2f} times as long as {median.beside}{verdict}"


def _beside(median: Median, by_work: Mapping[str, list[Median]]) -> Median | None:
    """Return what `median` is measured beside, of the same size; None if there is nothing."""
    return next((one for one in by_work.get(median.beside, ()) if one.size == median.size), None)


def _held(ratio: float, budget: float) -> str:
    return "kept" if ratio <= budget else "NOT KEPT"


def table_of(medians: Iterable[Median]) -> Iterator[str]:
    """Yield the rows of a Markdown table: of each work its largest size, how it grew to that, and what is beside it."""
    by_work = _by_work(medians)
    yield "| work | size | time | exponent | beside |"
    yield "|---|---|---|---|---|"
    for work, sizes in by_work.items():
        largest = sizes[-1]
        size = "" if largest.size is None else f"{largest.size:,}"
        power = f"{exponent(sizes[-2], largest):.2f}" if len(sizes) > 1 else ""
        other = _beside(largest, by_work)
        ratio = "" if other is None else f"{largest.seconds / other.seconds:.2f} times {largest.beside}"
        words = "; ".join(filter(None, (ratio, largest.figures)))
        yield f"| {work} | {size} | {_time(largest.seconds)} | {power} | {words} |"


def written(page: str, rows: Iterable[str]) -> str:
    """Return the page with these rows between its two comments.

    Raises ValueError if it has none.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"expected {BEGIN} and {END}")
    return "".join((before, begin, "\n\n", "\n".join(rows), "\n\n", end, after))


def grow_too_fast(medians: Iterable[Median]) -> list[str]:
    """Return the works whose time grows faster with their size than it may. Budgets depend on the machine."""
    pairs = pairwise(medians)
    return [two.work for one, two in pairs if one.work == two.work and two.growth and exponent(one, two) > two.growth]


def main(file: Path, page: Path | None = None) -> int:
    medians = medians_of(json.loads(file.read_text(encoding="utf-8")))
    print("\n".join(lines_of(medians)))
    if page is not None:
        page.write_text(written(page.read_text(encoding="utf-8"), table_of(medians)), encoding="utf-8")
    return int(bool(grow_too_fast(medians)))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
