from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.decide.annotations import VICTIM_COST
from reconciler.decide.downscale.deletion_order import RankingRules, rank_victims
from reconciler.decide.downscale.victim_choice import (
    PodGroup,
    VictimSelection,
    VictimStrategy,
    accepted,
    balanced,
    foreign_costs,
    picked,
    pod_group,
    victim_selection,
    victim_strategies,
    without_domains,
)
from reconciler.errors import PickerError
from reconciler.model import Pod
from tests.builders import NOW_NS, a_cluster, a_picker, a_pod, a_policy_set, a_ref, a_state, a_workload, an_hpa
from tests.decide.downscale.world import a_downscale_policy

PICKER = a_picker("picker.svc")
DAY = 86_400 * 10**9


def a_cut(count: int, *names: str, first: tuple[str, ...] = ()) -> VictimSelection:
    """A cut whose candidates are in the controller's order as named."""
    return VictimSelection(count, tuple(a_pod(name, ready=False) for name in first), tuple(map(a_pod, names)))


@pytest.mark.parametrize(
    ("pods", "target", "requested", "opened"),
    [
        pytest.param(["ready"] * 5, 3, 2, True, id="two of five"),
        pytest.param(["ready"] * 4 + ["unready"], 3, 1, True, id="one goes anyway"),
        pytest.param(["ready"] * 3 + ["unready", "pending"], 3, 0, False, id="those that go anyway suffice"),
        pytest.param(["ready"] * 2 + ["unready"] * 3, 3, -1, False, id="more go anyway than must"),
        pytest.param(["ready"] * 3, 0, 3, False, id="a target of 0"),
        pytest.param(["ready"] * 3, 3, 0, False, id="nobody goes"),
        pytest.param(["ready"] * 3, 5, 0, False, id="fewer than wanted"),
        pytest.param(["ready"] * 3 + ["gone", "done"], 2, 1, True, id="only active pods count"),
    ],
)
def test_how_many_are_ours_to_choose(pods: list[str], target: int, requested: int, opened: bool) -> None:
    fields = {
        "ready": {},
        "unready": {"ready": False},
        "pending": {"phase": "Pending", "ready": False},
        "gone": {"terminating": True},
        "done": {"phase": "Succeeded"},
    }
    group = PodGroup(tuple(a_pod(f"web-{index}", **fields[kind]) for index, kind in enumerate(pods)))
    cut = victim_selection(group, target, now_ns=NOW_NS, rules=RankingRules())
    assert (cut.requested, cut.open) == (requested, opened)


@pytest.mark.parametrize(
    "fields",
    [{"node": ""}, {"phase": "Pending"}, {"phase": "Unknown"}, {"ready": False}],
    ids=["unassigned", "Pending", "Unknown", "not Ready"],
)
def test_who_is_no_candidate(fields: dict[str, object]) -> None:
    cut = victim_selection(PodGroup((a_pod("a", **fields), a_pod("b"))), 1, now_ns=NOW_NS, rules=RankingRules())
    assert ([pod.name for pod in cut.first], [pod.name for pod in cut.candidates]) == (["a"], ["b"])


@pytest.mark.parametrize(
    ("answer", "chosen", "rules", "note"),
    [
        pytest.param(PickerAnswer(("d", "e")), "de", "CC", "", id="exactly as many"),
        pytest.param(PickerAnswer(("e",), ("d",)), "ed", "CT", "", id="chosen, then tied"),
        pytest.param(PickerAnswer(("e",), ("d", "c")), "ec", "CT", "a tie", id="a tie at the cut: controller's order"),
        pytest.param(PickerAnswer((), ("e", "d", "b")), "bd", "TT", "a tie", id="only tied"),
        pytest.param(PickerAnswer(("e", "c", "b")), "bc", "CC", "a tie", id="more chosen than wanted"),
        pytest.param(PickerAnswer(("e",)), "ea", "CO", "named 1 of 2", id="too few, filled"),
        pytest.param(PickerAnswer((), ("e",)), "ea", "TO", "named 1 of 2", id="too few tied, filled"),
        pytest.param(PickerAnswer(("d", "e"), ("a", "b")), "de", "CC", "", id="a tie that is not at the cut"),
    ],
)
def test_picked(answer: PickerAnswer, chosen: str, rules: str, note: str) -> None:
    choice = picked(a_cut(2, *"abcde"), answer)
    assert choice is not None
    assert "".join(pod.name for pod in choice.pods) == chosen
    said = {"C": "chosen by the picker", "T": "tied by the picker", "O": "the controller's order"}
    assert choice.rules == tuple(said[rule] for rule in rules)
    assert (note in choice.note) if note else choice.note == ""


def test_both_lists_empty_is_no_opinion() -> None:
    assert picked(a_cut(2, *"abcde"), PickerAnswer()) is None


def test_too_few_can_be_rejected() -> None:
    request = PickerRequest(replace(PICKER, on_too_few="reject"), "shop", 2, tuple("abcde"))
    words = r"^pod picker https://picker.svc:443: the answer names 1 of 2 pods, expected all \(onTooFew: reject\)$"
    for few in (PickerAnswer(("a",)), PickerAnswer((), ("a",))):
        with pytest.raises(PickerError, match=words):
            accepted(few, request)
    for answer in (PickerAnswer(("a",), ("b",)), PickerAnswer()):
        assert accepted(answer, request) is answer, "as many as asked for, and no opinion"


def test_a_tie_is_broken_without_the_cost() -> None:
    """Rules 5 to 8: more pods on the node first, although the other has the lower cost."""
    pods = (a_pod("a", node="n"), a_pod("b", node="n"), a_pod("c", node="m", deletion_cost="-5"))
    cut = victim_selection(PodGroup(pods, ()), 2, now_ns=NOW_NS, rules=RankingRules(deletion_cost=False))
    choice = picked(cut, PickerAnswer((), ("b", "c")))
    assert choice is not None
    assert choice.pods == (pods[1],)


# Whose choice it is


def test_without_a_policy_an_autoscaler_keeps_nobody_from_choosing() -> None:
    state = a_state(a_cluster(workloads=(a_workload(),), autoscalers=(an_hpa(),)))
    assert victim_strategies(a_policy_set(), state, "east").strategy_of(a_ref()) == VictimStrategy()
    chosen = victim_strategies(a_policy_set(downscale=(a_downscale_policy(),)), state, "east").strategy_of(a_ref())
    assert not chosen.chooses
    assert "HorizontalPodAutoscaler/web" in chosen.note


@pytest.mark.parametrize("cluster", ["east", "gone"], ids=["did not answer", "is not in the Fleet"])
def test_in_a_cluster_that_is_not_observed_the_controller_chooses(cluster: str) -> None:
    policies = a_policy_set(downscale=(a_downscale_policy(),))
    assert victim_strategies(policies, a_state(), cluster).strategy_of(a_ref(cluster=cluster)) == VictimStrategy()


def test_zones_are_balanced_where_one_node_has_one() -> None:
    cut, domains = in_zones("a--")
    assert without_domains(cut, domains, "zone") == ""
    assert without_domains(cut, {}, "zone") == "no node has the label zone"


# zoneBalanced


def in_zones(zones: str) -> tuple[VictimSelection, dict[str, str]]:
    """Candidates in the controller's order, each on its own node in the zone of its letter ("-": no label)."""
    pods = tuple(a_pod(f"{index:03}", node=f"n{index}") for index in range(len(zones)))
    return VictimSelection(0, (), pods), {f"n{index}": zone for index, zone in enumerate(zones) if zone != "-"}


@pytest.mark.parametrize(
    ("zones", "count", "left"),
    [
        pytest.param("abcabc", 1, "bcabc", id="equal zones: first in the controller's order"),
        pytest.param("bacbac", 2, "cbac", id="equal zones: then the next"),
        pytest.param("aaab--", 2, "ab--", id="no zone counts as one zone"),
    ],
)
def test_balanced(zones: str, count: int, left: str) -> None:
    cut, domains = in_zones(zones)
    gone = {pod.name for pod in balanced(replace(cut, count=count), domains).pods}
    assert "".join(zone for index, zone in enumerate(zones) if f"{index:03}" not in gone) == left


def test_inside_a_zone_the_controllers_order_decides() -> None:
    pods = tuple(a_pod(f"p{days}", node=f"n{days}", ready_since_ns=NOW_NS - days * DAY) for days in (40, 1, 20, 5))
    cut = victim_selection(PodGroup(pods), 2, now_ns=NOW_NS, rules=RankingRules())
    choice = balanced(cut, dict.fromkeys((pod.node for pod in pods), "a"))
    assert [pod.name for pod in choice.pods] == ["p1", "p5"]


@given(st.text("abcd-", min_size=2, max_size=9), st.data())
def test_no_choice_is_more_even(zones: str, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, len(zones) - 1))
    cut, domains = in_zones(zones)
    choice = balanced(replace(cut, count=count), domains)
    assert len(set(choice.pods)) == count
    gone = {int(pod.name) for pod in choice.pods}

    def unevenness(without: set[int]) -> int:
        return sum(size * size for size in Counter(z for i, z in enumerate(zones) if i not in without).values())

    assert unevenness(gone) == min(unevenness(set(other)) for other in combinations(range(len(zones)), count))


@given(st.text("abc", min_size=2, max_size=60), st.data())
def test_even_zones_stay_even(zones: str, data: st.DataObject) -> None:
    sizes = Counter(zones)
    cut, domains = in_zones(zones)
    least = sum(size - min(sizes.values()) for size in sizes.values())
    if least >= len(zones) - 1:
        return
    count = data.draw(st.integers(max(1, least), len(zones) - 1))
    gone = {int(pod.name) for pod in balanced(replace(cut, count=count), domains).pods}
    left = Counter(dict.fromkeys(sizes, 0))
    left.update(zone for index, zone in enumerate(zones) if index not in gone)
    assert max(left.values()) - min(left.values()) <= 1


def test_marked_victims_are_exactly_those_the_controller_takes() -> None:
    """Whoever is chosen: with the marks, and with those that go first, the choice is certain."""
    pods = [a_pod(f"p{index}", uid=f"{9 - index}", node="n") for index in range(8)]
    pods.append(a_pod("x", ready=False))
    for chosen in combinations(range(8), 3):
        marked = [
            dataclasses.replace(pod, deletion_cost=VICTIM_COST) if index in chosen else pod
            for index, pod in enumerate(pods)
        ]
        ranking = rank_victims(marked, 4, now_ns=NOW_NS)
        assert {pod.name for pod in ranking.victims} == {"x", *(f"p{index}" for index in chosen)}
        assert ranking.certain


# Foreign costs


@pytest.mark.parametrize(
    ("victim", "other", "expected"),
    [
        pytest.param(None, None, ("", ""), id="none"),
        pytest.param("0", None, ("v", ""), id="a cost of 0 is a cost"),
        pytest.param("odd", None, ("v", ""), id="one that is no number, too"),
        pytest.param(None, "-2147483648", ("", "o"), id="below the mark"),
        pytest.param(None, "-2147483647", ("", "o"), id="at the mark"),
        pytest.param(None, "-2147483646", ("", ""), id="above the mark"),
        pytest.param(None, "-2147483649", ("", ""), id="out of range is 0"),
        pytest.param("5", "-2147483648", ("v", "o"), id="both"),
    ],
)
def test_foreign_costs(victim: str | None, other: str | None, expected: tuple[str, str]) -> None:
    pods = (a_pod("v", deletion_cost=victim), a_pod("o", deletion_cost=other))
    marked, staying = foreign_costs(VictimSelection(1, (), pods), pods[:1])
    assert ("".join(pod.name for pod in marked), "".join(pod.name for pod in staying)) == expected


# Groups


def owned(name: str, owner: str, **fields: object) -> Pod:
    return a_pod(name, owner_uid=owner, owner_kind="ReplicaSet", **fields)


def test_the_shrinking_replica_set_is_the_one_with_pods() -> None:
    new, old = owned("a", "new"), owned("b", "old", terminating=True)
    assert pod_group("Deployment", (new, old)) == PodGroup((new,), (old,))
    assert pod_group("ReplicaSet", (new,)) == PodGroup((new,), None)
    assert pod_group("Deployment", ()) == PodGroup((), ())
