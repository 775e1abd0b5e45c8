"""Transitions -> the one decision on each scalable: its record and its replicas in one request."""

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
from reconciler.decide.idling.scalables import ScalableState
from reconciler.decide.idling.state import NOT_OURS, IdleState
from reconciler.decide.idling.transition_rules import IdleAction
from reconciler.decide.idling.transitions import Transition, owner_policy, wake_count, waking_policy
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


def cause_of(transition: Transition, context: WriteContext, reasons: Reasons = ()) -> Cause:
    """Return why something is done with a scalable; `reasons` in place of those of the transition."""
    policy = waking_policy(transition) or owner_policy(transition)
    record = transition.record
    named = record is not None and bool(policy) and record.policy == policy
    at = context.places.get(policy) or (_recorded_place(record.cause) if record is not None and named else "")
    reasons = reasons or transition.reasons
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


def record_after(transition: Transition, context: WriteContext) -> Record | None:
    """Return the record a scalable has after this run, None where it has none."""
    if transition.action is IdleAction.IDLE:
        return _new_record(transition, context)
    record = transition.record
    if record is None or not transition.stays_idle:
        return None
    if transition.action is IdleAction.HOLD_BACK:
        since = record.orphaned_since or (context.run.now if record.wake_due is None else None)
        return replace(record, orphaned_since=since)
    return _kept_record(record, transition.scalable, context) if transition.action is IdleAction.KEEP else record


def _new_record(transition: Transition, context: WriteContext) -> Record:
    verdict = transition.scalable.verdict
    return Record(
        idled_at=context.run.now,
        replicas=transition.scalable.scale.replicas,
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


def scalable_decision(transition: Transition, context: WriteContext) -> Decision | None:
    """Return the decision on the scalable itself, None without one."""
    if transition.action is IdleAction.CLEAR:
        return _clear(transition, context)
    make = _WRITES.get(transition.action)
    record = record_after(transition, context) if transition.stays_idle else transition.record
    return None if make is None or record is None else make(transition, record, context)


def own_decision_key(transition: Transition) -> str:
    """Return the key of the decision that `scalable_decision` makes of `transition`."""
    return decision_key(_VERBS.get(transition.action, Verb.REPAIR), transition.ref)


def _decision(transition: Transition, context: WriteContext, changes: tuple[FieldChange, ...]) -> Decision:
    """Return a repair of the scalable; the callers put in what is particular."""
    written_object = transition.scalable.scale.written
    return Decision(
        key=own_decision_key(transition),
        job="idling",
        verb=_VERBS.get(transition.action, Verb.REPAIR),
        phase=Phase.REPAIR,
        ref=transition.ref,
        api_version=written_object.api_version,
        uid=written_object.uid,
        changes=changes,
        cause=cause_of(transition, context),
        group=context.group(transition.ref),
        order=(1,),
        has_annotations=written_object.has_annotations,
        has_labels=written_object.has_labels,
    )


def _idle(transition: Transition, record: Record, context: WriteContext) -> Decision:
    scale, annotations = transition.scalable.scale, transition.scalable.scale.written.annotations
    repair, now = _decision(transition, context, ()), context.run.now
    alone = all(policy.name in context.schedules for policy in transition.scalable.verdict.policies)
    schedule = context.schedules.get(record.policy) if alone else None
    wanted: dict[str, str | None] = {
        **record_annotations(record, scale.written),
        SCALE_TIME: format_time(now),
        LAST_IDLED: None if schedule is None else schedule.text(now),
        CAUSE: cause_text(repair.cause, context.run),
        CONTESTED: None,
        **_insisted(transition, context),
        **(flux_paused(scale.written, now) if pauses_flux(transition) else {}),
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
        group=context.group(transition.ref, idles=True),
        replicas_before=scale.replicas if counted else None,
        replicas_after=record.idled_to if counted else None,
        event="Idled",
        idles=True,
        known=schedule is not None and schedule.knows(annotations, now),
    )


def _insisted(transition: Transition, context: WriteContext) -> dict[str, str | None]:
    """Return the annotation that counts how often another tool undid the idle that is done again."""
    record = transition.record
    if transition.state is not IdleState.MANUALLY_SCALED or record is None:
        return {}
    return {UNDONE: undo_of(transition.scalable, record, context.run.now).text}


def pauses_flux(transition: Transition) -> bool:
    """Return whether a policy that idles it pauses Flux while it is idle."""
    return any(policy.pauses_flux for policy in transition.scalable.verdict.policies)


def _wake(transition: Transition, record: Record, context: WriteContext) -> Decision:
    scale, annotations = transition.scalable.scale, transition.scalable.scale.written.annotations
    count = wake_count(transition, record)
    undo = _undo_in(transition, record, context)
    # Unlike an idle, a wake tests nothing but what it changes: no annotation of others may keep a workload down.
    wanted: dict[str, str | None] = {
        **cleared_annotations(annotations, foreign=transition.state in NOT_OURS),
        **_scale_of_ours(context.run.now),
        AWAKE_SINCE: format_time(context.run.now),
        UNDONE: None,
        **({} if undo is None else _undone(transition, record, undo, context)),
        **_held_until(context.hold_until),
    }
    counted = not scale.is_suspended_kind and not scale.is_paused_kind
    reasons = transition.reasons if undo is None else (_undo_reason(transition, undo),)
    if count != record.replicas:
        reasons = (*reasons, reason(ReasonCode.WITHIN_HPA_BOUNDS, replicas=count, recorded=record.replicas))
    return replace(
        _decision(transition, context, (scale.change_back(count), *annotation_changes(annotations, wanted))),
        phase=Phase.WAKE,
        cause=cause_of(transition, context, reasons),
        order=(tier(transition), 1),
        replicas_before=scale.replicas if counted else None,
        replicas_after=count if counted else None,
        event="IdlingContested" if undo is not None and is_contested(transition.scalable, undo) else "Woken",
    )


def _scale_of_ours(now: datetime) -> dict[str, str | None]:
    """Return the scale annotations of a wake, which is a scale without a reason.

    Source: seed idling-and-unidling.md: a scale that does not set the reason clears it; the time is of the last scale.
    """
    return {SCALE_REASON: None, SCALE_TIME: format_time(now), SCALE_PREVIOUS: None}


def _held_until(until: datetime | None) -> dict[str, str | None]:
    return {} if until is None else {EXCLUDE_UNTIL: format_time(until)}


def _undo_in(transition: Transition, record: Record, context: WriteContext) -> Undo | None:
    """Return the undo that a wake answers, None where it answers something else."""
    return undo_of(transition.scalable, record, context.run.now) if transition.state is IdleState.HPA_CHANGED else None


def _undone(transition: Transition, record: Record, undo: Undo, context: WriteContext) -> dict[str, str | None]:
    """Return the annotations that keep awake what somebody undid, and leave it alone where that is one too many."""
    text = contest_text(undo, transition.scalable.verdict.policy)
    contested = {CONTESTED: text} if is_contested(transition.scalable, undo) else {}
    until = awake_until(transition, record, context.run.now)
    return {AWAKE_UNTIL: format_time(until), UNDONE: undo.text, **contested}


def _undo_reason(transition: Transition, undo: Undo) -> Reason:
    autoscaler = transition.autoscaler
    if undo.autoscaler and autoscaler is not None:
        restored = autoscaler.previous in (None, autoscaler.bounds)
        code = ReasonCode.HPA_RESTORED_BY if restored else ReasonCode.HPA_CHANGED_BY
        name = f"HorizontalPodAutoscaler/{undo.autoscaler}"
        return reason(code, by=_SOMEBODY.get(undo.by, undo.by), autoscaler=name)
    return reason(ReasonCode.SCALED_BY, replicas=transition.scalable.scale.replicas, by=undo.by)


def _release(transition: Transition, record: Record, context: WriteContext) -> Decision:
    scalable = transition.scalable
    if transition.state is IdleState.TAKEN_OVER:
        return _handed_over(transition, record, context)
    annotations = scalable.scale.written.annotations
    undo = undo_of(scalable, record, context.run.now)
    wanted: dict[str, str | None] = {
        **cleared_annotations(annotations),
        AWAKE_SINCE: format_time(context.run.now),
        **_undone(transition, record, undo, context),
        **_held_until(context.hold_until),
    }
    return replace(
        _decision(transition, context, (scalable.scale.unchanged(), *annotation_changes(annotations, wanted))),
        cause=cause_of(transition, context, (_undo_reason(transition, undo),)),
        event="IdlingContested" if is_contested(transition.scalable, undo) else "",
    )


def _handed_over(transition: Transition, record: Record, context: WriteContext) -> Decision:
    """Return the release of what stays scaled down, because somebody else wants that; an annotation keeps its replicas.

    An autoscaler that was held gets its bounds back all the same, and raises it to them. What stays down counts as
    awake, so that no list on a Service speaks for it any more, and that whoever scales it up has as long as after any
    scale by hand.
    """
    scale, now = transition.scalable.scale, context.run.now
    annotations = scale.written.annotations
    known = scale.is_suspended_kind or scale.is_paused_kind or SCALE_PREVIOUS in annotations
    wanted: dict[str, str | None] = {
        **cleared_annotations(annotations),
        **({} if known else {SCALE_PREVIOUS: str(record.replicas)}),
        AWAKE_SINCE: format_time(now),
        AWAKE_UNTIL: format_time(awake_until(transition, record, now)),
    }
    found = reason_of_others(scale.written, record)
    changed = reason(ReasonCode.SCALE_REASON_CLEARED)
    if found:
        changed = reason(ReasonCode.SCALE_REASON_CHANGED, scaleReason=quoted(found), expected=IDLED)
    cause = cause_of(transition, context, (changed, _handed_to(transition, record)))
    return replace(
        _decision(transition, context, (scale.unchanged(), *annotation_changes(annotations, wanted))), cause=cause
    )


def _handed_to(transition: Transition, record: Record) -> Reason:
    """Return what happens to the replicas after the hand-over."""
    autoscaler = transition.autoscaler
    if autoscaler is None or not transition.gets_bounds_back:
        return reason(ReasonCode.STAYS, replicas=record.replicas)
    name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
    return reason(ReasonCode.SCALED_BY_HPA, autoscaler=name, replicas=record.replicas)


def awake_until(transition: Transition, record: Record, now: datetime) -> datetime:
    """Return how long what was scaled by hand stays up: `minAwake`, and until the open schedule window ends."""
    verdict = transition.scalable.verdict
    ends = [now + verdict.min_awake, verdict.window_end(now)]
    if not verdict.verdicts:
        ends.append(record.wake_due)
    return max(end for end in ends if end is not None)


def _clear(transition: Transition, context: WriteContext) -> Decision | None:
    """Return what is changed on the scalable itself where leftovers go, None where nothing is."""
    annotations = transition.scalable.scale.written.annotations
    wanted: dict[str, str | None] = {}
    if transition.state is IdleState.STALE:
        wanted |= cleared_annotations(annotations)
    if transition.keeps_request:
        wanted[AWAKE_SINCE] = format_time(context.run.now)
    changes = annotation_changes(annotations, wanted)
    return _decision(transition, context, (transition.scalable.scale.unchanged(), *changes)) if changes else None


def _repair(transition: Transition, record: Record, context: WriteContext) -> Decision | None:
    """Return the repair of the record and floor of an idle scalable to `record`, None where both are right."""
    scale, moved = transition.scalable.scale, _moves(transition, record)
    if not context.repairs or (_recorded(transition) == record and not moved):
        return None
    cause = cause_of(transition, context, (_repair_reason(transition, record, moved),))
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
        _decision(transition, context, (change, *annotation_changes(scale.written.annotations, wanted))), cause=cause
    )
    return _with_replicas(decision, transition, record) if moved else decision


def _moves(transition: Transition, record: Record) -> bool:
    """Return whether its replicas move: to another floor, or back to the one its autoscaler took it from."""
    raised = transition.state is IdleState.HPA_NOT_PINNED and not transition.scalable.scale.is_at_or_below(
        record.idled_to
    )
    return raised or (transition.record is not None and transition.record.idled_to != record.idled_to)


def _recorded(transition: Transition) -> Record | None:
    """Return the record as it is written on the object now; None where it has to be written again."""
    reading = transition.scalable.reading
    return None if reading is None else reading.record


def _repair_reason(transition: Transition, record: Record, moved: bool) -> Reason:
    own = _recorded(transition)
    if own is None:
        return reason(ReasonCode.RECORD_FROM_SERVICE)
    if moved:
        return reason(ReasonCode.IDLE_REPLICAS_CHANGED, idleReplicas=record.idled_to)
    if own.policy != record.policy:
        return reason(_owner_change(transition, own), former=own.policy, policy=record.policy)
    if own.orphaned_since != record.orphaned_since:
        return reason(ReasonCode.POLICY_REMOVED if record.orphaned_since else ReasonCode.POLICY_BACK)
    return reason(ReasonCode.RECORD_UPDATED)


def _owner_change(transition: Transition, own: Record) -> ReasonCode:
    """Return why the policy of `own` does not answer for the record any more."""
    if not own.policy:
        return ReasonCode.OWNER_UNKNOWN
    overridden = any(verdict.policy.name == own.policy for verdict in transition.scalable.overridden)
    return ReasonCode.OWNER_OVERRIDDEN if overridden else ReasonCode.OWNER_CHANGED


def _with_replicas(decision: Decision, transition: Transition, record: Record) -> Decision:
    scale = transition.scalable.scale
    down = scale.replicas > record.idled_to and transition.state is not IdleState.HPA_NOT_PINNED
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
_WRITES: Mapping[IdleAction, Callable[[Transition, Record, WriteContext], Decision | None]] = {
    IdleAction.IDLE: _idle,
    IdleAction.WAKE: _wake,
    IdleAction.RELEASE: _release,
    IdleAction.KEEP: _repair,
    IdleAction.HOLD_BACK: _repair,
}
