"""Every condition that the rules name: what holds of one scalable besides its state and the verdict of its policies.

Each is looked at when a rule asks for it, once. What neighbours say is added later (idle_groups.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import StrEnum, auto
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import AWAKE_SINCE, AWAKE_UNTIL, read_time
from reconciler.decide.fleet_guard import FleetGuards
from reconciler.decide.freeze import restriction
from reconciler.decide.idling.contested import Contest, contest_of, is_by_tool, undo_of
from reconciler.decide.idling.records import LONG_AGO, who_idled
from reconciler.decide.idling.subjects import IDLE_STATES, IdleState, ServiceState, Subject, WakeRequest
from reconciler.decide.reasons import ReasonCode, Reasons, reason
from reconciler.decide.selectors import left_out, names_kind
from reconciler.decide.workloads import in_rollout
from reconciler.model import FIELD_MANAGER, NOTHING, ObjectRef, Workload
from reconciler.policy.types import Writes
from reconciler.workload_kinds import SCALABLE_KINDS

ITSELF = "app.kubernetes.io/name"
_OUR_NAME = "reconciler"

_CONTESTABLE = IDLE_STATES | {IdleState.IDLE_INCOMPLETE, IdleState.WAKE_INCOMPLETE, IdleState.STALE}
"""What may carry a contest besides what is left alone for it: a run that wrote it may have died before the rest."""

_SINCE_ITS_RECORD = IDLE_STATES | {IdleState.FOREIGN, IdleState.IDLE_INCOMPLETE}


class FactName(StrEnum):
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


class Fact(Struct, frozen=True):
    """That something holds, and why. `until` it ends by itself; None: not by time.

    `neighbours` are the other scalables that it holds because of: it ends when they are decided otherwise.
    """

    name: FactName
    why: Reasons
    until: datetime | None = None
    neighbours: tuple[ObjectRef, ...] = ()


def fact(name: FactName, code: ReasonCode, /, *, until: datetime | None = None, **values: Any) -> Fact:
    """Return the fact with one reason."""
    return Fact(name, (reason(code, **values),), until)


class Facts:
    """What holds of `subject`: `name in facts`."""

    __slots__ = ("_known", "guards", "now", "subject")

    def __init__(
        self, subject: Subject, guards: FleetGuards, now: datetime, known: Mapping[FactName, Fact] = NOTHING
    ) -> None:
        self.subject = subject
        self.guards = guards
        self.now = now
        self._known = dict(known)

    def get(self, name: FactName) -> Fact | None:
        """Return the fact `name`, None where it does not hold."""
        found = self._known.get(name)
        if found is None and (check := _CHECKS.get(name)) is not None:
            found = check(self)
            if found is not None:  # what does not hold is not kept: most of all that is asked for
                self._known[name] = found
        return found

    def __contains__(self, name: Any) -> bool:
        return name in self._known or (name in _CHECKS and self.get(name) is not None)

    def adding(self, found: Fact) -> Facts:
        """Return what holds where `found` does too."""
        return Facts(self.subject, self.guards, self.now, {**self._known, found.name: found})


# What wakes it, and what idles it again.


def _requested(facts: Facts) -> Fact | None:
    request = _counting_request(facts)
    if request is None:
        return None
    wakes = facts.subject.state in (*IDLE_STATES, IdleState.FOREIGN) or request.at <= facts.now
    return Fact(FactName.REQUESTED, (request.reason,), None if wakes else request.at)


def _counting_request(facts: Facts) -> WakeRequest | None:
    """Return the latest request that came when it was idled or later, None for none."""
    subject, now = facts.subject, facts.now
    state, record = subject.state, subject.record
    if state is IdleState.FOREIGN and (record is None or not subject.scale.is_at_or_below(record.idled_to)):
        return None
    since = record.idled_at if record is not None and state in _SINCE_ITS_RECORD else now
    found = [
        (subject.request, since),
        *((service.request, _recorded_at(service, since)) for service in subject.services),
    ]
    if state in IDLE_STATES or state is IdleState.FOREIGN:
        found = [(request, _really_idled_at(at, subject.scale.written, now)) for request, at in found]
    # The list of a Service may outlive the wake that answered a request.
    answered = subject.awake_since if state is IdleState.WAKE_INCOMPLETE else None
    new = (request for request, at in found if request is not None and request.at >= at)
    return max((request for request in new if answered is None or request.at > answered), default=None)


def _recorded_at(service: ServiceState, since: datetime) -> datetime:
    record = service.record or service.foreign
    return since if record is None else record.idled_at


def _really_idled_at(recorded: datetime, written: Workload, now: datetime) -> datetime:
    """Return when `written` was idled; its record says `recorded`, by the clock of that run.

    That clock may have been ahead, and then requests since would look older than the record and be lost. The API
    server dates our write too; where it does not say, a time that is still to come says nothing.
    """
    writer = written.replicas_writer
    if writer is not None and writer.at is not None and writer.manager == FIELD_MANAGER:
        return min(recorded, writer.at)
    return recorded if recorded <= now else LONG_AGO


def _excluded(facts: Facts) -> Fact | None:
    subject = facts.subject
    if subject.verdict.without_policies:
        return None
    found = subject.exclusion
    if found is not None:
        return Fact(FactName.EXCLUDED, (reason(ReasonCode.EXCLUDED, object=found.on), found.reason))
    contest = excluding_contest(subject)
    return None if contest is None else fact(FactName.EXCLUDED, ReasonCode.CONTESTED, by=contest.by)


def excluding_contest(subject: Subject) -> Contest | None:
    """Return the contest that excludes `subject` beside its annotations, None where none does."""
    return contest_of(subject.scale.written, subject.verdict.policy) if subject.state in _CONTESTABLE else None


def _due(facts: Facts) -> Fact | None:
    record = facts.subject.record
    due = None if record is None or facts.subject.verdict.wakes_on_requests_only else record.wake_due
    if record is None or due is None or due > facts.now or not facts.subject.scale.is_at_or_below(record.idled_to):
        return None
    return fact(FactName.DUE, ReasonCode.WAKE_DUE, due=due)


def _production_due(facts: Facts) -> Fact | None:
    """Return that it is due, where none of its policies may idle it again, whatever their criteria say."""
    due = facts.get(FactName.DUE) if FactName.PRODUCTION in facts else None
    return None if due is None else Fact(FactName.PRODUCTION_DUE, due.why)


def _busy(facts: Facts) -> Fact | None:
    busy = facts.subject.verdict.busy
    return None if busy is None else Fact(FactName.BUSY, busy.evaluation.reasons)


def _wake_when(facts: Facts) -> Fact | None:
    waking = facts.subject.verdict.wake_when
    return None if waking is None else Fact(FactName.WAKE_WHEN, waking.wake_when.reasons)


def _floor(facts: Facts) -> Fact | None:
    idle_replicas, record = facts.subject.verdict.idle_replicas, facts.subject.record
    if record is None or idle_replicas < record.replicas:
        return None
    code = ReasonCode.IDLE_REPLICAS_TOO_HIGH
    return fact(FactName.FLOOR, code, idleReplicas=idle_replicas, replicas=record.replicas)


def _guarded(facts: Facts) -> Fact | None:
    guard, record = facts.guards.of(facts.subject.ref.namespace), facts.subject.record
    if record is None or not guard.holds(record.policy, record.orphaned_since, facts.now):
        return None
    return Fact(FactName.GUARDED, (guard.reason,))


def _protected(facts: Facts) -> Fact | None:
    why = facts.subject.protected
    return None if why is None else Fact(FactName.PROTECTED, (why,))


def _bounds(facts: Facts) -> Fact | None:
    """Return that a wake would not last: another Fleet than the one that idled it holds its autoscaler at a floor."""
    autoscaler = facts.subject.pinned
    if autoscaler is None or not autoscaler.holder or not autoscaler.gets_back:
        return None
    name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
    return fact(FactName.BOUNDS, ReasonCode.HPA_PINNED_BY_FLEET, fleet=autoscaler.holder, autoscaler=name)


def _insists(facts: Facts) -> Fact | None:
    """Return that what a tool scaled up is idled again.

    None where a person did, where a policy yields, or where somebody put the bounds of its autoscaler back: that raises
    it again within seconds.
    """
    subject, record = facts.subject, facts.subject.record
    policies = subject.verdict.policies
    if subject.state is not IdleState.MANUALLY_SCALED or record is None or not policies:
        return None
    undo = undo_of(subject, record, facts.now)
    if undo.autoscaler or not is_by_tool(undo) or any(policy.on_revert == "Yield" for policy in policies):
        return None
    return fact(FactName.INSISTS, ReasonCode.INSISTED, by=undo.by, replicas=subject.scale.replicas)


def _read_only(facts: Facts) -> Fact | None:
    return Fact(FactName.READ_ONLY, ()) if facts.subject.cluster.writes is Writes.NOTHING else None


# What keeps up what its policies call idle.


def _production(facts: Facts) -> Fact | None:
    policies = facts.subject.left_out_by
    return Fact(FactName.PRODUCTION, (left_out(facts.subject.production, policies),)) if policies else None


def _restricted(facts: Facts) -> Fact | None:
    why = restriction(facts.subject.cluster, facts.subject.ref.namespace)
    return None if why is None else Fact(FactName.RESTRICTED, (why,))


def _equal_priorities(facts: Facts) -> Fact | None:
    policies = facts.subject.verdict.equal_policies
    return fact(FactName.EQUAL_PRIORITIES, ReasonCode.EQUAL_PRIORITIES, policies=policies) if policies else None


def _unreadable(facts: Facts) -> Fact | None:
    name = FactName.UNREADABLE
    if facts.subject.unknown:
        return fact(name, ReasonCode.UNREADABLE, problem=facts.subject.unknown)
    for service in facts.subject.services:
        which = service.ref.name
        if service.problem:
            return fact(name, ReasonCode.SERVICE_RECORD_UNREADABLE, service=which)
        if service.is_foreign:
            by = who_idled("" if service.foreign is None else service.foreign.fleet)
            return fact(name, ReasonCode.SERVICE_FOREIGN, service=which, by=by)
        if service.is_selected and service.found.undecided:
            return fact(name, ReasonCode.SERVICE_TARGETS_UNKNOWN, service=which, problem=service.found.undecided)
    return None


def _custom_kind(facts: Facts) -> Fact | None:
    ref, policies = unnamed_kind(facts.subject), facts.subject.verdict.policies
    if ref is None:
        return None
    names = [policy.name for policy in policies]
    return fact(FactName.CUSTOM_KIND, ReasonCode.CUSTOM_KIND, kind=ref.kind, policies=names)


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


def _itself(facts: Facts) -> Fact | None:
    is_ours = facts.subject.scale.runs.labels.get(ITSELF) == _OUR_NAME
    return fact(FactName.ITSELF, ReasonCode.RECONCILER_ITSELF) if is_ours else None


def _autoscaled(facts: Facts) -> Fact | None:
    name, subject, policies = FactName.AUTOSCALED, facts.subject, facts.subject.verdict.policies
    if subject.controller:
        return fact(name, ReasonCode.LEFT_TO_AUTOSCALER, autoscaler=subject.controller)
    if subject.scale.is_paused_kind and any(policy.autoscalers.keda == "Leave" for policy in policies):
        return fact(name, ReasonCode.KEDA_LEFT)
    if subject.scale.paused_by:
        return fact(name, ReasonCode.SET_BY_OTHERS, annotation=subject.scale.paused_by)
    if subject.autoscaler is None:
        return None
    hpa, problem = f"HorizontalPodAutoscaler/{subject.autoscaler.hpa.ref.name}", subject.autoscaler.problem
    if any(policy.autoscalers.hpa == "Leave" for policy in policies):
        return fact(name, ReasonCode.HPA_LEFT, autoscaler=hpa)
    return fact(name, ReasonCode.HPA_UNREADABLE, autoscaler=hpa, problem=problem) if problem else None


def _at_idle_replicas(facts: Facts) -> Fact | None:
    subject = facts.subject
    is_down = subject.target_is_idle or subject.scale.replicas <= subject.verdict.idle_replicas
    return fact(FactName.AT_IDLE_REPLICAS, ReasonCode.AT_IDLE_REPLICAS) if is_down else None


def _time_unreadable(facts: Facts) -> Fact | None:
    annotations = facts.subject.scale.written.annotations
    for key in (AWAKE_SINCE, AWAKE_UNTIL):
        if key in annotations and read_time(annotations.get(key)) is None:
            code, expected = ReasonCode.ANNOTATION_UNREADABLE, "a time as in RFC 3339"
            return fact(FactName.TIME_UNREADABLE, code, annotation=key, value=annotations[key], expected=expected)
    return None


def _min_awake(facts: Facts) -> Fact | None:
    since, least = facts.subject.awake_since, facts.subject.verdict.min_awake
    if since is None or (since < facts.now and since + least <= facts.now):
        return None
    return fact(FactName.MIN_AWAKE, ReasonCode.MIN_AWAKE, until=since + least, since=since)


def _kept_awake(facts: Facts) -> Fact | None:
    until = read_time(facts.subject.scale.written.annotations.get(AWAKE_UNTIL))
    if until is None or until <= facts.now:
        return None
    return Fact(FactName.KEPT_AWAKE, (reason(ReasonCode.KEPT_AWAKE, until=until),), until)


def _min_age(facts: Facts) -> Fact | None:
    scale, least = facts.subject.scale, facts.subject.verdict.min_age
    created = max((one.created_at for one in (scale.written, scale.runs) if one.created_at is not None), default=None)
    if created is None or created + least <= facts.now:
        return None
    return fact(FactName.MIN_AGE, ReasonCode.MIN_AGE, until=created + least, at=created)


def _terminating(facts: Facts) -> Fact | None:
    scale = facts.subject.scale
    is_going = scale.written.terminating or scale.runs.terminating
    return fact(FactName.TERMINATING, ReasonCode.TERMINATING) if is_going else None


def _rollout(facts: Facts) -> Fact | None:
    is_rolling = in_rollout(facts.subject.scale.runs)
    return fact(FactName.ROLLOUT, ReasonCode.ROLLOUT_IN_PROGRESS) if is_rolling else None


def _may_wake(facts: Facts) -> Fact | None:
    found = facts.subject.verdict.wake_when_blocker
    return None if found is None else Fact(FactName.MAY_WAKE, found.reasons)


def _observed(facts: Facts) -> Fact | None:
    """Return that it is only observed: what its policies say, or which of them holds back those that enforce."""
    verdict, ref = facts.subject.verdict, facts.subject.scale.runs.ref
    if not verdict.observing:
        return None
    if not verdict.enforcing:
        return Fact(FactName.OBSERVED, verdict.reasons)
    names = list(dict.fromkeys(one.policy.name for one in verdict.observing))
    services = dict.fromkeys(f"Service/{one.service}" for one in verdict.observing if one.service is not None)
    code, observed = ReasonCode.OBSERVED_ONLY, f"{ref.kind}/{ref.name}"
    return fact(FactName.OBSERVED, code, object=observed, policies=names, services=list(services))


_CHECKS: Mapping[FactName, Callable[[Facts], Fact | None]] = {
    FactName.REQUESTED: _requested,
    FactName.EXCLUDED: _excluded,
    FactName.DUE: _due,
    FactName.PRODUCTION_DUE: _production_due,
    FactName.BUSY: _busy,
    FactName.WAKE_WHEN: _wake_when,
    FactName.FLOOR: _floor,
    FactName.GUARDED: _guarded,
    FactName.PROTECTED: _protected,
    FactName.BOUNDS: _bounds,
    FactName.INSISTS: _insists,
    FactName.READ_ONLY: _read_only,
    FactName.PRODUCTION: _production,
    FactName.RESTRICTED: _restricted,
    FactName.EQUAL_PRIORITIES: _equal_priorities,
    FactName.UNREADABLE: _unreadable,
    FactName.CUSTOM_KIND: _custom_kind,
    FactName.ITSELF: _itself,
    FactName.AUTOSCALED: _autoscaled,
    FactName.AT_IDLE_REPLICAS: _at_idle_replicas,
    FactName.TIME_UNREADABLE: _time_unreadable,
    FactName.MIN_AWAKE: _min_awake,
    FactName.KEPT_AWAKE: _kept_awake,
    FactName.MIN_AGE: _min_age,
    FactName.TERMINATING: _terminating,
    FactName.ROLLOUT: _rollout,
    FactName.MAY_WAKE: _may_wake,
    FactName.OBSERVED: _observed,
}
