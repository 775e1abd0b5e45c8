"""What a metrics source answered, as values; what cannot be used at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timedelta

from msgspec import Struct

from reconciler.decide.annotations import format_time
from reconciler.model import NOTHING, QueryAnswer

STALE_AFTER = timedelta(minutes=5)
"""A recorded value that is older is unknown."""


def why_unusable(answer: QueryAnswer | None, now: datetime) -> str:
    """Return why nothing in `answer` counts, "" where its samples do."""
    if answer is None:
        return "not evaluated"
    if answer.error:
        return f"failed to load: {answer.error}"
    if answer.warnings:
        return f"partial: {answer.warnings[0]}"
    if answer.at is not None and now - answer.at > STALE_AFTER:
        return f"recorded at {format_time(answer.at)}, more than 5 minutes ago"
    return ""


# The samples of one answer, by Service.


class Series(Struct, frozen=True):
    """The values of one answer by (namespace, service); `problem` set: nothing in it can be used."""

    values: Mapping[tuple[str, str], tuple[float, ...]] = NOTHING
    problem: str = ""


def series_of(answer: QueryAnswer | None, now: datetime) -> Series:
    problem = why_unusable(answer, now)
    if answer is None or problem:
        return Series(problem=problem)
    values: dict[tuple[str, str], tuple[float, ...]] = {}
    for sample in answer.samples:
        key = (sample.labels.get("namespace", ""), sample.labels.get("service", ""))
        values[key] = (*values.get(key, ()), float(sample.value))
    return Series(values)


def value_for(series: Series, namespace: str, service: str | None) -> float | str | None:
    """Return the one finite value for the Service, None where there is no series, else why it is unknown."""
    if service is None:
        return "a metric needs a Service"
    if series.problem:
        return series.problem
    found = series.values.get((namespace, service), ())
    if len(found) > 1:
        return f"given {len(found)} times"
    if found and not math.isfinite(found[0]):
        return f"{found[0]}"
    return found[0] if found else None
