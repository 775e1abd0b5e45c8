"""A document of a policy file: its value, and the line and column of everything in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from reconciler.errors import Problem
from reconciler.policy.words import printable

Path = Sequence[str | int]
Marks = dict[str | int, tuple[Any, Any]]
"""Key or index -> the marks at which the key and the value stand; a mark has `line` and `column`, from 0."""


@dataclass(slots=True)
class Document:
    """One YAML document of a file. `line` and `column` are where its first value starts, 1-based."""

    file: str
    value: Any
    line: int
    column: int
    first_line: int = 0  # lines of the file before the text its marks count in
    marks: dict[int, Marks] = field(default_factory=dict)
    taken_out: list[Path] = field(default_factory=list)

    def take_out(self, path: Path) -> None:
        """Leave out the value at `path`, of which a problem has been told; in a list None stands in its place."""
        self.taken_out.append(path)
        if not path:
            self.value = {}
            return
        parent = self.value
        for step in path[:-1]:
            parent = _inside(parent, step)
        if isinstance(parent, dict):
            parent.pop(path[-1], None)
        elif isinstance(parent, list) and isinstance(path[-1], int):
            parent[path[-1]] = None

    def is_judged(self, path: Path) -> bool:
        """Return whether nothing at `path`, above or below it was taken out."""
        return not any(_related(path, gone) for gone in self.taken_out)

    def place(self, path: Path, *, key: bool = False) -> tuple[int, int]:
        """Return line and column of the value at `path`, or with `key` of its key.

        Where the path leads nowhere (a field that is missing), the place of the innermost value that is there.
        """
        at = (self.line, self.column)
        value = self.value
        for step in path:
            mark = self.marks.get(id(value), {}).get(step)
            if mark is None:
                break
            found = mark[0] if key and step == path[-1] else mark[1]
            at = (self.first_line + found.line + 1, found.column + 1)
            value = _inside(value, step)
        return at

    def problem(self, path: Path, message: str, *, key: bool = False) -> Problem:
        """Return `message` as a problem at `path`."""
        line, column = self.place(path, key=key)
        return Problem(self.file, line, column, dotted(path), message)


def dotted(path: Path) -> str:
    """Return `path` as people write it: spec.windows[0]."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return printable(text)


def _inside(value: Any, step: str | int) -> Any:
    """Return what is at `step` of a collection, None where there is nothing (any more)."""
    if isinstance(value, dict):
        return value.get(step)
    return value[step] if isinstance(value, list) and isinstance(step, int) and step < len(value) else None


def _related(path: Path, other: Path) -> bool:
    return all(here == there for here, there in zip(path, other, strict=False))
