"""The table, whole: every state, verdict and set of flags against the rules said once more in other words."""

from __future__ import annotations

from itertools import chain, combinations, product

import pytest

from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.state import IDLE_STATES, IdleState
from reconciler.decide.idling.transition_rules import TRANSITION_RULES, Flag, IdleAction, Situation, choose
from reconciler.decide.reasons import text_of
from tests.builders import said

FLAGS = [flag for flag in Flag if flag is not Flag.INSISTS]  # which is set of what was scaled by a tool only
SUBSETS = [
    frozenset(chosen) for chosen in chain.from_iterable(combinations(FLAGS, count) for count in range(len(FLAGS) + 1))
]
KEEPS_UP = {
    Flag.BLOCKED,
    Flag.REQUESTED,
    Flag.EXCLUDED,
    Flag.WAKE_WHEN,
    Flag.RUNS_ELSEWHERE,
    Flag.SERVICE_RUNS,
    Flag.PODS_UNREAD,
}


def situations(state: IdleState):
    more = (frozenset(), frozenset({Flag.INSISTS})) if state is IdleState.MANUALLY_SCALED else (frozenset(),)
    return (Situation(state, result, flags | one) for result, flags, one in product(CriterionResult, SUBSETS, more))


def expected(situation: Situation) -> IdleAction:
    """What the design says, without an order of rows."""
    action = _writable(situation)
    if Flag.READ_ONLY not in situation.flags:
        return action
    if action is IdleAction.WAKE:
        return IdleAction.OVERDUE
    return {
        IdleAction.HOLD_BACK: IdleAction.KEEP,
        IdleAction.KEEP: IdleAction.KEEP,
        IdleAction.OVERDUE: IdleAction.OVERDUE,
    }.get(action, IdleAction.LEAVE)


def _writable(situation: Situation) -> IdleAction:
    state, result, flags = situation.state, situation.result, situation.flags
    if state is IdleState.TAKEN_OVER:
        return IdleAction.WAKE if Flag.REQUESTED in flags else IdleAction.RELEASE
    if state in IDLE_STATES:
        return _asleep(situation)
    if state is IdleState.FOREIGN and flags & {Flag.PROTECTED, Flag.BOUNDS}:
        return IdleAction.LEAVE
    if state is IdleState.FOREIGN:
        return (
            IdleAction.WAKE
            if Flag.REQUESTED in flags
            else IdleAction.OVERDUE
            if Flag.DUE in flags
            else IdleAction.LEAVE
        )
    if state is IdleState.MANUALLY_SCALED:
        insists = Flag.INSISTS in flags and result is CriterionResult.IDLE
        return IdleAction.IDLE if insists and not flags & (KEEPS_UP | {Flag.OBSERVED}) else IdleAction.RELEASE
    may_idle = result is CriterionResult.IDLE and not flags & KEEPS_UP
    if state in (IdleState.IDLE_INCOMPLETE, IdleState.WAKE_INCOMPLETE, IdleState.STALE):
        return IdleAction.IDLE if may_idle and Flag.OBSERVED not in flags else IdleAction.CLEAR
    if state is IdleState.AWAKE and may_idle:
        return IdleAction.OBSERVE if Flag.OBSERVED in flags else IdleAction.IDLE
    return IdleAction.LEAVE


def _asleep(situation: Situation) -> IdleAction:
    result, flags = situation.result, situation.flags
    woken = (
        situation.state in (IdleState.HPA_RESTORED, IdleState.HPA_CHANGED)
        or bool(flags & {Flag.REQUESTED, Flag.EXCLUDED, Flag.BUSY, Flag.WAKE_WHEN, Flag.RUNS_ELSEWHERE})
        or (Flag.DUE in flags and result is not CriterionResult.IDLE)
        or (Flag.FLOOR in flags and result is CriterionResult.IDLE)
        or (result is CriterionResult.NOT_SELECTED and Flag.GUARDED not in flags)
    )
    if woken:
        return IdleAction.WAKE
    return IdleAction.HOLD_BACK if result is CriterionResult.NOT_SELECTED else IdleAction.KEEP


@pytest.mark.parametrize("state", IdleState)
def test_every_situation_has_the_action_the_rules_give(state):
    wrong = [
        (situation.result, sorted(situation.flags), choose(situation).action, expected(situation))
        for situation in situations(state)
        if choose(situation).action is not expected(situation)
    ]
    assert wrong == []


def test_every_row_decides_something():
    idle = set(range(len(TRANSITION_RULES)))  # the places of the rows that decided nothing so far
    for state in IdleState:
        for situation in situations(state):
            if not any(state in TRANSITION_RULES[place].states for place in idle):
                break
            idle.discard(next(place for place, row in enumerate(TRANSITION_RULES) if row.holds(situation)))
    assert [TRANSITION_RULES[place] for place in sorted(idle)] == []


@pytest.mark.parametrize(
    ("situation", "why"),
    [
        (
            Situation(
                IdleState.IDLE, CriterionResult.UNKNOWN, frozenset({Flag.REQUESTED}), {Flag.REQUESTED: said("NeedPods")}
            ),
            "NeedPods",
        ),
        (
            Situation(
                IdleState.AWAKE, CriterionResult.IDLE, frozenset({Flag.BLOCKED}), {Flag.BLOCKED: said("too young")}
            ),
            "too young",
        ),
        (Situation(IdleState.IDLE, CriterionResult.NOT_SELECTED), ""),
        (Situation(IdleState.IDLE, CriterionResult.IDLE), ""),
    ],
    ids=["the signal", "what holds it", "nobody, which the verdict says", "the criteria themselves"],
)
def test_the_reason(situation, why):
    assert text_of(choose(situation).reasons) == why
