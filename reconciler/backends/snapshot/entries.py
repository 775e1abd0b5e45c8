"""One object of a manifest file: what was read of it, and where in the file it stands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from reconciler.backends.decode.metadata import Name, Owner, Wire
from reconciler.backends.decode.mismatches import Path, dotted, mismatches
from reconciler.backends.decode.shapes import SHAPES, decoded_value
from reconciler.errors import Problem
from reconciler.yaml.documents import Document

if TYPE_CHECKING:
    from reconciler.backends.snapshot.files import ManifestFile

_NOT_FOR_CLUSTERS = frozenset(("kustomize.config.k8s.io",))
_GROUPS = {
    ("extensions", "Deployment"): "apps",
    ("extensions", "ReplicaSet"): "apps",
    ("events.k8s.io", "Event"): "",
}


class Key(NamedTuple):
    """What makes an object one: kinds that moved between API groups are in the group they have now."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return "/".join(filter(None, (self.namespace, self.kind, self.name)))


class Header(Wire):
    api_version: Name
    kind: Name


class Identity(Wire):
    name: Name
    namespace: str | None = None
    uid: str | None = None
    owner_references: list[Owner] | None = None


class Named(Wire):
    """All that is asked of an object of a kind that is not read."""

    metadata: Identity


@dataclass(frozen=True, slots=True)
class Found:
    """An object as it was found: its value, and what its list says of its apiVersion and kind."""

    value: Any
    api_version: str = ""
    kind: str = ""


class Entry:
    """One object. `decoded` has the fields that are read, `value` is kept only for kinds that are not read yet.

    It stands at `path` in `document`, one of those of `file`.
    """

    __slots__ = (
        "api_version",
        "decoded",
        "document",
        "file",
        "group",
        "key",
        "kind",
        "name",
        "namespace",
        "noun",
        "path",
        "value",
    )

    def __init__(self, found: Found, decoded: Any) -> None:
        self.api_version = found.api_version
        self.group = group_of(found.api_version, found.kind)
        self.kind = found.kind
        self.name: str = decoded.metadata.name
        self.namespace: str = decoded.metadata.namespace or ""
        self.decoded = decoded
        self.value: Any = found.value if isinstance(decoded, Named) else None
        self.key = Key(self.group, self.kind, self.namespace, self.name)
        self.noun: tuple[Any, Any] | None = None
        self.file: ManifestFile
        self.document: Document
        self.path: Path = ()

    @property
    def place(self) -> str:
        """Where it stands, as FILE:LINE."""
        return f"{self.document.file}:{self.document.place(self.path)[0]}"


def group_of(api_version: str, kind: str) -> str:
    """Return the API group, the present one for kinds that moved."""
    group = api_version.rpartition("/")[0]
    return _GROUPS.get((group, kind), group)


def is_list(value: Any) -> bool:
    """Return whether `value` is a list of objects: `kind: List`, or a typed one such as DeploymentList."""
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        return False
    if value["kind"] == "List":
        return True
    metadata = value.get("metadata")
    named = isinstance(metadata, dict) and "name" in metadata
    return value["kind"].endswith("List") and not named and isinstance(value.get("items"), list)


def objects_in(value: Any, path: Path = (), inherited: tuple[str, str] = ("", "")) -> Iterator[tuple[Any, Path, Any]]:
    """Yield (value, path, inherited apiVersion and kind) of every object of a document, lists taken apart."""
    if not is_list(value):
        yield value, path, inherited
        return
    kind = str(value["kind"]).removesuffix("List")
    version = value.get("apiVersion")
    passed_on = (version if isinstance(version, str) else "", kind) if kind else ("", "")
    items = value.get("items")
    for index, item in enumerate(items if isinstance(items, list) else ()):
        yield from objects_in(item, (*path, "items", index), passed_on)


def entry_of(found: Found) -> Entry | list[tuple[Path, str]] | None:
    """Return the object as an entry; the paths and words of all that is wrong with it; None: nothing for a cluster."""
    if not isinstance(found.value, dict):
        return [((), "is no mapping, expected a manifest with apiVersion, kind and metadata")]
    header = with_type_meta(found)
    faults = [(one.path, one.words()) for one in mismatches(header, Header)]
    if faults:
        return faults
    version, kind = str(header["apiVersion"]), str(header["kind"])
    if version.rpartition("/")[0] in _NOT_FOR_CLUSTERS:
        return None
    shape = SHAPES.get((group_of(version, kind), kind), Named)
    try:
        decoded = decoded_value(shape, found.value)
    except msgspec.ValidationError as error:
        wrong = mismatches(found.value, shape)
        return [(one.path, one.words(secret=kind == "Secret")) for one in wrong] or [((), f"is malformed: {error}")]
    return Entry(Found(found.value, version, kind), decoded)


def with_type_meta(found: Found) -> dict[str, Any]:
    """Return the manifest with the apiVersion and kind that its list states, where it has none of its own."""
    inherited = {"apiVersion": found.api_version, "kind": found.kind} if found.kind else {}
    manifest: dict[str, Any] = inherited | found.value
    return manifest


def problem_at(document: Document, outer: Path, path: Path, words: str) -> Problem:
    """Return `words` as a problem at `path` of the object that stands at `outer` in `document`."""
    line, column = document.place((*outer, *path))
    return Problem(document.file, line, column, dotted(path), words)
