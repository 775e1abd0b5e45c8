"""Federated ReplicaSets that left git."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.decide.annotations import Key
from reconciler.decide.decisions import Phase, Verb
from reconciler.decide.owners_and_rollouts import Settled
from reconciler.decide.placement.recorded_status import rejection_key
from reconciler.model import OwnerReference
from reconciler.policy.kinds.federated_replica_set import TargetRef
from reconciler.policy.types import ClusterPreference, Place, Tenant
from tests.builders import a_cluster, a_fleet, a_workload
from tests.cases import cases

from .placements import (
    IDLE,
    a_federated,
    a_fleet_with,
    a_local,
    a_memory,
    a_placed,
    a_status,
    about,
    ago,
    place,
    settled,
)

WEST = ClusterPreference(weight=1)
OURS = "production/FederatedReplicaSet"
CAPACITY = "reconciler/observed-capacity"


def of(name, **fields):
    """A federated ReplicaSet shop/NAME."""
    return a_federated(name=name, **fields)


def a_left_one(name="gone", on_delete="Orphan", **marks):
    """The local ReplicaSet of a policy that is not there; `marks` are more annotations."""
    policy = of(name, on_delete=on_delete)
    own = a_local("west", 3, policy).annotations
    more = {f"reconciler/{key.replace('_', '-')}": text for key, text in marks.items()}
    return a_local("west", 3, policy, name=name, annotations={**own, "own": "1", **more})


def without(*workloads, policies=(), **world):
    """One pass with `policies` (none by default) over "east" and a "west" with `workloads`."""
    return place(a_cluster("east"), a_cluster("west", workloads=workloads), federated=tuple(policies), **world)


def test_it_keeps_running_without_our_marks():
    (released,) = without(a_left_one(observed_capacity="{}")).decisions
    assert (released.verb, released.phase, released.event) == (Verb.RELEASE, Phase.REPAIR, "Released")
    assert {change.path[-1] for change in released.changes} == {
        "reconciler/owner",
        "reconciler/policy-digest",
        "reconciler/on-delete",
        CAPACITY,
        "reconciler/frs",
    }
    assert all(change.after is None for change in released.changes)
    assert (released.group, released.replicas_after) == ("placement/shop/gone", None)
    assert (released.cause.policy, released.cause.why) == ("gone", "its policy was removed (onDelete: orphan)")


def test_it_is_deleted_where_its_policy_said_so():
    (deleted,) = without(a_left_one(on_delete="Delete")).decisions
    assert (deleted.verb, deleted.phase, deleted.orphan) == (Verb.DELETE, Phase.DECREASE, False)
    assert (deleted.replicas_before, deleted.replicas_after) == (3, 0)


@pytest.mark.parametrize(
    ("kind", "marks"),
    [
        ("ReplicaSet", {CAPACITY: '{"at":"2026-11-20T15:41:23Z","owner":"production/FederatedReplicaSet/shop/web"}'}),
        ("Deployment", {"reconciler/owner": "production/FederatedReplicaSet/shop/web"}),
    ],
)
def test_what_something_else_made_is_never_deleted(kind, marks):
    found = a_workload(cluster="west", kind=kind, annotations={**marks, "reconciler/on-delete": "delete"})
    assert [one.verb for one in without(found).decisions] == [Verb.RELEASE]


def test_nothing_is_deleted_where_nothing_is_written():
    west = a_cluster("west", config_maps=(a_status("{}", key="shop/gone", cluster="west", at=ago(hours=1)),))
    east = a_cluster("east", config_maps=(a_status("{}", key="shop/lost"),))
    fleet = a_fleet_with("ReadOnly", "east", "west")
    assert [one.ref.name for one in place(east, west, federated=(), fleet=fleet).decisions] == [
        "reconciler-status-shop.lost"
    ]


def test_its_status_goes_too():
    east = a_cluster("east", config_maps=(a_status("{}", key="shop/gone"), a_status("{}", key="shop/web")))
    desired = place(east, federated=(a_federated(0),))
    (forgotten,) = [one for one in desired.decisions if one.verb is Verb.DELETE]
    assert (forgotten.ref.name, forgotten.phase) == ("reconciler-status-shop.gone", Phase.RECORD)
    assert (forgotten.group, forgotten.cause.policy) == ("placement/shop/gone", "gone")


@pytest.mark.parametrize("on_delete", ["Orphan", "Delete"])
def test_a_policy_that_turns_to_workloads_made_by_others_leaves_its_own_behind(on_delete):
    """It was not removed, so what it says of that does not count."""
    desired = without(a_local("west", 3, a_federated(on_delete=on_delete)), policies=[a_placed()])
    assert [(one.verb, one.cause.why) for one in about(desired, "west")] == [
        (Verb.RELEASE, "its policy is about Deployment/web now")
    ]


@cases(
    "fields",
    ("of another Fleet", {"annotations": {"reconciler/owner": "staging/FederatedReplicaSet/shop/gone"}}),
    ("of idling", {"annotations": {"reconciler/owner": "production/IdlingPolicy/nights"}}),
    ("copied by a Deployment", {"owner": OwnerReference("apps/v1", "Deployment", "gone", "uid")}),
    ("being deleted already", {"terminating": True}),
    ("without marks", {"annotations": {}}),
)
def test_what_is_left_alone(fields):
    marks = {"name": "gone", "cluster": "west", "kind": "ReplicaSet", "annotations": a_left_one().annotations}
    assert without(a_workload(**(marks | fields))).decisions == ()


@pytest.mark.parametrize("state", ["Frozen", "ReadOnly"])
def test_frozen_and_claimed_ones_are_left_alone(state):
    gone = a_left_one()
    assert without(gone, fleet=a_fleet_with(state, "east", "west")).decisions == ()
    assert without(gone, claims={gone.ref: "nights"}).decisions == ()


@cases(
    "left on_delete verbs",
    ("deleted as it is, as it would wake only for that", {}, "Delete", [Verb.DELETE]),
    ("released once it is awake", {}, "Orphan", []),
    ("released once another Fleet woke it", {"state": "Foreign"}, "Orphan", []),
    ("idled by this run", {"needs": ("idle",)}, "Delete", []),
    ("woken by this run", {"state": "Waking", "needs": ("wake",)}, "Delete", []),
)
def test_what_is_idle(left, on_delete, verbs):
    gone = a_left_one(on_delete=on_delete)
    idle = {gone.ref: Settled(**({"state": "Asleep", "replicas": 0, "awake_replicas": 3, "owner": "nights"} | left))}
    assert [one.verb for one in without(gone, waking=idle).decisions] == verbs


def test_who_owns_an_idle_record_stays_on_it():
    """Nobody wakes what has a record without an owner."""
    placed = '{"owner":"production/FederatedReplicaSet/shop/gone","previous":6,"replicas":4}'
    marks = {**IDLE, Key.PLACED: placed, "reconciler/owner": "production/IdlingPolicy/nights"}
    scaled_up = a_workload(cluster="west", kind="Deployment", replicas=3, annotations=marks)
    (released,) = without(scaled_up).decisions
    assert {change.path[-1] for change in released.changes} == {Key.PLACED}


@pytest.mark.parametrize(("paused", "released"), [(False, True), (True, False)])
def test_in_a_cluster_that_its_tenant_lost_it_is_released_and_never_deleted(paused, released):
    place_of = Place("fleet.yaml", 12)
    tenant = Tenant(name="a", place=place_of, paths=("a/**",), namespaces=("shop",), clusters=("east",))
    policy = a_federated(3, tenant="a", within=("east",), on_delete="Delete", paused=paused)
    east, west = (settled(name, 3, policy) for name in ("east", "west"))
    desired = place(east, west, federated=policy, fleet=a_fleet("east", "west", tenants=(tenant,)))
    found = about(desired, "west")
    assert [one.verb for one in found] == [Verb.RELEASE] * released
    assert [(one.cause.at, one.cause.why) for one in found] == [
        ("fleet.yaml:12", "its policy is of tenant a, which does not have this cluster any more")
    ] * released
    assert about(desired, "east") == []


def test_what_another_policy_targets_now_is_neither_released_nor_deleted():
    """One that a policy made which is gone: its marks go with the first write of who places it now."""
    made = a_left_one(on_delete="Delete")
    policy = a_placed(3, name="new", target=TargetRef("apps/v1", "ReplicaSet", "gone"), clusters={"west": WEST})
    (repaired,) = about(without(made, policies=[policy]), "west")
    assert (repaired.verb, repaired.cause.why) == (Verb.REPAIR, "tracking annotations are updated")
    assert {one.path[-1] for one in repaired.changes} == {
        *("reconciler/owner", "reconciler/policy-digest", "reconciler/on-delete", "reconciler/frs")
    }


def test_what_was_placed_under_a_former_name_of_the_fleet_gets_the_present_one():
    """Else it would be another Fleet's once the former name is stated no more."""
    placed = '{"owner":"old/FederatedReplicaSet/shop/web","previous":6,"replicas":3}'
    west = a_cluster("west", workloads=(a_workload(cluster="west", replicas=3, annotations={Key.PLACED: placed}),))
    fleet = a_fleet("east", "west", former_names=("old",))
    policy = a_placed(3, clusters={"west": WEST})
    (repaired,) = about(place(a_cluster("east"), west, federated=policy, fleet=fleet), "west")
    assert [(one.path[-1], one.after) for one in repaired.changes] == [
        (Key.PLACED, placed.replace("old", "production"))
    ]


def test_what_another_policy_may_not_adopt_is_released_first():
    policy = a_federated(3, name="gone")
    made = a_left_one(owner="production/FederatedReplicaSet/shop/other")
    assert [one.verb for one in about(without(made, policies=[policy]), "west")] == [Verb.RELEASE]


def test_what_gets_its_count_back_waits_until_it_is_known_what_controls_it():
    record = '{"owner":"production/FederatedReplicaSet/shop/web","previous":6,"replicas":3}'
    west = a_cluster("west", workloads=(a_workload(cluster="west", replicas=3, annotations={Key.PLACED: record}),))
    (released,) = place(a_cluster("east"), west, federated=()).decisions
    assert (released.replicas_before, released.replicas_after) == (3, 6)
    unread = replace(west, unreadable={"horizontalpodautoscalers": "forbidden"})
    assert place(a_cluster("east"), unread, federated=()).decisions == ()


STOPPED = (
    Tenant(name="a", place=Place("fleet.yaml", 7), paths=("teams/a/",), namespaces=("sh*",), clusters=("east",)),
)


def test_what_a_stopped_tenant_may_have_is_neither_removed_nor_counted_nor_forgotten():
    """Nobody knows what is in its files; policies of others in its namespaces, on any cluster, are not seen either."""
    lost = [a_left_one(name=name, on_delete="Delete") for name in ("one", "two", "six")]
    ours = a_workload("gone", namespace="dev", cluster="west", annotations={"reconciler/owner": f"{OURS}/dev/gone"})
    maps = (a_status("{}", key="shop/one"), a_memory(**{rejection_key(lost[0].ref): "x", "unreachable-since": "{}"}))
    world = a_cluster("east", config_maps=maps), a_cluster("west", workloads=(*lost, ours))
    desired = place(*world, federated=(), stopped=STOPPED)
    assert [(one.verb, one.ref.namespace) for one in desired.decisions] == [(Verb.RELEASE, "dev")]
    assert desired.held_back == ()


class TestGuard:
    """More than a quarter of the policies that own marks (and more than one) are gone at once: nothing is done."""

    def world(self, gone, there):
        lost = [a_left_one(name=f"gone-{number}", on_delete="Delete") for number in range(gone)]
        kept = [of(f"kept-{number}", replicas=3) for number in range(there)]
        local = [a_local("west", 3, one, name=one.name) for one in kept]
        return [*lost, *local], kept

    @cases(
        "gone there held",
        ("the only one", 1, 0, 0),
        ("both", 2, 0, 2),
        ("two of eight", 2, 6, 0),
        ("three of nine", 3, 6, 3),
    )
    def test_too_many(self, gone, there, held):
        workloads, kept = self.world(gone, there)
        desired = without(*workloads, policies=kept)
        assert sum(one.ref.name.startswith("gone") for one in desired.decisions) == gone - held
        assert sum(len(one.decisions) for one in desired.held_back) == held
        assert [one.policy for one in desired.held_back] == [""] * bool(held)

    def test_what_is_written_in_another_namespace_holds_nothing(self):
        forged = [
            a_workload(name, namespace="evil", cluster="west", annotations={"reconciler/owner": f"{OURS}/evil/{name}"})
            for name in ("one", "two", "six")
        ]
        _, kept = self.world(0, 6)
        local = [a_local("west", 3, one, name=one.name) for one in kept]
        released = without(a_left_one(), *forged)
        deleted = without(a_left_one(on_delete="Delete"), *forged, *local, policies=kept)
        for desired, verb in ((released, Verb.RELEASE), (deleted, Verb.DELETE)):
            assert [one.verb for one in desired.decisions if one.ref.name == "gone"] == [verb]

    def test_two_in_two_namespaces_are_released_and_not_deleted(self):
        """As after a folder was lost; what is deleted does not come back with it."""

        def left(on_delete):
            own, other = a_left_one("gone", on_delete), a_left_one("other", on_delete)
            marks = {**other.annotations, "reconciler/owner": f"{OURS}/dev/other"}
            return without(own, replace(other, ref=replace(other.ref, namespace="dev"), annotations=marks))

        assert [one.verb for one in left("Orphan").decisions] == [Verb.RELEASE] * 2
        assert (left("Delete").decisions, len(left("Delete").held_back[0].decisions)) == ((), 2)

    def test_what_is_idle_counts_as_well(self):
        workloads, kept = self.world(2, 6)
        idle = {one.ref: Settled("Asleep", 0, 3, "nights") for one in workloads}
        assert len(without(*workloads, policies=kept, waking=idle).held_back) == 0
        assert len(without(*workloads[:2], waking=idle).held_back) == 1

    def test_it_can_be_lifted(self):
        workloads, _ = self.world(2, 0)
        desired = without(*workloads, allow_removed=True)
        assert (len(desired.decisions), desired.held_back) == (2, ())
