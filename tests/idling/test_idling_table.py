"""The table, whole: every state, verdict and set of flags against the rules said once more in other words."""

from __future__ import annotations

from itertools import chain, combinations, product

import pytest

from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.state import ASLEEP, IdleState
from reconciler.decide.idling.transitions import ROWS, Action, Flag, Situation, choose

SUBSETS = [
    frozenset(chosen) for chosen in chain.from_iterable(combinations(Flag, count) for count in range(len(Flag) + 1))
]
KEEPS_UP = {Flag.HELD, Flag.SIGNAL, Flag.EXCLUDED, Flag.WAKE_WHEN, Flag.ELSEWHERE, Flag.TOGETHER, Flag.UNSEEN}


def situations(state: IdleState):
    return (Situation(state, says, flags) for says, flags in product(CriterionResult, SUBSETS))


def expected(situation: Situation) -> Action:
    """What the design says, without an order of rows."""
    action = _writable(situation)
    if Flag.READ_ONLY not in situation.flags:
        return action
    if action is Action.WAKE:
        return Action.OVERDUE
    return {Action.PUT_OFF: Action.KEEP, Action.KEEP: Action.KEEP, Action.OVERDUE: Action.OVERDUE}.get(
        action, Action.LEAVE
    )


def _writable(situation: Situation) -> Action:
    state, says, flags = situation.state, situation.says, situation.flags
    if state is IdleState.TAKEN_OVER:
        return Action.WAKE if Flag.SIGNAL in flags else Action.RELEASE
    if state in ASLEEP:
        return _asleep(situation)
    if state is IdleState.FOREIGN and flags & {Flag.PROTECTED, Flag.BOUNDS}:
        return Action.LEAVE
    if state is IdleState.FOREIGN:
        return Action.WAKE if Flag.SIGNAL in flags else Action.OVERDUE if Flag.DUE in flags else Action.LEAVE
    if state is IdleState.HAND:
        return Action.RELEASE
    may_idle = says is CriterionResult.IDLE and not flags & KEEPS_UP
    if state in (IdleState.HALF_IDLED, IdleState.HALF_WOKEN, IdleState.STALE):
        return Action.IDLE if may_idle and Flag.OBSERVED not in flags else Action.CLEAR
    if state is IdleState.AWAKE and may_idle:
        return Action.OBSERVE if Flag.OBSERVED in flags else Action.IDLE
    return Action.LEAVE


def _asleep(situation: Situation) -> Action:
    says, flags = situation.says, situation.flags
    woken = (
        situation.state in (IdleState.HALF_FREED, IdleState.UNHELD)
        or bool(flags & {Flag.SIGNAL, Flag.EXCLUDED, Flag.BUSY, Flag.WAKE_WHEN, Flag.ELSEWHERE})
        or (Flag.DUE in flags and says is not CriterionResult.IDLE)
        or (Flag.FLOOR in flags and says is CriterionResult.IDLE)
        or (says is CriterionResult.NOBODY and Flag.GUARDED not in flags)
    )
    if woken:
        return Action.WAKE
    return Action.PUT_OFF if says is CriterionResult.NOBODY else Action.KEEP


@pytest.mark.parametrize("state", IdleState)
def test_every_situation_has_the_action_the_rules_give(state):
    wrong = [
        (situation.says, sorted(situation.flags), choose(situation).action, expected(situation))
        for situation in situations(state)
        if choose(situation).action is not expected(situation)
    ]
    assert wrong == []


def test_every_row_decides_something():
    deciding = {
        next(row for row in ROWS if row.holds(situation)) for state in IdleState for situation in situations(state)
    }
    assert [row for row in ROWS if row not in deciding] == []


@pytest.mark.parametrize(
    ("situation", "why"),
    [
        (
            Situation(IdleState.IDLE, CriterionResult.UNKNOWN, frozenset({Flag.SIGNAL}), {Flag.SIGNAL: "NeedPods"}),
            "NeedPods",
        ),
        (
            Situation(IdleState.AWAKE, CriterionResult.IDLE, frozenset({Flag.HELD}), {Flag.HELD: "too young"}),
            "too young",
        ),
        (Situation(IdleState.IDLE, CriterionResult.NOBODY), "no policy wants it idle any more"),
        (Situation(IdleState.IDLE, CriterionResult.IDLE), ""),
    ],
    ids=["the signal", "what holds it", "nobody", "the criteria themselves"],
)
def test_the_reason(situation, why):
    assert choose(situation).why == why
