"""Choices -> the one decision on each scalable: its record and its replicas in one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from msgspec.structs import replace

from reconciler.decide.annotations import IDLED, Key, format_time, json_object, quoted
from reconciler.decide.decisions import Cause, Decision, FieldChange, Phase, annotation_changes, annotation_tests
from reconciler.decide.freeze import restriction
from reconciler.decide.idling.contested import contest_text, is_contested, reason_of_others
from reconciler.decide.idling.keeps_awake import awake_until
from reconciler.decide.idling.records import Record, cleared_annotations, flux_paused, record_annotations
from reconciler.decide.idling.rules import Choice, IdleAction
from reconciler.decide.idling.subjects import NOT_OURS, IdleState, Undo
from reconciler.decide.idling.write_context import (
    WriteContext,
    annotations_of,
    cause_of,
    cause_text,
    decision_key,
    decision_on,
    placed,
)
from reconciler.decide.last_idled import hours_of, is_known, last_idled_text
from reconciler.decide.reasons import Code, Reason, ReasonCode, Reasons, reason

_SOMEBODY = {"unknown": "somebody"}
_TESTED = (
    Key.EXCLUDE,
    Key.EXCLUDE_UNTIL,
    Key.DOWNSCALER_EXCLUDE,
    Key.DOWNSCALER_EXCLUDE_UNTIL,
    Key.AWAKE_SINCE,
    Key.AWAKE_UNTIL,
    Key.WAKE_REQUESTED_AT,
)
"""What could keep a scalable awake: an idle is not written where one of these changed meanwhile."""


def scalable_decision(choice: Choice, context: WriteContext) -> Decision | None:
    """Return the decision on the scalable itself, None without one; for equal `decision_inputs` it is made once."""
    inputs, made, written = choice.decision_inputs, context.decisions_by_inputs, choice.subject.scale.written
    if inputs is None or inputs not in made:
        made[inputs] = _own_decision(choice, context)
        return made[inputs]
    first = made[inputs]
    return first and replace(
        first,
        key=decision_key(first.verb, written.ref),
        ref=written.ref,
        uid=written.uid,
        group=context.group(written.ref, idles=first.idles),
        has_annotations=written.has_annotations,
        has_labels=written.has_labels,
        requests=written.requests,
    )


def _own_decision(choice: Choice, context: WriteContext) -> Decision | None:
    if choice.action is IdleAction.CLEAR:
        return _clear(choice, context)
    make = _WRITES.get(choice.action)
    record = context.records[choice.ref] if choice.stays_idle else choice.record
    return None if make is None or record is None else make(choice, record, context)


def _decision(
    choice: Choice, cause: Cause, changes: tuple[FieldChange, ...], context: WriteContext, replicas: int | None = None
) -> Decision:
    """Return the decision on the scalable; `replicas` are those it has then, None where none move."""
    scale, verb = choice.subject.scale, choice.action.verb
    return replace(
        placed(decision_on(scale.written, verb, cause, changes), choice, context, 1),
        replicas_before=None if replicas is None else scale.replicas,
        replicas_after=replicas,
        idles=choice.action is IdleAction.IDLE,
        requests=scale.runs.requests,
    )


def _idle(choice: Choice, record: Record, context: WriteContext) -> Decision:
    scale, run, cause, undo = choice.subject.scale, context.run, cause_of(choice, context), choice.subject.undo
    written, annotations = scale.written, scale.written.annotations
    hours, counts = hours_of(context.policies[cause.policy]), cause.policy not in run.allow_exceed
    last = last_idled_text(cause.policy, hours, annotations, run.now, counts=counts)
    also = {Key.CAUSE: cause_text(cause, run), Key.LAST_IDLED: last}
    also |= flux_paused(written, run.now) if pauses_flux(choice) else {}
    also |= {Key.UNDONE: undo.text} if undo is not None else {}  # onRevert: Insist
    inputs = (id(record), id(written.kind), written.ref.kind, id(annotations), frozenset(also.items()))
    made = context.idled_annotations
    if inputs not in made:
        says = record_annotations(record, annotations, written.kind, written.ref.kind)
        changes = annotation_changes(annotations, {**says, Key.CONTESTED: None, **also})
        # The tests make the API server refuse an idle that somebody opted out of, or asked to wake, since it was
        # planned.
        made[inputs] = (*changes, *annotation_tests(annotations, _TESTED))
    # Replicas and record in one request: between two a crash would leave zero replicas and no number to wake to.
    changes = (scale.change_to(record.idled_to), *made[inputs])
    decision = _decision(choice, cause, changes, context, record.idled_to if scale.counts else None)
    return replace(decision, event="Idled", known=is_known(hours, annotations, run.now))


def pauses_flux(choice: Choice) -> bool:
    """Return whether a policy that idles it pauses Flux while it is idle."""
    return any(policy.git_ops.flux == "Pause" for policy in choice.subject.verdict.policies)


def _awake(choice: Choice, record: Record, context: WriteContext) -> Decision:
    """Return the wake to `record`, or the release of what somebody else scaled up, or keeps scaled down.

    An autoscaler that was held gets its bounds back also where it stays down, and raises it to them.
    """
    scale, now, undo = choice.subject.scale, context.run.now, choice.subject.undo
    annotations, wakes = scale.written.annotations, choice.action is IdleAction.WAKE
    scaled, replicas, reasons = scale.unchanged(), None, choice.reasons
    changed: dict[str, str | None] = {}
    if undo is not None:
        changed, reasons = _undone(choice, record, undo, context), (_undo_reason(choice, undo),)
    elif not wakes:
        changed, reasons = _handed_over(choice, record, now)
    if wakes:
        count = choice.next_replicas
        scaled, replicas = (scale.change_back(count, record),), count if scale.counts and scale.kind.counts else None
        # A scale that sets no reason clears it; the time is of the last scale (seed idling-and-unidling.md).
        unset = dict.fromkeys((Key.SCALE_REASON, Key.SCALE_PREVIOUS, Key.UNDONE))
        changed = {**unset, Key.SCALE_TIME: format_time(now), **changed}
        if count not in (record.replicas, scale.replicas):
            reasons = (*reasons, reason(ReasonCode.WITHIN_HPA_BOUNDS, replicas=count, recorded=record.replicas))
    # Unlike an idle, a wake tests nothing but what it changes: no annotation of others may keep a workload down.
    wanted: dict[str, str | None] = {
        **cleared_annotations(annotations, foreign=choice.state in NOT_OURS),
        Key.AWAKE_SINCE: format_time(now),
        **changed,
        **({} if context.hold_until is None else {Key.EXCLUDE_UNTIL: format_time(context.hold_until)}),
    }
    changes = (*scaled, *annotation_changes(annotations, wanted))
    awake = _decision(choice, cause_of(choice, context, reasons), changes, context, replicas)
    contested = undo is not None and is_contested(choice.subject, undo)
    event = "IdlingContested" if contested else "Woken" if wakes else ""
    return replace(awake, event=event)


def _undone(choice: Choice, record: Record, undo: Undo, context: WriteContext) -> dict[str, str | None]:
    """Return the annotations that keep awake what somebody undid, and leave it alone where that is one too many."""
    text = contest_text(undo, choice.subject.verdict.policy)
    contested = {Key.CONTESTED: text} if is_contested(choice.subject, undo) else {}
    until = awake_until(choice.subject.verdict, record, context.run.now)
    return {Key.AWAKE_UNTIL: format_time(until), Key.UNDONE: undo.text, **contested}


def _undo_reason(choice: Choice, undo: Undo) -> Reason:
    scale, autoscaler, by = choice.subject.scale, choice.subject.pinned, _SOMEBODY.get(undo.by, undo.by)
    if scale.is_scaled_meanwhile:
        return reason(ReasonCode.SCALED_BY, replicas=scale.runs.spec_replicas, by=by)
    if scale.hpa is not None:
        return reason(ReasonCode.HPA_CHANGED_BY, by=by, autoscaler=f"HorizontalPodAutoscaler/{choice.ref.name}")
    if undo.autoscaler and autoscaler is not None:
        restored = autoscaler.previous in (None, autoscaler.bounds)
        code = ReasonCode.HPA_RESTORED_BY if restored else ReasonCode.HPA_CHANGED_BY
        return reason(code, by=by, autoscaler=f"HorizontalPodAutoscaler/{undo.autoscaler}")
    if scale.kind.is_switch:
        return reason(ReasonCode.SWITCHED_ON_BY, by=by)
    return reason(ReasonCode.SCALED_BY, replicas=scale.replicas, by=by)


def _handed_over(choice: Choice, record: Record, now: datetime) -> tuple[dict[str, str | None], Reasons]:
    """Return the annotations of what stays scaled down, because somebody else wants that: one keeps its replicas; and
    why, and what becomes of it.

    It counts as awake, so that no list on a Service speaks for it any more, and that whoever scales it up has as long
    as after any scale by hand.
    """
    scale = choice.subject.scale
    previous = scale.written.annotations.get(Key.SCALE_PREVIOUS, str(record.replicas))
    wanted: dict[str, str | None] = {Key.SCALE_PREVIOUS: previous} if scale.counts and scale.kind.counts else {}
    found = reason_of_others(scale.written, record)
    changed = reason(ReasonCode.SCALE_REASON_CLEARED)
    if found:
        changed = reason(ReasonCode.SCALE_REASON_CHANGED, scaleReason=quoted(found), expected=IDLED)
    then, autoscaler = reason(ReasonCode.STAYS, replicas=record.replicas), choice.subject.pinned
    if autoscaler is not None and choice.gets_bounds_back:
        name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
        then = reason(ReasonCode.SCALED_BY_HPA, autoscaler=name, replicas=record.replicas)
    return {**wanted, Key.AWAKE_UNTIL: format_time(awake_until(choice.subject.verdict, record, now))}, (changed, then)


def _clear(choice: Choice, context: WriteContext) -> Decision | None:
    """Return what is changed on the scalable itself where leftovers go, None where nothing is."""
    scale, annotations = choice.subject.scale, choice.subject.scale.written.annotations
    wanted = cleared_annotations(annotations) if choice.state is IdleState.RECORD_STALE else {}
    if choice.keeps_request:
        wanted[Key.AWAKE_SINCE] = format_time(context.run.now)
    changes = annotation_changes(annotations, wanted)
    return _decision(choice, cause_of(choice, context), (*scale.unchanged(), *changes), context) if changes else None


def _repair(choice: Choice, record: Record, context: WriteContext) -> Decision | None:
    """Return the repair of the record and idled count of an idle scalable to `record`, None where both are right."""
    scale, moved = choice.subject.scale, _moves(choice, record)
    if not context.repairs or (_recorded(choice) == record and not moved):
        return None
    cause = cause_of(choice, context, (_repair_reason(choice, record, moved),))
    cause = replace(cause, policy=record.policy, at=context.place(record.policy) or cause.at)
    wanted = annotations_of(record, scale.written, cause, context.run)
    if moved:
        wanted[Key.SCALE_TIME] = format_time(context.run.now)
    elif Key.SCALE_TIME in scale.written.annotations:
        del wanted[Key.SCALE_TIME]
    if stays_idle_as_before(cause, scale.written.annotations):
        del wanted[Key.CAUSE]
    scaled = (scale.change_to(record.idled_to),) if moved else scale.unchanged()
    changes = (*scaled, *annotation_changes(scale.written.annotations, wanted))
    repair = _decision(choice, cause, changes, context, record.idled_to if moved and scale.counts else None)
    return replace(repair, phase=Phase.DECREASE) if goes_lower(choice, record) else repair


def stays_idle_as_before(cause: Cause, annotations: Mapping[str, str]) -> bool:
    """Return whether the cause in `annotations` says why it is idle, and `cause`, of the same policy, only that its
    record changes.
    """
    same = json_object(annotations.get(Key.CAUSE)).get("policy") == cause.policy
    return same and cause.reasons[:1] == (reason(ReasonCode.RECORD_UPDATED),)


def goes_lower(choice: Choice, record: Record) -> bool:
    """Return whether what is idle already goes down to the idled count of `record`: that is a lower one, or its
    autoscaler took it from there.
    """
    return choice.subject.scale.replicas > record.idled_to and _moves(choice, record)


def _moves(choice: Choice, record: Record) -> bool:
    """Return whether its replicas move: to another idled count, or back to the one its autoscaler took it from."""
    subject = choice.subject
    raised = subject.state is IdleState.SCALED_BY_HPA and not subject.scale.is_at_or_below(record.idled_to)
    if raised:
        return not stays_raised(choice)
    return choice.record is not None and choice.record.idled_to != record.idled_to


def stays_raised(choice: Choice) -> bool:
    """Return whether its autoscaler took it up from where it was idle, and is left to do so: it is frozen."""
    subject = choice.subject
    raised = subject.state is IdleState.SCALED_BY_HPA and not subject.is_at_idled_count
    return raised and restriction(subject.cluster, subject.ref.namespace) is not None


def _recorded(choice: Choice) -> Record | None:
    """Return the record as it is written on the object now; None where it has to be written again."""
    reading = choice.subject.reading
    return None if reading is None else reading.record


def _repair_reason(choice: Choice, record: Record, moved: bool) -> Reason:
    own = _recorded(choice)
    if choice.subject.lost is not None:
        return reason(ReasonCode.RECORD_FROM_REPLICA_SET)
    if own is None:
        return reason(ReasonCode.RECORD_FROM_SERVICE)
    if moved:
        return reason(ReasonCode.IDLE_REPLICAS_CHANGED, idleReplicas=record.idled_to)
    if own.policy != record.policy:
        return reason(_owner_change(choice, own), former=own.policy, policy=record.policy)
    if own.orphaned_since != record.orphaned_since:
        return reason(ReasonCode.POLICY_REMOVED if record.orphaned_since else ReasonCode.POLICY_BACK)
    return reason(ReasonCode.RECORD_UPDATED)


def _owner_change(choice: Choice, own: Record) -> Code:
    """Return why the policy of `own` does not answer for the record any more."""
    if not own.policy:
        return ReasonCode.OWNER_UNKNOWN
    overridden = any(verdict.policy.name == own.policy for verdict in choice.subject.verdict.lost)
    return ReasonCode.OWNER_OVERRIDDEN if overridden else ReasonCode.OWNER_CHANGED


_WRITES: Mapping[IdleAction, Callable[[Choice, Record, WriteContext], Decision | None]] = {
    IdleAction.IDLE: _idle,
    IdleAction.WAKE: _awake,
    IdleAction.RELEASE: _awake,
    IdleAction.KEEP: _repair,
    IdleAction.HOLD_BACK: _repair,
}
