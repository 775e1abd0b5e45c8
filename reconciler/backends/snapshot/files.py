"""A manifest file as it was read, and how its text changes when an object in it does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from reconciler.backends.decode.mismatches import Path as FieldPath
from reconciler.backends.decode.mismatches import dotted
from reconciler.backends.snapshot.entries import Entry, Found, Slot, entry_of
from reconciler.backends.snapshot.faults import Fault
from reconciler.backends.snapshot.text import CutText, Placed, bom_of, cut_json, cut_yaml, decoded_text
from reconciler.backends.snapshot.yaml_places import place_of, places
from reconciler.backends.snapshot.yaml_reader import read_yaml
from reconciler.backends.snapshot.yaml_writer import block_text, flow_text
from reconciler.errors import Problem, RefusedError

REMOVED = object()
"""In place of a new value: the object goes."""

_DASH = re.compile(r"[ ]*-(?:[ \t]*(?:#[^\n]*)?\r?\n)*[ \t]*$")
_COMMA_BEFORE = re.compile(r",((?:\s|#[^\n]*)*)$")
_COMMA_AFTER = re.compile(r"^((?:\s|#[^\n]*)*),")
_JSON_INDENT = re.compile(r'\n([ \t]+)"')


@dataclass
class ManifestFile:
    """What stood in a file when it was read. `pieces` joined are its text."""

    path: str
    data: bytes
    pieces: list[str] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    encoding: str = "utf-8"
    newline: str = "\n"

    @property
    def is_json(self) -> bool:
        return self.path.lower().endswith(".json")

    def value_of(self, entry: Entry) -> Any:
        """Return the whole manifest of `entry`, read from its text."""
        return _inside(self.piece_value(entry.slot), entry.slot.path)

    def piece_value(self, slot: Slot) -> Any:
        """Return what the piece of `slot` holds: a manifest, or a whole list."""
        text = self.pieces[slot.piece]
        if slot.style == "json":
            return msgspec.json.decode(text.encode())
        documents, _ = read_yaml(" " * slot.column + text)
        if len(documents) != 1:
            raise RefusedError(f"{self.path}: cannot be changed because of its YAML directives, expected none")
        return documents[0].value

    def edited(self, changes: Mapping[int, tuple[Entry, Any]]) -> list[str]:
        """Return the pieces after `changes`: id of the entry -> entry and its new manifest, or REMOVED."""
        pieces = list(self.pieces)
        whole: dict[int, list[tuple[Entry, Any]]] = {}
        for entry, value in changes.values():
            if entry.slot.path:
                whole.setdefault(entry.slot.piece, []).append((entry, value))
            elif value is REMOVED:
                self._take_out(pieces, entry.slot)
            else:
                pieces[entry.slot.piece] = self.written(pieces, entry.slot, value)
        for inside in whole.values():
            slot = inside[0][0].slot
            value = self.piece_value(slot)
            for entry, changed in sorted(inside, key=lambda one: _order(one[0].slot.path), reverse=True):
                value = _with(value, entry.slot.path, changed)
            pieces[slot.piece] = self.written(pieces, slot, value)
        self._mark_empty_lists(pieces)
        return pieces

    def encoded(self, pieces: list[str]) -> bytes:
        """Return the bytes of the file with `pieces`, in its own encoding and with its byte order mark."""
        return bom_of(self.data) + "".join(pieces).encode(self.encoding)

    def written(self, pieces: list[str], slot: Slot, value: Any) -> str:
        """Return `value` as the text of the piece of `slot`, to stand behind the text that `pieces` have before it."""
        if slot.style == "json":
            return self._json_text(pieces, slot, value)
        if slot.style == "flow":
            return flow_text(value)
        before = pieces[slot.piece - 1].rpartition("\n")[2]
        starts_line = slot.style == "block" or not before.strip()
        indent = slot.column if starts_line else 0
        lines = block_text(value).rstrip("\n").split("\n")
        text = ("" if starts_line else "\n") + lines[0] + "\n"
        text += "".join(f"{' ' * indent if line else ''}{line}\n" for line in lines[1:])
        return text.replace("\n", self.newline)

    def _json_text(self, pieces: list[str], slot: Slot, value: Any) -> str:
        """Return JSON in the layout of the file, judged by its first indented key."""
        found = _JSON_INDENT.search("".join(self.pieces[:2]))
        if found is None:
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, indent=found[1])
        margin = pieces[slot.piece - 1].rpartition("\n")[2]
        return text.replace("\n", "\n" + margin[: len(margin) - len(margin.lstrip())])

    def _take_out(self, pieces: list[str], slot: Slot) -> None:
        pieces[slot.piece] = ""
        own = slot.piece - 1
        if slot.style == "block":
            pieces[own] = _DASH.sub("", pieces[own])
        elif slot.style == "document":
            pieces[own] = pieces[own][: len(pieces[own]) - slot.lead] if slot.lead else pieces[own]
        else:
            _take_comma_out(pieces, slot.piece)

    def _mark_empty_lists(self, pieces: list[str]) -> None:
        """A block list whose last entry went is written `[]`."""
        left = {
            entry.slot.document for entry in self.entries if entry.slot.style == "block" and pieces[entry.slot.piece]
        }
        for entry in self.entries:
            slot = entry.slot
            if slot.style == "block" and slot.document not in left:
                pieces[slot.piece] = " " * slot.column + "[]\n"
                left.add(slot.document)


def _take_comma_out(pieces: list[str], piece: int) -> None:
    """Remove one comma beside a removed entry, past others that were removed before it."""
    before, after = piece - 1, piece + 1
    while before > 1 and not pieces[before].strip() and not pieces[before - 1]:
        before -= 2
    while after < len(pieces) - 2 and not pieces[after].strip() and not pieces[after + 1]:
        after += 2
    if _COMMA_BEFORE.search(pieces[before]):
        pieces[before] = _COMMA_BEFORE.sub(r"\1", pieces[before])
    else:
        pieces[after] = _COMMA_AFTER.sub(r"\1", pieces[after])


def read_file(path: str, data: bytes) -> ManifestFile:
    """Return the manifests in `data`, the content of `path`, with everything that is wrong with them."""
    try:
        text, encoding = decoded_text(data)
    except UnicodeDecodeError as error:
        return ManifestFile(path, data, problems=[_undecodable(path, data, error)])
    found = ManifestFile(path, data, encoding=encoding)
    cut = cut_json(text) if found.is_json else cut_yaml(text)
    return filled(found, cut)


def filled(file: ManifestFile, cut: CutText) -> ManifestFile:
    """Return `file` with what `cut` holds."""
    file.pieces = cut.pieces
    file.newline = "\r\n" if any("\r\n" in piece for piece in cut.pieces[:2]) else "\n"
    file.problems = [fault.of(file.path) for fault in cut.faults]
    for placed in cut.placed:
        read = entry_at(placed)
        if isinstance(read, Entry):
            read.file = file
            file.entries.append(read)
        elif read is not None:
            file.problems += problems_at(file, placed.slot, placed.line, read)
    return file


def entry_at(placed: Placed) -> Entry | list[tuple[FieldPath, str]] | None:
    """Return the entry of one placed value, or what is wrong with it."""
    version, kind = placed.inherited
    return entry_of(Found(placed.value, version, kind, placed.line), placed.slot)


def problems_at(file: ManifestFile, slot: Slot, line: int, wrong: Sequence[tuple[FieldPath, str]]) -> list[Problem]:
    """Return what is wrong with the object at `slot` of `file`, which starts at `line`, with lines and columns."""
    before = file.pieces[slot.piece - 1].rpartition("\n")[2]
    known = places(" " * len(before) + file.pieces[slot.piece])
    found = []
    for inside, words in wrong:
        down, column = place_of(known, (*slot.path, *inside))
        found.append(Fault(line + down, column + 1, dotted(inside), words).of(file.path))
    return found


def _undecodable(path: str, data: bytes, error: UnicodeDecodeError) -> Problem:
    before = data[: error.start]
    column = error.start - (before.rfind(b"\n") + 1)
    return Problem(
        path, before.count(b"\n") + 1, column + 1, "", f"byte #x{data[error.start]:02x} is no UTF-8, expected text"
    )


def _order(path: FieldPath) -> tuple[int, ...]:
    return tuple(key for key in path if isinstance(key, int))


def _inside(value: Any, path: FieldPath) -> Any:
    for key in path:
        value = value[key]
    return value


def _with(value: Any, path: FieldPath, changed: Any) -> Any:
    """Return `value` with `changed` at `path` of dictionaries and lists."""
    if not path:
        return changed
    key, rest = path[0], path[1:]
    inside = _with(value[key], rest, changed)
    if isinstance(value, dict):
        return {**value, key: inside}
    assert isinstance(key, int)
    return [*value[:key], *([] if inside is REMOVED else [inside]), *value[key + 1 :]]
