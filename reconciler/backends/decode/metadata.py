"""What every object on the wire has in common, as msgspec structs; what many objects say alike is kept once.

A struct names the fields that are read; the others are skipped. `null` counts as absent, as the API server has it.
Names are the API's own, in snake case.

Source: apimachinery meta/v1 types.go.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from reconciler.backends.decode.instants import Instant

Name = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Labels = dict[str, str]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_ENTRIES = 8
_REMEMBERED = 512


def shared(mapping: Labels | None) -> Labels | None:
    """Return labels or annotations equal to `mapping`, the same object for several; nobody may change it."""
    return _remembered(tuple(mapping.items())) if mapping and len(mapping) <= _MOST_ENTRIES else mapping


@lru_cache(_REMEMBERED)
def _remembered(entries: tuple[tuple[str, str], ...]) -> Labels:
    return {intern(key): intern(value) for key, value in entries}


def shared_text(text: str | None) -> str | None:
    """Return a text equal to `text`, the same object wherever it is alive."""
    return None if text is None else intern(text)


class Wire(Struct, rename="camel", gc=False):
    """The base: fields in snake case, on the wire in camel case."""


class Owner(Wire):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None

    def __post_init__(self) -> None:
        self.api_version, self.kind = shared_text(self.api_version), shared_text(self.kind)


class Metadata(Wire):
    """`annotations` are without the one that kubectl keeps: it holds the whole object once more, for kubectl alone."""

    name: Name
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    creation_timestamp: Instant | None = None
    deletion_timestamp: Instant | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    owner_references: list[Owner] | None = None

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


class OwnedScaleFields(Struct, gc=False):
    replicas: dict[str, Any] | UnsetType = field(default=UNSET, name="f:replicas")
    suspend: dict[str, Any] | UnsetType = field(default=UNSET, name="f:suspend")


class OwnedFields(Struct, gc=False):
    spec: OwnedScaleFields | None = field(default=None, name="f:spec")


class ManagedFieldsEntry(Wire):
    manager: str | None = None
    operation: str | None = None
    time: Instant | None = None
    subresource: str | None = None

    def __post_init__(self) -> None:
        self.manager = shared_text(self.manager)


class ManagedFields(ManagedFieldsEntry):
    fields_v1: OwnedFields | None = field(default=None, name="fieldsV1")


class ScalableMetadata(Metadata):
    managed_fields: list[ManagedFields] | None = None


class CustomManagedFields(ManagedFieldsEntry):
    fields_v1: dict[str, Any] | None = field(default=None, name="fieldsV1")


class CustomMetadata(Metadata):
    managed_fields: list[CustomManagedFields] | None = None


def controller_of(metadata: Metadata) -> Owner | None:
    """Return the owner that controls the object, None where nothing does."""
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)
