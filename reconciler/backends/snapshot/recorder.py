"""What is read of clusters is recorded, and written down as a snapshot. `recording.yaml` is beside the manifests.

With it the folder says what is unknown: what could not be read, and why, and what was not read at all.

    at: 2026-11-20T15:40:00Z                        # when; absent: not known
    kinds: {error: Unreachable, message: "..."}     # only where the cluster did not say what it serves
    read:
      - resource: deployments.apps                  # a list of all namespaces
      - {resource: pods, namespace: shop}           # of one
      - {resource: namespaces, name: kube-system}   # one object
      - {resource: nodes, error: Forbidden, message: "east: list nodes: forbidden (...), expected ..."}
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from reconciler.backends.decode.values import Instant, NonEmptyText, Wire, datetime_of, instant
from reconciler.backends.protocols import (
    BUILT_IN_SCALES,
    CONFIG_MAPS,
    NAMESPACES,
    OUR_CONFIG_MAPS,
    MetricsSource,
    Resource,
)
from reconciler.backends.snapshot import recorded_manifests
from reconciler.backends.snapshot.files import RECORDING_FILE, read_side_file
from reconciler.backends.snapshot.recorded_metrics import one_spaced, result_value
from reconciler.errors import ClusterError, MalformedAnswerError, Problem
from reconciler.model import QueryAnswer
from reconciler.workload_kinds import WorkloadKind
from reconciler.yaml import writer

if TYPE_CHECKING:
    from reconciler.backends.kubernetes.cluster import KubernetesCluster

_ENDING = "Error"


class ReadKey(Struct, frozen=True, order=True):
    """What was asked for: a list, or with `name` one object."""

    resource: NonEmptyText
    namespace: str = ""
    name: str = ""
    labels: str = ""

    @classmethod
    def of(cls, resource: Resource[Any], *, namespace: str = "", name: str = "", labels: str = "") -> "ReadKey":
        full = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        return cls(full, namespace, name, labels)

    def __str__(self) -> str:
        parts = (self.resource, self.name, f"in {self.namespace}" if self.namespace else "", self.labels)
        return " ".join(part for part in parts if part)


class SnapshotRecording(Struct, frozen=True):
    """What was asked for, each with the error it met, None where there was an answer. `kinds`: that of discovery.

    `at` is when, None where that is not known.
    """

    cluster: str
    read: Mapping[ReadKey, ClusterError | None] = field(default_factory=dict)
    kinds: ClusterError | None = None
    at: datetime | None = None

    def check_list(self, asked: ReadKey) -> None:
        """Raise what a list met.

        Raises:
            ClusterError: as it was recorded. MalformedAnswerError: nothing that holds this list was recorded.
        """
        wider = (asked, ReadKey(asked.resource, asked.namespace), ReadKey(asked.resource))
        found = next((key for key in wider if key in self.read), None)
        error = None if found is None else self.read[found]
        if found == asked and error is not None:
            raise error
        if found is None or error is not None:
            raise MalformedAnswerError(
                f"{self.cluster}: {asked} was not recorded in the snapshot, expected it; "
                "a recording has what a plan of its policies reads, and no history"
            )

    def check_get(self, asked: ReadKey) -> None:
        """Raise what the reading of one object met, where it was recorded.

        Raises:
            ClusterError: as it was recorded.
        """
        error = self.read.get(asked)
        if error is not None:
            raise error


class _Failure(Wire):
    error: NonEmptyText
    message: str


class _Read(ReadKey, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    error: str = ""
    message: str = ""


class _File(Wire, forbid_unknown_fields=True):
    kinds: _Failure | None = None
    read: list[_Read] = msgspec.field(default_factory=list)
    at: Instant | None = None


def read_recording(directory: str, cluster: str, root: str = "") -> tuple[SnapshotRecording | None, list[Problem]]:
    """Return what `directory` says of its recording, None where it is none, and all that is wrong.

    A link may lead anywhere below `root`, by default the directory.
    """
    beside = read_side_file(directory, RECORDING_FILE, root, _File)
    if isinstance(beside, list):
        return None, beside
    file, _ = beside
    read = {
        ReadKey(read.resource, read.namespace, read.name, read.labels): _error(read.error, read.message)
        for read in file.read
    }
    kinds = None if file.kinds is None else _error(file.kinds.error, file.kinds.message)
    return SnapshotRecording(cluster, read, kinds, datetime_of(file.at)), []


def _recording_value(recording: SnapshotRecording) -> dict[str, Any]:
    """Return the content of `recording.yaml`."""
    at = {} if recording.at is None else {"at": f"{recording.at:%Y-%m-%dT%H:%M:%SZ}"}
    kinds = None if recording.kinds is None else _Failure(**_said(recording.kinds))
    read = [_Read(**asdict(asked), **_said(error)) for asked, error in sorted(recording.read.items())]
    return {**at, **msgspec.to_builtins(_File(kinds, read))}


def _said(error: ClusterError | None) -> dict[str, str]:
    return {} if error is None else {"error": type(error).__name__.removesuffix(_ENDING), "message": str(error)}


def _error(name: str, message: str) -> ClusterError | None:
    types = {found.__name__.removesuffix(_ENDING): found for found in _below([ClusterError])}
    return types.get(name, ClusterError)(message) if name else None


def _below(types: Iterable[type[ClusterError]]) -> Iterator[type[ClusterError]]:
    for found in types:
        yield found
        yield from _below(found.__subclasses__())


T = TypeVar("T")

_HEAD = "# Recorded from a live cluster: what is not listed here is unknown, not absent.\n"


class Recorder:
    """Keeps what was read of one cluster, from any thread.

    `placed` is namespace and name of the ReplicaSets whose pod templates are compared: only these are kept whole.
    `beside` are the texts of further files, by name.
    """

    def __init__(self, cluster: str, placed: Collection[tuple[str, str]] = ()) -> None:
        self.cluster = cluster
        self._placed = placed
        self._guard = threading.Lock()
        self._read: dict[ReadKey, ClusterError | None] = {}
        self._kinds_error: ClusterError | None = None
        self._kinds: tuple[WorkloadKind, ...] = ()
        self._objects: dict[Resource[Any], dict[tuple[str, str], Wire]] = {}
        self._answers: dict[str, tuple[str, QueryAnswer]] = {}
        self.beside: dict[str, str] = {}

    def objects(self, resource: Resource[Any], read: Sequence[Wire]) -> None:
        """Keep objects as they were decoded; the same one read again is kept as it was last.

        Other people's ConfigMaps, which a list of our own namespace brings along, are not kept.
        """
        with self._guard:
            kept = self._objects.setdefault(resource, {})
            for decoded in read:
                metadata: Any = decoded.metadata  # type: ignore[attr-defined]
                if resource == CONFIG_MAPS and not metadata.name.startswith(OUR_CONFIG_MAPS):
                    continue
                kept[metadata.namespace or "", metadata.name] = decoded

    def noted_kinds(self, read: Callable[[], tuple[WorkloadKind, ...]]) -> tuple[WorkloadKind, ...]:
        """Return what `read` gives, the kinds with a scale; note them, or what it met."""
        try:
            kinds = read()
        except ClusterError as error:
            self._kinds, self._kinds_error = (), error
            raise
        self._kinds, self._kinds_error = kinds, None
        return kinds

    def noted(self, asked: ReadKey, read: Callable[[], T]) -> T:
        """Return what `read` gives; note that it was asked for, and what it met."""
        try:
            found = read()
        except ClusterError as error:
            self._read[asked] = error
            raise
        self._read[asked] = None
        return found

    def answered(self, query: str, answer: QueryAnswer) -> None:
        with self._guard:
            self._answers.setdefault(one_spaced(query), (query, answer))

    @property
    def objects_kept(self) -> int:
        return sum(map(len, self._objects.values()))

    @property
    def answers_kept(self) -> int:
        return len(self._answers)

    def files(self, at: str) -> dict[str, str]:
        """Return the texts of the cluster's files by name; `at` is the time the queries were answered for."""
        custom = {(kind.group, kind.kind): kind for kind in self._kinds if kind not in BUILT_IN_SCALES}
        defined = {key: kind for key, kind in custom.items() if not kind.is_switch}
        found = {
            f"{ReadKey.of(resource).resource}.yaml": _documents(
                recorded_manifests.recorded_manifest(resource, objects[key], custom, whole=key in self._placed)
                for key in sorted(objects)
            )
            for resource, objects in self._objects.items()
            if objects
        }
        if defined:
            found["customresourcedefinitions.apiextensions.k8s.io.yaml"] = _documents(
                recorded_manifests.definition_of(kind, namespaced=self._is_namespaced(kind))
                for _, kind in sorted(defined.items())
            )
        results = [result_value(query, answer, at) for _, (query, answer) in sorted(self._answers.items())]
        if results:
            found["metrics.yaml"] = writer.block_text({"results": results})
        recording = SnapshotRecording(self.cluster, self._read, self._kinds_error, instant(at).as_datetime())
        return found | self.beside | {RECORDING_FILE: _HEAD + writer.block_text(_recording_value(recording))}

    def _is_namespaced(self, kind: WorkloadKind) -> bool:
        same = (kind.group, kind.kind)
        found = [objects for resource, objects in self._objects.items() if (resource.group, resource.kind) == same]
        return all(namespace for objects in found for namespace, _ in objects)


def _documents(manifests: Iterable[Mapping[str, Any]]) -> str:
    return "---\n".join(writer.block_text(manifest) for manifest in manifests)


class RecordedCluster:
    """A live cluster that is read, with somebody taking notes; whatever else it is asked, it answers itself."""

    def __init__(self, cluster: "KubernetesCluster", recorder: Recorder) -> None:
        cluster.on_read = recorder.objects
        self._cluster = cluster
        self._recorder = recorder

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def identity(self) -> str:
        return self.get(NAMESPACES, "", "kube-system").uid

    def scale_kinds(self) -> tuple[WorkloadKind, ...]:
        return self._recorder.noted_kinds(self._cluster.scale_kinds)

    def list(self, resource: Resource[T], *, namespace: str = "", labels: str = "") -> tuple[T, ...]:
        asked = ReadKey.of(resource, namespace=namespace, labels=labels)
        return self._recorder.noted(asked, lambda: self._cluster.list(resource, namespace=namespace, labels=labels))

    def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        asked = ReadKey.of(resource, namespace=namespace, name=name)
        return self._recorder.noted(asked, lambda: self._cluster.get(resource, namespace, name))


class RecordedMetrics:
    """A metrics source that is asked, with somebody taking notes."""

    def __init__(self, metrics: MetricsSource, recorder: Recorder) -> None:
        self._metrics = metrics
        self._recorder = recorder

    def query(self, text: str) -> QueryAnswer:
        answer = self._metrics.query(text)
        self._recorder.answered(text, answer)
        return answer
