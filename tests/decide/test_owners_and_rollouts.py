"""Facts of a workload: its owner, found within one namespace by its uid and else by its name, and its rollout."""

from __future__ import annotations

import pytest

from reconciler.decide.owners_and_rollouts import in_rollout, replaces_replica_sets
from reconciler.model import Condition
from tests.builders import a_workload

STUCK = (Condition("Progressing", "False", "ProgressDeadlineExceeded"),)
STARTING = (Condition("Progressing", "True", "ReplicaSetUpdated"),)


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        pytest.param("Deployment", {}, False, id="settled"),
        pytest.param("Deployment", {"updated_replicas": 2}, True, id="one pod is of an earlier template"),
        pytest.param("Deployment", {"updated_replicas": 0}, True, id="none is of the newest"),
        pytest.param("Deployment", {"updated_replicas": None}, False, id="a kind that does not say"),
        pytest.param("StatefulSet", {"updated_replicas": 2}, True, id="of a StatefulSet"),
        pytest.param("StatefulSet", {"updated_replicas": 2, "partition": 1}, False, id="up to its partition"),
        pytest.param("StatefulSet", {"updated_replicas": 1, "partition": 1}, True, id="not up to its partition yet"),
        pytest.param(
            "StatefulSet",
            {"updated_replicas": 1, "status_replicas": 2, "partition": 1},
            True,
            id="a pod is replaced now, which its status does not count",
        ),
        pytest.param("StatefulSet", {"updated_replicas": 0, "partition": None}, False, id="only what is deleted"),
        pytest.param("Deployment", {"updated_replicas": 0, "status_replicas": 0}, False, id="no pods"),
        pytest.param("Deployment", {"updated_replicas": 2, "conditions": STUCK}, False, id="past its deadline"),
        pytest.param(
            "Deployment",
            {"updated_replicas": 2, "conditions": (Condition("Progressing", "True"),)},
            True,
            id="within its deadline",
        ),
        pytest.param(
            "Deployment", {"generation": 2, "conditions": STUCK}, True, id="its condition is of an older spec"
        ),
        pytest.param(
            "Deployment",
            {"updated_replicas": 0, "status_replicas": 0, "conditions": STARTING},
            True,
            id="Recreate: the old pods are gone",
        ),
        pytest.param("Deployment", {"conditions": STARTING}, False, id="the new pods start"),
        pytest.param("Deployment", {"replicas": 0, "conditions": STARTING}, False, id="scaled to zero meanwhile"),
    ],
)
def test_a_rollout(kind, fields, expected):
    assert in_rollout(a_workload(kind=kind, **fields)) is expected


@pytest.mark.parametrize(
    ("kind", "expected"), [("Deployment", True), ("Rollout", True), ("StatefulSet", False), ("ReplicaSet", False)]
)
def test_a_rollout_moves_pods_between_replica_sets_of_some_kinds(kind, expected):
    assert replaces_replica_sets(a_workload(kind=kind, updated_replicas=1)) is expected
    assert not replaces_replica_sets(a_workload(kind=kind))
