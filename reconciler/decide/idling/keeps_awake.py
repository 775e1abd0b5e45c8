"""What keeps a workload up that its policies call idle: for how long after a wake, a scale by hand or its creation, and
what else, such as a rollout, an autoscaler, a freeze, or something that cannot be read.

Which of several is the reason says the table in `conditions.py`. What neighbours keep up is in `idle_together.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct

from reconciler.decide.annotations import Key, read_time
from reconciler.decide.change_codes import ChangeIf, ChangeIfCode, Fact, after, all_known, change_if, fact, field_is
from reconciler.decide.freeze import restriction
from reconciler.decide.idling.criteria import NOT_IDLE, ONLY_IDLE, CriterionResult, PolicyVerdict, Verdict
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.service_records import who_idled
from reconciler.decide.idling.subjects import IdlingCase, Subject
from reconciler.decide.owners_and_rollouts import in_rollout, rollout_of
from reconciler.decide.reasons import Code, Reason, ReasonCode, reason
from reconciler.decide.selectors import key_of, left_out, names_kind
from reconciler.model import HorizontalPodAutoscaler, Workload
from reconciler.policy.kinds.fields import spelt_duration
from reconciler.policy.types import IdlingPolicy
from reconciler.workload_kinds import SCALABLE_KINDS

_OUR_NAME = ("app.kubernetes.io/name", "reconciler")


def production(case: IdlingCase) -> Fact | None:
    policies = case.subject.left_out_by
    return left_out(case.subject.production, policies) if policies else None


def restricted(case: IdlingCase) -> Fact | None:
    return restriction(case.subject.cluster, case.subject.ref.namespace)


def equal_priorities(case: IdlingCase) -> Fact | None:
    policies = case.subject.verdict.equal_policies
    if not policies:
        return None
    return fact(ReasonCode.EQUAL_PRIORITIES, change_if(ChangeIfCode.DIFFERENT_PRIORITIES), policies=policies)


def unreadable(case: IdlingCase) -> Fact | None:
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


def custom_kind(case: IdlingCase) -> Fact | None:
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


def itself(case: IdlingCase) -> Fact | None:
    return fact(ReasonCode.RECONCILER_ITSELF) if _OUR_NAME in case.subject.scale.runs.labels.items() else None


def autoscaled(case: IdlingCase) -> Fact | None:
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


def at_idle_replicas(case: IdlingCase) -> Fact | None:
    subject = case.subject
    is_down = subject.target_is_idle or subject.is_down
    return Fact((at_rest(subject, ReasonCode.AT_IDLE_REPLICAS),), more_replicas(subject)) if is_down else None


def at_rest(subject: Subject, code: Code) -> Reason:
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


def time_unreadable(case: IdlingCase) -> Fact | None:
    annotations = case.subject.scale.written.annotations
    for key in (Key.AWAKE_SINCE, Key.AWAKE_UNTIL):
        if key in annotations and read_time(annotations.get(key)) is None:
            code, lift, expected = ReasonCode.ANNOTATION_UNREADABLE, ChangeIfCode.TIME_READABLE, "a time as in RFC 3339"
            return fact(code, change_if(lift), annotation=key, value=annotations[key], expected=expected)
    return None


class TimedCondition(Struct, frozen=True):
    """A condition that ends by itself: once what `wait` says has passed since a time, which its reason calls `named`;
    without `wait` at that time. It is that of the annotation `since`, else when the object was created.

    `default` is waited where no policy is known. `strictly`: it is met in the very second of that time, too.
    """

    code: Code
    named: str
    since: str = ""
    wait: Callable[[IdlingPolicy], timedelta] | None = None
    default: timedelta = timedelta()
    strictly: bool = False

    def longest(self, policies: Iterable[IdlingPolicy]) -> timedelta:
        """Return how long `policies` wait, of several the longest."""
        return self.default if self.wait is None else max(map(self.wait, policies), default=self.default)

    def __call__(self, case: IdlingCase) -> Fact | None:
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


MIN_AWAKE_BY_DEFAULT = timedelta(hours=2)  # where no policy is known
MIN_AWAKE = TimedCondition(
    ReasonCode.MIN_AWAKE, "since", Key.AWAKE_SINCE, lambda policy: policy.min_awake, MIN_AWAKE_BY_DEFAULT, strictly=True
)
KEPT_AWAKE = TimedCondition(ReasonCode.KEPT_AWAKE, "until", Key.AWAKE_UNTIL)
MIN_AGE = TimedCondition(ReasonCode.MIN_AGE, "at", wait=lambda policy: policy.min_age)


def awake_until(verdict: Verdict, record: Record, now: datetime) -> datetime:
    """Return how long what was scaled by hand stays up: `minAwake`, and until the open schedule window ends."""
    ends = [now + MIN_AWAKE.longest(verdict.policies), verdict.window_end(now)]
    if not verdict.won:
        ends.append(record.wake_due)
    return max(end for end in ends if end is not None)


def terminating(case: IdlingCase) -> Fact | None:
    scale = case.subject.scale
    return fact(ReasonCode.TERMINATING) if scale.written.terminating or scale.runs.terminating else None


def rollout(case: IdlingCase) -> Fact | None:
    workload = case.subject.scale.runs
    return rollout_of(workload) if in_rollout(workload) else None


def may_wake(case: IdlingCase) -> Fact | None:
    return waking(case.subject.verdict.won, ONLY_IDLE)


def observed(case: IdlingCase) -> Fact | None:
    verdict = case.subject.verdict
    return Fact(verdict.reasons, partial(verdict.change_if, NOT_IDLE)) if verdict.is_observed else None


def waking(verdicts: Iterable[PolicyVerdict], ended: Set[CriterionResult]) -> Fact | None:
    """Return what the first `wakeWhen` in `verdicts` says that is none of `ended`; it ends once all of them are."""
    said = [own.wake_when for own in verdicts if own.wake_when is not None and own.wake_when.result not in ended]
    return Fact(said[0].reasons, lambda: all_known(one.change_if(ended) for one in said)) if said else None
