"""Facts of a workload: its owner, found within one namespace by its uid and else by its name, and its rollout."""

from __future__ import annotations

import pytest

from reconciler.decide.owners_and_rollouts import in_rollout, replaces_replica_sets
from reconciler.model import Condition
from tests.builders import a_workload
from tests.cases import cases

STUCK = (Condition("Progressing", "False", "ProgressDeadlineExceeded"),)
STARTING = (Condition("Progressing", "True", "ReplicaSetUpdated"),)


@cases(
    "kind fields expected",
    ("settled", "Deployment", {}, False),
    ("one pod is of an earlier template", "Deployment", {"updated_replicas": 2}, True),
    ("none is of the newest", "Deployment", {"updated_replicas": 0}, True),
    ("a kind that does not say", "Deployment", {"updated_replicas": None}, False),
    ("of a StatefulSet", "StatefulSet", {"updated_replicas": 2}, True),
    ("up to its partition", "StatefulSet", {"updated_replicas": 2, "partition": 1}, False),
    ("not up to its partition yet", "StatefulSet", {"updated_replicas": 1, "partition": 1}, True),
    (
        "a pod is replaced now, which its status does not count",
        "StatefulSet",
        {"updated_replicas": 1, "status_replicas": 2, "partition": 1},
        True,
    ),
    ("only what is deleted", "StatefulSet", {"updated_replicas": 0, "partition": None}, False),
    ("no pods", "Deployment", {"updated_replicas": 0, "status_replicas": 0}, False),
    ("past its deadline", "Deployment", {"updated_replicas": 2, "conditions": STUCK}, False),
    (
        "within its deadline",
        "Deployment",
        {"updated_replicas": 2, "conditions": (Condition("Progressing", "True"),)},
        True,
    ),
    ("its condition is of an older spec", "Deployment", {"generation": 2, "conditions": STUCK}, True),
    (
        "Recreate: the old pods are gone",
        "Deployment",
        {"updated_replicas": 0, "status_replicas": 0, "conditions": STARTING},
        True,
    ),
    ("the new pods start", "Deployment", {"conditions": STARTING}, False),
    ("scaled to zero meanwhile", "Deployment", {"replicas": 0, "conditions": STARTING}, False),
)
def test_a_rollout(kind, fields, expected):
    assert in_rollout(a_workload(kind=kind, **fields)) is expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("Deployment", True), ("Rollout", True), ("StatefulSet", False), ("ReplicaSet", False)]
)
def test_a_rollout_moves_pods_between_replica_sets_of_some_kinds(kind, expected):
    assert replaces_replica_sets(a_workload(kind=kind, updated_replicas=1)) is expected
    assert not replaces_replica_sets(a_workload(kind=kind))
