"""An owner is found within one namespace, by its uid and else by its name."""

from __future__ import annotations

import pytest

from reconciler.decide.owners import own_key, owner_key, owners_in
from reconciler.model import OwnerReference
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
