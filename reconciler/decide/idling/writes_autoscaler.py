"""Choices -> what is written on the HorizontalPodAutoscaler of a scalable, and on the target of a ScaledObject.

The HorizontalPodAutoscaler would scale it up again. The record on the target is the way back if the ScaledObject is
deleted: KEDA leaves the target of a deleted ScaledObject at the replicas it had, also while that was paused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.annotations import Key, compact, format_time, idling_owner, idling_owner_text
from reconciler.decide.autoscalers import MINIMUM, Bounds, PinnedAutoscaler, pinned_bounds
from reconciler.decide.decisions import (
    Cause,
    Decision,
    FieldChange,
    Phase,
    Verb,
    annotation_changes,
    annotation_tests,
    group_name,
    replicas_change,
)
from reconciler.decide.idling.records import Record, cleared_annotations, flux_paused, flux_resumed
from reconciler.decide.idling.rules import UNTOUCHED, Choice, IdleAction
from reconciler.decide.idling.subjects import NOT_OURS, IdleState
from reconciler.decide.idling.wake_order import tier
from reconciler.decide.idling.write_context import WriteContext, annotations_of, cause_of, decision_key, decision_on
from reconciler.decide.idling.writes_workload import pauses_flux, stays_raised
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.model import NOTHING
from reconciler.workload_kinds import PAUSED_REPLICAS

_MAXIMUM = ("spec", "maxReplicas")


def decisions_around(choice: Choice, own: Decision | None, context: WriteContext) -> tuple[Decision, ...]:
    """Return the decisions on the autoscaler and the target of a scalable; `own` is the one on the scalable itself,
    which is needed by those of them that follow it.
    """
    if choice.action in UNTOUCHED or choice.state is IdleState.UNREADABLE:
        return ()
    on_target = _target_decision(choice, own, context)
    return (*_autoscaler_decisions(choice, own, context), *(() if on_target is None else (on_target,)))


def _following(decision: Decision, own: Decision | None) -> Decision:
    """Return `decision` as what is done after `own`, where there is that."""
    return decision if own is None else replace(decision, phase=own.phase, group=own.group, needs=(own.key,))


def _autoscaler_decisions(choice: Choice, own: Decision | None, context: WriteContext) -> tuple[Decision, ...]:
    autoscaler, state = choice.subject.pinned, choice.state
    if autoscaler is None or autoscaler.problem or (state in NOT_OURS and choice.action is not IdleAction.WAKE):
        return ()
    if choice.action is IdleAction.WAKE:
        return tuple(_woken(choice, autoscaler, own, context))
    if (not context.repairs and choice.action is not IdleAction.RELEASE) or stays_raised(choice):
        return ()
    verb, changes, record = Verb.CLEAR, _release_changes(autoscaler), context.records[choice.ref]
    is_held = record is not None and autoscaler.needs_pin(record.idled_to)
    if record is not None and is_held:
        annotations: dict[str, str | None] = {Key.OWNER: idling_owner_text(context.fleet.name, record.policy)}
        annotations |= flux_paused(autoscaler.hpa, context.run.now) if pauses_flux(choice) else {}
        verb, changes = Verb.RECORD, _pin_changes(autoscaler, record.idled_to, annotations)
    if not changes:
        return ()
    decision = _decision(choice, autoscaler, verb, changes, context)
    if is_held and (own is None or choice.state is IdleState.SCALED_BY_HPA):  # it took it from where it was idle
        phase = decision.phase if own is None else own.phase  # what holds its decrease back holds this back too
        return (replace(decision, phase=phase, order=(0,)),)
    return (_following(decision, own),)


def _woken(
    choice: Choice, autoscaler: PinnedAutoscaler, own: Decision | None, context: WriteContext
) -> Iterator[Decision]:
    """Yield (a) the bounds are given back, (c) what they were is forgotten; between them the scalable is woken."""
    # Bounds first: at idleReplicas the autoscaler would undo the wake. The annotations go last: they are the way back.
    back = _restore_changes(autoscaler, context.run.now)
    gone = _clear_changes(autoscaler, _begun(autoscaler, context.run.now))
    if back:
        key = decision_key(Verb.CLEAR, autoscaler.hpa.ref, "/bounds")
        base = _decision(choice, autoscaler, Verb.CLEAR, back, context)
        yield replace(base, key=key, phase=Phase.WAKE, order=(tier(choice), 0))
    if gone:
        base = _decision(choice, autoscaler, Verb.CLEAR, gone, context)
        yield _following(replace(base, phase=Phase.WAKE, order=(tier(choice), 3)), own)


def abandoned_decisions(context: WriteContext) -> Iterator[Decision]:
    """Yield that autoscalers are let go whose workloads were deleted while they were idle."""
    written = [cluster for cluster in context.clusters if cluster.name in context.written]
    for autoscaler in chain.from_iterable(cluster.abandoned for cluster in written):
        hpa, owner = autoscaler.hpa, idling_owner(autoscaler.hpa.annotations)
        policy = "" if owner is None else owner[1]
        cause = Cause(policy, context.place(policy), (reason(ReasonCode.HPA_PINNED_FOR_NOTHING),))
        yield decision_on(hpa, Verb.CLEAR, cause, group_name("idling", hpa.ref), _release_changes(autoscaler))


def _decision(
    choice: Choice, autoscaler: PinnedAutoscaler, verb: Verb, changes: tuple[FieldChange, ...], context: WriteContext
) -> Decision:
    cause, group = cause_of(choice, context), context.group(choice.ref)
    return replace(decision_on(autoscaler.hpa, verb, cause, group, changes), order=(2,))


# The changes of one HorizontalPodAutoscaler.


def _pin_changes(
    autoscaler: PinnedAutoscaler, idled_to: int, annotations: Mapping[str, str | None]
) -> tuple[FieldChange, ...]:
    """Return the changes that hold the autoscaler at `idled_to`, () where it is held there already.

    `annotations` say for whom, and pause Flux.
    """
    own = autoscaler.own_bounds
    text = compact({"minReplicas": own.minimum, "maxReplicas": own.maximum}, sort=False)
    wanted = {Key.PREVIOUS_BOUNDS: text, Key.IDLED_TO: str(idled_to), **annotations, Key.WAKE_BEGUN_AT: None}
    if autoscaler.is_pinned_at(idled_to) and autoscaler.hpa.annotations.get(Key.IDLED_TO) in (None, str(idled_to)):
        return ()
    return _changes(autoscaler, wanted, pinned_bounds(idled_to, own))


def _restore_changes(autoscaler: PinnedAutoscaler, now: datetime) -> tuple[FieldChange, ...]:
    """Return the changes that give the autoscaler its bounds back and keep what they were, () where it has them.

    They say that it was us, in the same request: a run that dies before the replicas follow must not be taken for
    somebody who put the bounds back. Where somebody else changed one of them, that stays to be answered.
    """
    if not autoscaler.gets_back:
        return ()
    changes = _changes(autoscaler, _begun(autoscaler, now), autoscaler.own_bounds)
    return (*changes, *annotation_tests(autoscaler.hpa.annotations, (Key.PREVIOUS_BOUNDS,)))


def _begun(autoscaler: PinnedAutoscaler, now: datetime) -> dict[str, str]:
    """Return the annotation that says that our wake began, {} where it does not begin with the bounds."""
    return {Key.WAKE_BEGUN_AT: format_time(now)} if autoscaler.is_pinned else {}


def _clear_changes(autoscaler: PinnedAutoscaler, begun: Mapping[str, str] = NOTHING) -> tuple[FieldChange, ...]:
    """Return the changes that remove our annotations, with those that a wake has `begun` with; () for none."""
    if autoscaler.previous is None:
        return ()
    annotations = {**autoscaler.hpa.annotations, **begun}
    ours = dict.fromkeys((Key.PREVIOUS_BOUNDS, Key.IDLED_TO, Key.WAKE_BEGUN_AT, Key.OWNER))
    return annotation_changes(annotations, {**ours, **flux_resumed(annotations)})


def _release_changes(autoscaler: PinnedAutoscaler) -> tuple[FieldChange, ...]:
    """Return the changes that give the bounds back and take our annotations off, in one request."""
    bounds = _changes(autoscaler, NOTHING, autoscaler.own_bounds) if autoscaler.gets_back else ()
    return (*bounds, *_clear_changes(autoscaler))


def _changes(
    autoscaler: PinnedAutoscaler, annotations: Mapping[str, str | None], bounds: Bounds
) -> tuple[FieldChange, ...]:
    hpa = autoscaler.hpa
    of_bounds = FieldChange(MINIMUM, hpa.minimum, bounds.minimum), FieldChange(_MAXIMUM, hpa.maximum, bounds.maximum)
    return (*of_bounds, *annotation_changes(hpa.annotations, annotations))


def _target_decision(choice: Choice, own: Decision | None, context: WriteContext) -> Decision | None:
    """Return the decision on the record of the target; `own` is the decision on the ScaledObject itself.

    The record is written before the ScaledObject is paused, and taken off after it is unpaused.
    """
    subject, reading, record = choice.subject, choice.subject.on_target, context.records[choice.ref]
    if not subject.scale.has_target or subject.target_is_idle or choice.state in NOT_OURS:
        return None
    if (own is None and not context.repairs) or (reading is not None and not reading.ours):
        return None
    found = None if reading is None else reading.record
    if record is not None and (found is None or replace(found, cause=record.cause) != record):
        return _recorded(choice, record, own, context)
    if record is None and reading is not None and (own is not None or choice.action is not IdleAction.WAKE):
        return _cleared(choice, own, context)
    return None


def _recorded(choice: Choice, record: Record, own: Decision | None, context: WriteContext) -> Decision:
    target, idles = choice.subject.scale.runs, choice.action is IdleAction.IDLE
    cause = cause_of(choice, context) if own is None else own.cause
    at = context.run.now if idles else record.idled_at
    wanted = annotations_of(record, target, cause, at, context.run)
    # What is recorded is tested: KEDA or somebody else may scale the target since it was read.
    tests = (replicas_change(target.replicas, target.spec_replicas, target.replicas_path),) if idles else ()
    changes, group = (*tests, *annotation_changes(target.annotations, wanted)), context.group(choice.ref, idles=idles)
    base = decision_on(target, Verb.RECORD, cause, group, changes)
    return replace(base, phase=choice.action.phase, order=(0, 1))


def _cleared(choice: Choice, own: Decision | None, context: WriteContext) -> Decision:
    target, replicas = choice.subject.scale.runs, _left_behind(choice)
    scaled = () if replicas is None else (replicas_change(target.replicas, replicas, target.replicas_path),)
    changes = (*scaled, *annotation_changes(target.annotations, cleared_annotations(target.annotations)))
    order = (tier(choice), 2) if choice.action is IdleAction.WAKE else (2,)
    cause, group = cause_of(choice, context), context.group(choice.ref)
    cleared = replace(decision_on(target, Verb.WAKE if scaled else Verb.CLEAR, cause, group, changes), order=order)
    base = replace(cleared, replicas_before=target.spec_replicas, replicas_after=replicas) if scaled else cleared
    return base if own is None else replace(_following(base, own), cause=own.cause)


def _left_behind(choice: Choice) -> int | None:
    """Return what its target had, where KEDA leaves it idle, as somebody else pauses the ScaledObject where it is.

    Only a wake moves what others than KEDA scaled since; KEDA writes as `keda`, the name of its binary.
    """
    scale, reading = choice.subject.scale, choice.subject.on_target
    record, writer = None if reading is None else reading.record, scale.runs.replicas_writer
    is_by_others = writer is not None and not writer.manager.startswith("keda")
    is_held = (scale.paused_by == PAUSED_REPLICAS or is_by_others) and choice.action is not IdleAction.WAKE
    is_left = scale.is_frozen_by_others and not is_held
    if record is None or not is_left or scale.runs.spec_replicas > record.idled_to:
        return None
    return record.replicas
