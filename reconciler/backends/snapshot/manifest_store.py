"""The manifests of one folder in memory, as fresh as the files, and the changes that go back into them.

An object that is written has a file of its own. A file with several objects (a List, what kubectl printed) is split
before the first of them changes: each object gets its own file, then the old one goes. After a crash in between an
object stands in both, and the next write splits the old file again.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Container, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from reconciler.backends.patched_values import equal
from reconciler.backends.snapshot.file_content import (
    Key,
    ManifestEntry,
    ManifestFile,
    digest_of,
    file_with,
    is_json,
    read_file,
)
from reconciler.backends.snapshot.files import (
    Signature,
    changed_at,
    check_writable,
    locked,
    remove_file,
    remove_temporary_files,
    replace_file,
    scan,
    signature_of,
)
from reconciler.backends.snapshot.index import Index
from reconciler.errors import ClusterError, Problem
from reconciler.workload_kinds import WorkloadKind
from reconciler.yaml.files import path_in, plain_path, read_bytes

_UNSAFE = r"[^a-z0-9.-]+"
_LARGE = 2**20
"""From so many bytes on it matters how much memory the objects of a folder take."""

Manifest = dict[str, Any]


class Changes(dict[Key, Manifest | None]):
    """What one request makes of objects, in the order of the writes; None: the object goes.

    `checked` is a manifest among them, and it as it was read to check it.
    """

    checked: tuple[Manifest, ManifestEntry] | None = None

    def manifest_of(self, entry: ManifestEntry) -> Manifest:
        """Return the manifest of `entry` as these changes leave it; of one that goes, as it was."""
        return self.get(entry.key) or entry.file.value_of(entry)


class Store:
    """Reads files once, and again when they changed. The caller holds the folder."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        cluster: str,
        root: str | None = None,
        switches: tuple[WorkloadKind, ...] = (),
    ) -> None:
        """`directory` is that of the cluster called `cluster`; links may lead anywhere below `root`, by default it.

        `switches` are the kinds that are switched off in place of being scaled.
        """
        self.directory = plain_path(directory)
        self.cluster = cluster
        self.switches = switches
        self.index = Index(cluster, (), switches)
        self._half_split: list[ManifestFile] = []
        self._root = root or self.directory
        self._files: dict[str, ManifestFile] = {}
        self._signatures: dict[str, Signature] = {}
        self._folders: dict[str, int] = {}  # when each was changed last, in nanoseconds
        self._problems: list[Problem] = []

    def locked(self, exclusive: bool) -> AbstractContextManager[None]:
        """Return what holds the folder, alone or together with other readers; see `locked` for what it raises."""
        return locked(self.directory, exclusive)

    def has_files(self) -> bool:
        """Return whether the folder held manifest files when it was read last."""
        return bool(self._signatures)

    def refresh(self, *, folders_only: bool = False, for_write: bool = False) -> list[Problem]:
        """Read what changed since the last time, and return all that is wrong.

        `folders_only`: a file changed in place is seen once it is to be written, and 2,000 writes in a folder of 2,000
        files do not look at each file each time. `for_write` removes what crashes left behind.
        """
        if folders_only and self._folders and not self._problems and self._folders == self._changed_at():
            return []
        found = scan(self.directory, self._root)
        if for_write:
            remove_temporary_files(self.directory, found.hidden)
        files = {path: signature_of(status) for path, status in found.files.items()}
        if not self._folders or files != self._signatures or found.problems or self._problems:
            self._problems = found.problems + self._read(files)
            self._signatures = files
        self._folders = dict.fromkeys({self.directory, *map(os.path.dirname, files)}, 0)
        self._folders = self._changed_at()
        return self._problems

    def let_go(self) -> None:
        """Forget the objects of a large folder of JSON; where anything more is asked it is read again.

        After a reading a run asks for the pods of some workloads, and for nothing else of many objects: a folder with
        pods is kept, and so is YAML, which takes long to read.
        """
        sizes = [size for _, size, _ in self._signatures.values()]
        is_large = sum(sizes) >= _LARGE and all(map(is_json, self._signatures))
        if is_large and not self.index.has_any(("", "Pod")):
            for file in self._files.values():
                file.entries = []  # they name the file: a circle, which only the collector would free
            self.index = Index(self.cluster, (), self.switches)
            self._forget()

    def _changed_at(self) -> dict[str, int]:
        return {folder: changed_at(folder) for folder in self._folders}

    def commit(self, changes: Changes) -> bool:
        """Write `changes`, each object whole; False where a file is not what was read any more, or was split.

        Raises:
            ClusterError: the files cannot be written. RefusedError: a manifest cannot be written as it should be.
        """
        known = {key: self.index.entries[key] for key in changes if key in self.index.entries}
        touched = {entry.file.path: entry.file for entry in known.values()}
        if any(file.digest != self._digest(path) for path, file in touched.items()):
            self._forget()
            return False
        shared = [file for file in touched.values() if not file.is_of_one] or self._half_split
        try:
            for file in tuple(shared):
                self._split(file)
        except ClusterError:
            self._forget()
            raise
        if shared:
            return False
        paths = {key: known[key].file.path if key in known else self._path_of(key) for key in changes}
        files = {key: None if value is None else file_with(paths[key], [value]) for key, value in changes.items()}
        if any(key not in known and os.path.lexists(path) for key, path in paths.items()):
            self._forget()
            return False
        check_writable(self.directory, paths.values())
        for key, written in files.items():
            self._install(paths[key], written, [known[key]] if key in known else [])
        return True

    def _forget(self) -> None:
        """Have all files read again before anything more is asked or written."""
        self._files, self._signatures, self._folders = {}, {}, {}

    def _split(self, file: ManifestFile) -> None:
        """Give each object of `file` a file of its own, unless it has one; what is for no cluster stays where it is."""
        targets: dict[str, ManifestEntry] = {}
        for entry in file.entries:
            if self.index.entries.get(entry.key) is entry:
                targets[self._path_of(entry.key, targets)] = entry
        check_writable(self.directory, [file.path, *targets])
        for path, entry in targets.items():
            self._install(path, file_with(path, [file.manifest_of(entry)]), [entry])
        self._install(file.path, file_with(file.path, file.others) if file.others else None, [])
        self._half_split = [other for other in self._half_split if other is not file]

    def _path_of(self, key: Key, taken: Container[str] = ()) -> str:
        """Return the file of an object that has none yet: a name that no other object has, nor is `taken`."""
        path = _file_of(self.directory, key)
        if path not in self._files and path not in taken:
            return path
        digest = hashlib.sha256("/".join(key).encode()).hexdigest()[:8]
        return f"{path.removesuffix('.yaml')}-{digest}.yaml"

    def _read(self, files: dict[str, Signature]) -> list[Problem]:
        known = self._signatures
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
        copied = _copied(self._files.values())
        found = [entry for file in self._files.values() for entry in file.entries]
        self._half_split = list({id(entry.file): entry.file for entry in found if id(entry) in copied}.values())
        self.index = Index(self.cluster, [entry for entry in found if id(entry) not in copied], self.switches)
        return problems + [problem for file in self._files.values() for problem in file.problems] + self.index.problems

    def _bytes(self, path: str) -> bytes | Problem:
        return read_bytes(path, self._root)

    def _digest(self, path: str) -> bytes | None:
        data = self._bytes(path)
        return None if isinstance(data, Problem) else digest_of(data)

    def _defines_kinds(self, paths: Iterable[str]) -> bool:
        """Whether other files may have to be read in another way, because a definition of kinds changed."""
        return any(entry.kind == "CustomResourceDefinition" for path in paths for entry in self._files[path].entries)

    def _install(self, path: str, file: ManifestFile | None, gone: Sequence[ManifestEntry]) -> None:
        """Write a file, None: it goes, and follow in memory: its objects are in place of `gone`."""
        if file is None:
            remove_file(self.directory, path)
            self._files.pop(path, None)
            self._signatures.pop(path, None)
        else:
            replace_file(self.directory, path, file.data)
            file.data = b""
            self._files[path], self._signatures[path] = file, signature_of(os.stat(path))
        folder = os.path.dirname(path)
        self._folders[folder] = changed_at(folder)
        for entry in gone:
            self.index.drop(entry)
        for entry in () if file is None else file.entries:
            self.index.put(entry)


def _copied(files: Collection[ManifestFile]) -> set[int]:
    """Return the entries, by their id, that also have a file of their own, which says the same: the split of the file
    that they share was interrupted.
    """
    shared = [entry for file in files if not file.is_of_one for entry in file.entries]
    own = {one.stated_key: one for file in files if shared and file.is_of_one for one in file.entries}
    twins = ((entry, own[entry.stated_key]) for entry in shared if entry.stated_key in own)
    return {id(one) for one, twin in twins if equal(one.file.manifest_of(one), twin.file.manifest_of(twin))}


def _file_of(directory: str, key: Key) -> str:
    """Return the file of an object: NAMESPACE-KIND-NAME.yaml in lower case and safe characters."""
    words = "-".join(part for part in (key.namespace, key.kind, key.name) if part).lower()
    safe = re.sub(_UNSAFE, "-", words).strip(".-") or "object"
    return path_in(directory, f"{safe[:200]}.yaml")
