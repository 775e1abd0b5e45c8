"""A plan as a JSON document, from which it is written, read and described: every field of it is required.

Those of equal shape are made of what decisions have under the same names, and back; a test compares the names.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr

from reconciler.decide.decisions import DownscaleSettings, Job, LimitUse, PlanNumber, Verb, VictimForecast
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


class _ReasonedDocument(JsonObject, frozen=True, kw_only=True):
    """Something that has reasons, after its own fields."""

    reason_code: Annotated[str, Meta(description='The code of the first of the reasons; "" for none.')]
    reasons: Annotated[
        list[ReasonDocument],
        Meta(description="The reasons as data. reason is their text, for people: it may change in any release."),
    ]


class CauseDocument(_ReasonedDocument, frozen=True):
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
        force_setattr(self, "values", json_value(self.values))


class ReplicasDocument(JsonObject, frozen=True):
    """The replicas of an object before and after a change."""

    before: Annotated[PlanNumber | None, Meta(description="spec.replicas now; null: the object does not exist.")]
    after: Annotated[PlanNumber | None, Meta(description="spec.replicas after the change; null: unchanged.")]


class UndecidedDocument(_ReasonedDocument, frozen=True):
    """An object or cluster that nothing is decided for."""

    subject: Annotated[str, Meta(description="The object or cluster.")]
    job: Annotated[Job, Meta(description="The job that cannot decide.")]
    policy: Annotated[str, Meta(description='The policy; "" where no policy is behind it.')]
    why: Annotated[str, Meta(description="The reason.")] = field(name="reason")


class NoticeDocument(_ReasonedDocument, frozen=True):
    """A message for people."""

    kind: Annotated[str, Meta(description='What it is about: "overdueWake", "contested", "autoscaler", ...')]
    subject: Annotated[str, Meta(description="The object or cluster.")]
    text: Annotated[str, Meta(description="The message.")]
    policy: Annotated[str, Meta(description='The policy; "" where no policy is behind it.')]
    partial: Annotated[bool, Meta(description="Whether the run ends with exit code 6.")]


class PlacementRowDocument(_ReasonedDocument, frozen=True):
    """The part of a cluster in a FederatedReplicaSet."""

    cluster: Annotated[str, Meta(description="The cluster.")]
    desired: Annotated[PlanNumber | None, Meta(description="The desired replicas; null: unknown.")]
    spec_replicas: Annotated[
        PlanNumber | None, Meta(description="spec.replicas after this run, waiting replicas included; null: unknown.")
    ]
    current: Annotated[PlanNumber | None, Meta(description="spec.replicas now; null: unknown.")]
    running: Annotated[PlanNumber | None, Meta(description="The replicas available now; null: unknown.")]
    capacity: Annotated[
        PlanNumber | None, Meta(description="The replicas that the cluster has capacity for; null: no limit is known.")
    ]
    overflow: Annotated[PlanNumber, Meta(description="The replicas that exceed the capacity.")]
    why: Annotated[str, Meta(description="The step and the limit that decided.")] = field(name="reason")


class PlacementDocument(JsonObject, frozen=True):
    """A FederatedReplicaSet and its clusters."""

    key: Annotated[str, Meta(description="Namespace and name.")]
    total: Annotated[PlanNumber, Meta(description="The desired replicas in all clusters together.")]
    rows: Annotated[list[PlacementRowDocument], Meta(description="A row for each cluster.")]


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
    victims: Annotated[VictimForecast | None, Meta(description="The pods that are deleted; null: none, or not known.")]
    downscale: Annotated[
        DownscaleSettings | None, Meta(description="How the pods to delete are chosen; null: by the controller.")
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
    limits: Annotated[tuple[LimitUse, ...], Meta(description="The limits that are exceeded; none: a guard.")]
    changes: Annotated[list[ChangeDocument], Meta(description="The changes that are held back.")]


class OverriddenDocument(_ReasonedDocument, frozen=True):
    """A policy that another policy takes precedence over, for one workload."""

    cluster: Annotated[str, Meta(description="The cluster of the workload.")]
    group: Annotated[str, Meta(description='Its API group; "" for the core group.')]
    kind: Annotated[str, Meta(description="Its kind.")]
    namespace: Annotated[str, Meta(description="Its namespace.")]
    name: Annotated[str, Meta(description="Its name.")]
    job: Annotated[Job, Meta(description="The job of the policy.")]
    policy: Annotated[str, Meta(description="The policy that is overridden.")]
    desired: Annotated[str, Meta(description="What the policy would do.")]
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
    limits: Annotated[tuple[LimitUse, ...], Meta(description="The limits, and how much of each is used.")]
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
