"""The manifests of one folder in memory, as fresh as the files, and the changes that go back into them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reconciler.backends.decode.mismatches import FieldPath
from reconciler.backends.snapshot.folder import (
    Signature,
    remove_leftovers,
    replace_files,
    scan,
    signature_of,
)
from reconciler.backends.snapshot.index import Index
from reconciler.backends.snapshot.manifest_files import (
    FoundManifest,
    ManifestEntry,
    ManifestFile,
    entries_of,
    objects_in,
    read_file,
    with_type_meta,
)
from reconciler.errors import Problem, RefusedError
from reconciler.yaml.documents import Document
from reconciler.yaml.files import read_bytes

_UNSAFE = re.compile(r"[^a-z0-9.-]+")

REMOVED = object()
"""In place of a new value: the object goes."""


class Changes:
    """What one request changes: new manifests, objects that go, and new ones with the file each goes to."""

    def __init__(self) -> None:
        self.changed: dict[int, tuple[ManifestEntry, Any]] = {}
        self.created: list[tuple[str, Any]] = []

    def value_of(self, entry: ManifestEntry) -> Any:
        """Return the manifest of `entry` as these changes leave it; REMOVED where it goes."""
        known = self.changed.get(id(entry))
        return entry.file.value_of(entry) if known is None else known[1]

    def put(self, entry: ManifestEntry, value: Any) -> None:
        self.changed[id(entry)] = (entry, value)

    def remove(self, entry: ManifestEntry) -> None:
        self.changed[id(entry)] = (entry, REMOVED)

    def create(self, path: str, value: Any) -> None:
        self.created.append((path, value))


class Store:
    """Reads files once, and again when they changed. The caller holds the folder."""

    def __init__(self, directory: Path, cluster: str, root: Path) -> None:
        self.directory = directory
        self._root = str(root)
        self.index = Index(cluster, ())
        self._cluster = cluster
        self._files: dict[str, ManifestFile] = {}
        self._signatures: dict[str, Signature] | None = None
        self._problems: list[Problem] = []

    def has_files(self) -> bool:
        """Return whether the folder held manifest files when it was read last."""
        return bool(self._signatures)

    def refresh(self, clean: bool = False) -> list[Problem]:
        """Read what changed since the last time, and return all that is wrong.

        `clean` removes what crashes left behind.
        """
        found = scan(self.directory, self._root)
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
            touched[path] = self._files.get(path) or ManifestFile(path)
        if not all(path not in self._files or file.data == self._bytes(path) for path, file in touched.items()):
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
            content = None if path in kept else self._bytes(path)
            if isinstance(content, Problem):
                problems.append(content)
                continue
            self._files[path] = kept[path] if content is None else read_file(path, content)
        self.index = Index(self._cluster, self._files.values())
        return problems + [one for file in self._files.values() for one in file.problems] + self.index.problems

    def _bytes(self, path: str) -> bytes | Problem:
        return read_bytes(path, self._root)

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
        file.data, file.documents, file.entries = edit.content, edit.documents, edit.entries
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
    """One file after the changes: its documents, its entries, its bytes (None: it goes). Nothing is changed yet."""

    def __init__(self, file: ManifestFile, changes: Changes) -> None:
        self.file = file
        self.documents: list[Document] = []
        self.fresh: list[ManifestEntry] = []
        changed: dict[int, dict[FieldPath, Any]] = {}
        for entry, value in changes.changed.values():
            if entry.file is file:
                changed.setdefault(id(entry.document), {})[entry.path] = value
        for document in file.documents:
            if id(document) in changed:
                self._take(file.written(_objects_after(file.value(document), changed[id(document)]), document))
            else:
                self.documents.append(document)
        for path, value in changes.created:
            if path == file.path:
                self._take(file.written([value], None))
        self.gone = [entry for entry in file.entries if id(entry.document) in changed]
        self.entries = [entry for entry in file.entries if id(entry.document) not in changed] + self.fresh
        self.content = file.encoded(self.documents) if self.documents else None

    def _take(self, documents: Iterable[Document]) -> None:
        for document in documents:
            entries, problems = entries_of(document)
            if problems:
                raise RefusedError("\n".join(map(str, problems)))
            for entry in entries:
                entry.file = self.file
            self.documents.append(document)
            self.fresh += entries


def _objects_after(value: Any, changed: Mapping[FieldPath, Any]) -> list[dict[str, Any]]:
    """Return the objects of a document as the changes, by path, leave them; those of a List as they stand alone."""
    after = ((changed.get(path, inside), inherited) for inside, path, inherited in objects_in(value))
    return [with_type_meta(FoundManifest(inside, *inherited)) for inside, inherited in after if inside is not REMOVED]


def file_of(directory: Path, namespace: str, kind: str, name: str) -> str:
    """Return the file of an object that is created: NAMESPACE-KIND-NAME.yaml in lower case and safe characters."""
    words = "-".join(part for part in (namespace, kind, name) if part).lower()
    safe = _UNSAFE.sub("-", words).strip(".-") or "object"
    return str(directory / f"{safe[:200]}.yaml")
