"""What is said of choices: why, what is undecided or overridden, and what would change it, which no decision reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.annotations import AWAKE_UNTIL, format_time, parse_time
from reconciler.decide.decisions import WITHOUT_END, DesiredState, Overridden, PolicyExplanation, Undecided
from reconciler.decide.fleet_guard import REMOVED_FLAG
from reconciler.decide.freeze import lifted
from reconciler.decide.idling.conditions import Fact, FactName, custom_kind_selector
from reconciler.decide.idling.notices import first_idles, notices, query_notices, undecided_by_equals, would_idle
from reconciler.decide.idling.observed import IdlingCluster
from reconciler.decide.idling.rules import KEEP_UP, Choice, IdleAction, choose, deciding_names, idled_by, owner_policy
from reconciler.decide.idling.subjects import NOT_OURS, IdleState, ServiceState, Subject, is_recorded
from reconciler.decide.idling.verdicts import CriterionResult, Evaluation
from reconciler.decide.reasons import (
    Counterfactual,
    CounterfactualCode,
    CounterfactualWhenAsked,
    Reason,
    ReasonCode,
    Reasons,
    change_if,
    field_is,
    joint_counterfactual,
    reason,
)
from reconciler.decide.selectors import left_out, named_by
from reconciler.model import ObjectRef, PodsQuestion, Run
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


def explained(clusters: Sequence[IdlingCluster], choices: Mapping[ObjectRef, Choice], run: Run) -> DesiredState:
    """Return what is said of `choices` and of what they were made from, without any decision."""
    services = [service for cluster in clusters for service in cluster.services]
    ordered = list(choices.values())
    unusable = (query_notices(cluster.name, cluster.problems) for cluster in clusters)
    return DesiredState(
        undecided=tuple(undecided(ordered, services)),
        overridden=tuple(overridden(ordered)),
        notices=(
            *notices(ordered, services, run),
            *chain.from_iterable(unusable),
            *first_idles(ordered),
            *undecided_by_equals(ordered),
        ),
        explanations=tuple(idling_explanations(choices, services)),
        questions=tuple(sorted(questions(ordered, services))),
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
        lift = CounterfactualWhenAsked(what_would_change, choice, choices)
        yield from _considered(choice, lift, kept_up_until(choice, choices))
    for service in services:
        if service.ref not in explained or service.found.undecided:
            why = _nothing_to_idle(service)
            for name in dict.fromkeys(verdict.policy.name for verdict in service.verdict.won):
                yield PolicyExplanation(service.ref, "idling", name, "left as it is", (why,))


def _nothing_to_idle(service: ServiceState) -> Reason:
    if service.found.undecided:
        return reason(ReasonCode.TARGETS_UNKNOWN, problem=service.found.undecided)
    return reason(ReasonCode.NO_WORKLOAD)


def _considered(choice: Choice, lift: CounterfactualWhenAsked, until: datetime | None) -> Iterator[PolicyExplanation]:
    subject = choice.subject
    owner = owner_policy(choice)
    whole = PolicyExplanation(
        ref=subject.scale.runs.ref,
        job="idling",
        policy=owner,
        outcome=_outcome(choice),
        reasons=choice.reasons,
        lift=lift,
        until=until,
        idled=(choice.ref, idled_by(choice)) if choice.was_idle else None,
        asleep=_asleep(choice),
        selected=False,
        written=choice.ref if subject.scale.is_paused_kind else None,
        services=tuple(service.ref for service in subject.services if is_recorded(service)),
    )
    names = dict.fromkeys(verdict.policy.name for verdict in subject.verdict.won)
    for name in names:
        selected, reasons = name not in subject.left_out_by, _reasons_under(choice, name)
        parts = _selected_by(subject, name) if selected else ()
        yield replace(whole, policy=name, selected=selected, selected_by=parts, reasons=reasons)
    for why in subject.verdict.excluded:
        yield replace(whole, policy=why.values["policy"], selected=False, idled=None, reasons=(why,))
    if not names and (whole.idled or not subject.verdict.excluded):
        yield whole


def _asleep(choice: Choice) -> int:
    record, scale = choice.record, choice.subject.scale
    if record is None or not choice.was_idle or scale.is_suspended_kind:
        return 0
    return max(0, record.replicas - scale.replicas)


def _reasons_under(choice: Choice, policy: str) -> Reasons:
    """Return the reasons as they stand under `policy`: where others decide, what it says itself comes first."""
    deciding = deciding_names(choice)
    if policy in choice.subject.left_out_by:
        why = left_out(choice.subject.production, (policy,))
        return (why,) if choice.because_of(FactName.PRODUCTION) else (*choice.reasons, why)
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
        wish = "idle" if differ[name].evaluation.result is CriterionResult.IDLE else "awake"
        why = reason(ReasonCode.HIGHER_PRIORITY, priority=winner.priority)
        if differ[name].policy.mode == "Observe":
            why = reason(ReasonCode.OBSERVES)
        yield Overridden(subject.scale.runs.ref, "idling", name, wish, winner.name, (why,))


def undecided(choices: Iterable[Choice], services: Iterable[ServiceState]) -> Iterator[Undecided]:
    """Yield what criteria do not know enough of, what cannot be scaled as it is, and the selected Services whose
    scalables are not all known.
    """
    for choice in choices:
        verdict, scale = choice.subject.verdict, choice.subject.scale
        if verdict.policy is None or choice.action not in (IdleAction.LEAVE, IdleAction.KEEP):
            continue
        if choice.because_of(FactName.PRODUCTION):
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


def questions(choices: Iterable[Choice], services: Iterable[ServiceState]) -> Iterator[PodsQuestion]:
    """Yield the pods that must be read: behind Services that would go idle if these pods were all there is to know."""
    behind: dict[ObjectRef, bool] = {}
    for choice in choices:
        for service in choice.subject.behind:
            behind[service.ref] = behind.get(service.ref, False) or FactName.PODS_UNREAD in choice.facts
    for service in services:
        if service.found.question is not None and behind.get(service.ref, would_idle(service)):
            yield service.found.question


Choices = Mapping[ObjectRef, Choice]

_A_WAKE_REQUEST = change_if(CounterfactualCode.WAKE_REQUEST)
_UNCONTESTED = change_if(CounterfactualCode.UNCONTESTED)
_RECORD_READABLE = change_if(CounterfactualCode.RECORD_READABLE)
_OF_STATE = {
    IdleState.UNREADABLE: _RECORD_READABLE,
    IdleState.UNPROVEN: change_if(CounterfactualCode.SCALED_OR_ADOPTED),
    IdleState.FOREIGN: _A_WAKE_REQUEST,
    IdleState.TAKEN_OVER: _A_WAKE_REQUEST,
    IdleState.CONTESTED: _UNCONTESTED,
}
_FROM_NEIGHBOURS = (FactName.RUNS_ELSEWHERE, FactName.SERVICE_RUNS, FactName.PODS_UNREAD)


def what_would_change(choice: Choice, choices: Choices) -> Counterfactual | None:
    """Return the smallest change that would make another action of `choice`, None where none is known.

    `choices` are all that were made with it.
    """
    if choice.action is IdleAction.DEFER:
        return field_is("perRun", f"above {choice.reasons[0].values['perRun']}")
    return _change(choice, choices)


def _change(choice: Choice, choices: Choices) -> Counterfactual | None:
    rule, action, name = choose(choice.state, choice.subject.verdict.result, choice.facts)
    if action is not rule.action:
        return change_if(CounterfactualCode.CLUSTER_STATE)
    if choice.state in _OF_STATE and (name is None or rule.action is IdleAction.OVERDUE):
        return _OF_STATE[choice.state]
    fact = None if name is None else choice.facts.get(name)
    if fact is not None:
        return _change_of_fact(fact, choice, choices)
    if choice.state is IdleState.DOWN:
        return _more_replicas(choice.subject)
    if rule.reason is not None:
        return None
    return _change_of_verdict(choice, rule.action)


def kept_up_until(choice: Choice, choices: Choices) -> datetime | None:
    """Return until when nothing but time keeps `choice` up, None where something else does.

    It is `WITHOUT_END` where its criteria no longer call it idle by then.
    """
    if choice.fact is None or choice.fact.until is None or choice.action is not IdleAction.LEAVE:
        return None
    if any(fact.until is None for fact in _keeping_up(choice)):
        return None
    change = what_would_change(choice, choices)
    if change is None or change.code is CounterfactualCode.ANNOTATION_REMOVED:
        return WITHOUT_END
    return parse_time(str(change.values["at"])) if _is_time(change) else None


def _keeping_up(choice: Choice) -> Iterator[Fact]:
    """Yield what keeps it up, without what others say that it goes idle together with."""
    found = (choice.facts.get(name) for name in KEEP_UP if name not in _FROM_NEIGHBOURS)
    return (fact for fact in found if fact is not None)


def _change_of_fact(fact: Fact, choice: Choice, choices: Choices) -> Counterfactual | None:
    """Return what makes `fact`, the reason, hold no more; where that is time, with all else that keeps it up."""
    change, own = _lift(fact, choice, choices), fact.name in KEEP_UP and fact.name not in _FROM_NEIGHBOURS
    if not own or choice.action is not IdleAction.LEAVE or not _is_time(change):
        return change
    lifts = (_lift(one, choice, choices) for one in _keeping_up(choice))
    return what_lifts(lifts, choice.subject.verdict.until)


def _change_of_verdict(choice: Choice, action: IdleAction) -> Counterfactual | None:
    verdict = choice.subject.verdict
    if action is IdleAction.WAKE:
        return change_if(CounterfactualCode.POLICY)
    if action is IdleAction.KEEP and verdict.result is CriterionResult.BUSY:
        return _A_WAKE_REQUEST
    excluded = choice.facts.get(FactName.EXCLUDED)
    lift = None if excluded is None else _lift(excluded, choice, {})
    return joint_counterfactual(CounterfactualCode.ALL, (_change_of_criteria(verdict.deciding), lift))


def what_lifts(changes: Iterable[Counterfactual | None], ends: datetime | None) -> Counterfactual | None:
    """Return what lifts several facts, where each of `changes` lifts one; None where that is not known.

    Of several times it is the latest. One at or after `ends`, when the criteria no longer call it idle, comes too late:
    then it takes the removal of the annotation with the time.
    """
    in_time = [_in_time(part, ends) for change in changes for part in _parts_of(change)]
    if None in in_time:
        return None
    known = [one for one in in_time if one is not None]
    latest = max((one for one in known if _is_time(one)), key=lambda one: str(one.values["at"]), default=None)
    return joint_counterfactual(CounterfactualCode.ALL, (latest, *(one for one in known if not _is_time(one))))


def _parts_of(change: Counterfactual | None) -> tuple[Counterfactual | None, ...]:
    return change.parts if change is not None and change.code is CounterfactualCode.ALL else (change,)


def _in_time(change: Counterfactual | None, ends: datetime | None) -> Counterfactual | None:
    if change is None or ends is None or not _is_time(change) or change.values["at"] < format_time(ends):
        return change
    key = change.values.get("annotation")
    return _removed(key) if key else None


def _is_time(change: Counterfactual | None) -> bool:
    """Return whether `change` is only a matter of time."""
    return change is not None and change.code is CounterfactualCode.AFTER


def after(at: datetime, annotation: str = "") -> Counterfactual:
    """Return that it changes by itself once `at` is over, which `annotation` says if it is one."""
    return change_if(CounterfactualCode.AFTER, at=at, annotation=annotation)


def _removed(annotation: str) -> Counterfactual:
    return change_if(CounterfactualCode.ANNOTATION_REMOVED, annotation=annotation)


def _more_replicas(subject: Subject) -> Counterfactual:
    return change_if(CounterfactualCode.MORE_REPLICAS, replicas=subject.verdict.idle_replicas)


# What lifts one fact.


def _lift(fact: Fact, choice: Choice, choices: Choices) -> Counterfactual | None:
    if fact.neighbour is not None:
        return _change(choices[fact.neighbour], choices)
    find = _LIFTS.get(fact.name)
    return None if find is None else find(fact, choice)


def _of_time(fact: Fact, _choice: Choice) -> Counterfactual | None:
    return None if fact.until is None else after(fact.until, AWAKE_UNTIL if fact.name is FactName.KEPT_AWAKE else "")


def _of_exclusion(_fact: Fact, choice: Choice) -> Counterfactual | None:
    found = choice.subject.exclusion
    return _UNCONTESTED if found is None else found.counterfactual


def _of_busy(fact: Fact, choice: Choice) -> Counterfactual | None:
    verdict = choice.subject.verdict
    if fact.name is FactName.BUSY:
        return None if verdict.busy is None else change_of_criteria(verdict.busy.evaluation)
    found = verdict.wake_when_blocker if fact.name is FactName.MAY_WAKE else None
    if fact.name is FactName.WAKE_WHEN and verdict.wake_when is not None:
        found = verdict.wake_when.wake_when
    return None if found is None else change_of_criteria(found)


def _of_observing(fact: Fact, choice: Choice) -> Counterfactual | None:
    verdict = choice.subject.verdict
    if not verdict.enforcing:
        return _change_of_criteria(verdict.deciding)
    return field_is("mode", f"Enforce in {' and '.join(fact.why[0].values['policies'])}")


def _of_custom_kind(fact: Fact, choice: Choice) -> Counterfactual:
    selector = custom_kind_selector(choice.subject)
    return change_if(CounterfactualCode.NAMED, selector=selector, policies=fact.why[0].values["policies"])


def _of_reason(fact: Fact, _choice: Choice) -> Counterfactual | None:
    """Return what lifts a fact that may have several reasons, by the one it has."""
    first = fact.why[0]
    if first.code is ReasonCode.SET_BY_OTHERS:
        return _removed(first.values["annotation"])
    return _OF_REASON.get(first.code)


_OF_REASON = {
    ReasonCode.UNREADABLE: change_if(CounterfactualCode.READABLE),
    ReasonCode.SERVICE_RECORD_UNREADABLE: _RECORD_READABLE,
    ReasonCode.SERVICE_FOREIGN: change_if(CounterfactualCode.RECORD_REMOVED),
    ReasonCode.KEDA_LEFT: field_is("autoscalers.keda", "Pause"),
    ReasonCode.HPA_LEFT: field_is("autoscalers.hpa", "Idle"),
}


def _always(change: Counterfactual) -> Callable[[Fact, Choice], Counterfactual]:
    return lambda _fact, _choice: change


_LIFTS: Mapping[FactName, Callable[[Fact, Choice], Counterfactual | None]] = {
    FactName.REQUESTED: _of_time,
    FactName.EXCLUDED: _of_exclusion,
    FactName.BUSY: _of_busy,
    FactName.WAKE_WHEN: _of_busy,
    FactName.FLOOR: lambda fact, _choice: field_is("idleReplicas", f"below {fact.why[0].values['replicas']}"),
    FactName.GUARDED: _always(change_if(CounterfactualCode.FLAG, flag=REMOVED_FLAG)),
    FactName.PROTECTED: _always(change_if(CounterfactualCode.UNPROTECTED)),
    FactName.BOUNDS: _always(change_if(CounterfactualCode.FLAG, flag="--context in place of the Fleet")),
    FactName.INSISTS: lambda _fact, choice: field_is("onRevert", f"Yield in {choice.subject.verdict.policies[0].name}"),
    FactName.PRODUCTION: lambda _fact, choice: named_by(choice.subject.left_out_by),
    FactName.RESTRICTED: lambda _fact, choice: lifted(choice.subject.cluster),
    FactName.EQUAL_PRIORITIES: _always(change_if(CounterfactualCode.DIFFERENT_PRIORITIES)),
    FactName.UNREADABLE: _of_reason,
    FactName.CUSTOM_KIND: _of_custom_kind,
    FactName.AUTOSCALED: _of_reason,
    FactName.AT_IDLE_REPLICAS: lambda _fact, choice: _more_replicas(choice.subject),
    FactName.TIME_UNREADABLE: _always(change_if(CounterfactualCode.TIME_READABLE)),
    FactName.MIN_AWAKE: _of_time,
    FactName.KEPT_AWAKE: _of_time,
    FactName.MIN_AGE: _of_time,
    FactName.ROLLOUT: _always(change_if(CounterfactualCode.ROLLOUT_ENDS)),
    FactName.MAY_WAKE: _of_busy,
    FactName.OBSERVED: _of_observing,
}


# What changes what criteria say.


def _change_of_criteria(evaluations: Iterable[Evaluation]) -> Counterfactual | None:
    """Return what changes all of `evaluations`."""
    return joint_counterfactual(CounterfactualCode.ALL, map(change_of_criteria, evaluations))


def change_of_criteria(evaluation: Evaluation) -> Counterfactual | None:
    """Return the smallest change that would make another result of `evaluation`, None where none is known."""
    if evaluation.parts:
        code = CounterfactualCode.ANY if evaluation.any_part else CounterfactualCode.ALL
        return joint_counterfactual(code, map(change_of_criteria, evaluation.parts))
    return _change_of_criterion(evaluation.reasons[0]) if evaluation.reasons else None


_SCHEDULES = {
    ReasonCode.OUTSIDE_UPTIME: (CounterfactualCode.WINDOW, "uptime"),
    ReasonCode.IN_UPTIME: (CounterfactualCode.END, "uptime"),
    ReasonCode.UPTIME_EXCEPTION: (CounterfactualCode.END, "uptime"),
    ReasonCode.IN_DOWNTIME: (CounterfactualCode.END, "schedule"),
    ReasonCode.OUTSIDE_DOWNTIME: (CounterfactualCode.ANOTHER_WINDOW, "schedule"),
    ReasonCode.DOWNTIME_OVER: (CounterfactualCode.ANOTHER_WINDOW, "schedule"),
}
_METRICS = {
    ReasonCode.METRIC_IDLE: (CounterfactualCode.METRIC_ABOVE, "atMost"),
    ReasonCode.METRIC_BUSY: (CounterfactualCode.METRIC_AT_MOST, "atMost"),
    ReasonCode.WAKE_WHEN_TRUE: (CounterfactualCode.METRIC_AT_MOST, "above"),
    ReasonCode.WAKE_WHEN_FALSE: (CounterfactualCode.METRIC_ABOVE, "above"),
}
_OTHER_CRITERIA = {
    ReasonCode.METRIC_UNKNOWN: change_if(CounterfactualCode.METRIC_KNOWN),
    ReasonCode.WAKE_WHEN_UNKNOWN: change_if(CounterfactualCode.METRIC_KNOWN),
    ReasonCode.NO_CRITERION: change_if(CounterfactualCode.CRITERION),
}


def _change_of_criterion(said: Reason) -> Counterfactual | None:
    """Return what changes one criterion: a schedule by itself, where it knows when, and a metric at its bound."""
    if said.code in _METRICS:
        code, bound = _METRICS[said.code]
        return change_if(code, bound=said.values[bound])
    if said.code not in _SCHEDULES:
        return _OTHER_CRITERIA.get(said.code)
    if "until" in said.values:
        return change_if(CounterfactualCode.AT, at=said.values["until"], timeZone=said.values["timeZone"])
    code, stated = _SCHEDULES[said.code]
    return change_if(code, calendar=f"{stated} {said.values['calendar']}")
