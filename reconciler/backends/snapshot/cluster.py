"""`Cluster` over a folder of plain manifests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from reconciler.backends.decode.objects import secret_value
from reconciler.backends.protocols import BUILT_IN_SCALES, NAMESPACES, Resource, VictimOrder
from reconciler.backends.snapshot.folder import check_finished, finish, locked
from reconciler.backends.snapshot.index import Index
from reconciler.backends.snapshot.manifest_files import Key, ManifestEntry
from reconciler.backends.snapshot.object_store import Store
from reconciler.backends.snapshot.recorder import ReadKey, Recording
from reconciler.backends.snapshot.writes import PlannedWrite
from reconciler.errors import ClusterError, Problem, SnapshotError
from reconciler.labels import parse_label_selector
from reconciler.model import ScaleKind, Write

T = TypeVar("T")

_ATTEMPTS = 5


class SnapshotCluster:
    """One cluster made of the manifests in `directory`, called `name`.

    Files are read when something is asked, and again when they changed. `victim_order` is the controller's order: it
    says which pods go when replicas shrink. `recording` says what of a real cluster was read into the folder, and what
    could not be. Links may lead anywhere below `root`, by default the directory. Every method raises SnapshotError
    where a manifest is malformed; all but `write` where a change was interrupted, which a write finishes.
    """

    def __init__(
        self,
        directory: str | Path,
        name: str,
        *,
        victim_order: VictimOrder,
        recording: Recording | None = None,
        root: str | Path | None = None,
    ) -> None:
        self._directory = Path(directory)
        self._name = name
        self._victim_order = victim_order
        self._store = Store(self._directory, name, Path(root or directory))
        self._recording = recording
        self._guard = threading.RLock()

    @property
    def name(self) -> str:
        return self._name

    @property
    def recording(self) -> Recording | None:
        return self._recording

    def entries(self) -> tuple[ManifestEntry, ...]:
        """Return its objects as they are now; what is written later replaces entries and changes none."""
        with self._read() as index:
            return tuple(index.entries.values())

    def problems(self) -> list[Problem]:
        """Return all that is wrong with the manifests."""
        with self._guard, self._held(exclusive=False):
            return self._store.refresh()

    def is_emptied(self) -> bool:
        """Return whether there are files and no object in any, where nothing says that just this was read."""
        if self._recording is not None:
            return False
        with self._read() as index:
            return self._store.has_files() and not index.entries

    def identity(self) -> str:
        """Return the uid of Namespace kube-system, or the name where there is no such manifest.

        Raises:
            ClusterError: it could not be read when the folder was recorded.
        """
        if self._recording is not None:
            self._recording.check_get(ReadKey.of(NAMESPACES, name="kube-system"))
        with self._read() as index:
            entry = index.entries.get(Key("", "Namespace", "", "kube-system"))
            return self._name if entry is None else index.uid_of(entry)

    def scale_kinds(self) -> tuple[ScaleKind, ...]:
        """Return the built-in kinds and those of the definitions in the folder.

        Raises:
            ClusterError: they could not be read when the folder was recorded.
        """
        if self._recording is not None and self._recording.kinds is not None:
            raise self._recording.kinds
        with self._read() as index:
            custom = [scale for scale in index.scales.values() if scale not in BUILT_IN_SCALES]
            return (*BUILT_IN_SCALES, *sorted(custom, key=lambda scale: (scale.group, scale.kind)))

    def list(self, resource: Resource[T], *, namespace: str = "", labels: str = "") -> tuple[T, ...]:
        """Return all objects of `resource`, sorted by namespace and name; a kind that nothing defines gives ().

        Raises:
            ClusterError: it could not be listed when the folder was recorded, or was not.
        """
        if self._recording is not None:
            self._recording.check_list(ReadKey.of(resource, namespace=namespace, labels=labels))
        selector = parse_label_selector(labels)
        with self._read() as index:
            return tuple(noun for found, noun in index.nouns(resource, namespace) if selector.matches(found))

    def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Return one object.

        Raises:
            NotFoundError: there is none. ClusterError: it could not be read when the folder was recorded.
        """
        if self._recording is not None:
            self._recording.check_get(ReadKey.of(resource, namespace=namespace, name=name))
        with self._read() as index:
            return index.one(resource, namespace, name)

    def secret(self, namespace: str, name: str, key: str) -> str:
        """Return one value of a Secret, one trailing line break stripped.

        Raises:
            NotFoundError: no such Secret or key. MalformedAnswerError: the value is no base64 of a text.
        """
        with self._read() as index:
            entry = index.entries.get(Key("", "Secret", namespace, name))
            secret = entry.decoded if entry is not None else None
            return secret_value(secret, key, f"{self._name}/{namespace}/Secret/{name}")

    def write(self, write: Write) -> None:
        """Carry out `write`, whole or not at all, and settle what follows from it.

        Raises:
            StaleError: the object is not what the write expects. NotFoundError: it is gone.
            AlreadyExistsError: create, and one is there. RefusedError: what would be written is no such object.
        """
        with self._guard, self._held(exclusive=True):
            for _ in range(_ATTEMPTS):
                self._fresh(clean=True)
                writing = PlannedWrite(self._directory, self._store.index, write, self._victim_order)
                if self._store.commit(writing.changes):
                    return
        raise ClusterError(f"{write.ref}: its file changes all the time, expected it to stay as it was read; try again")

    @contextmanager
    def _read(self) -> Iterator[Index]:
        with self._guard:
            with self._held(exclusive=False):
                self._fresh()
            yield self._store.index

    def _fresh(self, clean: bool = False) -> None:
        problems = self._store.refresh(clean)
        if problems:
            raise SnapshotError.of(problems)

    @contextmanager
    def _held(self, exclusive: bool) -> Iterator[None]:
        """Hold the folder; a writer first finishes a change that a crash interrupted."""
        with locked(self._directory, exclusive):
            if exclusive:
                finish(self._directory)
            else:
                check_finished(self._directory)
            yield
