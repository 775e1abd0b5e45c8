"""A forecast as one HTML file that needs nothing else: no scripts, pictures as inline SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby

from reconciler.forecast.expected_savings import savings_of
from reconciler.forecast.picture import Row, rows_of, state_of
from reconciler.forecast.text import (
    ForecastStyle,
    held_lines,
    replay_lines,
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
        groups=[(place, list(rows)) for place, rows in groupby(rows_of(forecast.selected), key=_place)],
        saved_of=_saved,
        shapes_of=partial(_shapes, forecast=forecast),
        steps_of=partial(step_words, forecast=forecast),
        name_of=name_of,
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


def _place(row: Row) -> str:
    return one_line(f"{row[0].ref.cluster}/{row[0].ref.namespace}")


def _saved(row: Row) -> str:
    """Return in percent what `row` saves for certain, and if metrics stay as they were; "" where it never runs."""
    found = savings_of(row)
    certain, more = (signed(-found.percent(hours)) for hours in (found.saved, found.possible))
    saved = f"{certain} %" if certain == more else f"{certain} to {more} %"
    return saved if found.without.replicas else ""


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
