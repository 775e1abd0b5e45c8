"""Counting replicas: what is placed, available, stuck, crashing, and when pods need not be read at all."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from reconciler.decide.placement.pod_counts import PodCounts, pod_counts
from reconciler.model import Condition, FieldWriter
from tests.builders import NOW, NOW_NS, a_pod, a_ref, a_workload

from .placements import MINUTE_NS, a_federated, ago, some_pods

QUOTA = "FailedCreate"


def failing(since, reason=QUOTA):
    return {"conditions": (Condition("ReplicaFailure", "True", reason, since=since),)}


def a_waiting_pod(name="w", minutes=1, **fields):
    since = NOW_NS - minutes * MINUTE_NS
    known = {"node": "", "ready": False, "phase": "Pending", "unschedulable": True, "unscheduled_since_ns": since}
    return a_pod(name, **(known | fields))


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param(some_pods(4), PodCounts(4, 3), id="all placed"),
        pytest.param(
            (*some_pods(3), a_waiting_pod(minutes=4)), PodCounts(3, 3, late=1), id="waits for less than allowed"
        ),
        pytest.param(
            (*some_pods(3), a_waiting_pod(minutes=5)), PodCounts(3, 3, 1, late=1), id="waits for as long as allowed"
        ),
        pytest.param(
            (*some_pods(3), a_waiting_pod(unscheduled_since_ns=None, created_ns=NOW_NS - 9 * MINUTE_NS)),
            PodCounts(3, 3, 1, late=1),
            id="waits since nobody knows: since it was made",
        ),
        pytest.param(
            (*some_pods(3), a_waiting_pod(minutes=9, unschedulable=False)),
            PodCounts(3, 3, late=1),
            id="not looked at yet",
        ),
        pytest.param(
            (*some_pods(3), a_waiting_pod(created_ns=NOW_NS - MINUTE_NS + 10**9)), PodCounts(3, 3), id="just made"
        ),
        pytest.param((*some_pods(4), a_pod("x", terminating=True)), PodCounts(4, 3), id="one is being deleted"),
        pytest.param((*some_pods(4), a_pod("x", phase="Failed")), PodCounts(4, 3), id="one has failed"),
        pytest.param(some_pods(4, minutes=9, ready=False), PodCounts(4, 3, late=4), id="starting for a while"),
        pytest.param(some_pods(4, minutes=0, ready=False), PodCounts(4, 3), id="starting just now"),
        pytest.param(
            some_pods(4, minutes=10, ready=False), PodCounts(4, 3, 0, 4, late=4), id="placed and not ready for too long"
        ),
    ],
)
def test_counts(pods, expected):
    workload = a_workload(kind="ReplicaSet", replicas=4, available_replicas=3)
    assert pod_counts(workload, pods, a_federated(), NOW) == expected


@pytest.mark.parametrize(
    ("fields", "stuck"),
    [
        pytest.param(failing(ago(minutes=5)), 2, id="refused for as long as allowed"),
        pytest.param(failing(ago(minutes=4)), 0, id="refused for less"),
        pytest.param({"generation": 1, "created_at": ago(minutes=6)}, 2, id="never changed since it was made long ago"),
        pytest.param({"generation": 1, "created_at": ago(minutes=4)}, 0, id="made just now"),
        pytest.param({"generation": 2, "created_at": ago(days=9)}, 0, id="old, but changed since nobody knows when"),
        pytest.param(
            {"generation": 2, "created_at": ago(days=9), "replicas_writer": FieldWriter("kubectl", ago(minutes=1))},
            0,
            id="old, scaled just now",
        ),
        pytest.param(
            {"generation": 2, "replicas_writer": FieldWriter("kubectl", ago(minutes=6))}, 2, id="scaled long ago"
        ),
    ],
)
def test_replicas_that_do_not_exist_are_stuck_once_that_lasts(fields, stuck):
    workload = a_workload(kind="ReplicaSet", replicas=5, **fields)
    assert pod_counts(workload, some_pods(3), a_federated(), NOW).unschedulable == stuck


def test_a_pod_that_waits_since_nobody_knows_and_was_just_made_is_not_stuck():
    pod = a_waiting_pod(unscheduled_since_ns=None, created_ns=NOW_NS - MINUTE_NS)
    assert pod_counts(a_workload(replicas=1), (pod,), a_federated(), NOW).unschedulable == 0


@pytest.mark.parametrize(
    ("fields", "available"),
    [
        pytest.param({}, 2, id="none known: the pods that are ready"),
        pytest.param({"ready_replicas": 4}, 4, id="what its status says is ready"),
        pytest.param({"ready_replicas": 0}, 0, id="none is ready"),
        pytest.param({"available_replicas": 3, "ready_replicas": 4}, 3, id="what its status says is available"),
    ],
)
def test_available_replicas_of_a_kind_that_may_have_no_such_field(fields, available):
    unknown = {"available_replicas": None, "ready_replicas": None}
    ref = replace(a_ref(kind="CloneSet"), group="apps.kruise.io")
    workload = replace(a_workload(replicas=5), ref=ref, **(unknown | fields))
    assert pod_counts(workload, some_pods(2), a_federated(), NOW).available == available


@pytest.mark.parametrize(
    ("fields", "available"),
    [
        pytest.param({"available_replicas": 9}, 5, id="more than asked for are on their way out"),
        pytest.param({"available_replicas": None}, 0, id="absent is none"),
        pytest.param({"kind": "CloneSet", "available_replicas": None}, 0, id="built-in group"),
    ],
)
def test_available_replicas(fields, available):
    workload = a_workload(**({"replicas": 5, "kind": "ReplicaSet"} | fields))
    assert pod_counts(workload, some_pods(5), a_federated(), NOW).available == available
