"""One change of a plan as a JSON object, and back; and what all JSON objects of plans have in common."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import force_setattr, replace

from reconciler.decide.decisions import Cause, Decision, FieldChange, Job, Phase, Verb
from reconciler.decide.reasons import CODES, ReasonCode
from reconciler.decide.victim_fields import DownscaleSettings, PlanNumber, VictimForecast
from reconciler.model import ObjectRef, pointed_path, pointer
from reconciler.plan.model import Action, json_value
from reconciler.plan.order import numbered_actions
from reconciler.untrusted_text import one_line


class JsonObject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A JSON object without any field that is not described."""


T = TypeVar("T")
Made = TypeVar("Made", bound=Struct)


def converted(value: object, kind: type[T]) -> T:
    """Return `value` as a `kind`, whose fields are named like its attributes: a document of a value, or the reverse."""
    return msgspec.convert(value, kind, from_attributes=True)


def made_of(value: Struct, kind: type[Made], /, **fields: Any) -> Made:
    """Return a `kind` with `fields`; of all others it has what `value` has under their names, or else the default."""
    return kind(**{name: getattr(value, name) for name in _shared_names(type(value), kind, *fields)}, **fields)


@cache
def _shared_names(given: type[Struct], kind: type[Struct], *stated: str) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name not in stated and hasattr(given, name))


class _ObjectDocument(JsonObject, frozen=True):
    """One object in a cluster."""

    api_version: Annotated[str, Meta(description='Group and version as in a manifest, "apps/v1".')]
    group: Annotated[str, Meta(description='The API group; "" for the core group.')]
    kind: Annotated[str, Meta(description='"Deployment", "Service", ...')]
    namespace: Annotated[str, Meta(description='The namespace; "" for kinds without one.')]
    name: Annotated[str, Meta(description="The object's name.")]
    uid: str | None
    """The uid of the object. An object with another uid is not changed. null: it does not exist yet."""


_Code = Literal[CODES]  # type: ignore[valid-type]


class ReasonDocument(JsonObject, frozen=True):
    """One reason, as data."""

    code: Annotated[_Code, Meta(description="The reason's code, one of a closed list.")]
    values: dict[str, str | int | float | bool | list[str] | None]
    """The values of the reason, by name: text, numbers, lists of text."""

    def __post_init__(self) -> None:
        force_setattr(self, "values", json_value(self.values))


class ReasonedDocument(JsonObject, frozen=True, kw_only=True):
    """Something that has reasons, after its own fields. A plan of an earlier version has just their text, in `why`."""

    reason_code: Annotated[str, Meta(description='The code of the first of the reasons; "" for none.')] = ""
    reasons: list[ReasonDocument] = field(default_factory=list)
    """The reasons as data. reason is their text, for people: it may change in any release."""

    def __post_init__(self) -> None:
        text = getattr(self, "why", "")
        if text and not self.reasons:
            force_setattr(self, "reasons", [ReasonDocument(code=ReasonCode.OTHER, values={"text": text})])


class CauseDocument(ReasonedDocument, frozen=True):
    """Why something is done."""

    policy: Annotated[str, Meta(description='The name of the policy; "" for none.')]
    at: Annotated[str, Meta(description="The file and line of the policy.")]
    why: Annotated[str, Meta(description="The reason, in one phrase.")] = field(name="reason")
    values: dict[str, Any]
    """The values that the decision is based on, by name. Numbers that JSON cannot hold are "NaN", "+Inf" and "-Inf"."""

    def __post_init__(self) -> None:
        ReasonedDocument.__post_init__(self)
        force_setattr(self, "values", json_value(self.values))


class _ReplicasDocument(JsonObject, frozen=True):
    """The replicas of an object before and after a change."""

    before: Annotated[PlanNumber | None, Meta(description="spec.replicas now; null: the object does not exist.")]
    after: Annotated[PlanNumber | None, Meta(description="spec.replicas after the change; null: unchanged.")]


_PhaseName = Literal["wake", "repair", "increase", "move", "annotate", "decrease", "record"]


class ChangeDocument(JsonObject, frozen=True):
    """One change of one object."""

    id: Annotated[int, Meta(ge=1)]
    """The number of the change in this list, from 1, in the order of the changes."""
    key: Annotated[str, Meta(description="The name of the change, unique in the run.")]
    job: Annotated[Job, Meta(description="The job that makes the change.")]
    verb: Annotated[Verb, Meta(description="What happens to the object.")]
    phase: Annotated[_PhaseName, Meta(description="The phase of the run. Phases follow each other in this order.")]
    cluster: Annotated[str, Meta(description="The cluster of the object.")]
    object: Annotated[_ObjectDocument, Meta(description="The object.")]
    replicas: Annotated[_ReplicasDocument | None, Meta(description="Its replicas; null: unchanged.")]
    cause: Annotated[CauseDocument, Meta(description="The reason of the change.")]
    before: dict[str, Any]
    """The fields that the change requires, by JSON pointer, with their present values; null: absent."""
    after: dict[str, Any]
    """The same fields after the change; null: removed. A field that is equal in before is a precondition only."""
    manifest: Annotated[dict[str, Any] | None, Meta(description="The object that is created; null: none.")]
    orphan: Annotated[bool, Meta(description="Whether the pods keep running when the object is deleted.")]
    victims: Annotated[VictimForecast | None, Meta(description="The pods that are deleted; null: none, or not known.")]
    downscale: DownscaleSettings | None
    """How the pods to delete are chosen; null: by the controller."""
    group: Annotated[str, Meta(description="The group of the change. Filters and limits apply to whole groups.")]
    order: Annotated[tuple[int, ...], Meta(description="The order inside the phase and the group.")]
    needs: Annotated[list[int], Meta(description="The ids of changes that must be applied before.")]
    wake_tier: Annotated[str, Meta(description='The tier of a wake that other wakes wait for; "" for none.')]
    wait_ready: str
    """The wake tier whose objects must be ready first, for at most 10 minutes; "" for none."""
    event: Annotated[str, Meta(description='The reason of the Event for the change; "" for none.')]
    idles: Annotated[bool, Meta(description="Whether it idles a workload.")]
    known: bool
    """Whether the workload was idled on the same hours before, so that no limit counts it."""
    has_annotations: Annotated[bool, Meta(description="Whether the object has annotations.")]
    has_labels: Annotated[bool, Meta(description="Whether the object has labels.")]
    wait_activator: bool
    """Whether an activator must accept the Services' connections first, for at most 15 seconds."""


def change_document(action: Action) -> ChangeDocument:
    """Return one action of a plan as the document that describes it."""
    decision, ref = action.decision, action.ref
    return made_of(
        decision,
        ChangeDocument,
        id=action.id,
        phase=decision.phase.name.lower(),  # the names of Phase are the literals of _PhaseName
        cluster=ref.cluster,
        object=made_of(ref, _ObjectDocument, api_version=decision.api_version, uid=decision.uid),
        replicas=_replicas(decision),
        cause=converted(decision.cause, CauseDocument),
        before={pointer(change.path): json_value(change.before) for change in decision.changes},
        after=_after(decision.changes),
        manifest=None if decision.manifest is None else json_value(decision.manifest),
        victims=_finite(decision.victims),
        needs=list(action.needs),
    )


def change_documents(decisions: Sequence[Decision]) -> list[ChangeDocument]:
    return [change_document(action) for action in numbered_actions(decisions)]


def _after(changes: Sequence[FieldChange]) -> dict[str, Any]:
    """Return the fields afterwards; where one field is both changed and only tested, the change counts."""
    result: dict[str, Any] = {}
    for change in changes:
        path = pointer(change.path)
        if path not in result or change.before != change.after:
            result[path] = json_value(change.after)
    return result


def _replicas(decision: Decision) -> _ReplicasDocument | None:
    if decision.replicas_before is None and decision.replicas_after is None:
        return None
    return _ReplicasDocument(before=decision.replicas_before, after=decision.replicas_after)


def _finite(victims: VictimForecast | None) -> VictimForecast | None:
    """Return `victims` without the ratios that JSON has no number for."""
    if victims is None:
        return None
    finite = (ratio if ratio is not None and math.isfinite(ratio) else None for ratio in victims.age_ratios)
    return replace(victims, age_ratios=tuple(finite))


def actions_in(changes: Sequence[ChangeDocument]) -> tuple[Action, ...]:
    keys = {change.id: change.key for change in changes}
    return tuple(Action(change.id, _decision(change, keys), tuple(change.needs)) for change in changes)


def decisions_in(changes: Sequence[ChangeDocument]) -> tuple[Decision, ...]:
    return tuple(action.decision for action in actions_in(changes))


def _decision(change: ChangeDocument, keys: Mapping[int, str]) -> Decision:
    found = change.object
    return made_of(
        change,
        Decision,
        phase=Phase[change.phase.upper()],
        ref=made_of(found, ObjectRef, cluster=change.cluster),
        api_version=found.api_version,
        uid=found.uid,
        changes=tuple(
            FieldChange(pointed_path(text), change.before[text], change.after[text]) for text in change.before
        ),
        cause=converted(change.cause, Cause),
        needs=tuple(keys[need] for need in change.needs),
        replicas_before=None if change.replicas is None else change.replicas.before,
        replicas_after=None if change.replicas is None else change.replicas.after,
    )


def misfits_of(name: str, changes: Sequence[ChangeDocument]) -> Iterator[tuple[str, str]]:
    ids: set[int] = set()
    keys: set[str] = set()
    tiers: set[str] = set()
    awaited: set[str] = set()
    for n, change in enumerate(changes):
        at = f"{name}[{n}]"
        if change.id in ids or change.key in keys:
            yield at, " has the id or key of an earlier change, expected its own"
        if not ids.issuperset(change.needs):
            yield f"{at}.needs", f" is {change.needs}, expected ids of earlier changes"
        if change.wait_ready and change.wait_ready not in tiers:
            yield f"{at}.waitReady", f' is "{one_line(change.wait_ready)}", expected the wakeTier of earlier changes'
        awaited.add(change.wait_ready)
        if change.wake_tier and change.wake_tier in awaited:
            yield f"{at}.wakeTier", f' is "{one_line(change.wake_tier)}", which an earlier change waits for'
        tiers.add(change.wake_tier)
        yield from _misfitting_fields(at, change)
        ids.add(change.id)
        keys.add(change.key)


def _misfitting_fields(at: str, change: ChangeDocument) -> Iterator[tuple[str, str]]:
    if list(change.before) != list(change.after):
        yield f"{at}.after", " has other fields than before, expected the same in the same order"
    if change.verb is Verb.CREATE and change.manifest is None:
        yield f"{at}.manifest", " is null, expected the object to create"
    for text in change.before:
        if pointer(pointed_path(text)) != text:
            yield f"{at}.before", f' has the field "{one_line(text)}", expected a JSON pointer'
