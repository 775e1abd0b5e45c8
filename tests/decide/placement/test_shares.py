"""What the clusters share: what those that are left out have, what draining ones keep, what is known of room then; and
how much of a decrease a run may do.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from reconciler.decide.annotations import ObservedCapacity
from reconciler.decide.placement.desired_replicas import next_step, placement_result
from reconciler.decide.placement.home_config_maps import unknown_since
from reconciler.decide.placement.placement_inputs import LocalWorkload, PlacementCase, placement_inputs
from reconciler.decide.placement.pod_counts import PodCounts
from reconciler.decide.placement.recorded_status import PlacementStatus
from reconciler.policy.types import ClusterPreference
from tests.builders import NOW, a_cluster, a_fleet, a_policy_set, a_ref, a_run, a_state, a_workload
from tests.cases import cases

from .placements import EVENLY, a_federated, a_memory, ago


def local(cluster, replicas=0, **fields):
    """One that runs all of its `replicas`."""
    counts = {name: fields.pop(name) for name in PodCounts.__struct_fields__ if name in fields}
    pods = PodCounts(**({"current": replicas or 0, "available": replicas or 0} | counts))
    return LocalWorkload(cluster, a_ref(cluster=cluster), spec_replicas=replicas, pods=pods, **fields)


def unknown(cluster="u"):
    return local(cluster, None, part="held")


def full(cluster, replicas, capacity, **fields):
    """One that asks for `replicas` and has room for `capacity`."""
    known = {"capacity": capacity, "limit": "learned", "current": min(replicas, capacity)}
    return local(cluster, replicas, **(known | fields))


def draining(cluster, replicas):
    return local(cluster, replicas, capacity=0, limit="draining")


def asked(desired, **clusters):
    return PlacementStatus(desired, {name: {"asked": replicas} for name, replicas in clusters.items()})


def preferring(**weights):
    return {name: ClusterPreference(weight=weight) for name, weight in weights.items()}


def most(**maximums):
    return EVENLY | {name: ClusterPreference(weight=1, max_replicas=number) for name, number in maximums.items()}


def result_of(federated, *locals_, status=None, readable=True):
    fleet = a_fleet(*(one.cluster for one in locals_))
    state = a_state(*(a_cluster(one.cluster) for one in locals_))
    inputs = placement_inputs(a_policy_set(fleet, federated=(federated,)), state, a_run(), {}.get)
    inputs = replace(inputs, home=replace(inputs.home, is_whole=readable))
    return placement_result(PlacementCase(federated, inputs, status or PlacementStatus()), locals_)


HELD = local("h", 2, part="held")
OUT = local("o", 3, part="out")


@cases(
    "locals_ status expected",
    ("all known", [local("a", 4), HELD, OUT], None, 2),
    (
        "what the status does not ask of the others",
        [unknown(), local("a", 4), local("b", 5), HELD, OUT],
        asked(12, a=4, b=3, h=2, o=3),
        5,
    ),
    (
        "one that is not in the status counts with what it has",
        [unknown(), local("a", 4), local("b", 5), local("c", 1), HELD],
        asked(12, a=4, b=3, h=2),
        4,
    ),
    ("and that may be none", [unknown(), local("a", 4), local("c", 0), HELD], asked(12, a=4, h=2), 8),
    (
        "what is held and has none is away",
        [unknown(), local("a", 4), local("z", 0, part="held")],
        asked(12, a=4, z=5),
        8,
    ),
    ("the others are asked for all", [unknown(), local("a", 7), HELD], asked(9, a=7, h=2), 2),
    ("or for more", [unknown(), local("a", 9), HELD], asked(9, a=9, h=2), 2),
)
def test_what_the_clusters_that_are_left_out_have_by_the_status(locals_, status, expected):
    found = result_of(a_federated(12), *locals_, status=status, readable=False)
    assert (found.taken_off, found.allocation.demand.rebalance) == (expected, True)


@cases(
    "federated locals_ expected",
    ("its own part", a_federated(12), [unknown(), local("a")], 6),
    ("of what is left", a_federated(12), [unknown(), local("a"), local("h", 4, part="held")], 8),
    ("more where others have no room", a_federated(12), [unknown(), local("a", capacity=1)], 11),
    ("all where they have none at all", a_federated(12), [unknown(), local("a", capacity=0)], 12),
    ("those that are out have no part", a_federated(12), [unknown(), OUT], 12),
    (
        "none where nothing is left",
        a_federated(12, clusters=preferring(u=1)),
        [unknown(), local("h", 12, part="held")],
        12,
    ),
    (
        "nobody keeps any yet",
        a_federated(12, rebalance=False, clusters=preferring(u=1, a=0)),
        [unknown(), local("a")],
        12,
    ),
)
def test_one_that_never_was_anywhere_is_taken_to_have_its_part_where_nobody_answers(federated, locals_, expected):
    found = result_of(federated, *locals_)
    assert (found.taken_off, found.allocation.demand.rebalance) == (expected, federated.rebalance)


MANY = [
    unknown(),
    local("a", 5, workload=a_workload()),
    draining("b", 3),
    local("c", 2),
    local("d", 4),
    local("e", 3, remembered=ObservedCapacity(2, NOW)),
    local("f", 0),
]
PARTS = preferring(u=1, a=1, b=1, e=1, f=1) | {"d": ClusterPreference(weight=1, max_replicas=1)}


@cases(
    "locals_ readable expected",
    ("what the others do not have of their own: 5 + 0 + 0 + 1 + 2 + 0", MANY, True, 4),
    ("no less than is known", [*MANY, local("h", 6, part="held")], True, 6),
    ("nothing is there, and nothing can be read", [unknown(), local("a", 0)], False, 12),
)
def test_without_a_status_only_stuck_replicas_move(locals_, readable, expected):
    found = result_of(a_federated(12, clusters=PARTS), *locals_, readable=readable)
    assert (found.taken_off, found.allocation.demand.rebalance) == (expected, False)


def test_of_several_draining_clusters_those_keep_first_that_are_served_first():
    clusters = {"a": ClusterPreference(weight=1, max_replicas=4)} | preferring(d=9, e=8)
    found = result_of(a_federated(6, clusters=clusters), local("a", 4), draining("d", 3), draining("e", 3))
    assert (dict(found.keeping), dict(found.replicas)) == ({"d": 2}, {"a": 4, "d": 2, "e": 0})


def test_as_many_are_wanted_as_would_run_if_there_was_room():
    found = result_of(a_federated(10, clusters=most(a=3)), local("a", 5), full("w", 5, 1))
    assert (dict(found.replicas), found.next_replicas["a"]) == ({"a": 3, "w": 1}, 5)


def after(federated, *locals_):
    """What is known of the room of "w" after the run."""
    return result_of(federated, *locals_).memory["w"]


KNOWN = ObservedCapacity(5, ago(minutes=5))


@cases("grows expected", ("not yet", 2, KNOWN), ("settled", 9, None))
def test_room_that_does_not_bind_is_forgotten_once_all_is_settled(grows, expected):
    west = full("w", 3, 5, remembered=KNOWN)
    assert after(a_federated(12, clusters=most(w=3)), local("a", grows), west) == expected


def test_room_is_known_still_where_writes_are_refused():
    west = local("w", 5, capacity=5, limit="refused", remembered=KNOWN)
    assert after(a_federated(12), local("a", 6), west) == KNOWN


@cases(
    "known stuck at retry",
    ("the policy lets none wait any more", KNOWN, 0, KNOWN.at, NOW + timedelta(minutes=5)),
    ("tried just now", replace(KNOWN, retry_after=NOW), 1, NOW, NOW + timedelta(minutes=10)),
    ("to be tried now", replace(KNOWN, retry_after=NOW), 0, KNOWN.at, NOW),
    (
        "to be tried in a second",
        replace(KNOWN, retry_after=NOW + timedelta(seconds=1)),
        1,
        KNOWN.at,
        NOW + timedelta(seconds=1),
    ),
)
def test_when_a_full_cluster_is_tried_again(known, stuck, at, retry):
    west = full("w", 5, 5, remembered=known, unschedulable=stuck)
    assert after(a_federated(20, waiting_replicas=0), local("a", 15), west) == ObservedCapacity(5, at, retry)


@cases(
    "weights replicas expected",
    ("two go on waiting", most(w=3), 5, 5),
    ("one goes on waiting", most(w=3), 4, 4),
    ("none is there to wait", preferring(a=1, w=0), 0, 0),
)
def test_while_others_grow_those_that_wait_go_on_waiting(weights, replicas, expected):
    found = result_of(a_federated(12, clusters=weights), local("a", 2), full("w", replicas, 3, unschedulable=0))
    assert found.target["w"] == expected


def test_what_waits_for_too_long_does_not_belong_there():
    assert local("w", 5, unschedulable=2).kept == 3
    assert local("w", 1, unschedulable=2).kept == 0


def test_since_when_clusters_are_unknown():
    memory = a_memory("east", unreachable_since='{"west":"2026-11-20T15:00:00Z"}')
    lost = {"west": "connection refused", "north": "connection refused"}
    state = a_state(a_cluster("east", config_maps=(memory,)), unreachable=lost)
    since = datetime(2026, 11, 20, 15, tzinfo=UTC)
    assert unknown_since(a_fleet("east", "west", "north"), state, NOW) == {"west": since, "north": NOW}


REPLICAS = st.integers(0, 20)


@given(st.lists(st.tuples(REPLICAS, REPLICAS, REPLICAS), min_size=1, max_size=6), st.integers(1, 60), REPLICAS)
def test_a_step_never_costs_what_is_needed(places, wanted, elsewhere):
    placed = [local(str(at), asked, available=min(asked, runs)) for at, (asked, runs, _) in enumerate(places)]
    targets = {str(at): target for at, (_, _, target) in enumerate(places)}
    available = elsewhere + sum(one.pods.available for one in placed)
    step = next_step(placed, targets, available, wanted)
    left = elsewhere + sum(min(one.pods.available, step[one.cluster]) for one in placed)
    assert left >= min(available, wanted)
    for one in placed:
        least, most = sorted((one.spec_replicas, targets[one.cluster]))
        assert least <= step[one.cluster] <= most
