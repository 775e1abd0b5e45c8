"""What would change what is decided about a workload. Only explanations ask for it: no decision looks at it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence, Set
from datetime import datetime
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.annotations import AWAKE_UNTIL, parse_time
from reconciler.decide.change_codes import (
    ChangeIf,
    ChangeIfCode,
    after,
    all_changes,
    all_known,
    change_if,
    field_is,
    is_time,
    joint_change,
)
from reconciler.decide.decisions import WITHOUT_END, Ending
from reconciler.decide.freeze import change_if_restricted
from reconciler.decide.idling.conditions import IdlingCondition, MetCondition, unnamed_kind
from reconciler.decide.idling.contested import excluding_contest
from reconciler.decide.idling.rules import KEEP_UP, Choice, IdleAction, Rule, choice_of, choose
from reconciler.decide.idling.state import classify
from reconciler.decide.idling.subjects import IdleState
from reconciler.decide.idling.verdicts import CriterionResult, PolicyVerdict
from reconciler.decide.reasons import ReasonCode
from reconciler.decide.removal_guard import REMOVED_FLAG
from reconciler.decide.schedule import is_open, open_until, opens_next
from reconciler.decide.selectors import named_by
from reconciler.model import ObjectRef

Choices = Mapping[ObjectRef, Choice]

_A_WAKE_REQUEST = change_if(ChangeIfCode.WAKE_REQUEST)
_UNCONTESTED = change_if(ChangeIfCode.UNCONTESTED)
_ANOTHER_CLUSTER_STATE = change_if(ChangeIfCode.CLUSTER_STATE)
_OF_STATE = {
    IdleState.UNREADABLE: change_if(ChangeIfCode.RECORD_READABLE),
    IdleState.UNPROVEN: change_if(ChangeIfCode.SCALED_OR_ADOPTED),
    IdleState.FOREIGN: _A_WAKE_REQUEST,
    IdleState.TAKEN_OVER: _A_WAKE_REQUEST,
}
_NOT_OWN = (IdlingCondition.RUNS_ELSEWHERE, IdlingCondition.SERVICE_RUNS, IdlingCondition.PODS_UNREAD)
_OF_NEIGHBOURS = (*_NOT_OWN, IdlingCondition.CLUSTER_UNREAD, IdlingCondition.FEDERATED_PAUSED)
"""What ends when others are decided otherwise, where it names them."""


def change_if_of(choice: Choice, choices: Choices) -> ChangeIf | None:
    """Return the smallest change that would make another action of `choice`, None where none is known.

    When all that it names comes true, the action is another one. `choices` are all that were made with it.
    """
    if choice.action is IdleAction.DEFER:
        return field_is("perRun", f"above {choice.reasons[0].values['perRun']}")
    if choice.action not in (IdleAction.LEAVE, IdleAction.OBSERVE):
        return _together((choice,))
    concerned = {IdleAction.OBSERVE} if choice.action is IdleAction.OBSERVE else set()
    others = [other for other in _going_idle_together(choice, choices) if other is not choice]
    return _together((choice, *(choice for choice in others if choice.holds_others_up or choice.action in concerned)))


def kept_up_until(choice: Choice) -> Ending | None:
    """Return what ends last of all that keeps `choice` up by itself, and when; None where more than time or a rollout
    does.

    It is `WITHOUT_END` for a rollout, and where its criteria no longer call it idle by then.
    """
    condition = choice.condition
    if condition is None or choice.action is not IdleAction.LEAVE:
        return None
    if condition.until is None and condition.name is not IdlingCondition.ROLLOUT:
        return None
    found = (choice.conditions.get(name) for name in KEEP_UP if name not in _NOT_OWN)
    ends = {condition.why[0].code: condition.until for condition in found if condition is not None}
    endless = {code for code, until in ends.items() if until is None}
    if endless:
        return (ReasonCode.ROLLOUT_IN_PROGRESS, WITHOUT_END) if endless == {ReasonCode.ROLLOUT_IN_PROGRESS} else None
    last = max(ends, key=lambda code: ends[code] or WITHOUT_END)
    change = _together((choice,))
    if change is None or change.code is ChangeIfCode.ANNOTATION_REMOVED:
        return last, WITHOUT_END
    at = parse_time(str(change.values["at"])) if is_time(change) else None
    return None if at is None else (last, at)


def _going_idle_together(choice: Choice, choices: Choices) -> list[Choice]:
    """Return `choice`, and all that it goes idle together with: behind Services, and what its conditions name."""
    behind: dict[ObjectRef, list[Choice]] = {}
    for other in choices.values():
        for service in other.subject.behind:
            behind.setdefault(service.ref, []).append(other)
    found = {choice.ref: choice}
    waiting = [choice]
    while waiting:
        current = waiting.pop()
        named = [choices[ref] for name in _OF_NEIGHBOURS for ref in _neighbours(name, current)]
        others = [choice for service in current.subject.behind for choice in behind[service.ref]]
        new = {choice.ref: choice for choice in (*named, *others) if choice.ref not in found}
        found |= new
        waiting += new.values()
    return list(found.values())


def _neighbours(name: IdlingCondition, choice: Choice) -> tuple[ObjectRef, ...]:
    condition = choice.conditions.get(name)
    return () if condition is None else condition.neighbours


def _together(choices: Sequence[Choice]) -> ChangeIf | None:
    """Return what makes another action of the first of `choices`, and lets what keeps it up go idle: the others."""
    ends = [end for choice in choices if (end := _end(choice)) is not None]
    changes = list(_changes(choices[0]))
    changes += chain.from_iterable(_changes_of_other(other, choices[0].ref.cluster) for other in choices[1:])
    return all_changes(changes, min(ends, default=None))


def _changes_of_other(other: Choice, cluster: str) -> Iterator[ChangeIf | None]:
    """Yield what lets `other` go idle, each with its name, as it is called on `cluster`."""
    ref = other.subject.scale.runs.ref
    named = f"{_name(other)}{'' if ref.cluster == cluster else f' on {ref.cluster}'}"
    if other.state in (IdleState.FOREIGN, IdleState.UNREADABLE):
        found = _without_its_record(other, named)
    else:  # a request wakes it: nothing else would go idle
        found = iter((None,)) if other.state in _OF_STATE else _changes(other)
    yield from (None if change is None else change.of(named) for change in found)


def _name(choice: Choice) -> str:
    ref = choice.subject.scale.runs.ref
    return f"{ref.kind}/{ref.name}"


def _without_its_record(choice: Choice, name: str) -> Iterator[ChangeIf | None]:
    """Yield that its record goes, and what keeps it up then: without the record it is like any other."""
    if choice.subject.reading is not None:
        yield change_if(ChangeIfCode.RECORD_REMOVED, object=name)
    subject = replace(choice.subject, reading=None)
    state, record = classify(subject)
    if state is IdleState.FOREIGN:  # by the record of its Service, which is named as what keeps it up
        state, record = IdleState.AWAKE, None
    without = choice_of(replace(subject, state=state, record=record), choice.conditions.guards, choice.conditions.now)
    for condition in filter(None, map(choice.conditions.get, _OF_NEIGHBOURS)):
        without = without.with_condition(condition)
    yield from _changes_of_causes(replace(without, action=choice.action))


def _changes(choice: Choice) -> Iterator[ChangeIf | None]:
    """Yield what ends the causes of the action of `choice`, one after the other until it is another one.

    None where nothing that is known does. What others are the cause of is left out: they are asked by themselves.
    """
    if choice.state is IdleState.FOREIGN and not choice.subject.is_at_idled_count:  # no request counts
        return _without_its_record(choice, _name(choice))
    return _changes_of_causes(choice)


def _changes_of_causes(choice: Choice) -> Iterator[ChangeIf | None]:
    state, result = choice.state, choice.subject.verdict.result
    held = {name for name in IdlingCondition if name in choice.conditions and not _neighbours(name, choice)}
    while True:
        rule, action, name = choose(state, result, held)
        if action is not choice.action:
            return
        if action is not rule.action:
            yield _ANOTHER_CLUSTER_STATE
            return
        if state in _OF_STATE and (name is None or rule.action is IdleAction.OVERDUE):
            read_only = IdlingCondition.READ_ONLY in held and _OF_STATE[state] is _A_WAKE_REQUEST
            yield from (_OF_STATE[state], _ANOTHER_CLUSTER_STATE) if read_only else (_OF_STATE[state],)
            return
        if name is not None:
            condition = choice.conditions.get(name)
            yield None if condition is None else _change_of(condition, choice)
            held.remove(name)
            result = _not_busy(choice) if name is IdlingCondition.BUSY else result
        elif state is IdleState.CONTESTED:
            yield _UNCONTESTED
            state = IdleState.AWAKE
        elif state is IdleState.AWAKE and result is not CriterionResult.IDLE:
            yield _change_to_idle(choice)
            result = CriterionResult.IDLE
        else:
            yield from _last(choice, rule, held)
            return


def _last(choice: Choice, rule: Rule, held: Set[IdlingCondition]) -> Iterator[ChangeIf | None]:
    """Yield what makes another action where neither state nor conditions are the cause."""
    verdict = choice.subject.verdict
    if choice.state is IdleState.DOWN:
        yield _more_replicas(choice)
    elif rule.why is not None:
        yield None
    elif rule.action is IdleAction.WAKE:
        yield change_if(ChangeIfCode.POLICY)
    elif rule.action is not IdleAction.KEEP:
        yield all_known(change_of_criteria(said, NOT_IDLE) for said in verdict.deciding)
    else:
        is_woken = verdict.result is not CriterionResult.BUSY and not verdict.wakes_on_requests_only
        waking = (change_of_criteria(said, ONLY_BUSY) for said in verdict.won if said.wakes)
        yield all_known(waking) if is_woken else _A_WAKE_REQUEST
        if IdlingCondition.READ_ONLY in held:
            yield _ANOTHER_CLUSTER_STATE


def _change_to_idle(choice: Choice) -> ChangeIf | None:
    said = (verdict for verdict in choice.subject.verdict.won if verdict.result is not CriterionResult.IDLE)
    return all_known(change_of_criteria(verdict, ONLY_IDLE) for verdict in said)


def _not_busy(choice: Choice) -> CriterionResult:
    """Return the result where no policy that wakes automatically calls it busy."""
    said = {verdict.result for verdict in choice.subject.verdict.won if verdict not in _busy(choice)}
    found = (result for result in (CriterionResult.BUSY, CriterionResult.UNKNOWN) if result in said)
    return next(found, CriterionResult.IDLE)


def _busy(choice: Choice) -> list[PolicyVerdict]:
    return [
        verdict for verdict in choice.subject.verdict.won if verdict.wakes and verdict.result is CriterionResult.BUSY
    ]


def _end(choice: Choice) -> datetime | None:
    """Return when the criteria of `choice` no longer call it idle, now or in their next window; None for never."""
    verdict = choice.subject.verdict
    if verdict.result is CriterionResult.IDLE or choice.subject.is_idle:
        return verdict.until
    calendars = [calendar for policy in verdict.policies for calendar in policy.calendars]
    starts = [
        opens
        for calendar in calendars
        if not is_open(calendar, choice.conditions.now) and (opens := opens_next(calendar, choice.conditions.now))
    ]
    ends = (open_until(calendar, max(starts, default=choice.conditions.now)) for calendar in calendars)
    return min((end for end in ends if end is not None), default=None)


def _more_replicas(choice: Choice) -> ChangeIf | None:
    scale = choice.subject.scale
    if scale.written.switch is not None and not scale.hpa_field:
        if scale.replicas > 0:
            return field_is("idleReplicas", "0")
        return None if scale.written.switch.finished else change_if(ChangeIfCode.SWITCHED_ON)
    if scale.hpa_field and scale.runs.spec_replicas > 0:
        return field_is("minReplicas", f"more than {choice.subject.idle_replicas}")
    return change_if(ChangeIfCode.MORE_REPLICAS, replicas=choice.subject.idle_replicas)


# What would change what the criteria say.

ONLY_IDLE = frozenset({CriterionResult.IDLE})
NOT_IDLE = frozenset({CriterionResult.BUSY, CriterionResult.UNKNOWN})
ONLY_BUSY = frozenset({CriterionResult.BUSY})
NOT_BUSY = frozenset({CriterionResult.IDLE, CriterionResult.UNKNOWN})


def change_of_criteria(verdict: PolicyVerdict, wanted: Set[CriterionResult]) -> ChangeIf | None:
    """Return the smallest change that makes the result of `verdict` a `wanted` one, None where none is known."""
    if not verdict.parts:
        return _change_of_criterion(verdict, wanted)
    changes = [change_of_criteria(part, wanted) for part in verdict.parts if part.result not in wanted]
    any_is_enough = verdict.is_any is (CriterionResult.IDLE in wanted)
    return joint_change(ChangeIfCode.ANY, changes) if any_is_enough else all_known(changes)


_SCHEDULES = {
    ReasonCode.OUTSIDE_UPTIME: (ChangeIfCode.WINDOW, "uptime"),
    ReasonCode.IN_UPTIME: (ChangeIfCode.END, "uptime"),
    ReasonCode.UPTIME_EXCEPTION: (ChangeIfCode.END, "uptime"),
    ReasonCode.IN_DOWNTIME: (ChangeIfCode.END, "schedule"),
    ReasonCode.OUTSIDE_DOWNTIME: (ChangeIfCode.ANOTHER_WINDOW, "schedule"),
    ReasonCode.DOWNTIME_OVER: (ChangeIfCode.ANOTHER_WINDOW, "schedule"),
}


def _change_of_criterion(verdict: PolicyVerdict, wanted: Container[CriterionResult]) -> ChangeIf | None:
    """Return what changes one criterion: a schedule by itself, where it knows when, and a metric at its threshold."""
    to_idle, said = CriterionResult.IDLE in wanted, next(iter(verdict.reasons), None)
    if verdict.threshold is not None:
        name = "" if said is None else str(said.values.get("name", ""))
        name = "" if name == "metric" else name
        if verdict.result is CriterionResult.UNKNOWN:
            bounds = {"atMost" if to_idle else "above": verdict.threshold}
            return change_if(ChangeIfCode.METRIC_KNOWN, name=name, **bounds)
        code = ChangeIfCode.METRIC_AT_MOST if to_idle else ChangeIfCode.METRIC_ABOVE
        return change_if(code, name=name, bound=verdict.threshold)
    if said is None or said.code not in _SCHEDULES:
        return None
    if "until" in said.values:
        return change_if(ChangeIfCode.AT, at=said.values["until"], timeZone=said.values["timeZone"])
    code, stated = _SCHEDULES[said.code]
    return change_if(code, calendar=f"{stated} {said.values['calendar']}")


# What ends one condition.


def _change_of(condition: MetCondition, choice: Choice) -> ChangeIf | None:
    found = CHANGE_OF.get(condition.name)
    return found(condition, choice) if callable(found) else found


def _of_time(condition: MetCondition, _choice: Choice) -> ChangeIf | None:
    annotation = AWAKE_UNTIL if condition.name is IdlingCondition.KEPT_AWAKE else ""
    return None if condition.until is None else after(condition.until, annotation)


def _of_exclusion(_condition: MetCondition, choice: Choice) -> ChangeIf | None:
    """Return what ends every exclusion; the object that has it is named where it is not the one in question."""
    subject = choice.subject
    ends = [
        exclusion.change_if.of(exclusion.on)
        if exclusion.change_if is not None and exclusion.on not in ("", _name(choice))
        else exclusion.change_if
        for exclusion in subject.exclusions
    ]
    if excluding_contest(subject) is not None:
        ends.append(_UNCONTESTED)
    return all_known(ends)


def _of_busy(_condition: MetCondition, choice: Choice) -> ChangeIf | None:
    return all_known(change_of_criteria(verdict, NOT_BUSY) for verdict in _busy(choice))


def _of_wake_when(condition: MetCondition, choice: Choice) -> ChangeIf | None:
    """Return that no `wakeWhen` holds, or with MAY_WAKE that none may hold."""
    wakes = condition.name is IdlingCondition.WAKE_WHEN
    said = [verdict.wake_when for verdict in choice.subject.verdict.won if verdict.wakes or not wakes]
    above = [{"bound": bound} for wake_when in said for bound in wake_when.above]
    unknown = [{"atMost": bound} for wake_when in said for bound in wake_when.unknown if not wakes]
    codes = ((ChangeIfCode.METRIC_AT_MOST, above), (ChangeIfCode.METRIC_KNOWN, unknown))
    return all_known(change_if(code, field="wakeWhen", **bounds) for code, found in codes for bounds in found)


def _of_observing(_condition: MetCondition, choice: Choice) -> ChangeIf | None:
    return all_known(change_of_criteria(said, NOT_IDLE) for said in choice.subject.verdict.deciding)


def custom_kind_selector(choice: Choice) -> str:
    """Return the part of a selector that names what is of a custom kind that none of its policies names."""
    ref = unnamed_kind(choice.subject)
    return "" if ref is None else f"workloads: {{kinds: [{ref.kind}], include: [{ref.name}]}}"


def _of_custom_kind(condition: MetCondition, choice: Choice) -> ChangeIf:
    return change_if(
        ChangeIfCode.NAMED, selector=custom_kind_selector(choice), policies=condition.why[0].values["policies"]
    )


def _of_reason(condition: MetCondition, _choice: Choice) -> ChangeIf | None:
    """Return what ends a condition that may have several reasons, by the one it has."""
    first = condition.why[0]
    if first.code in _OF_SERVICE:
        return change_if(_OF_SERVICE[first.code], object=f"Service/{first.values['service']}")
    if first.code is ReasonCode.SET_BY_OTHERS:
        return change_if(ChangeIfCode.ANNOTATION_REMOVED, annotation=first.values["annotation"])
    return _OF_REASON.get(first.code)


_OF_SERVICE = {
    ReasonCode.SERVICE_RECORD_UNREADABLE: ChangeIfCode.RECORD_READABLE,
    ReasonCode.SERVICE_FOREIGN: ChangeIfCode.RECORD_REMOVED,
}
_OF_REASON = {
    ReasonCode.UNREADABLE: change_if(ChangeIfCode.READABLE),
    ReasonCode.NOT_SCALABLE: change_if(ChangeIfCode.MANIFEST_CORRECTED),
    ReasonCode.KEDA_LEFT: field_is("autoscalers.keda", "Pause"),
    ReasonCode.HPA_LEFT: field_is("autoscalers.hpa", "Idle"),
    ReasonCode.HPA_WITHOUT_ZERO: field_is("idleReplicas", "at least 1"),
}


CHANGE_OF: Mapping[IdlingCondition, ChangeIf | Callable[[MetCondition, Choice], ChangeIf | None]] = {
    IdlingCondition.REQUESTED: _of_time,
    IdlingCondition.EXCLUDED: _of_exclusion,
    IdlingCondition.BUSY: _of_busy,
    IdlingCondition.WAKE_WHEN: _of_wake_when,
    IdlingCondition.IDLE_REPLICAS: lambda condition, _choice: field_is(
        "idleReplicas", f"below {condition.why[0].values['replicas']}"
    ),
    IdlingCondition.GUARDED: lambda condition, choice: joint_change(
        ChangeIfCode.ANY, (change_if(ChangeIfCode.FLAG, flag=REMOVED_FLAG), _of_time(condition, choice))
    ),
    IdlingCondition.PROTECTED: change_if(ChangeIfCode.UNPROTECTED),
    IdlingCondition.BOUNDS: change_if(ChangeIfCode.FLAG, flag="--context in place of the Fleet"),
    IdlingCondition.INSISTS: lambda _condition, choice: field_is(
        "onRevert", f"Yield in {choice.subject.verdict.policies[0].name}"
    ),
    IdlingCondition.PRODUCTION: lambda _condition, choice: named_by(choice.subject.left_out_by),
    IdlingCondition.RESTRICTED: lambda _condition, choice: change_if_restricted(choice.subject.cluster),
    IdlingCondition.EQUAL_PRIORITIES: change_if(ChangeIfCode.DIFFERENT_PRIORITIES),
    IdlingCondition.UNREADABLE: _of_reason,
    IdlingCondition.CUSTOM_KIND: _of_custom_kind,
    IdlingCondition.AUTOSCALED: _of_reason,
    IdlingCondition.AT_IDLE_REPLICAS: lambda _condition, choice: _more_replicas(choice),
    IdlingCondition.TIME_UNREADABLE: change_if(ChangeIfCode.TIME_READABLE),
    IdlingCondition.MIN_AWAKE: _of_time,
    IdlingCondition.KEPT_AWAKE: _of_time,
    IdlingCondition.MIN_AGE: _of_time,
    IdlingCondition.ROLLOUT: change_if(ChangeIfCode.ROLLOUT_ENDS),
    IdlingCondition.MAY_WAKE: _of_wake_when,
    IdlingCondition.OBSERVED: _of_observing,
}
