"""Rulings -> the one decision on each scalable: its record and its replicas in one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from reconciler.decide.annotations import (
    AWAKE_SINCE,
    AWAKE_UNTIL,
    CAUSE,
    CONTESTED,
    EXCLUDE,
    EXCLUDE_UNTIL,
    IDLED,
    SCALE_PREVIOUS,
    SCALE_REASON,
    SCALE_TIME,
    UNDONE,
    WAKE_REQUESTED_AT,
    format_time,
    quoted,
)
from reconciler.decide.decisions import Decision, FieldChange, Phase, Verb, annotation_changes, annotation_tests
from reconciler.decide.idling.contests import Undo, contest_text, is_contest, undo_of
from reconciler.decide.idling.making import Making, cause_of, cause_text, key_of, record_after
from reconciler.decide.idling.order import tier
from reconciler.decide.idling.records import Record, cleared, reason_of_others, written
from reconciler.decide.idling.situations import Ruling
from reconciler.decide.idling.states import NOT_OURS, State
from reconciler.decide.idling.table import Action

_SOMEBODY = {"unknown": "somebody"}
_TESTED = (EXCLUDE, EXCLUDE_UNTIL, AWAKE_SINCE, AWAKE_UNTIL, WAKE_REQUESTED_AT)
"""What could keep a scalable awake: an idle is not written where one of these changed meanwhile."""


def scalable_decision(ruling: Ruling, making: Making) -> Decision | None:
    """Return what is done with the scalable itself, None for nothing."""
    make = _MAKERS.get(ruling.action)
    return None if make is None else make(ruling, making)


def decision_key(ruling: Ruling) -> str:
    """Return the key of the decision that `scalable_decision` makes of `ruling`."""
    return key_of(_VERBS.get(ruling.action, Verb.REPAIR), ruling.ref)


def _decision(ruling: Ruling, making: Making, changes: tuple[FieldChange, ...]) -> Decision:
    """Return a repair of the scalable; the callers put in what is particular."""
    written_object = ruling.target.scale.written
    return Decision(
        key=decision_key(ruling),
        job="idling",
        verb=_VERBS.get(ruling.action, Verb.REPAIR),
        phase=Phase.REPAIR,
        ref=ruling.ref,
        api_version=written_object.api_version,
        uid=written_object.uid,
        changes=changes,
        cause=cause_of(ruling, making),
        group=making.group(ruling.ref),
        order=(1,),
        has_annotations=written_object.has_annotations,
        has_labels=written_object.has_labels,
    )


def _idle(ruling: Ruling, making: Making) -> Decision | None:
    record = record_after(ruling, making)
    if record is None:
        return None
    scale, annotations = ruling.target.scale, ruling.target.scale.written.annotations
    wanted: dict[str, str | None] = {
        **written(record, scale.written),
        SCALE_TIME: format_time(making.run.now),
        CAUSE: cause_text(cause_of(ruling, making), making.run),
        CONTESTED: None,
    }
    changes = (
        scale.change_to(record.idled_to),
        *annotation_changes(annotations, wanted),
        *annotation_tests(annotations, _TESTED),
    )
    counted = not scale.is_suspended_kind
    return replace(
        _decision(ruling, making, changes),
        phase=Phase.DECREASE,
        group=making.group(ruling.ref, idles=True),
        replicas_before=scale.replicas if counted else None,
        replicas_after=record.idled_to if counted else None,
        event="Idled",
        idles=True,
    )


def wake_count(ruling: Ruling, record: Record) -> int:
    """Return the replicas a wake restores: those of the record, within the bounds of its autoscaler."""
    hold = ruling.hold
    if hold is None or hold.problem:
        return record.replicas
    return hold.own_bounds.clamp(record.replicas)


def _wake(ruling: Ruling, making: Making) -> Decision | None:
    if ruling.record is None:
        return None
    scale, annotations = ruling.target.scale, ruling.target.scale.written.annotations
    count = wake_count(ruling, ruling.record)
    undo = _undo_in(ruling, ruling.record, making)
    wanted: dict[str, str | None] = {
        **cleared(annotations, foreign=ruling.standing.state in NOT_OURS),
        **_scale_of_ours(making.run.now),
        AWAKE_SINCE: format_time(making.run.now),
        UNDONE: None,
        **({} if undo is None else _undone(ruling, ruling.record, undo, making)),
        **_held_until(making.hold_until),
    }
    counted = not scale.is_suspended_kind and not scale.is_paused_kind
    why = ruling.why if undo is None else _undo_words(ruling, undo)
    clamped = (
        f", {count} of {ruling.record.replicas} as its autoscaler allows" if count != ruling.record.replicas else ""
    )
    return replace(
        _decision(ruling, making, (scale.change_back(count), *annotation_changes(annotations, wanted))),
        phase=Phase.WAKE,
        cause=cause_of(ruling, making, why + clamped),
        order=(tier(ruling), 1),
        replicas_before=scale.replicas if counted else None,
        replicas_after=count if counted else None,
        event="IdlingContested" if undo is not None and is_contest(undo) else "Woken",
    )


def _scale_of_ours(now: datetime) -> dict[str, str | None]:
    """Return what tells of a wake, which is a scale without a reason.

    Source: seed idling-and-unidling.md: a scale that does not set the reason clears it; the time is of the last scale.
    """
    return {SCALE_REASON: None, SCALE_TIME: format_time(now), SCALE_PREVIOUS: None}


def _held_until(until: datetime | None) -> dict[str, str | None]:
    return {} if until is None else {EXCLUDE_UNTIL: format_time(until)}


def _undo_in(ruling: Ruling, record: Record, making: Making) -> Undo | None:
    """Return the undo that a wake answers, None where it answers something else."""
    return undo_of(ruling.target, record, making.run.now) if ruling.standing.state is State.UNHELD else None


def _undone(ruling: Ruling, record: Record, undo: Undo, making: Making) -> dict[str, str | None]:
    """Return the annotations that keep awake what somebody undid, and leave it alone where that is one too many."""
    contested = {CONTESTED: contest_text(undo, ruling.target.want.policy)} if is_contest(undo) else {}
    until = awake_until(ruling, record, making.run.now)
    return {AWAKE_UNTIL: format_time(until), UNDONE: undo.text, **contested}


def _undo_words(ruling: Ruling, undo: Undo) -> str:
    hold = ruling.hold
    if undo.autoscaler and hold is not None:
        who, bounds = _SOMEBODY.get(undo.by, undo.by), f"the bounds of HorizontalPodAutoscaler/{undo.autoscaler}"
        return f"{who} put {bounds} back" if hold.previous in (None, hold.bounds) else f"{who} changed {bounds}"
    return f"scaled to {ruling.target.scale.replicas} by {undo.by}"


def _release(ruling: Ruling, making: Making) -> Decision | None:
    record, target = ruling.record, ruling.target
    if record is None:
        return None
    if ruling.standing.state is State.TAKEN_OVER:
        return _handed_over(ruling, record, making)
    annotations = target.scale.written.annotations
    undo = undo_of(target, record, making.run.now)
    wanted: dict[str, str | None] = {
        **cleared(annotations),
        AWAKE_SINCE: format_time(making.run.now),
        **_undone(ruling, record, undo, making),
        **_held_until(making.hold_until),
    }
    return replace(
        _decision(ruling, making, (target.scale.unchanged(), *annotation_changes(annotations, wanted))),
        cause=cause_of(ruling, making, _undo_words(ruling, undo)),
        event="IdlingContested" if is_contest(undo) else "",
    )


def _handed_over(ruling: Ruling, record: Record, making: Making) -> Decision:
    """Return the release of what stays down, because somebody else wants it so; they are told how to bring it back.

    An autoscaler that was held gets its bounds back all the same, and raises it to them. What stays down counts as
    awake, so that no list on a Service speaks for it any more, and that whoever scales it up has as long as after any
    scale by hand.
    """
    scale, now = ruling.target.scale, making.run.now
    annotations = scale.written.annotations
    known = scale.is_suspended_kind or scale.is_paused_kind or SCALE_PREVIOUS in annotations
    wanted: dict[str, str | None] = {
        **cleared(annotations),
        **({} if known else {SCALE_PREVIOUS: str(record.replicas)}),
        AWAKE_SINCE: format_time(now),
        AWAKE_UNTIL: format_time(awake_until(ruling, record, now)),
    }
    reason = reason_of_others(scale.written, record)
    words = f"its scale-reason is {quoted(reason)}, not {IDLED}" if reason else "its scale-reason was cleared"
    cause = cause_of(ruling, making, f"{words}: {_then(ruling)}, it had {record.replicas}")
    return replace(
        _decision(ruling, making, (scale.unchanged(), *annotation_changes(annotations, wanted))), cause=cause
    )


def _then(ruling: Ruling) -> str:
    """Return what becomes of what is handed over."""
    hold = ruling.hold
    if hold is None or not ruling.is_held:
        return "it stays as it is"
    return f"HorizontalPodAutoscaler/{hold.autoscaler.ref.name} gets its bounds back and scales it from now on"


def awake_until(ruling: Ruling, record: Record, now: datetime) -> datetime:
    """Return how long what was scaled by hand stays up: `minAwake`, and until the open schedule window ends."""
    want = ruling.target.want
    ends = [now + want.min_awake, want.window_end(now)]
    if not want.bids:
        ends.append(record.wake_due)
    return max(end for end in ends if end is not None)


def _clear(ruling: Ruling, making: Making) -> Decision | None:
    if ruling.standing.state is not State.STALE:
        return None
    scale = ruling.target.scale
    return _decision(
        ruling,
        making,
        (scale.unchanged(), *annotation_changes(scale.written.annotations, cleared(scale.written.annotations))),
    )


def _repair(ruling: Ruling, making: Making) -> Decision | None:
    """Return what brings the record of an idle scalable, and its floor, to what they should be."""
    record = record_after(ruling, making)
    if record is None or not making.repairs:
        return None
    scale = ruling.target.scale
    moved = _moves(ruling, record)
    if _recorded(ruling) == record and not moved:
        return None
    cause = cause_of(ruling, making, _repair_words(ruling, record, moved))
    wanted: dict[str, str | None] = {
        **written(record, scale.written),
        SCALE_TIME: format_time(making.run.now if moved else record.idled_at),
        CAUSE: cause_text(
            replace(cause, policy=record.policy, at=making.places.get(record.policy, cause.at)), making.run
        ),
    }
    if not moved and SCALE_TIME in scale.written.annotations:
        del wanted[SCALE_TIME]
    change = scale.change_to(record.idled_to) if moved else scale.unchanged()
    decision = replace(
        _decision(ruling, making, (change, *annotation_changes(scale.written.annotations, wanted))),
        cause=replace(cause, policy=record.policy, at=making.places.get(record.policy, cause.at)),
    )
    return _with_replicas(decision, ruling, record) if moved else decision


def _moves(ruling: Ruling, record: Record) -> bool:
    """Return whether its replicas move: to another floor, or back to the one its autoscaler took it from."""
    raised = ruling.standing.state is State.HALF_HELD and not ruling.target.scale.stands_at(record.idled_to)
    return raised or (ruling.record is not None and ruling.record.idled_to != record.idled_to)


def _recorded(ruling: Ruling) -> Record | None:
    """Return the record as it is written on the object now; None where it has to be written again."""
    reading = ruling.target.reading
    if reading is None or reading.record is None:
        return None
    return reading.record


def _repair_words(ruling: Ruling, record: Record, moved: bool) -> str:
    own = _recorded(ruling)
    if own is None:
        return "its record was gone, its Service remembers it"
    if moved:
        return f"idleReplicas is {record.idled_to}"
    if own.policy != record.policy:
        return f"{_former_owner(ruling, own)}, {record.policy} wants it idle"
    if own.orphaned_since != record.orphaned_since:
        return "its policy is gone" if record.orphaned_since else "its policy is back"
    return "its record is brought up to date"


def _former_owner(ruling: Ruling, own: Record) -> str:
    """Return why the policy of `own` does not answer for the record any more."""
    if not own.policy:
        return "its record names no policy"
    if any(bid.policy.name == own.policy for bid in ruling.target.lost):
        return f"{own.policy} does not decide there any more"
    return f"{own.policy} does not select it any more"


def _with_replicas(decision: Decision, ruling: Ruling, record: Record) -> Decision:
    scale = ruling.target.scale
    down = scale.replicas > record.idled_to and ruling.standing.state is not State.HALF_HELD
    return replace(
        decision,
        phase=Phase.DECREASE if down else Phase.REPAIR,
        replicas_before=scale.replicas,
        replicas_after=record.idled_to,
    )


_VERBS: Mapping[Action, Verb] = {Action.IDLE: Verb.IDLE, Action.WAKE: Verb.WAKE, Action.RELEASE: Verb.RELEASE}
_MAKERS: Mapping[Action, Callable[[Ruling, Making], Decision | None]] = {
    Action.IDLE: _idle,
    Action.WAKE: _wake,
    Action.RELEASE: _release,
    Action.CLEAR: _clear,
    Action.KEEP: _repair,
    Action.PUT_OFF: _repair,
}
