"""A plan as a JSON document, from which it is written, read and described: every field of it is required.

What it has in common with decisions is defined there.
"""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import or_
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin

from msgspec import Meta, Struct, defstruct, field
from msgspec.structs import fields, force_setattr

from reconciler.connection_settings import PickerHeader, PodPicker, SecretKey
from reconciler.decide.decisions import (
    DownscaleSettings,
    Job,
    LimitUse,
    Notice,
    PlacementRow,
    PlacementView,
    PlanNumber,
    Undecided,
    Verb,
    VictimForecast,
)
from reconciler.decide.reasons import ReasonCode
from reconciler.plan.model import json_value

PLAN_VERSION: Final = "reconciler/plan/v1alpha2"
PLAN_SCHEMA = Meta(
    description="schemaVersion is the version of the schema of this document. Documents of other versions are refused."
)
PhaseName = Literal["wake", "repair", "increase", "move", "annotate", "decrease", "record"]


class JsonObject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A JSON object without any field that is not described."""


class ObjectDocument(JsonObject, frozen=True):
    """One object in a cluster."""

    api_version: Annotated[str, Meta(description='Group and version as in a manifest, "apps/v1".')]
    group: Annotated[str, Meta(description='The API group; "" for the core group.')]
    kind: Annotated[str, Meta(description='"Deployment", "Service", ...')]
    namespace: Annotated[str, Meta(description='The namespace; "" for kinds without one.')]
    name: Annotated[str, Meta(description="The object's name.")]
    uid: Annotated[
        str | None,
        Meta(
            description="The uid of the object. An object with another uid is not changed. null: it does not exist yet."
        ),
    ]


class ReasonDocument(JsonObject, frozen=True):
    """One reason, as data."""

    code: Annotated[ReasonCode, Meta(description="The reason's code, one of a closed list.")]
    values: Annotated[
        dict[str, str | int | float | bool | list[str] | None],
        Meta(description="The values of the reason, by name: text, numbers, lists of text."),
    ]

    def __post_init__(self) -> None:
        force_setattr(self, "values", json_value(self.values))


class ReasonedDocument(JsonObject, frozen=True, kw_only=True):
    """Something that has reasons, after its own fields. A plan of an earlier version has just their text, in `why`."""

    reason_code: Annotated[str, Meta(description='The code of the first of the reasons; "" for none.')] = ""
    reasons: Annotated[
        list[ReasonDocument],
        Meta(description="The reasons as data. reason is their text, for people: it may change in any release."),
    ] = field(default_factory=list)

    def __post_init__(self) -> None:
        text = getattr(self, "why", "")
        if text and not self.reasons:
            force_setattr(self, "reasons", [ReasonDocument(code=ReasonCode.OTHER, values={"text": text})])


class CauseDocument(ReasonedDocument, frozen=True):
    """Why something is done."""

    policy: Annotated[str, Meta(description='The name of the policy; "" for none.')]
    at: Annotated[str, Meta(description="The file and line of the policy.")]
    why: Annotated[str, Meta(description="The reason, in one phrase.")] = field(name="reason")
    values: Annotated[
        dict[str, Any],
        Meta(
            description="The values that the decision is based on, by name. Numbers that JSON cannot hold are "
            '"NaN", "+Inf" and "-Inf".'
        ),
    ]

    def __post_init__(self) -> None:
        ReasonedDocument.__post_init__(self)
        force_setattr(self, "values", json_value(self.values))


class ReplicasDocument(JsonObject, frozen=True):
    """The replicas of an object before and after a change."""

    before: Annotated[PlanNumber | None, Meta(description="spec.replicas now; null: the object does not exist.")]
    after: Annotated[PlanNumber | None, Meta(description="spec.replicas after the change; null: unchanged.")]


def document_of(kind: type[Struct], name: str, *, first: tuple[str, ...] = (), why: str = "") -> Any:
    """Return the JSON object with the fields of `kind`, all of them required, those called `first` before the others.

    One that has reasons has them last, as data, after their text where `why` describes it.
    """
    order = [*first, *kind.__struct_fields__]
    own = sorted((one for one in fields(kind) if one.name != "reasons"), key=lambda one: order.index(one.name))
    described: list[Any] = [(one.name, _document_in(one.type)) for one in own]
    if why:
        described.append(("why", Annotated[str, Meta(description=why)], field(name="reason")))
    base = ReasonedDocument if len(own) < len(fields(kind)) else JsonObject
    made = defstruct(name, described, bases=(base,), namespace={"__doc__": kind.__doc__}, frozen=True)
    _DOCUMENTS[kind] = made
    return made


_DOCUMENTS: dict[Any, Any] = {}


def _document_in(kind: Any) -> Any:
    """Return a type with documents in place of what they are made of."""
    parts = get_args(kind)
    if get_origin(kind) is Annotated:
        return Annotated[(_document_in(parts[0]), *parts[1:])]
    if get_origin(kind) is tuple:
        return list[_document_in(parts[0])]  # type: ignore[misc]  # made at run time
    if get_origin(kind) in (Union, UnionType):
        return reduce(or_, map(_document_in, parts))
    return _DOCUMENTS.get(kind, kind)


if TYPE_CHECKING:
    VictimsDocument = VictimForecast
    DownscaleDocument = DownscaleSettings
    LimitDocument = LimitUse
    UndecidedDocument = Undecided
    NoticeDocument = Notice
    PlacementDocument = PlacementView
else:
    document_of(SecretKey, "SecretKeyDocument")
    document_of(PickerHeader, "HeaderDocument")
    document_of(PodPicker, "PodPickerDocument")
    document_of(PlacementRow, "PlacementRowDocument", why="The step and the limit that decided.")
    VictimsDocument = document_of(VictimForecast, "VictimsDocument", first=("count", "pods", "rules"))
    DownscaleDocument = document_of(DownscaleSettings, "DownscaleDocument")
    LimitDocument = document_of(LimitUse, "LimitDocument")
    UndecidedDocument = document_of(Undecided, "UndecidedDocument", why="The reason.")
    NoticeDocument = document_of(Notice, "NoticeDocument")
    PlacementDocument = document_of(PlacementView, "PlacementDocument")


class ChangeDocument(JsonObject, frozen=True):
    """One change of one object."""

    id: Annotated[
        int, Meta(ge=1, description="The number of the change in this list, from 1, in the order of the changes.")
    ]
    key: Annotated[str, Meta(description="The name of the change, unique in the run.")]
    job: Annotated[Job, Meta(description="The job that makes the change.")]
    verb: Annotated[Verb, Meta(description="What happens to the object.")]
    phase: Annotated[PhaseName, Meta(description="The phase of the run. Phases follow each other in this order.")]
    cluster: Annotated[str, Meta(description="The cluster of the object.")]
    object: Annotated[ObjectDocument, Meta(description="The object.")]
    replicas: Annotated[ReplicasDocument | None, Meta(description="Its replicas; null: unchanged.")]
    cause: Annotated[CauseDocument, Meta(description="The reason of the change.")]
    before: Annotated[
        dict[str, Any],
        Meta(
            description="The fields that the change requires, by JSON pointer, with their present values; null: absent."
        ),
    ]
    after: Annotated[
        dict[str, Any],
        Meta(
            description="The same fields after the change; null: removed. A field that is equal in before is a "
            "precondition only."
        ),
    ]
    manifest: Annotated[dict[str, Any] | None, Meta(description="The object that is created; null: none.")]
    orphan: Annotated[bool, Meta(description="Whether the pods keep running when the object is deleted.")]
    victims: Annotated[VictimsDocument | None, Meta(description="The pods that are deleted; null: none, or not known.")]
    downscale: Annotated[
        DownscaleDocument | None, Meta(description="How the pods to delete are chosen; null: by the controller.")
    ]
    group: Annotated[str, Meta(description="The group of the change. Filters and limits apply to whole groups.")]
    order: Annotated[list[int], Meta(description="The order inside the phase and the group.")]
    needs: Annotated[list[int], Meta(description="The ids of changes that must be applied before.")]
    wake_tier: Annotated[str, Meta(description='The tier of a wake that other wakes wait for; "" for none.')]
    wait_ready: Annotated[
        str, Meta(description='The wake tier whose objects must be ready first, for at most 10 minutes; "" for none.')
    ]
    event: Annotated[str, Meta(description='The reason of the Event for the change; "" for none.')]
    idles: Annotated[bool, Meta(description="Whether it idles a workload.")]
    known: Annotated[
        bool, Meta(description="Whether the workload was idled on the same hours before, so that no limit counts it.")
    ]
    has_annotations: Annotated[bool, Meta(description="Whether the object has annotations.")]
    has_labels: Annotated[bool, Meta(description="Whether the object has labels.")]
    wait_activator: Annotated[
        bool,
        Meta(description="Whether an activator must accept the Services' connections first, for at most 15 seconds."),
    ]


class HeldBackDocument(JsonObject, frozen=True):
    """Changes of one policy that limits, or a guard, hold back."""

    allow: Annotated[str, Meta(description='The name for --allow-exceed, which allows them once; "": a guard.')]
    why: Annotated[str, Meta(description="What exceeds which limit, and what allows it.")] = field(name="reason")
    limits: Annotated[list[LimitDocument], Meta(description="The limits that are exceeded; none: a guard.")]
    changes: Annotated[list[ChangeDocument], Meta(description="The changes that are held back.")]


class OverriddenDocument(ReasonedDocument, frozen=True):
    """A policy that another policy takes precedence over, for one workload."""

    cluster: Annotated[str, Meta(description="The cluster of the workload.")]
    group: Annotated[str, Meta(description='Its API group; "" for the core group.')]
    kind: Annotated[str, Meta(description="Its kind.")]
    namespace: Annotated[str, Meta(description="Its namespace.")]
    name: Annotated[str, Meta(description="Its name.")]
    job: Annotated[Job, Meta(description="The job of the policy.")]
    policy: Annotated[str, Meta(description="The policy that is overridden.")]
    wish: Annotated[str, Meta(description="What the policy would do.")] = field(name="desired")
    winner: Annotated[str, Meta(description="The policy that decides instead.")]
    why: Annotated[str, Meta(description="Why that policy takes precedence.")] = field(name="reason")


class Counts(JsonObject, frozen=True):
    """The plan in numbers. apply does not read them."""

    to_idle: Annotated[PlanNumber, Meta(description="Workloads to be idled.")]
    to_wake: Annotated[PlanNumber, Meta(description="Workloads to be woken.")]
    to_scale_up: Annotated[PlanNumber, Meta(description="Workloads that get more replicas.")]
    to_scale_down: Annotated[
        PlanNumber, Meta(description="Workloads that get fewer replicas, except those that are idled.")
    ]
    to_create: Annotated[PlanNumber, Meta(description="Objects to be created.")]
    to_overwrite: Annotated[PlanNumber, Meta(description="Objects whose pod template is replaced.")]
    to_delete: Annotated[PlanNumber, Meta(description="Objects to be deleted.")]
    to_update: Annotated[
        PlanNumber, Meta(description="Objects that change otherwise: bounds of autoscalers, adoption, release.")
    ]
    metadata_updates: Annotated[
        PlanNumber, Meta(description="Changes of annotations, labels and ConfigMaps of the reconciler only.")
    ]
    held_back: Annotated[PlanNumber, Meta(description="Changes that limits and guards hold back.")]
    observed: Annotated[PlanNumber, Meta(description="Changes of policies in mode Observe.")]
    undecided: Annotated[PlanNumber, Meta(description="Objects that nothing is decided for.")]
    overridden: Annotated[
        PlanNumber, Meta(description="Policies that another policy takes precedence over, for one workload.")
    ]
    unknown: Annotated[PlanNumber, Meta(description="Clusters, or parts of them, that could not be read.")]
    dropped: Annotated[PlanNumber, Meta(description="Changes left out by filters.")]
    replicas_fewer: Annotated[PlanNumber, Meta(description="Replicas removed.")]
    replicas_more: Annotated[PlanNumber, Meta(description="Replicas added.")]


class DigestsDocument(JsonObject, frozen=True):
    """What the plan was made from. Plans with equal digests and times are equal."""

    policies: Annotated[str, Meta(description="SHA-256 over the names and bytes of the policy files.")]
    inputs: Annotated[str, Meta(description="SHA-256 over what was observed.")]


class PlanDocument(JsonObject, frozen=True):
    """What a run would change, and why. It is all that apply needs."""

    schema_version: Annotated[Literal["reconciler/plan/v1alpha2"], PLAN_SCHEMA]
    kind: Annotated[Literal["Plan"], Meta(description="The kind of this document.")]
    made_at: Annotated[datetime, Meta(tz=True, description="The time that the plan was made for.")]
    run: Annotated[str, Meta(description="The id of the run.")]
    fleet: Annotated[str, Meta(description="The name of the Fleet.")]
    revision: Annotated[str, Meta(description='The source revision of the policies; "" if it is not known.')]
    source: Annotated[str, Meta(description='What was observed: "live" clusters, or a "snapshot".')]
    digests: Annotated[DigestsDocument, Meta(description="What the plan was made from.")]
    clusters: Annotated[
        dict[str, str],
        Meta(description="The clusters that answered, each with its identity: the uid of its Namespace kube-system."),
    ]
    counts: Annotated[Counts, Meta(description="The plan in numbers.")]
    limits: Annotated[list[LimitDocument], Meta(description="The limits, and how much of each is used.")]
    actions: Annotated[list[ChangeDocument], Meta(description="The changes, in the order in which they are made.")]
    held_back: Annotated[list[HeldBackDocument], Meta(description="The changes that limits and guards hold back.")]
    observed: Annotated[
        list[ChangeDocument], Meta(description="The changes of policies in mode Observe. They are never applied.")
    ]
    undecided: Annotated[
        list[UndecidedDocument], Meta(description="Objects that nothing is decided for, with the reasons.")
    ]
    overridden: Annotated[
        list[OverriddenDocument],
        Meta(description="Policies that another policy takes precedence over, for one workload."),
    ]
    unknown: Annotated[
        dict[str, str], Meta(description="Clusters, or parts of them, that could not be read, with the reasons.")
    ]
    notices: Annotated[list[NoticeDocument], Meta(description="Messages for people.")]
    placements: Annotated[list[PlacementDocument], Meta(description="The FederatedReplicaSets and their clusters.")]
    dropped: Annotated[PlanNumber, Meta(description="The number of changes that filters leave out.")]
    time_zones: Annotated[
        list[str],
        Meta(
            description="The time zones of the calendars of the policies. If they are one, times are shown in it to "
            "people, else in UTC."
        ),
    ]
