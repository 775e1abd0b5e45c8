"""A plan as a JSON document: its fields in their order, with the words that schemas/plan.schema.json says of them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from reconciler.decide.decisions import Job, Verb

PLAN_VERSION: Final = "reconciler/plan/v1alpha2"
VERSION = Meta(
    description="schemaVersion is the version of the schema of this document. Documents of other versions are refused."
)
Number = Annotated[int, Meta(ge=0)]
PhaseName = Literal["wake", "repair", "increase", "move", "decrease", "record"]


class Document(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A JSON object without any field that is not described."""


class ObjectDocument(Document, frozen=True):
    """One object in a cluster."""

    api_version: Annotated[str, Meta(description='Group and version as in a manifest, "apps/v1".')]
    group: Annotated[str, Meta(description='The API group; "" for the core group.')]
    kind: Annotated[str, Meta(description='"Deployment", "Service", ...')]
    namespace: Annotated[str, Meta(description='The namespace; "" for kinds without one.')]
    name: Annotated[str, Meta(description="The object's name.")]
    uid: Annotated[
        str | None,
        Meta(description="The object's uid; another object of that name is not written to. null: does not exist yet."),
    ]


class CauseDocument(Document, frozen=True):
    """Why something is done."""

    policy: Annotated[str, Meta(description='The policy\'s name; "" where no policy is behind it.')]
    at: Annotated[str, Meta(description="Where the policy says so: file and line.")]
    why: Annotated[str, Meta(description="The reason, one phrase.")]
    values: Annotated[
        dict[str, Any],
        Meta(description='The values that decided, by name; a number JSON cannot hold is "NaN", "+Inf" or "-Inf".'),
    ]


class ReplicasDocument(Document, frozen=True):
    """How many replicas a change is about."""

    before: Annotated[Number | None, Meta(description="Replicas asked for now; null: the object does not exist.")]
    after: Annotated[Number | None, Meta(description="Replicas asked for afterwards; null: left as they are.")]


class VictimsDocument(Document, frozen=True):
    """The pods that go when a workload shrinks."""

    count: Annotated[Number, Meta(description="How many pods go in all.")]
    pods: Annotated[list[str], Meta(description="Their names, the first to go first; empty when chosen at apply.")]
    rules: Annotated[list[str], Meta(description="For each of the pods the rule that put it there.")]
    certain: Annotated[
        bool, Meta(description="The controller takes exactly these, in whatever order it looks at the pods.")
    ]
    strategy: Annotated[str, Meta(description="How the pods are chosen.")]
    chosen_at_apply: Annotated[bool, Meta(description="A pod picker is asked right before they are marked.")]
    requested: Annotated[Number, Meta(description="How many the pod picker is asked for.")]
    candidates: Annotated[Number, Meta(description="Among how many pods.")]
    age_ratios: Annotated[
        list[float | None],
        Meta(
            description="For each of the pods, where the controller chooses, the metric sorting_deletion_age_ratio of "
            "KEP-2185; null where age did not decide."
        ),
    ]
    note: Annotated[str, Meta(description="What else a person should know about the choice.")]
    postponed: Annotated[bool, Meta(description="An apply would leave the decrease to a later run; the note says why.")]


class SecretKeyDocument(Document, frozen=True):
    """A reference to a value in a Secret. The value itself is never written anywhere."""

    name: Annotated[str, Meta(description="The Secret's name, in the workload's namespace.")]
    key: Annotated[str, Meta(description="The key in that Secret.")]


class HeaderDocument(Document, frozen=True):
    """A header of the request to a pod picker."""

    name: Annotated[str, Meta(description="The header's name.")]
    value: Annotated[str | None, Meta(description="Its value as the policy states it; null: it is in `secret`.")]
    secret: Annotated[SecretKeyDocument | None, Meta(description="Where its value comes from; null: from `value`.")]


class PodPickerDocument(Document, frozen=True):
    """Where and how a pod picker is asked."""

    host: Annotated[str, Meta(description="The picker's host.")]
    port: Annotated[Number, Meta(description="The picker's port.")]
    scheme: Annotated[Literal["http", "https"], Meta(description="How it is asked.")]
    path: Annotated[str, Meta(description="The path of the request.")]
    headers: Annotated[list[HeaderDocument], Meta(description="The request's headers.")]
    ca_bundle: Annotated[str | None, Meta(description="Certificates (PEM) that are trusted; null: the system's own.")]
    allow_insecure_auth: Annotated[bool, Meta(description="A header from a Secret may go over plain http.")]
    max_retries: Annotated[Number, Meta(description="How often it is asked again after a failure.")]
    timeout_seconds: Annotated[float, Meta(description="The time limit of one attempt, in seconds.")]
    on_error: Annotated[
        Literal["fallback", "skip"],
        Meta(description="Without an answer: the controller's order, or no decrease in this run."),
    ]
    on_too_few: Annotated[
        Literal["fill", "reject"], Meta(description="With too few pods in the answer: fill up, or refuse the answer.")
    ]


class DownscaleDocument(Document, frozen=True):
    """What apply needs to shrink a workload by marking the pods that go."""

    policy: Annotated[str, Meta(description="The DownscalePolicy, or what else orders the pods.")]
    strategy: Annotated[
        Literal["Logarithmic", "NewestFirst", "ZoneBalanced", "PodPicker"], Meta(description="How pods are chosen.")
    ]
    picker: Annotated[PodPickerDocument | None, Meta(description="The pod picker; null: none is asked.")]
    logarithm_base: Annotated[float, Meta(description="Ages are compared by their logarithm to this base.")]
    topology_key: Annotated[str, Meta(description="The node label that names the zones, for zoneBalanced.")]
    on_foreign_cost: Annotated[
        Literal["Skip", "Override"],
        Meta(description="What happens to a deletion cost that somebody else wrote on a pod."),
    ]
    settle_seconds: Annotated[float, Meta(description="How long to wait between marking and scaling, in seconds.")]
    verify_seconds: Annotated[float, Meta(description="How long to watch that the right pods go, in seconds.")]


class ChangeDocument(Document, frozen=True):
    """One change of one object."""

    id: Annotated[int, Meta(ge=1, description="Counts from 1 in this list, in the order of the work.")]
    key: Annotated[str, Meta(description="Names this change in the whole run.")]
    job: Annotated[Job, Meta(description="Which job wants it.")]
    verb: Annotated[Verb, Meta(description="What is done to the object.")]
    phase: Annotated[PhaseName, Meta(description="When it is done: the phases follow each other in this order.")]
    cluster: Annotated[str, Meta(description="The cluster the object is in.")]
    object: Annotated[ObjectDocument, Meta(description="The object.")]
    replicas: Annotated[ReplicasDocument | None, Meta(description="Its replicas; null: not touched.")]
    cause: Annotated[CauseDocument, Meta(description="Why it is done.")]
    before: Annotated[
        dict[str, Any],
        Meta(description="The fields this rests on, by JSON pointer, as they must be found; null: absent."),
    ]
    after: Annotated[
        dict[str, Any],
        Meta(description="The same fields afterwards; null: taken off. Equal to before: only tested, not written."),
    ]
    manifest: Annotated[dict[str, Any] | None, Meta(description="The whole object, where one is created.")]
    orphan: Annotated[bool, Meta(description="A delete leaves the pods running.")]
    victims: Annotated[VictimsDocument | None, Meta(description="The pods that go; null: none, or not known.")]
    downscale: Annotated[
        DownscaleDocument | None, Meta(description="How the pods that go are chosen; null: as the controller does.")
    ]
    group: Annotated[str, Meta(description="What stands or falls together: after a failure the rest is skipped.")]
    order: Annotated[list[int], Meta(description="The place inside phase and group.")]
    needs: Annotated[list[int], Meta(description="The ids of changes that must have been applied before.")]
    wake_tier: Annotated[str, Meta(description='The tier of a wake that others wait for; "" for none.')]
    wait_ready: Annotated[
        str, Meta(description='The wake tier whose objects should be ready first, 10 minutes at most; "" for none.')
    ]
    event: Annotated[str, Meta(description='The reason of the Event written about it; "" for none.')]
    idles: Annotated[bool, Meta(description="It counts as a newly idled workload in the limits.")]
    has_annotations: Annotated[bool, Meta(description="The object has annotations already.")]
    has_labels: Annotated[bool, Meta(description="The object has labels already.")]


class HeldBackDocument(Document, frozen=True):
    """Changes that are not made because a limit or a guard says so."""

    allow: Annotated[str, Meta(description="The name that --allow-exceed takes to let them through once.")]
    why: Annotated[str, Meta(description="What would have been too much.")]
    unit: Annotated[str, Meta(description='What is counted: "workloads" or "replicas"; "" for a guard.')]
    used: Annotated[Number, Meta(description="How many there would have been; 0 for a guard.")]
    allowed: Annotated[Number, Meta(description="How many are allowed; 0 for a guard.")]
    base: Annotated[Number, Meta(description="What the share is taken of; 0 for a guard.")]
    changes: Annotated[list[ChangeDocument], Meta(description="The changes held back.")]


class UndecidedDocument(Document, frozen=True):
    """Something that nothing is decided for."""

    subject: Annotated[str, Meta(description="The object or cluster.")]
    job: Annotated[Job, Meta(description="Which job cannot decide.")]
    policy: Annotated[str, Meta(description='The policy; "" where no policy is behind it.')]
    why: Annotated[str, Meta(description="The reason.")]


class OverriddenDocument(Document, frozen=True):
    """A policy's wish that lost against another policy."""

    cluster: Annotated[str, Meta(description="The cluster of the workload.")]
    group: Annotated[str, Meta(description='Its API group; "" for the core group.')]
    kind: Annotated[str, Meta(description="Its kind.")]
    namespace: Annotated[str, Meta(description="Its namespace.")]
    name: Annotated[str, Meta(description="Its name.")]
    job: Annotated[Job, Meta(description="The job whose wish it was.")]
    policy: Annotated[str, Meta(description="The policy whose wish it was.")]
    wish: Annotated[str, Meta(description="What it wanted.")]
    winner: Annotated[str, Meta(description="The policy that decides instead.")]
    why: Annotated[str, Meta(description="Why that one wins.")]


class NoticeDocument(Document, frozen=True):
    """Something a person should read."""

    kind: Annotated[str, Meta(description='What it is about: "overdueWake", "contested", "autoscaler", ...')]
    subject: Annotated[str, Meta(description="The object or cluster.")]
    text: Annotated[str, Meta(description="What there is to say.")]
    policy: Annotated[str, Meta(description='The policy; "" where no policy is behind it.')]
    partial: Annotated[bool, Meta(description="It makes the run end with exit code 6.")]


class LimitDocument(Document, frozen=True):
    """One limit, and how much of it the plan uses."""

    name: Annotated[str, Meta(description='"fleet", or the policy that states the limit.')]
    unit: Annotated[str, Meta(description='What is counted: "workloads" or "replicas".')]
    used: Annotated[Number, Meta(description="How many the decisions of this run take away.")]
    allowed: Annotated[Number, Meta(description="How many one run may take away.")]
    base: Annotated[Number, Meta(description="How many there are; of replicas, how many run.")]
    cluster: Annotated[str, Meta(description='The cluster that a limit of the Fleet holds for; "": all of them.')]
    policy: Annotated[str, Meta(description='The policy whose use is told, the highest there; "": none.')]


class PlacementRowDocument(Document, frozen=True):
    """One cluster's part of a federated ReplicaSet."""

    cluster: Annotated[str, Meta(description="The cluster.")]
    desired: Annotated[Number | None, Meta(description="The replicas it should run; null: unknown.")]
    spec_replicas: Annotated[
        Number | None, Meta(description="spec.replicas after this run, waiting replicas included; null: unknown.")
    ]
    current: Annotated[Number | None, Meta(description="spec.replicas now; null: unknown.")]
    running: Annotated[Number | None, Meta(description="The replicas available now; null: unknown.")]
    capacity: Annotated[Number | None, Meta(description="How many fit there; null: no limit known.")]
    overflow: Annotated[Number, Meta(description="How many more it would get if they fitted.")]
    why: Annotated[str, Meta(description="Which step and which limit led there.")]


class PlacementDocument(Document, frozen=True):
    """One federated ReplicaSet over its clusters."""

    key: Annotated[str, Meta(description="Namespace and name.")]
    total: Annotated[Number, Meta(description="The replicas wanted in all.")]
    rows: Annotated[list[PlacementRowDocument], Meta(description="A row for each cluster.")]


class CountsDocument(Document, frozen=True):
    """The plan in numbers. They follow from the rest and are not read back."""

    to_idle: Annotated[Number, Meta(description="Workloads to be idled.")]
    to_wake: Annotated[Number, Meta(description="Workloads to be woken.")]
    to_scale_up: Annotated[Number, Meta(description="Workloads that get more replicas.")]
    to_scale_down: Annotated[Number, Meta(description="Workloads that get fewer replicas, idled ones apart.")]
    to_create: Annotated[Number, Meta(description="Objects to be created.")]
    to_overwrite: Annotated[Number, Meta(description="Objects whose pod template is replaced.")]
    to_delete: Annotated[Number, Meta(description="Objects to be deleted.")]
    to_update: Annotated[
        Number, Meta(description="Objects that change otherwise: bounds of autoscalers, adoption, release.")
    ]
    metadata_updates: Annotated[
        Number, Meta(description="Changes of annotations, labels and ConfigMaps of the reconciler only.")
    ]
    held_back: Annotated[Number, Meta(description="Changes held back by limits and guards.")]
    observed: Annotated[Number, Meta(description="Changes that policies with mode observe would make.")]
    undecided: Annotated[Number, Meta(description="Objects that nothing is decided for.")]
    overridden: Annotated[Number, Meta(description="Wishes that lost against another policy.")]
    unknown: Annotated[Number, Meta(description="Clusters, or parts of them, that could not be read.")]
    dropped: Annotated[Number, Meta(description="Changes left out by filters.")]
    replicas_fewer: Annotated[Number, Meta(description="Replicas taken away.")]
    replicas_more: Annotated[Number, Meta(description="Replicas added.")]


class DigestsDocument(Document, frozen=True):
    """What the plan was made from. Equal digests and an equal time give an equal plan."""

    policies: Annotated[str, Meta(description="SHA-256 over the names and bytes of the policy files.")]
    inputs: Annotated[str, Meta(description="SHA-256 over what was observed.")]


class PlanDocument(Document, frozen=True):
    """What a run would change, why, and what it leaves alone. All that apply needs is in it."""

    schema_version: Annotated[Literal["reconciler/plan/v1alpha2"], VERSION]
    kind: Annotated[Literal["Plan"], Meta(description="What this document is.")]
    made_at: Annotated[datetime, Meta(tz=True, description="The time the plan was made at, and for.")]
    run: Annotated[str, Meta(description="The id of the run.")]
    fleet: Annotated[str, Meta(description="The name of the Fleet.")]
    revision: Annotated[str, Meta(description='The source revision of the policies; "" where it was not given.')]
    source: Annotated[str, Meta(description='What was looked at: "live" clusters or a "snapshot".')]
    digests: Annotated[DigestsDocument, Meta(description="What the plan was made from.")]
    clusters: Annotated[
        dict[str, str],
        Meta(description="The clusters that answered, each with its identity: the uid of its Namespace kube-system."),
    ]
    counts: Annotated[CountsDocument, Meta(description="The plan in numbers.")]
    limits: Annotated[list[LimitDocument], Meta(description="The limits, and how much of them is used.")]
    actions: Annotated[list[ChangeDocument], Meta(description="The changes, in the order in which they are made.")]
    held_back: Annotated[list[HeldBackDocument], Meta(description="What limits and guards keep out of the plan.")]
    observed: Annotated[
        list[ChangeDocument], Meta(description="What policies with mode observe would do. It is never applied.")
    ]
    undecided: Annotated[list[UndecidedDocument], Meta(description="What nothing is decided for, and why.")]
    overridden: Annotated[list[OverriddenDocument], Meta(description="Wishes that lost against another policy.")]
    unknown: Annotated[
        dict[str, str], Meta(description="Clusters, or parts of them, that could not be read, each with the reason.")
    ]
    notices: Annotated[list[NoticeDocument], Meta(description="What a person should read.")]
    placements: Annotated[list[PlacementDocument], Meta(description="The federated ReplicaSets over their clusters.")]
    dropped: Annotated[Number, Meta(description="How many changes filters left out.")]
