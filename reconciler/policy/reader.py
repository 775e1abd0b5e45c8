"""YAML text -> documents.

Plain scalars have the types of the YAML 1.2 core schema. libyaml does the parsing; its events are used directly,
because its composer recurses without a bound and accepts a key that is given twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import yaml
from yaml import MarkedYAMLError
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)
from yaml.reader import ReaderError

from reconciler.errors import Problem
from reconciler.policy.documents import Document, Marks
from reconciler.policy.words import shown
from reconciler.yaml_scalars import TYPED_STARTS, plain_value

MAX_DEPTH = 64
MAX_ALIASED_NODES = 100_000
_LARGEST = 2**63
_PARSER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_MAX_SYNTAX_PROBLEMS = 20
_NEXT_DOCUMENT = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = (None, "!", f"{_TAG}map", f"{_TAG}seq")


def read_documents(file: str, text: str) -> tuple[list[Document], list[Problem], bool]:
    """Return the documents of `text` that hold anything, all that is wrong, and whether all documents are there.

    A document that cannot be read to its end is left out; of a value that cannot be read, None stands in its place.
    """
    documents: list[Document] = []
    problems: list[Problem] = []
    start = 0
    complete = True
    reader = _Reader(file, text)
    for _ in range(_MAX_SYNTAX_PROBLEMS):
        stopped_at = reader.read(start, documents, problems)
        complete = complete and stopped_at is None
        following = None if stopped_at is None else _NEXT_DOCUMENT.search(text, max(stopped_at, start + 1))
        if following is None:
            break
        start = following.start()
    return documents, problems, complete


class _Anchored(NamedTuple):
    """What an alias stands for, how many nodes that is, and how many levels deep."""

    value: Any
    nodes: int
    depth: int


def _of_type(name: str, *kinds: type) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        value = plain_value(text)
        if type(value) not in kinds:
            raise ValueError(f"no {name}")
        return value

    return read


_TAGGED = {
    "null": _of_type("null", type(None)),
    "bool": _of_type("bool", bool),
    "int": _of_type("int", int),
    "float": _of_type("float", float, int),
}


class _RefusedError(Exception):
    """The document cannot be read on."""

    def __init__(self, event: Any, message: str) -> None:
        super().__init__(message)
        self.mark = event.start_mark


class _Reader:
    """Reads one file. For the whole file there is one budget of nodes that aliases may stand for."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._text = text
        self._start = 0
        self._line = 0
        self._nodes = 0
        self._aliased = 0
        self._deepest = 0
        self._next: Callable[[], Any]
        self._document: Document
        self._anchors: dict[str, _Anchored] = {}
        self._problems: list[Problem] = []

    def read(self, start: int, documents: list[Document], problems: list[Problem]) -> int | None:
        """Read from `start` on; return the index at which reading stopped, None where everything was read."""
        self._start, self._line = start, self._text.count("\n", 0, start)
        self._problems = problems
        try:
            self._next = _PARSER(self._text[start:] if start else self._text).get_event
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
            return len(self._text)
        return None

    def _documents(self) -> Iterator[Document]:
        while type(event := self._next()) is not StreamEndEvent:
            if type(event) is not DocumentStartEvent:
                continue
            self._anchors = {}
            first = self._next()
            mark = first.start_mark
            self._document = Document(
                self._file, None, self._line + mark.line + 1, mark.column + 1, first_line=self._line
            )
            self._document.value = self._node(first, 1)
            if self._document.value is not None:
                yield self._document

    def _node(self, event: Any, depth: int) -> Any:
        kind = type(event)
        if kind is AliasEvent:
            return self._alias(event, depth)
        self._nodes += 1
        before, outside = self._nodes, self._deepest
        self._check_depth(event, depth)
        self._deepest = depth
        if kind is ScalarEvent:
            value = self._scalar(event)
        else:
            value = self._mapping(event, depth) if kind is MappingStartEvent else self._sequence(depth)
            if event.tag not in _PLAIN_TAGS:
                self._add(event.start_mark, f'has the tag "{event.tag}", expected none')
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, self._nodes - before + 1, self._deepest - depth)
        self._deepest = max(outside, self._deepest)
        return value

    def _check_depth(self, event: Any, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise _RefusedError(event, f"is nested deeper than {MAX_DEPTH} levels, expected a policy")

    def _mapping(self, start: Any, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        marks: Marks = {}
        merged: list[Any] = []
        while type(event := self._next()) is not MappingEndEvent:
            key = self._key(event, depth)
            inside = self._next()
            value = self._node(inside, depth + 1)
            if key == "<<" and type(event) is ScalarEvent and event.implicit[0]:
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

    def _merge(self, one: Any, found: dict[str, Any], marks: Marks, start: Any) -> None:
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
        marks: Marks = {}
        while type(event := self._next()) is not SequenceEndEvent:
            marks[len(found)] = (event.start_mark, event.start_mark)
            found.append(self._node(event, depth + 1))
        self._document.marks[id(found)] = marks
        return found

    def _key(self, event: Any, depth: int) -> str:
        if type(event) is ScalarEvent:
            self._nodes += 1
            if event.anchor is not None:
                self._anchors[event.anchor] = _Anchored(event.value, 1, 0)
            return str(event.value)
        key = self._node(event, depth + 1)
        if isinstance(key, dict | list):
            self._add(event.start_mark, "a key is a collection, expected a text")
        return key if isinstance(key, str) else ""

    def _scalar(self, event: Any) -> Any:
        text = event.value
        if event.tag is not None:
            return self._tagged(event)
        if not event.implicit[0] or (text and text[0] not in TYPED_STARTS):
            return text
        return self._number(event, plain_value)

    def _number(self, event: Any, read: Callable[[str], Any]) -> Any:
        """Return a plain scalar as `read` does; None, and a problem, for a number that JSON could not hold."""
        try:
            value = read(event.value)
        except ValueError as error:
            self._add(event.start_mark, f"is {shown(event.value)}: {error}, expected what its form or tag says")
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._add(event.start_mark, f"is {shown(event.value)}, expected a finite number, or a text in quotes")
            return None
        if isinstance(value, int) and abs(value) > _LARGEST:
            self._add(event.start_mark, f"is {shown(event.value)}, expected a number of at most 2^53")
            return None
        return value

    def _tagged(self, event: Any) -> Any:
        name = event.tag.removeprefix(_TAG)
        if event.tag == "!" or name == "str":
            return event.value
        if name in _TAGGED:
            return self._number(event, _TAGGED[name])
        self._add(event.start_mark, f'has the tag "{event.tag}", expected none')
        return None

    def _alias(self, event: Any, depth: int) -> Any:
        known = self._anchors.get(event.anchor)
        if known is None:
            raise _RefusedError(event, f'"*{event.anchor}" names no anchor that ends before it, expected one')
        self._nodes += known.nodes
        self._aliased += known.nodes
        if self._aliased > MAX_ALIASED_NODES:
            raise _RefusedError(event, f"aliases stand for more than {MAX_ALIASED_NODES} values, expected fewer")
        self._check_depth(event, depth + known.depth)
        self._deepest = max(self._deepest, depth + known.depth)
        return known.value

    def _add(self, mark: Any, message: str) -> None:
        line, column = (0, 0) if mark is None else (mark.line, mark.column)
        self._problems.append(Problem(self._file, self._line + line + 1, column + 1, "", message))
