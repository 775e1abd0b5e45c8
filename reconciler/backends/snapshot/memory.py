"""A cluster of manifests in memory: what is written to it settles as in a folder, and changes no file."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from reconciler.backends.protocols import Resource, VictimOrder, workloads_of
from reconciler.backends.snapshot.cluster import SnapshotCluster
from reconciler.backends.snapshot.file_content import ManifestEntry, ManifestFile, entry_of, objects_in
from reconciler.backends.snapshot.index import Index
from reconciler.backends.snapshot.manifest_store import Changes, Store
from reconciler.backends.snapshot.recorder import SnapshotRecording
from reconciler.errors import NotFoundError, Problem, RefusedError, SnapshotError
from reconciler.model import ObjectRef, Workload, Write
from reconciler.workload_kinds import WorkloadKind
from reconciler.yaml.documents import Document

T = TypeVar("T")


class MemoryCluster(SnapshotCluster):
    """The cluster `name` made of `entries`, which are shared with whoever else has them and never changed.

    `changes` counts what was written so far.
    """

    def __init__(
        self,
        name: str,
        entries: Iterable[ManifestEntry],
        *,
        victim_order: VictimOrder,
        recording: SnapshotRecording | None = None,
        switches: tuple[WorkloadKind, ...] = (),
    ) -> None:
        super().__init__(_MemoryStore(name, entries, switches), victim_order, recording)
        self.changes = 0

    @classmethod
    def copy_of(
        cls,
        cluster: SnapshotCluster,
        victim_order: VictimOrder,
        entries: Iterable[ManifestEntry] | None = None,
        switches: tuple[WorkloadKind, ...] = (),
    ) -> MemoryCluster:
        """Return a copy of `cluster` as it is now, with these of its `entries` alone where they are given, and with
        `switches` as those of the Fleet.

        Raises:
            SnapshotError: its files are malformed.
        """
        return cls(
            cluster.name,
            cluster.entries() if entries is None else entries,
            victim_order=victim_order,
            recording=cluster.recording,
            switches=switches,
        )

    @classmethod
    def of_manifests(
        cls, name: str, manifests: Iterable[Any], victim_order: VictimOrder, switches: tuple[WorkloadKind, ...] = ()
    ) -> MemoryCluster:
        """Return a cluster made of `manifests`, values as they stand in a file; a List counts as what is in it.

        Raises:
            SnapshotError: what is wrong with them, all of it.
        """
        read = [
            _entry_of(found, version, kind)
            for manifest in manifests
            for found, _, (version, kind) in objects_in(manifest)
        ]
        wrong = [found for found in read if isinstance(found, Problem)]
        entries = (found for found in read if isinstance(found, ManifestEntry))
        made = cls(name, entries, victim_order=victim_order, switches=switches)
        wrong += made._store.index.problems
        if wrong:
            raise SnapshotError.of(wrong)
        return made

    def manifest(self, ref: ObjectRef) -> Any:
        """Return the manifest of an object.

        Raises:
            NotFoundError: it is not there.
        """
        entry = self._store.index.find(ref)
        if entry is None:
            raise NotFoundError(f"{ref}: is not there, expected to read it")
        return entry.file.value_of(entry)

    def workload(self, ref: ObjectRef) -> Workload | None:
        """Return an object with a scale, or a ScaledObject, as it is now; None where it is not there, or is neither."""
        index = self._store.index
        entry = index.find(ref)
        kind = None if entry is None else index.scales.get((entry.group, entry.kind))
        return None if entry is None or kind is None else index.model_object(workloads_of(kind), entry)

    def find(self, resource: Resource[T], ref: ObjectRef) -> T | None:
        """Return an object as it is now, also one that was not listed when it was recorded; None: there is none."""
        entry = self._store.index.find(ref)
        return None if entry is None else self._store.index.model_object(resource, entry)

    def write(self, write: Write) -> None:
        """Carry out `write` as a folder does; Events, which nothing reads, are not kept."""
        if write.verb != "event":
            super().write(write)
            self.changes += 1


class _MemoryStore(Store):
    """Manifests without files."""

    def __init__(self, cluster: str, entries: Iterable[ManifestEntry], switches: tuple[WorkloadKind, ...]) -> None:
        super().__init__("", cluster, switches=switches)
        self.index = Index(cluster, list(entries), switches)

    def locked(self, exclusive: bool) -> AbstractContextManager[None]:  # noqa: ARG002 - nobody else has it
        return nullcontext()

    def has_files(self) -> bool:
        return True

    def refresh(self, *, folders_only: bool = False, for_write: bool = False) -> list[Problem]:  # noqa: ARG002 - no files
        return []

    def commit(self, changes: Changes) -> bool:
        """Take in `changes`, whole or not at all.

        Raises:
            RefusedError: a manifest is none any more.
        """
        known = {key: self.index.entries[key] for key in changes if key in self.index.entries}
        checked, read = changes.checked or (None, None)
        fresh = [
            _placed(read, value) if read is not None and value is checked else _written(value, known.get(key))
            for key, value in changes.items()
            if value is not None
        ]
        for entry in known.values():
            self.index.drop(entry)
        for entry in fresh:
            self.index.put(entry)
        return True


def _written(value: Any, old: ManifestEntry | None) -> ManifestEntry:
    read = _entry_of(value, *(("", "") if old is None else (old.api_version, old.kind)))
    if not isinstance(read, ManifestEntry):
        raise RefusedError(str(read or "nothing for a cluster, expected a manifest"))
    return read


def _placed(entry: ManifestEntry, value: Any) -> ManifestEntry:
    """Return `entry`, which was read of `value`, with that as its file."""
    entry.document = Document("", value, 1, 1)
    entry.file = ManifestFile("", documents=[entry.document])
    return entry


def _entry_of(value: Any, api_version: str, kind: str) -> ManifestEntry | Problem | None:
    """Return a manifest as an entry of its own; what is wrong with it; None: nothing for a cluster."""
    read = entry_of(value, api_version, kind)
    if isinstance(read, ManifestEntry):
        return _placed(read, value)
    if read is None:
        return None
    words = "; ".join(f"{'.'.join(map(str, path))} {what}".strip() for path, what in read)
    return Problem("manifests", 1, 1, "", words)
