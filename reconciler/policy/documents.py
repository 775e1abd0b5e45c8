"""YAML text -> documents whose every value knows its line and column.

Plain scalars have the types of the YAML 1.2 core schema. libyaml does the parsing; its events are used directly,
because its composer recurses without a bound and accepts a key that is given twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from yaml import MarkedYAMLError
from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.reader import ReaderError

from reconciler.errors import Problem
from reconciler.policy.words import printable
from reconciler.yaml_scalars import TYPED_STARTS, plain_value

MAX_DEPTH = 100
MAX_NODES = 200_000
_MAX_SYNTAX_PROBLEMS = 20
_NEXT_DOCUMENT = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = (None, "!", f"{_TAG}map", f"{_TAG}seq")

Path = Sequence[str | int]
_Marks = dict[str | int, tuple[Any, Any]]


@dataclass(slots=True)
class Document:
    """One YAML document of a file. `line` and `column` are where its first value starts, 1-based."""

    file: str
    value: Any
    line: int
    column: int
    first_line: int = 0  # lines of the file before the text its marks count in
    marks: dict[int, _Marks] = field(default_factory=dict)
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


def read_documents(file: str, text: str) -> tuple[list[Document], list[Problem]]:
    """Return the documents of `text` that hold anything, and all that is wrong; a faulty document is left out."""
    documents: list[Document] = []
    problems: list[Problem] = []
    start = 0
    reader = _Reader(file, text)
    for _ in range(_MAX_SYNTAX_PROBLEMS):
        stopped_at = reader.read(start, documents, problems)
        following = None if stopped_at is None else _NEXT_DOCUMENT.search(text, stopped_at + 1)
        if following is None:
            break
        start = following.start()
    return documents, problems


class _RefusedError(Exception):
    """The document cannot be read on."""

    def __init__(self, event: Any, message: str) -> None:
        super().__init__(message)
        self.mark = event.start_mark


class _Reader:
    """Reads one file. Its node budget is for the whole file, aliases counted as if they were written out."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._text = text
        self._start = 0
        self._line = 0
        self._nodes = 0
        self._next: Callable[[], Any]
        self._document: Document
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._problems: list[Problem] = []

    def read(self, start: int, documents: list[Document], problems: list[Problem]) -> int | None:
        """Read from `start` on; return the index at which reading stopped, None where everything was read."""
        self._start, self._line = start, self._text.count("\n", 0, start)
        self._problems = problems
        try:
            self._next = CParser(self._text[start:] if start else self._text).get_event
            documents.extend(self._documents())
        except _RefusedError as error:
            self._add(error.mark, str(error))
            return int(start + error.mark.index)
        except MarkedYAMLError as error:
            mark: Any = error.problem_mark or error.context_mark
            self._add(mark, f"is no YAML: {error.problem}")
            return int(start + mark.index) if mark is not None else None
        except ReaderError as error:
            before = self._text[start:].encode()[: error.position].decode(errors="ignore")
            line, column = before.count("\n"), len(before) - before.rfind("\n")
            words = f"character #x{error.character:02x} is not allowed in YAML"
            problems.append(Problem(self._file, self._line + line + 1, column, "", words))
        return None

    def _documents(self) -> Iterator[Document]:
        while type(event := self._next()) is not StreamEndEvent:
            if type(event) is not DocumentStartEvent:
                continue
            known = len(self._problems)
            self._anchors = {}
            first = self._next()
            mark = first.start_mark
            self._document = Document(
                self._file, None, self._line + mark.line + 1, mark.column + 1, first_line=self._line
            )
            self._document.value = self._node(first, 1)
            if self._document.value is not None and len(self._problems) == known:
                yield self._document

    def _node(self, event: Any, depth: int) -> Any:
        self._count(event, 1)
        if depth > MAX_DEPTH:
            raise _RefusedError(event, f"is nested deeper than {MAX_DEPTH} levels, expected a policy")
        kind = type(event)
        if kind is AliasEvent:
            return self._alias(event)
        before = self._nodes
        if kind is ScalarEvent:
            value = self._scalar(event)
        else:
            value = self._mapping(event, depth) if kind is MappingStartEvent else self._sequence(depth)
            if event.tag not in _PLAIN_TAGS:
                self._add(event.start_mark, f'has the tag "{event.tag}", expected none')
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._nodes - before + 1)
        return value

    def _count(self, event: Any, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > MAX_NODES:
            raise _RefusedError(
                event, f"the file has more than {MAX_NODES} values, aliases written out, expected fewer"
            )

    def _mapping(self, start: Any, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        marks: _Marks = {}
        merged: list[Any] = []
        while type(event := self._next()) is not MappingEndEvent:
            key = self._key(event, depth)
            inside = self._next()
            value = self._node(inside, depth + 1)
            if key == "<<" and getattr(event, "style", None) is None:
                merged.extend(value if isinstance(value, list) else [value])
                continue
            if key in found:
                self._add(event.start_mark, f'"{key}" is given twice, expected once')
            found[key] = value
            marks[key] = (event.start_mark, inside.start_mark)
        for one in merged:
            self._merge(one, found, marks, start)
        self._document.marks[id(found)] = marks
        return found

    def _merge(self, one: Any, found: dict[str, Any], marks: _Marks, start: Any) -> None:
        """What a mapping says itself counts, then what is merged first. Source: yaml.org/type/merge.html."""
        if not isinstance(one, dict):
            self._add(start.start_mark, "<< merges something that is no mapping, expected a mapping")
            return
        for key, value in one.items():
            if key not in found:
                found[key] = value
                marks[key] = self._document.marks[id(one)][key]

    def _sequence(self, depth: int) -> list[Any]:
        found: list[Any] = []
        marks: _Marks = {}
        while type(event := self._next()) is not SequenceEndEvent:
            marks[len(found)] = (event.start_mark, event.start_mark)
            found.append(self._node(event, depth + 1))
        self._document.marks[id(found)] = marks
        return found

    def _key(self, event: Any, depth: int) -> str:
        if type(event) in (MappingStartEvent, SequenceStartEvent):
            self._node(event, depth + 1)
            self._add(event.start_mark, "a key is a collection, expected a text")
            return ""
        if type(event) is ScalarEvent:
            self._count(event, 1)
            if event.anchor is not None:
                self._anchors[event.anchor] = (event.value, 1)
            return str(event.value)
        return str(self._alias(event))

    def _scalar(self, event: Any) -> Any:
        text = event.value
        if event.tag is not None:
            return self._tagged(event)
        if not event.implicit[0] or (text and text[0] not in TYPED_STARTS):
            return text
        try:
            return plain_value(text)
        except ValueError as error:
            self._add(event.start_mark, f"a number has {error}, expected a number or a text in quotes")
            return None

    def _tagged(self, event: Any) -> Any:
        name = event.tag.removeprefix(_TAG)
        if event.tag == "!" or name == "str":
            return event.value
        if name in ("null", "bool", "int", "float"):
            try:
                return float(event.value) if name == "float" else plain_value(event.value)
            except ValueError:
                self._add(event.start_mark, f'"{event.value[:40]}" is no {name}, expected what its tag says')
                return None
        self._add(event.start_mark, f'has the tag "{event.tag}", expected none')
        return None

    def _alias(self, event: Any) -> Any:
        if event.anchor not in self._anchors:
            raise _RefusedError(event, f'"*{event.anchor}" names no anchor that ends before it, expected one')
        value, size = self._anchors[event.anchor]
        self._count(event, size)
        return value

    def _add(self, mark: Any, message: str) -> None:
        line, column = (0, 0) if mark is None else (mark.line, mark.column)
        self._problems.append(Problem(self._file, self._line + line + 1, column + 1, "", message))
