"""A plan as JSON, and back. The same plan gives the same bytes; a plan read back does what the written one would do.

Nothing that `apply` could trip over is read: a saved plan is a file that somebody else may have written to.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC
from functools import cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from reconciler.decide.decisions import (
    Cause,
    Decision,
    FieldChange,
    HeldBack,
    Notice,
    Overridden,
    Phase,
    PlacementView,
    Undecided,
    Verb,
    VictimForecast,
)
from reconciler.decide.reasons import Reasons
from reconciler.errors import PlanFileError
from reconciler.model import ObjectRef, pointed_path, pointer
from reconciler.plan.documents import (
    PLAN_VERSION,
    CauseDocument,
    ChangeDocument,
    Counts,
    DigestsDocument,
    HeldBackDocument,
    JsonObject,
    NoticeDocument,
    ObjectDocument,
    OverriddenDocument,
    PlacementDocument,
    PlanDocument,
    ReasonDocument,
    ReplicasDocument,
    UndecidedDocument,
)
from reconciler.plan.effects import Effect, effect_of, fewer, more
from reconciler.plan.model import Action, Plan, json_value
from reconciler.plan.order import numbered_actions
from reconciler.untrusted_text import one_line

T = TypeVar("T")
Made = TypeVar("Made", bound=Struct)


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
    return _of(
        plan,
        PlanDocument,
        schema_version=PLAN_VERSION,
        kind="Plan",
        made_at=plan.made_at.astimezone(UTC),
        digests=DigestsDocument(policies=plan.policy_digest, inputs=plan.input_digest),
        clusters={name: plan.clusters[name] for name in sorted(plan.clusters)},
        counts=counts_of(plan),
        actions=actions,
        held_back=[_held_back(held) for held in plan.held_back],
        observed=_changes(plan.observed),
        undecided=_same(plan.undecided, list[UndecidedDocument]),
        overridden=[_overridden(lost) for lost in plan.overridden],
        unknown={name: plan.unknown[name] for name in sorted(plan.unknown)},
        notices=_same(plan.notices, list[NoticeDocument]),
        placements=_same(plan.placements, list[PlacementDocument]),
        time_zones=list(plan.time_zones),
    )


def _same(value: object, kind: type[T]) -> T:
    """Return `value` as a `kind`, whose fields are named like its attributes: a document of a value, or the reverse."""
    return msgspec.convert(value, kind, from_attributes=True)


def _changes(decisions: Sequence[Decision]) -> list[ChangeDocument]:
    return [change_document(action) for action in numbered_actions(decisions)]


def _of(value: Struct, kind: type[Made], /, **fields: Any) -> Made:
    """Return a `kind` with `fields`; what it has besides under a name that `value` has too is just the same."""
    alike = _alike(type(value), kind, tuple(fields))
    return kind(**{name: getattr(value, name) for name in alike}, **fields)


@cache
def _alike(of: type[Struct], kind: type[Struct], without: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name not in without and hasattr(of, name))


def change_document(action: Action) -> ChangeDocument:
    """Return one action of a plan as the document that describes it."""
    decision, ref = action.decision, action.ref
    return _of(
        decision,
        ChangeDocument,
        id=action.id,
        phase=decision.phase.name.lower(),  # the names of Phase are the literals of PhaseName
        cluster=ref.cluster,
        object=_of(ref, ObjectDocument, api_version=decision.api_version, uid=decision.uid),
        replicas=_replicas(decision),
        cause=_same(decision.cause, CauseDocument),
        before={pointer(change.path): json_value(change.before) for change in decision.changes},
        after=_after(decision.changes),
        manifest=None if decision.manifest is None else json_value(decision.manifest),
        victims=_finite(decision.victims),
        order=list(decision.order),
        needs=list(action.needs),
        wait_ready=action.wait_ready,
    )


def _after(changes: Sequence[FieldChange]) -> dict[str, Any]:
    """Return the fields afterwards; where one field is both changed and only tested, the change counts."""
    result: dict[str, Any] = {}
    for change in changes:
        path = pointer(change.path)
        if path not in result or change.before != change.after:
            result[path] = json_value(change.after)
    return result


def _replicas(decision: Decision) -> ReplicasDocument | None:
    if decision.replicas_before is None and decision.replicas_after is None:
        return None
    return ReplicasDocument(before=decision.replicas_before, after=decision.replicas_after)


def _finite(victims: VictimForecast | None) -> VictimForecast | None:
    """Return `victims` without the ratios that JSON has no number for."""
    if victims is None:
        return None
    finite = (ratio if ratio is not None and math.isfinite(ratio) else None for ratio in victims.age_ratios)
    return replace(victims, age_ratios=tuple(finite))


def _held_back(held: HeldBack) -> HeldBackDocument:
    return _of(held, HeldBackDocument, allow=held.policy, changes=_changes(held.decisions))


def _overridden(lost: Overridden) -> OverriddenDocument:
    return _of(lost, OverriddenDocument, **asdict(lost.ref), reasons=_same(lost.reasons, list[ReasonDocument]))


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
    return _of(
        document,
        Plan,
        policy_digest=document.digests.policies,
        input_digest=document.digests.inputs,
        actions=_actions(document.actions),
        held_back=tuple(_held_actions(held) for held in document.held_back),
        observed=_decisions(document.observed),
        undecided=_same(document.undecided, tuple[Undecided, ...]),
        overridden=tuple(_lost(overridden) for overridden in document.overridden),
        notices=_same(document.notices, tuple[Notice, ...]),
        placements=_same(document.placements, tuple[PlacementView, ...]),
        time_zones=tuple(document.time_zones),
    )


def _misfits(document: PlanDocument) -> Iterator[tuple[str, str]]:
    """Yield what the types alone do not say, each as its path in the document and what is wrong."""
    lists = {
        "actions": document.actions,
        "observed": document.observed,
        **{f"heldBack[{n}].changes": held.changes for n, held in enumerate(document.held_back)},
    }
    for name, changes in lists.items():
        yield from _misfits_of(name, changes)
    for n, change in enumerate(document.actions):
        if change.cluster not in document.clusters:
            yield f"actions[{n}].cluster", f' is "{one_line(change.cluster)}", expected one of $.clusters'


def _misfits_of(name: str, changes: Sequence[ChangeDocument]) -> Iterator[tuple[str, str]]:
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


def _actions(changes: Sequence[ChangeDocument]) -> tuple[Action, ...]:
    keys = {change.id: change.key for change in changes}
    return tuple(
        Action(change.id, _decision(change, keys), tuple(change.needs), change.wait_ready) for change in changes
    )


def _decisions(changes: Sequence[ChangeDocument]) -> tuple[Decision, ...]:
    return tuple(action.decision for action in _actions(changes))


def _decision(change: ChangeDocument, keys: Mapping[int, str]) -> Decision:
    found = change.object
    return _of(
        change,
        Decision,
        phase=Phase[change.phase.upper()],
        ref=_of(found, ObjectRef, cluster=change.cluster),
        api_version=found.api_version,
        uid=found.uid,
        changes=tuple(
            FieldChange(pointed_path(text), change.before[text], change.after[text]) for text in change.before
        ),
        cause=_same(change.cause, Cause),
        order=tuple(change.order),
        needs=tuple(keys[need] for need in change.needs),
        replicas_before=None if change.replicas is None else change.replicas.before,
        replicas_after=None if change.replicas is None else change.replicas.after,
    )


def _held_actions(document: HeldBackDocument) -> HeldBack:
    return _of(document, HeldBack, policy=document.allow, decisions=_decisions(document.changes))


def _lost(document: OverriddenDocument) -> Overridden:
    return _of(document, Overridden, ref=_of(document, ObjectRef), reasons=_same(document.reasons, Reasons))
