"""What would change the action of a choice: the causes of it lifted one after the other, with those of its neighbours.

Only explanations ask that: no decision looks at it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import datetime
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.annotations import parse_time
from reconciler.decide.change_codes import ChangeIf, ChangeIfCode, all_changes, all_known, change_if, is_time
from reconciler.decide.decisions import Ending
from reconciler.decide.idling.classification import classify
from reconciler.decide.idling.conditions import KEEP_UP, UNCONTESTED, IdlingCondition
from reconciler.decide.idling.criteria import NOT_IDLE, ONLY_BUSY, ONLY_IDLE, CriterionResult, Verdict
from reconciler.decide.idling.keeps_awake import more_replicas
from reconciler.decide.idling.rules import Choice, IdleAction, Rule, choice_of, choose
from reconciler.decide.idling.subjects import IdleState
from reconciler.model import ObjectRef, by_key

Choices = Mapping[ObjectRef, Choice]

_A_WAKE_REQUEST = change_if(ChangeIfCode.WAKE_REQUEST)
_ANOTHER_CLUSTER_STATE = change_if(ChangeIfCode.CLUSTER_STATE)
_OF_STATE = {
    IdleState.UNREADABLE: change_if(ChangeIfCode.RECORD_READABLE),
    IdleState.UNPROVEN: change_if(ChangeIfCode.SCALED_OR_ADOPTED),
    IdleState.FOREIGN: _A_WAKE_REQUEST,
    IdleState.TAKEN_OVER: _A_WAKE_REQUEST,
}
_NOT_OWN = (IdlingCondition.RUNS_ELSEWHERE, IdlingCondition.SERVICE_RUNS, IdlingCondition.PODS_UNREAD)
_OF_NEIGHBOURS = tuple(name for name in IdlingCondition if name.check is None)
"""What ends when others are decided otherwise, where it names them."""


def smallest_change(choice: Choice, choices: Choices) -> ChangeIf | None:
    """Return the smallest change that would make another action of `choice`, None where none is known.

    When all that it names comes true, the action is another one. `choices` are all that were made with it.
    """
    if choice.action not in (IdleAction.LEAVE, IdleAction.OBSERVE):
        return _together((choice,))
    concerned = {IdleAction.OBSERVE} if choice.action is IdleAction.OBSERVE else set()
    others = [other for other in _going_idle_together(choice, choices) if other is not choice]
    return _together((choice, *(choice for choice in others if choice.holds_others_up or choice.action in concerned)))


def kept_up_until(choice: Choice) -> Ending | None:
    """Return what ends last of all that keeps `choice` up by itself, and when; None where more than time or a rollout
    does.

    There is no time for a rollout, and where its criteria no longer call it idle by then.
    """
    because = choice.fact
    if because is None or choice.action is not IdleAction.LEAVE:
        return None
    if because.until is None and choice.because is not IdlingCondition.ROLLOUT:
        return None
    own = {name: held for name in KEEP_UP if name not in _NOT_OWN and (held := choice.conditions.get(name))}
    ends = {name: held.until for name, held in own.items() if held.until is not None}
    endless = own.keys() - ends.keys()
    if endless:
        return (IdlingCondition.ROLLOUT.value, None) if endless == {IdlingCondition.ROLLOUT} else None
    last = max(ends, key=ends.__getitem__)
    if last is IdlingCondition.REQUESTED:  # one for a time to come is no wait
        return None
    change = _together((choice,))
    if change is None or change.code == ChangeIfCode.ANNOTATION_REMOVED:
        return last.value, None
    at = parse_time(str(change.values["at"])) if is_time(change) else None
    return None if at is None else (last.value, at)


def _going_idle_together(choice: Choice, choices: Choices) -> list[Choice]:
    """Return `choice`, and all that it goes idle together with: behind Services, and what its conditions name."""
    behind = by_key((service.ref, other) for other in choices.values() for service in other.subject.behind)
    found = {choice.ref: choice}
    reached = [choice]
    for current in reached:  # which grows
        named = [choices[ref] for name in _OF_NEIGHBOURS for ref in _neighbours(name, current)]
        others = [choice for service in current.subject.behind for choice in behind[service.ref]]
        new = {choice.ref: choice for choice in (*named, *others) if choice.ref not in found}
        found |= new
        reached += new.values()
    return reached


def _neighbours(name: IdlingCondition, choice: Choice) -> tuple[ObjectRef, ...]:
    held = choice.conditions.get(name)
    return () if held is None else held.neighbours


def _together(choices: Sequence[Choice]) -> ChangeIf | None:
    """Return what makes another action of the first of `choices`, and lets what keeps it up go idle: the others."""
    ends = [end for choice in choices if (end := _end(choice)) is not None]
    changes = list(_changes(choices[0]))
    changes += chain.from_iterable(_changes_of_other(other, choices[0].ref.cluster) for other in choices[1:])
    return all_changes(changes, min(ends, default=None))


def _changes_of_other(other: Choice, cluster: str) -> Iterator[ChangeIf | None]:
    """Yield what lets `other` go idle, each with its name, as it is called on `cluster`."""
    named = f"{other.subject.name}{'' if other.ref.cluster == cluster else f' on {other.ref.cluster}'}"
    if other.state in (IdleState.FOREIGN, IdleState.UNREADABLE):
        found = _without_its_record(other, named)
    else:  # a request wakes it: nothing else would go idle
        found = iter((None,)) if other.state in _OF_STATE else _changes(other)
    yield from (None if change is None else change.of(named) for change in found)


def _without_its_record(choice: Choice, name: str) -> Iterator[ChangeIf | None]:
    """Yield that its record goes, and what keeps it up then: without the record it is like any other."""
    if choice.subject.reading is not None:
        yield change_if(ChangeIfCode.RECORD_REMOVED, object=name)
    subject = replace(choice.subject, reading=None)
    state, record = classify(subject)
    if state is IdleState.FOREIGN:  # by the record of its Service, which is named as what keeps it up
        state, record = IdleState.AWAKE, None
    without = choice_of(replace(subject, state=state, record=record), choice.conditions.guards, choice.conditions.now)
    for condition in _OF_NEIGHBOURS:
        held = choice.conditions.get(condition)
        without = without if held is None else without.with_condition(condition, held)
    yield from _changes_of_causes(replace(without, action=choice.action))


def _changes(choice: Choice) -> Iterator[ChangeIf | None]:
    """Yield what ends the causes of the action of `choice`, one after the other until it is another one.

    None where nothing that is known does. What others are the cause of is left out: they are asked by themselves.
    """
    if choice.state is IdleState.FOREIGN and not choice.subject.is_at_idled_count:  # no request counts
        return _without_its_record(choice, choice.subject.name)
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
            because = choice.conditions.get(name)
            yield None if because is None else because.change_if
            held.remove(name)
            result = _not_busy(choice.subject.verdict) if name is IdlingCondition.BUSY else result
        elif state is IdleState.CONTESTED:
            yield UNCONTESTED
            state = IdleState.AWAKE
        elif state is IdleState.AWAKE and result is not CriterionResult.IDLE:
            yield choice.subject.verdict.change_if(ONLY_IDLE)
            result = CriterionResult.IDLE
        else:
            yield from _last(choice, rule, held)
            return


def _last(choice: Choice, rule: Rule, held: Set[IdlingCondition]) -> Iterator[ChangeIf | None]:
    """Yield what makes another action where neither state nor conditions are the cause."""
    verdict = choice.subject.verdict
    if choice.state is IdleState.DOWN:
        yield more_replicas(choice.subject)
    elif rule.why(choice.state) is not None:
        yield None
    elif rule.action is IdleAction.WAKE:
        yield change_if(ChangeIfCode.POLICY)
    elif rule.action is not IdleAction.KEEP:
        yield verdict.change_if(NOT_IDLE)
    else:
        is_woken = verdict.result is not CriterionResult.BUSY and not verdict.wakes_on_requests_only
        waking = (said.change_if(ONLY_BUSY) for said in verdict.won if said.wakes)
        yield all_known(waking) if is_woken else _A_WAKE_REQUEST
        if IdlingCondition.READ_ONLY in held:
            yield _ANOTHER_CLUSTER_STATE


def _not_busy(verdict: Verdict) -> CriterionResult:
    """Return the result where no policy that wakes automatically calls it busy."""
    left = tuple(own for own in verdict.won if own not in verdict.busy)
    return Verdict(left).result if left else CriterionResult.IDLE


def _end(choice: Choice) -> datetime | None:
    """Return when the criteria of `choice` no longer call it idle, now or in their next window; None for never."""
    verdict = choice.subject.verdict
    if verdict.result is CriterionResult.IDLE or choice.subject.is_idle:
        return verdict.until
    return verdict.next_end(choice.conditions.now)
