"""What every decision of idling is made with, and the words they carry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from reconciler.decide.annotations import compact, parsed
from reconciler.decide.decisions import Cause, Verb
from reconciler.decide.idling.criteria import Says, schedules_of
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.situations import Ruling
from reconciler.decide.idling.states import NOT_OURS
from reconciler.decide.idling.table import Action, Flag
from reconciler.decide.idling.targets import Target
from reconciler.errors import AnnotationError
from reconciler.model import NOTHING, ObjectRef, Run
from reconciler.policy.types import Fleet


@dataclass(frozen=True, slots=True)
class Making:
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


def key_of(verb: Verb, ref: ObjectRef, part: str = "") -> str:
    """Return the key of the decision that does `verb` to `ref`."""
    group = f"{ref.group}/" if ref.group else ""
    return f"idling/{verb}/{group}{ref}{part}"


def owner_policy(ruling: Ruling) -> str:
    """Return the name of the policy that answers for what is done: the owner of the marks, else who wants it."""
    ours = ruling.action is not Action.IDLE and ruling.standing.state not in NOT_OURS
    if ruling.record is not None and ruling.record.policy and ours:
        return ruling.record.policy
    return ruling.target.want.policy.name if ruling.target.want.policy is not None else ""


def _waking_policy(ruling: Ruling) -> str:
    """Return the name of the policy whose own words wake it, "" where the reason is no policy's."""
    want = ruling.target.want
    told = ruling.choice.told
    if ruling.action is not Action.WAKE or told is None:
        return ""
    highest = max(want.bids, key=lambda bid: bid.policy.idle_replicas, default=None)
    bid = {Flag.BUSY: want.busy, Flag.WAKE_WHEN: want.wake_when, Flag.FLOOR: highest}.get(told)
    return "" if bid is None else bid.policy.name


def cause_of(ruling: Ruling, making: Making, why: str = "") -> Cause:
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


def record_after(ruling: Ruling, making: Making) -> Record | None:
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


def _new_record(ruling: Ruling, making: Making) -> Record:
    want = ruling.target.want
    return Record(
        idled_at=making.run.now,
        replicas=ruling.target.scale.replicas,
        idled_to=want.idle_replicas,
        fleet=making.fleet.name,
        policy=want.policy.name if want.policy is not None else "",
        wake_due=want.until,
    )


def _kept_record(record: Record, target: Target, making: Making) -> Record:
    """Return the record of what stays idle: while all say idle it passes to a policy that wants it, and follows it.

    On a frozen cluster its floor stays.
    """
    want = target.want
    if want.says is not Says.IDLE or want.policy is None:
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
