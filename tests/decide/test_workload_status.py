"""When the pods of a workload are being replaced, as its own status says."""

from __future__ import annotations

import pytest

from reconciler.decide.workload_status import in_rollout, is_lagging, replaces_replica_sets
from reconciler.model import Condition
from tests.builders import a_workload

STUCK = (Condition("Progressing", "False", "ProgressDeadlineExceeded"),)


@pytest.mark.parametrize(
    ("generation", "observed", "expected"),
    [
        pytest.param(2, 1, True, id="behind its spec"),
        pytest.param(2, 2, False, id="up to date"),
        pytest.param(1, 2, False, id="read between two writes"),
        pytest.param(2, None, False, id="a kind that does not say what was observed"),
        pytest.param(None, 1, False, id="a kind without a generation"),
    ],
)
def test_a_workload_is_lagging_while_its_controller_has_not_looked_at_its_spec(generation, observed, expected):
    assert is_lagging(a_workload(generation=generation, observed_generation=observed)) is expected


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        pytest.param("Deployment", {}, False, id="settled"),
        pytest.param("Deployment", {"updated_replicas": 2}, True, id="one pod is of an earlier template"),
        pytest.param("Deployment", {"updated_replicas": None}, True, id="none is of the newest: the field is left out"),
        pytest.param("Deployment", {"updated_replicas": None, "status_replicas": 1}, True, id="nor is its only one"),
        pytest.param("Rollout", {"updated_replicas": None}, True, id="as in an Argo Rollout"),
        pytest.param("StatefulSet", {"updated_replicas": None}, False, id="another kind that does not say"),
        pytest.param("StatefulSet", {"updated_replicas": 2}, True, id="another kind that does"),
        pytest.param(
            "Deployment", {"updated_replicas": None, "status_replicas": None}, False, id="no status, as with no pods"
        ),
        pytest.param(
            "StatefulSet", {"updated_replicas": None, "status_replicas": None}, False, id="no status of another kind"
        ),
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
