"""The text of a file cut into pieces: one for each object that can be replaced alone, and what is between them."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from reconciler.backends.decode.decoders import decoder_of
from reconciler.backends.snapshot.entries import Slot, is_list, objects_in
from reconciler.backends.snapshot.faults import Fault
from reconciler.backends.snapshot.yaml_reader import Span, YamlDocument, read_yaml

_REST_OF_LINE = re.compile("[^\n\r\x85\u2028\u2029]*(?:\r\n|[\n\r\x85\u2028\u2029])?")
_LINE_BREAKS = "\n\r\x85\u2028\u2029"
_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BETWEEN_JSON_ITEMS = re.compile(r"\s*,\s*")


@dataclass(frozen=True, slots=True)
class Placed:
    """A value of the file that is an object, its place, and what its list says of its apiVersion and kind."""

    value: Any
    slot: Slot
    line: int
    inherited: tuple[str, str]


@dataclass(slots=True)
class CutText:
    """`pieces` joined are the text: gaps at even indexes, objects or whole documents at odd ones."""

    pieces: list[str]
    placed: list[Placed]
    faults: list[Fault]


def decoded_text(data: bytes) -> tuple[str, str]:
    """Return the text of `data` without its byte order mark, and its encoding.

    Raises:
        UnicodeDecodeError: the bytes are none.
    """
    for mark, codec in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(codec), codec
    return data.decode("utf-8"), "utf-8"


def bom_of(data: bytes) -> bytes:
    """Return the byte order mark that `data` starts with, b"" for none."""
    return next((mark for mark, _ in _BOMS if data.startswith(mark)), b"")


def cut_yaml(text: str) -> CutText:
    """Return a YAML file cut up; objects of lists that anchors tie together stay one piece."""
    documents, faults = read_yaml(text)
    cutter = _Cutter(text)
    for number, document in enumerate(documents):
        if _is_splittable(document):
            cutter.take_items(document, number)
        else:
            cutter.take_whole(document, number)
    return CutText(cutter.pieces(), cutter.placed, faults)


def _is_splittable(document: YamlDocument) -> bool:
    if not (document.plain and is_list(document.value)):
        return False
    items = document.value.get("items")
    return (
        isinstance(items, list)
        and len(items) == len(document.items)
        and all(isinstance(item, dict) and not is_list(item) for item in items)
    )


class _Cutter:
    def __init__(self, text: str) -> None:
        self._text = text
        self._cuts: list[tuple[int, int]] = []
        self.placed: list[Placed] = []

    def take_items(self, document: YamlDocument, number: int) -> None:
        found = objects_in(document.value)
        for span, (value, _, inherited) in zip(document.items, found, strict=True):
            style = "flow" if span.flow or document.root.flow else "block"
            slot = Slot(self._cut(span, style), number, style, span.column - 1)
            self.placed.append(Placed(value, slot, span.line, inherited))

    def take_whole(self, document: YamlDocument, number: int) -> None:
        root = document.root
        piece = self._cut(root, "document")
        for value, path, inherited in objects_in(document.value):
            slot = Slot(piece, number, "document", root.column - 1, root.start - document.lead, path)
            self.placed.append(Placed(value, slot, root.line, inherited))

    def pieces(self) -> list[str]:
        return _pieces(self._text, self._cuts)

    def _cut(self, span: Span, style: str) -> int:
        """A block goes on to the end of its last line, so that a comment behind it goes with it."""
        end = span.end
        if style != "flow" and self._text[end - 1 : end] not in tuple(_LINE_BREAKS):
            rest = _REST_OF_LINE.match(self._text, end)
            end = rest.end() if rest is not None else end
        self._cuts.append((span.start, end))
        return 2 * len(self._cuts) - 1


class _JsonHeader(msgspec.Struct):
    kind: Any = None
    metadata: Any = None
    items: list[msgspec.Raw] | None = None


def cut_json(text: str) -> CutText:
    """Return a JSON file cut up."""
    if not text.strip():
        return CutText([text], [], [])
    try:
        return _cut_json(text)
    except msgspec.ValidationError:
        return CutText([text], [], [Fault(1, 1, "", "is no mapping, expected a manifest")])
    except RecursionError:
        return CutText([text], [], [Fault(1, 1, "", "is nested too deeply, expected a manifest")])
    except msgspec.DecodeError as error:
        return CutText([text], [], [_json_fault(text, str(error))])


def _cut_json(text: str) -> CutText:
    data = text.encode()
    raw = decoder_of(_JsonHeader).decode(data).items
    cuts = _item_cuts(text, raw) if raw is not None else None
    if raw is None or cuts is None:
        return _whole_json(text, msgspec.json.decode(data))
    header = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    outside = {key: msgspec.json.decode(value) for key, value in header.items() if key != "items"}
    values = [msgspec.json.decode(item) for item in raw]
    whole = outside | {"items": values}
    if not is_list(whole) or any(is_list(value) for value in values):
        return _whole_json(text, whole)
    lines = _Lines(text)
    placed = [
        Placed(value, Slot(2 * index + 1, 0, "json"), lines.line(start), inherited)
        for index, ((start, _), (value, _, inherited)) in enumerate(zip(cuts, objects_in(whole), strict=True))
    ]
    return CutText(_pieces(text, cuts), placed, [])


def _whole_json(text: str, value: Any) -> CutText:
    start = len(text) - len(text.lstrip())
    placed = [
        Placed(found, Slot(1, 0, "json", 0, 0, path), text.count("\n", 0, start) + 1, inherited)
        for found, path, inherited in objects_in(value)
    ]
    return CutText([text[:start], text[start:], ""], placed, [])


def _item_cuts(text: str, raw: Sequence[msgspec.Raw]) -> list[tuple[int, int]] | None:
    """Return where the items stand; None where the text between them is not what it must be then."""
    cuts: list[tuple[int, int]] = []
    for item in raw:
        words = bytes(item).decode()
        start = text.find(words, cuts[-1][1] if cuts else 0)
        if start < 0 or (cuts and not _BETWEEN_JSON_ITEMS.fullmatch(text, cuts[-1][1], start)):
            return None
        cuts.append((start, start + len(words)))
    if cuts and not text[: cuts[0][0]].rstrip().endswith("["):
        return None
    return cuts


def _pieces(text: str, cuts: Sequence[tuple[int, int]]) -> list[str]:
    found: list[str] = []
    done = 0
    for start, end in cuts:
        found += (text[done:start], text[start:end])
        done = end
    return [*found, text[done:]]


class _Lines:
    """The lines of growing positions."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = 1
        self._seen = 0

    def line(self, position: int) -> int:
        self._line += self._text.count("\n", self._seen, position)
        self._seen = position
        return self._line


def _json_fault(text: str, said: str) -> Fault:
    """msgspec names a byte; the standard library names line and column."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return Fault(error.lineno, error.colno, "", f"{error.msg}, expected JSON")
    except RecursionError:
        return Fault(1, 1, "", "is nested too deeply, expected a manifest")
    return Fault(1, 1, "", f"{said}, expected JSON")
