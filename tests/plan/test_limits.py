"""Limits: what counts, what is held back, what never is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.decide.types import Considered, DesiredState, Phase, Verb
from reconciler.plan.limits import FLEET, Base, allowed, hold_back
from reconciler.plan.plan import Inputs, make_plan
from reconciler.policy.types import AllOf, IdlingPolicy, Limit, Limits, Place, Selector
from tests.builders import a_cluster, a_fleet, a_policy_set, a_ref, a_run, a_state, a_workload
from tests.plan.decisions import a_decision

NONE = Limits()
TIGHT = Limits(Limit(0.0, 2), Limit(0.0, 100))


def a_policy(name: str, limits: Limits = NONE) -> IdlingPolicy:
    return IdlingPolicy(name, Place(f"policies/{name}.yaml"), Selector(), AllOf(()), limits=limits)


@pytest.mark.parametrize(
    ("share", "at_least", "base", "expected"),
    [
        pytest.param(0.25, 10, 8, 10, id="at least wins on a small base"),
        pytest.param(0.25, 10, 400, 100, id="share wins on a large base"),
        pytest.param(0.25, 0, 7, 1, id="the share is rounded down"),
        pytest.param(0.29, 0, 100, 29, id="a share that binary fractions miss is not rounded below itself"),
        pytest.param(0.0, 0, 100, 0, id="nothing allowed"),
        pytest.param(1.0, 0, 0, 0, id="no base"),
    ],
)
def test_allowed(share, at_least, base, expected):
    assert allowed(Limit(share, at_least), base) == expected


def held(decisions, *, fleet_limits=TIGHT, policies=(), bases=None, lifted=()):
    found = a_policy_set(a_fleet(limits=fleet_limits), idling=tuple(policies))
    return hold_back(decisions, found, {FLEET: Base(100, 300), **(bases or {})}, frozenset(lifted))


def test_at_the_limit_nothing_is_held_back():
    result = held([a_decision("a"), a_decision("b")])
    assert not result.held_back
    assert [(use.unit, use.used, use.allowed) for use in result.uses] == [("workloads", 2, 2), ("replicas", 6, 100)]


def test_over_the_limit_all_idling_is_held_back_and_the_words_say_where_it_comes_from():
    others = [a_decision("c", policy="idle-qa")]
    result = held([a_decision("a"), a_decision("b"), *others])
    assert result.decisions == ()
    assert result.held_back[0].why == (
        "fleet would idle 3 of 100 workloads (3 %, limit 0 % or 2). 2 come from policies/idle-dev.yaml:1."
    )


def test_wakes_and_increases_go_on_when_decreases_are_held_back():
    wake = a_decision("w", before=0, after=3, verb=Verb.WAKE, phase=Phase.WAKE, idles=False)
    result = held([wake, a_decision("a"), a_decision("b"), a_decision("c")])
    assert result.decisions == (wake,)


def test_a_lifted_limit_holds_nothing_back_but_is_still_counted():
    result = held([a_decision(name) for name in "abc"], lifted=["fleet"])
    assert len(result.decisions) == 3
    assert result.uses[0].used == 3


def test_a_policys_own_limit_concerns_that_policy_alone():
    other = a_decision("b", policy="idle-qa")
    policies = [a_policy("idle-dev", Limits(Limit(0.0, 0), None)), a_policy("idle-qa")]
    result = held([a_decision("a"), other], policies=policies, bases={"idle-dev": Base(10, 30)})
    assert result.decisions == (other,)
    assert [one.allow for one in result.held_back] == ["idle-dev"]


def test_what_a_policys_limit_holds_back_does_not_count_for_the_fleet():
    policies = [a_policy("idle-dev", Limits(Limit(0.0, 0), None)), a_policy("idle-qa")]
    decisions = [a_decision("a"), a_decision("b", policy="idle-qa"), a_decision("c", policy="idle-qa")]
    result = held(decisions, policies=policies, bases={"idle-dev": Base(10, 30)})
    assert len(result.decisions) == 2


def test_the_mark_of_a_service_goes_with_its_scalables():
    mark = a_decision("s", verb=Verb.MARK, key="mark", group="g", changes=(), idles=False)
    mark = replace(mark, replicas_before=None, replicas_after=None)
    scalables = [a_decision(name, group="g", needs=("mark",)) for name in "abc"]
    result = held([mark, *scalables])
    assert result.decisions == ()
    assert len(result.held_back[0].decisions) == 4


def test_a_placement_decrease_is_held_back_alone():
    down = a_decision("web", before=300, after=2, job="placement", group="placement/shop/web", idles=False)
    up = a_decision("up", before=1, after=2, job="placement", group="placement/shop/web", phase=Phase.INCREASE)
    result = held([up, down])
    assert result.decisions == (up,)
    assert [use.used for use in result.uses if use.unit == "replicas"] == [298]


def test_the_base_of_a_policys_own_limits_is_what_it_selects_and_not_what_still_carries_its_marks():
    policies = a_policy_set(idling=(a_policy("nights", Limits(Limit(0.5, 1), NONE.removed_replicas)),))
    state = a_state(a_cluster(workloads=(a_workload("web"), a_workload("left"))))
    told = [
        Considered(a_ref(name), "idling", "nights", "", "", selected=selected)
        for name, selected in (("web", True), ("left", False))
    ]
    plan = make_plan(policies, state, DesiredState(considered=tuple(told)), a_run(), Inputs())
    assert {use.base for use in plan.limits if use.name == "nights" and use.unit == "workloads"} == {1}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=30), st.integers(0, 20), st.integers(0, 40))
def test_what_is_left_never_exceeds_the_limits(pairs, workloads, replicas):
    decisions = [
        a_decision(f"w{position}", before=before, after=after) for position, (before, after) in enumerate(pairs)
    ]
    result = held(decisions, fleet_limits=Limits(Limit(0.0, workloads), Limit(0.0, replicas)))
    assert sum(decision.idles for decision in result.decisions) <= workloads
    assert sum(decision.removed for decision in result.decisions) <= replicas
    kept_out = [decision for one in result.held_back for decision in one.decisions]
    assert sorted(d.key for d in (*result.decisions, *kept_out)) == sorted(d.key for d in decisions)
