"""What of an object is recorded in a snapshot: what is read of it. The rest is left out: values of `env` and the like,
and managers of fields that nobody asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reconciler.backends.decode import shapes
from reconciler.backends.decode.shapes import Custom, CustomTemplate, PodTemplate, ReplicaSet
from reconciler.backends.decode.values import Wire
from reconciler.backends.decode.workloads import EVERY, custom_selector, if_shaped, number_at, paths_read
from reconciler.backends.patched_values import value_below
from reconciler.backends.protocols import BOUNDS, COST, Resource
from reconciler.backends.snapshot.served_manifests import plain, put_at, without_at
from reconciler.model import HorizontalPodAutoscaler, Workload
from reconciler.workload_kinds import SCALABLE_KINDS, WorkloadKind, workload_kind

_NOWHERE_KNOWN = workload_kind("")
_SAYS_NOTHING: Mapping[str, Any] = {"conditions": []}
"""A status that says nothing. One that is absent would be taken for that of a settled object."""


def recorded_manifest(
    resource: Resource[Any], decoded: Wire, custom: Mapping[tuple[str, str], WorkloadKind], *, whole: bool = False
) -> dict[str, Any]:
    """Return an object as a manifest; `custom` says where custom resources keep their replicas.

    With `whole` the pod template of a ReplicaSet has everything in it, else only what is read of any template, labels
    and requests: what people write into `env`, `args` and elsewhere may be secret.
    """
    found: dict[str, Any] = plain(decoded)
    if isinstance(decoded, ReplicaSet) and not whole and decoded.spec is not None and decoded.spec.template is not None:
        found["spec"]["template"] = plain(decoded.spec.template.part)
    key = (resource.group, resource.kind)
    if isinstance(decoded, Custom):
        found = {"metadata": found["metadata"], **_custom_parts(decoded, custom.get(key, _NOWHERE_KNOWN))}
    elif "status" in decoded.__struct_fields__ and not found.get("status"):
        found["status"] = dict(_SAYS_NOTHING)
    if resource.model_type is Workload:
        kind = custom.get(key) or SCALABLE_KINDS.get(key)
        path = ("spec", "replicas") if kind is None else kind.replicas_path
        found["metadata"] = _with_owners_of(found["metadata"], path)
    if isinstance(decoded, shapes.Pod):
        found["metadata"] = _with_owners_of(found["metadata"], COST)
    if resource.model_type is HorizontalPodAutoscaler:
        found["metadata"] = _with_owners_of(found["metadata"], *BOUNDS)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **found}


def definition_of(kind: WorkloadKind, *, namespaced: bool) -> dict[str, Any]:
    """Return a CustomResourceDefinition that says of a kind what is read of it: where its replicas are."""
    scale = {
        "specReplicasPath": "." + ".".join(kind.replicas_path),
        "statusReplicasPath": "." + ".".join(kind.status_path),
    }
    version = {"name": kind.version, "served": True, "storage": True, "subresources": {"scale": scale}}
    if kind.status_counts:
        status = {"properties": {field: {"type": "integer"} for field in kind.status_counts}}
        version["schema"] = {"openAPIV3Schema": {"properties": {"status": status}}}
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


def _custom_parts(decoded: Custom, kind: WorkloadKind) -> dict[str, Any]:
    """Return spec and status with what is read of them: the rest of a custom resource is nobody's business."""
    spec = decoded.spec or {}
    value = {name: part for name in ("spec", "status") if (part := getattr(decoded, name)) is not None}
    if not kind.is_switch:  # a snapshot takes nothing but a number
        number = number_at(value, kind.replicas_path)
        path = kind.replicas_path
        value = without_at(value, path) if number is None else put_at(value, path, number)
    parts: dict[str, Any] = _pruned(value, tuple(paths_read(kind)))
    template = if_shaped(PodTemplate, spec.get("template")) or if_shaped(CustomTemplate, spec.get("template"))
    for name, found in (("selector", custom_selector(spec)), ("template", template)):
        if not kind.is_switch and found is not None:
            parts["spec"][name] = plain(found)
    has_status = decoded.status or not kind.is_switch
    return {**parts, "status": parts.get("status") or dict(_SAYS_NOTHING)} if has_status else parts


def _pruned(value: Any, paths: Sequence[tuple[str, ...]]) -> Any:
    """Return `value` with what stands at `paths`. Of what stands there, or in their way, a mapping or a list is kept
    empty.
    """
    if isinstance(value, Mapping):
        below = {key: [path[1:] for path in paths if path and path[0] in (key, EVERY)] for key in value}
        return {key: _pruned(inside, below[key]) for key, inside in value.items() if below[key]}
    if isinstance(value, list):
        inside = [path[1:] for path in paths if path and path[0] == EVERY]
        return [_pruned(item, inside) for item in value] if inside else []
    return value


def _with_owners_of(metadata: dict[str, Any], *paths: tuple[str, ...]) -> dict[str, Any]:
    """Return metadata with those managers only that own a field at one of `paths`, and of what they own only those."""
    kept = []
    for entry in metadata.get("managedFields", ()):
        fields: dict[str, Any] = {}
        for names in (tuple(f"f:{key}" for key in path) for path in paths):
            if names and value_below(entry.get("fieldsV1"), names) is not None:
                fields = put_at(fields, names, {})
        kept += [{**entry, "fieldsV1": fields}] if fields else []
    others = {key: value for key, value in metadata.items() if key != "managedFields"}
    return {**others, "managedFields": kept} if kept else others
