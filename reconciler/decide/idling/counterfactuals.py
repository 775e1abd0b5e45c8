"""What would change what is decided about a workload. Only explanations ask for it: no decision looks at it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from datetime import datetime
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.annotations import AWAKE_UNTIL, format_time, parse_time
from reconciler.decide.decisions import WITHOUT_END
from reconciler.decide.fleet_guard import REMOVED_FLAG
from reconciler.decide.freeze import lifted
from reconciler.decide.idling.conditions import Fact, FactName, custom_kind_selector, excluding_contest
from reconciler.decide.idling.rules import KEEP_UP, Choice, IdleAction, Rule, choice_of, choose
from reconciler.decide.idling.state import classify
from reconciler.decide.idling.subjects import IdleState, Subject
from reconciler.decide.idling.verdicts import CriterionResult, Evaluation, PolicyVerdict, schedules_of
from reconciler.decide.reasons import (
    Counterfactual,
    CounterfactualCode,
    ReasonCode,
    change_if,
    field_is,
    joint_counterfactual,
)
from reconciler.decide.schedule import is_open, open_until, opens_next
from reconciler.decide.selectors import named_by
from reconciler.model import ObjectRef

Choices = Mapping[ObjectRef, Choice]

_A_WAKE_REQUEST = change_if(CounterfactualCode.WAKE_REQUEST)
_UNCONTESTED = change_if(CounterfactualCode.UNCONTESTED)
_ANOTHER_CLUSTER_STATE = change_if(CounterfactualCode.CLUSTER_STATE)
_RECORD_READABLE = change_if(CounterfactualCode.RECORD_READABLE)
_OF_STATE = {
    IdleState.UNREADABLE: _RECORD_READABLE,
    IdleState.UNPROVEN: change_if(CounterfactualCode.SCALED_OR_ADOPTED),
    IdleState.FOREIGN: _A_WAKE_REQUEST,
    IdleState.TAKEN_OVER: _A_WAKE_REQUEST,
}
_BY_NEIGHBOURS = frozenset({FactName.RUNS_ELSEWHERE, FactName.SERVICE_RUNS, FactName.OBSERVED})
"""What ends when others are decided otherwise, where it names them."""


def what_would_change(choice: Choice, choices: Choices) -> Counterfactual | None:
    """Return the smallest change that would make another action of `choice`, None where none is known.

    When all that it names comes true, the action is another one. `choices` are all that were made with it.
    """
    if choice.action is IdleAction.DEFER:
        return field_is("perRun", f"above {choice.reasons[0].values['perRun']}")
    if choice.action not in (IdleAction.LEAVE, IdleAction.OBSERVE):
        return _together((choice,))
    observed = choice.action is IdleAction.OBSERVE
    others = [one for one in _going_idle_together(choice, choices) if one is not choice]
    return _together((choice, *(one for one in others if one.holds_others_up or (observed and _is_observed(one)))))


def kept_up_until(choice: Choice) -> datetime | None:
    """Return until when nothing but time keeps `choice` up by itself, None where something else does.

    It is `WITHOUT_END` where its criteria no longer call it idle by then.
    """
    if choice.fact is None or choice.fact.until is None or choice.action is not IdleAction.LEAVE:
        return None
    keeping_up = (choice.facts.get(name) for name in KEEP_UP if name not in _NOT_OWN)
    if any(fact is not None and fact.until is None for fact in keeping_up):
        return None
    change = _together((choice,))
    if change is None or change.code is CounterfactualCode.ANNOTATION_REMOVED:
        return WITHOUT_END
    return parse_time(str(change.values["at"])) if _is_time(change) else None


def _is_observed(choice: Choice) -> bool:
    return choice.action is IdleAction.OBSERVE


_OF_NEIGHBOURS = (*_BY_NEIGHBOURS, FactName.PODS_UNREAD, FactName.CLUSTER_UNREAD, FactName.FEDERATED_PAUSED)
_NOT_OWN = (FactName.RUNS_ELSEWHERE, FactName.SERVICE_RUNS, FactName.PODS_UNREAD)


def _going_idle_together(choice: Choice, choices: Choices) -> list[Choice]:
    """Return `choice`, and all that it goes idle together with: behind Services, and what its facts name."""
    behind: dict[ObjectRef, list[Choice]] = {}
    for one in choices.values():
        for service in one.subject.behind:
            behind.setdefault(service.ref, []).append(one)
    found = {choice.ref: choice}
    waiting = [choice]
    while waiting:
        current = waiting.pop()
        named = [choices[ref] for name in _BY_NEIGHBOURS for ref in _neighbours(name, current)]
        others = [one for service in current.subject.behind for one in behind[service.ref]]
        new = {one.ref: one for one in (*named, *others) if one.ref not in found}
        found |= new
        waiting += new.values()
    return list(found.values())


def _neighbours(name: FactName, choice: Choice) -> tuple[ObjectRef, ...]:
    fact = choice.facts.get(name)
    return () if fact is None else fact.neighbours


def _together(choices: Sequence[Choice]) -> Counterfactual | None:
    """Return what makes another action of the first of `choices`, and lets what keeps it up go idle: the others."""
    ends = [end for choice in choices if (end := _end(choice)) is not None]
    lifts = list(_lifts(choices[0]))
    lifts += chain.from_iterable(_lifts_of_other(other, choices[0].ref.cluster) for other in choices[1:])
    return what_lifts(lifts, min(ends, default=None))


def _lifts_of_other(other: Choice, cluster: str) -> Iterator[Counterfactual | None]:
    """Yield what lets `other` go idle, each with its name, as it is called on `cluster`."""
    ref = other.subject.scale.runs.ref
    named = f"{_name(other)}{'' if ref.cluster == cluster else f' on {ref.cluster}'}"
    if other.state in (IdleState.FOREIGN, IdleState.UNREADABLE):
        found = _without_its_record(other, named)
    else:  # a request wakes it: nothing else would go idle
        found = iter((None,)) if other.state in _OF_STATE else _lifts(other)
    yield from (None if one is None else one.of(named) for one in found)


def _name(choice: Choice) -> str:
    ref = choice.subject.scale.runs.ref
    return f"{ref.kind}/{ref.name}"


def _without_its_record(choice: Choice, name: str) -> Iterator[Counterfactual | None]:
    """Yield that its record goes, and what keeps it up then: without the record it is like any other."""
    if choice.subject.reading is not None:
        yield change_if(CounterfactualCode.RECORD_REMOVED, object=name)
    subject = replace(choice.subject, reading=None)
    state, record = classify(subject)
    if state is IdleState.FOREIGN:  # by the record of its Service, which is named as what keeps it up
        state, record = IdleState.AWAKE, None
    without = choice_of(replace(subject, state=state, record=record), choice.facts.guards, choice.facts.now)
    for name_ in _OF_NEIGHBOURS:
        fact = choice.facts.get(name_)
        without = without if fact is None else without.with_fact(fact)
    yield from _lifts_of_causes(replace(without, action=choice.action))


def _lifts(choice: Choice) -> Iterator[Counterfactual | None]:
    """Yield what lifts the causes of the action of `choice`, one after the other until it is another one.

    None where nothing that is known does. What others are the cause of is left out: they are asked by themselves.
    """
    record = choice.record
    runs = record is None or not choice.subject.scale.is_at_or_below(record.idled_to)
    if choice.state is IdleState.FOREIGN and runs:  # no request counts
        return _without_its_record(choice, _name(choice))
    return _lifts_of_causes(choice)


def _lifts_of_causes(choice: Choice) -> Iterator[Counterfactual | None]:
    state, result = choice.state, choice.subject.verdict.result
    held = {name for name in FactName if name in choice.facts and not _neighbours(name, choice)}
    while True:
        rule, action, name = choose(state, result, held)
        if action is not choice.action:
            return
        if action is not rule.action:
            yield _ANOTHER_CLUSTER_STATE
            return
        if state in _OF_STATE and (name is None or rule.action is IdleAction.OVERDUE):
            read_only = FactName.READ_ONLY in held and _OF_STATE[state] is _A_WAKE_REQUEST
            yield from (_OF_STATE[state], _ANOTHER_CLUSTER_STATE) if read_only else (_OF_STATE[state],)
            return
        if name is not None:
            yield _lift(choice.facts.get(name), choice)
            held.remove(name)
            result = _not_busy(choice) if name is FactName.BUSY else result
        elif state is IdleState.CONTESTED:
            yield _UNCONTESTED
            state = IdleState.AWAKE
        elif state is IdleState.AWAKE and result is not CriterionResult.IDLE and rule.reason is None:
            yield _change_to_idle(choice)
            result = CriterionResult.IDLE
        else:
            yield from _last(choice, rule, held)
            return


def _last(choice: Choice, rule: Rule, held: Container[FactName]) -> Iterator[Counterfactual | None]:
    """Yield what makes another action where neither state nor facts are the cause."""
    verdict = choice.subject.verdict
    if choice.state is IdleState.DOWN:
        yield _more_replicas(choice.subject)
    elif rule.reason is not None:
        yield None
    elif rule.action is IdleAction.WAKE:
        yield change_if(CounterfactualCode.POLICY)
    elif rule.action is not IdleAction.KEEP:
        yield _all(change_of_criteria(one, _NOT_IDLE) for one in verdict.deciding)
    else:
        is_woken = verdict.result is not CriterionResult.BUSY and not verdict.wakes_on_requests_only
        waking = [one.evaluation for one in verdict.won if one.wakes]
        yield _all(change_of_criteria(one, _BUSY) for one in waking) if is_woken else _A_WAKE_REQUEST
        if FactName.READ_ONLY in held:
            yield _ANOTHER_CLUSTER_STATE


def _change_to_idle(choice: Choice) -> Counterfactual | None:
    said = [one.evaluation for one in choice.subject.verdict.won]
    return _all(change_of_criteria(one, _IDLE) for one in said if one.result is not CriterionResult.IDLE)


def _not_busy(choice: Choice) -> CriterionResult:
    """Return the result where no policy that wakes automatically calls it busy."""
    said = {one.evaluation.result for one in choice.subject.verdict.won if one not in _busy(choice)}
    found = (result for result in (CriterionResult.BUSY, CriterionResult.UNKNOWN) if result in said)
    return next(found, CriterionResult.IDLE)


def _busy(choice: Choice) -> list[PolicyVerdict]:
    return [one for one in choice.subject.verdict.won if one.wakes and one.evaluation.result is CriterionResult.BUSY]


def _end(choice: Choice) -> datetime | None:
    """Return when the criteria of `choice` no longer call it idle, now or in their next window; None for never."""
    verdict = choice.subject.verdict
    if verdict.result is CriterionResult.IDLE or choice.was_idle:
        return verdict.until
    calendars = [calendar for policy in verdict.policies for calendar in schedules_of(policy.idle_when)]
    starts = [
        opens
        for one in calendars
        if not is_open(one, choice.facts.now) and (opens := opens_next(one, choice.facts.now))
    ]
    ends = (open_until(one, max(starts, default=choice.facts.now)) for one in calendars)
    return min((end for end in ends if end is not None), default=None)


def _all(changes: Iterable[Counterfactual | None]) -> Counterfactual | None:
    """Return `changes` as one, None where one of them is not known."""
    found = tuple(changes)
    return None if None in found else joint_counterfactual(CounterfactualCode.ALL, found)


def what_lifts(changes: Iterable[Counterfactual | None], ends: datetime | None) -> Counterfactual | None:
    """Return what lifts several causes, where each of `changes` lifts one; None where that is not known.

    Of several times it is the latest. One at or after `ends`, when the criteria no longer call it idle, comes too late:
    then it takes the removal of the annotation with the time.
    """
    in_time = [_in_time(part, ends) for change in changes for part in _parts_of(change)]
    if None in in_time:
        return None
    known = [one for one in in_time if one is not None]
    latest = max((one for one in known if _is_time(one)), key=_at, default=None)
    windows = [one for one in known if one.code is CounterfactualCode.AT]
    if latest is not None and any(_at(one) >= _at(latest) for one in windows):
        latest = None
    later = [one for one in known if one not in windows or latest is None]
    return joint_counterfactual(CounterfactualCode.ALL, (latest, *(one for one in later if not _is_time(one))))


def _at(change: Counterfactual) -> str:
    return str(change.values["at"])


def _parts_of(change: Counterfactual | None) -> tuple[Counterfactual | None, ...]:
    return change.parts if change is not None and change.code is CounterfactualCode.ALL else (change,)


def _in_time(change: Counterfactual | None, ends: datetime | None) -> Counterfactual | None:
    if change is None or ends is None or not _is_time(change) or change.values["at"] < format_time(ends):
        return change
    values = change.values
    return (
        change_if(CounterfactualCode.ANNOTATION_REMOVED, **{**values, "at": None}) if "annotation" in values else None
    )


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


def _lift(fact: Fact | None, choice: Choice) -> Counterfactual | None:
    find = None if fact is None else _LIFTS.get(fact.name)
    return None if fact is None or find is None else find(fact, choice)


def _of_time(fact: Fact, _choice: Choice) -> Counterfactual | None:
    return None if fact.until is None else after(fact.until, AWAKE_UNTIL if fact.name is FactName.KEPT_AWAKE else "")


def _of_exclusion(_fact: Fact, choice: Choice) -> Counterfactual | None:
    """Return what ends every exclusion; the object that has it is named where it is not the one in question."""
    subject = choice.subject
    ends = [
        one.counterfactual.of(one.on)
        if one.counterfactual is not None and one.on not in ("", _name(choice))
        else one.counterfactual
        for one in subject.exclusions
    ]
    if excluding_contest(subject) is not None:
        ends.append(_UNCONTESTED)
    return _all(ends)


def _of_busy(_fact: Fact, choice: Choice) -> Counterfactual | None:
    return _all(change_of_criteria(one.evaluation, _NOT_BUSY) for one in _busy(choice))


def _of_wake_when(fact: Fact, choice: Choice) -> Counterfactual | None:
    """Return that no `wakeWhen` holds, or with MAY_WAKE that none may hold."""
    wakes = fact.name is FactName.WAKE_WHEN
    said = [one.wake_when for one in choice.subject.verdict.won if one.wakes or not wakes]
    above = [change_if(CounterfactualCode.METRIC_AT_MOST, bound=bound) for one in said for bound in one.above]
    unknown = [bound for one in said for bound in one.unknown if not wakes]
    return _all([*above, *(change_if(CounterfactualCode.METRIC_KNOWN, atMost=bound) for bound in unknown)])


def _of_observing(fact: Fact, choice: Choice) -> Counterfactual | None:
    verdict = choice.subject.verdict
    if not verdict.enforcing:
        return _all(change_of_criteria(one, _NOT_IDLE) for one in verdict.deciding)
    return field_is("mode", f"Enforce in {' and '.join(fact.why[0].values['policies'])}")


def _of_custom_kind(fact: Fact, choice: Choice) -> Counterfactual:
    selector = custom_kind_selector(choice.subject)
    return change_if(CounterfactualCode.NAMED, selector=selector, policies=fact.why[0].values["policies"])


def _of_reason(fact: Fact, _choice: Choice) -> Counterfactual | None:
    """Return what lifts a fact that may have several reasons, by the one it has."""
    first = fact.why[0]
    if first.code in _OF_SERVICE:
        return change_if(_OF_SERVICE[first.code], object=f"Service/{first.values['service']}")
    if first.code is ReasonCode.SET_BY_OTHERS:
        return _removed(first.values["annotation"])
    return _OF_REASON.get(first.code)


_OF_SERVICE = {
    ReasonCode.SERVICE_RECORD_UNREADABLE: CounterfactualCode.RECORD_READABLE,
    ReasonCode.SERVICE_FOREIGN: CounterfactualCode.RECORD_REMOVED,
}
_OF_REASON = {
    ReasonCode.UNREADABLE: change_if(CounterfactualCode.READABLE),
    ReasonCode.KEDA_LEFT: field_is("autoscalers.keda", "Pause"),
    ReasonCode.HPA_LEFT: field_is("autoscalers.hpa", "Idle"),
}


def _always(change: Counterfactual) -> Callable[[Fact, Choice], Counterfactual]:
    return lambda _fact, _choice: change


_LIFTS: Mapping[FactName, Callable[[Fact, Choice], Counterfactual | None]] = {
    FactName.REQUESTED: _of_time,
    FactName.EXCLUDED: _of_exclusion,
    FactName.BUSY: _of_busy,
    FactName.WAKE_WHEN: _of_wake_when,
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
    FactName.MAY_WAKE: _of_wake_when,
    FactName.OBSERVED: _of_observing,
}


# What changes what criteria say.


_IDLE = frozenset({CriterionResult.IDLE})
_NOT_IDLE = frozenset({CriterionResult.BUSY, CriterionResult.UNKNOWN})
_BUSY = frozenset({CriterionResult.BUSY})
_NOT_BUSY = frozenset({CriterionResult.IDLE, CriterionResult.UNKNOWN})


def change_of_criteria(evaluation: Evaluation, wanted: Set[CriterionResult]) -> Counterfactual | None:
    """Return the smallest change that makes the result of `evaluation` a `wanted` one, None where none is known."""
    if not evaluation.parts:
        return _change_of_criterion(evaluation, wanted)
    changes = [change_of_criteria(one, wanted) for one in evaluation.parts if one.result not in wanted]
    any_is_enough = evaluation.is_any is (CriterionResult.IDLE in wanted)
    return joint_counterfactual(CounterfactualCode.ANY, changes) if any_is_enough else _all(changes)


_SCHEDULES = {
    ReasonCode.OUTSIDE_UPTIME: (CounterfactualCode.WINDOW, "uptime"),
    ReasonCode.IN_UPTIME: (CounterfactualCode.END, "uptime"),
    ReasonCode.UPTIME_EXCEPTION: (CounterfactualCode.END, "uptime"),
    ReasonCode.IN_DOWNTIME: (CounterfactualCode.END, "schedule"),
    ReasonCode.OUTSIDE_DOWNTIME: (CounterfactualCode.ANOTHER_WINDOW, "schedule"),
    ReasonCode.DOWNTIME_OVER: (CounterfactualCode.ANOTHER_WINDOW, "schedule"),
}


def _change_of_criterion(evaluation: Evaluation, wanted: Container[CriterionResult]) -> Counterfactual | None:
    """Return what changes one criterion: a schedule by itself, where it knows when, and a metric at its threshold."""
    to_idle = CriterionResult.IDLE in wanted
    if evaluation.threshold is not None and evaluation.result is CriterionResult.UNKNOWN:
        return change_if(CounterfactualCode.METRIC_KNOWN, **{"atMost" if to_idle else "above": evaluation.threshold})
    if evaluation.threshold is not None:
        code = CounterfactualCode.METRIC_AT_MOST if to_idle else CounterfactualCode.METRIC_ABOVE
        return change_if(code, bound=evaluation.threshold)
    said = next(iter(evaluation.reasons), None)
    if said is None or said.code not in _SCHEDULES:
        return None
    if "until" in said.values:
        return change_if(CounterfactualCode.AT, at=said.values["until"], timeZone=said.values["timeZone"])
    code, stated = _SCHEDULES[said.code]
    return change_if(code, calendar=f"{stated} {said.values['calendar']}")
