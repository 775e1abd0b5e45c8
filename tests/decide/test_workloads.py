"""Facts of a workload: its owner, found within one namespace by its uid and else by its name, and its rollout."""

from __future__ import annotations

import pytest

from reconciler.decide.workloads import in_rollout, is_lagging, own_key, owner_key, owners_in, replaces_replica_sets
from reconciler.model import Condition, OwnerReference
from tests.builders import a_pod, a_workload

WEB = a_workload(uid="1")
API = a_workload("api", uid="2", kind="ReplicaSet")
OTHER = a_workload(namespace="bank", uid="3")
OWNERS = owners_in(iter((WEB, API, OTHER)))


def reference(name: str = "web", *, uid: str = "", kind: str = "Deployment") -> OwnerReference:
    return OwnerReference("apps/v1", kind, name, uid)


@pytest.mark.parametrize(
    ("space", "named", "expected"),
    [
        pytest.param("shop", reference("renamed", uid="1"), WEB, id="by uid"),
        pytest.param("shop", reference(uid="gone"), WEB, id="by name, where the uid is of one that was replaced"),
        pytest.param("shop", reference(), WEB, id="by name, without a uid"),
        pytest.param("shop", reference(uid="3"), WEB, id="the uid of another namespace is not followed"),
        pytest.param("bank", reference("api", uid="2", kind="ReplicaSet"), None, id="nothing of that name here"),
        pytest.param("shop", reference(kind="StatefulSet"), None, id="another kind of that name"),
    ],
)
def test_the_owner(space, named, expected):
    assert OWNERS.of(space, named) is expected


def test_the_owner_of_a_pod():
    assert OWNERS.of_pod(a_pod(owner_kind="ReplicaSet", owner_name="api", owner_uid="2")) is API
    assert OWNERS.of_pod(a_pod(owner_kind="ReplicaSet", owner_name="api", owner_uid="2", namespace="bank")) is None
    assert OWNERS.of_pod(a_pod()) is None


def test_what_nobody_gave_a_uid_owns_nothing_by_it():
    nameless = a_workload("nameless", uid="")
    assert owners_in((nameless,)).of("shop", reference("other")) is None


def test_keys():
    owned = a_workload("web-1", kind="ReplicaSet", owner=reference(uid="1"))
    assert owner_key(owned) == own_key(WEB) == ("shop", "1")
    assert owner_key(WEB) is None


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
