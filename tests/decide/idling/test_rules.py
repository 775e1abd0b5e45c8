"""What idling does with one workload: cases as docs/concepts.md and docs/how-to/wake-and-restore.md state them, and the
laws that hold whatever else is true."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.decide.idling.conditions import KEEP_UP
from reconciler.decide.idling.conditions import IdlingCondition as Condition
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.rules import RULES, IdleAction, choose
from reconciler.decide.idling.subjects import IDLE_BY_US, LEFTOVERS, IdleState

IDLE, BUSY, UNKNOWN, NOT_SELECTED = (
    CriterionResult.IDLE,
    CriterionResult.BUSY,
    CriterionResult.UNKNOWN,
    CriterionResult.NOT_SELECTED,
)
ASKED = Condition.REQUESTED
OBSERVED_INSISTS = (Condition.INSISTS, Condition.OBSERVED)
SCALED_UP, KEPT_DOWN = IdleState.MANUALLY_SCALED, IdleState.TAKEN_OVER
BOUNDS_CHANGED, NOT_HELD, WAKE_BEGUN = IdleState.HPA_CHANGED, IdleState.SCALED_BY_HPA, IdleState.WAKE_IN_PROGRESS
HALF_IDLED, HALF_WOKEN, STALE = LEFTOVERS
CONDITIONS = st.frozensets(st.sampled_from(Condition))
ANY_STATE, RESULTS = st.sampled_from(IdleState), st.sampled_from(CriterionResult)


def action(state: IdleState, result: CriterionResult, conditions: Collection[Condition]) -> IdleAction:
    return choose(state, result, frozenset(conditions))[1]


CASES = [
    ("runs, and every policy calls it idle", IdleState.AWAKE, IDLE, (), "idle"),
    ("runs, and a policy calls it busy", IdleState.AWAKE, BUSY, (), "leave"),
    ("runs, and its traffic is unknown", IdleState.AWAKE, UNKNOWN, (), "leave"),
    ("runs, and no policy selects it", IdleState.AWAKE, NOT_SELECTED, (), "leave"),
    ("runs, and a policy only observes", IdleState.AWAKE, IDLE, (Condition.OBSERVED,), "observe"),
    ("runs, asked for", IdleState.AWAKE, IDLE, (Condition.REQUESTED,), "leave"),
    ("runs, and is production that a policy leaves out", IdleState.AWAKE, IDLE, (Condition.PRODUCTION,), "leave"),
    ("runs, excluded", IdleState.AWAKE, IDLE, (Condition.EXCLUDED,), "leave"),
    ("runs, younger than minAge", IdleState.AWAKE, IDLE, (Condition.MIN_AGE,), "leave"),
    ("runs, wakeWhen holds", IdleState.AWAKE, IDLE, (Condition.WAKE_WHEN,), "leave"),
    ("runs, and is woken or scaled up lately", IdleState.AWAKE, IDLE, (Condition.MIN_AWAKE,), "leave"),
    ("runs, frozen", IdleState.AWAKE, IDLE, (Condition.RESTRICTED,), "leave"),
    ("runs, and a cluster it may run on did not answer", IdleState.AWAKE, IDLE, (Condition.CLUSTER_UNREAD,), "leave"),
    ("runs, and on another cluster too", IdleState.AWAKE, IDLE, (Condition.RUNS_ELSEWHERE,), "leave"),
    ("runs, and something behind its Service does too", IdleState.AWAKE, IDLE, (Condition.SERVICE_RUNS,), "leave"),
    ("runs, and the pods of its Service were not read", IdleState.AWAKE, IDLE, (Condition.PODS_UNREAD,), "leave"),
    ("runs on a read-only cluster", IdleState.AWAKE, IDLE, (Condition.READ_ONLY,), "leave"),
    ("at zero, and nobody recorded more", IdleState.DOWN, IDLE, (), "leave"),
    ("contested", IdleState.CONTESTED, IDLE, (), "leave"),
    ("idle, and still called idle", IdleState.IDLE, IDLE, (), "keep"),
    ("idle, and its traffic is unknown", IdleState.IDLE, UNKNOWN, (), "keep"),
    ("idle with wake: OnSignal, and busy", IdleState.IDLE, BUSY, (), "keep"),
    ("idle, and busy", IdleState.IDLE, BUSY, (Condition.BUSY,), "wake"),
    ("idle, and asked for", IdleState.IDLE, IDLE, (Condition.REQUESTED,), "wake"),
    ("idle, and excluded", IdleState.IDLE, IDLE, (Condition.EXCLUDED,), "wake"),
    ("idle, asked for, and being deleted", IdleState.IDLE, IDLE, (ASKED, Condition.TERMINATING), "keep"),
    ("idle, and its wake is due", IdleState.IDLE, UNKNOWN, (Condition.DUE,), "wake"),
    ("idle, its wake is due, and the next downtime began", IdleState.IDLE, IDLE, (Condition.DUE,), "keep"),
    ("idle, production, its wake is due in downtime", IdleState.IDLE, IDLE, (Condition.PRODUCTION_DUE,), "wake"),
    ("idle, and production since", IdleState.IDLE, IDLE, (Condition.PRODUCTION,), "keep"),
    ("idle, and wakeWhen holds", IdleState.IDLE, IDLE, (Condition.WAKE_WHEN,), "wake"),
    ("idle, and idleReplicas is above what it had", IdleState.IDLE, IDLE, (Condition.IDLE_REPLICAS,), "wake"),
    ("idle, and it runs on another cluster", IdleState.IDLE, IDLE, (Condition.RUNS_ELSEWHERE,), "wake"),
    ("idle, and its policy is gone", IdleState.IDLE, NOT_SELECTED, (), "wake"),
    ("idle, its policy is gone, and so are too many", IdleState.IDLE, NOT_SELECTED, (Condition.GUARDED,), "hold_back"),
    ("idle, guarded, and asked for", IdleState.IDLE, NOT_SELECTED, (Condition.GUARDED, Condition.REQUESTED), "wake"),
    ("idle, and a Service with it runs", IdleState.IDLE, IDLE, (Condition.SERVICE_RUNS,), "keep"),
    ("idle, due, on a read-only cluster", IdleState.IDLE, UNKNOWN, (Condition.DUE, Condition.READ_ONLY), "overdue"),
    ("idle, its autoscaler not held yet, and busy", NOT_HELD, BUSY, (Condition.BUSY,), "wake"),
    ("production since, and an autoscaler raises it", NOT_HELD, IDLE, (Condition.PRODUCTION,), "wake"),
    ("its autoscaler has its bounds back, by our wake", WAKE_BEGUN, IDLE, (), "wake"),
    ("its autoscaler got its bounds back from somebody", BOUNDS_CHANGED, IDLE, (), "wake"),
    ("scaled up by a person while idle", SCALED_UP, IDLE, (), "release"),
    ("scaled up by a tool, onRevert: Insist", SCALED_UP, IDLE, (Condition.INSISTS,), "idle"),
    ("scaled up by a tool, and busy now", SCALED_UP, BUSY, (Condition.INSISTS,), "release"),
    ("scaled up by a tool, only observed", SCALED_UP, IDLE, OBSERVED_INSISTS, "release"),
    ("kept down by somebody else", KEPT_DOWN, IDLE, (), "release"),
    ("kept down by somebody else, and asked for", KEPT_DOWN, IDLE, (Condition.REQUESTED,), "wake"),
    ("a record that cannot be read", IdleState.UNREADABLE, NOT_SELECTED, (Condition.REQUESTED,), "leave"),
    ("at zero, listed, and nothing proves that we idled it", IdleState.UNPROVEN, IDLE, (Condition.REQUESTED,), "leave"),
    ("idled by another Fleet", IdleState.FOREIGN, IDLE, (), "leave"),
    ("idled by another Fleet, and asked for", IdleState.FOREIGN, NOT_SELECTED, (Condition.REQUESTED,), "wake"),
    ("idled by another Fleet, its wake is due", IdleState.FOREIGN, IDLE, (Condition.DUE,), "overdue"),
    ("of another Fleet, asked for, protected", IdleState.FOREIGN, IDLE, (ASKED, Condition.PROTECTED), "leave"),
    ("idled by another Fleet, which holds its HPA", IdleState.FOREIGN, IDLE, (ASKED, Condition.BOUNDS), "leave"),
    ("an idle that a run did not finish", HALF_IDLED, IDLE, (), "idle"),
    ("an idle that a run did not finish, and busy now", HALF_IDLED, BUSY, (), "clear"),
    ("a wake that a run did not finish", HALF_WOKEN, BUSY, (), "clear"),
    ("a record from before the last wake", STALE, BUSY, (), "clear"),
    ("a record from before the last wake, only observed", STALE, IDLE, (Condition.OBSERVED,), "clear"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "result", "conditions", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_what_is_done_with(
    state: IdleState, result: CriterionResult, conditions: tuple[Condition, ...], expected: str
) -> None:
    assert action(state, result, conditions) == expected


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param((), None, id="its policy is gone"),
        pytest.param((Condition.GUARDED,), Condition.RUNS_ELSEWHERE, id="too many policies are gone"),
    ],
)
def test_why_what_no_policy_selects_wakes_beside_another_cluster_that_does(
    conditions: tuple[Condition, ...], expected: Condition | None
) -> None:
    _, done, because = choose(IdleState.IDLE, NOT_SELECTED, frozenset({*conditions, Condition.RUNS_ELSEWHERE}))

    assert (done, because) == (IdleAction.WAKE, expected)


def test_each_rule_has_a_case() -> None:
    decided = {id(choose(state, result, frozenset(conditions))[0]) for _, state, result, conditions, _ in CASES}

    assert [rule for rule in RULES if id(rule) not in decided] == []


SET_BY_NEIGHBOURS = {
    Condition.CLUSTER_UNREAD,
    Condition.FEDERATED_PAUSED,
    Condition.RUNS_ELSEWHERE,
    Condition.SERVICE_RUNS,
    Condition.PODS_UNREAD,
}


def test_what_its_neighbours_do_not_say_is_looked_for() -> None:
    assert {name for name in Condition if name.check is None} == SET_BY_NEIGHBOURS


@given(state=ANY_STATE, result=RESULTS, conditions=CONDITIONS)
def test_every_combination_has_an_action(
    state: IdleState, result: CriterionResult, conditions: frozenset[Condition]
) -> None:
    assert action(state, result, conditions) in IdleAction


@given(state=ANY_STATE, result=RESULTS, conditions=CONDITIONS)
def test_nothing_is_newly_idled_that_a_policy_does_not_call_idle_or_that_anything_keeps_up(
    state: IdleState, result: CriterionResult, conditions: frozenset[Condition]
) -> None:
    if action(state, result, conditions) in (IdleAction.IDLE, IdleAction.OBSERVE):
        assert result is IDLE
        assert conditions.isdisjoint({*KEEP_UP, Condition.READ_ONLY})
        assert action(state, result, conditions - {Condition.OBSERVED}) is IdleAction.IDLE or state is SCALED_UP


@given(state=ANY_STATE, result=RESULTS, conditions=CONDITIONS)
def test_nothing_is_written_on_a_read_only_cluster(
    state: IdleState, result: CriterionResult, conditions: frozenset[Condition]
) -> None:
    found = action(state, result, conditions | {Condition.READ_ONLY})

    assert found in (IdleAction.LEAVE, IdleAction.KEEP, IdleAction.OVERDUE)
    if action(state, result, conditions - {Condition.READ_ONLY}) is IdleAction.WAKE:
        assert found is IdleAction.OVERDUE


@given(
    state=st.sampled_from(IDLE_BY_US),
    result=RESULTS,
    conditions=CONDITIONS,
    condition=st.sampled_from(Condition),
)
def test_a_request_wakes_whatever_else_holds(
    state: IdleState, result: CriterionResult, conditions: frozenset[Condition], condition: Condition
) -> None:
    assert (
        action(state, result, (conditions | {condition, Condition.REQUESTED}) - {Condition.READ_ONLY})
        is IdleAction.WAKE
    )


@given(state=ANY_STATE, result=RESULTS, conditions=CONDITIONS)
def test_what_is_not_idle_because_of_us_is_only_woken_by_a_request(
    state: IdleState, result: CriterionResult, conditions: frozenset[Condition]
) -> None:
    if action(state, result, conditions) is IdleAction.WAKE and state not in IDLE_BY_US:
        assert state is IdleState.FOREIGN
        assert Condition.REQUESTED in conditions


@given(state=st.sampled_from(LEFTOVERS), result=RESULTS, conditions=CONDITIONS)
def test_leftovers_never_stay(state: IdleState, result: CriterionResult, conditions: frozenset[Condition]) -> None:
    assert action(state, result, conditions - {Condition.READ_ONLY}) in (IdleAction.IDLE, IdleAction.CLEAR)
