"""The process is killed at any call, before or after it took effect; the next runs come to the same end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.connection_settings import PickerAnswer
from tests.builders import a_run
from tests.decide.downscale.world import PICKER, World, a_world
from tests.fakes import Counted, FakePicker, Killed
from tests.laws import share_of, tries

pytestmark = pytest.mark.laws

# The zones say web-2, web-3 and web-4; two pods have costs of others, one of them below the mark.
PODS = [
    {"zone": "a", "days": 1, "cost": "-2147483648"},
    {"zone": "b", "days": 2},
    {"zone": "c", "days": 4},
    {"zone": "c", "days": 8, "cost": "-12"},
    {"zone": "c", "days": 16},
    {"zone": "c", "days": 32},
    {"zone": "c", "ready": False},
]
LEFT = ["web-0", "web-1", "web-5"]
COSTS = {"web-0": "-2147483648"}


def a_shrink(kind: str, picks: bool = False) -> World:
    if not picks:
        return a_world(kind, pods=PODS, to=3, on_foreign_cost="Override")
    picker = FakePicker(PickerAnswer(("web-2", "web-3", "web-4")))
    return a_world(kind, pods=PODS, to=3, on_foreign_cost="Override", pod_picker=PICKER, picker=picker)


def calls_of_a_whole_run(kind: str, **options: Any) -> int:
    world = a_shrink(kind, **options)
    counted = Counted(world.cluster)
    world.run(through=counted)
    assert world.names() == LEFT
    return counted.calls


def killed_at(world: World, call: int, *, after: bool) -> None:
    with pytest.raises(Killed):
        world.run(a_run(id="killed"), through=Counted(world.cluster, call, after=after))


def assert_same_end(world: World) -> None:
    assert world.names() == LEFT
    assert world.costs() == COSTS
    assert world.marked() == []
    assert dict(world.journal()) == {}
    assert world.run() == ((), ())


@pytest.mark.parametrize(
    ("kind", "picks", "after"),
    [
        pytest.param("Deployment", False, False, id="Deployment, before it took effect"),
        pytest.param("Deployment", False, True, id="Deployment, after it took effect"),
        pytest.param("ReplicaSet", True, False, id="ReplicaSet with a picker, before"),
        pytest.param("ReplicaSet", True, True, id="ReplicaSet with a picker, after", marks=pytest.mark.soak),
        pytest.param("CloneSet", False, False, id="CloneSet, before"),
        pytest.param("CloneSet", False, True, id="CloneSet, after", marks=pytest.mark.soak),
    ],
)
def test_killed_at_every_call(kind: str, picks: bool, after: bool) -> None:
    # After one call is all but before the next; what stands in for a Deployment's controller is the same for all kinds.
    step = 3 // share_of(3) if after or kind != "Deployment" else 1
    for call in range(1, calls_of_a_whole_run(kind, picks=picks) + 1, step):
        world = a_shrink(kind, picks=picks)
        killed_at(world, call, after=after)
        world.run(a_run(id="next"))
        assert_same_end(world)


@pytest.mark.parametrize("replicas", [2, 9])
def test_somebody_else_scales_after_every_kill(replicas: int) -> None:
    """Whatever stands then, the marks go; the policy wants three, so what is above is decided afresh."""
    for call in range(1, calls_of_a_whole_run("Deployment") + 1, 3 // share_of(3)):
        world = a_shrink("Deployment")
        killed_at(world, call, after=False)
        world.scale(replicas)
        world.run(a_run(id="next"))
        assert world.marked() == []
        assert dict(world.journal()) == {}
        assert "-2147483647" not in world.costs().values()
        assert len(world.names()) == min(3, replicas)


@pytest.mark.soak
@tries(100)
@given(
    kills=st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=5),
    kind=st.sampled_from(["Deployment", "Rollout", "ReplicaSet", "ReplicationController", "CloneSet"]),
)
def test_killed_again_and_again(kills: list[tuple[int, bool]], kind: str) -> None:
    world = a_shrink(kind)
    for number, (call, after) in enumerate(kills):
        counted = Counted(world.cluster, call, after=after)
        try:
            world.run(a_run(id=f"run-{number}"), through=counted)
        except Killed:
            assert len(world.names()) in (3, 7)
    world.run(a_run(id="last"))
    assert_same_end(world)
