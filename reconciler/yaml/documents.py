"""A YAML document: its value, and the line and column of everything in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from reconciler.errors import Problem
from reconciler.messages import Path, dotted

Marks = dict[int, dict[str | int, tuple[Any, Any]]]
"""id of a collection -> key or index -> the marks of the key and of the value; a mark has `line` and `column`."""
MarkedValue = tuple[Any, Marks]
"""A value, and the marks of all collections in it."""


class Document(Struct):
    """One document of a file. `line` and `column` are where its first value starts, 1-based.

    `text` is its own text: from the start of the file, or its `---`, to where the next document starts; before it stand
    `lines_before` lines. A document that is no YAML of its own has none. `whole` is False where a value could not be
    read and None stands in its place. `marked` are marks of it, whose lines count from `marked_from`; where that
    are not all, `mark` reads a text again with all marks: only who has a problem asks for them.
    """

    file: str
    value: Any
    line: int
    column: int
    text: str = ""
    lines_before: int = 0
    whole: bool = True
    mark: Callable[[str], MarkedValue] | None = None
    marked: MarkedValue | None = None
    marked_from: int = 0

    def place(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """Return line and column of the value at `path`, or with `key` of its key.

        Where the path leads nowhere (a field that is missing), the place of the innermost value that is there.
        """
        at = (self.line, self.column)
        value, marks = self.marked or (None, {})
        for step in path:
            mark = marks.get(id(value), {}).get(step)
            if mark is None and self.mark is not None:
                self.marked, self.marked_from, self.mark = self.mark(self.text), self.lines_before, None
                return self.place(path, key=key)
            if mark is None:
                break
            found = mark[0] if key and step == path[-1] else mark[1]
            at = (self.marked_from + found.line + 1, found.column + 1)
            value = inside(value, step)
        return at

    def problem(self, path: Path, message: str, *, key: bool = False) -> Problem:
        """Return `message` as a problem at `path`."""
        line, column = self.place(path, key=key)
        return Problem(self.file, line, column, dotted(path), message)


def inside(value: Any, step: str | int) -> Any:
    """Return what is at `step` of a collection, None where there is nothing (any more)."""
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None
