"""A decision that fails on one cluster's objects: that cluster is found, and the others are decided."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.decide.decisions import DesiredState
from reconciler.decide.desired_state import decide
from reconciler.decide.unexpected_errors import without_faulty
from reconciler.errors import ExitCode, PolicyError
from reconciler.model import ObservedCluster, ObservedState, QueryAnswer, QueryKey, Run
from reconciler.pipeline import RunRequest, plan
from reconciler.policy.types import PolicySet
from tests.isolation import fleet
from tests.isolation.fleet import AFTER

NAMES = tuple("abcdefghij")


def a_state(names: tuple[str, ...] = NAMES) -> ObservedState:
    answers = {QueryKey(name, "policy", "query"): QueryAnswer() for name in names}
    return ObservedState({name: ObservedCluster(name, f"identity-{name}") for name in names}, answers=answers)


@given(
    alone=st.sets(st.sampled_from(NAMES)),
    pairs=st.sets(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=4),
    wakes_too=st.sets(st.sampled_from(NAMES)),
)
def test_what_is_left_out_fails_and_what_is_kept_does_not(
    alone: set[str], pairs: set[tuple[str, str]], wakes_too: set[str]
) -> None:
    def decided(state: ObservedState) -> frozenset[str]:
        names = frozenset(state.clusters)
        if names & alone or any({*pair} <= names for pair in pairs) or wakes_too & alone & set(state.wakes_only):
            raise OverflowError("made by a test")
        return names

    found, kept = without_faulty(a_state(), decided)
    assert frozenset(found.clusters) == kept
    assert {*found.clusters, *found.unreachable} == set(NAMES)
    assert set(found.wakes_only) <= set(found.unreachable)
    assert not kept & alone
    assert {key.cluster for key in found.answers} == kept
    for name in set(NAMES) - kept:
        assert name in alone or any(name in pair and {*pair} <= kept | {name} for pair in pairs)
        assert "unexpected OverflowError (made by a test)" in found.unreachable[name]
        assert (name in found.wakes_only) == (name not in alone & wakes_too)


def test_the_number_of_decisions_grows_with_the_faults_and_little_with_the_clusters() -> None:
    counted: list[int] = []

    def decided(state: ObservedState) -> None:
        counted.append(len(state.clusters))
        if "n-77" in state.clusters:
            raise ValueError

    names = tuple(f"n-{number:02}" for number in range(100))
    found, _ = without_faulty(a_state(names), decided)
    assert set(found.unreachable) == {"n-77"}
    assert len(counted) < 25
    counted.clear()
    without_faulty(a_state(names[:50]), decided)
    assert len(counted) == 1


def failing_with(*faulty: frozenset[str], wakes: str = ""):
    """Return a decision that fails where all of one of `faulty` are there, or one of `wakes` by its wakes."""

    def decided(state: ObservedState) -> frozenset[str]:
        if any(together <= set(state.clusters) for together in faulty) or set(wakes) & set(state.wakes_only):
            raise OverflowError("made by a test")
        return frozenset(state.clusters)

    return decided


def test_what_was_unknown_before_keeps_its_reason_and_its_wakes() -> None:
    before = replace(
        a_state(("a", "b")),
        wakes_only={name: ObservedCluster(name, f"identity-{name}") for name in "cd"},
        unreachable={"c": "refused", "d": "timed out", "e": "refused too"},
    )
    found, _ = without_faulty(before, failing_with(frozenset("b"), wakes="d"))
    assert (sorted(found.clusters), sorted(found.wakes_only)) == (["a"], ["b", "c"])
    assert {name: found.unreachable[name] for name in "cde"} == before.unreachable
    assert found.unreachable["b"].startswith("unexpected OverflowError")


def test_what_is_raised_on_purpose_is_about_the_whole_run() -> None:
    def decided(_: ObservedState) -> None:
        raise PolicyError("web.yaml:1: replicas are -1")

    with pytest.raises(PolicyError):
        without_faulty(a_state(), decided)


def test_without_a_cluster_to_blame_the_error_is_the_policies() -> None:
    counted: list[int] = []

    def decided(state: ObservedState) -> None:
        counted.append(len(state.clusters))
        raise KeyError("web")

    with pytest.raises(PolicyError, match="the policies cannot be decided: unexpected KeyError"):
        without_faulty(a_state(), decided)
    assert counted == [len(NAMES), 0]  # one decision without any cluster tells; none is looked for


def test_where_only_wakes_could_be_decided_those_that_fail_are_left_out() -> None:
    counted: list[frozenset[str]] = []

    def decided(state: ObservedState) -> None:
        counted.append(frozenset(state.wakes_only))
        if "b" in state.wakes_only:
            raise ValueError

    wakes_only = {name: ObservedCluster(name, f"identity-{name}") for name in "ab"}
    found, _ = without_faulty(ObservedState({}, wakes_only=wakes_only), decided)
    assert (set(found.wakes_only), set(found.unreachable)) == ({"a"}, {"a", "b"})
    assert counted == [frozenset(names) for names in ("ab", "", "ab", "a", "ab", "a")]


def failing_on(cluster: str, *, wakes: bool = False):
    def decided(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
        if cluster in state.clusters or (wakes and cluster in state.wakes_only):
            raise OverflowError("date value out of range")
        return decide(policies, state, run)

    return decided


def test_a_cluster_that_cannot_be_decided_is_unknown_and_its_due_wakes_are_done(tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "world")
    code, applied = fleet.run(*fleet.opened(folder), decide=failing_on("north"))
    assert code is ExitCode.PARTIAL
    assert applied.plan.unknown["north"].startswith("unexpected OverflowError (date value out of range) at reconciler/")
    after = fleet.replicas(folder)
    assert (after["east"], after["west"]) == (AFTER, AFTER)
    assert after["north"] == {"sleepy": 2, "due": 3, "asked": 4, "worker": 3}


def test_where_not_even_its_wakes_can_be_decided_the_others_are(tmp_path: Path) -> None:
    folder = fleet.write(tmp_path / "world")
    code, _ = fleet.run(*fleet.opened(folder), decide=failing_on("north", wakes=True))
    after = fleet.replicas(folder)
    assert code is ExitCode.PARTIAL
    assert (after["east"], after["west"], after["north"]) == (AFTER, AFTER, fleet.BEFORE)


def test_policies_that_cannot_be_decided_are_an_error_of_the_policies(tmp_path: Path) -> None:
    def decided(policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
        raise ZeroDivisionError

    policies, world = fleet.opened(fleet.write(tmp_path / "world"))
    with pytest.raises(PolicyError, match="the policies cannot be decided: unexpected ZeroDivisionError at "):
        plan(policies, world, RunRequest(fleet.NOW), decided)
