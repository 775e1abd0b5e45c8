"""Decoded objects -> manifests that decode to the same: just the fields that are read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

from reconciler.backends.base import BOUNDS, BUILT_IN_SCALES, SCALED_OBJECT, Resource
from reconciler.backends.decode.instants import Instant
from reconciler.backends.decode.metadata import Wire
from reconciler.backends.decode.scalables import count_at
from reconciler.backends.decode.shapes import decoded_value
from reconciler.backends.decode.workloads import Custom, CustomStatus, ReplicaSet, WholeTemplate
from reconciler.backends.snapshot.settled import put_at
from reconciler.model import HorizontalPodAutoscaler, ScaleKind, Workload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNTS = ("readyReplicas", "availableReplicas", "updatedReplicas", "observedGeneration")
_SAYS_NOTHING: Mapping[str, Any] = {"conditions": []}
"""A status that says nothing. One that is absent would be taken for that of a settled object."""


def manifest_of(
    resource: Resource[Any], decoded: Wire, custom: Mapping[tuple[str, str], ScaleKind], *, whole: bool = False
) -> dict[str, Any]:
    """Return an object as a manifest; `custom` says where custom resources keep their replicas.

    With `whole` the pod template of a ReplicaSet has everything in it, else only what is read of any template: what
    people write into `env`, `args` and elsewhere may be secret.
    """
    found: dict[str, Any] = plain(decoded)
    if isinstance(decoded, ReplicaSet) and not whole and decoded.spec is not None and decoded.spec.template is not None:
        found["spec"]["template"] = plain(decoded.spec.template.read)
    key = (resource.group, resource.kind)
    if isinstance(decoded, Custom):
        found |= _custom_parts(decoded, custom.get(key))
    if "status" in decoded.__struct_fields__ and not found.get("status"):
        found["status"] = dict(_SAYS_NOTHING)
    if resource.noun is Workload:
        kinds = {(scale.group, scale.kind): scale for scale in (*BUILT_IN_SCALES, SCALED_OBJECT)} | dict(custom)
        path = kinds[key].replicas_path if key in kinds else ("spec", "replicas")
        found["metadata"] = _with_owners_of(found["metadata"], path)
    if resource.noun is HorizontalPodAutoscaler:
        found["metadata"] = _with_owners_of(found["metadata"], *BOUNDS)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **found}


def definition_of(kind: ScaleKind, *, namespaced: bool) -> dict[str, Any]:
    """Return a CustomResourceDefinition that says of a kind what is read of it: where its replicas are."""
    scale = {
        "specReplicasPath": "." + ".".join(kind.replicas_path),
        "statusReplicasPath": "." + ".".join(kind.status_path),
    }
    version = {"name": kind.version, "served": True, "storage": True, "subresources": {"scale": scale}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "names": {"kind": kind.kind, "plural": kind.plural},
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [version],
        },
    }


def plain(value: Any) -> Any:
    """Return `value` as JSON and YAML have it, with the API's own names; absent fields are left out."""
    if isinstance(value, Instant):
        return instant_text(value)
    if isinstance(value, WholeTemplate):
        return plain(value.read) if value.raw is None else value.raw
    if isinstance(value, msgspec.Struct):
        fields = [(name, getattr(value, attribute)) for attribute, name in _names(type(value))]
        return {name: plain(inside) for name, inside in fields if inside is not None and inside is not msgspec.UNSET}
    if isinstance(value, list):
        return [plain(inside) for inside in value]
    return value


@lru_cache(maxsize=256)
def _names(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """Return each field's name here and on the wire."""
    return tuple((field.name, field.encode_name) for field in msgspec.structs.fields(struct))


def instant_text(at: Instant) -> str:
    """Return a time as RFC 3339, with as much of a fraction as it has."""
    seconds, fraction = divmod(int(at), 10**9)
    whole = (_EPOCH + timedelta(seconds=seconds)).strftime("%m-%dT%H:%M:%S")
    year = (_EPOCH + timedelta(seconds=seconds)).year
    parts = f".{fraction:09d}".rstrip("0") if fraction else ""
    return f"{year:04d}-{whole}{parts}Z"


def _custom_parts(decoded: Custom, scale: ScaleKind | None) -> dict[str, Any]:
    """Return spec and status with what is read of them: the rest of a custom resource is nobody's business."""
    scale = scale or ScaleKind("", "", "", "")
    spec, status = decoded.spec or {}, decoded.status or {}
    parts: dict[str, Any] = {"spec": {}, "status": {}}
    replicas = count_at({"spec": spec}, scale.replicas_path)
    if replicas is not None and replicas >= 0:
        parts = put_at(parts, scale.replicas_path, replicas)
    counted = count_at({"status": status}, scale.status_path)
    if counted is not None:
        parts = put_at(parts, scale.status_path, counted)
    parts["status"] |= {name: count for name in _COUNTS if (count := count_at(status, (name,))) is not None}
    parts["status"] |= _conditions(status)
    selector = spec.get("selector")
    if isinstance(selector, dict):
        parts["spec"]["selector"] = {
            key: selector[key] for key in ("matchLabels", "matchExpressions") if key in selector
        }
    labels = _at(spec, ("template", "metadata", "labels"))
    if labels is not None:
        parts["spec"]["template"] = {"metadata": {"labels": labels}}
    return {**parts, "status": parts["status"] or dict(_SAYS_NOTHING)}


def _conditions(status: Mapping[str, Any]) -> dict[str, Any]:
    try:
        read: dict[str, Any] = plain(decoded_value(CustomStatus, dict(status)))
    except msgspec.ValidationError:
        return {}
    return read


def _at(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _with_owners_of(metadata: dict[str, Any], *paths: tuple[str, ...]) -> dict[str, Any]:
    """Return metadata with those managers only that own a field at one of `paths`, and of what they own only those."""
    kept = []
    for entry in metadata.get("managedFields", ()):
        fields: dict[str, Any] = {}
        for names in (tuple(f"f:{key}" for key in path) for path in paths):
            if names and entry.get("subresource") != "status" and _at(entry.get("fieldsV1"), names) is not None:
                fields = put_at(fields, names, {})
        kept += [{**entry, "fieldsV1": fields}] if fields else []
    others = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**others, "managedFields": kept} if kept else others
