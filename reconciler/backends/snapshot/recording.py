"""What was read of a cluster when its folder was recorded: `recording.yaml`, beside the manifests.

With it the folder says what is unknown: what could not be read, and why, and what was not read at all.

    kinds: {error: Unreachable, message: "..."}     # only where the cluster did not say what it serves
    read:
      - resource: deployments.apps                  # a list of all namespaces
      - {resource: pods, namespace: shop}           # of one
      - {resource: namespaces, name: kube-system}   # one object
      - {resource: nodes, error: Forbidden, message: "east: list nodes: forbidden (...), expected ..."}
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from reconciler.backends.base import Resource
from reconciler.backends.decode.metadata import Name, Wire
from reconciler.backends.decode.mismatches import mismatches
from reconciler.backends.snapshot.entries import problem_at
from reconciler.backends.snapshot.folder import RECORDING_FILE, read_beside
from reconciler.errors import ClusterError, MalformedAnswerError, Problem
from reconciler.yaml.documents import Document

_ENDING = "Error"


@dataclass(frozen=True, slots=True, order=True)
class Asked:
    """What was asked for: a list, or with `name` one object."""

    resource: str
    namespace: str = ""
    name: str = ""
    labels: str = ""

    @classmethod
    def of(cls, resource: Resource[Any], *, namespace: str = "", name: str = "", labels: str = "") -> Asked:
        full = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        return cls(full, namespace, name, labels)

    def __str__(self) -> str:
        parts = (self.resource, self.name, f"in {self.namespace}" if self.namespace else "", self.labels)
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Recording:
    """What was asked for, each with the error it met, None where there was an answer. `kinds`: that of discovery."""

    cluster: str
    read: Mapping[Asked, ClusterError | None] = field(default_factory=dict)
    kinds: ClusterError | None = None

    def check_list(self, asked: Asked) -> None:
        """Raise what a list met.

        Raises:
            ClusterError: as it was recorded. MalformedAnswerError: nothing that holds this list was recorded.
        """
        wider = (asked, Asked(asked.resource, asked.namespace), Asked(asked.resource))
        found = next((one for one in wider if one in self.read), None)
        error = None if found is None else self.read[found]
        if found == asked and error is not None:
            raise error
        if found is None or error is not None:
            raise MalformedAnswerError(
                f"{self.cluster}: {asked} was not recorded in the snapshot, expected it; record it anew"
            )

    def check_get(self, asked: Asked) -> None:
        """Raise what the reading of one object met, where it was recorded.

        Raises:
            ClusterError: as it was recorded.
        """
        error = self.read.get(asked)
        if error is not None:
            raise error


class _Failure(Wire):
    error: Name
    message: str


class _Read(Wire, forbid_unknown_fields=True):
    resource: Name
    namespace: str = ""
    name: str = ""
    labels: str = ""
    error: str = ""
    message: str = ""


class _File(Wire, forbid_unknown_fields=True):
    read: list[_Read] = msgspec.field(default_factory=list)
    kinds: _Failure | None = None


def read_recording(directory: Path, cluster: str, root: str | Path = "") -> tuple[Recording | None, list[Problem]]:
    """Return what `directory` says of its recording, None where it is none, and all that is wrong.

    A link may lead anywhere below `root`, by default the directory.
    """
    document = read_beside(directory, RECORDING_FILE, root or directory)
    if not isinstance(document, Document):
        return None, document or []
    try:
        file = msgspec.convert(document.value, _File)
    except msgspec.ValidationError as error:
        return None, list(_problems(document, error))
    return _recording(file, cluster), []


def _problems(document: Document, error: Exception) -> Iterator[Problem]:
    wrong = mismatches(document.value, _File)
    for one in wrong:
        yield problem_at(document, (), one.path, one.words())
    if not wrong:
        yield Problem(document.file, 1, 1, "", f"is malformed: {error}")


def _recording(file: _File, cluster: str) -> Recording:
    return Recording(
        cluster=cluster,
        read={
            Asked(one.resource, one.namespace, one.name, one.labels): _error(one.error, one.message)
            for one in file.read
        },
        kinds=None if file.kinds is None else _error(file.kinds.error, file.kinds.message),
    )


def recording_value(recording: Recording) -> dict[str, Any]:
    """Return the content of `recording.yaml`."""
    kinds = {} if recording.kinds is None else {"kinds": _failure(recording.kinds)}
    return {**kinds, "read": [_entry(asked, recording.read[asked]) for asked in sorted(recording.read)]}


def _entry(asked: Asked, error: ClusterError | None) -> dict[str, str]:
    where = {"namespace": asked.namespace, "name": asked.name, "labels": asked.labels}
    given = {key: value for key, value in where.items() if value}
    return {"resource": asked.resource, **given, **({} if error is None else _failure(error))}


def _failure(error: ClusterError) -> dict[str, str]:
    return {"error": type(error).__name__.removesuffix(_ENDING), "message": str(error)}


def _error(name: str, message: str) -> ClusterError | None:
    return _types().get(name, ClusterError)(message) if name else None


def _types() -> dict[str, type[ClusterError]]:
    return {found.__name__.removesuffix(_ENDING): found for found in _below([ClusterError])}


def _below(types: Iterable[type[ClusterError]]) -> Iterator[type[ClusterError]]:
    for found in types:
        yield found
        yield from _below(found.__subclasses__())
