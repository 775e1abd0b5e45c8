"""A manifest file as it was read, with its objects, and the text of a file that is written whole."""

import hashlib
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from sys import intern
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct, field

from reconciler.backends.decode import shapes
from reconciler.backends.decode.metadata import OwnerReference
from reconciler.backends.decode.mismatches import FieldPath, problem_at, read_as, read_object
from reconciler.backends.decode.values import NonEmptyText, Wire
from reconciler.backends.patched_values import equal
from reconciler.errors import Problem, RefusedError
from reconciler.yaml import writer
from reconciler.yaml.documents import Document
from reconciler.yaml.files import decoded_text
from reconciler.yaml.reader import MAX_DEPTH, Documents, marked, read_documents

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


class _TypeMeta(Wire):
    api_version: NonEmptyText
    kind: NonEmptyText


class Identity(Wire):
    name: NonEmptyText
    namespace: str | None = None
    uid: str | None = None
    owner_references: list[OwnerReference] | None = None


class Named(Wire):
    """All that is asked of an object of a kind that is not read."""

    metadata: Identity


class ManifestEntry(Struct, eq=False):
    """One object. `decoded` has the fields that are read, `value` is kept only for kinds that are not read yet.

    It stands at `path` in `document`, one of those of `file`.
    """

    value: Any
    api_version: str
    kind: str
    decoded: Any
    group: str = ""
    name: str = ""
    namespace: str = ""
    key: Key = Key("", "", "", "")
    model_object: tuple[Any, Any, Any] | None = None
    file: "ManifestFile" = None  # type: ignore[assignment]  # who reads it says where it stands
    document: Document = None  # type: ignore[assignment]
    path: FieldPath = ()

    def __post_init__(self) -> None:
        # Of many thousands of objects these are the same few texts: each is kept once.
        self.api_version, self.kind = intern(self.api_version), intern(self.kind)
        self.group = intern(api_group(self.api_version, self.kind))
        self.name = self.decoded.metadata.name
        self.namespace = intern(str(self.decoded.metadata.namespace or ""))
        self.value = self.value if isinstance(self.decoded, Named) else None
        self.key = self.stated_key

    @property
    def stated_key(self) -> Key:
        """Its key as far as its manifest says it: `key` is with the namespace that it is in."""
        return Key(self.group, self.kind, self.namespace, self.name)

    @property
    def place(self) -> str:
        """Where it stands, as FILE:LINE."""
        return f"{self.document.file}:{self.document.place(self.path)[0]}"


def api_group(api_version: str, kind: str) -> str:
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


def objects_in(
    value: Any, path: FieldPath = (), inherited: tuple[str, str] = ("", "")
) -> Iterator[tuple[Any, FieldPath, Any]]:
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


def entry_of(value: Any, api_version: str = "", kind: str = "") -> ManifestEntry | list[tuple[FieldPath, str]] | None:
    """Return the object as an entry; the paths and words of all that is wrong with it; None: nothing for a cluster.

    `api_version` and `kind` are what its list says of it.
    """
    if not isinstance(value, dict):
        return [((), "is no mapping, expected a manifest with apiVersion, kind and metadata")]
    type_meta = with_type_meta(value, api_version, kind)
    read = read_as(_TypeMeta, type_meta)
    if isinstance(read, list):
        return [(mismatch.path, mismatch.words()) for mismatch in read]
    version, kind = read.api_version, read.kind
    if version.rpartition("/")[0] in _NOT_FOR_CLUSTERS:
        return None
    group = api_group(version, kind)
    shape = shapes.SHAPES.get((group, kind), Named)
    if shape is Named:
        meant = next((known for of, known in shapes.SHAPES if (of, known.lower()) == (group, kind.lower())), None)
        if meant is not None:
            return [(("kind",), f'is "{kind}", expected {meant}')]
    decoded = read_object(shape, value)
    if isinstance(decoded, list):
        return [(mismatch.path, mismatch.words(secret=kind == "Secret")) for mismatch in decoded]
    return ManifestEntry(value, version, kind, decoded)


def with_type_meta(value: dict[str, Any], api_version: str, kind: str) -> dict[str, Any]:
    """Return the manifest with the apiVersion and kind that its list states, where it has none of its own."""
    return {"apiVersion": api_version, "kind": kind} | value if kind else value


_NO_BRACKETS = r'"(?:[^"\\]|\\.)*"|[^][{}"]+'
_EMPTY_BRACKETS = r"\[\]|\{\}"


class ManifestFile(Struct):
    """What stood in a file when it was read. `others` are the documents for no cluster, such as a Kustomization.

    `data` is kept of a file that is yet to be written; of one that was read only its `digest`, and of JSON the text,
    `packed`: large snapshots are JSON, and their text takes as much memory as all objects.
    """

    path: str
    digest: bytes = b""
    data: bytes = b""
    packed: bytes = b""
    documents: list[Document] = field(default_factory=list)
    entries: list[ManifestEntry] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    _last: tuple[Document, Any] | None = None

    @property
    def is_of_one(self) -> bool:
        """Whether it holds one object and nothing else, so that it can be written whole."""
        return len(self.entries) == 1 and not self.others and not self.entries[0].path

    def value_of(self, entry: ManifestEntry) -> Any:
        """Return the whole manifest of `entry`."""
        value = self.value(entry.document)
        for key in entry.path:
            value = value[key]
        return value

    def manifest_of(self, entry: ManifestEntry) -> dict[str, Any]:
        """Return the manifest of `entry` as it stands alone: with the apiVersion and kind that its list states."""
        return with_type_meta(self.value_of(entry), entry.api_version, entry.kind)

    def value(self, document: Document) -> Any:
        """Return what `document` holds: a manifest, or a list of them.

        Kept in memory is what was written, and of the others the one that was read last: all objects of a List are
        read from the same one.
        """
        if document.value is not None:
            return document.value
        if self._last is None or self._last[0] is not document:
            self._last = (document, _documents(self.path, document.text or self._text()).found[0].value)
        return self._last[1]

    def pack(self) -> None:
        """Keep the text of its one document compressed."""
        for document in self.documents:
            self.packed = zlib.compress(document.text.encode(), 1)
            document.text, document.mark = "", lambda _: marked(self._text())

    def _text(self) -> str:
        return zlib.decompress(self.packed).decode()


def file_with(path: str, values: Sequence[Any]) -> ManifestFile:
    """Return the file at `path` as it is written with `values`, one document each; in JSON several are a List.

    Raises:
        RefusedError: what is written would not be read as what was meant.
    """
    if is_json(path):
        values = values if len(values) == 1 else [{"apiVersion": "v1", "kind": "List", "items": list(values)}]
        text = json.dumps(values[0], ensure_ascii=False, allow_nan=False, indent=2) + "\n"
    else:
        text = "---\n".join(map(writer.block_text, values))
    data = text.encode()
    file = read_file(path, data)
    file.data = data
    if file.problems or not equal([file.value(document) for document in file.documents], list(values)):
        raise RefusedError(f"{path}: cannot be written as it should be; nothing was changed")
    return file


def read_file(path: str, data: bytes) -> ManifestFile:
    """Return the manifests in `data`, the content of `path`, with everything that is wrong with them."""
    text = decoded_text(path, data)
    if isinstance(text, Problem):
        return ManifestFile(path, digest_of(data), problems=[text])
    read = _documents(path, text)
    file = ManifestFile(path, digest_of(data), documents=read.found, problems=read.problems)
    for document in file.documents:
        if document.whole:
            _enter(file, document)
        document.value = None
    if is_json(path):
        file.pack()
    return file


def digest_of(data: bytes) -> bytes:
    """Return what tells the content of a file from any other."""
    return hashlib.sha256(data).digest()


def _enter(file: ManifestFile, document: Document) -> None:
    """Enter the objects in `document`, and what is wrong with the others."""
    for value, path, (version, kind) in objects_in(document.value):
        read = entry_of(value, version, kind)
        if isinstance(read, ManifestEntry):
            read.file, read.document, read.path = file, document, path
            file.entries.append(read)
        elif read is None:
            file.others.append(value)
        else:
            file.problems += [problem_at(document, inside, words, outer=path) for inside, words in read]


def _documents(path: str, text: str) -> Documents:
    return _json_documents(path, text) if is_json(path) else read_documents(path, text)


def is_json(path: str) -> bool:
    """Return whether a file is read as JSON, by its name."""
    return path.lower().endswith(".json")


def _json_documents(path: str, text: str) -> Documents:
    if not text.strip():
        return Documents()
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        return Documents(problems=[_json_problem(path, text, str(error))])
    except RecursionError:
        value = None
    if value is None or _is_too_deep(text):
        words = f"is null, or nested deeper than {MAX_DEPTH} levels, expected a manifest"
        return Documents(problems=[Problem(path, 1, 1, "", words)])
    before = text[: len(text) - len(text.lstrip())]
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return Documents([Document(path, value, line, column, text, mark=marked)])


def _is_too_deep(text: str) -> bool:
    """msgspec reads almost a thousand levels. Each round takes the innermost brackets away."""
    left = re.sub(_NO_BRACKETS, "", text)
    for _ in range(MAX_DEPTH):
        if not left:
            return False
        left = re.sub(_EMPTY_BRACKETS, "", left)
    return bool(left)


def _json_problem(path: str, text: str, words: str) -> Problem:
    """msgspec names a byte; the standard library names line and column."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return Problem(path, error.lineno, error.colno, "", f"{error.msg}, expected JSON")
    except RecursionError:
        words = "is nested too deeply"
    return Problem(path, 1, 1, "", f"{words}, expected JSON")
