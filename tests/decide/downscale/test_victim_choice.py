from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.connection_settings import PickerAnswer, PickerRequest
from reconciler.decide.downscale.victim_choice import (
    PodGroup,
    VictimSelection,
    VictimStrategy,
    accepted,
    balanced,
    foreign_costs,
    pod_group,
    victim_strategies,
    without_domains,
)
from reconciler.errors import PickerError
from reconciler.model import Pod
from tests.builders import a_picker, a_pod, a_policy_set, a_ref, a_state
from tests.cases import cases
from tests.decide.downscale.world import a_downscale_policy

PICKER = a_picker("picker.svc")


def test_too_few_can_be_rejected() -> None:
    request = PickerRequest(replace(PICKER, on_too_few="reject"), "shop", 2, tuple("abcde"))
    words = r"^pod picker https://picker.svc:443: the answer names 1 of 2 pods, expected all \(onTooFew: reject\)$"
    for few in (PickerAnswer(("a",)), PickerAnswer((), ("a",))):
        with pytest.raises(PickerError, match=words):
            accepted(few, request)
    for answer in (PickerAnswer(("a",), ("b",)), PickerAnswer()):
        assert accepted(answer, request) is answer, "as many as asked for, and no opinion"


# Whose choice it is


@cases("cluster", ("did not answer", "east"), ("is not in the Fleet", "gone"))
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
    domains = {f"n{index}": zone for index, zone in enumerate(zones) if zone != "-"}
    return VictimSelection(PodGroup(pods), 0, (), (), pods), domains


@cases(
    "zones count left",
    ("equal zones: first in the controller's order", "abcabc", 1, "bcabc"),
    ("equal zones: then the next", "bacbac", 2, "cbac"),
    ("no zone counts as one zone", "aaab--", 2, "ab--"),
)
def test_balanced(zones: str, count: int, left: str) -> None:
    cut, domains = in_zones(zones)
    gone = {pod.name for pod in balanced(replace(cut, count=count), domains).pods}
    assert "".join(zone for index, zone in enumerate(zones) if f"{index:03}" not in gone) == left


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


# Groups


def owned(name: str, owner: str, **fields: object) -> Pod:
    return a_pod(name, owner_uid=owner, owner_kind="ReplicaSet", **fields)


def test_the_shrinking_replica_set_is_the_one_with_pods() -> None:
    new, old = owned("a", "new"), owned("b", "old", terminating=True)
    assert pod_group("Deployment", (new, old)) == PodGroup((new,), (old,))
    assert pod_group("ReplicaSet", (new,)) == PodGroup((new,), None)
    assert pod_group("Deployment", ()) == PodGroup((), ())


@pytest.mark.parametrize(("cost", "is_foreign"), [(None, False), ("0", True), ("odd", True)])
def test_a_victim_has_a_foreign_cost_also_where_it_counts_as_none(cost: str | None, is_foreign: bool) -> None:
    victims = (a_pod("v", deletion_cost=cost),)
    assert foreign_costs(VictimSelection(PodGroup(victims), 1, (), (), victims), victims) == (
        victims if is_foreign else (),
        (),
    )
