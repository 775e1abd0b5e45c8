"""Which autoscaler controls a workload, and which bounds a pinned HorizontalPodAutoscaler gets back."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from reconciler.decide.autoscalers import Bounds, PinnedAutoscaler, autoscalers_of, pinned_autoscaler, shrunk_by
from tests.builders import NOW, a_cluster, a_ref, a_workload, an_hpa
from tests.cases import cases

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

    @cases(
        "bounds previous idle_replicas begun expected",
        ("not held", (2, 10), None, None, False, Bounds(2, 10)),
        ("held", (1, 1), Bounds(2, 10), 1, False, Bounds(2, 10)),
        ("held, without a minimum before", (1, 1), Bounds(None, 10), 1, False, Bounds(None, 10)),
        ("both were changed", (3, 12), Bounds(2, 10), 1, False, Bounds(3, 12)),
        ("the maximum was changed", (1, 5), Bounds(2, 10), 1, False, Bounds(2, 5)),
        ("to the minimum before", (1, 2), Bounds(2, 10), 1, False, Bounds(2, 2)),
        ("to less than the minimum before", (3, 4), Bounds(5, 10), 3, False, Bounds(4, 4)),
        ("the minimum was changed", (2, 5), Bounds(2, 10), 5, False, Bounds(2, 10)),
        ("the minimum, below many idleReplicas", (0, 12), Bounds(2, 10), 12, False, Bounds(0, 10)),
        ("to more than the maximum before", (11, 12), Bounds(2, 10), 12, False, Bounds(11, 11)),
        ("an absent minimum is idleReplicas of 1", (None, 1), Bounds(2, 10), 1, False, Bounds(2, 10)),
        ("the wake began: what is there is theirs", (1, 5), Bounds(2, 10), 1, True, Bounds(1, 5)),
        ("the wake began, and nothing came of it", (1, 1), Bounds(2, 10), 1, True, Bounds(2, 10)),
        ("idleReplicas are not known", (1, 5), Bounds(2, 10), None, False, Bounds(1, 5)),
    )
    def test_the_bounds_it_gets_back(self, bounds, previous, idle_replicas, begun, expected):
        found = pinned(*bounds, previous, idle_replicas, wake_begun=begun)
        assert found.own_bounds == expected
        assert found.gets_back is (expected != Bounds(*bounds))

    @cases(
        "bounds previous idle_replicas expected",
        ("pinned", (1, 1), Bounds(2, 10), 1, True),
        ("never was", (2, 10), None, None, False),
        ("given back", (2, 10), Bounds(2, 10), 1, False),
        ("its maximum was changed", (1, 5), Bounds(2, 10), 1, False),
        ("its minimum was changed", (0, 1), Bounds(2, 10), 1, False),
        ("was there before", (1, 1), Bounds(1, 1), 1, False),
        ("idleReplicas are not known", (1, 1), Bounds(2, 10), None, False),
        ("no bounds are known", (1, 1), None, 1, False),
    )
    def test_is_pinned(self, bounds, previous, idle_replicas, expected):
        assert pinned(*bounds, previous, idle_replicas).is_pinned is expected


class TestPutBack:
    """Somebody else gave the bounds back, after we idled to 1 replica or more."""

    since = NOW - timedelta(hours=1)

    @cases(
        "found idle_replicas expected",
        ("ours, and given back", pinned(2, 10, Bounds(2, 10), 1), 1, True),
        ("still held", pinned(1, 1, Bounds(2, 10), 1), 1, False),
        ("by the wake", pinned(2, 10, Bounds(2, 10), 1, wake_begun=True), 1, False),
        ("idleReplicas of 0 hold none", pinned(2, 10, Bounds(2, 10), 1), 0, False),
        ("what cannot be read", pinned(2, 10, Bounds(2, 10), 1, problem="unreadable"), 1, False),
        ("nobody is recorded", PinnedAutoscaler(an_hpa()), 1, False),
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

    @cases("minimum maximum expected", ("one", 3, 3, 3), ("two", 1, 3, None), ("absent", None, 1, None))
    def test_idle_replicas_that_are_not_written_are_told_by_bounds_of_one_number(self, minimum, maximum, expected):
        assert self.read(minimum=minimum, maximum=maximum).idled_to == expected

    @cases(
        "previous expected",
        ("no minimum", {"minReplicas": None, "maxReplicas": 10}, Bounds(None, 10)),
        ("it is absent", {"maxReplicas": 1}, Bounds(None, 1)),
        ("scale to zero", {"minReplicas": 0, "maxReplicas": 1}, Bounds(0, 1)),
        ("a maximum of 0", {"minReplicas": 1, "maxReplicas": 0}, None),
        ("below zero", {"minReplicas": -1, "maxReplicas": 3}, None),
        ("no number", {"minReplicas": True, "maxReplicas": 3}, None),
        ("no number at the end", {"minReplicas": 1, "maxReplicas": True}, None),
        ("a text", {"minReplicas": "1", "maxReplicas": 3}, None),
        ("no maximum", {"minReplicas": 1}, None),
        ("no object", [2, 10], None),
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
