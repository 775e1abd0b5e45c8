"""Transitions -> the one decision on each scalable: its record and its replicas in one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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
    compact,
    format_time,
    parsed,
    quoted,
)
from reconciler.decide.decisions import Cause, Decision, FieldChange, Phase, Verb, annotation_changes, annotation_tests
from reconciler.decide.idling.contested import Undo, contest_text, is_contest, undo_of
from reconciler.decide.idling.criteria import CriterionResult, schedules_of
from reconciler.decide.idling.records import Record, cleared_annotations, reason_of_others, record_annotations
from reconciler.decide.idling.scalables import ScalableState
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.transitions import Action, Flag, Transition
from reconciler.decide.idling.wake_order import tier
from reconciler.errors import AnnotationError
from reconciler.model import NOTHING, ObjectRef, Run
from reconciler.policy.types import Fleet


@dataclass(frozen=True, slots=True)
class WriteContext:
    """`places` gives the file:line of each policy. Without `repairs` only wakes and releases are made.

    `hold_until`: what is woken opts out until then.
    """

    fleet: Fleet
    run: Run
    places: Mapping[str, str] = NOTHING
    repairs: bool = True
    hold_until: datetime | None = None
    groups: Mapping[ObjectRef, str] = field(default_factory=dict)
    idle_groups: Mapping[ObjectRef, str] = field(default_factory=dict)
    running: frozenset[ObjectRef] = frozenset()  # the Services of which something stays up

    def group(self, ref: ObjectRef, *, idles: bool = False) -> str:
        """Return the group of what is done with `ref`; a federated ReplicaSet is idled as one on all clusters."""
        return (self.idle_groups if idles else self.groups)[ref]


def decision_key(verb: Verb, ref: ObjectRef, part: str = "") -> str:
    """Return the key of the decision that does `verb` to `ref`."""
    group = f"{ref.group}/" if ref.group else ""
    return f"idling/{verb}/{group}{ref}{part}"


def owner_policy(ruling: Transition) -> str:
    """Return the name of the policy that answers for what is done: the owner of the marks, else who wants it."""
    ours = ruling.action is not Action.IDLE and ruling.standing.state not in NOT_OURS
    if ruling.record is not None and ruling.record.policy and ours:
        return ruling.record.policy
    return ruling.target.want.policy.name if ruling.target.want.policy is not None else ""


def _waking_policy(ruling: Transition) -> str:
    """Return the name of the policy whose own words wake it, "" where the reason is no policy's."""
    want = ruling.target.want
    told = ruling.choice.told
    if ruling.action is not Action.WAKE or told is None:
        return ""
    highest = max(want.bids, key=lambda bid: bid.policy.idle_replicas, default=None)
    bid = {Flag.BUSY: want.busy, Flag.WAKE_WHEN: want.wake_when, Flag.FLOOR: highest}.get(told)
    return "" if bid is None else bid.policy.name


def cause_of(ruling: Transition, making: WriteContext, why: str = "") -> Cause:
    """Return why something is done with a scalable."""
    policy = _waking_policy(ruling) or owner_policy(ruling)
    recorded = ruling.record.cause if ruling.record is not None else ""
    at = making.places.get(policy) or _recorded_place(recorded)
    return Cause(policy, at, why or ruling.why, ruling.target.want.values)


def _recorded_place(cause: str) -> str:
    """Return the file:line of a policy that is gone, as the mark's cause tells it."""
    try:
        value = parsed(cause, "") if cause else {}
    except AnnotationError:
        return ""
    at = value.get("at") if isinstance(value, dict) else ""
    return at if isinstance(at, str) else ""


def cause_text(cause: Cause, run: Run) -> str:
    """Return the cause as the annotation holds it."""
    return compact({"policy": cause.policy, "at": cause.at, "revision": run.revision, "run": run.id, "why": cause.why})


def record_after(ruling: Transition, making: WriteContext) -> Record | None:
    """Return the record a scalable has after this run, None where it has none."""
    if not ruling.stays_asleep:
        return None
    if ruling.action is Action.IDLE:
        return _new_record(ruling, making)
    record = ruling.record
    if record is None or not making.repairs or ruling.action in (Action.OVERDUE, Action.DEFER):
        return record
    if ruling.action is Action.PUT_OFF:
        since = record.orphaned_since or (making.run.now if record.wake_due is None else None)
        return replace(record, orphaned_since=since)
    return _kept_record(record, ruling.target, making)


def _new_record(ruling: Transition, making: WriteContext) -> Record:
    want = ruling.target.want
    return Record(
        idled_at=making.run.now,
        replicas=ruling.target.scale.replicas,
        idled_to=want.idle_replicas,
        fleet=making.fleet.name,
        policy=want.policy.name if want.policy is not None else "",
        wake_due=want.until,
    )


def _kept_record(record: Record, target: ScalableState, making: WriteContext) -> Record:
    """Return the record of what stays idle: while all say idle it passes to a policy that wants it, and follows it.

    On a frozen cluster its floor stays.
    """
    want = target.want
    if want.says is not CriterionResult.IDLE or want.policy is None:
        return replace(record, orphaned_since=None)
    names = {policy.name for policy in want.policies}
    scheduled = any(True for policy in want.policies for _ in schedules_of(policy.idle_when))
    decided = not want.observing and not want.rivals and not target.cluster.restriction
    return Record(
        idled_at=record.idled_at,
        replicas=record.replicas,
        idled_to=want.idle_replicas if decided else record.idled_to,
        fleet=making.fleet.name,
        policy=record.policy if record.policy in names else want.policy.name,
        wake_due=want.until or (record.wake_due if scheduled else None),
        cause=record.cause,
    )


_SOMEBODY = {"unknown": "somebody"}
_TESTED = (EXCLUDE, EXCLUDE_UNTIL, AWAKE_SINCE, AWAKE_UNTIL, WAKE_REQUESTED_AT)
"""What could keep a scalable awake: an idle is not written where one of these changed meanwhile."""


def scalable_decision(ruling: Transition, making: WriteContext) -> Decision | None:
    """Return what is done with the scalable itself, None for nothing."""
    make = _WRITES.get(ruling.action)
    return None if make is None else make(ruling, making)


def own_decision_key(ruling: Transition) -> str:
    """Return the key of the decision that `scalable_decision` makes of `ruling`."""
    return decision_key(_VERBS.get(ruling.action, Verb.REPAIR), ruling.ref)


def _decision(ruling: Transition, making: WriteContext, changes: tuple[FieldChange, ...]) -> Decision:
    """Return a repair of the scalable; the callers put in what is particular."""
    written_object = ruling.target.scale.written
    return Decision(
        key=own_decision_key(ruling),
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


def _idle(ruling: Transition, making: WriteContext) -> Decision | None:
    record = record_after(ruling, making)
    if record is None:
        return None
    scale, annotations = ruling.target.scale, ruling.target.scale.written.annotations
    wanted: dict[str, str | None] = {
        **record_annotations(record, scale.written),
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


def wake_count(ruling: Transition, record: Record) -> int:
    """Return the replicas a wake restores: those of the record, within the bounds of its autoscaler."""
    hold = ruling.hold
    if hold is None or hold.problem:
        return record.replicas
    return hold.own_bounds.clamp(record.replicas)


def _wake(ruling: Transition, making: WriteContext) -> Decision | None:
    if ruling.record is None:
        return None
    scale, annotations = ruling.target.scale, ruling.target.scale.written.annotations
    count = wake_count(ruling, ruling.record)
    undo = _undo_in(ruling, ruling.record, making)
    wanted: dict[str, str | None] = {
        **cleared_annotations(annotations, foreign=ruling.standing.state in NOT_OURS),
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


def _undo_in(ruling: Transition, record: Record, making: WriteContext) -> Undo | None:
    """Return the undo that a wake answers, None where it answers something else."""
    return undo_of(ruling.target, record, making.run.now) if ruling.standing.state is IdleState.UNHELD else None


def _undone(ruling: Transition, record: Record, undo: Undo, making: WriteContext) -> dict[str, str | None]:
    """Return the annotations that keep awake what somebody undid, and leave it alone where that is one too many."""
    contested = {CONTESTED: contest_text(undo, ruling.target.want.policy)} if is_contest(undo) else {}
    until = awake_until(ruling, record, making.run.now)
    return {AWAKE_UNTIL: format_time(until), UNDONE: undo.text, **contested}


def _undo_words(ruling: Transition, undo: Undo) -> str:
    hold = ruling.hold
    if undo.autoscaler and hold is not None:
        who, bounds = _SOMEBODY.get(undo.by, undo.by), f"the bounds of HorizontalPodAutoscaler/{undo.autoscaler}"
        return f"{who} put {bounds} back" if hold.previous in (None, hold.bounds) else f"{who} changed {bounds}"
    return f"scaled to {ruling.target.scale.replicas} by {undo.by}"


def _release(ruling: Transition, making: WriteContext) -> Decision | None:
    record, target = ruling.record, ruling.target
    if record is None:
        return None
    if ruling.standing.state is IdleState.TAKEN_OVER:
        return _handed_over(ruling, record, making)
    annotations = target.scale.written.annotations
    undo = undo_of(target, record, making.run.now)
    wanted: dict[str, str | None] = {
        **cleared_annotations(annotations),
        AWAKE_SINCE: format_time(making.run.now),
        **_undone(ruling, record, undo, making),
        **_held_until(making.hold_until),
    }
    return replace(
        _decision(ruling, making, (target.scale.unchanged(), *annotation_changes(annotations, wanted))),
        cause=cause_of(ruling, making, _undo_words(ruling, undo)),
        event="IdlingContested" if is_contest(undo) else "",
    )


def _handed_over(ruling: Transition, record: Record, making: WriteContext) -> Decision:
    """Return the release of what stays down, because somebody else wants it so; they are told how to bring it back.

    An autoscaler that was held gets its bounds back all the same, and raises it to them. What stays down counts as
    awake, so that no list on a Service speaks for it any more, and that whoever scales it up has as long as after any
    scale by hand.
    """
    scale, now = ruling.target.scale, making.run.now
    annotations = scale.written.annotations
    known = scale.is_suspended_kind or scale.is_paused_kind or SCALE_PREVIOUS in annotations
    wanted: dict[str, str | None] = {
        **cleared_annotations(annotations),
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


def _then(ruling: Transition) -> str:
    """Return what becomes of what is handed over."""
    hold = ruling.hold
    if hold is None or not ruling.is_held:
        return "it stays as it is"
    return f"HorizontalPodAutoscaler/{hold.autoscaler.ref.name} gets its bounds back and scales it from now on"


def awake_until(ruling: Transition, record: Record, now: datetime) -> datetime:
    """Return how long what was scaled by hand stays up: `minAwake`, and until the open schedule window ends."""
    want = ruling.target.want
    ends = [now + want.min_awake, want.window_end(now)]
    if not want.bids:
        ends.append(record.wake_due)
    return max(end for end in ends if end is not None)


def _clear(ruling: Transition, making: WriteContext) -> Decision | None:
    if ruling.standing.state is not IdleState.STALE:
        return None
    scale = ruling.target.scale
    return _decision(
        ruling,
        making,
        (
            scale.unchanged(),
            *annotation_changes(scale.written.annotations, cleared_annotations(scale.written.annotations)),
        ),
    )


def _repair(ruling: Transition, making: WriteContext) -> Decision | None:
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
        **record_annotations(record, scale.written),
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


def _moves(ruling: Transition, record: Record) -> bool:
    """Return whether its replicas move: to another floor, or back to the one its autoscaler took it from."""
    raised = ruling.standing.state is IdleState.HALF_HELD and not ruling.target.scale.stands_at(record.idled_to)
    return raised or (ruling.record is not None and ruling.record.idled_to != record.idled_to)


def _recorded(ruling: Transition) -> Record | None:
    """Return the record as it is written on the object now; None where it has to be written again."""
    reading = ruling.target.reading
    if reading is None or reading.record is None:
        return None
    return reading.record


def _repair_words(ruling: Transition, record: Record, moved: bool) -> str:
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


def _former_owner(ruling: Transition, own: Record) -> str:
    """Return why the policy of `own` does not answer for the record any more."""
    if not own.policy:
        return "its record names no policy"
    if any(bid.policy.name == own.policy for bid in ruling.target.lost):
        return f"{own.policy} does not decide there any more"
    return f"{own.policy} does not select it any more"


def _with_replicas(decision: Decision, ruling: Transition, record: Record) -> Decision:
    scale = ruling.target.scale
    down = scale.replicas > record.idled_to and ruling.standing.state is not IdleState.HALF_HELD
    return replace(
        decision,
        phase=Phase.DECREASE if down else Phase.REPAIR,
        replicas_before=scale.replicas,
        replicas_after=record.idled_to,
    )


_VERBS: Mapping[Action, Verb] = {Action.IDLE: Verb.IDLE, Action.WAKE: Verb.WAKE, Action.RELEASE: Verb.RELEASE}
_WRITES: Mapping[Action, Callable[[Transition, WriteContext], Decision | None]] = {
    Action.IDLE: _idle,
    Action.WAKE: _wake,
    Action.RELEASE: _release,
    Action.CLEAR: _clear,
    Action.KEEP: _repair,
    Action.PUT_OFF: _repair,
}
