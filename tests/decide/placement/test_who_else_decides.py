"""Where somebody else has the say: idling, autoscalers, a pause, protection; and what is told about it."""

from __future__ import annotations

import json
from datetime import timedelta

from msgspec.structs import replace

from reconciler.decide.annotations import format_time
from reconciler.policy.types import ClusterPreference
from tests.builders import NOW, a_cluster, a_fleet, a_workload, an_hpa
from tests.cases import cases

from .placements import (
    a_deployment,
    a_federated,
    a_fleet_with,
    a_local,
    a_memory,
    a_placed,
    a_status,
    about,
    idle,
    numbers,
    place,
    row,
    settled,
)

LONG_AGO = '{"west":"2026-11-20T12:00:00Z"}'
WEST = {"asked": 4, "running": 4, "why": "weight 1 of 2", "since": "2026-11-20T00:00:00Z", "idle": "nights"}
IDLED_STATUS = json.dumps({"desired": 9, "clusters": {"west": WEST}})


def released(cluster, reason, replicas=0, **changed):
    left = {
        "scale.kubernetes.io/scale-reason": reason,
        "scale.kubernetes.io/previous-scale": "3",
        "reconciler/awake-since": "2026-11-20T15:10:00Z",
        **changed,
    }
    annotations = {**a_local(cluster, 1).annotations, **{key: text for key, text in left.items() if text is not None}}
    return settled(cluster, replicas, annotations=annotations)


class TestClustersThatArePreferredByNothing:
    """The preferences name east alone, and west has a ReplicaSet of the name."""

    east_only = a_federated(3, clusters={"east": ClusterPreference(weight=1)}, on_conflict="Overwrite")

    def desired(self, **west):
        return place(settled("east", 3), settled("west", 6, **west), federated=self.east_only)

    def test_what_was_adopted_gets_its_count_back(self):
        record = '{"previous":9,"replicas":6,"owner":"production/FederatedReplicaSet/shop/web"}'
        marks = {**a_local("west", 6).annotations, "reconciler/placed": record}
        desired = self.desired(annotations=marks)
        assert numbers(desired) == {"west": "release 6 -> 9"}

    def test_what_others_made_there_stays_as_it_is(self):
        desired = self.desired(annotations={}, labels={})
        assert about(desired, "west") == []
        said = next(one for one in desired.explanations if one.ref.cluster == "west")
        assert (said.outcome, said.why) == ("left as it is", "preferences.clusters names neither west nor *")

    def test_a_target_that_is_missing_there_is_not_missed(self):
        federated = a_placed(3, clusters=self.east_only.clusters)
        desired = place(settled("east", 3, made=a_deployment), a_cluster("west"), federated=federated)
        assert ({one.ref.cluster for one in desired.explanations}, desired.undecided) == ({"east"}, ())


class TestIdling:
    @cases("reason", ("with a reason", "Maintenance"), ("the reason cleared", None))
    def test_what_idling_released_as_somebody_else_scaled_it_down_stays_down(self, reason):
        """The annotations are those that idling leaves at the release."""
        west = released("west", reason)
        desired = place(settled("east", 3), west)
        assert (numbers(desired), about(desired, "west")) == ({}, [])
        assert row(desired, "west").why == f"scaled down by {reason or 'somebody else'}, left unchanged"
        assert place(a_cluster("north"), west, idle("east")).decisions[0].ref.kind == "ConfigMap"

    def test_when_it_is_idled_the_status_says_so_and_else_what_it_was_awake(self):
        text = place(settled("east", 3), settled("west", 3)).decisions[0].manifest["metadata"]["annotations"]
        awake = json.loads(text["reconciler/status"])
        east = a_cluster("east", workloads=idle("east").workloads, config_maps=(a_status(json.dumps(awake)),))
        (written,) = place(east, idle("west")).decisions
        idled = json.loads(written.changes[-1].after)
        assert idled == {
            **awake,
            "clusters": {name: {**entry, "idle": "nights"} for name, entry in awake["clusters"].items()},
        }
        east = a_cluster("east", workloads=idle("east").workloads, config_maps=(a_status(written.changes[-1].after),))
        assert place(east, idle("west")).decisions == ()

    @cases(
        "hours policies expected",
        ("asleep", 1, ("nights",), {}),
        ("it should be awake by now", 0, ("nights",), {"north": "create 0 -> 9"}),
        ("its policy is gone", 1, ("others",), {"north": "create 0 -> 9"}),
        ("nothing says when it wakes", None, ("nights",), {"north": "create 0 -> 9"}),
    )
    def test_nothing_starts_elsewhere_while_a_lost_cluster_is_known_to_be_asleep(self, hours, policies, expected):
        until = {} if hours is None else {"until": format_time(NOW + timedelta(hours=hours))}
        written = json.loads(IDLED_STATUS)
        written["clusters"]["west"] |= until
        memory = a_memory("north", unreachable_since=LONG_AGO)
        north = a_cluster("north", config_maps=(a_status(json.dumps(written), cluster="north"), memory))
        desired = place(north, lost=("west",), federated=a_federated(9), idling=policies)
        assert numbers(desired) == expected
        assert (row(desired, "west").why == "unreachable; idle, nights decides") is (expected == {})


class TestAutoscalers:
    def test_what_a_horizontal_pod_autoscaler_controls_is_left_alone(self):
        west = a_cluster("west", workloads=(a_deployment("west", 5),), autoscalers=(an_hpa(cluster="west"),))
        east = settled("east", 3, made=a_deployment)
        desired = place(east, west, federated=a_placed(10))
        assert numbers(desired) == {"east": "scale 3 -> 5"}
        assert [(one.kind, one.text) for one in desired.notices] == [
            ("autoscaler", "HorizontalPodAutoscaler/web controls it")
        ]

    def test_where_autoscalers_cannot_be_read_nothing_is_decided(self):
        west = a_cluster(
            "west", workloads=(a_deployment("west", 5),), unreadable={"horizontalpodautoscalers": "forbidden"}
        )
        desired = place(settled("east", 3, made=a_deployment), west, federated=a_placed(10))
        assert about(desired, "west") == []
        assert desired.undecided[0].why == "horizontalpodautoscalers cannot be read: forbidden"


def test_a_protected_namespace_is_never_touched():
    fleet = a_fleet("east", protected_namespaces=("shop",))
    marks = {"reconciler/owner": "production/FederatedReplicaSet/shop/gone", "reconciler/on-delete": "delete"}
    east = a_cluster("east", workloads=(a_local("east", 3), a_workload("gone", kind="ReplicaSet", annotations=marks)))
    desired = place(east, fleet=fleet)
    assert desired.decisions == ()
    assert desired.undecided[0].why == "the namespace shop is protected"


@cases(
    "policy east more",
    ("a targetRef", a_placed(), 5, "5 replicas, 2 more"),
    ("a pattern", a_federated(), 5, "5 replicas, 2 more"),
    ("its share", a_federated(), 3, ""),
    ("less", a_federated(), 1, ""),
    ("nothing is moved anyway", a_placed(rebalance=False), 5, ""),
    ("it may shrink", a_placed(production=True), 5, ""),
)
def test_production_that_keeps_more_than_its_share_is_told(policy, east, more):
    made = a_deployment if policy.target else a_local
    fleet = a_fleet("east", "west")
    fleet = replace(fleet, clusters=(replace(fleet.clusters[0], production=True), fleet.clusters[1]))
    clusters = [a_cluster(name, workloads=(made(name, count),)) for name, count in (("east", east), ("west", 1))]
    told = [one for one in place(*clusters, federated=policy, fleet=fleet).notices if one.kind == "aboveShare"]
    why = "cluster east is production, left out by web without production: true"
    words = f"keeps {more} than its share: {why}; it shrinks if production is true in shop/web"
    assert [(one.subject.partition("/")[0], one.text) for one in told] == ([("east", words)] if more else [])


def test_production_that_drains_is_told_once():
    fleet = a_fleet_with("Draining", "east", "west")
    fleet = replace(fleet, clusters=(fleet.clusters[0], replace(fleet.clusters[1], production=True)))
    clusters = [a_cluster(name, workloads=(a_local(name, 3),)) for name in ("east", "west")]
    assert [one.kind for one in place(*clusters, fleet=fleet).notices] == ["drainKeeps"]
