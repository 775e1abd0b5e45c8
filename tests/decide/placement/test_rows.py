"""All that is said of each cluster, in worlds with a cluster of every sort: rows, status, causes, explanations."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from reconciler.decide.placement.recorded_status import rejection_after_failure, rejection_key
from reconciler.model import ObjectRef, OwnerReference
from reconciler.policy.types import ClusterPreference
from tests.builders import NOW_NS, a_cluster, a_fleet, a_namespace, a_pod, change_if_of
from tests.cases import cases
from tests.decide.placement.placements import IDLE, a_local

from .placements import (
    EVENLY,
    MINUTE_NS,
    a_deployment,
    a_federated,
    a_fleet_with,
    a_full,
    a_memory,
    a_placed,
    a_status,
    ago,
    idle,
    place,
    settled,
    some_pods,
    with_pods,
)

OWNED = {"owner": OwnerReference("apps/v1", "Deployment", "web", "uid-web")}


def refusals(cluster, times, at):
    """What is remembered of `times` refusals in a row, the last one `at`."""
    ref, text = ObjectRef(cluster, "shop", "ReplicaSet", "web", "apps"), None
    for _ in range(times):
        text = rejection_after_failure(text, ref, "exceeded quota", at)
    return {rejection_key(ref): text}


def in_states(fleet, **states):
    return replace(fleet, clusters=tuple(replace(one, state=states.get(one.name, one.state)) for one in fleet.clusters))


def rows(desired):
    """(desired, spec after, spec now, available, capacity, overflow) and why, by cluster."""
    return {
        one.cluster: ((one.desired, one.spec_replicas, one.current, one.running, one.capacity, one.overflow), one.why)
        for one in desired.placements[0].rows
    }


def statuses(desired):
    """(asked, running, idle) of each cluster in the status that is written."""
    (written,) = [one for one in desired.decisions if one.ref.name.startswith("reconciler-status-")]
    if written.manifest is not None:
        text = written.manifest["metadata"]["annotations"]["reconciler/status"]
    else:
        text = written.changes[-1].after
    entries = json.loads(text)["clusters"]
    return {name: (entry["asked"], entry["running"], entry.get("idle", "")) for name, entry in entries.items()}


def told(desired):
    return {one.ref.cluster: (one.outcome, one.why, change_if_of(one)) for one in desired.explanations}


def values(desired):
    return {one.ref.cluster: one.cause.values for one in desired.decisions if one.ref.kind == "ReplicaSet"}


@pytest.fixture
def full():
    """Nine clusters: `a` is home, `h` and `i` do not answer, `e` and `f` refused writes."""
    remembered = refusals("e", 1, ago(minutes=2)) | refusals("f", 3, ago(minutes=1))
    since = '{"h":"2026-11-20T12:00:00Z","i":"2026-11-20T15:40:23Z"}'
    maps = (
        a_memory("a", at=ago(minutes=1), unreachable_since=since, **remembered),
        a_status('{"desired":40,"clusters":{"h":{"asked":4},"i":{"asked":5}}}', cluster="a", at=ago(minutes=1)),
    )
    old = NOW_NS - 30 * MINUTE_NS
    crashing = [a_pod(f"x{number}", ready=False, created_ns=old) for number in range(2)]
    return place(
        settled("a", 4, config_maps=maps),
        settled("b", 3, available_replicas=2),
        a_full("c", 6, 2),
        with_pods(settled("d", 6, ready_replicas=4, available_replicas=4), (*some_pods(4), *crashing)),
        settled("e", 2),
        settled("f", 2),
        settled("g", 1),
        lost=("h", "i"),
        fleet=in_states(a_fleet(*"abcdefghi"), b="Frozen"),
        federated=a_federated(40, clusters=EVENLY | {"g": ClusterPreference(weight=1, max_replicas=1)}),
    )


LAGGING = "weight 1 of 6, lagging: receives no replicas until all of its pods run, 2 placed, not available"
REFUSED = "weight 1 of 6, refused 3 times in a row, tried again at 2026-11-20T15:45:23Z: exceeded quota"
KEEP = "clusters left alone keep 8, desired 40"
AWAY = "unreachable since 2026-11-20T12:00:00Z, its replicas move elsewhere"


def test_explanations_of_a_fleet_that_is_full(full):
    assert told(full) == {
        "a": ("11 replicas", f"share 11: weight 1 of 6, {KEEP}", "replicas is 42"),
        "b": ("left alone", "the cluster is frozen", "its cluster has another state"),
        "c": ("4 replicas", f"share 2: weight 1 of 6, capacity 2, 2 waiting, {KEEP}", "its capacity is above 2"),
        "d": ("6 replicas", f"share 6: {LAGGING}, {KEEP}", ""),
        "e": ("10 replicas", f"share 10: weight 1 of 6, refused once: exceeded quota, {KEEP}", "replicas is 41"),
        "f": ("2 replicas", f"share 2: {REFUSED}, {KEEP}", "its write is not refused"),
        "g": ("1 replica", f"share 1: weight 1 of 6, max 1, {KEEP}", "maxReplicas is above 1"),
        "h": ("left alone", AWAY, ""),
        "i": ("left alone", "unreachable since 2026-11-20T15:40:23Z", "it is 2026-11-20T15:50:23Z or later"),
    }


def test_nothing_moves_from_an_unreachable_cluster_that_no_preference_names_and_that_ran_nothing():
    since = '{"h":"2026-11-20T12:00:00Z","i":"2026-11-20T15:40:23Z","j":"2026-11-20T12:00:00Z"}'
    maps = (
        a_memory("a", at=ago(minutes=1), unreachable_since=since),
        a_status('{"desired":4,"clusters":{"j":{"asked":4}}}', cluster="a", at=ago(minutes=1)),
    )
    only_a = a_federated(4, clusters={"a": ClusterPreference(weight=1)})
    found = told(place(settled("a", 4, config_maps=maps), lost=("h", "i", "j"), federated=only_a))
    del found["a"]
    assert found == {
        "h": ("left alone", "unreachable since 2026-11-20T12:00:00Z", ""),
        "i": ("left alone", "unreachable since 2026-11-20T15:40:23Z", ""),
        "j": ("left alone", AWAY, ""),
    }


@pytest.fixture
def mixed():
    """`a` belongs to a Deployment, `c` leaves, `d` is idle, `e` has no namespace, `f` no preference."""
    return place(
        settled("a", 3, **OWNED),
        settled("b", 3),
        settled("c", 2),
        idle("d"),
        a_cluster("e", namespaces=(a_namespace("default", cluster="e"),)),
        settled("f", 1),
        fleet=in_states(a_fleet(*"abcdef"), c="Leaving"),
        federated=a_federated(9, clusters={name: ClusterPreference(weight=1) for name in "abcde"}),
    )


LEFT = "clusters left alone keep 3, desired 9"
LATER = "more move once as many are available elsewhere"


def test_rows_of_a_fleet_where_others_decide(mixed):
    assert rows(mixed) == {
        "a": ((None, 3, 3, 3, None, 0), "is controlled by Deployment/web"),
        "b": ((6, 6, 3, 3, None, 0), "weight 1 of 1"),
        "c": ((0, 2, 2, 2, 0, 0), f"leaving, 2 {LATER}"),
        "d": ((3, 0, 0, 0, None, 0), "idle, nights decides"),
        "e": ((0, 0, 0, 0, 0, 0), "namespace shop does not exist"),
        "f": ((0, 1, 1, 1, None, 0), f"no preference for this cluster, 1 {LATER}"),
    }


def test_a_cluster_that_is_left_alone_and_runs_nothing_is_known_to_run_nothing():
    desired = place(settled("east", 6), a_cluster("west"), fleet=a_fleet_with("Frozen", "east", "west"))
    assert rows(desired)["west"] == ((0, 0, 0, 0, None, 0), "the cluster is frozen")


def test_the_status_of_a_fleet_where_others_decide(mixed):
    assert statuses(mixed) == {
        "a": (3, None, ""),
        "b": (6, 6, ""),
        "c": (2, 2, ""),
        "d": (3, 3, "nights"),
        "e": (0, 0, ""),
        "f": (1, 1, ""),
    }


def test_explanations_of_a_fleet_where_others_decide(mixed):
    assert told(mixed) == {
        "a": ("left alone", "is controlled by Deployment/web", ""),
        "b": ("6 replicas", f"share 6: weight 1 of 1, {LEFT}", "replicas is 10"),
        "c": ("2 replicas", f"leaving, 2 {LATER}", "state is Active in the Fleet"),
        "d": ("left alone", "idle, nights decides", ""),
        "e": ("0 replicas", "namespace shop does not exist", "namespace shop exists"),
        "f": (
            "1 replica",
            f"no preference for this cluster, 1 {LATER}",
            'preferences.clusters has an entry for f or "*"',
        ),
    }
    assert values(mixed) == {"b": {"total": 9, "share": 6, "elsewhere": 3}}
    assert [(one.ref.cluster, one.desired, one.winner) for one in mixed.overridden] == [("d", "5 replicas", "nights")]


def test_an_idle_one_would_have_what_is_free_where_it_has_no_record_of_its_own():
    """The wish is made as if it were awake with what it had: with rebalance: false that stays."""
    west = settled("west", 2)
    claims = {west.workloads[0].ref: "nights"}
    federated = a_federated(8, rebalance=False, clusters=EVENLY | {"west": ClusterPreference()})
    assert place(settled("east", 3), west, federated=federated, claims=claims).overridden == ()
    desired = place(settled("east", 6), idle("west"), federated=federated)
    assert [one.desired for one in desired.overridden] == ["2 replicas"]
    west = settled("west", 0)
    fleet, claims = a_fleet_with("Draining", "east", "west"), {west.workloads[0].ref: "nights"}
    assert place(settled("east", 6), west, federated=a_federated(8), claims=claims, fleet=fleet).overridden == ()


def test_a_target_that_is_missing():
    desired = place(
        settled("a", 3, made=a_deployment), a_cluster("b"), a_cluster("c"),
        federated=a_placed(6, clusters={name: ClusterPreference(weight=1) for name in "ab"}),
    )  # fmt: skip
    assert rows(desired) == {
        "a": ((6, 6, 3, 3, None, 0), "weight 1 of 1"),
        "b": ((0, 0, 0, 0, 0, 0), "Deployment web does not exist"),
    }
    assert statuses(desired) == {"a": (6, 6, ""), "b": (0, 0, "")}
    assert told(desired)["b"] == ("0 replicas", "Deployment web does not exist", "Deployment web exists")


FORGOTTEN = "refused writes of removed policies are forgotten"


@cases(
    "kept answers expected",
    ("nothing to say", {}, True, None),
    ("lost just now", {}, False, ("unreachable: west", '{"west":"2026-11-20T15:41:23Z"}')),
    (
        "back again",
        {"unreachable_since": '{"west":"2026-11-20T15:00:00Z"}'},
        True,
        ("all clusters are reachable", "{}"),
    ),
    ("still lost", {"unreachable_since": '{"west":"2026-11-20T15:00:00Z"}'}, False, None),
    ("nothing new", {"unreachable_since": "{}"}, True, None),
    ("stale", {"rejected.0": "{}", "unreachable_since": "{}"}, True, (FORGOTTEN, None)),
    (
        "both",
        {"rejected.0": "{}", "unreachable_since": '{"west":"2026-11-20T15:00:00Z"}'},
        True,
        (f"all clusters are reachable, {FORGOTTEN}", "{}"),
    ),
    ("first time", {"rejected.0": "{}"}, True, (f"all clusters are reachable, {FORGOTTEN}", "{}")),
)
def test_what_is_remembered_of_the_whole_fleet(kept, answers, expected):
    maps = (a_memory(**kept),) if kept else ()
    east = settled("east", 3, config_maps=maps)
    desired = place(*([east, settled("west", 3)] if answers else [east]), lost=() if answers else ("west",))
    found = [one for one in desired.decisions if one.ref.name == "reconciler-memory"]
    assert [one.cause.why for one in found] == ([] if expected is None else [expected[0]])
    for one in found:
        data = (one.manifest or {}).get("data") or {
            change.path[-1]: change.after for change in one.changes if change.path[0] == "data"
        }
        assert data.get("unreachable-since") == expected[1]
        assert ("rejected.0" in data) is ("rejected.0" in kept)
        assert data.get("rejected.0") is None


@cases(
    "west expected why",
    ("deleted", settled("west", 2, terminating=True), (2, 2, 2, 2, None, 0), "it is being deleted"),
    (
        "deleted with none",
        settled("west", 0, terminating=True, ready_replicas=None, available_replicas=None),
        (0, 0, 0, 0, None, 0),
        "it is being deleted",
    ),
)
def test_what_is_left_alone_keeps_its_row(west, expected, why):
    desired = place(settled("east", 3), west)
    assert rows(desired)["west"] == (expected, why)
    assert values(desired) == (
        {}
        if expected[0] == 3
        else {"east": {"total": 6, "share": 6 - expected[0], "elsewhere": expected[0]}}
        if expected[0]
        else {"east": {"total": 6, "share": 6}}
    )


def test_one_that_idling_claims_while_it_is_scaled_up_by_hand_counts_with_what_it_has():
    west = settled("west", 5, annotations={**a_local("west", 1).annotations, **IDLE})
    desired = place(settled("east", 4), west, federated=a_federated(9), claims={west.workloads[0].ref: "days"})
    assert rows(desired)["west"] == ((5, 5, 5, 5, None, 0), "idle, days decides")


def test_a_refusal_is_remembered_where_nothing_else_is():
    maps = (replace(a_memory("east"), data=refusals("west", 3, ago(minutes=1))),)
    desired = place(settled("east", 3, config_maps=maps), a_cluster("west"))
    assert rows(desired)["west"][0] == (0, 0, 0, 0, 0, 0)
    assert rows(desired)["east"][0] == (6, 6, 3, 3, None, 0)


def test_a_cluster_that_does_not_answer_since_nobody_can_know_when():
    """Where nothing may be written down, not even that; it counts with what it was asked for."""
    east = settled("east", 3, config_maps=(a_status('{"clusters":{"west":{"asked":4}}}'),))
    fleet = replace(in_states(a_fleet("east", "west"), east="ReadOnly"), home="east")
    desired = place(east, lost=("west",), fleet=fleet, federated=a_federated(9))
    assert rows(desired)["west"] == ((4, None, None, None, None, 0), "unreachable")
    assert desired.decisions == ()


def test_what_was_refused_is_tried_again_when_its_time_has_come():
    maps = (replace(a_memory("east"), data=refusals("west", 3, ago(minutes=5))),)
    desired = place(settled("east", 3, config_maps=maps), a_cluster("west"))
    assert rows(desired)["west"] == ((3, 3, 0, 0, None, 0), "weight 1 of 2, refused 3 times in a row: exceeded quota")
    assert statuses(desired)["west"] == (0, 0, "")  # the status says what is there: it may be refused again


@cases(
    "old world why",
    ("left alone", "", {}, "the cluster is frozen"),
    ("lost", ',"idle":"nights"', {"lost": ("west",)}, "unreachable since 2026-11-20T15:41:23Z"),
)
def test_the_status_says_why_it_is_what_it_is_now(old, world, why):
    entry = f'{{"asked":2,"running":2,"why":"weight 1 of 2","since":"2026-11-20T00:00:00Z"{old}}}'
    maps = (a_status(f'{{"desired":6,"clusters":{{"west":{entry}}}}}'),)
    east = settled("east", 4, config_maps=maps)
    desired = place(
        east, settled("west", 2), fleet=a_fleet_with("Frozen" if not old else "Active", "east", "west"), **world
    )
    (written,) = [one for one in desired.decisions if one.ref.name.startswith("reconciler-status-")]
    assert json.loads(written.changes[-1].after)["clusters"]["west"]["why"] == why


def test_the_status_of_a_fleet_that_is_full(full):
    assert statuses(full) == {
        "a": (11, 11, ""),
        "b": (3, 3, ""),
        "c": (4, 2, ""),
        "d": (6, 4, ""),
        "e": (2, 2, ""),
        "f": (2, 2, ""),
        "g": (1, 1, ""),
        "h": (4, None, ""),
        "i": (5, None, ""),
    }


def test_a_paused_one():
    desired = place(
        settled("a", 3), settled("b", 3, **OWNED), settled("c", 1), a_cluster("e"), lost=("d",),
        federated=a_federated(12, paused=True),
    )  # fmt: skip
    nothing = (None, None, None, None, None, 0)
    assert rows(desired) == {
        "a": ((3, 3, 3, 3, None, 0), "paused"),
        "b": ((None, 3, 3, 3, None, 0), "is controlled by Deployment/web"),
        "c": ((1, 1, 1, 1, None, 0), "paused"),
        "d": (nothing, "unreachable since 2026-11-20T15:41:23Z"),
        "e": ((0, 0, 0, 0, None, 0), "paused"),
    }
    assert statuses(desired) == {"a": (3, 3, ""), "b": (3, None, ""), "c": (1, 1, ""), "d": (None, None, "")}
