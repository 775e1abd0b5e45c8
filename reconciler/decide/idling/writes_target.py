"""Choices -> the record on the target of a ScaledObject, which is the way back if the ScaledObject is deleted.

KEDA leaves the target of a deleted ScaledObject at the replicas it had, also while that was paused.
"""

from __future__ import annotations

from msgspec.structs import replace

from reconciler.decide.annotations import CAUSE, SCALE_TIME, format_time
from reconciler.decide.decisions import Decision, Phase, Verb, annotation_changes, replicas_change
from reconciler.decide.idling.choices import Choice
from reconciler.decide.idling.records import Record, cleared_annotations, record_annotations
from reconciler.decide.idling.rules import IdleAction
from reconciler.decide.idling.scalables import ScalableState
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.wake_order import tier
from reconciler.decide.idling.writes_workload import WriteContext, cause_of, cause_text, decision_key, record_after

_UNTOUCHED = frozenset({IdleAction.OVERDUE, IdleAction.DEFER})


def target_decision(choice: Choice, own: Decision | None, context: WriteContext) -> Decision | None:
    """Return the decision on the record of the target; `own` is the decision on the ScaledObject itself.

    The record is written before the ScaledObject is paused, and taken off after it is unpaused.
    """
    scalable, state = choice.scalable, choice.state
    if not scalable.has_target or choice.action in _UNTOUCHED or state in (*NOT_OURS, IdleState.UNREADABLE):
        return None
    if own is None and not context.repairs:
        return None
    record = record_after(choice, context)
    reading = scalable.on_target
    if reading is not None and not reading.ours:
        return None
    if record is not None and not _is_recorded(record, scalable):
        return _recorded(choice, record, own, context)
    if record is None and reading is not None and (own is not None or choice.action is not IdleAction.WAKE):
        return _cleared(choice, own, context)
    return None


def _is_recorded(record: Record, scalable: ScalableState) -> bool:
    found = None if scalable.on_target is None else scalable.on_target.record
    return found is not None and replace(found, cause=record.cause) == record


def _recorded(choice: Choice, record: Record, own: Decision | None, context: WriteContext) -> Decision:
    target, idles = choice.scalable.scale.runs, choice.action is IdleAction.IDLE
    cause = cause_of(choice, context) if own is None else own.cause
    wanted: dict[str, str | None] = {
        **record_annotations(record, target),
        SCALE_TIME: format_time(context.run.now if idles else record.idled_at),
        CAUSE: cause_text(cause, context.run),
    }
    # What is recorded is tested: KEDA or somebody else may scale the target since it was read.
    tests = (replicas_change(target.replicas, target.spec_replicas, target.replicas_path),) if idles else ()
    return replace(
        _decision(choice, Verb.RECORD, context),
        phase=Phase.DECREASE if idles else Phase.REPAIR,
        changes=(*tests, *annotation_changes(target.annotations, wanted)),
        cause=cause,
        group=context.group(choice.ref, idles=idles),
        order=(0, 1),
    )


def _cleared(choice: Choice, own: Decision | None, context: WriteContext) -> Decision:
    annotations = choice.scalable.scale.runs.annotations
    changes = annotation_changes(annotations, cleared_annotations(annotations))
    order = (tier(choice), 2) if choice.action is IdleAction.WAKE else (2,)
    base = replace(_decision(choice, Verb.CLEAR, context), changes=changes, order=order)
    return base if own is None else replace(base, phase=own.phase, group=own.group, needs=(own.key,), cause=own.cause)


def _decision(choice: Choice, verb: Verb, context: WriteContext) -> Decision:
    target = choice.scalable.scale.runs
    return Decision(
        key=decision_key(verb, target.ref),
        job="idling",
        verb=verb,
        phase=Phase.REPAIR,
        ref=target.ref,
        api_version=target.api_version,
        uid=target.uid,
        changes=(),
        cause=cause_of(choice, context),
        group=context.group(choice.ref),
        has_annotations=target.has_annotations,
        has_labels=target.has_labels,
    )
