"""A forecast as one HTML file that needs nothing else: no scripts, pictures as inline SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from reconciler.forecast.picture import Row, rows_of, state_of
from reconciler.forecast.replay_words import replay_lines
from reconciler.forecast.savings import savings_of
from reconciler.forecast.text import (
    ForecastStyle,
    held_lines,
    signed,
    step_words,
    summary,
    table_rows,
    title,
    unknown_words,
    wake_lines,
)
from reconciler.forecast.timelines import Forecast, WorkloadTimeline
from reconciler.report.change_words import name_of
from reconciler.report.html import page_template
from reconciler.report.times import DAYS, weekday_and_time
from reconciler.untrusted_text import one_line

WIDTH = 1000
"""The width of a picture in its own units."""

_HEIGHTS = {"all": 10, "some": 5, "none": 1, "perhaps": 10}


def render_html(forecast: Forecast, style: ForecastStyle) -> str:
    head, *body = table_rows(forecast, style)
    first, *rest = summary(forecast, style.prices)
    return page_template("forecast", "forecast.html.j2").render(
        title=title(forecast),
        first=first,
        rest=rest,
        head=head,
        body=body,
        groups=list(_groups(forecast)),
        days=[(_x(at, forecast), words) for at, words in _midnights(forecast)],
        replay=[]
        if forecast.replay is None
        else [*replay_lines(forecast.replay, forecast.tick), *map(one_line, forecast.replay.notes)],
        held=list(held_lines(forecast.held_back, forecast)),
        wakes=wake_lines(forecast),
        unknown=list(unknown_words(forecast)),
        until=weekday_and_time(forecast.end, forecast.zone),
        runs=forecast.runs,
        width=WIDTH,
    )


def _groups(forecast: Forecast) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the rows of each cluster and namespace below its name."""
    for place, inside in groupby(
        rows_of(forecast.selected), key=lambda row: f"{row[0].ref.cluster}/{row[0].ref.namespace}"
    ):
        yield one_line(place), [_row(row, forecast) for row in inside]


def _row(row: Row, forecast: Forecast) -> dict[str, Any]:
    """Return what the template shows of `row`: what it is called, its bar, and what it is when read out."""
    first, found = row[0], savings_of(row)
    certain, more = (signed(-found.percent(hours)) for hours in (found.saved, found.possible))
    saved = f"{certain} %" if certain == more else f"{certain} to {more} %"
    own = one_line(f"{first.ref.kind}/{first.ref.name}")
    others = f" and {len(row) - 1} more" if len(row) > 1 else ""
    return {
        "words": own + others,
        "shapes": _shapes(first, forecast),
        "saved": saved if found.without.replicas else "",
        "steps": step_words(first, forecast),
        "members": [name_of(timeline.ref) for timeline in row] if others else (),
    }


def _shapes(timeline: WorkloadTimeline, forecast: Forecast) -> Iterator[tuple[str, str]]:
    """Yield its states, each with the SVG path of all stretches of the bar that look so."""
    paths: dict[str, list[str]] = {}
    for segment in timeline.segments:
        state = state_of(timeline, segment)
        left, right, height = _x(segment.start, forecast), _x(segment.end, forecast), _HEIGHTS[state]
        paths.setdefault(state, []).append(f"M{left:g} 10V{10 - height}H{right:g}V10Z")
    yield from ((state, "".join(found)) for state, found in sorted(paths.items()))


def _x(at: datetime, forecast: Forecast) -> float:
    return round(WIDTH * ((at - forecast.start) / (forecast.end - forecast.start)), 1)


def _midnights(forecast: Forecast) -> Iterable[tuple[datetime, str]]:
    day = forecast.start.astimezone(forecast.zone).date() + timedelta(days=1)
    while True:
        at = datetime(day.year, day.month, day.day, tzinfo=forecast.zone)
        if at >= forecast.end:
            return
        yield at, f"{DAYS[day.weekday()]} {day.day}"
        day += timedelta(days=1)
