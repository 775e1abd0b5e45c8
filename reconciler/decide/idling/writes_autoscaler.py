"""Choices -> what is written on the HorizontalPodAutoscaler of a scalable, and on the target of a ScaledObject.

The HorizontalPodAutoscaler would scale it up again. The record on the target is the way back if the ScaledObject is
deleted: KEDA leaves the target of a deleted ScaledObject at the replicas it had, also while that was paused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.annotations import Key, compact, format_time, idling_owner, idling_owner_text
from reconciler.decide.autoscalers import MINIMUM, Bounds, PinnedAutoscaler, pinned_bounds
from reconciler.decide.decisions import (
    Cause,
    Decision,
    FieldChange,
    Verb,
    annotation_changes,
    annotation_tests,
    replicas_change,
)
from reconciler.decide.idling.records import Record, cleared_annotations, flux_paused, flux_resumed
from reconciler.decide.idling.rules import UNTOUCHED, Choice, IdleAction
from reconciler.decide.idling.subjects import NOT_OURS, IdleState
from reconciler.decide.idling.write_context import (
    WriteContext,
    annotations_of,
    cause_of,
    decision_key,
    decision_on,
    placed,
)
from reconciler.decide.idling.writes_workload import pauses_flux, stays_raised
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.model import HorizontalPodAutoscaler
from reconciler.workload_kinds import PAUSED_REPLICAS

_MAXIMUM = ("spec", "maxReplicas")


def decisions_around(choice: Choice, own: Decision | None, context: WriteContext) -> tuple[Decision, ...]:
    """Return the decisions on the autoscaler and the target of a scalable; `own` is the one on the scalable itself,
    which is needed by those of them that follow it.
    """
    if choice.action in UNTOUCHED or choice.state is IdleState.UNREADABLE:
        return ()
    return (*_autoscaler_decisions(choice, own, context), *_target_decisions(choice, own, context))


def _autoscaler_decisions(choice: Choice, own: Decision | None, context: WriteContext) -> Iterator[Decision]:
    autoscaler, is_due = choice.subject.pinned, context.repairs or choice.action is IdleAction.RELEASE
    if autoscaler is None or autoscaler.problem:
        return
    if choice.action is IdleAction.WAKE:
        yield from _woken(choice, autoscaler, own, context)
    elif is_due and choice.state not in NOT_OURS and not stays_raised(choice):
        yield from _held_or_let_go(choice, autoscaler, own, context)


def _woken(
    choice: Choice, autoscaler: PinnedAutoscaler, own: Decision | None, context: WriteContext
) -> Iterator[Decision]:
    """Yield (a) the bounds are given back, (c) what they were is forgotten; between them the scalable is woken.

    (a) says that it was us, in the same request: a run that dies before the replicas follow must not be taken for
    somebody who put the bounds back. Where somebody else changed one of them, that stays to be answered.
    """
    # Bounds first: at idleReplicas the autoscaler would undo the wake. The annotations go last: they are the way back.
    hpa, cause = autoscaler.hpa, cause_of(choice, context)
    begun = {Key.WAKE_BEGUN_AT: format_time(context.run.now)} if autoscaler.is_pinned else {}
    if autoscaler.gets_back:
        back = (*_bounds(hpa, autoscaler.own_bounds), *annotation_changes(hpa.annotations, begun))
        tests = annotation_tests(hpa.annotations, (Key.PREVIOUS_BOUNDS,))
        first = placed(decision_on(hpa, Verb.CLEAR, cause, (*back, *tests)), choice, context, 0)
        yield replace(first, key=decision_key(Verb.CLEAR, hpa.ref, "/bounds"))
    if autoscaler.previous is not None:
        gone = _cleared_changes({**hpa.annotations, **begun})
        yield placed(decision_on(hpa, Verb.CLEAR, cause, gone), choice, context, 3, own=own)


def _held_or_let_go(
    choice: Choice, autoscaler: PinnedAutoscaler, own: Decision | None, context: WriteContext
) -> Iterator[Decision]:
    """Yield that it is held where its workload stays idle and it would scale that up, else let go."""
    record, hpa = context.records[choice.ref], autoscaler.hpa
    verb, changes, step = Verb.CLEAR, _release_changes(autoscaler), 2
    if record is not None and autoscaler.needs_pin(record.idled_to):
        also = flux_paused(hpa, context.run.now) if pauses_flux(choice) else {}
        owner = idling_owner_text(context.fleet.name, record.policy)
        verb, changes = Verb.RECORD, _pin_changes(autoscaler, record.idled_to, {Key.OWNER: owner, **also})
        step = 0 if own is None or choice.state is IdleState.SCALED_BY_HPA else 2  # it took it from where it was idle
    if changes:
        yield placed(decision_on(hpa, verb, cause_of(choice, context), changes), choice, context, step, own=own)


def abandoned_decisions(context: WriteContext) -> Iterator[Decision]:
    """Yield that autoscalers are let go whose workloads were deleted while they were idle."""
    written = [cluster for cluster in context.clusters if cluster.name in context.written]
    for autoscaler in chain.from_iterable(cluster.abandoned for cluster in written):
        owner = idling_owner(autoscaler.hpa.annotations)
        policy = "" if owner is None else owner[1]
        cause = Cause(policy, context.place(policy), (reason(ReasonCode.HPA_PINNED_FOR_NOTHING),))
        yield decision_on(autoscaler.hpa, Verb.CLEAR, cause, _release_changes(autoscaler))


# The changes of one HorizontalPodAutoscaler.


def _pin_changes(
    autoscaler: PinnedAutoscaler, idled_to: int, annotations: Mapping[str, str | None]
) -> tuple[FieldChange, ...]:
    """Return the changes that hold the autoscaler at `idled_to`, () where it is held there already.

    `annotations` say for whom, and pause Flux.
    """
    own, hpa = autoscaler.own_bounds, autoscaler.hpa
    if autoscaler.is_pinned_at(idled_to) and hpa.annotations.get(Key.IDLED_TO) in (None, str(idled_to)):
        return ()
    text = compact({"minReplicas": own.minimum, "maxReplicas": own.maximum}, sort=False)
    wanted = {Key.PREVIOUS_BOUNDS: text, Key.IDLED_TO: str(idled_to), **annotations, Key.WAKE_BEGUN_AT: None}
    return (*_bounds(hpa, pinned_bounds(idled_to, own)), *annotation_changes(hpa.annotations, wanted))


def _release_changes(autoscaler: PinnedAutoscaler) -> tuple[FieldChange, ...]:
    """Return the changes that give the bounds back and take our annotations off, in one request; () for none."""
    if autoscaler.previous is None:
        return ()
    bounds = _bounds(autoscaler.hpa, autoscaler.own_bounds) if autoscaler.gets_back else ()
    return (*bounds, *_cleared_changes(autoscaler.hpa.annotations))


def _cleared_changes(annotations: Mapping[str, str]) -> tuple[FieldChange, ...]:
    ours = dict.fromkeys((Key.PREVIOUS_BOUNDS, Key.IDLED_TO, Key.WAKE_BEGUN_AT, Key.OWNER))
    return annotation_changes(annotations, {**ours, **flux_resumed(annotations)})


def _bounds(hpa: HorizontalPodAutoscaler, after: Bounds) -> tuple[FieldChange, ...]:
    return FieldChange(MINIMUM, hpa.minimum, after.minimum), FieldChange(_MAXIMUM, hpa.maximum, after.maximum)


# The record on the target of a ScaledObject.


def _target_decisions(choice: Choice, own: Decision | None, context: WriteContext) -> Iterator[Decision]:
    """Yield the decision on the record of the target; `own` is the decision on the ScaledObject itself.

    The record is written before the ScaledObject is paused, and taken off after it is unpaused.
    """
    subject, reading, record = choice.subject, choice.subject.on_target, context.records[choice.ref]
    if not subject.scale.has_target or subject.target_is_idle or choice.state in NOT_OURS:
        return
    if (own is None and not context.repairs) or (reading is not None and not reading.ours):
        return
    found, cause = None if reading is None else reading.record, cause_of(choice, context) if own is None else own.cause
    if record is not None and (found is None or replace(found, cause=record.cause) != record):
        yield placed(_recorded(choice, record, cause, context), choice, context, 0, 1)
    if record is None and reading is not None and (own is not None or choice.action is not IdleAction.WAKE):
        yield placed(_cleared(choice, cause), choice, context, 2, own=own)


def _recorded(choice: Choice, record: Record, cause: Cause, context: WriteContext) -> Decision:
    target, idles = choice.subject.scale.runs, choice.action is IdleAction.IDLE
    # What is recorded is tested: KEDA or somebody else may scale the target since it was read.
    tests = (replicas_change(target.replicas, target.spec_replicas, target.replicas_path),) if idles else ()
    changes = annotation_changes(target.annotations, annotations_of(record, target, cause, context.run))
    return decision_on(target, Verb.RECORD, cause, (*tests, *changes))


def _cleared(choice: Choice, cause: Cause) -> Decision:
    target, replicas = choice.subject.scale.runs, _left_behind(choice)
    changes = annotation_changes(target.annotations, cleared_annotations(target.annotations))
    if replicas is None:
        return decision_on(target, Verb.CLEAR, cause, changes)
    scaled = replicas_change(target.replicas, replicas, target.replicas_path)
    woken = decision_on(target, Verb.WAKE, cause, (scaled, *changes))
    return replace(woken, replicas_before=target.spec_replicas, replicas_after=replicas)


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
