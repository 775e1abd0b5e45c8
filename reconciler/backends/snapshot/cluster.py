"""The clusters of a snapshot: each a folder of plain manifests, all of them opened together."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from reconciler.backends.backend import Backend, Opened
from reconciler.backends.decode import objects
from reconciler.backends.protocols import BUILT_IN_SCALES, NAMESPACES, Resource, VictimOrder
from reconciler.backends.snapshot.file_content import Key, ManifestEntry
from reconciler.backends.snapshot.file_lock import FileLock
from reconciler.backends.snapshot.files import METRICS_FILES, is_manifest_name
from reconciler.backends.snapshot.index import Index
from reconciler.backends.snapshot.manifest_store import Store
from reconciler.backends.snapshot.recorded_metrics import RecordedAnswers, SnapshotMetrics, read_metrics
from reconciler.backends.snapshot.recorder import ReadKey, SnapshotRecording, read_recording
from reconciler.errors import ClusterError, Problem, SnapshotError
from reconciler.model import ServiceAccount, Write
from reconciler.workload_kinds import SCALABLE_KINDS, WorkloadKind
from reconciler.yaml.files import is_inside, leads_out, path_in, plain_path, spelt

T = TypeVar("T")

_ATTEMPTS = 5


class SnapshotCluster:
    """One cluster made of the manifests in `store`.

    Files are read when something is asked, and again when they changed. `victim_order` is the controller's order: it
    says which pods go when replicas shrink. `recording` says what of a real cluster was read into the folder, and what
    could not be. It is `now` there, unless that says when it was. Every method raises SnapshotError where a manifest is
    malformed.
    """

    def __init__(
        self,
        store: Store,
        victim_order: VictimOrder,
        recording: SnapshotRecording | None = None,
        now: datetime | None = None,
    ) -> None:
        self.recording = recording
        self._name = store.cluster
        self._victim_order = victim_order
        self._store = store
        self._now = now
        self._guard = threading.RLock()
        self._is_being_read = False
        self._is_being_written = False

    @property
    def name(self) -> str:
        return self._name

    def begin(self) -> None:
        """Begin a reading: until its `end` all lists are of the files as they are now."""
        with self._read():
            self._is_being_read = True

    def end(self) -> None:
        """End the reading: whatever is asked next, the files are looked at again, and large ones are read again."""
        with self._guard:
            self._is_being_read = self._is_being_written = False
            self._store.let_go()

    def entries(self) -> tuple[ManifestEntry, ...]:
        """Return its objects as they are now; what is written later replaces entries and changes none."""
        with self._read() as index:
            return tuple(index.entries.values())

    def problems(self) -> list[Problem]:
        """Return all that is wrong with the manifests."""
        with self._guard, self._store.locked(exclusive=False):
            return self._store.refresh()

    def is_emptied(self) -> bool:
        """Return whether there are files and no object in any, where nothing says that just this was read."""
        if self.recording is not None:
            return False
        with self._read() as index:
            return self._store.has_files() and not index.entries

    def identity(self) -> str:
        """Return the uid of Namespace kube-system, or the name where there is no such manifest.

        Raises:
            ClusterError: it could not be read when the folder was recorded.
        """
        if self.recording is not None:
            self.recording.check_get(ReadKey.of(NAMESPACES, name="kube-system"))
        with self._read() as index:
            entry = index.entries.get(Key("", "Namespace", "", "kube-system"))
            return self._name if entry is None else index.uid_of(entry)

    def scale_kinds(self) -> tuple[WorkloadKind, ...]:
        """Return the built-in kinds and those of the definitions in the folder.

        Raises:
            ClusterError: they could not be read when the folder was recorded.
        """
        if self.recording is not None and self.recording.kinds is not None:
            raise self.recording.kinds
        with self._read() as index:
            custom = [scale for key, scale in index.scales.items() if key not in SCALABLE_KINDS]
            return (*BUILT_IN_SCALES, *sorted(custom, key=lambda scale: (scale.group, scale.kind)))

    def list(self, resource: Resource[T], *, namespace: str = "", labels: str = "") -> tuple[T, ...]:
        """Return all objects of `resource`, sorted by namespace and name; a kind that nothing defines gives ().

        Raises:
            ClusterError: it could not be listed when the folder was recorded, or was not.
        """
        if self.recording is not None:
            self.recording.check_list(ReadKey.of(resource, namespace=namespace, labels=labels))
        with self._read() as index:
            return index.objects(resource, namespace, labels)

    def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        """Return one object.

        Raises:
            NotFoundError: there is none. ClusterError: it could not be read when the folder was recorded.
        """
        if self.recording is not None:
            self.recording.check_get(ReadKey.of(resource, namespace=namespace, name=name))
        with self._read() as index:
            return index.one(resource, namespace, name)

    def user(self) -> str:
        """Return "": a folder knows nobody."""
        return ""

    def now(self) -> datetime:
        """Return what time it was when the folder was recorded, where that is known."""
        recorded = None if self.recording is None else self.recording.at
        return recorded or self._now or datetime.now(UTC)

    def secret(self, namespace: str, name: str, key: str) -> str:
        """Return one value of a Secret, one trailing line break stripped.

        Raises:
            NotFoundError: no such Secret or key. MalformedAnswerError: the value is no base64 of a text.
        """
        with self._read() as index:
            entry = index.entries.get(Key("", "Secret", namespace, name))
            secret = entry.decoded if entry is not None else None
            return objects.secret_value(secret, key, f"{self._name}/{namespace}/Secret/{name}")

    def write(self, write: Write) -> None:
        """Carry out `write`, and settle what follows from it: the object first, then those that its controllers change.

        Raises:
            StaleError: the object is not what the write expects. NotFoundError: it is gone.
            AlreadyExistsError: create, and one is there. RefusedError: what would be written is no such object.
        """
        from reconciler.backends.snapshot.write_effects import PlannedWrite

        with self._guard, self._store.locked(exclusive=True):
            self._is_being_written = False  # where it fails, somebody else may write too
            for _ in range(_ATTEMPTS):
                self._fresh(for_write=True)
                if self._store.commit(PlannedWrite(self._store.index, write, self._victim_order).changes()):
                    self._is_being_written = True
                    return
        raise ClusterError(f"{write.ref}: its file changes all the time, expected it to stay as it was read; try again")

    def writing_as(self, account: ServiceAccount) -> SnapshotCluster:  # noqa: ARG002 - files know no users
        """Return it as it is."""
        return self

    @contextmanager
    def _read(self) -> Iterator[Index]:
        with self._guard:
            if not self._is_being_read:
                with self._store.locked(exclusive=False):
                    self._fresh()
            yield self._store.index

    def _fresh(self, for_write: bool = False) -> None:
        """Read what changed; from a write to the next reading, what a look at the folders alone shows."""
        problems = self._store.refresh(folders_only=for_write or self._is_being_written, for_write=for_write)
        if problems:
            raise SnapshotError.of(problems)


def open_snapshot(
    directory: str | os.PathLike[str],
    clusters: Sequence[str],
    victim_order: VictimOrder,
    now: datetime | None = None,
    switches: tuple[WorkloadKind, ...] = (),
) -> Opened:
    """Open `clusters` over the folders of the same names in `directory`, where it is `now`, None: when it is asked.

    Answers to queries that were recorded for that time are as of now. `switches` are the kinds that the Fleet switches
    off in place of scaling them.

    A cluster without a folder has an `error`, and so has one whose files hold no object: an export that failed is no
    empty cluster; folders of others are left alone, with a warning.

    Raises:
        SnapshotError: no such directory, no folder in it, or malformed files, all of them.
    """
    top = plain_path(directory)
    folders = _folders(top)
    recorded, problems = read_metrics(top, None)
    backends: dict[str, Backend] = {}
    for name in clusters:
        if name not in folders:
            backends[name] = Backend(name, error=f"no folder {path_in(top, name)} in the snapshot")
            continue
        recording, found = read_recording(folders[name], name, top)
        cluster = SnapshotCluster(Store(folders[name], name, top, switches), victim_order, recording, now)
        found += cluster.problems()
        if not found and cluster.is_emptied():
            why = f"the files in {folders[name]} hold no object, expected what kubectl get prints"
            backends[name] = Backend(name, error=why)
            continue
        own, wrong = read_metrics(folders[name], name, top)
        backends[name] = Backend(
            name=name,
            cluster=cluster,
            metrics=SnapshotMetrics(name, recorded | own, now),
            make_lock=partial(FileLock, folders[name]),
            begin=cluster.begin,
            end=cluster.end,
        )
        problems += wrong + found
    if problems:
        raise SnapshotError.of(problems)
    warnings = tuple(_warnings(top, folders, clusters, recorded))
    return Opened(backends, lambda: warnings)


def _folders(top: str) -> dict[str, str]:
    try:
        shown = (name for name in os.listdir(top) if not name.startswith("."))
        names = sorted(name for name in shown if os.path.isdir(path_in(top, name)))
    except OSError as error:
        raise SnapshotError(f"{top}: {error.strerror}, expected a folder with a folder for each cluster") from error
    except ValueError as error:  # a NUL, or no Unicode
        raise SnapshotError(f"{top!r}: is no path, expected a folder with a folder for each cluster") from error
    if not names:
        raise SnapshotError(f"{top}: holds no folder, expected one for each cluster, named like it")
    home = os.path.realpath(top)
    outside = [name for name in names if not is_inside(path_in(top, name), home)]
    if outside:
        raise SnapshotError.of(Problem(spelt(path_in(top, name)), 1, 1, "", leads_out(home)) for name in outside)
    return {name: path_in(top, name) for name in names}


def _warnings(
    top: str, folders: Mapping[str, str], clusters: Sequence[str], recorded: RecordedAnswers
) -> Iterator[str]:
    for name in folders:
        if name not in clusters:
            yield f"{folders[name]}: no cluster of the Fleet is called {name}, the folder is ignored"
    for name in sorted({cluster for cluster, _ in recorded} - set(clusters)):
        yield f"{top}: metrics are recorded for {name}, which is no cluster of the Fleet; they are ignored"
    for name in sorted(os.listdir(top)):
        if is_manifest_name(name) and name not in METRICS_FILES and os.path.isfile(path_in(top, name)):
            yield f"{path_in(top, name)}: stands in no cluster's folder and is ignored"
