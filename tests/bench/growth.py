"""What benchmarks.json says, as a table: of each work how long it takes, how that grows, and what is beside it.

The exponent is that of size in time: 1 is linear, 2 quadratic, 0 does not depend on the size.
`growth.py FILE PAGE` prints the table and what is beyond its bounds, and writes the table into PAGE, between the two
comments that say so.
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
    told = (one for one in document["benchmarks"] if "work" in one.get("extra_info", {}))
    found = [Median(seconds=one["stats"]["median"], **one["extra_info"]) for one in told]
    return sorted(found, key=lambda median: (median.work, median.size or 0))


def exponent(smaller: Median, larger: Median) -> float:
    """Return by which power of the size the time grows between the two."""
    return math.log(larger.seconds / smaller.seconds) / math.log((larger.size or 1) / (smaller.size or 1))


def _by_work(medians: Iterable[Median]) -> dict[str, list[Median]]:
    """Return them by their work, each in the order of its sizes."""
    by_work: dict[str, list[Median]] = {}
    for median in medians:
        by_work.setdefault(median.work, []).append(median)
    return by_work


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} µs"


def _beside(median: Median, by_work: Mapping[str, list[Median]]) -> Median | None:
    """Return what `median` is measured beside, of the same size; None if there is nothing."""
    return next((one for one in by_work.get(median.beside, ()) if one.size == median.size), None)


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
    """Return the works whose time grows faster with their size than it may."""
    pairs = pairwise(medians)
    return [two.work for one, two in pairs if one.work == two.work and two.growth and exponent(one, two) > two.growth]


def over_budget(medians: Iterable[Median]) -> Iterator[str]:
    """Yield the works that take longer than they may beside another one, each by its largest size."""
    by_work = _by_work(medians)
    for work, sizes in by_work.items():
        largest, other = sizes[-1], _beside(sizes[-1], by_work)
        if other is not None and largest.budget is not None and largest.seconds > largest.budget * other.seconds:
            yield f"{work}: more than {largest.budget:g} times {largest.beside}"


def main(file: Path, page: Path) -> int:
    """Write the table; 1 where something grows too fast, as budgets depend on the machine."""
    medians = medians_of(json.loads(file.read_text(encoding="utf-8")))
    rows = list(table_of(medians))
    too_fast = grow_too_fast(medians)
    print("\n".join([*rows, *over_budget(medians), *(f"{work}: grows too fast" for work in too_fast)]))
    page.write_text(written(page.read_text(encoding="utf-8"), rows), encoding="utf-8")
    return int(bool(too_fast))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
