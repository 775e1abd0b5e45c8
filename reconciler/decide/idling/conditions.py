"""The conditions that the rules name: what holds of one scalable besides its state and the verdict of its policies, why
it does, and what would end it.

Here is what meets each of them by itself; what its neighbours say is in `idle_together.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import AWAKE_SINCE, AWAKE_UNTIL, CONTESTED, read_time
from reconciler.decide.change_codes import (
    ChangeIf,
    ChangeIfCode,
    Fact,
    after,
    all_known,
    change_if,
    fact,
    field_is,
    joint_change,
)
from reconciler.decide.freeze import restriction
from reconciler.decide.idling.contested import excluding_contest, is_by_tool
from reconciler.decide.idling.criteria import (
    MIN_AWAKE_BY_DEFAULT,
    NOT_BUSY,
    NOT_IDLE,
    ONLY_IDLE,
    CriterionResult,
    PolicyVerdict,
)
from reconciler.decide.idling.records import who_idled
from reconciler.decide.idling.subjects import IdleState, Subject
from reconciler.decide.idling.wake_requests import counting_request
from reconciler.decide.owners_and_rollouts import in_rollout
from reconciler.decide.reasons import Reason, ReasonCode, reason
from reconciler.decide.removal_guard import PATIENCE, REMOVED_FLAG, FleetGuards
from reconciler.decide.selectors import key_of, left_out, names_kind
from reconciler.model import NOTHING, HorizontalPodAutoscaler, Workload
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import IdlingPolicy, Writes
from reconciler.workload_kinds import SCALABLE_KINDS


class IdlingConditions:
    """The conditions that `subject` meets: `name in conditions`. Each is looked at when a rule asks for it, once."""

    __slots__ = ("_known", "guards", "now", "subject")

    def __init__(
        self,
        subject: Subject,
        guards: FleetGuards,
        now: datetime,
        known: Mapping[IdlingCondition, Fact] = NOTHING,
    ) -> None:
        self.subject = subject
        self.guards = guards
        self.now = now
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


def _requested(case: IdlingConditions) -> Fact | None:
    request = counting_request(case.subject, case.now)
    if request is None:
        return None
    wakes = case.subject.is_idle or case.subject.state is IdleState.FOREIGN or request.at <= case.now
    return Fact((request.reason,), until=None if wakes else request.at)


UNCONTESTED = joint_change(
    ChangeIfCode.ANY,
    (change_if(ChangeIfCode.ANNOTATION_REMOVED, annotation=CONTESTED), change_if(ChangeIfCode.POLICY_CHANGES)),
)


def _excluded(case: IdlingConditions) -> Fact | None:
    """Every exclusion ends it together; the object that has one is named where it is not the one in question."""
    subject = case.subject
    if subject.verdict.without_policies:
        return None
    found, contest = subject.exclusion, excluding_contest(subject)
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


def _due(case: IdlingConditions) -> Fact | None:
    record = case.subject.record
    due = None if record is None or case.subject.verdict.wakes_on_requests_only else record.wake_due
    if due is None or due > case.now or not case.subject.is_at_idled_count:
        return None
    return fact(ReasonCode.WAKE_DUE, due=due)


def _production_due(case: IdlingConditions) -> Fact | None:
    """Return that it is due, where none of its policies may idle it again, whatever their criteria say."""
    return _due(case) if case.subject.left_out_by else None


def _busy(case: IdlingConditions) -> Fact | None:
    busy = case.subject.verdict.busy
    return Fact(busy[0].reasons, lambda: all_known(said.change_if(NOT_BUSY) for said in busy)) if busy else None


def _wake_when(case: IdlingConditions) -> Fact | None:
    return _waking([own for own in case.subject.verdict.won if own.wakes], NOT_BUSY)


def _waking(verdicts: Iterable[PolicyVerdict], ended: Set[CriterionResult]) -> Fact | None:
    """Return what the first `wakeWhen` in `verdicts` says that is none of `ended`; it ends once all of them are."""
    said = [own.wake_when for own in verdicts if own.wake_when is not None and own.wake_when.result not in ended]
    return Fact(said[0].reasons, lambda: all_known(one.change_if(ended) for one in said)) if said else None


def _idle_replicas(case: IdlingConditions) -> Fact | None:
    idle_replicas, record = case.subject.idle_replicas, case.subject.record
    if record is None or idle_replicas < record.replicas:
        return None
    lift = field_is("idleReplicas", f"below {record.replicas}")
    code = ReasonCode.IDLE_REPLICAS_TOO_HIGH
    return fact(code, lift, idleReplicas=idle_replicas, replicas=record.replicas)


def _guarded(case: IdlingConditions) -> Fact | None:
    guard, record = case.guards.of(case.subject.ref.namespace), case.subject.record
    if record is None or not guard.holds(record.policy, record.orphaned_since, case.now):
        return None
    until = (record.orphaned_since or case.now) + PATIENCE
    lift = joint_change(ChangeIfCode.ANY, (change_if(ChangeIfCode.FLAG, flag=REMOVED_FLAG), after(until)))
    return Fact((case.guards.together.reason,), lift, until)


def _protected(case: IdlingConditions) -> Fact | None:
    why = case.subject.protected
    return None if why is None else Fact((why,), change_if(ChangeIfCode.UNPROTECTED))


def _bounds(case: IdlingConditions) -> Fact | None:
    """Return that a wake would not last: another Fleet than the one that idled it holds its autoscaler."""
    autoscaler = case.subject.pinned
    if autoscaler is None or not autoscaler.holder or not autoscaler.gets_back:
        return None
    name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
    lift = change_if(ChangeIfCode.FLAG, flag="--context in place of the Fleet")
    return fact(ReasonCode.HPA_PINNED_BY_FLEET, lift, fleet=autoscaler.holder, autoscaler=name)


def _insists(case: IdlingConditions) -> Fact | None:
    """Return that what a tool scaled up is idled again.

    None where a person or traffic did, where a policy yields, or where somebody put the bounds of its autoscaler back:
    that raises it again within seconds.
    """
    subject, undo = case.subject, case.subject.undo
    if undo is None or undo.autoscaler or not (subject.verdict.insists and is_by_tool(undo)):
        return None
    lift = field_is("onRevert", f"Yield in {subject.verdict.policies[0].name}")
    return fact(ReasonCode.INSISTED, lift, by=undo.by, replicas=subject.scale.replicas)


def _read_only(case: IdlingConditions) -> Fact | None:
    return Fact(()) if case.subject.cluster.writes is Writes.NOTHING else None


# What keeps up what its policies call idle.

_OUR_NAME = ("app.kubernetes.io/name", "reconciler")


def _production(case: IdlingConditions) -> Fact | None:
    policies = case.subject.left_out_by
    return left_out(case.subject.production, policies) if policies else None


def _restricted(case: IdlingConditions) -> Fact | None:
    return restriction(case.subject.cluster, case.subject.ref.namespace)


def _equal_priorities(case: IdlingConditions) -> Fact | None:
    policies = case.subject.verdict.equal_policies
    if not policies:
        return None
    return fact(ReasonCode.EQUAL_PRIORITIES, change_if(ChangeIfCode.DIFFERENT_PRIORITIES), policies=policies)


def _unreadable(case: IdlingConditions) -> Fact | None:
    unknown = case.subject.unknown
    if unknown and unknown == case.subject.scale.written.no_place:
        return fact(ReasonCode.NOT_SCALABLE, change_if(ChangeIfCode.MANIFEST_CORRECTED), problem=unknown)
    if unknown:
        return fact(ReasonCode.UNREADABLE, change_if(ChangeIfCode.READABLE), problem=unknown)
    for service in case.subject.services:
        which, on = service.ref.name, f"Service/{service.ref.name}"
        if service.problem:
            lift = change_if(ChangeIfCode.RECORD_READABLE, object=on)
            return fact(ReasonCode.SERVICE_RECORD_UNREADABLE, lift, service=which)
        if service.is_foreign:
            by = who_idled(service.foreign)
            lift = change_if(ChangeIfCode.RECORD_REMOVED, object=on)
            return fact(ReasonCode.SERVICE_FOREIGN, lift, service=which, by=by)
        if service.is_selected and service.found.undecided:
            return fact(ReasonCode.SERVICE_TARGETS_UNKNOWN, service=which, problem=service.found.undecided)
    return None


def _custom_kind(case: IdlingConditions) -> Fact | None:
    """Return that none of its policies names its custom kind: what the scale of one means, shards of a Prometheus for
    instance, only those know who name it.
    """
    scale, policies = case.subject.scale, case.subject.verdict.policies
    for ref in (scale.runs.ref, scale.written.ref if scale.hpa is None else scale.runs.ref):
        if (ref.group, ref.kind) in SCALABLE_KINDS:
            continue
        if not any(names_kind(policy.selector.workloads, ref.kind, ref.group) for policy in policies):
            names, selector = [one.name for one in policies], f"{{kinds: [{ref.kind}], include: [{ref.name}]}}"
            lift = change_if(ChangeIfCode.NAMED, selector=f"workloads: {selector}", policies=names)
            return fact(ReasonCode.CUSTOM_KIND, lift, kind=ref.kind, policies=names)
    return None


def _itself(case: IdlingConditions) -> Fact | None:
    return fact(ReasonCode.RECONCILER_ITSELF) if _OUR_NAME in case.subject.scale.runs.labels.items() else None


def _autoscaled(case: IdlingConditions) -> Fact | None:
    subject, policies = case.subject, case.subject.verdict.policies
    everyone, is_paused_kind = subject.autoscalers, subject.scale.is_paused_kind
    if everyone.keda and (controller := everyone.keda.get(key_of(subject.ref))) is not None:
        return fact(ReasonCode.LEFT_TO_AUTOSCALER, autoscaler=f"ScaledObject/{controller.ref.name}")
    if is_paused_kind and any(policy.autoscalers.keda == "Leave" for policy in policies):
        return fact(ReasonCode.KEDA_LEFT, field_is("autoscalers.keda", "Pause"))
    if is_paused_kind and subject.scale.paused_by:
        lift = change_if(ChangeIfCode.ANNOTATION_REMOVED, annotation=subject.scale.paused_by)
        return fact(ReasonCode.SET_BY_OTHERS, lift, annotation=subject.scale.paused_by)
    if is_paused_kind and (key := key_of(subject.scale.runs.ref)) in everyone.keda_rivals:
        names = _names((everyone.keda[key], *everyone.keda_rivals[key]))
        return fact(ReasonCode.SEVERAL_SCALED_OBJECTS, autoscalers=names)
    if subject.is_held_by_rivals and not _leaves_horizontal(subject):
        held = subject.scale.hpa if subject.autoscaler is None else subject.autoscaler.hpa
        names = _names(hpa for hpa in (*subject.rivals, held) if hpa is not None)
        return fact(ReasonCode.SEVERAL_HPAS, autoscalers=names)
    return _horizontally(subject)


def _horizontally(subject: Subject) -> Fact | None:
    """Return why its HorizontalPodAutoscaler has the say, None where it has not."""
    if subject.lacks_zero:
        name, lift = f"HorizontalPodAutoscaler/{subject.ref.name}", field_is("idleReplicas", "at least 1")
        return fact(ReasonCode.HPA_WITHOUT_ZERO, lift, autoscaler=name)
    if subject.autoscaler is None:
        return None
    hpa, problem = f"HorizontalPodAutoscaler/{subject.autoscaler.hpa.ref.name}", subject.autoscaler.problem
    if _leaves_horizontal(subject):
        return fact(ReasonCode.HPA_LEFT, field_is("autoscalers.hpa", "Idle"), autoscaler=hpa)
    if subject.verdict.lowers_minimum:
        problem = problem or "its minimum is not lowered before its workload is woken"
    return fact(ReasonCode.HPA_UNREADABLE, autoscaler=hpa, problem=problem) if problem else None


def _leaves_horizontal(subject: Subject) -> bool:
    return any(policy.autoscalers.hpa == "Leave" for policy in subject.verdict.policies)


def _names(autoscalers: Iterable[HorizontalPodAutoscaler | Workload]) -> list[str]:
    return sorted(f"{one.ref.kind}/{one.ref.name}" for one in autoscalers)


def _at_idle_replicas(case: IdlingConditions) -> Fact | None:
    subject = case.subject
    is_down = subject.target_is_idle or subject.is_down
    return Fact((at_rest(subject, ReasonCode.AT_IDLE_REPLICAS),), more_replicas(subject)) if is_down else None


def at_rest(subject: Subject, code: ReasonCode) -> Reason:
    """Return why what is down already is left alone: `code`, or that it is switched off, as it has no replicas then."""
    switch = subject.scale.switch
    if switch is not None and switch.is_off:
        code = ReasonCode.FINISHED if switch.finished else ReasonCode.SWITCHED_OFF
    return reason(code)


def more_replicas(subject: Subject) -> ChangeIf | None:
    """Return what lets `subject` be idled, which is down already; None for what has finished."""
    scale = subject.scale
    if scale.switch is not None:
        if not scale.switch.is_off:
            return field_is("idleReplicas", "0")
        return None if scale.switch.finished else change_if(ChangeIfCode.SWITCHED_ON)
    if scale.hpa is not None and scale.runs.spec_replicas > 0:
        return field_is("minReplicas", f"more than {subject.idle_replicas}")
    return change_if(ChangeIfCode.MORE_REPLICAS, replicas=subject.idle_replicas)


def _time_unreadable(case: IdlingConditions) -> Fact | None:
    annotations = case.subject.scale.written.annotations
    for key in (AWAKE_SINCE, AWAKE_UNTIL):
        if key in annotations and read_time(annotations.get(key)) is None:
            code, lift, expected = ReasonCode.ANNOTATION_UNREADABLE, ChangeIfCode.TIME_READABLE, "a time as in RFC 3339"
            return fact(code, change_if(lift), annotation=key, value=annotations[key], expected=expected)
    return None


class TimedCondition(Struct, frozen=True):
    """A condition that ends by itself: once what `wait` says has passed since a time, which its reason calls `named`;
    without `wait` at that time. It is that of the annotation `since`, else when the object was created.

    `default` is waited where no policy is known. `strictly`: it is met in the very second of that time, too.
    """

    code: ReasonCode
    named: str
    since: str = ""
    wait: Callable[[IdlingPolicy], timedelta] | None = None
    default: timedelta = timedelta()
    strictly: bool = False

    def longest(self, policies: Iterable[IdlingPolicy]) -> timedelta:
        """Return how long `policies` wait, of several the longest."""
        return self.default if self.wait is None else max(map(self.wait, policies), default=self.default)

    def __call__(self, case: IdlingConditions) -> Fact | None:
        subject = case.subject
        if self.since:
            times = [read_time(kept[self.since]) for kept in subject.kept_by if self.since in kept]
        else:
            times = [subject.scale.written.created_at, subject.scale.runs.created_at]
        if not any(times):
            return None
        at = max(filter(None, times))
        least = self.longest(subject.verdict.policies)
        if at + least <= case.now and not (self.strictly and at == case.now):
            return None
        if self.wait is None:
            return Fact((reason(self.code, **{self.named: at}),), after(at, self.since), at)
        why = reason(self.code, **{self.named: at}, least=spelt_duration(least))
        return Fact((why,), until=at + least)


def _terminating(case: IdlingConditions) -> Fact | None:
    scale = case.subject.scale
    return fact(ReasonCode.TERMINATING) if scale.written.terminating or scale.runs.terminating else None


def _rollout(case: IdlingConditions) -> Fact | None:
    is_rolling = in_rollout(case.subject.scale.runs)
    return fact(ReasonCode.ROLLOUT_IN_PROGRESS, change_if(ChangeIfCode.ROLLOUT_ENDS)) if is_rolling else None


def _may_wake(case: IdlingConditions) -> Fact | None:
    return _waking(case.subject.verdict.won, ONLY_IDLE)


def _observed(case: IdlingConditions) -> Fact | None:
    verdict = case.subject.verdict
    return Fact(verdict.reasons, partial(verdict.change_if, NOT_IDLE)) if verdict.is_observed else None


_Check = Callable[[IdlingConditions], Fact | None]
_NOT_UP = False
_MIN_AWAKE = TimedCondition(
    ReasonCode.MIN_AWAKE, "since", AWAKE_SINCE, lambda policy: policy.min_awake, MIN_AWAKE_BY_DEFAULT, strictly=True
)


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
    PRODUCTION = "production", _production  # it is production, and one of its policies does not say production: true
    REQUESTED = "requested", _requested  # somebody asked for it since it was idled
    EXCLUDED = "excluded", _excluded  # it, its Service, its namespace or its cluster opts out, or it is contested
    RESTRICTED = "restricted", _restricted  # its cluster or namespace is frozen, or not all may be written there
    EQUAL_PRIORITIES = "equal priorities", _equal_priorities
    UNREADABLE = "unreadable", _unreadable  # what idling it would need could not be read, or is somebody else's
    CUSTOM_KIND = "custom kind", _custom_kind  # no policy names its kind, and nobody else knows what its scale means
    ITSELF = "itself", _itself  # it is the reconciler
    AUTOSCALED = "autoscaled", _autoscaled  # an autoscaler has the say
    AT_IDLE_REPLICAS = "at idleReplicas", _at_idle_replicas
    TIME_UNREADABLE = "time unreadable", _time_unreadable  # since or until when it is awake
    MIN_AWAKE = "minAwake", _MIN_AWAKE
    KEPT_AWAKE = AWAKE_UNTIL, TimedCondition(ReasonCode.KEPT_AWAKE, "until", AWAKE_UNTIL)
    MIN_AGE = "minAge", TimedCondition(ReasonCode.MIN_AGE, "at", wait=lambda policy: policy.min_age)
    TERMINATING = "terminating", _terminating
    ROLLOUT = "a rollout", _rollout
    MAY_WAKE = "may wake", _may_wake  # a wakeWhen holds or is unknown, of any policy
    CLUSTER_UNREAD = "cluster unread"  # its federated ReplicaSet may run on a cluster that did not answer
    FEDERATED_PAUSED = "federated ReplicaSet paused"
    WAKE_WHEN = "wakeWhen", _wake_when  # a wakeWhen of a policy that wakes automatically holds
    RUNS_ELSEWHERE = "runs elsewhere"  # its federated ReplicaSet runs on another cluster
    SERVICE_RUNS = "Service runs"  # something else behind one of its Services stays up
    PODS_UNREAD = "pods unread"  # the pods behind one of its Services were not read yet

    OBSERVED = "observed", _observed, _NOT_UP  # a policy that only observes has a say, also on what idles with it


KEEP_UP = tuple(name for name in IdlingCondition if name.keeps_up)
"""What keeps up what the criteria call idle, in the order in which it is the reason."""


TIMED_CONDITIONS = tuple(name.check for name in IdlingCondition if isinstance(name.check, TimedCondition))
"""Forecasts look at when they end."""
