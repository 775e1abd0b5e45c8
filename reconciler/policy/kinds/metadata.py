"""What every policy document begins with."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

from reconciler.policy.kinds.scalars import Annotations, Labels, Name

T = TypeVar("T")

API_VERSION = "reconciler/v1alpha1"
ApiVersionField = Annotated[
    Literal["reconciler/v1alpha1"],
    Meta(description="apiVersion is the version of the schema that this document follows."),
]


class Fields(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A mapping with these fields and no other. `json_schema` adds what the types cannot say to its JSON Schema."""

    json_schema: ClassVar[dict[str, Any]] = {}


def given(value: T | UnsetType) -> T | None:
    """Return the value of an optional field, None where it is not set."""
    return None if value is UNSET else value


class MetadataFields(Fields, frozen=True, kw_only=True):
    """The name of the policy, with its labels and annotations."""

    name: Annotated[Name, Meta(description="name is unique among the policies of its kind.")]
    labels: Annotated[Labels, Meta(description="labels are for your own tools; the reconciler does not read them.")] = (
        field(default_factory=dict)
    )
    annotations: Annotated[
        Annotations, Meta(description="annotations are for your own tools; the reconciler does not read them.")
    ] = field(default_factory=dict)


MetadataField = Annotated[MetadataFields, Meta(description="metadata names the policy.")]
KIND = Meta(description="kind is the kind of this document.")
