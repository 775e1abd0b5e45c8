"""Manifests as the API server would show them, and what it changes when one is written. Pure.

An object without status means that everything it asks for is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from reconciler.backends.decode import shapes
from reconciler.backends.decode.shapes import WholeTemplate
from reconciler.backends.decode.values import Instant
from reconciler.backends.decode.workloads import STATUS_COUNTS, count_at
from reconciler.backends.patched_values import equal
from reconciler.model import FIELD_MANAGER
from reconciler.workload_kinds import WorkloadKind

_EMPTY_IS_ABSENT = (("metadata", "annotations"), ("metadata", "labels"), ("data",))


def as_served(manifest: dict[str, Any], uid: str, namespace: str) -> dict[str, Any]:
    """Return the manifest with what the API server would show: uid and namespace, no empty maps."""
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
    theirs = [entry for entry in entries if not _is_ours(entry)]
    others = [{**entry, "fieldsV1": without_at(entry.get("fieldsV1") or {}, names)} for entry in theirs]
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


def without_at(value: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Return `value` without what is at `path`."""
    if path[0] not in value:
        return value
    if len(path) == 1:
        return {key: inside for key, inside in value.items() if key != path[0]}
    below = value[path[0]]
    return {**value, path[0]: without_at(below, path[1:])} if isinstance(below, dict) else value


def fill_status(decoded: Any, scale: WorkloadKind | None) -> None:
    """Give `decoded` the status of a settled object where it has none; a status that says anything is kept."""
    if isinstance(decoded, shapes.AppsWorkload | shapes.ReplicaSet | shapes.ReplicationController):
        if decoded.status in (None, shapes.WorkloadStatus()):
            wanted = decoded.spec.replicas if decoded.spec is not None else None
            decoded.status = _status(1 if wanted is None else wanted, decoded)
    elif isinstance(decoded, shapes.Custom):
        if scale is not None and not scale.is_switch and not decoded.status:
            decoded.status = _custom_status(decoded, scale)
    elif isinstance(decoded, shapes.Pod) and decoded.status in (None, shapes.PodStatus()):
        ready = shapes.StatusCondition("Ready", "True")
        decoded.status = shapes.PodStatus(phase="Running", conditions=[ready])


def _status(wanted: int, decoded: Any) -> shapes.WorkloadStatus:
    rolls = isinstance(decoded, shapes.AppsWorkload)
    return shapes.WorkloadStatus(
        replicas=wanted,
        ready_replicas=wanted,
        available_replicas=wanted,
        updated_replicas=wanted if rolls else None,
        observed_generation=decoded.metadata.generation,
    )


def _custom_status(decoded: shapes.Custom, scale: WorkloadKind) -> dict[str, Any]:
    recorded = count_at({"spec": decoded.spec or {}}, scale.replicas_path)
    wanted = 1 if recorded is None else recorded
    status: dict[str, Any] = dict.fromkeys(STATUS_COUNTS, wanted)
    if decoded.metadata.generation is not None:
        status["observedGeneration"] = decoded.metadata.generation
    return put_at({"status": status}, scale.status_path, wanted)["status"]  # type: ignore[no-any-return]


def put_at(value: dict[str, Any], path: tuple[str, ...], inside: Any) -> dict[str, Any]:
    """Return `value` with `inside` at `path` (not empty); mappings on the way are made where there are none."""
    below = value.get(path[0])
    mapping = below if isinstance(below, dict) else {}
    return {**value, path[0]: put_at(mapping, path[1:], inside) if len(path) > 1 else inside}


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN = frozenset((str, int, float, bool, type(None)))


def plain(value: Any) -> Any:
    """Return `value` in the types that JSON and YAML have, with the API's own names; absent fields are left out."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value, enc_hook=plain)
    if isinstance(value, Instant):
        return instant_text(value)
    if isinstance(value, Mapping):
        return {str(key): plain(inside) for key, inside in value.items()}
    if isinstance(value, WholeTemplate):
        return plain(value.part) if value.raw is None else value.raw
    if isinstance(value, list | tuple):
        return [plain(inside) for inside in value]
    return value


def instant_text(at: Instant) -> str:
    """Return a time as RFC 3339, with as much of a fraction as it has."""
    seconds, fraction = divmod(int(at), 10**9)
    whole = (_EPOCH + timedelta(seconds=seconds)).strftime("%m-%dT%H:%M:%S")
    year = (_EPOCH + timedelta(seconds=seconds)).year
    parts = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{year:04d}-{whole}{parts}Z"
