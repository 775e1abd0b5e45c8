"""The one total order of a plan, and what filters leave of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.decide.decisions import Phase
from reconciler.plan.order import doable, in_order, numbered_actions
from tests.builders import a_ref
from tests.plans import a_decision


@given(st.permutations([Phase.RECORD, Phase.DECREASE, Phase.MOVE, Phase.INCREASE, Phase.REPAIR, Phase.WAKE]))
def test_phases_come_in_their_order_whatever_the_order_of_decisions(phases):
    decisions = [a_decision(f"w{phase}", phase=phase) for phase in phases]
    assert [decision.phase for decision in in_order(decisions)] == sorted(phases)


def test_wakes_go_tier_by_tier_over_all_groups():
    def wake(name, tier, step):
        return a_decision(name, phase=Phase.WAKE, order=(tier, step), group=f"g-{name[0]}", key=name)

    decisions = [wake("a1", 20, 0), wake("b1", 10, 0), wake("b2", 10, 1), wake("a2", 20, 1)]
    assert [decision.key for decision in in_order(decisions)] == ["b1", "b2", "a1", "a2"]


def test_the_wakes_of_namespaces_take_turns():
    def wake(space, name, tier=10):
        ref = a_ref(name, namespace=space)
        return a_decision(name, ref=ref, phase=Phase.WAKE, order=(tier, 1), group=f"g/{space}/{name}", key=name)

    many = [wake("aa", f"m{number}", tier=0) for number in range(4)]
    few = [wake("zz", "z0"), wake("zz", "z1", tier=20)]
    assert [decision.key for decision in in_order([*many, *few])] == ["m0", "z0", "m1", "z1", "m2", "m3"]


def test_the_steps_of_a_group_stay_together_in_the_turn_of_its_namespace():
    def wake(space, step, tier=10):
        ref = a_ref(space, namespace=space)
        return a_decision(ref=ref, phase=Phase.WAKE, order=(tier, step), group=f"g/{space}", key=f"{space}{step}")

    same_tier = [wake(space, step) for step in (1, 0) for space in ("zz", "aa")]
    assert [decision.key for decision in in_order(same_tier)] == ["aa0", "aa1", "zz0", "zz1"]
    lower_tier = [wake("aa", 0, tier=20), wake("zz", 0)]
    assert [decision.key for decision in in_order(lower_tier)] == ["zz0", "aa0"]


def test_what_is_no_wake_goes_group_by_group_and_step_by_step():
    decisions = [a_decision(key=f"{group}{step}", group=group, order=(step,)) for step in (2, 1) for group in "ba"]
    assert [decision.key for decision in in_order(decisions)] == ["a1", "a2", "b1", "b2"]


def test_the_last_of_a_tier_is_waited_for():
    high = a_decision(key="high", group="a", wait_ready="low")
    low = a_decision(key="low", group="b", wake_tier="low")
    late = a_decision(key="late", group="c", wake_tier="low", needs=("mark",))
    mark = a_decision(key="mark", group="d")
    assert [decision.key for decision in in_order([high, low])] == ["low", "high"]
    assert [decision.key for decision in in_order([high, low, late, mark])] == ["low", "mark", "late", "high"]


def test_nothing_comes_before_the_tier_it_waits_for():
    mark = a_decision("m", key="mark", group="g")
    low = [a_decision(f"z{n}", key=f"low{n}", group="g", order=(9,), needs=("mark",), wake_tier="low") for n in (0, 1)]
    high = a_decision("a", key="high", wait_ready="low")
    actions = numbered_actions(in_order([high, *low, mark]))
    assert [(action.decision.key, action.decision.wait_ready) for action in actions] == [
        ("mark", ""),
        ("low0", ""),
        ("low1", ""),
        ("high", "low"),
    ]
    assert doable(actions) == actions
    left = doable([action for action in actions if action.decision.key != "mark"])
    assert [(action.decision.key, action.decision.wait_ready) for action in left] == [("high", "")]
    assert [action.decision.wait_ready for action in numbered_actions([high])] == [""]


def test_a_circle_of_needs_is_a_bug_that_is_told():
    with pytest.raises(ValueError, match="in a circle"):
        in_order([a_decision("a", key="a", needs=("b",)), a_decision("b", key="b", needs=("a",))])
