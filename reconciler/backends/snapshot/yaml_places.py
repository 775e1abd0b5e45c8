"""Where each value of a YAML or JSON text stands. Asked only to tell a person where something is wrong."""

from __future__ import annotations

from typing import Any

from yaml import YAMLError
from yaml._yaml import CParser
from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from reconciler.backends.decode.mismatches import Path

Places = dict[Path, tuple[int, int]]
"""Path -> (line, column), both counted from 0, in the text given; the path of a key ends with KEY."""

KEY = -1


def places(text: str) -> Places:
    """Return the place of every key and value of the first document of `text`, as far as it can be read."""
    found: Places = {}
    stack: list[_Open] = []
    try:
        parser = CParser(text)
        while (event := parser.get_event()) is not None:
            _visit(event, stack, found)
            if not stack and found:
                break
    except YAMLError:
        return found
    return found


def place_of(found: Places, path: Path) -> tuple[int, int]:
    """Return the place of `path`, or of the nearest value around it."""
    while path and path not in found:
        path = path[:-1]
    return found.get(path, (0, 0))


class _Open:
    """A collection whose end was not seen yet: its path, and the key or index that comes next."""

    __slots__ = ("index", "key", "path")

    def __init__(self, path: Path, is_list: bool) -> None:
        self.path = path
        self.index = 0 if is_list else -1
        self.key: str | None = None

    def take(self, event: Any) -> Path:
        """Return the path of `event`."""
        if self.index >= 0:
            self.index += 1
            return (*self.path, self.index - 1)
        if self.key is None:
            self.key = str(event.value) if type(event) is ScalarEvent else ""
            return (*self.path, self.key, KEY)
        path = (*self.path, self.key)
        self.key = None
        return path


def _visit(event: Any, stack: list[_Open], found: Places) -> None:
    kind = type(event)
    if kind in (MappingEndEvent, SequenceEndEvent):
        stack.pop()
        return
    if kind not in (MappingStartEvent, SequenceStartEvent, ScalarEvent, AliasEvent):
        return
    path = stack[-1].take(event) if stack else ()
    found.setdefault(path, (event.start_mark.line, event.start_mark.column))
    if kind in (MappingStartEvent, SequenceStartEvent):
        stack.append(_Open(path, kind is SequenceStartEvent))
