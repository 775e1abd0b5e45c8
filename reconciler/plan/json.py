"""A plan as JSON, and back. The same plan gives the same bytes; a plan read back does what the written one would do.

Nothing that `apply` could trip over is read: a saved plan is a file that somebody else may have written to. Every field
of the document is required.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal, TypeVar, cast

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import asdict

from reconciler.decide.decisions import HeldBack, Job, LimitUse, Notice, Overridden, PlacementView, Undecided
from reconciler.decide.reasons import Reasons
from reconciler.decide.victim_fields import PlanNumber
from reconciler.errors import PlanFileError
from reconciler.model import ObjectRef
from reconciler.plan.change_json import (
    ChangeDocument,
    JsonObject,
    ReasonDocument,
    ReasonedDocument,
    actions_in,
    change_document,
    change_documents,
    converted,
    decisions_in,
    made_of,
    misfits_of,
)
from reconciler.plan.effects import Effect, effect_of, fewer, more
from reconciler.plan.model import KeptUp, Plan
from reconciler.untrusted_text import one_line

PLAN_VERSION: Final = "reconciler/plan/v1alpha2"
PLAN_SCHEMA = Meta(
    description="schemaVersion is the version of the schema of this document. Documents of other versions are refused."
)


class _UndecidedDocument(ReasonedDocument, frozen=True):
    """An object or cluster that nothing is decided for."""

    subject: Annotated[str, Meta(description="The object or cluster.")]
    job: Annotated[Job, Meta(description="The job that cannot decide.")]
    policy: Annotated[str, Meta(description='The policy; "" where no policy is behind it.')]
    why: Annotated[str, Meta(description="The reason.")] = field(name="reason")


class _NoticeDocument(ReasonedDocument, frozen=True):
    """A message for people."""

    kind: Annotated[str, Meta(description='What it is about: "overdueWake", "contested", "autoscaler", ...')]
    subject: Annotated[str, Meta(description="The object or cluster.")]
    text: Annotated[str, Meta(description="The message.")]
    policy: Annotated[str, Meta(description='The policy; "" where no policy is behind it.')]
    partial: Annotated[bool, Meta(description="Whether the run ends with exit code 6.")]


class _PlacementRowDocument(ReasonedDocument, frozen=True):
    """The part of a cluster in a FederatedReplicaSet."""

    cluster: Annotated[str, Meta(description="The cluster.")]
    desired: Annotated[PlanNumber | None, Meta(description="The desired replicas; null: unknown.")]
    spec_replicas: PlanNumber | None
    """spec.replicas after this run, waiting replicas included; null: unknown."""
    current: Annotated[PlanNumber | None, Meta(description="spec.replicas now; null: unknown.")]
    running: Annotated[PlanNumber | None, Meta(description="The replicas available now; null: unknown.")]
    capacity: PlanNumber | None
    """The replicas that the cluster has capacity for; null: no limit is known."""
    overflow: Annotated[PlanNumber, Meta(description="The replicas that exceed the capacity.")]
    why: Annotated[str, Meta(description="The step and the limit that decided.")] = field(name="reason")


class _PlacementDocument(JsonObject, frozen=True):
    """A FederatedReplicaSet and its clusters."""

    key: Annotated[str, Meta(description="Namespace and name.")]
    total: Annotated[PlanNumber, Meta(description="The desired replicas in all clusters together.")]
    rows: Annotated[list[_PlacementRowDocument], Meta(description="A row for each cluster.")]


class _HeldBackDocument(JsonObject, frozen=True):
    """Changes of one policy that limits, or a guard, hold back."""

    allow: Annotated[str, Meta(description='The name for --allow-exceed, which allows them once; "": a guard.')]
    why: Annotated[str, Meta(description="What exceeds which limit, and what allows it.")] = field(name="reason")
    limits: Annotated[tuple[LimitUse, ...], Meta(description="The limits that are exceeded; none: a guard.")]
    changes: Annotated[list[ChangeDocument], Meta(description="The changes that are held back.")]


class _OverriddenDocument(ReasonedDocument, frozen=True):
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
    to_scale_down: PlanNumber
    """Workloads that get fewer replicas, except those that are idled."""
    to_create: Annotated[PlanNumber, Meta(description="Objects to be created.")]
    to_overwrite: Annotated[PlanNumber, Meta(description="Objects whose pod template is replaced.")]
    to_delete: Annotated[PlanNumber, Meta(description="Objects to be deleted.")]
    to_update: PlanNumber
    """Objects that change otherwise: bounds of autoscalers, adoption, release."""
    metadata_updates: PlanNumber
    """Changes of annotations, labels and ConfigMaps of the reconciler only."""
    held_back: Annotated[PlanNumber, Meta(description="Changes that limits and guards hold back.")]
    observed: Annotated[PlanNumber, Meta(description="Changes of policies in mode Observe.")]
    undecided: Annotated[PlanNumber, Meta(description="Objects that nothing is decided for.")]
    overridden: PlanNumber
    """Policies that another policy takes precedence over, for one workload."""
    unknown: Annotated[PlanNumber, Meta(description="Clusters, or parts of them, that could not be read.")]
    dropped: Annotated[PlanNumber, Meta(description="Changes left out by filters.")]
    replicas_fewer: Annotated[PlanNumber, Meta(description="Replicas removed.")]
    replicas_more: Annotated[PlanNumber, Meta(description="Replicas added.")]


class _DigestsDocument(JsonObject, frozen=True):
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
    digests: Annotated[_DigestsDocument, Meta(description="What the plan was made from.")]
    clusters: dict[str, str]
    """The clusters that answered, each with its identity: the uid of its Namespace kube-system."""
    counts: Annotated[Counts, Meta(description="The plan in numbers.")]
    limits: Annotated[tuple[LimitUse, ...], Meta(description="The limits, and how much of each is used.")]
    actions: Annotated[list[ChangeDocument], Meta(description="The changes, in the order in which they are made.")]
    held_back: Annotated[list[_HeldBackDocument], Meta(description="The changes that limits and guards hold back.")]
    observed: list[ChangeDocument]
    """The changes of policies in mode Observe. They are never applied."""
    undecided: list[_UndecidedDocument]
    """Objects that nothing is decided for, with the reasons."""
    overridden: list[_OverriddenDocument]
    """Policies that another policy takes precedence over, for one workload."""
    unknown: dict[str, str]
    """Clusters, or parts of them, that could not be read, with the reasons."""
    notices: Annotated[list[_NoticeDocument], Meta(description="Messages for people.")]
    placements: Annotated[list[_PlacementDocument], Meta(description="The FederatedReplicaSets and their clusters.")]
    dropped: Annotated[PlanNumber, Meta(description="The number of changes that filters leave out.")]
    time_zones: tuple[str, ...]
    """The time zones of the calendars of the policies. If they are one, times are shown in it to people, else in
    UTC."""
    places: dict[str, str] = field(default_factory=dict)
    """The file and line of each policy and of the Fleet, by kind and name. Older plans lack it."""
    without_workloads: tuple[str, ...] = ()
    """The policies that select nothing, by kind and name. Older plans lack it."""
    only_production: tuple[str, ...] = ()
    """The policies that would select only production and leave it out, by kind and name. Older plans lack it."""
    kept_up: tuple[KeptUp, ...] = ()
    """Workloads that only time or a rollout keeps from being idled. Older plans lack it."""


T = TypeVar("T")
_AROUND = ("[\n  [", "\n  ]\n]")
_AT_ONCE = 256
"""Actions whose text is made at once."""


def plan_in_parts(plan: Plan) -> Iterator[str]:
    """Yield the text of a plan file in parts, indented by 2, keys in the schema's order: that of a large plan is many
    times larger than the plan.
    """
    text = _indented(_document(plan, []))
    if not plan.actions:
        yield f"{text}\n"
        return
    before, begin, rest = text.partition('\n  "actions": [')
    yield before + begin
    for start in range(0, len(plan.actions), _AT_ONCE):
        some = plan.actions[start : start + _AT_ONCE]
        inside = _indented([[change_document(action) for action in some]])  # as deep as in the plan
        yield f"{',' if start else ''}{inside.removeprefix(_AROUND[0]).removesuffix(_AROUND[1])}"
    yield f"\n  {rest}\n"


def _indented(document: Struct | list[list[ChangeDocument]]) -> str:
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode("utf-8")


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """Return `plan` as JSON values, as schemas/plan.schema.json says. `explanations` is left out."""
    return values_of(plan_document(plan))


def values_of(document: JsonObject) -> dict[str, Any]:
    """Return `document` as JSON values."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(inside) for key, inside in value.items()}
        return [plain(inside) for inside in value] if isinstance(value, tuple | list) else value

    return cast("dict[str, Any]", plain(msgspec.to_builtins(document)))


def counts_of(plan: Plan) -> Counts:
    """Return the counts of `plan`; what is held back or only observed is counted apart."""
    decisions = [action.decision for action in plan.actions]
    effects = Counter(map(effect_of, decisions))
    return Counts(
        to_idle=effects[Effect.IDLE],
        to_wake=effects[Effect.WAKE],
        to_scale_up=effects[Effect.UP],
        to_scale_down=effects[Effect.DOWN],
        to_create=effects[Effect.CREATE],
        to_overwrite=effects[Effect.OVERWRITE],
        to_delete=effects[Effect.DELETE],
        to_update=effects[Effect.UPDATE],
        metadata_updates=effects[Effect.METADATA],
        held_back=sum(len(held.decisions) for held in plan.held_back),
        observed=len(plan.observed),
        undecided=len(plan.undecided),
        overridden=len(plan.overridden),
        unknown=len(plan.unknown),
        dropped=plan.dropped,
        replicas_fewer=fewer(decisions),
        replicas_more=more(decisions),
    )


def plan_document(plan: Plan) -> PlanDocument:
    """Return `plan` as the document that describes it."""
    return _document(plan, [change_document(action) for action in plan.actions])


def _document(plan: Plan, actions: list[ChangeDocument]) -> PlanDocument:
    return made_of(
        plan,
        PlanDocument,
        schema_version=PLAN_VERSION,
        kind="Plan",
        made_at=plan.made_at.astimezone(UTC),
        digests=_DigestsDocument(policies=plan.policy_digest, inputs=plan.input_digest),
        clusters={name: plan.clusters[name] for name in sorted(plan.clusters)},
        counts=counts_of(plan),
        actions=actions,
        held_back=[_held_back(held) for held in plan.held_back],
        observed=change_documents(plan.observed),
        undecided=converted(plan.undecided, list[_UndecidedDocument]),
        overridden=[_overridden(lost) for lost in plan.overridden],
        unknown={name: plan.unknown[name] for name in sorted(plan.unknown)},
        notices=converted(plan.notices, list[_NoticeDocument]),
        placements=converted(plan.placements, list[_PlacementDocument]),
    )


def _held_back(held: HeldBack) -> _HeldBackDocument:
    return _HeldBackDocument(
        allow=held.policy, why=held.why, limits=held.limits, changes=change_documents(held.decisions)
    )


def _overridden(lost: Overridden) -> _OverriddenDocument:
    reasons = converted(lost.reasons, list[ReasonDocument])
    return made_of(lost, _OverriddenDocument, **asdict(lost.ref), reasons=reasons)


def plan_from_dict(value: Any, *, where: str = "plan") -> Plan:
    """Return the plan that the JSON values in `value` describe; `where` names it in errors, a file for instance.

    Raises:
        PlanFileError: it is of another schema version, or not a plan that could be applied.
    """
    words = "is no plan ({}), expected one as `plan --out` writes it"
    return plan_of(document_in(value, PlanDocument, PLAN_VERSION, where, words), where)


def document_in(value: Any, kind: type[T], version: str, where: str, otherwise: str) -> T:
    """Return what the JSON object `value` is: a document of `kind` in this `version` of its schema.

    Raises:
        PlanFileError: it is something else; `otherwise` are the words for what has another shape.
    """
    name = kind.__name__.removesuffix("Document")
    if not isinstance(value, dict):
        raise PlanFileError(f"{where}: $ is {_named(value)}, expected a JSON object with a {name.lower()}")
    for key, wanted in (("kind", name), ("schemaVersion", version)):
        found = value.get(key)
        if found != wanted:
            raise PlanFileError(f'{where}: $.{key} is {_named(found)}, expected "{wanted}"; plan again')
    try:
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise PlanFileError(f"{where}: {otherwise.format(one_line(str(error)))}") from error


def _named(value: Any) -> str:
    if isinstance(value, str):
        return f'"{one_line(value[:80])}"'
    return "absent" if value is None else f"a {type(value).__name__}"


def plan_of(document: PlanDocument, where: str) -> Plan:
    """Return the plan that `document` describes.

    Raises:
        PlanFileError: its actions do not fit together.
    """
    for path, what in _misfits(document):
        raise PlanFileError(f"{where}: $.{path}{what}; plan again")
    return made_of(
        document,
        Plan,
        policy_digest=document.digests.policies,
        input_digest=document.digests.inputs,
        actions=actions_in(document.actions),
        held_back=tuple(_held_actions(held) for held in document.held_back),
        observed=decisions_in(document.observed),
        undecided=converted(document.undecided, tuple[Undecided, ...]),
        overridden=tuple(_lost(overridden) for overridden in document.overridden),
        notices=converted(document.notices, tuple[Notice, ...]),
        placements=converted(document.placements, tuple[PlacementView, ...]),
    )


def _misfits(document: PlanDocument) -> Iterator[tuple[str, str]]:
    """Yield what the types alone do not say, each as its path in the document and what is wrong."""
    lists = {
        "actions": document.actions,
        "observed": document.observed,
        **{f"heldBack[{n}].changes": held.changes for n, held in enumerate(document.held_back)},
    }
    for name, changes in lists.items():
        yield from misfits_of(name, changes)
    for n, change in enumerate(document.actions):
        if change.cluster not in document.clusters:
            yield f"actions[{n}].cluster", f' is "{one_line(change.cluster)}", expected one of $.clusters'


def _held_actions(document: _HeldBackDocument) -> HeldBack:
    return HeldBack(document.allow, document.why, decisions_in(document.changes), document.limits)


def _lost(document: _OverriddenDocument) -> Overridden:
    reasons = converted(document.reasons, Reasons)
    return made_of(document, Overridden, ref=made_of(document, ObjectRef), reasons=reasons)
