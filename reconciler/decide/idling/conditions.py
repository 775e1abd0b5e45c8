"""Every condition that the rules name: what holds of one scalable besides its state and the verdict of its policies.

Each is looked at when a rule asks for it, once. What neighbours say is added later (idle_groups.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum, auto
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import AWAKE_SINCE, AWAKE_UNTIL, read_time
from reconciler.decide.fleet_guard import FleetGuards
from reconciler.decide.freeze import restriction
from reconciler.decide.idling.contested import Contest, contest_of, is_by_tool, undo_of
from reconciler.decide.idling.records import who_idled
from reconciler.decide.idling.subjects import IDLE_STATES, IdleState, Subject
from reconciler.decide.idling.wake_requests import counting_request
from reconciler.decide.reasons import ReasonCode, Reasons, reason
from reconciler.decide.selectors import left_out, names_kind
from reconciler.decide.workloads import in_rollout
from reconciler.model import NOTHING, ObjectRef
from reconciler.policy.types import IdlingPolicy, Writes
from reconciler.workload_kinds import SCALABLE_KINDS

ITSELF = "app.kubernetes.io/name"
_OUR_NAME = "reconciler"

_CONTESTABLE = IDLE_STATES | {IdleState.IDLE_INCOMPLETE, IdleState.WAKE_INCOMPLETE, IdleState.STALE}
"""What may carry a contest besides what is left alone for it: a run that wrote it may have died before the rest."""


class Condition(StrEnum):
    REQUESTED = auto()  # somebody asked for it since it was idled
    EXCLUDED = auto()  # it, its Service, its namespace or its cluster opts out, or it is contested
    DUE = auto()  # its wake-due has passed
    PRODUCTION_DUE = auto()  # its wake-due has passed, and it is production that its policies leave out
    BUSY = auto()  # a policy that wakes automatically calls it busy
    WAKE_WHEN = auto()  # a wakeWhen of a policy that wakes automatically holds
    FLOOR = auto()  # the floor is at or above what it had
    GUARDED = auto()  # its policy was removed, and so are too many others
    PROTECTED = auto()  # its namespace is one that the Fleet protects
    BOUNDS = auto()  # another Fleet than the one that idled it holds its autoscaler at a floor
    INSISTS = auto()  # its policy idles again what another tool scales up
    READ_ONLY = auto()  # nothing may be written on its cluster

    # what keeps it up
    PRODUCTION = auto()  # it is production, and one of its policies does not say production: true
    RESTRICTED = auto()  # its cluster or its namespace is frozen, or not all may be written there
    EQUAL_PRIORITIES = auto()
    UNREADABLE = auto()  # something that idling it would need could not be read, or is somebody else's
    CUSTOM_KIND = auto()  # no policy names its kind, and nobody else knows what its scale means
    ITSELF = auto()  # it is the reconciler
    AUTOSCALED = auto()  # an autoscaler has the say
    AT_IDLE_REPLICAS = auto()
    TIME_UNREADABLE = auto()  # it says since when or until when it is awake, in no way that can be read
    MIN_AWAKE = auto()
    KEPT_AWAKE = auto()
    MIN_AGE = auto()
    TERMINATING = auto()
    ROLLOUT = auto()
    MAY_WAKE = auto()  # a wakeWhen holds or is unknown, of any policy

    # what its neighbours say
    CLUSTER_UNREAD = auto()  # its federated ReplicaSet may run on a cluster that did not answer
    FEDERATED_PAUSED = auto()
    RUNS_ELSEWHERE = auto()  # its federated ReplicaSet runs on another cluster
    SERVICE_RUNS = auto()  # something else behind one of its Services stays up
    PODS_UNREAD = auto()  # the pods behind one of its Services were not read yet
    OBSERVED = auto()  # a policy that only observes has a say, here or for what goes idle with it


class MetCondition(Struct, frozen=True):
    """A condition that is met, and why. `until` it ends by itself; None: not by time.

    `neighbours` are the other scalables that it holds because of: it ends when they are decided otherwise.
    """

    name: Condition
    why: Reasons
    until: datetime | None = None
    neighbours: tuple[ObjectRef, ...] = ()


def met(name: Condition, code: ReasonCode, /, *, until: datetime | None = None, **values: Any) -> MetCondition:
    """Return that the condition is met, for one reason."""
    return MetCondition(name, (reason(code, **values),), until)


class TimedCondition(Struct, frozen=True):
    """A condition that ends by itself: when the time in the annotation `since` and what `wait` says are over.

    Without `since` it is the time when the object was created. `name` is what people know it by. `strictly`: it is met
    in the very second of that time, whatever the wait.
    """

    code: ReasonCode
    name: str
    since: str
    wait: Callable[[IdlingPolicy], timedelta]
    strictly: bool = False


TIMED_CONDITIONS = (
    TimedCondition(ReasonCode.MIN_AGE, "minAge", "", lambda policy: policy.min_age),
    TimedCondition(ReasonCode.MIN_AWAKE, "minAwake", AWAKE_SINCE, lambda policy: policy.min_awake, strictly=True),
    TimedCondition(ReasonCode.KEPT_AWAKE, AWAKE_UNTIL, AWAKE_UNTIL, lambda _policy: timedelta()),
)
"""Forecasts look at when they end, and the summary of a plan says what waits for them."""


class Conditions:
    """The conditions that `subject` meets: `name in conditions`."""

    __slots__ = ("_known", "guards", "now", "subject")

    def __init__(
        self, subject: Subject, guards: FleetGuards, now: datetime, known: Mapping[Condition, MetCondition] = NOTHING
    ) -> None:
        self.subject = subject
        self.guards = guards
        self.now = now
        self._known = dict(known)

    def get(self, name: Condition) -> MetCondition | None:
        """Return the condition `name` as it is met, None where it is not."""
        found = self._known.get(name)
        if found is None and (check := _CHECKS.get(name)) is not None:
            found = check(self)
            if found is not None:  # what is not met is not kept: most of all that is asked for
                self._known[name] = found
        return found

    def __contains__(self, name: Any) -> bool:
        return name in self._known or (name in _CHECKS and self.get(name) is not None)

    def adding(self, found: MetCondition) -> Conditions:
        """Return the conditions with `found` among them."""
        return Conditions(self.subject, self.guards, self.now, {**self._known, found.name: found})


# What wakes it, and what idles it again.


def _requested(conditions: Conditions) -> MetCondition | None:
    request = counting_request(conditions.subject, conditions.now)
    if request is None:
        return None
    wakes = conditions.subject.state in (*IDLE_STATES, IdleState.FOREIGN) or request.at <= conditions.now
    return MetCondition(Condition.REQUESTED, (request.reason,), None if wakes else request.at)


def _excluded(conditions: Conditions) -> MetCondition | None:
    subject = conditions.subject
    if subject.verdict.without_policies:
        return None
    found = subject.exclusion
    if found is not None:
        return MetCondition(Condition.EXCLUDED, (reason(ReasonCode.EXCLUDED, object=found.on), found.reason))
    contest = excluding_contest(subject)
    return None if contest is None else met(Condition.EXCLUDED, ReasonCode.CONTESTED, by=contest.by)


def excluding_contest(subject: Subject) -> Contest | None:
    """Return the contest that excludes `subject` beside its annotations, None where none does."""
    return contest_of(subject.scale.written, subject.verdict.policy) if subject.state in _CONTESTABLE else None


def _due(conditions: Conditions) -> MetCondition | None:
    record = conditions.subject.record
    due = None if record is None or conditions.subject.verdict.wakes_on_requests_only else record.wake_due
    if (
        record is None
        or due is None
        or due > conditions.now
        or not conditions.subject.scale.is_at_or_below(record.idled_to)
    ):
        return None
    return met(Condition.DUE, ReasonCode.WAKE_DUE, due=due)


def _production_due(conditions: Conditions) -> MetCondition | None:
    """Return that it is due, where none of its policies may idle it again, whatever their criteria say."""
    due = conditions.get(Condition.DUE) if Condition.PRODUCTION in conditions else None
    return None if due is None else MetCondition(Condition.PRODUCTION_DUE, due.why)


def _busy(conditions: Conditions) -> MetCondition | None:
    busy = conditions.subject.verdict.busy
    return None if busy is None else MetCondition(Condition.BUSY, busy.evaluation.reasons)


def _wake_when(conditions: Conditions) -> MetCondition | None:
    waking = conditions.subject.verdict.wake_when
    return None if waking is None else MetCondition(Condition.WAKE_WHEN, waking.wake_when.reasons)


def _floor(conditions: Conditions) -> MetCondition | None:
    idle_replicas, record = conditions.subject.verdict.idle_replicas, conditions.subject.record
    if record is None or idle_replicas < record.replicas:
        return None
    code = ReasonCode.IDLE_REPLICAS_TOO_HIGH
    return met(Condition.FLOOR, code, idleReplicas=idle_replicas, replicas=record.replicas)


def _guarded(conditions: Conditions) -> MetCondition | None:
    guard, record = conditions.guards.of(conditions.subject.ref.namespace), conditions.subject.record
    if record is None or not guard.holds(record.policy, record.orphaned_since, conditions.now):
        return None
    return MetCondition(Condition.GUARDED, (guard.reason,))


def _protected(conditions: Conditions) -> MetCondition | None:
    why = conditions.subject.protected
    return None if why is None else MetCondition(Condition.PROTECTED, (why,))


def _bounds(conditions: Conditions) -> MetCondition | None:
    """Return that a wake would not last: another Fleet than the one that idled it holds its autoscaler at a floor."""
    autoscaler = conditions.subject.pinned
    if autoscaler is None or not autoscaler.holder or not autoscaler.gets_back:
        return None
    name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
    return met(Condition.BOUNDS, ReasonCode.HPA_PINNED_BY_FLEET, fleet=autoscaler.holder, autoscaler=name)


def _insists(conditions: Conditions) -> MetCondition | None:
    """Return that what a tool scaled up is idled again.

    None where a person did, where a policy yields, or where somebody put the bounds of its autoscaler back: that raises
    it again within seconds.
    """
    subject, record = conditions.subject, conditions.subject.record
    policies = subject.verdict.policies
    if subject.state is not IdleState.MANUALLY_SCALED or record is None or not policies:
        return None
    undo = undo_of(subject, record, conditions.now)
    if undo.autoscaler or not is_by_tool(undo) or any(policy.on_revert == "Yield" for policy in policies):
        return None
    return met(Condition.INSISTS, ReasonCode.INSISTED, by=undo.by, replicas=subject.scale.replicas)


def _read_only(conditions: Conditions) -> MetCondition | None:
    return MetCondition(Condition.READ_ONLY, ()) if conditions.subject.cluster.writes is Writes.NOTHING else None


# What keeps up what its policies call idle.


def _production(conditions: Conditions) -> MetCondition | None:
    policies = conditions.subject.left_out_by
    return (
        MetCondition(Condition.PRODUCTION, (left_out(conditions.subject.production, policies),)) if policies else None
    )


def _restricted(conditions: Conditions) -> MetCondition | None:
    why = restriction(conditions.subject.cluster, conditions.subject.ref.namespace)
    return None if why is None else MetCondition(Condition.RESTRICTED, (why,))


def _equal_priorities(conditions: Conditions) -> MetCondition | None:
    policies = conditions.subject.verdict.equal_policies
    return met(Condition.EQUAL_PRIORITIES, ReasonCode.EQUAL_PRIORITIES, policies=policies) if policies else None


def _unreadable(conditions: Conditions) -> MetCondition | None:
    name = Condition.UNREADABLE
    if conditions.subject.unknown:
        return met(name, ReasonCode.UNREADABLE, problem=conditions.subject.unknown)
    for service in conditions.subject.services:
        which = service.ref.name
        if service.problem:
            return met(name, ReasonCode.SERVICE_RECORD_UNREADABLE, service=which)
        if service.is_foreign:
            by = who_idled("" if service.foreign is None else service.foreign.fleet)
            return met(name, ReasonCode.SERVICE_FOREIGN, service=which, by=by)
        if service.is_selected and service.found.undecided:
            return met(name, ReasonCode.SERVICE_TARGETS_UNKNOWN, service=which, problem=service.found.undecided)
    return None


def _custom_kind(conditions: Conditions) -> MetCondition | None:
    ref, policies = unnamed_kind(conditions.subject), conditions.subject.verdict.policies
    if ref is None:
        return None
    names = [policy.name for policy in policies]
    return met(Condition.CUSTOM_KIND, ReasonCode.CUSTOM_KIND, kind=ref.kind, policies=names)


def unnamed_kind(subject: Subject) -> ObjectRef | None:
    """Return what is of a custom kind that none of its policies names, None where nothing is.

    What the scale of a custom kind means, shards of a Prometheus for instance, only those know who name it.
    """
    for ref in (subject.scale.runs.ref, subject.scale.written.ref):
        if (ref.group, ref.kind) in SCALABLE_KINDS:
            continue
        policies = subject.verdict.policies
        if not any(names_kind(policy.selector.workloads, ref.kind) for policy in policies):
            return ref
    return None


def custom_kind_selector(subject: Subject) -> str:
    """Return the part of a selector that names what is of a custom kind that none of its policies names."""
    ref = unnamed_kind(subject)
    return "" if ref is None else f"workloads: {{kinds: [{ref.kind}], include: [{ref.name}]}}"


def _itself(conditions: Conditions) -> MetCondition | None:
    is_ours = conditions.subject.scale.runs.labels.get(ITSELF) == _OUR_NAME
    return met(Condition.ITSELF, ReasonCode.RECONCILER_ITSELF) if is_ours else None


def _autoscaled(conditions: Conditions) -> MetCondition | None:
    name, subject, policies = Condition.AUTOSCALED, conditions.subject, conditions.subject.verdict.policies
    if subject.controller:
        return met(name, ReasonCode.LEFT_TO_AUTOSCALER, autoscaler=subject.controller)
    if subject.scale.is_paused_kind and any(policy.autoscalers.keda == "Leave" for policy in policies):
        return met(name, ReasonCode.KEDA_LEFT)
    if subject.scale.paused_by:
        return met(name, ReasonCode.SET_BY_OTHERS, annotation=subject.scale.paused_by)
    if subject.autoscaler is None:
        return None
    hpa, problem = f"HorizontalPodAutoscaler/{subject.autoscaler.hpa.ref.name}", subject.autoscaler.problem
    if any(policy.autoscalers.hpa == "Leave" for policy in policies):
        return met(name, ReasonCode.HPA_LEFT, autoscaler=hpa)
    return met(name, ReasonCode.HPA_UNREADABLE, autoscaler=hpa, problem=problem) if problem else None


def _at_idle_replicas(conditions: Conditions) -> MetCondition | None:
    subject = conditions.subject
    is_down = subject.target_is_idle or subject.scale.replicas <= subject.verdict.idle_replicas
    return met(Condition.AT_IDLE_REPLICAS, ReasonCode.AT_IDLE_REPLICAS) if is_down else None


def _time_unreadable(conditions: Conditions) -> MetCondition | None:
    annotations = conditions.subject.scale.written.annotations
    for key in (AWAKE_SINCE, AWAKE_UNTIL):
        if key in annotations and read_time(annotations.get(key)) is None:
            code, expected = ReasonCode.ANNOTATION_UNREADABLE, "a time as in RFC 3339"
            return met(Condition.TIME_UNREADABLE, code, annotation=key, value=annotations[key], expected=expected)
    return None


def _min_awake(conditions: Conditions) -> MetCondition | None:
    since, least = conditions.subject.awake_since, conditions.subject.verdict.min_awake
    if since is None or (since < conditions.now and since + least <= conditions.now):
        return None
    return met(Condition.MIN_AWAKE, ReasonCode.MIN_AWAKE, until=since + least, since=since)


def _kept_awake(conditions: Conditions) -> MetCondition | None:
    until = read_time(conditions.subject.scale.written.annotations.get(AWAKE_UNTIL))
    if until is None or until <= conditions.now:
        return None
    return MetCondition(Condition.KEPT_AWAKE, (reason(ReasonCode.KEPT_AWAKE, until=until),), until)


def _min_age(conditions: Conditions) -> MetCondition | None:
    scale, least = conditions.subject.scale, conditions.subject.verdict.min_age
    created = max((one.created_at for one in (scale.written, scale.runs) if one.created_at is not None), default=None)
    if created is None or created + least <= conditions.now:
        return None
    return met(Condition.MIN_AGE, ReasonCode.MIN_AGE, until=created + least, at=created)


def _terminating(conditions: Conditions) -> MetCondition | None:
    scale = conditions.subject.scale
    is_going = scale.written.terminating or scale.runs.terminating
    return met(Condition.TERMINATING, ReasonCode.TERMINATING) if is_going else None


def _rollout(conditions: Conditions) -> MetCondition | None:
    is_rolling = in_rollout(conditions.subject.scale.runs)
    return met(Condition.ROLLOUT, ReasonCode.ROLLOUT_IN_PROGRESS) if is_rolling else None


def _may_wake(conditions: Conditions) -> MetCondition | None:
    found = conditions.subject.verdict.wake_when_blocker
    return None if found is None else MetCondition(Condition.MAY_WAKE, found.reasons)


def _observed(conditions: Conditions) -> MetCondition | None:
    """Return that it is only observed: what its policies say, or which of them holds back those that enforce."""
    verdict, ref = conditions.subject.verdict, conditions.subject.scale.runs.ref
    if not verdict.observing:
        return None
    if not verdict.enforcing:
        return MetCondition(Condition.OBSERVED, verdict.reasons)
    names = list(dict.fromkeys(one.policy.name for one in verdict.observing))
    services = dict.fromkeys(f"Service/{one.service}" for one in verdict.observing if one.service is not None)
    code, observed = ReasonCode.OBSERVED_ONLY, f"{ref.kind}/{ref.name}"
    return met(Condition.OBSERVED, code, object=observed, policies=names, services=list(services))


_CHECKS: Mapping[Condition, Callable[[Conditions], MetCondition | None]] = {
    Condition.REQUESTED: _requested,
    Condition.EXCLUDED: _excluded,
    Condition.DUE: _due,
    Condition.PRODUCTION_DUE: _production_due,
    Condition.BUSY: _busy,
    Condition.WAKE_WHEN: _wake_when,
    Condition.FLOOR: _floor,
    Condition.GUARDED: _guarded,
    Condition.PROTECTED: _protected,
    Condition.BOUNDS: _bounds,
    Condition.INSISTS: _insists,
    Condition.READ_ONLY: _read_only,
    Condition.PRODUCTION: _production,
    Condition.RESTRICTED: _restricted,
    Condition.EQUAL_PRIORITIES: _equal_priorities,
    Condition.UNREADABLE: _unreadable,
    Condition.CUSTOM_KIND: _custom_kind,
    Condition.ITSELF: _itself,
    Condition.AUTOSCALED: _autoscaled,
    Condition.AT_IDLE_REPLICAS: _at_idle_replicas,
    Condition.TIME_UNREADABLE: _time_unreadable,
    Condition.MIN_AWAKE: _min_awake,
    Condition.KEPT_AWAKE: _kept_awake,
    Condition.MIN_AGE: _min_age,
    Condition.TERMINATING: _terminating,
    Condition.ROLLOUT: _rollout,
    Condition.MAY_WAKE: _may_wake,
    Condition.OBSERVED: _observed,
}
