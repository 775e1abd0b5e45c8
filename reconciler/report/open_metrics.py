"""The OpenMetrics text format.

Source: prometheus/OpenMetrics specification/OpenMetrics.md, "Text format". Everything written here also reads as the
older Prometheus text format, which the textfile collector and the push gateway take.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Gauge:
    """Values by labels, in the order they are shown. `unit` is the end of `name`, "" for none."""

    name: str
    explained: str
    values: Sequence[tuple[Labels, float]]
    unit: str = ""
    type: str = "gauge"

    def lines(self) -> Iterator[str]:
        for labels, value in self.values:
            yield f"{self.name}{_labels(labels)} {_number(value)}"


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often what was seen: `buckets` counts what is up to each of the bounds and above the one before it, and last
    what is above them all.
    """

    labels: Labels
    buckets: Sequence[int]
    total: float


@dataclass(frozen=True, slots=True)
class Histogram:
    name: str
    explained: str
    bounds: Sequence[float]
    values: Sequence[Distribution]
    unit: str = ""
    type: str = "histogram"

    def lines(self) -> Iterator[str]:
        ends = [*(repr(float(bound)) for bound in self.bounds), "+Inf"]  # "1.0", as the format wants it
        for one in self.values:
            for end, count in zip(ends, accumulate(one.buckets), strict=True):
                yield f"{self.name}_bucket{_labels({**one.labels, 'le': end})} {count}"
            yield f"{self.name}_count{_labels(one.labels)} {sum(one.buckets)}"
            yield f"{self.name}_sum{_labels(one.labels)} {_number(one.total)}"


def distributed(values: Iterable[float], bounds: Sequence[float], labels: Labels) -> Distribution:
    """Return how `values` lie between `bounds`."""
    buckets = [0] * (len(bounds) + 1)
    total = 0.0
    for value in values:
        buckets[sum(bound < value for bound in bounds)] += 1
        total += value
    return Distribution(labels, buckets, total)


def open_metrics_text(families: Iterable[Gauge | Histogram]) -> str:
    """Return `families` as one document, its end mark included."""
    return "".join(f"{line}\n" for family in families for line in _family(family)) + "# EOF\n"


def _family(family: Gauge | Histogram) -> Iterator[str]:
    yield f"# TYPE {family.name} {family.type}"
    if family.unit:
        yield f"# UNIT {family.name} {family.unit}"
    yield f"# HELP {family.name} {_escaped(family.explained)}"
    yield from family.lines()


def _labels(labels: Labels) -> str:
    inside = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    """Return whole numbers as such, so that times stay readable; others as short as they can be told apart."""
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(float(value))
