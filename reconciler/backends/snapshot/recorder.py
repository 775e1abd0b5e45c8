"""Recording what is read of clusters, and writing it down as a snapshot."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from reconciler.backends.base import (
    BUILT_IN_SCALES,
    CONFIG_MAPS,
    NAMESPACES,
    NO_METRICS,
    OUR_CONFIG_MAPS,
    Cluster,
    MetricsSource,
    Resource,
)
from reconciler.backends.decode.metadata import Wire
from reconciler.backends.snapshot.metrics import folded, result_value
from reconciler.backends.snapshot.recorded import definition_of, manifest_of
from reconciler.backends.snapshot.recording import Asked, Recording, recording_value
from reconciler.errors import ClusterError
from reconciler.model import QueryAnswer, ScaleKind, Write
from reconciler.yaml.writer import block_text

T = TypeVar("T")

_IDENTITY = "kube-system"
_HEAD = "# Recorded from a live cluster: what is not listed here is unknown, not absent.\n"


class Recorder:
    """Keeps what was read of one cluster, from any thread.

    `placed` is namespace and name of the ReplicaSets whose pod templates are compared: only these are kept whole.
    """

    def __init__(self, cluster: str, placed: Collection[tuple[str, str]] = ()) -> None:
        self.cluster = cluster
        self._placed = placed
        self._guard = threading.Lock()
        self._read: dict[Asked, ClusterError | None] = {}
        self._kinds_error: ClusterError | None = None
        self._kinds: tuple[ScaleKind, ...] = ()
        self._objects: dict[Resource[Any], dict[tuple[str, str], Wire]] = {}
        self._answers: dict[str, tuple[str, QueryAnswer]] = {}

    def objects(self, resource: Resource[Any], read: Sequence[Wire]) -> None:
        """Keep objects as they were decoded; the same one read again is kept as it was last.

        Other people's ConfigMaps, which a list of our own namespace brings along, are not kept.
        """
        with self._guard:
            kept = self._objects.setdefault(resource, {})
            for one in read:
                metadata: Any = one.metadata  # type: ignore[attr-defined]
                if resource == CONFIG_MAPS and not metadata.name.startswith(OUR_CONFIG_MAPS):
                    continue
                kept[metadata.namespace or "", metadata.name] = one

    def kinds(self, kinds: tuple[ScaleKind, ...], error: ClusterError | None) -> None:
        with self._guard:
            self._kinds, self._kinds_error = kinds, error

    def asked(self, asked: Asked, error: ClusterError | None) -> None:
        with self._guard:
            self._read[asked] = error

    def answered(self, query: str, answer: QueryAnswer) -> None:
        with self._guard:
            self._answers.setdefault(folded(query), (query, answer))

    @property
    def objects_kept(self) -> int:
        return sum(map(len, self._objects.values()))

    @property
    def answers_kept(self) -> int:
        return len(self._answers)

    def files(self, at: str) -> dict[str, str]:
        """Return the texts of the cluster's files by name; `at` is the time the queries were answered for."""
        custom = {(kind.group, kind.kind): kind for kind in self._kinds if kind not in BUILT_IN_SCALES}
        found = {
            f"{Asked.of(resource).resource}.yaml": _documents(
                manifest_of(resource, objects[key], custom, whole=key in self._placed) for key in sorted(objects)
            )
            for resource, objects in self._objects.items()
            if objects
        }
        if custom:
            found["customresourcedefinitions.apiextensions.k8s.io.yaml"] = _documents(
                definition_of(kind, namespaced=self._is_namespaced(kind)) for _, kind in sorted(custom.items())
            )
        results = [result_value(query, answer, at) for _, (query, answer) in sorted(self._answers.items())]
        if results:
            found["metrics.yaml"] = block_text({"results": results})
        recording = Recording(self.cluster, self._read, self._kinds_error)
        return found | {"recording.yaml": _HEAD + block_text(recording_value(recording))}

    def _is_namespaced(self, kind: ScaleKind) -> bool:
        same = (kind.group, kind.kind)
        found = [objects for one, objects in self._objects.items() if (one.group, one.kind) == same]
        return all(namespace for objects in found for namespace, _ in objects)


def _documents(manifests: Iterable[Mapping[str, Any]]) -> str:
    return "---\n".join(block_text(manifest) for manifest in manifests)


class RecordedCluster:
    """A cluster that is read, with somebody taking notes. It is never written."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._cluster = cluster
        self._recorder = recorder

    @property
    def name(self) -> str:
        return self._cluster.name

    def identity(self) -> str:
        asked = Asked.of(NAMESPACES, name=_IDENTITY)
        try:
            found = self._cluster.identity()
        except ClusterError as error:
            self._recorder.asked(asked, error)
            raise
        self._recorder.asked(asked, None)
        return found

    def scale_kinds(self) -> tuple[ScaleKind, ...]:
        try:
            found = self._cluster.scale_kinds()
        except ClusterError as error:
            self._recorder.kinds((), error)
            raise
        self._recorder.kinds(found, None)
        return found

    def list(self, resource: Resource[T], *, namespace: str = "", labels: str = "") -> tuple[T, ...]:
        asked = Asked.of(resource, namespace=namespace, labels=labels)
        try:
            found = self._cluster.list(resource, namespace=namespace, labels=labels)
        except ClusterError as error:
            self._recorder.asked(asked, error)
            raise
        self._recorder.asked(asked, None)
        return found

    def get(self, resource: Resource[T], namespace: str, name: str) -> T:
        asked = Asked.of(resource, namespace=namespace, name=name)
        try:
            found = self._cluster.get(resource, namespace, name)
        except ClusterError as error:
            self._recorder.asked(asked, error)
            raise
        self._recorder.asked(asked, None)
        return found

    def secret(self, namespace: str, name: str, key: str) -> str:  # noqa: ARG002
        raise ClusterError(f"{self.name}: Secret {namespace}/{name} is not read for a snapshot, expected no need to")

    def write(self, write: Write) -> None:
        raise ClusterError(f"{write.ref}: nothing is written while a snapshot is made, expected no need to")


class RecordedMetrics:
    """A metrics source that is asked, with somebody taking notes."""

    def __init__(self, metrics: MetricsSource, recorder: Recorder) -> None:
        self._metrics = metrics
        self._recorder = recorder

    def query(self, text: str) -> QueryAnswer:
        answer = self._metrics.query(text)
        self._recorder.answered(text, answer)
        return answer


class NoMetrics:
    """What a cluster without a metrics source answers."""

    def query(self, _: str) -> QueryAnswer:
        return QueryAnswer(error=NO_METRICS)
