"""Plan <-> JSON. The same plan gives the same bytes; a plan read back does what the written one would have done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from typing import Any, TypeVar, cast

import msgspec

from reconciler.decide.decisions import Decision, DownscaleSettings, FieldChange, Overridden, VictimForecast
from reconciler.model import PickerHeader, PodPicker
from reconciler.plan.build import number
from reconciler.plan.documents import (
    SCHEMA_VERSION,
    CauseDocument,
    ChangeDocument,
    CountsDocument,
    DigestsDocument,
    DownscaleDocument,
    HeaderDocument,
    HeldBackDocument,
    LimitDocument,
    NoticeDocument,
    ObjectDocument,
    OverriddenDocument,
    PlacementDocument,
    PlanDocument,
    PodPickerDocument,
    ReplicasDocument,
    SecretKeyDocument,
    UndecidedDocument,
    VictimsDocument,
)
from reconciler.plan.json_values import json_value
from reconciler.plan.model import Action, HeldBackActions, Plan, counts_of, pointer
from reconciler.plan.reading import plan_from_dict

__all__ = ["json_text", "plan_document", "plan_from_dict", "plan_to_dict", "plan_to_json"]

D = TypeVar("D", bound=msgspec.Struct)


def plan_to_json(plan: Plan) -> str:
    """Return `plan` as the text of a plan file: indented by 2, keys in the schema's order, a newline at the end."""
    return json_text(plan_document(plan))


def json_text(document: msgspec.Struct) -> str:
    """Return `document` as indented JSON text, a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode("utf-8") + "\n"


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """Return `plan` as JSON values, as schemas/plan.schema.json says. `explanations` is left out."""
    return cast("dict[str, Any]", msgspec.to_builtins(plan_document(plan)))


def plan_document(plan: Plan) -> PlanDocument:
    """Return `plan` as the document that describes it."""
    return PlanDocument(
        schema_version=SCHEMA_VERSION,
        kind="Plan",
        made_at=plan.made_at.astimezone(UTC),
        run=plan.run,
        fleet=plan.fleet,
        revision=plan.revision,
        source=plan.source,
        digests=DigestsDocument(policies=plan.policy_digest, inputs=plan.input_digest),
        clusters={name: plan.clusters[name] for name in sorted(plan.clusters)},
        counts=_same(counts_of(plan), CountsDocument),
        limits=_each(plan.limits, LimitDocument),
        actions=[change_document(action) for action in plan.actions],
        held_back=[_held_back(held) for held in plan.held_back],
        observed=_changes(plan.observed),
        undecided=_each(plan.undecided, UndecidedDocument),
        overridden=[_overridden(lost) for lost in plan.overridden],
        unknown={name: plan.unknown[name] for name in sorted(plan.unknown)},
        notices=_each(plan.notices, NoticeDocument),
        placements=_each(plan.placements, PlacementDocument),
        dropped=plan.dropped,
    )


def _same(value: object, document: type[D]) -> D:
    """Return `value` as the `document` whose fields are named like its attributes."""
    return msgspec.convert(value, document, from_attributes=True)


def _each(values: Sequence[object], document: type[D]) -> list[D]:
    return msgspec.convert(values, list[document], from_attributes=True)  # type: ignore[valid-type]  # a type held by a variable


def _changes(decisions: Sequence[Decision]) -> list[ChangeDocument]:
    return [change_document(action) for action in number(decisions)]


def change_document(action: Action) -> ChangeDocument:
    """Return one action of a plan as the document that describes it."""
    decision = action.decision
    return ChangeDocument(
        id=action.id,
        key=decision.key,
        job=decision.job,
        verb=decision.verb,
        phase=decision.phase.name.lower(),  # type: ignore[arg-type]  # the names of Phase are the literals of PhaseName
        cluster=decision.ref.cluster,
        object=_object(decision),
        replicas=_replicas(decision),
        cause=_cause(decision),
        before={pointer(change.path): json_value(change.before) for change in decision.changes},
        after=_after(decision.changes),
        manifest=None if decision.manifest is None else json_value(decision.manifest),
        orphan=decision.orphan,
        victims=None if decision.victims is None else _victims(decision.victims),
        downscale=None if decision.downscale is None else _downscale(decision.downscale),
        group=decision.group,
        order=list(decision.order),
        needs=list(action.needs),
        wake_tier=decision.wake_tier,
        wait_ready=action.wait_ready,
        event=decision.event,
        idles=decision.idles,
        has_annotations=decision.has_annotations,
        has_labels=decision.has_labels,
    )


def _after(changes: Sequence[FieldChange]) -> dict[str, Any]:
    """Return the fields afterwards; where one field is both changed and only tested, the change counts."""
    result: dict[str, Any] = {}
    for change in changes:
        path = pointer(change.path)
        if path not in result or change.before != change.after:
            result[path] = json_value(change.after)
    return result


def _object(decision: Decision) -> ObjectDocument:
    ref = decision.ref
    return ObjectDocument(
        api_version=decision.api_version,
        group=ref.group,
        kind=ref.kind,
        namespace=ref.namespace,
        name=ref.name,
        uid=decision.uid,
    )


def _replicas(decision: Decision) -> ReplicasDocument | None:
    if decision.replicas_before is None and decision.replicas_after is None:
        return None
    return ReplicasDocument(before=decision.replicas_before, after=decision.replicas_after)


def _cause(decision: Decision) -> CauseDocument:
    cause = decision.cause
    return CauseDocument(policy=cause.policy, at=cause.at, why=cause.why, values=json_value(cause.values))


def _victims(forecast: VictimForecast) -> VictimsDocument:
    finite = tuple(ratio if ratio is not None and math.isfinite(ratio) else None for ratio in forecast.age_ratios)
    return _same(replace(forecast, age_ratios=finite), VictimsDocument)


def _downscale(settings: DownscaleSettings) -> DownscaleDocument:
    return DownscaleDocument(
        policy=settings.policy,
        strategy=settings.strategy,
        picker=None if settings.picker is None else _picker(settings.picker),
        logarithm_base=float(settings.logarithm_base),
        topology_key=settings.topology_key,
        on_foreign_cost=settings.on_foreign_cost,
        settle_seconds=float(settings.settle_seconds),
        verify_seconds=float(settings.verify_seconds),
    )


def _picker(picker: PodPicker) -> PodPickerDocument:
    return PodPickerDocument(
        host=picker.host,
        port=picker.port,
        scheme=picker.scheme,
        path=picker.path,
        headers=[_header(header) for header in picker.headers],
        ca_bundle=picker.ca_bundle,
        allow_insecure_auth=picker.allow_insecure_auth,
        max_retries=picker.max_retries,
        timeout_seconds=float(picker.timeout_seconds),
        on_error=picker.on_error,
        on_too_few=picker.on_too_few,
    )


def _header(header: PickerHeader) -> HeaderDocument:
    secret = None if header.secret is None else SecretKeyDocument(name=header.secret[0], key=header.secret[1])
    return HeaderDocument(name=header.name, value=header.value, secret=secret)


def _held_back(held: HeldBackActions) -> HeldBackDocument:
    return HeldBackDocument(
        allow=held.allow,
        why=held.why,
        unit=held.unit,
        used=held.used,
        allowed=held.allowed,
        base=held.base,
        changes=_changes(held.decisions),
    )


def _overridden(lost: Overridden) -> OverriddenDocument:
    ref = lost.ref
    return OverriddenDocument(
        cluster=ref.cluster,
        group=ref.group,
        kind=ref.kind,
        namespace=ref.namespace,
        name=ref.name,
        job=lost.job,
        policy=lost.policy,
        wish=lost.wish,
        winner=lost.winner,
        why=lost.why,
    )
