"""YAML text -> values as JSON knows them, with the places of what a write may have to replace.

Plain scalars have the types of the YAML 1.2 core schema: 22:30, on, no and 2026-11-20 are texts, 010 is ten. Keys are
always texts. libyaml does the parsing; its events are used directly, because its composer recurses without a bound.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from yaml import MarkedYAMLError
from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from yaml.reader import ReaderError

from reconciler.backends.snapshot.faults import Fault
from reconciler.yaml_scalars import TYPED_STARTS, plain_value

MAX_DEPTH = 100
MAX_ALIASED_NODES = 1_000_000

_NEXT_DOCUMENT = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_MAX_SYNTAX_FAULTS = 20
_TAG = "tag:yaml.org,2002:"


@dataclass(frozen=True, slots=True)
class Span:
    """Where a mapping stands in the text: characters [start, end), its place, and whether it is in flow style."""

    start: int
    end: int
    line: int
    column: int
    flow: bool


@dataclass(slots=True)
class YamlDocument:
    """One document. `lead` is where it starts (its `---`), `items` the places of the mappings in a root `items` list.

    `plain` is False where anchors, aliases or directives tie its parts together, so that none can be replaced alone.
    """

    value: Any
    lead: int
    root: Span
    items: list[Span] = field(default_factory=list)
    plain: bool = True


def read_yaml(text: str) -> tuple[list[YamlDocument], list[Fault]]:
    """Return the documents of `text` that hold anything, and all that is wrong; a faulty document is left out."""
    documents: list[YamlDocument] = []
    faults: list[Fault] = []
    start = 0
    for _ in range(_MAX_SYNTAX_FAULTS):
        stopped_at = _Reader(text, start).read(documents, faults)
        following = _NEXT_DOCUMENT.search(text, stopped_at + 1) if stopped_at is not None else None
        if following is None:
            break
        start = following.start()
    return documents, faults


class _Refused(Exception):
    """The document cannot be read on."""

    def __init__(self, event: Any, message: str) -> None:
        super().__init__(message)
        self.mark = event.start_mark
        self.message = message


class _Reader:
    """Reads the documents of `text` from `start` on; lines and indexes it gives are those of the whole text."""

    def __init__(self, text: str, start: int) -> None:
        self._text = text
        self._start = start
        self._line = text.count("\n", 0, start)
        self._next: Callable[[], Any]
        self._last: Any
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._sizes: dict[int, int] = {}
        self._aliased = 0
        self._faults: list[Fault] = []
        self._items: list[Span] = []

    def read(self, documents: list[YamlDocument], faults: list[Fault]) -> int | None:
        """Add what is found; return the index at which reading stopped, None where everything was read."""
        try:
            self._next = CParser(self._text[self._start :] if self._start else self._text).get_event
            while type(event := self._next()) is not StreamEndEvent:
                if type(event) is DocumentStartEvent:
                    self._document(event, documents, faults)
        except _Refused as error:
            faults.append(self._fault(error.mark, error.message))
            return int(self._start + error.mark.index)
        except MarkedYAMLError as error:
            mark: Any = error.problem_mark or error.context_mark
            faults.append(self._fault(mark, f"{error.problem}, expected YAML"))
            return int(self._start + mark.index) if mark is not None else None
        except ReaderError as error:
            faults.append(self._unreadable(error))
        return None

    def _document(self, start: Any, documents: list[YamlDocument], faults: list[Fault]) -> None:
        self._faults, self._items, self._anchors, self._sizes = [], [], {}, {}
        self._aliased = 0
        self._last = event = self._next()
        value = self._node(event, 1)
        root = self._span(event)
        faults.extend(self._faults)
        if value is None or self._faults:
            return
        plain = not (self._anchors or start.version or start.tags)
        documents.append(YamlDocument(value, self._start + start.start_mark.index, root, self._items, plain))

    def _node(self, event: Any, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise _Refused(event, f"nested deeper than {MAX_DEPTH} levels, expected a manifest")
        kind = type(event)
        if kind is AliasEvent:
            return self._alias(event)
        if kind is ScalarEvent:
            self._last = event
            value = self._scalar(event)
        elif kind is MappingStartEvent:
            value = self._mapping(depth)
        else:
            value = self._sequence(depth)
        if kind is not ScalarEvent and event.tag not in (None, f"{_TAG}map", f"{_TAG}seq", "!"):
            self._add(event, f'tag "{event.tag}" is unknown here, expected none')
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, self._size(value))
        return value

    def _mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        merged: list[Any] = []
        read, scalar = self._next, self._scalar
        while type(event := read()) is not MappingEndEvent:
            key = self._key(event, depth)
            inside = read()
            if type(inside) is ScalarEvent and inside.anchor is None:
                self._last = inside
                value = scalar(inside)
            elif depth == 1 and key == "items" and type(inside) is SequenceStartEvent:
                value = self._listed(inside, depth + 1)
            else:
                value = self._node(inside, depth + 1)
            if key == "<<" and _is_plain(event):
                merged.extend(value if isinstance(value, list) else [value])
                continue
            if key in found:
                self._add(event, f'"{key}" is given twice, expected once')
            found[key] = value
        self._end(event)
        return self._merged(found, merged, event) if merged else found

    def _sequence(self, depth: int) -> list[Any]:
        found = []
        while type(event := self._next()) is not SequenceEndEvent:
            found.append(self._node(event, depth + 1))
        self._end(event)
        return found

    def _listed(self, start: Any, depth: int) -> list[Any]:
        """The list `items` of a root mapping: the place of each entry is kept."""
        found = []
        while type(event := self._next()) is not SequenceEndEvent:
            found.append(self._node(event, depth + 1))
            self._items.append(self._span(event))
        self._end(event)
        if start.anchor is not None:
            self._anchors[start.anchor] = (found, self._size(found))
        return found

    def _end(self, event: Any) -> None:
        """The end of a block has no width; that of a flow collection is the bracket."""
        if event.end_mark.index > event.start_mark.index:
            self._last = event

    def _key(self, event: Any, depth: int) -> str:
        if type(event) is ScalarEvent:
            self._last = event
            if event.anchor is not None:
                self._anchors[event.anchor] = (event.value, 1)
            return sys.intern(event.value)
        key = self._node(event, depth + 1)
        if isinstance(key, str):
            return key
        self._add(event, "a key is a collection, expected a text")
        return ""

    def _merged(self, found: dict[str, Any], merged: list[Any], event: Event) -> dict[str, Any]:
        """Source: yaml.org/type/merge.html. What the mapping says itself counts, then the first that is merged."""
        result: dict[str, Any] = {}
        for one in reversed(merged):
            if not isinstance(one, dict):
                self._add(event, "<< merges something that is no mapping, expected a mapping")
                continue
            result |= one
        return result | found

    def _scalar(self, event: Any) -> Any:
        text = event.value
        if event.tag is not None:
            return self._tagged(event)
        if not event.implicit[0]:
            return text
        if text and text[0] not in TYPED_STARTS:
            return text
        try:
            return plain_value(text)
        except ValueError as error:
            self._add(event, f"a number has {error}, expected a number or a text in quotes")
            return None

    def _tagged(self, event: Any) -> Any:
        name = event.tag.removeprefix(_TAG)
        if event.tag == "!" or name == "str":
            return event.value
        if name not in ("null", "bool", "int", "float"):
            self._add(event, f'tag "{event.tag}" is unknown here, expected none')
            return None
        try:
            return float(event.value) if name == "float" else plain_value(event.value)
        except ValueError:
            self._add(event, f'"{event.value[:40]}" is no {name}, expected what its tag says')
            return None

    def _alias(self, event: Any) -> Any:
        self._last = event
        if event.anchor not in self._anchors:
            raise _Refused(event, f'"*{event.anchor}" names no anchor before it, expected one')
        value, size = self._anchors[event.anchor]
        self._aliased += size
        if self._aliased > MAX_ALIASED_NODES:
            raise _Refused(event, f"aliases stand for more than {MAX_ALIASED_NODES} nodes, expected fewer")
        return value

    def _size(self, value: Any) -> int:
        """Return the nodes of `value` with its aliases written out; what was counted before is not counted again."""
        if not isinstance(value, dict | list):
            return 1
        if id(value) not in self._sizes:
            inside = value.values() if isinstance(value, dict) else value
            self._sizes[id(value)] = 1 + sum(self._size(one) for one in inside)
        return self._sizes[id(value)]

    def _span(self, event: Any) -> Span:
        start = event.start_mark
        return Span(
            start=self._start + start.index,
            end=self._start + max(self._last.end_mark.index, start.index),
            line=self._line + start.line + 1,
            column=start.column + 1,
            flow=bool(getattr(event, "flow_style", False)),
        )

    def _add(self, event: Event, message: str) -> None:
        self._faults.append(self._fault(event.start_mark, message))

    def _fault(self, mark: Any, message: str) -> Fault:
        if mark is None:
            return Fault(self._line + 1, 1, "", message)
        return Fault(self._line + mark.line + 1, mark.column + 1, "", message)

    def _unreadable(self, error: ReaderError) -> Fault:
        """libyaml counts bytes where it refuses a character."""
        before = self._text[self._start :].encode()[: error.position].decode(errors="ignore")
        line = before.count("\n")
        column = len(before) - (before.rfind("\n") + 1)
        return Fault(
            self._line + line + 1, column + 1, "", f"character #x{error.character:02x} is not allowed, expected text"
        )


def _is_plain(event: Any) -> bool:
    return type(event) is ScalarEvent and not event.style
