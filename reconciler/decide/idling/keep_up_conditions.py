"""What keeps up what its policies call idle: production, a freeze, an autoscaler, minAge, minAwake, a rollout, ..."""

from __future__ import annotations

from collections.abc import Mapping

from reconciler.decide.annotations import AWAKE_SINCE, AWAKE_UNTIL, read_time
from reconciler.decide.freeze import restriction
from reconciler.decide.idling.conditions import Check, Circumstances, Condition, MetCondition, met
from reconciler.decide.idling.records import who_idled
from reconciler.decide.idling.subjects import Subject
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.decide.selectors import left_out, names_kind
from reconciler.decide.workloads import in_rollout
from reconciler.model import ObjectRef
from reconciler.workload_kinds import SCALABLE_KINDS

NAME_LABEL = "app.kubernetes.io/name"
_OUR_NAME = "reconciler"


def _production(case: Circumstances) -> MetCondition | None:
    policies = case.subject.left_out_by
    return MetCondition(Condition.PRODUCTION, (left_out(case.subject.production, policies),)) if policies else None


def _restricted(case: Circumstances) -> MetCondition | None:
    why = restriction(case.subject.cluster, case.subject.ref.namespace)
    return None if why is None else MetCondition(Condition.RESTRICTED, (why,))


def _equal_priorities(case: Circumstances) -> MetCondition | None:
    policies = case.subject.verdict.equal_policies
    return met(Condition.EQUAL_PRIORITIES, ReasonCode.EQUAL_PRIORITIES, policies=policies) if policies else None


def _unreadable(case: Circumstances) -> MetCondition | None:
    name = Condition.UNREADABLE
    if case.subject.unknown:
        return met(name, ReasonCode.UNREADABLE, problem=case.subject.unknown)
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


def _custom_kind(case: Circumstances) -> MetCondition | None:
    ref, policies = unnamed_kind(case.subject), case.subject.verdict.policies
    if ref is None:
        return None
    names = [policy.name for policy in policies]
    return met(Condition.CUSTOM_KIND, ReasonCode.CUSTOM_KIND, kind=ref.kind, policies=names)


def unnamed_kind(subject: Subject) -> ObjectRef | None:
    """Return what is of a custom kind that none of its policies names, None where nothing is.

    What the scale of a custom kind means, shards of a Prometheus for instance, only those know who name it.
    """
    scale = subject.scale
    for ref in (scale.runs.ref, scale.runs.ref if scale.steered else scale.written.ref):
        if (ref.group, ref.kind) in SCALABLE_KINDS:
            continue
        policies = subject.verdict.policies
        if not any(names_kind(policy.selector.workloads, ref.kind, ref.group) for policy in policies):
            return ref
    return None


def custom_kind_selector(subject: Subject) -> str:
    """Return the part of a selector that names what is of a custom kind that none of its policies names."""
    ref = unnamed_kind(subject)
    return "" if ref is None else f"workloads: {{kinds: [{ref.kind}], include: [{ref.name}]}}"


def _itself(case: Circumstances) -> MetCondition | None:
    is_ours = case.subject.scale.runs.labels.get(NAME_LABEL) == _OUR_NAME
    return met(Condition.ITSELF, ReasonCode.RECONCILER_ITSELF) if is_ours else None


def _autoscaled(case: Circumstances) -> MetCondition | None:
    name, subject, policies = Condition.AUTOSCALED, case.subject, case.subject.verdict.policies
    if subject.controller:
        return met(name, ReasonCode.LEFT_TO_AUTOSCALER, autoscaler=subject.controller)
    if subject.scale.is_paused_kind and any(policy.autoscalers.keda == "Leave" for policy in policies):
        return met(name, ReasonCode.KEDA_LEFT)
    if subject.scale.paused_by:
        return met(name, ReasonCode.SET_BY_OTHERS, annotation=subject.scale.paused_by)
    if subject.scale.steered == "Minimum":
        steering = f"HorizontalPodAutoscaler/{subject.ref.name}"
        return met(name, ReasonCode.HPA_WITHOUT_ZERO, autoscaler=steering) if subject.lacks_zero else None
    if subject.autoscaler is None:
        return None
    hpa, problem = f"HorizontalPodAutoscaler/{subject.autoscaler.hpa.ref.name}", subject.autoscaler.problem
    if any(policy.autoscalers.hpa == "Leave" for policy in policies):
        return met(name, ReasonCode.HPA_LEFT, autoscaler=hpa)
    if subject.verdict.lowers_minimum:
        problem = problem or "its minimum is not lowered before its workload is woken"
    return met(name, ReasonCode.HPA_UNREADABLE, autoscaler=hpa, problem=problem) if problem else None


def _at_idle_replicas(case: Circumstances) -> MetCondition | None:
    subject = case.subject
    is_down = subject.target_is_idle or subject.is_down
    return met(Condition.AT_IDLE_REPLICAS, ReasonCode.AT_IDLE_REPLICAS) if is_down else None


def _time_unreadable(case: Circumstances) -> MetCondition | None:
    annotations = case.subject.scale.written.annotations
    for key in (AWAKE_SINCE, AWAKE_UNTIL):
        if key in annotations and read_time(annotations.get(key)) is None:
            code, expected = ReasonCode.ANNOTATION_UNREADABLE, "a time as in RFC 3339"
            return met(Condition.TIME_UNREADABLE, code, annotation=key, value=annotations[key], expected=expected)
    return None


def _min_awake(case: Circumstances) -> MetCondition | None:
    known = [at for one in case.subject.kept_by if (at := read_time(one.get(AWAKE_SINCE))) is not None]
    since, least = max(known, default=None), case.subject.verdict.min_awake
    if since is None or (since < case.now and since + least <= case.now):
        return None
    return met(Condition.MIN_AWAKE, ReasonCode.MIN_AWAKE, until=since + least, since=since)


def _kept_awake(case: Circumstances) -> MetCondition | None:
    known = [at for one in case.subject.kept_by if (at := read_time(one.get(AWAKE_UNTIL))) is not None]
    until = max(known, default=None)
    if until is None or until <= case.now:
        return None
    return MetCondition(Condition.KEPT_AWAKE, (reason(ReasonCode.KEPT_AWAKE, until=until),), until)


def _min_age(case: Circumstances) -> MetCondition | None:
    scale, least = case.subject.scale, case.subject.verdict.min_age
    times = [one.created_at for one in (scale.written, scale.runs) if one.created_at is not None]
    created = max(times) if times else None
    if created is None or created + least <= case.now:
        return None
    return met(Condition.MIN_AGE, ReasonCode.MIN_AGE, until=created + least, at=created)


def _terminating(case: Circumstances) -> MetCondition | None:
    scale = case.subject.scale
    is_going = scale.written.terminating or scale.runs.terminating
    return met(Condition.TERMINATING, ReasonCode.TERMINATING) if is_going else None


def _rollout(case: Circumstances) -> MetCondition | None:
    is_rolling = in_rollout(case.subject.scale.runs)
    return met(Condition.ROLLOUT, ReasonCode.ROLLOUT_IN_PROGRESS) if is_rolling else None


def _may_wake(case: Circumstances) -> MetCondition | None:
    found = case.subject.verdict.wake_when_blocker
    return None if found is None else MetCondition(Condition.MAY_WAKE, found.reasons)


def _observed(case: Circumstances) -> MetCondition | None:
    """Return that it is only observed: what its policies say, or which of them holds back those that enforce."""
    verdict, ref = case.subject.verdict, case.subject.scale.runs.ref
    if not verdict.observing:
        return None
    if not verdict.enforcing:
        return MetCondition(Condition.OBSERVED, verdict.reasons)
    names = list(dict.fromkeys(one.policy.name for one in verdict.observing))
    services = dict.fromkeys(f"Service/{one.service}" for one in verdict.observing if one.service is not None)
    code, observed = ReasonCode.OBSERVED_ONLY, f"{ref.kind}/{ref.name}"
    return met(Condition.OBSERVED, code, object=observed, policies=names, services=list(services))


KEEP_UP_CHECKS: Mapping[Condition, Check] = {
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
