"""YAML text -> documents, within limits.

Plain scalars have the types of the YAML 1.2 core schema: 22:30, on, no and 2026-11-20 are texts, 010 is ten. Keys are
always texts. libyaml does the parsing; its events are used directly, because its composer recurses without a bound and
accepts a key that is given twice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container
from functools import partial
from sys import intern
from typing import Any

import yaml
from msgspec import Struct, field
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
from reconciler.messages import shown
from reconciler.yaml.documents import Document, MarkedValue, Marks

TOO_LARGE = "is a number of more than 64 bits, expected a smaller one, or a text in quotes"
TYPED_STARTS = frozenset("+-.0123456789~nNtTfF")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_OF_NUMBERS = "-+.0123456789"  # what a number begins with
_INT = r"(?a)[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+"
_FLOAT = r"(?a)[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
_SPECIAL_FLOAT = r"([-+]?)\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
_MAX_DIGITS = 3500  # also in base 16 few enough for int() and str(), which refuse more than 4300 in base 10


def plain_value(text: str) -> Any:
    """Return what a plain scalar means in the YAML 1.2 core schema.

    Raises:
        ValueError: a number with more digits than can be meant.

    Source: yaml.org/spec/1.2.2, 10.3.2 Tag Resolution.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _OF_NUMBERS:
        return text
    if (text.isascii() and text.isdigit()) or re.fullmatch(_INT, text):
        if len(text) > _MAX_DIGITS:
            raise ValueError(TOO_LARGE)
        base = {"0o": 8, "0x": 16}.get(text[:2], 10)
        return int(text if base == 10 else text[2:], base)
    if re.fullmatch(_FLOAT, text):
        return float(text)
    special = re.fullmatch(_SPECIAL_FLOAT, text) if text[-1] in "fFnN" else None
    if special is None:
        return text
    return float("nan") if special[1] is None else float(f"{special[1]}inf")


MAX_DEPTH = 64
MAX_NODES = 5_000_000
MAX_ALIASED_NODES = 100_000
MAX_PROBLEMS = 100
"""What one file may hold: levels of collections, entries of them, entries that aliases stand for, problems reported."""

_LARGEST = 2**63
PARSER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_EVENTS: Any = yaml._yaml.CParser if yaml.__with_libyaml__ else yaml.SafeLoader
_OUTER = 2  # the levels of collections in which some keys are marked
_MAX_SYNTAX_PROBLEMS = 20
_NEXT_DOCUMENT = r"(?m)^---(?=\s|$)"
_TAG = "tag:yaml.org,2002:"
_PLAIN_TAGS = (None, "!", f"{_TAG}map", f"{_TAG}seq")


class Documents(Struct):
    """The documents of a file that hold anything, and all that is wrong.

    `complete` is False where something could not be read to its end, and is left out. Of a single value that cannot be
    read, None stands in its place.
    """

    found: list[Document] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    complete: bool = True


def read_documents(
    file: str, text: str, *, most: int | None = None, marked_keys: Container[str] | None = ()
) -> Documents:
    """Return what stands in `text`, the content of `file`; reading ends once there are more than `most` documents.

    The marks of `marked_keys` in the outer mappings are kept, for those who ask for them in every document; None: all.
    """
    documents = Documents()
    start = 0
    reader = _Reader(file, text, documents, most=most, marked_keys=marked_keys)
    for _ in range(_MAX_SYNTAX_PROBLEMS):
        stopped_at = reader.read(start)
        if stopped_at is None:
            break
        documents.complete = False
        following = re.compile(_NEXT_DOCUMENT).search(text, max(stopped_at, start + 1))
        if following is None or len(documents.problems) >= MAX_PROBLEMS:
            break
        start = following.start()
    return documents


def marked(text: str) -> MarkedValue:
    """Return the first document of `text` with the marks of all in it; a value of nothing where it cannot be read."""
    read = read_documents("", text, most=0, marked_keys=None).found
    return (read[0].marked if read else None) or (None, {})


_TAGGED: dict[str, tuple[type, ...]] = {"null": (type(None),), "bool": (bool,), "int": (int,), "float": (float, int)}


def _tagged_value(name: str, text: str) -> Any:
    value = plain_value(text)
    if type(value) not in _TAGGED[name]:
        raise ValueError(f"is no {name}, expected what its tag says")
    return value


class _RefusedError(Exception):
    """The document cannot be read on."""

    def __init__(self, event: Any, message: str) -> None:
        super().__init__(message)
        self.mark = event.start_mark


class _Reader:
    """Reads one file. Limits are for the whole file. `marked_keys` are as in `read_documents`."""

    def __init__(
        self, file: str, text: str, documents: Documents, *, most: int | None, marked_keys: Container[str] | None
    ) -> None:
        self._most = most
        self._marked_keys = marked_keys
        self._file = file
        self._text = text
        self._documents = documents
        self._marks: Marks = {}
        self._start = 0
        self._line = 0
        self._nodes = 0
        self._aliased = 0
        self._deepest = 0
        self._next: Callable[[], Any]
        self._anchors: dict[str, tuple[Any, int, int]] = {}  # the value, how many nodes it is, and how many levels deep

    def read(self, start: int) -> int | None:
        """Read from `start` on; return the index at which reading stopped, None where everything was read."""
        self._start, self._line = start, self._text.count("\n", 0, start)
        try:
            self._next = _EVENTS(self._text[start:] if start else self._text).get_event
            self._read_all()
        except _RefusedError as error:
            self._tell(error.mark, str(error))
            return int(start + error.mark.index)
        except MarkedYAMLError as error:
            mark: Any = error.problem_mark or error.context_mark
            self._tell(*self._syntax_fault(error, mark, start))
            return int(start + mark.index) if mark is not None else None
        except ReaderError as error:
            self._tell_unreadable(error)
            return len(self._text)
        return None

    def _syntax_fault(self, error: MarkedYAMLError, mark: Any, start: int) -> tuple[Any, str]:
        """Return where the text is no YAML, and why: of the commonest mistakes where they begin, in our own words."""
        problem = str(error.problem)
        if error.context == "while scanning an alias":
            return error.context_mark, 'is * without quotes, which begins an alias, expected "*"'
        if error.context == "while scanning a quoted scalar" and problem.startswith("found unexpected"):
            return error.context_mark, "is no YAML: a quote begins here and does not end, expected one more"
        end = start if mark is None else start + mark.index
        if "cannot start any token" in problem and self._text[end : end + 1] == "\t":
            problem = "found a tab, expected spaces"
        if (blank := re.search(r"(?m)^ *\u00a0", self._text[start:end])) is not None:
            line = self._line + self._text.count("\n", start, start + blank.start()) + 1
            problem += f"; line {line} begins with a no-break space, expected spaces"
        return mark, f"is no YAML: {problem}"

    def _read_all(self) -> None:
        began = self._start
        latest: Document | None = None
        try:
            while type(event := self._next()) is not StreamEndEvent:
                if type(event) is not DocumentStartEvent or (document := self._document()) is None:
                    continue
                if latest is not None:
                    start: Any = event.start_mark
                    latest.text = self._text[began : self._start + start.index]
                    began = self._start + start.index
                    document.lines_before = self._line + start.line
                latest = document
                self._documents.found.append(document)
                if self._most is not None and len(self._documents.found) > self._most:
                    self._documents.complete = False
                    return
        finally:
            if latest is not None:
                latest.text = self._text[began:]

    def _document(self) -> Document | None:
        """Return the document that begins now, None where it holds nothing."""
        self._anchors, self._marks = {}, {}
        known = len(self._documents.problems)
        first = self._next()
        value = self._node(first, 1)
        if value is None:
            return None
        line, column = self._line + first.start_mark.line + 1, first.start_mark.column + 1
        whole = len(self._documents.problems) == known
        marks = (value, self._marks) if self._marks else None
        return Document(self._file, value, line, column, "", self._line, whole, marked, marks, self._line)

    def _node(self, event: Any, depth: int) -> Any:
        kind = type(event)
        if kind is AliasEvent:
            return self._alias(event, depth)
        self._count(event)
        before = self._nodes
        if kind is ScalarEvent:
            value = self._scalar(event)
            if event.anchor is not None:
                self._anchors[event.anchor] = value, 1, 0
            return value
        outside, self._deepest = self._deepest, depth
        if depth > MAX_DEPTH:
            self._refuse_depth(event)
        value = self._mapping(event, depth) if kind is MappingStartEvent else self._sequence(depth)
        if event.tag not in _PLAIN_TAGS:
            self._add(event, f"has the tag {shown(event.tag)}, expected none")
        if event.anchor is not None:
            self._anchors[event.anchor] = value, self._nodes - before + 1, self._deepest - depth
        self._deepest = max(outside, self._deepest)
        return value

    def _count(self, event: Any, more: int = 0) -> None:
        self._nodes += 1
        if self._nodes + more > MAX_NODES:
            raise _RefusedError(event, f"is one of more than {MAX_NODES} values, expected fewer in one file")

    def _refuse_depth(self, event: Any) -> None:
        raise _RefusedError(event, f"is nested deeper than {MAX_DEPTH} levels, expected fewer")

    def _mapping(self, start: Any, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        kept = self._marked_keys
        marks: dict[str | int, tuple[Any, Any]] | None = {} if kept is None or (kept and depth <= _OUTER) else None
        merged: list[Any] = []
        read, scalar, most = self._next, self._scalar, MAX_NODES - self._nodes
        while type(event := read()) is not MappingEndEvent:
            simple = type(event) is ScalarEvent and event.anchor is None
            key = intern(event.value) if simple else self._key(event, depth)
            inside = read()
            plain = type(inside) is ScalarEvent and inside.anchor is None
            value = scalar(inside) if plain else self._node(inside, depth + 1)
            if key == "<<" and type(event) is ScalarEvent and event.implicit[0]:
                merged.extend(value if isinstance(value, list) else [value])
                continue
            if key in found or len(found) > most:
                self._refuse_key(key, event, len(found))
            found[key] = value
            if marks is not None and (kept is None or key in kept):
                marks[key] = (event.start_mark, inside.start_mark)
        self._nodes += len(found)
        for value in merged:
            self._merge(value, found, marks, start)
        if marks is not None:
            self._marks[id(found)] = marks
        return found

    def _merge(self, source: Any, found: dict[str, Any], marks: Any, start: Any) -> None:
        """What a mapping says itself counts, then what is merged first. Source: yaml.org/type/merge.html."""
        if not isinstance(source, dict):
            self._add(start, "<< merges something that is no mapping, expected a mapping")
            return
        if marks is not None:
            marks |= {key: mark for key, mark in self._marks.get(id(source), {}).items() if key not in found}
        found |= {key: value for key, value in source.items() if key not in found}

    def _sequence(self, depth: int) -> list[Any]:
        found: list[Any] = []
        marks: dict[str | int, tuple[Any, Any]] | None = {} if self._marked_keys is None else None
        read, scalar, most = self._next, self._scalar, MAX_NODES - self._nodes
        while type(event := read()) is not SequenceEndEvent:
            if marks is not None:
                marks[len(found)] = (event.start_mark, event.start_mark)
            plain = type(event) is ScalarEvent and event.anchor is None
            found.append(scalar(event) if plain else self._node(event, depth + 1))
            if len(found) > most:
                self._count(event, len(found))
        self._nodes += len(found)
        if marks is not None:
            self._marks[id(found)] = marks
        return found

    def _refuse_key(self, key: str, event: Any, entries: int) -> None:
        self._count(event, entries)
        hint = "; a line --- separates two documents in one file" if key == "apiVersion" else ""
        self._add(event, f"{shown(key)} is given twice, expected once{hint}")

    def _key(self, event: Any, depth: int) -> str:
        """Return a key that is not just a scalar."""
        if type(event) is ScalarEvent:
            self._anchors[str(event.anchor)] = event.value, 1, 0
            return intern(event.value)
        key = self._node(event, depth + 1)
        if not isinstance(key, str):
            what = "a collection" if isinstance(key, dict | list) else "an alias of no text"
            self._add(event, f"a key is {what}, expected a text")
        return key if isinstance(key, str) else ""

    def _scalar(self, event: Any) -> Any:
        if event.tag is not None:
            return self._tagged(event)
        text = event.value
        if not event.implicit[0] or (text and text[0] not in TYPED_STARTS):
            return text
        return self._number(event, plain_value)

    def _number(self, event: Any, read: Callable[[str], Any]) -> Any:
        """Return a plain scalar as `read` does; None, and a problem, for a number that JSON could not hold.

        The problem does not quote it: it may be in a Secret.
        """
        try:
            value = read(event.value)
        except ValueError as error:
            self._add(event, str(error))
            return None
        if isinstance(value, float) and not math.isfinite(value):
            self._add(event, "is not finite, expected a finite number, or a text in quotes")
            return None
        if isinstance(value, int) and abs(value) > _LARGEST:
            self._add(event, TOO_LARGE)
            return None
        return value

    def _tagged(self, event: Any) -> Any:
        name = event.tag.removeprefix(_TAG)
        if event.tag == "!" or name == "str":
            return event.value
        if name in _TAGGED:
            return self._number(event, partial(_tagged_value, name))
        self._add(event, f"has the tag {shown(event.tag)}, expected none")
        return None

    def _alias(self, event: Any, depth: int) -> Any:
        known = self._anchors.get(event.anchor)
        if known is None:
            raise _RefusedError(
                event, f'"*{event.anchor}" names no anchor that ends before it, expected one; put a text in quotes'
            )
        value, nodes, levels = known
        self._nodes += nodes
        self._aliased += nodes
        if self._aliased > MAX_ALIASED_NODES:
            raise _RefusedError(event, f"aliases stand for more than {MAX_ALIASED_NODES} values, expected fewer")
        if depth + levels > MAX_DEPTH:
            self._refuse_depth(event)
        self._deepest = max(self._deepest, depth + levels)
        return value

    def _add(self, event: Any, message: str) -> None:
        self._tell(event.start_mark, message)
        if len(self._documents.problems) >= MAX_PROBLEMS:
            raise _RefusedError(event, f"is where problem {MAX_PROBLEMS} stands, expected fewer; the rest was not read")

    def _tell(self, mark: Any, message: str) -> None:
        line, column = (0, 0) if mark is None else (mark.line, mark.column)
        problem = Problem(self._file, self._line + line + 1, column + 1, "", message)
        self._documents.problems.append(problem)

    def _tell_unreadable(self, error: Any) -> None:
        """libyaml counts bytes where it refuses a character."""
        before = self._text[self._start :].encode()[: error.position].decode(errors="ignore")
        line, column = before.count("\n"), len(before) - before.rfind("\n")
        words = f"character #x{error.character:02x} is not allowed in YAML"
        self._documents.problems.append(Problem(self._file, self._line + line + 1, column, "", words))
