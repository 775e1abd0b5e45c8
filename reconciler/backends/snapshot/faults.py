"""What is wrong with the text of a manifest file, where."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.errors import Problem, SnapshotError


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One thing wrong. `line` and `column` are 1-based; `field` is a dotted path, "" where none is meant."""

    line: int
    column: int
    field: str
    message: str

    def of(self, file: str) -> Problem:
        """Return this as a problem of `file`."""
        return Problem(file, self.line, self.column, self.field, self.message)


def snapshot_error(problems: Iterable[Problem]) -> SnapshotError:
    """Return one error for all `problems`, sorted, a line each."""
    return SnapshotError("\n".join(str(problem) for problem in sorted(problems)))
