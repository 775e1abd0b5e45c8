"""The conditions that the rules name: what holds of one scalable besides its state and the verdict of its policies.

Here is what meets each of them by itself; what its neighbours say is in `idle_groups.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum, auto
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import AWAKE_SINCE, AWAKE_UNTIL, read_time
from reconciler.decide.freeze import restriction
from reconciler.decide.idling.contested import excluding_contest, is_by_tool, undo_of
from reconciler.decide.idling.records import who_idled
from reconciler.decide.idling.subjects import IdleState, Subject
from reconciler.decide.idling.wake_requests import counting_request
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, reason
from reconciler.decide.removal_guard import PATIENCE, FleetGuards
from reconciler.decide.selectors import left_out, names_kind
from reconciler.decide.workloads import in_rollout
from reconciler.model import NOTHING, HorizontalPodAutoscaler, ObjectRef, Workload
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import IdlingPolicy, Writes
from reconciler.workload_kinds import SCALABLE_KINDS


class IdlingCondition(StrEnum):
    REQUESTED = auto()  # somebody asked for it since it was idled
    EXCLUDED = auto()  # it, its Service, its namespace or its cluster opts out, or it is contested
    DUE = auto()  # its wake-due has passed
    PRODUCTION_DUE = auto()  # its wake-due has passed, and it is production that its policies leave out
    BUSY = auto()  # a policy that wakes automatically calls it busy
    WAKE_WHEN = auto()  # a wakeWhen of a policy that wakes automatically holds
    IDLE_REPLICAS = auto()  # idleReplicas is at or above what it had
    GUARDED = auto()  # its policy was removed, and so are too many others
    PROTECTED = auto()  # its namespace is one that the Fleet protects
    BOUNDS = auto()  # another Fleet than the one that idled it holds its autoscaler at idleReplicas
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

    name: IdlingCondition
    why: Reasons
    until: datetime | None = None
    neighbours: tuple[ObjectRef, ...] = ()


def met(name: IdlingCondition, code: ReasonCode, /, *, until: datetime | None = None, **values: Any) -> MetCondition:
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
    """The conditions that `subject` meets: `name in conditions`. Each is looked at when a rule asks for it, once."""

    __slots__ = ("_known", "guards", "now", "subject")

    def __init__(
        self,
        subject: Subject,
        guards: FleetGuards,
        now: datetime,
        known: Mapping[IdlingCondition, MetCondition] = NOTHING,
    ) -> None:
        self.subject = subject
        self.guards = guards
        self.now = now
        self._known = known

    def get(self, name: IdlingCondition) -> MetCondition | None:
        """Return the condition `name` as it is met, None where it is not."""
        return self._known.get(name) if name in self else None

    def __contains__(self, name: Any) -> bool:
        return not self.isdisjoint((name,))

    def isdisjoint(self, names: Iterable[IdlingCondition]) -> bool:
        """Return whether none of `names` is met; they are looked at in this order, up to the first that is."""
        known = self._known
        for name in names:
            if name in known:
                return False
            check = CHECKS.get(name)
            found = None if check is None else check(self)
            if found is not None:  # what is not met is not kept: most of all that is asked for
                self._known = {**known, name: found}
                return False
        return True

    def adding(self, found: MetCondition) -> Conditions:
        """Return the conditions with `found` among them."""
        return Conditions(self.subject, self.guards, self.now, {**self._known, found.name: found})


# What wakes what is idle, or idles it again.


def _requested(case: Conditions) -> MetCondition | None:
    request = counting_request(case.subject, case.now)
    if request is None:
        return None
    wakes = case.subject.is_idle or case.subject.state is IdleState.FOREIGN or request.at <= case.now
    return MetCondition(IdlingCondition.REQUESTED, (request.reason,), None if wakes else request.at)


def _excluded(case: Conditions) -> MetCondition | None:
    subject = case.subject
    if subject.verdict.without_policies:
        return None
    found = subject.exclusion
    if found is not None:
        return MetCondition(IdlingCondition.EXCLUDED, (reason(ReasonCode.EXCLUDED, object=found.on), found.reason))
    contest = excluding_contest(subject)
    return None if contest is None else met(IdlingCondition.EXCLUDED, ReasonCode.CONTESTED, by=contest.by)


def _due(case: Conditions) -> MetCondition | None:
    record = case.subject.record
    due = None if record is None or case.subject.verdict.wakes_on_requests_only else record.wake_due
    if due is None or due > case.now or not case.subject.is_at_idled_count:
        return None
    return met(IdlingCondition.DUE, ReasonCode.WAKE_DUE, due=due)


def _production_due(case: Conditions) -> MetCondition | None:
    """Return that it is due, where none of its policies may idle it again, whatever their criteria say."""
    due = _due(case) if case.subject.left_out_by else None
    return None if due is None else MetCondition(IdlingCondition.PRODUCTION_DUE, due.why)


def _busy(case: Conditions) -> MetCondition | None:
    busy = case.subject.verdict.busy
    return None if busy is None else MetCondition(IdlingCondition.BUSY, busy.reasons)


def _wake_when(case: Conditions) -> MetCondition | None:
    waking = case.subject.verdict.wake_when
    return None if waking is None else MetCondition(IdlingCondition.WAKE_WHEN, waking.wake_when.reasons)


def _idle_replicas(case: Conditions) -> MetCondition | None:
    idle_replicas, record = case.subject.idle_replicas, case.subject.record
    if record is None or idle_replicas < record.replicas:
        return None
    code = ReasonCode.IDLE_REPLICAS_TOO_HIGH
    return met(IdlingCondition.IDLE_REPLICAS, code, idleReplicas=idle_replicas, replicas=record.replicas)


def _guarded(case: Conditions) -> MetCondition | None:
    guard, record = case.guards.of(case.subject.ref.namespace), case.subject.record
    if record is None or not guard.holds(record.policy, record.orphaned_since, case.now):
        return None
    until = (record.orphaned_since or case.now) + PATIENCE
    return MetCondition(IdlingCondition.GUARDED, (case.guards.together.reason,), until)


def _protected(case: Conditions) -> MetCondition | None:
    why = case.subject.protected
    return None if why is None else MetCondition(IdlingCondition.PROTECTED, (why,))


def _bounds(case: Conditions) -> MetCondition | None:
    """Return that a wake would not last: another Fleet than the one that idled it holds its autoscaler."""
    autoscaler = case.subject.pinned
    if autoscaler is None or not autoscaler.holder or not autoscaler.gets_back:
        return None
    name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
    return met(IdlingCondition.BOUNDS, ReasonCode.HPA_PINNED_BY_FLEET, fleet=autoscaler.holder, autoscaler=name)


def _insists(case: Conditions) -> MetCondition | None:
    """Return that what a tool scaled up is idled again.

    None where a person did, where a policy yields, or where somebody put the bounds of its autoscaler back: that raises
    it again within seconds.
    """
    subject, record = case.subject, case.subject.record
    policies = subject.verdict.policies
    if record is None or not policies:
        return None
    undo = undo_of(subject, record, case.now)
    if undo.autoscaler or not is_by_tool(undo) or any(policy.on_revert == "Yield" for policy in policies):
        return None
    return met(IdlingCondition.INSISTS, ReasonCode.INSISTED, by=undo.by, replicas=subject.scale.replicas)


def _read_only(case: Conditions) -> MetCondition | None:
    return MetCondition(IdlingCondition.READ_ONLY, ()) if case.subject.cluster.writes is Writes.NOTHING else None


# What keeps up what its policies call idle.

_OUR_NAME = ("app.kubernetes.io/name", "reconciler")


def _production(case: Conditions) -> MetCondition | None:
    policies = case.subject.left_out_by
    return (
        MetCondition(IdlingCondition.PRODUCTION, (left_out(case.subject.production, policies),)) if policies else None
    )


def _restricted(case: Conditions) -> MetCondition | None:
    why = restriction(case.subject.cluster, case.subject.ref.namespace)
    return None if why is None else MetCondition(IdlingCondition.RESTRICTED, (why,))


def _equal_priorities(case: Conditions) -> MetCondition | None:
    policies = case.subject.verdict.equal_policies
    return met(IdlingCondition.EQUAL_PRIORITIES, ReasonCode.EQUAL_PRIORITIES, policies=policies) if policies else None


def _unreadable(case: Conditions) -> MetCondition | None:
    name = IdlingCondition.UNREADABLE
    if case.subject.unknown:
        is_own = case.subject.unknown == case.subject.scale.written.no_place
        code = ReasonCode.NOT_SCALABLE if is_own else ReasonCode.UNREADABLE
        return met(name, code, problem=case.subject.unknown)
    for service in case.subject.services:
        which = service.ref.name
        if service.problem:
            return met(name, ReasonCode.SERVICE_RECORD_UNREADABLE, service=which)
        if service.is_foreign:
            by = who_idled("" if service.foreign is None else service.foreign.fleet)
            return met(name, ReasonCode.SERVICE_FOREIGN, service=which, by=by)
        if service.is_selected and service.found.undecided:
            return met(name, ReasonCode.SERVICE_TARGETS_UNKNOWN, service=which, problem=service.found.undecided)
    return None


def _custom_kind(case: Conditions) -> MetCondition | None:
    ref, policies = unnamed_kind(case.subject), case.subject.verdict.policies
    if ref is None:
        return None
    names = [policy.name for policy in policies]
    return met(IdlingCondition.CUSTOM_KIND, ReasonCode.CUSTOM_KIND, kind=ref.kind, policies=names)


def unnamed_kind(subject: Subject) -> ObjectRef | None:
    """Return what is of a custom kind that none of its policies names, None where nothing is.

    What the scale of a custom kind means, shards of a Prometheus for instance, only those know who name it.
    """
    scale, selectors = subject.scale, [policy.selector.workloads for policy in subject.verdict.policies]
    for ref in (scale.runs.ref, scale.runs.ref if scale.hpa_field else scale.written.ref):
        is_known = (ref.group, ref.kind) in SCALABLE_KINDS
        if not is_known and not any(names_kind(selector, ref.kind, ref.group) for selector in selectors):
            return ref
    return None


def _itself(case: Conditions) -> MetCondition | None:
    is_ours = _OUR_NAME in case.subject.scale.runs.labels.items()
    return met(IdlingCondition.ITSELF, ReasonCode.RECONCILER_ITSELF) if is_ours else None


def _autoscaled(case: Conditions) -> MetCondition | None:
    subject, policies = case.subject, case.subject.verdict.policies
    if subject.controller:
        why: Reason | None = reason(ReasonCode.LEFT_TO_AUTOSCALER, autoscaler=subject.controller)
    elif subject.scale.is_paused_kind and any(policy.autoscalers.keda == "Leave" for policy in policies):
        why = reason(ReasonCode.KEDA_LEFT)
    elif subject.scale.paused_by:
        why = reason(ReasonCode.SET_BY_OTHERS, annotation=subject.scale.paused_by)
    elif subject.keda_rivals:
        names = _names((subject.scale.written, *subject.keda_rivals))
        why = reason(ReasonCode.SEVERAL_SCALED_OBJECTS, autoscalers=names)
    elif subject.is_held_by_rivals and not _leaves_horizontal(subject):
        held = subject.scale.hpa if subject.autoscaler is None else subject.autoscaler.hpa
        names = _names(hpa for hpa in (*subject.rivals, held) if hpa is not None)
        why = reason(ReasonCode.SEVERAL_HPAS, autoscalers=names)
    else:
        why = _horizontally(subject)
    return None if why is None else MetCondition(IdlingCondition.AUTOSCALED, (why,))


def _horizontally(subject: Subject) -> Reason | None:
    """Return why its HorizontalPodAutoscaler has the say, None where it has not."""
    if subject.scale.hpa_field == "Minimum":
        name = f"HorizontalPodAutoscaler/{subject.ref.name}"
        return reason(ReasonCode.HPA_WITHOUT_ZERO, autoscaler=name) if subject.lacks_zero else None
    if subject.autoscaler is None:
        return None
    hpa, problem = f"HorizontalPodAutoscaler/{subject.autoscaler.hpa.ref.name}", subject.autoscaler.problem
    if _leaves_horizontal(subject):
        return reason(ReasonCode.HPA_LEFT, autoscaler=hpa)
    if subject.verdict.lowers_minimum:
        problem = problem or "its minimum is not lowered before its workload is woken"
    return reason(ReasonCode.HPA_UNREADABLE, autoscaler=hpa, problem=problem) if problem else None


def _leaves_horizontal(subject: Subject) -> bool:
    return any(policy.autoscalers.hpa == "Leave" for policy in subject.verdict.policies)


def _names(autoscalers: Iterable[HorizontalPodAutoscaler | Workload]) -> list[str]:
    return sorted(f"{one.ref.kind}/{one.ref.name}" for one in autoscalers)


def _at_idle_replicas(case: Conditions) -> MetCondition | None:
    subject = case.subject
    is_down = subject.target_is_idle or subject.is_down
    return met(IdlingCondition.AT_IDLE_REPLICAS, ReasonCode.AT_IDLE_REPLICAS) if is_down else None


def _time_unreadable(case: Conditions) -> MetCondition | None:
    annotations = case.subject.scale.written.annotations
    for key in (AWAKE_SINCE, AWAKE_UNTIL):
        if key in annotations and read_time(annotations.get(key)) is None:
            code, expected = ReasonCode.ANNOTATION_UNREADABLE, "a time as in RFC 3339"
            return met(IdlingCondition.TIME_UNREADABLE, code, annotation=key, value=annotations[key], expected=expected)
    return None


def _latest(case: Conditions, annotation: str) -> datetime | None:
    times = (read_time(annotations.get(annotation)) for annotations in case.subject.kept_by)
    return max((at for at in times if at is not None), default=None)


def _min_awake(case: Conditions) -> MetCondition | None:
    since, least = _latest(case, AWAKE_SINCE), case.subject.verdict.min_awake
    if since is None or (since < case.now and since + least <= case.now):
        return None
    return met(
        IdlingCondition.MIN_AWAKE, ReasonCode.MIN_AWAKE, until=since + least, since=since, least=spelt_duration(least)
    )


def _kept_awake(case: Conditions) -> MetCondition | None:
    until = _latest(case, AWAKE_UNTIL)
    if until is None or until <= case.now:
        return None
    return MetCondition(IdlingCondition.KEPT_AWAKE, (reason(ReasonCode.KEPT_AWAKE, until=until),), until)


def _min_age(case: Conditions) -> MetCondition | None:
    scale, least = case.subject.scale, case.subject.verdict.min_age
    times = (scale.written.created_at, scale.runs.created_at)
    created = max((at for at in times if at is not None), default=None)
    if created is None or created + least <= case.now:
        return None
    return met(
        IdlingCondition.MIN_AGE, ReasonCode.MIN_AGE, until=created + least, at=created, least=spelt_duration(least)
    )


def _terminating(case: Conditions) -> MetCondition | None:
    scale = case.subject.scale
    is_going = scale.written.terminating or scale.runs.terminating
    return met(IdlingCondition.TERMINATING, ReasonCode.TERMINATING) if is_going else None


def _rollout(case: Conditions) -> MetCondition | None:
    is_rolling = in_rollout(case.subject.scale.runs)
    return met(IdlingCondition.ROLLOUT, ReasonCode.ROLLOUT_IN_PROGRESS) if is_rolling else None


def _may_wake(case: Conditions) -> MetCondition | None:
    found = case.subject.verdict.wake_when_blocker
    return None if found is None else MetCondition(IdlingCondition.MAY_WAKE, found.reasons)


def _observed(case: Conditions) -> MetCondition | None:
    verdict = case.subject.verdict
    return MetCondition(IdlingCondition.OBSERVED, verdict.reasons) if verdict.is_observed else None


CHECKS: Mapping[IdlingCondition, Callable[[Conditions], MetCondition | None]] = {
    IdlingCondition.REQUESTED: _requested,
    IdlingCondition.EXCLUDED: _excluded,
    IdlingCondition.DUE: _due,
    IdlingCondition.PRODUCTION_DUE: _production_due,
    IdlingCondition.BUSY: _busy,
    IdlingCondition.WAKE_WHEN: _wake_when,
    IdlingCondition.IDLE_REPLICAS: _idle_replicas,
    IdlingCondition.GUARDED: _guarded,
    IdlingCondition.PROTECTED: _protected,
    IdlingCondition.BOUNDS: _bounds,
    IdlingCondition.INSISTS: _insists,
    IdlingCondition.READ_ONLY: _read_only,
    IdlingCondition.PRODUCTION: _production,
    IdlingCondition.RESTRICTED: _restricted,
    IdlingCondition.EQUAL_PRIORITIES: _equal_priorities,
    IdlingCondition.UNREADABLE: _unreadable,
    IdlingCondition.CUSTOM_KIND: _custom_kind,
    IdlingCondition.ITSELF: _itself,
    IdlingCondition.AUTOSCALED: _autoscaled,
    IdlingCondition.AT_IDLE_REPLICAS: _at_idle_replicas,
    IdlingCondition.TIME_UNREADABLE: _time_unreadable,
    IdlingCondition.MIN_AWAKE: _min_awake,
    IdlingCondition.KEPT_AWAKE: _kept_awake,
    IdlingCondition.MIN_AGE: _min_age,
    IdlingCondition.TERMINATING: _terminating,
    IdlingCondition.ROLLOUT: _rollout,
    IdlingCondition.MAY_WAKE: _may_wake,
    IdlingCondition.OBSERVED: _observed,
}
