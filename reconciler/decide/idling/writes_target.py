"""Choices -> the record on the target of a ScaledObject, which is the way back if the ScaledObject is deleted.

KEDA leaves the target of a deleted ScaledObject at the replicas it had, also while that was paused.
"""

from __future__ import annotations

from msgspec.structs import replace

from reconciler.decide.decisions import Decision, Phase, Verb, annotation_changes, replicas_change
from reconciler.decide.idling.choices import Choice
from reconciler.decide.idling.records import Record, cleared_annotations
from reconciler.decide.idling.rules import IdleAction
from reconciler.decide.idling.subjects import NOT_OURS, IdleState, Subject
from reconciler.decide.idling.wake_order import tier
from reconciler.decide.idling.write_context import (
    UNTOUCHED,
    WriteContext,
    annotations_of,
    cause_of,
    decision_on,
    following,
)
from reconciler.decide.idling.writes_workload import record_after


def target_decision(choice: Choice, own: Decision | None, context: WriteContext) -> Decision | None:
    """Return the decision on the record of the target; `own` is the decision on the ScaledObject itself.

    The record is written before the ScaledObject is paused, and taken off after it is unpaused.
    """
    subject, state = choice.subject, choice.state
    if not subject.has_target or choice.action in UNTOUCHED or state in (*NOT_OURS, IdleState.UNREADABLE):
        return None
    if own is None and not context.repairs:
        return None
    record = record_after(choice, context)
    reading = subject.on_target
    if reading is not None and not reading.ours:
        return None
    if record is not None and not _is_recorded(record, subject):
        return _recorded(choice, record, own, context)
    if record is None and reading is not None and (own is not None or choice.action is not IdleAction.WAKE):
        return _cleared(choice, own, context)
    return None


def _is_recorded(record: Record, subject: Subject) -> bool:
    found = None if subject.on_target is None else subject.on_target.record
    return found is not None and replace(found, cause=record.cause) == record


def _recorded(choice: Choice, record: Record, own: Decision | None, context: WriteContext) -> Decision:
    target, idles = choice.subject.scale.runs, choice.action is IdleAction.IDLE
    cause = cause_of(choice, context) if own is None else own.cause
    at = context.run.now if idles else record.idled_at
    wanted = annotations_of(record, target, cause, at, context.run)
    # What is recorded is tested: KEDA or somebody else may scale the target since it was read.
    tests = (replicas_change(target.replicas, target.spec_replicas, target.replicas_path),) if idles else ()
    return decision_on(
        target,
        Verb.RECORD,
        cause,
        context.group(choice.ref, idles=idles),
        phase=Phase.DECREASE if idles else Phase.REPAIR,
        changes=(*tests, *annotation_changes(target.annotations, wanted)),
        order=(0, 1),
    )


def _cleared(choice: Choice, own: Decision | None, context: WriteContext) -> Decision:
    target = choice.subject.scale.runs
    changes = annotation_changes(target.annotations, cleared_annotations(target.annotations))
    order = (tier(choice), 2) if choice.action is IdleAction.WAKE else (2,)
    cause, group = cause_of(choice, context), context.group(choice.ref)
    base = decision_on(target, Verb.CLEAR, cause, group, changes=changes, order=order)
    return base if own is None else replace(following(base, own), cause=own.cause)
