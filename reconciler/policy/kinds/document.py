"""One policy document while it is read: its fields, and what is found wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec
from msgspec import inspect

from reconciler.errors import Problem
from reconciler.messages import Path, shown
from reconciler.model import NOTHING
from reconciler.policy.kinds.fields import (
    MOST_DURATION,
    VARIABLES,
    parse_duration,
    query_fault,
    scalar_of,
    spelt_duration,
)
from reconciler.yaml.documents import Document

S = TypeVar("S", bound=msgspec.Struct)


class Place(msgspec.Struct, frozen=True, order=True):
    """A place in a policy file; `line` and `column` are 1-based."""

    file: str
    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Calendars(msgspec.Struct, frozen=True):
    """The Calendars that a document may name, None for those that are broken themselves.

    `complete` False: some document could not be read, and may be one more.
    """

    named: Mapping[str, Any] = NOTHING
    complete: bool = True


class PolicyDocument:
    """One document of a `kind`, of `tenant` ("": the platform), and the policy that is made of it.

    What is wrong with its values is gathered in `problems`. `spec` are the fields of the policy with their defaults, in
    the form of its kind.
    """

    def __init__(self, source: Document, kind: str = "", tenant: str = "", calendars: Calendars | None = None) -> None:
        self.source = source
        self.kind = kind
        self.tenant = tenant
        self.calendars = calendars or Calendars()
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.policy: Any = None
        self.spec: msgspec.Struct | None = None

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

    def read(self, kind: str, fields: type[S], part: str = "") -> S:
        """Return the document as `fields`, those of `kind` or of a `part` of its schema; problems are gathered.

        What is wrong is taken out of the document and left at its default, so that the rest can still be judged.
        """
        try:
            return msgspec.convert(self.source.value, fields, dec_hook=scalar_of)
        except (msgspec.ValidationError, RecursionError):
            from reconciler.policy.problems import shape_problems

            self.problems += shape_problems(self.source, kind, part)
            found: S = self._left(self.source.value, _type_info(fields), ())
            return found

    def get(self, path: Path) -> Any:
        """Return the value at `path` as it was written; None where it, or anything above it, is missing or null."""
        value = self.source.value
        for step in path:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list) and isinstance(step, int) and step < len(value):
                value = value[step]
            else:
                return None
        return value

    def is_judged(self, path: Path) -> bool:
        """Return whether nothing at `path`, above or below it was wrong in shape."""
        return self.source.is_judged(path)

    def add(self, path: Path, message: str, *, key: bool = False) -> None:
        """Add a problem, unless one at the same value, around it or inside it has been added already."""
        if self.source.is_judged(path):
            self.problems.append(self.source.problem(path, message, key=key))

    def warn(self, path: Path, message: str) -> None:
        """Add a warning: what is allowed, and probably a mistake."""
        self.warnings.append(self.source.problem(path, message))

    def check_duration(self, path: Path, text: str) -> None:
        """Add a problem where `text`, of the form of a duration, is too long a one."""
        if parse_duration(text) is None:
            self.add(path, f"is {shown(text)}, expected a duration of at most {spelt_duration(MOST_DURATION)}")

    def check_query(self, path: Path, text: str, variables: tuple[str, ...] = VARIABLES) -> None:
        """Add a problem where `text` is no query in which `variables` may stand."""
        fault = query_fault(text, variables)
        if fault is not None:
            self.add(path, fault)

    def _left(self, value: Any, kind: inspect.Type, path: tuple[str | int, ...]) -> Any:
        """Return what is left of `value` as a `kind`, with its default or an empty value where something is missing.

        Unlike msgspec it takes 3.0 for 3, as JSON Schema does.
        """
        match kind:
            case inspect.Metadata(type=inner):
                return self._left(value, inner, path)
            case inspect.UnionType(types=types):  # of int and float the latter, and text where it may be one, too
                stated = [one for one in types if not isinstance(one, inspect.NoneType)]
                return None if value is None and len(stated) < len(types) else self._left(value, stated[-1], path)
            case inspect.StructType():
                return self._struct(value if isinstance(value, dict) else {}, kind, path)
            case inspect.CustomType(cls=scalar):
                return self._scalar(value, scalar, path)
            case inspect.VarTupleType(item_type=inner):
                return tuple(self._left(entry, inner, (*path, n)) for n, entry in enumerate(value or ()))
            case inspect.DictType(value_type=inner):
                return {key: self._left(entry, inner, (*path, key)) for key, entry in (value or {}).items()}
        if value is None:
            return _EMPTY.get(type(kind), "")
        whole = isinstance(kind, inspect.IntType | inspect.StrType | inspect.LiteralType)
        return int(value) if whole and isinstance(value, float) else value

    def _struct(self, value: Mapping[str, Any], kind: inspect.StructType, path: tuple[str | int, ...]) -> Any:
        found = {
            field.name: self._left(value.get(name), field.type, (*path, name))
            for field in kind.fields
            if value.get(name := field.encode_name) is not None or field.required
        }
        return kind.cls(**found)

    def _scalar(self, value: Any, kind: Any, path: Path) -> Any:
        if value is None:
            return kind()
        try:
            return scalar_of(kind, value)
        except ValueError:
            self.check_duration(path, str(value))
            return kind()


_EMPTY: dict[type, Any] = {inspect.IntType: 0, inspect.FloatType: 0, inspect.BoolType: False}
_type_info = lru_cache(maxsize=128)(inspect.type_info)
