"""Counting replicas: what is placed, available, stuck, crashing, and when pods need not be read at all."""

from __future__ import annotations

from msgspec.structs import replace

from reconciler.decide.placement.pod_counts import PodCounts, pod_counts
from reconciler.model import Condition, FieldWriter
from tests.builders import NOW, NOW_NS, a_pod, a_ref, a_workload
from tests.cases import cases

from .placements import MINUTE_NS, a_federated, ago, some_pods

QUOTA = "FailedCreate"


def failing(since, reason=QUOTA):
    return {"conditions": (Condition("ReplicaFailure", "True", reason, since=since),)}


def a_waiting_pod(name="w", minutes=1, **fields):
    since = NOW_NS - minutes * MINUTE_NS
    known = {"node": "", "ready": False, "phase": "Pending", "unschedulable": True, "unscheduled_since_ns": since}
    return a_pod(name, **(known | fields))


@cases(
    "pods expected",
    ("all placed", some_pods(4), PodCounts(4, 3)),
    ("waits for less than allowed", (*some_pods(3), a_waiting_pod(minutes=4)), PodCounts(3, 3, late=1)),
    ("waits for as long as allowed", (*some_pods(3), a_waiting_pod(minutes=5)), PodCounts(3, 3, 1, late=1)),
    (
        "waits since nobody knows: since it was made",
        (*some_pods(3), a_waiting_pod(unscheduled_since_ns=None, created_ns=NOW_NS - 9 * MINUTE_NS)),
        PodCounts(3, 3, 1, late=1),
    ),
    ("not looked at yet", (*some_pods(3), a_waiting_pod(minutes=9, unschedulable=False)), PodCounts(3, 3, late=1)),
    ("just made", (*some_pods(3), a_waiting_pod(created_ns=NOW_NS - MINUTE_NS + 10**9)), PodCounts(3, 3)),
    ("one is being deleted", (*some_pods(4), a_pod("x", terminating=True)), PodCounts(4, 3)),
    ("one has failed", (*some_pods(4), a_pod("x", phase="Failed")), PodCounts(4, 3)),
    ("starting for a while", some_pods(4, minutes=9, ready=False), PodCounts(4, 3, late=4)),
    ("starting just now", some_pods(4, minutes=0, ready=False), PodCounts(4, 3)),
    ("placed and not ready for too long", some_pods(4, minutes=10, ready=False), PodCounts(4, 3, 0, 4, late=4)),
)
def test_counts(pods, expected):
    workload = a_workload(kind="ReplicaSet", replicas=4, available_replicas=3)
    assert pod_counts(workload, pods, a_federated(), NOW) == expected


@cases(
    "fields stuck",
    ("refused for as long as allowed", failing(ago(minutes=5)), 2),
    ("refused for less", failing(ago(minutes=4)), 0),
    ("never changed since it was made long ago", {"generation": 1, "created_at": ago(minutes=6)}, 2),
    ("made just now", {"generation": 1, "created_at": ago(minutes=4)}, 0),
    ("old, but changed since nobody knows when", {"generation": 2, "created_at": ago(days=9)}, 0),
    (
        "old, scaled just now",
        {"generation": 2, "created_at": ago(days=9), "replicas_writer": FieldWriter("kubectl", ago(minutes=1))},
        0,
    ),
    ("scaled long ago", {"generation": 2, "replicas_writer": FieldWriter("kubectl", ago(minutes=6))}, 2),
)
def test_replicas_that_do_not_exist_are_stuck_once_that_lasts(fields, stuck):
    workload = a_workload(kind="ReplicaSet", replicas=5, **fields)
    assert pod_counts(workload, some_pods(3), a_federated(), NOW).unschedulable == stuck


def test_a_pod_that_waits_since_nobody_knows_and_was_just_made_is_not_stuck():
    pod = a_waiting_pod(unscheduled_since_ns=None, created_ns=NOW_NS - MINUTE_NS)
    assert pod_counts(a_workload(replicas=1), (pod,), a_federated(), NOW).unschedulable == 0


@cases(
    "fields available",
    ("none known: the pods that are ready", {}, 2),
    ("what its status says is ready", {"ready_replicas": 4}, 4),
    ("none is ready", {"ready_replicas": 0}, 0),
    ("what its status says is available", {"available_replicas": 3, "ready_replicas": 4}, 3),
)
def test_available_replicas_of_a_kind_that_may_have_no_such_field(fields, available):
    unknown = {"available_replicas": None, "ready_replicas": None}
    ref = replace(a_ref(kind="CloneSet"), group="apps.kruise.io")
    workload = replace(a_workload(replicas=5), ref=ref, **(unknown | fields))
    assert pod_counts(workload, some_pods(2), a_federated(), NOW).available == available


@cases(
    "fields available",
    ("more than asked for are on their way out", {"available_replicas": 9}, 5),
    ("absent is none", {"available_replicas": None}, 0),
    ("built-in group", {"kind": "CloneSet", "available_replicas": None}, 0),
)
def test_available_replicas(fields, available):
    workload = a_workload(**({"replicas": 5, "kind": "ReplicaSet"} | fields))
    assert pod_counts(workload, some_pods(5), a_federated(), NOW).available == available
