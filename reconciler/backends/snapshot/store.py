"""The manifests of one folder in memory, as fresh as the files, and the changes that go back into them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from reconciler.backends.decode.mismatches import dotted
from reconciler.backends.json_patch import equal
from reconciler.backends.snapshot.entries import Entry, Slot
from reconciler.backends.snapshot.files import REMOVED, ManifestFile, entry_at, read_file
from reconciler.backends.snapshot.folder import (
    Signature,
    read_bytes,
    remove_leftovers,
    replace_files,
    scan,
    signature_of,
)
from reconciler.backends.snapshot.index import Index
from reconciler.backends.snapshot.text import Placed
from reconciler.errors import Problem, RefusedError

_UNSAFE = re.compile(r"[^a-z0-9.-]+")
_SEPARATOR = "---\n"


class Changes:
    """What one request changes: new manifests, objects that go, and new ones with the file each goes to."""

    def __init__(self) -> None:
        self.changed: dict[int, tuple[Entry, Any]] = {}
        self.created: list[tuple[str, Any]] = []

    def value_of(self, entry: Entry) -> Any:
        """Return the manifest of `entry` as these changes leave it; REMOVED where it goes."""
        known = self.changed.get(id(entry))
        return entry.file.value_of(entry) if known is None else known[1]

    def put(self, entry: Entry, value: Any) -> None:
        self.changed[id(entry)] = (entry, value)

    def remove(self, entry: Entry) -> None:
        self.changed[id(entry)] = (entry, REMOVED)

    def create(self, path: str, value: Any) -> None:
        self.created.append((path, value))


class Store:
    """Reads files once, and again when they changed. The caller holds the folder."""

    def __init__(self, directory: Path, cluster: str) -> None:
        self.directory = directory
        self.index = Index(cluster, ())
        self._cluster = cluster
        self._files: dict[str, ManifestFile] = {}
        self._signatures: dict[str, Signature] | None = None
        self._problems: list[Problem] = []

    def refresh(self, clean: bool = False) -> list[Problem]:
        """Read what changed since the last time, and return all that is wrong.

        `clean` removes what crashes left behind.
        """
        found = scan(self.directory)
        if clean:
            remove_leftovers(found.leftovers)
        if found.files != self._signatures or found.problems or self._problems:
            self._problems = found.problems + self._read(found.files)
            self._signatures = found.files
        return self._problems

    def commit(self, changes: Changes) -> bool:
        """Write `changes` to the files, whole or not at all; False where a file is not what was read any more.

        Raises:
            ClusterError: the files cannot be written. RefusedError: a manifest cannot be written as it should be.
        """
        touched = {entry.file.path: entry.file for entry, _ in changes.changed.values()}
        for path, _ in changes.created:
            touched[path] = self._files.get(path) or ManifestFile(path, b"", [""])
        if not all(file.data == (read_bytes(path) if path in self._files else b"") for path, file in touched.items()):
            self._signatures = None
            self._files = {}
            return False
        edits = [_Edit(file, changes) for _, file in sorted(touched.items())]
        replace_files(self.directory, {edit.file.path: edit.content for edit in edits})
        for edit in edits:
            self._install(edit)
        return True

    def _read(self, files: dict[str, Signature]) -> list[Problem]:
        known = self._signatures or {}
        kept = {path: self._files[path] for path in files if path in self._files and known.get(path) == files[path]}
        if self._defines_kinds(path for path in self._files if path not in kept):
            kept = {}
        problems: list[Problem] = []
        self._files = {}
        for path in files:
            content = None if path in kept else read_bytes(path)
            if isinstance(content, Problem):
                problems.append(content)
                continue
            self._files[path] = kept[path] if content is None else read_file(path, content)
        self.index = Index(self._cluster, self._files.values())
        return problems + [one for file in self._files.values() for one in file.problems] + self.index.problems

    def _defines_kinds(self, paths: Iterable[str]) -> bool:
        """Whether other files may have to be read in another way, because a definition of kinds changed."""
        return any(entry.kind == "CustomResourceDefinition" for path in paths for entry in self._files[path].entries)

    def _install(self, edit: _Edit) -> None:
        """Follow in memory what was written."""
        file = edit.file
        for entry in edit.gone:
            self.index.drop(entry)
        if edit.content is None:
            self._files.pop(file.path, None)
            if self._signatures is not None:
                self._signatures.pop(file.path, None)
            return
        file.data, file.pieces, file.entries = edit.content, edit.pieces, edit.entries
        for entry in edit.fresh:
            entry.file = file
            self.index.put(entry)
        self._files[file.path] = file
        try:
            signature = signature_of(file.path)
        except OSError:
            self._signatures = None
            return
        if self._signatures is not None:
            self._signatures[file.path] = signature


class _Edit:
    """The text of one file after the changes, and the entries it then has. Nothing outside is changed yet."""

    def __init__(self, file: ManifestFile, changes: Changes) -> None:
        self.file = file
        self.gone: list[Entry] = []
        self.fresh: list[Entry] = []
        mine = {key: one for key, one in changes.changed.items() if one[0].file is file}
        self.pieces = file.edited(mine)
        created = [value for path, value in changes.created if path == file.path]
        slots = [self._append(value) for value in created]
        self.content: bytes | None = file.encoded(self.pieces)
        if any(entry.slot.path for entry, _ in mine.values()):
            self._read_again()
        else:
            self._follow(mine, list(zip(slots, created, strict=True)))
        if not self.entries and not read_file(file.path, self.content).entries:
            self.content = None

    def _append(self, value: Any) -> Slot:
        before = next((piece for piece in reversed(self.pieces) if piece), "")
        lead = _SEPARATOR if before else ""
        broken = "\n" if before and not before.endswith("\n") else ""
        slot = Slot(len(self.pieces), len(self.pieces), "document", lead=len(lead))
        self.pieces[-1] += broken + lead
        self.pieces += ["", ""]
        self.pieces[slot.piece] = self.file.written(self.pieces, slot, value)
        return slot

    def _follow(self, mine: dict[int, tuple[Entry, Any]], created: list[tuple[Slot, Any]]) -> None:
        """The entries stay as they are, but for those that were changed."""
        fresh: dict[int, Entry] = {}
        for key, (entry, value) in mine.items():
            self.gone.append(entry)
            if value is not REMOVED:
                fresh[key] = self._checked(entry.slot, value, entry.line, (entry.api_version, entry.kind))
        added = [self._checked(slot, value, 1, ("", "")) for slot, value in created]
        stay = [entry for entry in self.file.entries if id(entry) not in mine or id(entry) in fresh]
        self.entries = [fresh.get(id(entry), entry) for entry in stay] + added
        self.fresh = [*fresh.values(), *added]

    def _checked(self, slot: Slot, value: Any, line: int, inherited: tuple[str, str]) -> Entry:
        """What is written must be read as what was meant."""
        written = replace(self.file, pieces=self.pieces).piece_value(slot)
        read = entry_at(Placed(written, slot, line, inherited))
        if not isinstance(read, Entry):
            wrong = "; ".join(f"{dotted(path)} {words}".strip() for path, words in read or ())
            raise RefusedError(f"{self.file.path}: {wrong or 'no manifest'}")
        if not equal(written, value):
            raise RefusedError(f"{self.file.path}: {read.key} cannot be written as it should be; nothing was changed")
        return read

    def _read_again(self) -> None:
        """Objects that share a piece of text moved in it: the whole file is read anew."""
        content = self.file.encoded(self.pieces)
        again = read_file(self.file.path, content)
        if again.problems:
            raise RefusedError("\n".join(map(str, again.problems)))
        self.gone = list(self.file.entries)
        self.pieces, self.entries, self.fresh = again.pieces, again.entries, list(again.entries)


def file_of(directory: Path, namespace: str, kind: str, name: str) -> str:
    """Return the file of an object that is created: NAMESPACE-KIND-NAME.yaml in lower case and safe characters."""
    words = "-".join(part for part in (namespace, kind, name) if part).lower()
    safe = _UNSAFE.sub("-", words).strip(".-") or "object"
    return str(directory / f"{safe[:200]}.yaml")
