"""A forecast as Markdown."""

from __future__ import annotations

from reconciler.forecast.text import (
    ForecastStyle,
    cells,
    held_lines,
    legend,
    peaks,
    rows_of,
    ruler,
    summary,
    table_rows,
    title,
    unknown_words,
    wake_words,
    zone_of,
)
from reconciler.forecast.timelines import Forecast
from reconciler.report.markdown import details, fence, joined, prose, table
from reconciler.untrusted_text import one_line


def render_markdown(made: Forecast, style: ForecastStyle) -> str:
    """Return the forecast as Markdown of at most 60,000 characters."""
    first, *rest = summary(made, style.prices)
    return joined(
        [
            [f"## {prose(title(made))}"],
            [f"**{prose(first)}**", *(f"<br>{prose(line)}" for line in rest)],
            _table(made, style),
            picture(made),
            _list("Held back by limits", _held(made)),
            _list("Capacity needed again", [wake_words(one, zone_of(made)) for one in peaks(made)]),
            _list("Could not be judged", list(unknown_words(made))),
        ]
    )


def _table(made: Forecast, style: ForecastStyle) -> list[str]:
    head, *rows = table_rows(made, style)
    return table([prose(cell) for cell in head], [[prose(cell) for cell in row] for row in rows]) if rows else []


def picture(made: Forecast) -> list[str]:
    """Return the picture of the week, folded away."""
    rows = rows_of(made.selected)
    if not rows:
        return []
    names = [one_line(row.words) for row in rows]
    width = min(max(map(len, names)), 80)
    lines = [f"{'':{width}}  {ruler(made, zone_of(made))}".rstrip()]
    lines += [
        f"{name:{width}}  {cells(row, made, blocks=True)}".rstrip() for name, row in zip(names, rows, strict=True)
    ]
    return [*details("The week", fence(lines)), "", f"<sub>{prose(legend(blocks=True))}; 2 hours each</sub>"]


def _list(words: str, lines: list[str]) -> list[str]:
    return [f"**{words}**", "", *fence(lines)] if lines else []


def _held(made: Forecast) -> list[str]:
    return [line for one in made.held_back for line in held_lines(one, made.end, zone_of(made))]
