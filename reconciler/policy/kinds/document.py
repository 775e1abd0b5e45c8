"""One policy document while it is read: where its values stand, and what is gathered of problems and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from operator import eq
from typing import Any

from msgspec import Struct

from reconciler.errors import Problem
from reconciler.messages import Path, shown
from reconciler.model import NOTHING
from reconciler.policy.kinds.fields import MOST_DURATION, VARIABLES, parse_duration, query_fault, spelt_duration
from reconciler.yaml.documents import Document, inside


class Place(Struct, frozen=True, order=True):
    """A place in a policy file; `line` and `column` are 1-based."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Calendars(Struct, frozen=True):
    """The Calendars that a document may name, None for those that are broken themselves.

    `complete` False: some document could not be read, and may be one more.
    """

    named: Mapping[str, Any] = NOTHING
    complete: bool = True


class PolicyDocument:
    """One document of a `kind`, of `tenant` ("": the platform), and the policy that is made of it.

    What is wrong with its values is gathered in `problems`; values of the wrong shape are `taken_out`. `spec` are the
    fields of the policy with their defaults, in the form of its kind.
    """

    def __init__(self, source: Document, kind: str = "", tenant: str = "", calendars: Calendars | None = None) -> None:
        self.source = source
        self.kind = kind
        self.tenant = tenant
        self.calendars = calendars or Calendars()
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.taken_out: list[Path] = []
        self.policy: Any = None
        self.spec: Struct | None = None

    @property
    def place(self) -> Place:
        return Place(self.source.file, self.source.line, self.source.column)

    def place_of(self, path: Path) -> Place:
        """Return where the value at `path` is."""
        return Place(self.source.file, *self.source.place(path))

    def limits_place(self, path: Path = ("spec",)) -> Place:
        """Return where the limits of what is at `path` are stated; what states none begins there."""
        stated = (*path, "limits")
        return Place(self.source.file, *self.source.place(path if self.get(stated) is None else stated, key=True))

    def get(self, path: Path) -> Any:
        """Return the value at `path` as it was written; None where it, or anything above it, is missing or null."""
        value = self.source.value
        for step in path:
            value = inside(value, step)
        return value

    def is_stated(self, path: Path) -> bool:
        """Return whether there is a value at `path`, or was one with a problem of its own."""
        return self.get(path) is not None or path in self.taken_out

    def take_out(self, path: Path) -> None:
        """Leave out the value at `path`, of which a problem has been reported; in a list None stands in its place."""
        self.taken_out.append(path)
        if not path:
            self.source.value = {}
            return
        parent = self.get(path[:-1])
        if isinstance(parent, dict):
            parent.pop(path[-1], None)
        elif isinstance(parent, list) and isinstance(path[-1], int):
            parent[path[-1]] = None

    def is_readable(self, path: Path) -> bool:
        """Return whether what is at `path` could be read: nothing there, above or below it was taken out, or is missing
        and has to be there.
        """
        return not any(all(map(eq, path, gone)) for gone in self.taken_out)

    def add(self, path: Path, message: str, *, key: bool = False) -> None:
        """Add a problem, unless one at the same value, around it or inside it has been added already."""
        if self.is_readable(path):
            self.problems.append(self.source.problem(path, message, key=key))

    def warn(self, path: Path, message: str) -> None:
        """Add a warning: what is allowed, and probably a mistake."""
        self.warnings.append(self.source.problem(path, message))

    def check_either(self, path: Path, **stated: object) -> None:
        """Add a problem where both of two fields of what is at `path` are stated, or neither (None)."""
        found = [name for name, value in stated.items() if value is not None]
        if len(found) != 1:
            what = f"has {' and '.join(found)}" if found else f"has neither {' nor '.join(stated)}"
            self.add(path, f"{what}, expected exactly one of the two")

    def check_duration(self, path: Path, text: str) -> None:
        """Add a problem where `text`, of the form of a duration, is too long a one."""
        if parse_duration(text) is None:
            self.add(path, f"is {shown(text)}, expected a duration of at most {spelt_duration(MOST_DURATION)}")

    def check_query(self, path: Path, text: str, variables: tuple[str, ...] = VARIABLES) -> None:
        """Add a problem where `text` is no query in which `variables` may stand."""
        fault = query_fault(text, variables)
        if fault is not None:
            self.add(path, fault)
