"""Manifests of any kind, from files, folders and standard input: each with the place where it stands."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, convert

from reconciler.backends.decode import shapes
from reconciler.backends.decode.mismatches import FieldPath, json_path, mismatches, problem_at
from reconciler.backends.decode.workloads import decoded_selector
from reconciler.backends.patched_values import value_below
from reconciler.backends.snapshot.file_content import objects_in, with_type_meta
from reconciler.backends.snapshot.files import is_manifest_name
from reconciler.errors import PolicyError, Problem, UsageError
from reconciler.importing.shapes import ANY_OBJECT, shape_of
from reconciler.labels import LabelSelector
from reconciler.policy.kinds.fields import API_VERSION
from reconciler.untrusted_text import one_line
from reconciler.yaml.documents import Document
from reconciler.yaml.files import MAX_BYTES, decoded_text, find_files, read_bytes
from reconciler.yaml.reader import read_documents
from reconciler.yaml.writer import block_text

STANDARD_INPUT = "-"
_STANDARD_INPUT = "standard input"


class Manifest(Struct, frozen=True):
    """One object as it is written. `where` is its file, line and column, or its cluster and name."""

    value: Mapping[str, Any]
    where: str

    @property
    def kind(self) -> str:
        return str(self.value.get("kind", ""))

    @property
    def group(self) -> str:
        return str(self.value.get("apiVersion", "")).rpartition("/")[0]

    @property
    def name(self) -> str:
        return str(self.at("metadata", "name") or "")

    @property
    def namespace(self) -> str:
        return str(self.at("metadata", "namespace") or "default")

    @property
    def labels(self) -> Mapping[str, str]:
        return self.texts("metadata", "labels")

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.texts("metadata", "annotations")

    @property
    def owned(self) -> bool:
        """Whether a controller made it."""
        return any(
            isinstance(one, dict) and one.get("controller") for one in self.at("metadata", "ownerReferences") or ()
        )

    def at(self, *path: str) -> Any:
        """Return what stands at `path`, None for nothing."""
        return value_below(self.value, path)

    def texts(self, *path: str) -> dict[str, str]:
        """Return the texts that stand at `path`, by their keys."""
        found = self.at(*path)
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}

    def __str__(self) -> str:
        return f"{self.where}: {self.kind} {self.name}"


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; whatever else stands there is left out."""
    return [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list) else []


def read_manifests(paths: Sequence[str], kinds: Collection[tuple[str, str]]) -> list[Manifest]:
    """Return the objects in `paths`, files, folders or "-" for standard input, in their order; those of a List singly.

    Those of `kinds`, by group and kind, have to be of the shape in which they are read; of all others the metadata.

    Raises:
        UsageError: a path leads nowhere. PolicyError: with everything that cannot be read.
    """
    found: list[Manifest] = []
    problems: list[Problem] = []
    for file, text in _texts(paths, problems):
        documents = read_documents(file, text)
        problems += documents.problems
        for document in documents.found:
            for path, manifest in _objects(document):
                found.append(manifest)
                kind = (manifest.group, manifest.kind)
                shape = shape_of(*kind) if kind in kinds else ANY_OBJECT
                wrong = mismatches(manifest.value, shape)
                problems += [problem_at(document, one.path, one.words(), outer=path) for one in wrong]
    if problems:
        raise PolicyError.of(problems)
    return found


def manifests_of(context: str, values: Iterable[Mapping[str, Any]]) -> list[Manifest]:
    """Return objects of the cluster of `context`, whose definitions may let through what the tool would not take.

    Raises:
        PolicyError: with everything that is of another shape.
    """
    found = [Manifest(one, f"{context}/{one['metadata'].get('namespace', '')}".rstrip("/")) for one in values]
    problems = [
        Problem.of_path(str(one), f"{json_path(wrong.path)}: {wrong.words()}")
        for one in found
        for wrong in mismatches(one.value, shape_of(one.group, one.kind))
    ]
    if problems:
        raise PolicyError.of(problems)
    return found


def _texts(paths: Iterable[str], problems: list[Problem]) -> Iterator[tuple[str, str]]:
    for path in paths:
        for file, content in _contents(path, problems):
            text = decoded_text(file, content)
            if isinstance(text, Problem):
                problems.append(text)
            else:
                yield file, text


def _contents(path: str, problems: list[Problem]) -> Iterator[tuple[str, bytes | Problem]]:
    """Yield what is in each file of `path`, or why it is not read."""
    if path == STANDARD_INPUT:
        data = sys.stdin.buffer.read(MAX_BYTES + 1)
        large = Problem(_STANDARD_INPUT, 1, 1, "", f"is larger than {MAX_BYTES} bytes, expected less")
        yield _STANDARD_INPUT, data if len(data) <= MAX_BYTES else large
    elif os.path.isdir(path):
        listed = find_files(path, is_manifest_name)
        problems += listed.problems
        yield from ((file, read_bytes(file, path)) for file in sorted(listed.files))
    elif os.path.exists(path):
        yield path, read_bytes(path, os.path.dirname(os.path.abspath(path)))
    else:
        raise UsageError(f"{path}: no such file or folder, expected manifests")


def _objects(document: Document) -> Iterator[tuple[FieldPath, Manifest]]:
    """Yield each object of a document, and where it stands in it."""
    for value, path, stated in objects_in(document.value):
        if isinstance(value, dict):
            line, column = document.place(path)
            yield path, Manifest(with_type_meta(value, *stated), f"{document.file}:{line}:{column}")


# What becomes of the manifests of another tool: policies, and what of them has no counterpart.


Policy = Mapping[str, Any]


class Loss(Struct, frozen=True):
    """What is not carried over: the object, the field or annotation of it, and what to do."""

    manifest: Manifest
    field: str
    words: str

    def __str__(self) -> str:
        return f"{self.manifest}: {self.field}: {self.words}"


class Imported(Struct):
    """The policies made of manifests, by kind and name; what is lost of a policy stands above it as a comment.

    `losses` are all by their texts, `remarks` those that concern a policy, by its kind and name. `clusters` are the
    clusters that the policies name, with their labels.
    """

    policies: dict[tuple[str, str], Policy] = {}
    losses: dict[str, Loss] = {}
    clusters: dict[str, Mapping[str, str]] = {}
    remarks: dict[tuple[str, str], Sequence[Loss]] = {}

    def lose(self, manifest: Manifest, field: str, words: str) -> Loss:
        """Note, and return, what is not carried over."""
        loss = Loss(manifest, field, words)
        return self.losses.setdefault(str(loss), loss)

    def lose_namespace(self, manifest: Manifest) -> list[Loss]:
        """Note, and return, that `manifest` names no Namespace: people give it when they apply it."""
        if manifest.at("metadata", "namespace"):
            return []
        words = "is missing, read as default; expected the Namespace that it is applied to"
        return [self.lose(manifest, "metadata.namespace", words)]

    def add(
        self, kind: str, name: str, spec: Policy, losses: Iterable[Loss] = (), namespace: str = "", **others: Any
    ) -> None:
        """Add a policy under `name`, or under the next that is free; `losses` are those that concern it, and `others`
        fields of its metadata.
        """
        metadata = {**stated(name=name, namespace=namespace), **others}
        key, number = (kind, f"{namespace}/{name}"), 2
        while key in self.policies:
            metadata["name"] = f"{name}-{number}"
            key, number = (kind, f"{namespace}/{metadata['name']}"), number + 1
        self.policies[key] = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
        self.remarks[key] = [*losses]


def stated(**fields: Any) -> dict[str, Any]:
    """Return those of `fields` that say anything: what is empty, 0 or False is the default of a policy."""
    return {name: value for name, value in fields.items() if value}


def policy_name(*parts: str) -> str:
    """Return a name for a policy made of `parts`, as policies may have it."""
    return re.sub(r"[^a-z0-9.-]+", "-", "-".join(parts).lower()).strip("-.")[:200].strip("-.") or "imported"


def fleet_document(clusters: Sequence[Mapping[str, Any]]) -> Policy:
    """Return a Fleet of `clusters`, the first of which is its home."""
    spec = {"home": clusters[0]["name"], "clusters": list(clusters)}
    return {"apiVersion": API_VERSION, "kind": "Fleet", "metadata": {"name": "imported"}, "spec": spec}


def policy_text(imported: Imported, fleet: Policy | None) -> str:
    """Return the policies as YAML, behind `fleet` where one is given, each with what it does not say as comments."""
    parts = [] if fleet is None else [block_text(fleet)]
    for key, policy in imported.policies.items():
        lines = [f"# Not carried over: {one_line(str(loss))}\n" for loss in imported.remarks[key]]
        parts.append("".join(lines) + block_text(policy))
    return "---\n".join(parts)


# What both Karmada and KubeFed say: clusters with labels, and replicas of one workload in each of them.


LEFT_TO_OTHERS = "is left to what creates the workloads (kustomize, Helm, Argo CD)"
WORKLOADS = {"Deployment": "apps/v1", "ReplicaSet": "apps/v1", "StatefulSet": "apps/v1"}


class PlacementImport:
    """The import of what places workloads on clusters, which are objects of `kind` among the manifests, or named."""

    def __init__(self, manifests: Sequence[Manifest], group: str, kind: str) -> None:
        self.known = {one.name: one.labels for one in manifests if (one.group, one.kind) == (group, kind)}
        self.gathering = Imported(clusters=dict(self.known))

    def selected(self, selector: Any) -> list[str]:
        """Return the clusters whose labels a label selector of Kubernetes matches."""
        wanted = label_selector(selector)
        return [name for name, labels in self.known.items() if wanted.matches(labels)]

    def lose_clusters(self, manifest: Manifest) -> None:
        """Note that no policy is made of `manifest`."""
        self.gathering.lose(manifest, "spec.placement", "names no cluster that is known; no policy is made of it")


def label_selector(selector: Any) -> LabelSelector:
    """Return a label selector as manifests write it."""
    return decoded_selector(convert(selector or {}, shapes.LabelSelector)) or LabelSelector()


def replicas_of(manifest: Manifest | None, *path: str) -> int | None:
    """Return the replicas that stand at `path`, 1 where none are named; None without a manifest."""
    if manifest is None:
        return None
    found = manifest.at(*path)
    return found if type(found) is int else 1


def exactly(count: int) -> dict[str, int]:
    """Return the preference of a cluster that has `count` replicas, whatever the others have."""
    return {"minReplicas": count, "maxReplicas": count}
