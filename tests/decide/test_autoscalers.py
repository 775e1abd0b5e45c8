"""Which autoscaler controls a workload, and which bounds a pinned HorizontalPodAutoscaler gets back."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from reconciler.decide.autoscalers import Bounds, PinnedAutoscaler, autoscalers_of, pinned_autoscaler, shrunk_by
from tests.builders import NOW, a_cluster, a_ref, a_workload, an_hpa

PREVIOUS = "reconciler/previous-bounds"
WEB = a_ref("web")


def pinned(minimum: int | None, maximum: int, previous: Bounds | None, idle_replicas: int | None, **fields: Any):
    return PinnedAutoscaler(an_hpa(minimum=minimum, maximum=maximum), previous, idle_replicas, **fields)


class TestWhichControls:
    @pytest.mark.parametrize("disabled", [("a",), ("b",)])
    def test_one_of_several_that_shrinks_is_enough(self, disabled):
        several = [an_hpa(name, target=("Deployment", "web"), scale_down_disabled=name in disabled) for name in "ab"]
        found = autoscalers_of(a_cluster(autoscalers=tuple(several)))
        assert shrunk_by(found, WEB) is not None

    def test_only_a_scaled_object_with_a_target_counts(self):
        others = (
            a_workload("so", kind="ScaledObject"),
            a_workload("other", kind="Deployment", scale_target=("Deployment", "web")),
        )
        assert autoscalers_of(a_cluster(workloads=others)).name_of(WEB) is None


class TestPinned:
    """Pinned: both bounds are idleReplicas, and were not before."""

    @pytest.mark.parametrize(
        ("bounds", "previous", "idle_replicas", "begun", "expected"),
        [
            pytest.param((2, 10), None, None, False, Bounds(2, 10), id="not held"),
            pytest.param((1, 1), Bounds(2, 10), 1, False, Bounds(2, 10), id="held"),
            pytest.param((1, 1), Bounds(None, 10), 1, False, Bounds(None, 10), id="held, without a minimum before"),
            pytest.param((3, 12), Bounds(2, 10), 1, False, Bounds(3, 12), id="both were changed"),
            pytest.param((1, 5), Bounds(2, 10), 1, False, Bounds(2, 5), id="the maximum was changed"),
            pytest.param((1, 2), Bounds(2, 10), 1, False, Bounds(2, 2), id="to the minimum before"),
            pytest.param((3, 4), Bounds(5, 10), 3, False, Bounds(4, 4), id="to less than the minimum before"),
            pytest.param((2, 5), Bounds(2, 10), 5, False, Bounds(2, 10), id="the minimum was changed"),
            pytest.param((0, 12), Bounds(2, 10), 12, False, Bounds(0, 10), id="the minimum, below many idleReplicas"),
            pytest.param((11, 12), Bounds(2, 10), 12, False, Bounds(11, 11), id="to more than the maximum before"),
            pytest.param(
                (None, 1), Bounds(2, 10), 1, False, Bounds(2, 10), id="an absent minimum is idleReplicas of 1"
            ),
            pytest.param((1, 5), Bounds(2, 10), 1, True, Bounds(1, 5), id="the wake began: what is there is theirs"),
            pytest.param((1, 1), Bounds(2, 10), 1, True, Bounds(2, 10), id="the wake began, and nothing came of it"),
            pytest.param((1, 5), Bounds(2, 10), None, False, Bounds(1, 5), id="idleReplicas are not known"),
        ],
    )
    def test_the_bounds_it_gets_back(self, bounds, previous, idle_replicas, begun, expected):
        found = pinned(*bounds, previous, idle_replicas, wake_begun=begun)
        assert found.own_bounds == expected
        assert found.gets_back is (expected != Bounds(*bounds))

    @pytest.mark.parametrize(
        ("bounds", "previous", "idle_replicas", "expected"),
        [
            pytest.param((1, 1), Bounds(2, 10), 1, True, id="pinned"),
            pytest.param((2, 10), None, None, False, id="never was"),
            pytest.param((2, 10), Bounds(2, 10), 1, False, id="given back"),
            pytest.param((1, 5), Bounds(2, 10), 1, False, id="its maximum was changed"),
            pytest.param((0, 1), Bounds(2, 10), 1, False, id="its minimum was changed"),
            pytest.param((1, 1), Bounds(1, 1), 1, False, id="was there before"),
            pytest.param((1, 1), Bounds(2, 10), None, False, id="idleReplicas are not known"),
            pytest.param((1, 1), None, 1, False, id="no bounds are known"),
        ],
    )
    def test_is_pinned(self, bounds, previous, idle_replicas, expected):
        assert pinned(*bounds, previous, idle_replicas).is_pinned is expected


class TestPutBack:
    """Somebody else gave the bounds back, after we idled to 1 replica or more."""

    since = NOW - timedelta(hours=1)

    @pytest.mark.parametrize(
        ("found", "idle_replicas", "expected"),
        [
            pytest.param(pinned(2, 10, Bounds(2, 10), 1), 1, True, id="ours, and given back"),
            pytest.param(pinned(1, 1, Bounds(2, 10), 1), 1, False, id="still held"),
            pytest.param(pinned(2, 10, Bounds(2, 10), 1, wake_begun=True), 1, False, id="by the wake"),
            pytest.param(pinned(2, 10, Bounds(2, 10), 1), 0, False, id="idleReplicas of 0 hold none"),
            pytest.param(pinned(2, 10, Bounds(2, 10), 1, problem="unreadable"), 1, False, id="what cannot be read"),
            pytest.param(PinnedAutoscaler(an_hpa()), 1, False, id="nobody is recorded"),
        ],
    )
    def test_by_our_annotations(self, found, idle_replicas, expected):
        assert found.is_restored_by_others(idle_replicas, self.since) is expected


class TestRead:
    def read(self, previous: Any = None, minimum: int | None = 1, maximum: int = 1, **annotations: str):
        text = json.dumps({"minReplicas": 2, "maxReplicas": 10} if previous is None else previous)
        given = {key.replace("_", "-"): value for key, value in annotations.items()}
        written = {PREVIOUS: text} | {f"reconciler/{key}": value for key, value in given.items()}
        return pinned_autoscaler(
            an_hpa(minimum=minimum, maximum=maximum, annotations=written), frozenset({"production"})
        )

    def test_held(self):
        found = self.read(idled_to="1")
        assert (found.previous, found.idled_to, found.wake_begun, found.problem) == (Bounds(2, 10), 1, False, "")
        assert self.read(wake_begun_at="2026-11-20T15:41:23Z").wake_begun

    @pytest.mark.parametrize(
        ("minimum", "maximum", "expected"), [(3, 3, 3), (1, 3, None), (None, 1, None)], ids=["one", "two", "absent"]
    )
    def test_idle_replicas_that_are_not_written_are_told_by_bounds_of_one_number(self, minimum, maximum, expected):
        assert self.read(minimum=minimum, maximum=maximum).idled_to == expected

    @pytest.mark.parametrize(
        ("previous", "expected"),
        [
            pytest.param({"minReplicas": None, "maxReplicas": 10}, Bounds(None, 10), id="no minimum"),
            pytest.param({"maxReplicas": 1}, Bounds(None, 1), id="it is absent"),
            pytest.param({"minReplicas": 0, "maxReplicas": 1}, Bounds(0, 1), id="scale to zero"),
            pytest.param({"minReplicas": 1, "maxReplicas": 0}, None, id="a maximum of 0"),
            pytest.param({"minReplicas": -1, "maxReplicas": 3}, None, id="below zero"),
            pytest.param({"minReplicas": True, "maxReplicas": 3}, None, id="no number"),
            pytest.param({"minReplicas": 1, "maxReplicas": True}, None, id="no number at the end"),
            pytest.param({"minReplicas": "1", "maxReplicas": 3}, None, id="a text"),
            pytest.param({"minReplicas": 1}, None, id="no maximum"),
            pytest.param([2, 10], None, id="no object"),
        ],
    )
    def test_bounds(self, previous, expected):
        found = self.read(previous)
        assert found.previous == expected
        assert bool(found.problem) is (expected is None)
        if expected is None:
            text = json.dumps(previous, sort_keys=True, separators=(",", ":"))
            assert found.problem == f"{PREVIOUS} is {text}, expected minReplicas and maxReplicas"

    def test_what_another_fleet_holds(self):
        ours, theirs = (self.read(owner=f"{fleet}/IdlingPolicy/a") for fleet in ("production", "staging"))
        assert (ours.problem, ours.holder) == ("", "")
        assert (theirs.problem, theirs.holder) == (f"{PREVIOUS} belongs to staging", "staging")
        assert theirs.previous == Bounds(2, 10)
        assert theirs.read_by("staging").problem == ""
        assert theirs.read_by("staging").holder == ""
        assert theirs.read_by("other") is theirs
        assert ours.read_by("") is ours
