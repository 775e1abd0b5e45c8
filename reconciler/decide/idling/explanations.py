"""What is said of choices: why each, and what is undecided or overridden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.change_codes import ChangeIfWhenAsked
from reconciler.decide.decisions import DesiredState, Overridden, PolicyExplanation, Undecided, equal_priorities
from reconciler.decide.idling.change_if import change_if_of, kept_up_until
from reconciler.decide.idling.choices import Choice, deciding_names, idled_by, owner_policy
from reconciler.decide.idling.conditions import Condition
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.notices import first_idles, notices, query_notices
from reconciler.decide.idling.observed import IdlingCluster
from reconciler.decide.idling.rules import IdleAction
from reconciler.decide.idling.subjects import NOT_OURS, IdleState, ServiceState, Subject, is_recorded
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, reason
from reconciler.decide.selectors import left_out
from reconciler.model import ObjectRef, Run
from reconciler.policy.types import IdlingPolicy

_LEFT = (*NOT_OURS, IdleState.UNREADABLE, IdleState.DOWN, IdleState.TAKEN_OVER)
_TAKEN = (IdleState.TAKEN_OVER, IdleAction.RELEASE)
_OUTCOMES = {
    IdleAction.IDLE: "goes idle",
    IdleAction.OBSERVE: "would go idle",
    IdleAction.KEEP: "stays idle",
    IdleAction.WAKE: "wakes",
    IdleAction.RELEASE: "stays awake",
    IdleAction.CLEAR: "stays awake",
    IdleAction.HOLD_BACK: "stays idle",
    IdleAction.OVERDUE: "stays idle",
    IdleAction.DEFER: "stays idle",
}
_OUTCOMES_OF_MINIMUM = {
    IdleAction.IDLE: "gets a lower minimum",
    IdleAction.OBSERVE: "would get a lower minimum",
    IdleAction.KEEP: "keeps its lower minimum",
    IdleAction.WAKE: "gets its minimum back",
    IdleAction.RELEASE: "keeps the minimum that it was given",
}


def explained(clusters: Sequence[IdlingCluster], choices: Mapping[ObjectRef, Choice], run: Run) -> DesiredState:
    """Return what is said of `choices` and of what they were made from, without any decision."""
    services = [service for cluster in clusters for service in cluster.services]
    ordered = list(choices.values())
    equals = ((choice.subject.verdict.equal_policies, choice.ref) for choice in ordered)
    unusable = (query_notices(cluster.name, cluster.problems) for cluster in clusters)
    return DesiredState(
        undecided=tuple(undecided(ordered, services)),
        overridden=tuple(overridden(ordered)),
        notices=(
            *notices(ordered, services, run),
            *chain.from_iterable(unusable),
            *first_idles(ordered),
            *equal_priorities(equals, "newly idled"),
        ),
        explanations=tuple(idling_explanations(choices, services)),
    )


def idling_explanations(
    choices: Mapping[ObjectRef, Choice], services: Iterable[ServiceState]
) -> Iterator[PolicyExplanation]:
    """Yield, for every scalable and every policy that selects it or owns its records, what becomes of it and why.

    A selected Service is explained by itself only where no scalable is behind it, or not all are known.
    """
    explained: set[ObjectRef] = set()
    for choice in choices.values():
        explained.update(service.ref for service in choice.subject.behind)
        change = ChangeIfWhenAsked(change_if_of, choice, choices)
        yield from _considered(choice, change, kept_up_until(choice))
    for service in services:
        if service.ref not in explained or service.found.undecided:
            why = _nothing_to_idle(service)
            for name in dict.fromkeys(verdict.policy.name for verdict in service.verdict.won):
                yield PolicyExplanation(service.ref, "idling", name, "left as it is", (why,))


def _nothing_to_idle(service: ServiceState) -> Reason:
    if service.found.undecided:
        return reason(ReasonCode.TARGETS_UNKNOWN, problem=service.found.undecided)
    return reason(ReasonCode.NO_WORKLOAD)


def _considered(choice: Choice, change: ChangeIfWhenAsked, until: datetime | None) -> Iterator[PolicyExplanation]:
    subject = choice.subject
    owner = owner_policy(choice)
    whole = PolicyExplanation(
        ref=subject.scale.runs.ref,
        job="idling",
        policy=owner,
        outcome=_outcome(choice),
        reasons=(*choice.reasons, *_of_autoscaler(choice)),
        change=change,
        until=until,
        idled=(choice.ref, idled_by(choice)) if choice.was_idle else None,
        asleep=_asleep(choice),
        idled_at=choice.record.idled_at if choice.record is not None and choice.was_idle else None,
        requests=subject.scale.runs.requests,
        selected=False,
        written=choice.ref if subject.scale.is_paused_kind or subject.scale.steered else None,
        services=tuple(service.ref for service in subject.services if is_recorded(service)),
    )
    names = dict.fromkeys(verdict.policy.name for verdict in subject.verdict.won)
    for name in names:
        selected = name not in subject.left_out_by
        reasons = (*_reasons_under(choice, name), *_of_autoscaler(choice))
        parts = _selected_by(subject, name) if selected else ()
        yield replace(whole, policy=name, selected=selected, selected_by=parts, reasons=reasons)
    for why in subject.verdict.excluded:
        yield replace(whole, policy=why.values["policy"], selected=False, idled=None, reasons=(why,))
    if not names and (whole.idled or not subject.verdict.excluded):
        yield whole


def _asleep(choice: Choice) -> int:
    record, scale = choice.record, choice.subject.scale
    if record is None or not choice.was_idle or not scale.counts:
        return 0
    return max(0, record.replicas - scale.replicas)


def _of_autoscaler(choice: Choice) -> Reasons:
    """Return what an autoscaler that is changed in place of the workload does with it."""
    scale, record = choice.subject.scale, choice.record
    name = f"HorizontalPodAutoscaler/{choice.ref.name}"
    if scale.steered == "ScaleUp":
        kept = choice.stays_idle
        return (reason(ReasonCode.HPA_KEPT_AT_ZERO if kept else ReasonCode.HPA_AT_ZERO, autoscaler=name),)
    if scale.steered != "Minimum" or record is None or not (choice.was_idle and choice.stays_idle):
        return ()
    return (reason(ReasonCode.HPA_LOWERED, autoscaler=name, minReplicas=scale.replicas, previous=record.replicas),)


def _reasons_under(choice: Choice, policy: str) -> Reasons:
    """Return the reasons as they stand under `policy`: where others decide, what it says itself comes first."""
    deciding = deciding_names(choice)
    if policy in choice.subject.left_out_by:
        why = left_out(choice.subject.production, (policy,))
        return (why,) if choice.because_of(Condition.PRODUCTION) else (*choice.reasons, why)
    if not deciding or policy in deciding:
        return choice.reasons
    verdicts = choice.subject.verdict.won
    own = next(verdict.evaluation.reasons for verdict in verdicts if verdict.policy.name == policy)
    return (*own, reason(ReasonCode.OTHER_POLICY, policies=deciding), *choice.reasons)


def _selected_by(subject: Subject, policy: str) -> tuple[str, ...]:
    """Return which parts of the selector of `policy` select `subject`."""
    services = [
        service for service in subject.behind if any(verdict.policy.name == policy for verdict in service.verdict.won)
    ]
    names = ", ".join(f"Service/{service.ref.name}" for service in services)
    return (*([f"services ({names})"] if names else []), *(["workloads"] if policy in subject.direct else []))


def _outcome(choice: Choice) -> str:
    if choice.subject.scale.steered == "Minimum" and choice.action in _OUTCOMES_OF_MINIMUM:
        return _OUTCOMES_OF_MINIMUM[choice.action]
    if choice.action is not IdleAction.LEAVE and (choice.state, choice.action) != _TAKEN:
        return _OUTCOMES[choice.action]
    return "left as it is" if choice.state in _LEFT else "stays awake"


def overridden(choices: Iterable[Choice]) -> Iterator[Overridden]:
    """Yield the wishes of policies that others of higher priority win over, where they differ."""
    for choice in choices:
        winner = choice.subject.verdict.policy
        if winner is not None:
            yield from _overridden_by(winner, choice.subject)


def _overridden_by(winner: IdlingPolicy, subject: Subject) -> Iterator[Overridden]:
    same = (subject.verdict.result, CriterionResult.UNKNOWN)
    differ = {one.policy.name: one for one in subject.verdict.lost if one.evaluation.result not in same}
    for name in sorted(differ):
        desired = "idle" if differ[name].evaluation.result is CriterionResult.IDLE else "awake"
        why = reason(ReasonCode.HIGHER_PRIORITY, priority=winner.priority)
        if differ[name].policy.mode == "Observe":
            why = reason(ReasonCode.OBSERVES)
        yield Overridden(subject.scale.runs.ref, "idling", name, desired, winner.name, (why,))


def undecided(choices: Iterable[Choice], services: Iterable[ServiceState]) -> Iterator[Undecided]:
    """Yield what criteria do not know enough of, what cannot be scaled as it is, and the selected Services whose
    scalables are not all known.
    """
    for choice in choices:
        verdict, scale = choice.subject.verdict, choice.subject.scale
        if verdict.policy is None or choice.action not in (IdleAction.LEAVE, IdleAction.KEEP):
            continue
        if choice.because_of(Condition.PRODUCTION):
            continue
        if verdict.result is CriterionResult.UNKNOWN:
            unknown = next(one for one in verdict.won if one.evaluation.result is CriterionResult.UNKNOWN)
            yield Undecided(str(scale.runs.ref), "idling", unknown.policy.name, verdict.reasons)
        elif verdict.result is CriterionResult.IDLE and scale.problem:
            why = reason(ReasonCode.NOT_SCALABLE, problem=scale.problem)
            yield Undecided(str(scale.runs.ref), "idling", verdict.policy.name, (why,))
    for service in services:
        if service.is_selected and service.found.undecided:
            yield Undecided(
                str(service.ref), "idling", service.verdict.won[0].policy.name, (_nothing_to_idle(service),)
            )
