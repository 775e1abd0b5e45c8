"""Manifests of any kind, from files, folders and standard input: each with the place where it stands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from reconciler.errors import PolicyError, Problem, UsageError
from reconciler.yaml.documents import Document
from reconciler.yaml.files import decoded_text, find_files, read_bytes
from reconciler.yaml.reader import read_documents

_SUFFIXES = (".yaml", ".yml", ".json")
STANDARD_INPUT = "-"


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
        return self._texts("labels")

    @property
    def annotations(self) -> Mapping[str, str]:
        return self._texts("annotations")

    @property
    def owned(self) -> bool:
        """Whether a controller made it."""
        return any(
            isinstance(one, dict) and one.get("controller") for one in self.at("metadata", "ownerReferences") or ()
        )

    def at(self, *path: str) -> Any:
        """Return what stands at `path`, None for nothing."""
        return inside(self.value, *path)

    def _texts(self, key: str) -> dict[str, str]:
        found = self.at("metadata", key)
        return {str(name): str(value) for name, value in found.items()} if isinstance(found, dict) else {}

    def __str__(self) -> str:
        return f"{self.where}: {self.kind} {self.name}"


def inside(value: Any, *path: str) -> Any:
    """Return what stands at `path` below `value`, None for nothing."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def mappings(value: Any) -> list[Mapping[str, Any]]:
    """Return the mappings of a list; whatever else stands there is left out."""
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def read_manifests(paths: Sequence[str]) -> list[Manifest]:
    """Return the objects in `paths`, files, folders or "-" for standard input, in their order; those of a List singly.

    Raises:
        UsageError: a path leads nowhere. PolicyError: with everything that cannot be read.
    """
    found: list[Manifest] = []
    problems: list[Problem] = []
    for file, text in _texts(paths, problems):
        documents = read_documents(file, text)
        problems += documents.problems
        for document in documents.found:
            found += _objects(document)
    if problems:
        raise PolicyError.of(problems)
    return found


def _texts(paths: Iterable[str], problems: list[Problem]) -> Iterator[tuple[str, str]]:
    for path in paths:
        if path == STANDARD_INPUT:
            yield "standard input", sys.stdin.read()
            continue
        if not os.path.exists(path):
            raise UsageError(f"{path}: no such file or folder, expected manifests")
        files = [path]
        if os.path.isdir(path):
            listed = find_files(path, lambda name: not name.startswith(".") and name.lower().endswith(_SUFFIXES))
            problems += listed.problems
            files = sorted(listed.files)
        for file in files:
            data = read_bytes(file, os.path.dirname(os.path.abspath(file)))
            text = data if isinstance(data, Problem) else decoded_text(file, data)
            if isinstance(text, Problem):
                problems.append(text)
            else:
                yield file, text[0]


def _objects(document: Document) -> Iterator[Manifest]:
    value = document.value
    if not isinstance(value, dict):
        return
    items = value.get("items")
    if isinstance(items, list) and str(value.get("kind", "")).endswith("List"):
        of_list = str(value["kind"]).removesuffix("List")
        for place, one in enumerate(items):
            if isinstance(one, dict):
                line, column = document.place(("items", place))
                whole = one if "kind" in one else {"apiVersion": value.get("apiVersion"), "kind": of_list, **one}
                yield Manifest(whole, f"{document.file}:{line}:{column}")
        return
    yield Manifest(value, f"{document.file}:{document.line}:{document.column}")
