"""Who wrote `spec.replicas` last, from metadata.managedFields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import UNSET

from reconciler.backends.decode.instants import Instant
from reconciler.backends.decode.metadata import CustomManagedFields, ManagedFields, OwnedFields, OwnedScaleFields
from reconciler.model import FieldWriter

_BEFORE_ALL = Instant(-(2**63))


def replicas_writer(
    entries: Sequence[ManagedFields | CustomManagedFields], path: tuple[str, ...]
) -> FieldWriter | None:
    """Return the manager that owns the field at `path`, None where nobody is recorded.

    Several own it when they applied the same value: the one that wrote last counts. The time is that of the manager's
    last write to anything, so an upper bound; entries written through /scale have none.

    Source: structured-merge-diff fieldpath; apimachinery meta/v1 ManagedFieldsEntry; seed idling-and-unidling.md,
    scale-reason.
    """
    owners = [entry for entry in entries if path and entry.subresource != "status" and _owns(entry.fields_v1, path)]
    if not owners:
        return None
    last = max(owners, key=lambda entry: (_BEFORE_ALL if entry.time is None else entry.time, entry.manager or ""))
    at = None if last.time is None else last.time.as_datetime()
    return FieldWriter(last.manager or "", at, last.subresource or "")


def _owns(fields: OwnedFields | Mapping[str, Any] | None, path: tuple[str, ...]) -> bool:
    if isinstance(fields, OwnedFields):
        spec = fields.spec or OwnedScaleFields()
        return (spec.suspend if path[-1] == "suspend" else spec.replicas) is not UNSET
    node: Any = fields
    for key in path:
        node = node.get(f"f:{key}") if isinstance(node, Mapping) else None
    return node is not None
