"""A forecast as a picture: what runs alike stands in one row, each cell of which is a few hours."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo

from reconciler.forecast.timelines import Forecast, Segment, WorkloadTimeline
from reconciler.report.times import DAYS
from reconciler.untrusted_text import one_line

_CELLS = 84
"""So many cells, and names beside them, are what the page of a code host shows without cutting."""
_HOURS = (2, 3, 4, 6, 8, 12, 24)
_PLAIN = {"all": "#", "some": "+", "none": ".", "perhaps": "?", "absent": " "}
_BLOCKS = {"all": "█", "some": "▄", "none": "▁", "perhaps": "▒", "absent": " "}


Row = Sequence[WorkloadTimeline]
"""Workloads of one namespace that run alike."""


def rows_of(timelines: Iterable[WorkloadTimeline]) -> list[Row]:
    """Return `timelines` as rows, in order of cluster and namespace; what runs alike stands in one."""
    found: dict[tuple[object, ...], list[WorkloadTimeline]] = {}
    for timeline in timelines:
        states = tuple((segment.start, state_of(timeline, segment)) for segment in timeline.segments)
        key = (timeline.ref.cluster, timeline.ref.namespace, timeline.policy, states)
        found.setdefault(key, []).append(timeline)
    return sorted(found.values(), key=lambda row: row[0].ref)


def _row_words(row: Row) -> str:
    """Return what workloads are called: one by its name, several by their number."""
    ref = row[0].ref
    place = f"{ref.cluster}/{ref.namespace}"
    return one_line(f"{place}/{ref.kind}/{ref.name}" if len(row) == 1 else f"{place} ({len(row)})")


def week(forecast: Forecast, *, blocks: bool, most: int = sys.maxsize) -> list[str]:
    """Return the picture below its ruler; names are given room for `most` characters."""
    rows = rows_of(forecast.selected)
    names = list(map(_row_words, rows))
    width = min(max(map(len, names), default=0), most)
    signs = _BLOCKS if blocks else _PLAIN
    lines = []
    for name, row in zip(names, rows, strict=True):
        cells = (_sign(row[0], row[0].at(at), signs) for at in _middles(forecast))
        lines.append(f"{name:{width}}  {''.join(cells)}")
    return [f"{'':{width}}  {ruler(forecast, forecast.zone)}".rstrip(), *lines] if rows else []


def state_of(timeline: WorkloadTimeline, segment: Segment) -> str:
    """Return "all", "some" or "none" of the replicas that it has without policies; "perhaps": fewer, if assumed."""
    if segment.replicas >= timeline.without:
        return "all" if segment.replicas else "none"
    if segment.assumes:
        return "perhaps"
    return "some" if segment.replicas else "none"


def _sign(timeline: WorkloadTimeline, segment: Segment | None, signs: Mapping[str, str]) -> str:
    return signs["absent" if segment is None else state_of(timeline, segment)]


def numbered_cells(timeline: WorkloadTimeline | None, forecast: Forecast) -> str:
    """Return the cells of one workload, with the number of replicas where they change, if there is room for it.

    None: it is not there, and has none.
    """
    if timeline is None:
        return ""
    at_cells = [timeline.at(at) for at in _middles(forecast)]
    shown = ""
    for position, segment in enumerate(at_cells):
        replicas = None if segment is None else segment.replicas
        before = at_cells[position - 1] if position else None
        changes = replicas is not None and (before is None or before.replicas != replicas)
        alike = [after for after in at_cells[position : position + len(str(replicas))] if after == segment]
        if changes and len(alike) == len(str(replicas)):
            shown = shown[:position] + str(replicas)
        elif len(shown) == position:
            shown += _sign(timeline, segment, _PLAIN)
    return shown


def cell_hours(forecast: Forecast) -> int:
    """Return how many hours a cell has: a week has cells of 2 hours, and more days longer ones."""
    hours = (forecast.end - forecast.start) / timedelta(hours=1)
    return next((length for length in _HOURS if hours / length <= _CELLS), _HOURS[-1])


def _middles(forecast: Forecast) -> Iterable[datetime]:
    length = timedelta(hours=cell_hours(forecast))
    at = forecast.start + length / 2
    while at < forecast.end:
        yield at
        at += length


def ruler(forecast: Forecast, zone: tzinfo) -> str:
    """Return the days above the cells: the name of each where it begins."""
    cells, length = sum(1 for _ in _middles(forecast)), timedelta(hours=cell_hours(forecast))
    line = ""
    for position in range(cells - 2):
        here, before = ((forecast.start + place * length).astimezone(zone).date() for place in (position, position - 1))
        if here != before and len(line) <= max(0, position - 1):
            line = f"{line:{position}}{DAYS[here.weekday()]}"
    return line


def legend(forecast: Forecast, *, blocks: bool) -> str:
    """Return what the signs of a picture mean, and how long a cell is."""
    signs = _BLOCKS if blocks else _PLAIN
    words = {"all": "all replicas", "some": "fewer", "none": "none", "perhaps": "fewer, if metrics stay as recorded"}
    shown = [state for state in words if state != "perhaps" or forecast.replay is None]
    meanings = ", ".join(f"{signs[state]} {words[state]}" for state in shown)
    return f"{meanings}; {cell_hours(forecast)} hours each"
