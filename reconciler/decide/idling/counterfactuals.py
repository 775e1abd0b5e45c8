"""What would change what is decided about a workload. Only explanations ask for it: no decision looks at it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from reconciler.decide.annotations import AWAKE_UNTIL, format_time, parse_time
from reconciler.decide.decisions import WITHOUT_END
from reconciler.decide.fleet_guard import REMOVED_FLAG
from reconciler.decide.freeze import lifted
from reconciler.decide.idling.conditions import Fact, FactName, custom_kind_selector
from reconciler.decide.idling.rules import KEEP_UP, Choice, IdleAction, choose
from reconciler.decide.idling.subjects import IdleState, Subject
from reconciler.decide.idling.verdicts import CriterionResult, Evaluation
from reconciler.decide.reasons import (
    Counterfactual,
    CounterfactualCode,
    Reason,
    ReasonCode,
    change_if,
    field_is,
    joint_counterfactual,
)
from reconciler.decide.selectors import named_by
from reconciler.model import ObjectRef

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
