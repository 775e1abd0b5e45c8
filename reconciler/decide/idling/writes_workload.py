"""Choices -> the one decision on each scalable: its record and its replicas in one request."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import lru_cache

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.decide.annotations import (
    AWAKE_SINCE,
    AWAKE_UNTIL,
    CAUSE,
    CONTESTED,
    DOWNSCALER_EXCLUDE,
    DOWNSCALER_EXCLUDE_UNTIL,
    EXCLUDE,
    EXCLUDE_UNTIL,
    IDLED,
    LAST_IDLED,
    SCALE_PREVIOUS,
    SCALE_REASON,
    SCALE_TIME,
    UNDONE,
    WAKE_REQUESTED_AT,
    compact,
    format_time,
    json_object,
    quoted,
)
from reconciler.decide.decisions import Cause, Decision, FieldChange, Phase, Verb, annotation_changes, annotation_tests
from reconciler.decide.freeze import restriction
from reconciler.decide.idling.choices import Choice, owner_policy, wake_count, waking_policy
from reconciler.decide.idling.contested import Undo, contest_text, is_contested, undo_of
from reconciler.decide.idling.criteria import CriterionResult, schedules_of
from reconciler.decide.idling.last_idled import ScheduleDigest
from reconciler.decide.idling.records import (
    Record,
    cleared_annotations,
    flux_paused,
    reason_of_others,
    record_annotations,
)
from reconciler.decide.idling.rules import IdleAction
from reconciler.decide.idling.scalables import ScalableState
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.wake_order import tier
from reconciler.decide.reasons import MEASURED, Reason, ReasonCode, Reasons, reason, text_of
from reconciler.model import NOTHING, ObjectRef, Run
from reconciler.policy.types import Fleet


class WriteContext(Struct, frozen=True):
    """`places` gives the file:line of each policy. Without `repairs` only wakes and releases are made.

    `hold_until`: what is woken opts out until then.
    """

    fleet: Fleet
    run: Run
    places: Mapping[str, str] = NOTHING
    schedules: Mapping[str, ScheduleDigest] = NOTHING  # by policy, where it idles by schedule alone
    repairs: bool = True
    hold_until: datetime | None = None
    groups: Mapping[ObjectRef, str] = field(default_factory=dict)
    idle_groups: Mapping[ObjectRef, str] = field(default_factory=dict)
    running: frozenset[ObjectRef] = frozenset()  # the Services of which something stays up
    down_at: Mapping[ObjectRef, int] = NOTHING  # the most replicas behind each Service that stand idle without a record

    def group(self, ref: ObjectRef, *, idles: bool = False) -> str:
        """Return the group of what is done with `ref`; a federated ReplicaSet is idled as one on all clusters."""
        return (self.idle_groups if idles else self.groups)[ref]


def decision_key(verb: Verb, ref: ObjectRef, part: str = "") -> str:
    """Return the key of the decision that does `verb` to `ref`."""
    group = f"{ref.group}/" if ref.group else ""
    return f"idling/{verb}/{group}{ref}{part}"


def cause_of(choice: Choice, context: WriteContext, reasons: Reasons = ()) -> Cause:
    """Return why something is done with a scalable; `reasons` in place of those of the choice."""
    policy = waking_policy(choice) or owner_policy(choice)
    record = choice.record
    named = record is not None and bool(policy) and record.policy == policy
    at = context.places.get(policy) or (_recorded_place(record.cause) if record is not None and named else "")
    reasons = reasons or choice.reasons
    measured = [one.values for one in reasons if one.code in MEASURED]
    return Cause(policy, at, reasons, dict(ChainMap(*map(dict, reversed(measured)))) if measured else NOTHING)


def _recorded_place(cause: str) -> str:
    """Return the file:line of a policy that is gone, from the cause in its record."""
    at = json_object(cause).get("at")
    return at if isinstance(at, str) else ""


def cause_text(cause: Cause, run: Run) -> str:
    """Return the cause as the annotation holds it."""
    return _cause_text(cause.policy, cause.at, cause.reasons, run.revision, run.id)


@lru_cache(16)  # a schedule idles all that it selects for the same reason
def _cause_text(policy: str, at: str, reasons: Reasons, revision: str, run: str) -> str:
    why = text_of(reasons)
    return compact({"policy": policy, "at": at, "revision": revision, "run": run, "why": why})


def record_after(choice: Choice, context: WriteContext) -> Record | None:
    """Return the record a scalable has after this run, None where it has none."""
    if choice.action is IdleAction.IDLE:
        return _new_record(choice, context)
    record = choice.record
    if record is None or not choice.stays_idle:
        return None
    if choice.action is IdleAction.HOLD_BACK:
        since = record.orphaned_since or (context.run.now if record.wake_due is None else None)
        return replace(record, orphaned_since=since)
    return _kept_record(record, choice.scalable, context) if choice.action is IdleAction.KEEP else record


def _new_record(choice: Choice, context: WriteContext) -> Record:
    verdict = choice.scalable.verdict
    return Record(
        idled_at=context.run.now,
        replicas=choice.scalable.scale.replicas,
        idled_to=verdict.idle_replicas,
        fleet=context.fleet.name,
        policy=verdict.policy.name if verdict.policy is not None else "",
        wake_due=verdict.wake_due,
    )


def _kept_record(record: Record, scalable: ScalableState, context: WriteContext) -> Record:
    """Return the record of what stays idle: while all say idle it passes to a policy that wants it, and follows it.

    On a frozen cluster its floor stays.
    """
    verdict = scalable.verdict
    due = None if verdict.wakes_on_requests_only else record.wake_due
    if verdict.result is not CriterionResult.IDLE or verdict.policy is None:
        return replace(record, orphaned_since=None, wake_due=due)
    names = {policy.name for policy in verdict.policies}
    scheduled = any(True for policy in verdict.policies for _ in schedules_of(policy.idle_when))
    is_restricted = restriction(scalable.cluster, scalable.ref.namespace) is not None
    decided = not verdict.observing and not verdict.equal_policies and not is_restricted
    return Record(
        idled_at=record.idled_at,
        replicas=record.replicas,
        idled_to=verdict.idle_replicas if decided else record.idled_to,
        fleet=context.fleet.name,
        policy=record.policy if record.policy in names else verdict.policy.name,
        wake_due=verdict.wake_due or (due if scheduled else None),
        cause=record.cause,
    )


_SOMEBODY = {"unknown": "somebody"}
_TESTED = (
    EXCLUDE,
    EXCLUDE_UNTIL,
    DOWNSCALER_EXCLUDE,
    DOWNSCALER_EXCLUDE_UNTIL,
    AWAKE_SINCE,
    AWAKE_UNTIL,
    WAKE_REQUESTED_AT,
)
"""What could keep a scalable awake: an idle is not written where one of these changed meanwhile."""


def scalable_decision(choice: Choice, context: WriteContext) -> Decision | None:
    """Return the decision on the scalable itself, None without one."""
    if choice.action is IdleAction.CLEAR:
        return _clear(choice, context)
    make = _WRITES.get(choice.action)
    record = record_after(choice, context) if choice.stays_idle else choice.record
    return None if make is None or record is None else make(choice, record, context)


def own_decision_key(choice: Choice) -> str:
    """Return the key of the decision that `scalable_decision` makes of `choice`."""
    return decision_key(_VERBS.get(choice.action, Verb.REPAIR), choice.ref)


def _decision(choice: Choice, context: WriteContext, changes: tuple[FieldChange, ...]) -> Decision:
    """Return a repair of the scalable; the callers put in what is particular."""
    written_object = choice.scalable.scale.written
    return Decision(
        key=own_decision_key(choice),
        job="idling",
        verb=_VERBS.get(choice.action, Verb.REPAIR),
        phase=Phase.REPAIR,
        ref=choice.ref,
        api_version=written_object.api_version,
        uid=written_object.uid,
        changes=changes,
        cause=cause_of(choice, context),
        group=context.group(choice.ref),
        order=(1,),
        has_annotations=written_object.has_annotations,
        has_labels=written_object.has_labels,
    )


def _idle(choice: Choice, record: Record, context: WriteContext) -> Decision:
    scale, annotations = choice.scalable.scale, choice.scalable.scale.written.annotations
    repair, now = _decision(choice, context, ()), context.run.now
    alone = all(policy.name in context.schedules for policy in choice.scalable.verdict.policies)
    schedule = context.schedules.get(record.policy) if alone else None
    wanted: dict[str, str | None] = {
        **record_annotations(record, scale.written),
        SCALE_TIME: format_time(now),
        LAST_IDLED: None if schedule is None else schedule.text(now),
        CAUSE: cause_text(repair.cause, context.run),
        CONTESTED: None,
        **_insisted(choice, context),
        **(flux_paused(scale.written, now) if pauses_flux(choice) else {}),
    }
    # Replicas and record in one request: between two a crash would leave zero replicas and no number to wake to. The
    # tests make the API server refuse an idle that somebody opted out of, or asked to wake, since it was planned.
    changes = (
        scale.change_to(record.idled_to),
        *annotation_changes(annotations, wanted),
        *annotation_tests(annotations, _TESTED),
    )
    counted = not scale.is_suspended_kind
    return replace(
        repair,
        changes=changes,
        phase=Phase.DECREASE,
        group=context.group(choice.ref, idles=True),
        replicas_before=scale.replicas if counted else None,
        replicas_after=record.idled_to if counted else None,
        event="Idled",
        idles=True,
        known=schedule is not None and schedule.knows(annotations, now),
    )


def _insisted(choice: Choice, context: WriteContext) -> dict[str, str | None]:
    """Return the annotation that counts how often another tool undid the idle that is done again."""
    record = choice.record
    if choice.state is not IdleState.MANUALLY_SCALED or record is None:
        return {}
    return {UNDONE: undo_of(choice.scalable, record, context.run.now).text}


def pauses_flux(choice: Choice) -> bool:
    """Return whether a policy that idles it pauses Flux while it is idle."""
    return any(policy.git_ops.flux == "Pause" for policy in choice.scalable.verdict.policies)


def _wake(choice: Choice, record: Record, context: WriteContext) -> Decision:
    scale, annotations = choice.scalable.scale, choice.scalable.scale.written.annotations
    count = wake_count(choice, record)
    undo = _undo_in(choice, record, context)
    # Unlike an idle, a wake tests nothing but what it changes: no annotation of others may keep a workload down.
    wanted: dict[str, str | None] = {
        **cleared_annotations(annotations, foreign=choice.state in NOT_OURS),
        **_scale_of_ours(context.run.now),
        AWAKE_SINCE: format_time(context.run.now),
        UNDONE: None,
        **({} if undo is None else _undone(choice, record, undo, context)),
        **_held_until(context.hold_until),
    }
    counted = not scale.is_suspended_kind and not scale.is_paused_kind
    reasons = choice.reasons if undo is None else (_undo_reason(choice, undo),)
    if count != record.replicas:
        reasons = (*reasons, reason(ReasonCode.WITHIN_HPA_BOUNDS, replicas=count, recorded=record.replicas))
    return replace(
        _decision(choice, context, (scale.change_back(count), *annotation_changes(annotations, wanted))),
        phase=Phase.WAKE,
        cause=cause_of(choice, context, reasons),
        order=(tier(choice), 1),
        replicas_before=scale.replicas if counted else None,
        replicas_after=count if counted else None,
        event="IdlingContested" if undo is not None and is_contested(choice.scalable, undo) else "Woken",
    )


def _scale_of_ours(now: datetime) -> dict[str, str | None]:
    """Return the scale annotations of a wake, which is a scale without a reason.

    Source: seed idling-and-unidling.md: a scale that does not set the reason clears it; the time is of the last scale.
    """
    return {SCALE_REASON: None, SCALE_TIME: format_time(now), SCALE_PREVIOUS: None}


def _held_until(until: datetime | None) -> dict[str, str | None]:
    return {} if until is None else {EXCLUDE_UNTIL: format_time(until)}


def _undo_in(choice: Choice, record: Record, context: WriteContext) -> Undo | None:
    """Return the undo that a wake answers, None where it answers something else."""
    return undo_of(choice.scalable, record, context.run.now) if choice.state is IdleState.HPA_CHANGED else None


def _undone(choice: Choice, record: Record, undo: Undo, context: WriteContext) -> dict[str, str | None]:
    """Return the annotations that keep awake what somebody undid, and leave it alone where that is one too many."""
    text = contest_text(undo, choice.scalable.verdict.policy)
    contested = {CONTESTED: text} if is_contested(choice.scalable, undo) else {}
    until = awake_until(choice, record, context.run.now)
    return {AWAKE_UNTIL: format_time(until), UNDONE: undo.text, **contested}


def _undo_reason(choice: Choice, undo: Undo) -> Reason:
    autoscaler = choice.autoscaler
    if undo.autoscaler and autoscaler is not None:
        restored = autoscaler.previous in (None, autoscaler.bounds)
        code = ReasonCode.HPA_RESTORED_BY if restored else ReasonCode.HPA_CHANGED_BY
        name = f"HorizontalPodAutoscaler/{undo.autoscaler}"
        return reason(code, by=_SOMEBODY.get(undo.by, undo.by), autoscaler=name)
    return reason(ReasonCode.SCALED_BY, replicas=choice.scalable.scale.replicas, by=undo.by)


def _release(choice: Choice, record: Record, context: WriteContext) -> Decision:
    scalable = choice.scalable
    if choice.state is IdleState.TAKEN_OVER:
        return _handed_over(choice, record, context)
    annotations = scalable.scale.written.annotations
    undo = undo_of(scalable, record, context.run.now)
    wanted: dict[str, str | None] = {
        **cleared_annotations(annotations),
        AWAKE_SINCE: format_time(context.run.now),
        **_undone(choice, record, undo, context),
        **_held_until(context.hold_until),
    }
    return replace(
        _decision(choice, context, (scalable.scale.unchanged(), *annotation_changes(annotations, wanted))),
        cause=cause_of(choice, context, (_undo_reason(choice, undo),)),
        event="IdlingContested" if is_contested(choice.scalable, undo) else "",
    )


def _handed_over(choice: Choice, record: Record, context: WriteContext) -> Decision:
    """Return the release of what stays scaled down, because somebody else wants that; an annotation keeps its replicas.

    An autoscaler that was held gets its bounds back all the same, and raises it to them. What stays down counts as
    awake, so that no list on a Service speaks for it any more, and that whoever scales it up has as long as after any
    scale by hand.
    """
    scale, now = choice.scalable.scale, context.run.now
    annotations = scale.written.annotations
    known = scale.is_suspended_kind or scale.is_paused_kind or SCALE_PREVIOUS in annotations
    wanted: dict[str, str | None] = {
        **cleared_annotations(annotations),
        **({} if known else {SCALE_PREVIOUS: str(record.replicas)}),
        AWAKE_SINCE: format_time(now),
        AWAKE_UNTIL: format_time(awake_until(choice, record, now)),
    }
    found = reason_of_others(scale.written, record)
    changed = reason(ReasonCode.SCALE_REASON_CLEARED)
    if found:
        changed = reason(ReasonCode.SCALE_REASON_CHANGED, scaleReason=quoted(found), expected=IDLED)
    cause = cause_of(choice, context, (changed, _handed_to(choice, record)))
    return replace(
        _decision(choice, context, (scale.unchanged(), *annotation_changes(annotations, wanted))), cause=cause
    )


def _handed_to(choice: Choice, record: Record) -> Reason:
    """Return what happens to the replicas after the hand-over."""
    autoscaler = choice.autoscaler
    if autoscaler is None or not choice.gets_bounds_back:
        return reason(ReasonCode.STAYS, replicas=record.replicas)
    name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
    return reason(ReasonCode.SCALED_BY_HPA, autoscaler=name, replicas=record.replicas)


def awake_until(choice: Choice, record: Record, now: datetime) -> datetime:
    """Return how long what was scaled by hand stays up: `minAwake`, and until the open schedule window ends."""
    verdict = choice.scalable.verdict
    ends = [now + verdict.min_awake, verdict.window_end(now)]
    if not verdict.verdicts:
        ends.append(record.wake_due)
    return max(end for end in ends if end is not None)


def _clear(choice: Choice, context: WriteContext) -> Decision | None:
    """Return what is changed on the scalable itself where leftovers go, None where nothing is."""
    annotations = choice.scalable.scale.written.annotations
    wanted: dict[str, str | None] = {}
    if choice.state is IdleState.STALE:
        wanted |= cleared_annotations(annotations)
    if choice.keeps_request:
        wanted[AWAKE_SINCE] = format_time(context.run.now)
    changes = annotation_changes(annotations, wanted)
    return _decision(choice, context, (choice.scalable.scale.unchanged(), *changes)) if changes else None


def _repair(choice: Choice, record: Record, context: WriteContext) -> Decision | None:
    """Return the repair of the record and floor of an idle scalable to `record`, None where both are right."""
    scale, moved = choice.scalable.scale, _moves(choice, record)
    if not context.repairs or (_recorded(choice) == record and not moved):
        return None
    cause = cause_of(choice, context, (_repair_reason(choice, record, moved),))
    cause = replace(cause, policy=record.policy, at=context.places.get(record.policy, cause.at))
    wanted: dict[str, str | None] = {
        **record_annotations(record, scale.written),
        SCALE_TIME: format_time(context.run.now if moved else record.idled_at),
        CAUSE: cause_text(cause, context.run),
    }
    if not moved and SCALE_TIME in scale.written.annotations:
        del wanted[SCALE_TIME]
    change = scale.change_to(record.idled_to) if moved else scale.unchanged()
    decision = replace(
        _decision(choice, context, (change, *annotation_changes(scale.written.annotations, wanted))), cause=cause
    )
    return _with_replicas(decision, choice, record) if moved else decision


def _moves(choice: Choice, record: Record) -> bool:
    """Return whether its replicas move: to another floor, or back to the one its autoscaler took it from."""
    raised = choice.state is IdleState.HPA_NOT_PINNED and not choice.scalable.scale.is_at_or_below(record.idled_to)
    return raised or (choice.record is not None and choice.record.idled_to != record.idled_to)


def _recorded(choice: Choice) -> Record | None:
    """Return the record as it is written on the object now; None where it has to be written again."""
    reading = choice.scalable.reading
    return None if reading is None else reading.record


def _repair_reason(choice: Choice, record: Record, moved: bool) -> Reason:
    own = _recorded(choice)
    if own is None:
        return reason(ReasonCode.RECORD_FROM_SERVICE)
    if moved:
        return reason(ReasonCode.IDLE_REPLICAS_CHANGED, idleReplicas=record.idled_to)
    if own.policy != record.policy:
        return reason(_owner_change(choice, own), former=own.policy, policy=record.policy)
    if own.orphaned_since != record.orphaned_since:
        return reason(ReasonCode.POLICY_REMOVED if record.orphaned_since else ReasonCode.POLICY_BACK)
    return reason(ReasonCode.RECORD_UPDATED)


def _owner_change(choice: Choice, own: Record) -> ReasonCode:
    """Return why the policy of `own` does not answer for the record any more."""
    if not own.policy:
        return ReasonCode.OWNER_UNKNOWN
    overridden = any(verdict.policy.name == own.policy for verdict in choice.scalable.overridden)
    return ReasonCode.OWNER_OVERRIDDEN if overridden else ReasonCode.OWNER_CHANGED


def _with_replicas(decision: Decision, choice: Choice, record: Record) -> Decision:
    scale = choice.scalable.scale
    down = scale.replicas > record.idled_to and choice.state is not IdleState.HPA_NOT_PINNED
    return replace(
        decision,
        phase=Phase.DECREASE if down else Phase.REPAIR,
        replicas_before=scale.replicas,
        replicas_after=record.idled_to,
    )


_VERBS: Mapping[IdleAction, Verb] = {
    IdleAction.IDLE: Verb.IDLE,
    IdleAction.WAKE: Verb.WAKE,
    IdleAction.RELEASE: Verb.RELEASE,
}
_WRITES: Mapping[IdleAction, Callable[[Choice, Record, WriteContext], Decision | None]] = {
    IdleAction.IDLE: _idle,
    IdleAction.WAKE: _wake,
    IdleAction.RELEASE: _release,
    IdleAction.KEEP: _repair,
    IdleAction.HOLD_BACK: _repair,
}
