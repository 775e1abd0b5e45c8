"""What one pass does: objects are missing, refused, in conflict, stuck or left out, or replicas move."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.decide.decisions import Phase, Verb
from reconciler.model import Condition
from reconciler.policy.types import ClusterPreference
from reconciler.report.status import placement_line
from tests.builders import a_cluster, a_fleet, an_hpa, change_if_of
from tests.cases import cases

from .placements import (
    EVENLY,
    a_deployment,
    a_federated,
    a_fleet_with,
    a_full,
    a_local,
    a_memory,
    a_placed,
    a_status,
    about,
    ago,
    idle,
    numbers,
    place,
    row,
    settled,
    some_pods,
    with_pods,
)

FOREIGN = {"annotations": {}, "labels": {}, "template": {"spec": {"containers": [{"name": "old"}]}}}


class TestConflict:
    def test_with_abort_it_is_reported_and_left_alone_and_does_not_count(self):
        desired = place(settled("east", 3), settled("west", 3, **FOREIGN), federated=a_federated(on_conflict="Abort"))
        assert numbers(desired) == {"east": "scale 3 -> 6"}
        assert [(one.kind, one.subject) for one in desired.notices] == [("conflict", "west/shop/ReplicaSet/web")]
        assert change_if_of(desired.explanations[1]) == "onConflict is Overwrite"
        assert placement_line(desired.placements[0]) == "FederatedReplicaSet shop/web: 6 = east 3 -> 6"

    def test_with_abort_ours_is_kept_like_the_policy(self):
        changed = {"template": FOREIGN["template"]}
        desired = place(settled("east", 3), settled("west", 3, **changed), federated=a_federated(on_conflict="Abort"))
        assert [one.verb for one in about(desired, "west")] == [Verb.OVERWRITE]

    def test_another_selector_is_deleted_and_made_again_with_the_old_one_written_down(self):
        federated = a_federated(selector={"matchLabels": {"app": "web", "tier": "front"}})
        west = settled("west", 3, federated=a_federated())
        east = settled("east", 3, federated, selector=None)
        desired = place(east, west, federated=federated)
        journal, deleted, created = (one for one in desired.decisions if one.ref.cluster == "west")
        assert (journal.verb, journal.phase, journal.ref.name) == (
            Verb.REMEMBER,
            Phase.REPAIR,
            "reconciler-replaced-shop.web",
        )
        assert '"matchLabels":{"app":"web"}' in journal.manifest["data"]["manifest"]
        assert (deleted.verb, deleted.orphan, deleted.needs, deleted.uid) == (
            Verb.DELETE,
            True,
            (journal.key,),
            west.workloads[0].uid,
        )
        assert (created.verb, created.needs, created.uid) == (Verb.CREATE, (deleted.key,), None)
        # the Event says what became of the one that was there
        assert (created.event, created.cause.why) == (
            "Overwritten",
            "replaces the one deleted because its selector differs, weight 1 of 2",
        )

    @cases(
        "federated made key record",
        ("made by it", a_federated(), a_local, "reconciler/owner", "{}"),
        ("placed by it", a_federated(), a_local, "reconciler/placed", '{{"owner":"{}","previous":5,"replicas":3}}'),
        (
            "the same target",
            a_placed(),
            a_deployment,
            "reconciler/placed",
            '{{"owner":"{}","previous":5,"replicas":3}}',
        ),
    )
    def test_one_of_another_fleet_is_left_alone(self, federated, made, key, record):
        """Two Fleets that both scale it would undo each other's replicas with every run."""
        marks = {key: record.format("staging/FederatedReplicaSet/shop/web")}
        east, west = settled("east", 6, made=made), settled("west", 3, annotations=marks, made=made)
        desired = place(east, west, federated=federated)
        assert about(desired, "west") == []
        assert [(one.kind, one.words) for one in desired.notices] == [
            ("foreignRecord", "is owned by staging/FederatedReplicaSet/shop/web")
        ]


class TestStuck:
    def test_pods_that_cannot_be_read_leave_the_cluster_as_it_is(self):
        west = a_cluster(
            "west",
            workloads=(a_local("west", 5, ready_replicas=4),),
            unreadable={"pods of shop/ReplicaSet/web": "forbidden"},
        )
        desired = place(settled("east", 5), west, federated=a_federated(12))
        assert numbers(desired) == {"east": "scale 5 -> 7"}
        assert desired.undecided[0].why == "its pods cannot be read: forbidden"


STATUS = (
    '{"desired":9,"clusters":{"west":{"asked":4,"running":4,"why":"weight 1 of 2","since":"2026-11-20T00:00:00Z"}}}'
)


def since(**duration):
    return f'{{"west":"{ago(**duration).strftime("%Y-%m-%dT%H:%M:%SZ")}"}}'


class TestLeftOut:
    def test_a_cluster_whose_workloads_cannot_be_listed_is_left_alone(self):
        west = a_cluster("west", unreadable={"replicasets": "forbidden"})
        east = settled("east", 2, config_maps=(a_status(STATUS),))
        desired = place(east, west, federated=a_federated(9))
        assert numbers(desired) == {"east": "scale 2 -> 5"}
        assert desired.undecided[0].why == "replicasets cannot be read: forbidden"

    @pytest.mark.parametrize(("minutes", "expected"), [(9, {}), (10, {"east": "scale 5 -> 9"})])
    def test_after_the_grace_its_replicas_go_elsewhere(self, minutes, expected):
        maps = (a_status(STATUS), a_memory(unreachable_since=since(minutes=minutes)))
        east = settled("east", 5, config_maps=maps)
        desired = place(east, lost=("west",), federated=a_federated(9))
        assert numbers(desired) == expected
        assert [one for one in desired.decisions if one.ref.name == "reconciler-memory"] == []

    def test_the_replicas_of_a_frozen_one_stay_whatever_the_time(self):
        maps = (a_status(STATUS), a_memory(unreachable_since=since(hours=1)))
        east, frozen = settled("east", 5, config_maps=maps), a_fleet_with("Frozen", "east", "west")
        assert numbers(place(east, lost=("west",), fleet=frozen, federated=a_federated(9))) == {}


IF_ACTIVE = "state is Active in the Fleet"
FIVE = ClusterPreference(weight=1, max_replicas=5)


LOST = (a_memory(unreachable_since=since(hours=1)),)
OF_ANOTHER_FLEET = {"reconciler/owner": "other/FederatedReplicaSet/shop/web"}
TO_WEST = {"west": ClusterPreference(weight=1)}


class TestMoves:
    @cases(
        "west state lost maps",
        ("it is frozen", a_cluster("west"), "Frozen", (), ()),
        ("it is read-only", a_cluster("west"), "ReadOnly", (), ()),
        ("it does not answer", a_cluster("west"), "Active", ("west",), ()),
        ("it does not answer for an hour", a_cluster("west"), "Active", ("west",), LOST),
        ("its list cannot be read", a_cluster("west", unreadable={"replicasets": "forbidden"}), "Active", (), ()),
        ("it is idle there, and read-only", idle("west"), "ReadOnly", (), ()),
        ("it has one of somebody else", settled("west", 2, annotations=OF_ANOTHER_FLEET), "Active", (), ()),
    )
    def test_what_is_to_move_to_a_cluster_that_is_left_alone_for_now_waits_for_it(self, west, state, lost, maps):
        maps = (a_status('{"desired":8,"clusters":{"east":{"asked":8}}}'), *maps)
        east, federated = settled("east", 8, config_maps=maps), a_federated(8, clusters=TO_WEST)
        desired = place(east, west, fleet=a_fleet_with(state, "east", "west"), lost=lost, federated=federated)
        assert numbers(desired) == {}
        assert "8 more move once as many are available elsewhere" in row(desired, "east").why

    def test_what_is_left_out_for_good_keeps_no_maximum_from_being_obeyed(self):
        fleet = a_fleet("east", "west")
        production = replace(fleet, clusters=(fleet.clusters[0], replace(fleet.clusters[1], production=True)))
        clusters = EVENLY | {"east": ClusterPreference(weight=1, max_replicas=2)}
        federated = a_federated(8, clusters=clusters)
        desired = place(settled("east", 8), a_cluster("west"), fleet=production, federated=federated)
        assert numbers(desired) == {"east": "scale 8 -> 2"}

    def test_what_an_autoscaler_controls_keeps_none_either(self):
        west = a_cluster("west", workloads=(a_deployment("west", 5),), autoscalers=(an_hpa(cluster="west"),))
        clusters = EVENLY | {"east": ClusterPreference(weight=1, max_replicas=2)}
        desired = place(settled("east", 8, made=a_deployment), west, federated=a_placed(8, clusters=clusters))
        assert numbers(desired) == {"east": "scale 8 -> 2"}

    def test_a_draining_cluster_keeps_what_has_no_room_anywhere_else(self):
        draining = a_fleet_with("Draining", "east", "west")
        desired = place(a_full("east", 6, 4), settled("west", 4), fleet=draining)
        assert numbers(desired) == {"west": "scale 4 -> 2"}
        assert row(desired, "west").why == "draining, keeps 2 because the other clusters are full"
        assert desired.notices[0].text == "draining, but 2 replicas fit nowhere else and stay"

    def test_a_drain_that_waits_for_a_rollout_says_so(self):
        west = settled("west", 4, updated_replicas=1, ready_replicas=2, made=a_deployment)
        east = settled("east", 8, made=a_deployment)
        desired = place(east, west, fleet=a_fleet_with("Draining", "east", "west"), federated=a_placed(12))
        assert numbers(desired) == {}
        assert [(one.kind, str(one.subject), one.text) for one in desired.notices] == [
            ("drainKeeps", "west/shop/Deployment/web", "draining, but 4 replicas stay: rollout in progress")
        ]

    @cases(
        "east clusters finishes",
        ("no capacity", a_full("east", 6, 5), EVENLY, f"{IF_ACTIVE} or the capacity of east is above 5"),
        (
            "no more wanted there",
            settled("east", 5),
            EVENLY | {"east": FIVE},
            f"{IF_ACTIVE} or maxReplicas of east is above 5",
        ),
        (
            "no more wanted there, and no more here if it is active",
            settled("east", 5),
            {"east": FIVE, "west": ClusterPreference(weight=1, max_replicas=1)},
            "maxReplicas of east is above 5",
        ),
    )
    def test_what_would_finish_a_drain_is_named_and_one_replica_is_one(self, east, clusters, finishes):
        draining = a_fleet_with("Draining", "east", "west")
        desired = place(east, settled("west", 1), fleet=draining, federated=a_federated(6, clusters=clusters))
        (west,) = (one for one in desired.explanations if one.ref.cluster == "west")
        assert change_if_of(west) == finishes
        assert desired.notices[0].text == "draining, but 1 replica fits nowhere else and stays"

    def test_a_draining_cluster_without_a_share_would_have_none_if_it_were_active(self):
        clusters = {"east": ClusterPreference(weight=1), "west": ClusterPreference()}
        draining, federated = a_fleet_with("Draining", "east", "west"), a_federated(6, clusters=clusters)
        desired = place(settled("east", 6), settled("west", 0), fleet=draining, federated=federated)
        assert change_if_of(desired.explanations[1]) == ""

    def test_placed_but_crashing_replicas_never_cost_the_ones_that_work(self):
        crashing = {"ready_replicas": 0, "available_replicas": None}
        west = with_pods(settled("west", 6, **crashing), some_pods(6, minutes=11, ready=False))
        desired = place(settled("east", 6), west, fleet=a_fleet_with("Active", "east", "west"))
        assert numbers(desired) == {"west": "scale 6 -> 3"}
        assert [(one.kind, one.text) for one in desired.notices] == [
            ("notAvailable", "6 replicas are placed, not available")
        ]


# A cluster that lags keeps what it has and receives no replicas until all of its pods run.
# Source: seed federated-replicasets.md: "FRSC never moves replicas to LRS that have not scheduled/running pods or that
# has pods that failed to be created."

QUOTA = (Condition("ReplicaFailure", "True", "FailedCreate", since=ago(seconds=20)),)
DAY = 24 * 60


def running(cluster, ready, pods, **fields):
    """`cluster` with ten replicas, of which `ready` run; `pods` are all there are."""
    status = {"ready_replicas": ready or None, "available_replicas": ready or None}
    return with_pods(settled(cluster, 10, **status, **fields), pods)


LAGGING = [
    ("4 unschedulable for 4 minutes", running("c", 6, some_pods(6, 4, minutes=4))),
    ("4 cannot be created", running("c", 6, some_pods(6), conditions=QUOTA)),
    ("10 crash or are pending for a day", running("c", 0, some_pods(10, minutes=DAY, ready=False))),
    ("1 starts for 2 minutes", running("c", 9, (*some_pods(9), *some_pods(1, minutes=2, ready=False)))),
]


@cases("lagging", *LAGGING)
def test_a_raised_total_goes_to_calm_clusters_first(lagging):
    assert numbers(place(settled("a", 10), lagging, federated=a_federated(23))) == {"a": "scale 10 -> 13"}


def test_nothing_is_drained_to_a_cluster_that_lags():
    fleet = a_fleet_with("Draining", "c", "d")
    crashing = running("c", 0, some_pods(10, minutes=DAY, ready=False))
    desired = place(crashing, settled("d", 5), fleet=fleet, federated=a_federated(15))
    assert numbers(desired) == {}
    assert row(desired, "d").why == "draining, keeps 5 because the other clusters are full"


def lagging_with(most, current, total, **world):
    """`a` at its maximum, `c` with ten replicas of which six run: what becomes of `c` in one run."""
    clusters = {"a": ClusterPreference(weight=1, max_replicas=most), "c": ClusterPreference(weight=1)}
    maps = {"config_maps": (world.pop("status"),)} if "status" in world else {}
    a = a_cluster("a", workloads=(a_local("a", current),), **maps)
    lagging = running("c", 6, some_pods(6), conditions=QUOTA)
    return place(a, lagging, settled("d", 0), federated=a_federated(total, clusters=clusters), **world)


@cases(
    "desired_before total expected",
    ("not raised: what is missing stays missing", 30, 30, 10),
    ("raised by one", 29, 30, 11),
    ("lowered", 31, 30, 10),
    ("nobody knows: all have what there is", None, 20, 10),
    ("nobody knows: one that nobody has", None, 21, 11),
    ("nobody knows: three that nobody has", None, 23, 13),
)
def test_a_cluster_that_lags_gets_no_more_than_the_total_was_raised_by(desired_before, total, expected):
    status = "{}" if desired_before is None else f'{{"desired":{desired_before},"clusters":{{}}}}'
    found = lagging_with(10, 10, total, status=a_status(status, cluster="a"))
    assert row(found, "c").desired == expected


def test_where_the_status_cannot_be_read_nothing_counts_as_raised():
    clusters = {"a": ClusterPreference(weight=1, max_replicas=10), "c": ClusterPreference(weight=1)}
    home = a_cluster("h", unreadable={"configmaps": "forbidden"})
    lagging = running("c", 6, some_pods(6), conditions=QUOTA)
    desired = place(home, settled("a", 10), lagging, federated=a_federated(23, clusters=clusters))
    assert row(desired, "c").desired == 10


def test_one_that_would_get_no_more_is_not_said_to_lag():
    clusters = EVENLY | {"c": ClusterPreference(weight=1, max_replicas=10)}
    lagging = running("c", 6, some_pods(6), conditions=QUOTA)
    desired = place(settled("a", 20), lagging, federated=a_federated(30, clusters=clusters))
    assert row(desired, "c").why == "weight 1 of 2, max 10"
