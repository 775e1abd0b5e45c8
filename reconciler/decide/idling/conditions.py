"""The conditions that the rules name: what holds of one scalable besides its state and the verdict of its policies, why
it does, and what would end it. Of several the first in `IdlingCondition` is told.

Here is what wakes what is idle; what keeps it up is in `keeps_awake.py`, and what its neighbours say in
`idle_together.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from reconciler.decide.annotations import Key
from reconciler.decide.change_codes import ChangeIfCode, Fact, after, all_known, change_if, fact, field_is, joint_change
from reconciler.decide.idling import keeps_awake
from reconciler.decide.idling.contested import contest_of, is_by_tool
from reconciler.decide.idling.criteria import NOT_BUSY
from reconciler.decide.idling.subjects import LEFTOVERS, IdleState, IdlingCase, Subject
from reconciler.decide.idling.wake_requests import counting_request
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.decide.removal_guard import PATIENCE, REMOVED_FLAG, FleetGuards
from reconciler.model import NOTHING
from reconciler.policy.types import Writes


class IdlingConditions(IdlingCase):
    """The conditions that `subject` meets: `name in conditions`. Each is looked at when a rule asks for it, once."""

    __slots__ = ("_known",)

    def __init__(
        self,
        subject: Subject,
        guards: FleetGuards,
        now: datetime,
        known: Mapping[IdlingCondition, Fact] = NOTHING,
    ) -> None:
        super().__init__(subject, guards, now)
        self._known = known

    def get(self, name: IdlingCondition) -> Fact | None:
        """Return why the condition `name` is met, None where it is not."""
        return self._known.get(name) if name in self else None

    def __contains__(self, name: Any) -> bool:
        return not self.isdisjoint((name,))

    def isdisjoint(self, names: Iterable[IdlingCondition]) -> bool:
        """Return whether none of `names` is met; they are looked at in this order, up to the first that is."""
        known = self._known
        for name in names:
            if name in known:
                return False
            check = name.check
            if check is not None and (found := check(self)) is not None:  # most is not met, and not kept
                self._known = {**known, name: found}
                return False
        return True

    def adding(self, name: IdlingCondition, found: Fact) -> IdlingConditions:
        """Return the conditions with `name` among them, because of `found`."""
        return IdlingConditions(self.subject, self.guards, self.now, {**self._known, name: found})


# What wakes what is idle, or idles it again.


def _requested(case: IdlingCase) -> Fact | None:
    request = counting_request(case.subject, case.now)
    if request is None:
        return None
    wakes = case.subject.is_idle or case.subject.state is IdleState.FOREIGN or request.at <= case.now
    return Fact((request.reason,), until=None if wakes else request.at)


UNCONTESTED = joint_change(
    ChangeIfCode.ANY,
    (change_if(ChangeIfCode.ANNOTATION_REMOVED, annotation=Key.CONTESTED), change_if(ChangeIfCode.POLICY_CHANGES)),
)


def _excluded(case: IdlingCase) -> Fact | None:
    """Every exclusion ends it together; the object that has one is named where it is not the one in question."""
    subject = case.subject
    if subject.verdict.without_policies:
        return None
    found, contest = subject.exclusion, None
    if subject.is_idle or subject.state in LEFTOVERS:  # a run that wrote it may have died before the rest
        contest = contest_of(subject.scale.written, subject.verdict.policy)
    if found is None and contest is None:
        return None
    ends = [
        one.change_if.of(one.on) if one.change_if is not None and one.on not in ("", subject.name) else one.change_if
        for one in subject.exclusions
    ]
    lift = all_known(ends if contest is None else (*ends, UNCONTESTED))
    if found is not None:
        return Fact((reason(ReasonCode.EXCLUDED, object=found.on), *found.why), lift)
    return fact(ReasonCode.CONTESTED, lift, by="" if contest is None else contest.by)


def _due(case: IdlingCase) -> Fact | None:
    record = case.subject.record
    due = None if record is None or case.subject.verdict.wakes_on_requests_only else record.wake_due
    if due is None or due > case.now or not case.subject.is_at_idled_count:
        return None
    return fact(ReasonCode.WAKE_DUE, due=due)


def _production_due(case: IdlingCase) -> Fact | None:
    """Return that it is due, where none of its policies may idle it again, whatever their criteria say."""
    return _due(case) if case.subject.left_out_by else None


def _busy(case: IdlingCase) -> Fact | None:
    busy = case.subject.verdict.busy
    return Fact(busy[0].reasons, lambda: all_known(said.change_if(NOT_BUSY) for said in busy)) if busy else None


def _wake_when(case: IdlingCase) -> Fact | None:
    return keeps_awake.waking([own for own in case.subject.verdict.won if own.wakes], NOT_BUSY)


def _idle_replicas(case: IdlingCase) -> Fact | None:
    idle_replicas, record = case.subject.idle_replicas, case.subject.record
    if record is None or idle_replicas < record.replicas:
        return None
    lift = field_is("idleReplicas", f"below {record.replicas}")
    code = ReasonCode.IDLE_REPLICAS_TOO_HIGH
    return fact(code, lift, idleReplicas=idle_replicas, replicas=record.replicas)


def _guarded(case: IdlingCase) -> Fact | None:
    guard, record = case.guards.of(case.subject.ref.namespace), case.subject.record
    if record is None or not guard.holds(record.policy, record.orphaned_since, case.now):
        return None
    until = (record.orphaned_since or case.now) + PATIENCE
    lift = joint_change(ChangeIfCode.ANY, (change_if(ChangeIfCode.FLAG, flag=REMOVED_FLAG), after(until)))
    return Fact((case.guards.together.reason,), lift, until)


def _protected(case: IdlingCase) -> Fact | None:
    return case.subject.protected


def _bounds(case: IdlingCase) -> Fact | None:
    """Return that a wake would not last: another Fleet than the one that idled it holds its autoscaler."""
    autoscaler = case.subject.pinned
    if autoscaler is None or not autoscaler.holder or not autoscaler.gets_back:
        return None
    name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
    lift = change_if(ChangeIfCode.FLAG, flag="--context in place of the Fleet")
    return fact(ReasonCode.HPA_PINNED_BY_FLEET, lift, fleet=autoscaler.holder, autoscaler=name)


def _insists(case: IdlingCase) -> Fact | None:
    """Return that what a tool scaled up is idled again.

    None where a person or traffic did, where a policy yields, or where somebody put the bounds of its autoscaler back:
    that raises it again within seconds.
    """
    subject, undo = case.subject, case.subject.undo
    if undo is None or undo.autoscaler or not (subject.verdict.insists and is_by_tool(undo)):
        return None
    lift = field_is("onRevert", f"Yield in {subject.verdict.policies[0].name}")
    return fact(ReasonCode.INSISTED, lift, by=undo.by, replicas=subject.scale.replicas)


def _read_only(case: IdlingCase) -> Fact | None:
    return Fact(()) if case.subject.cluster.writes is Writes.NOTHING else None


_Check = Callable[[IdlingCase], Fact | None]
_NOT_UP = False


class IdlingCondition(StrEnum):
    """A condition, and what looks for it; None: its neighbours say it. `keeps_up`: it keeps up what the policies call
    idle, and of several the first is the reason.
    """

    check: _Check | None
    keeps_up: bool

    def __new__(cls, name: str, check: _Check | None = None, keeps_up: bool = True) -> IdlingCondition:
        member = str.__new__(cls, name)
        member._value_ = name
        member.check, member.keeps_up = check, keeps_up
        return member

    # what becomes of what is idle, or of what is not ours
    DUE = "due", _due, _NOT_UP  # its wake-due has passed
    PRODUCTION_DUE = "production due", _production_due, _NOT_UP  # the same, of production that its policies leave out
    BUSY = "busy", _busy, _NOT_UP  # a policy that wakes automatically calls it busy
    IDLE_REPLICAS = "idle replicas", _idle_replicas, _NOT_UP  # idleReplicas is at or above what it had
    GUARDED = "guarded", _guarded, _NOT_UP  # its policy was removed, and so are too many others
    PROTECTED = "protected", _protected, _NOT_UP  # its namespace is one that the Fleet protects
    BOUNDS = "bounds", _bounds, _NOT_UP  # another Fleet than the one that idled it holds its autoscaler at idleReplicas
    INSISTS = "insists", _insists, _NOT_UP  # its policy idles again what another tool scales up
    READ_ONLY = "read-only", _read_only, _NOT_UP  # nothing may be written on its cluster

    # what keeps up what its policies call idle
    PRODUCTION = "production", keeps_awake.production  # and one of its policies does not say production: true
    REQUESTED = "requested", _requested  # somebody asked for it since it was idled
    EXCLUDED = "excluded", _excluded  # it, its Service, its namespace or its cluster opts out, or it is contested
    RESTRICTED = "restricted", keeps_awake.restricted  # its cluster or namespace is frozen, or the cluster read-only
    EQUAL_PRIORITIES = "equal priorities", keeps_awake.equal_priorities
    UNREADABLE = "unreadable", keeps_awake.unreadable  # or what idling it would need is somebody else's
    CUSTOM_KIND = "custom kind", keeps_awake.custom_kind  # of which no policy names it
    ITSELF = "itself", keeps_awake.itself  # it is the reconciler
    AUTOSCALED = "autoscaled", keeps_awake.autoscaled  # an autoscaler has the say
    AT_IDLE_REPLICAS = "at idleReplicas", keeps_awake.at_idle_replicas
    TIME_UNREADABLE = "time unreadable", keeps_awake.time_unreadable  # since or until when it is awake
    MIN_AWAKE = "minAwake", keeps_awake.MIN_AWAKE
    KEPT_AWAKE = Key.AWAKE_UNTIL, keeps_awake.KEPT_AWAKE
    MIN_AGE = "minAge", keeps_awake.MIN_AGE
    TERMINATING = "terminating", keeps_awake.terminating
    ROLLOUT = "a rollout", keeps_awake.rollout
    MAY_WAKE = "may wake", keeps_awake.may_wake  # a wakeWhen holds or is unknown, of any policy
    CLUSTER_UNREAD = "cluster unread"  # its federated ReplicaSet may run on a cluster that did not answer
    FEDERATED_PAUSED = "federated ReplicaSet paused"
    WAKE_WHEN = "wakeWhen", _wake_when  # a wakeWhen of a policy that wakes automatically holds
    RUNS_ELSEWHERE = "runs elsewhere"  # its federated ReplicaSet runs on another cluster
    SERVICE_RUNS = "Service runs"  # something else behind one of its Services stays up
    PODS_UNREAD = "pods unread"  # the pods behind one of its Services were not read yet

    OBSERVED = "observed", keeps_awake.observed, _NOT_UP  # by a policy that decides, also on what idles with it


KEEP_UP = tuple(name for name in IdlingCondition if name.keeps_up)
"""What keeps up what the criteria call idle, in the order in which it is the reason."""


PER_WORKLOAD = (IdlingCondition.ITSELF, IdlingCondition.MIN_AGE, IdlingCondition.TERMINATING, IdlingCondition.ROLLOUT)
"""What is checked of each workload, also of those with equal `decision_inputs`."""


TIMED_CONDITIONS = tuple(name.check for name in IdlingCondition if isinstance(name.check, keeps_awake.TimedCondition))
"""Forecasts look at when they end."""
