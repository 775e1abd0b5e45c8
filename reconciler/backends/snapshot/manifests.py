"""Manifests as the API server would show them, and what it changes by itself when one is written. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reconciler.backends.json_patch import equal
from reconciler.backends.snapshot.settled import put_at

FIELD_MANAGER = "reconciler"

_EMPTY_IS_ABSENT = (("metadata", "annotations"), ("metadata", "labels"), ("data",))


def plain(value: Any) -> Any:
    """Return `value` in the types that JSON and YAML texts have: dict, list and scalars."""
    if isinstance(value, Mapping):
        return {str(key): plain(inside) for key, inside in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inside) for inside in value]
    return value


def as_served(manifest: dict[str, Any], uid: str, namespace: str) -> dict[str, Any]:
    """Return the manifest with what the API server would show: uid and namespace, no empty maps of marks."""
    metadata = {**manifest["metadata"], "uid": uid}
    if namespace:
        metadata["namespace"] = namespace
    return without_empty_maps({**manifest, "metadata": metadata})


def as_written(changed: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a changed served manifest as it goes to the file: what `manifest` did not state stays unstated."""
    stated = manifest["metadata"]
    metadata = {
        key: value
        for key, value in changed["metadata"].items()
        if key not in ("uid", "namespace") or stated.get(key) is not None
    }
    return without_empty_maps({**changed, "metadata": metadata})


def without_empty_maps(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest without empty annotations, labels and data, which the API server does not keep."""
    for *path, last in _EMPTY_IS_ABSENT:
        holder = manifest[path[0]] if path else manifest
        if last in holder and holder[last] in (None, {}):
            left = {key: value for key, value in holder.items() if key != last}
            manifest = {**manifest, path[0]: left} if path else left
    return manifest


def with_generation(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """Return `new` as one generation further where its spec changed, and observed at once where that is recorded."""
    generation = new["metadata"].get("generation")
    if equal(new.get("spec"), old.get("spec")) or not isinstance(generation, int):
        return new
    return _observed({**new, "metadata": {**new["metadata"], "generation": generation + 1}}, generation + 1)


def _observed(manifest: dict[str, Any], generation: int) -> dict[str, Any]:
    status = manifest.get("status")
    if not isinstance(status, dict) or "observedGeneration" not in status:
        return manifest
    written = str(generation) if isinstance(status["observedGeneration"], str) else generation
    return {**manifest, "status": {**status, "observedGeneration": written}}


def with_writer(manifest: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return the manifest with the field at `path` owned by us, where it records owners. We know no time."""
    entries = manifest["metadata"].get("managedFields")
    if not entries:
        return manifest
    names = tuple(f"f:{key}" for key in path)
    others = [_without_field(entry, names) for entry in entries if not _is_ours(entry)]
    new = {"manager": FIELD_MANAGER, "operation": "Update"}
    ours: dict[str, Any] = next((entry for entry in entries if _is_ours(entry)), new)
    fields = put_at(ours.get("fieldsV1") or {}, names, {})
    version = {"apiVersion": manifest["apiVersion"], "fieldsType": "FieldsV1"} if "apiVersion" in manifest else {}
    kept = {key: value for key, value in ours.items() if key != "time"}
    managed = [*others, {**kept, **version, "fieldsV1": fields}]
    return {**manifest, "metadata": {**manifest["metadata"], "managedFields": managed}}


def _is_ours(entry: Mapping[str, Any]) -> bool:
    return (entry.get("manager"), entry.get("operation"), entry.get("subresource") or "") == (
        FIELD_MANAGER,
        "Update",
        "",
    )


def _without_field(entry: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {**entry, "fieldsV1": without_at(entry.get("fieldsV1") or {}, names)}


def without_at(value: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return `value` without what is at `path`."""
    if path[0] not in value:
        return value
    if len(path) == 1:
        return {key: inside for key, inside in value.items() if key != path[0]}
    below = value[path[0]]
    return {**value, path[0]: without_at(below, path[1:])} if isinstance(below, dict) else value
