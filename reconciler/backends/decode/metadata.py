"""What every object says of itself: whose it is, and who wrote which of the fields that we write.

Source: apimachinery meta/v1 types.go.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType, field

from reconciler.backends.decode.values import Instant, NonEmptyText, StringMap, Wire, shared, shared_text
from reconciler.model import DELETION_COST

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class OwnerReference(Wire):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None

    def __post_init__(self) -> None:
        self.api_version, self.kind = shared_text(self.api_version), shared_text(self.kind)


class Metadata(Wire):
    """`annotations` are without the one that kubectl keeps: it holds the whole object once more, for kubectl alone."""

    name: NonEmptyText
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    creation_timestamp: Instant | None = None
    deletion_timestamp: Instant | None = None
    labels: StringMap | None = None
    annotations: StringMap | None = None
    owner_references: list[OwnerReference] | None = None

    def __post_init__(self) -> None:
        self.namespace = shared_text(self.namespace)
        self.labels = shared(self.labels)
        if self.annotations:
            self.annotations.pop(_LAST_APPLIED, None)
            self.annotations = shared(self.annotations)
        else:
            self.annotations = None  # a server keeps no empty map


class Object(Wire):
    """What every object has."""

    metadata: Metadata


class _OwnedSpec(Struct, gc=False):
    replicas: dict[str, Any] | UnsetType = field(default=UNSET, name="f:replicas")
    suspend: dict[str, Any] | UnsetType = field(default=UNSET, name="f:suspend")


class _OwnedAnnotations(Struct, gc=False):
    cost: dict[str, Any] | UnsetType = field(default=UNSET, name=f"f:{DELETION_COST}")


class _OwnedMetadata(Struct, gc=False, omit_defaults=True):
    annotations: _OwnedAnnotations | None = field(default=None, name="f:annotations")


class FieldsV1(Struct, gc=False, omit_defaults=True):
    """What a manager owns of the fields that we write: of all that it owns nothing else is read."""

    spec: _OwnedSpec | None = field(default=None, name="f:spec")
    metadata: _OwnedMetadata | None = field(default=None, name="f:metadata")

    def owns(self, path: tuple[str, ...]) -> bool:
        """Return whether the replicas, the switch or the deletion cost at `path` are among what is owned."""
        if path[0] == "metadata":
            annotations = (self.metadata or _OwnedMetadata()).annotations
            return annotations is not None and annotations.cost is not UNSET
        spec = self.spec or _OwnedSpec()
        return (spec.suspend if path[-1] == "suspend" else spec.replicas) is not UNSET


class ManagedFieldsEntry(Wire):
    manager: str | None = None
    operation: str | None = None
    time: Instant | None = None
    subresource: str | None = None

    def __post_init__(self) -> None:
        self.manager = shared_text(self.manager)


class ManagedFields(ManagedFieldsEntry):
    fields_v1: FieldsV1 | None = field(default=None, name="fieldsV1")


class OwnedMetadata(Metadata):
    """That of objects of which we write a field whose place is known: kinds with a scale, and pods."""

    managed_fields: list[ManagedFields] | None = None


class CustomManagedFields(ManagedFieldsEntry):
    fields_v1: dict[str, Any] | None = field(default=None, name="fieldsV1")


class CustomMetadata(Metadata):
    managed_fields: list[CustomManagedFields] | None = None


def controller_of(metadata: Metadata) -> OwnerReference | None:
    """Return the owner that controls the object, None where nothing does."""
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)
