"""One writer at a time in a cluster, by a Lease on a real API server: dead holders, lost leases, clocks that differ."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from reconciler.backends.kubernetes import lease
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.connection import Connection
from reconciler.backends.kubernetes.lease import NAME, SECONDS, LeaseLock
from reconciler.backends.kubernetes.requests import Requests
from reconciler.backends.kubernetes.settings import RequestSettings
from reconciler.errors import LockHeldError, LockLostError, NotFoundError
from reconciler.model import ClusterConnection, ObjectRef, PatchOperation, Write
from tests.backends.clocks import PatientClock
from tests.real.worlds import wait_until

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane


class ShiftedClock(PatientClock):
    """Real time, moved: the process stood still meanwhile, or its machine's clock is another."""

    def __init__(self) -> None:
        self.shift = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.shift


class Holder:
    """A run that may hold the lease of `namespace`."""

    def __init__(self, plane: ControlPlane, namespace: str, name: str) -> None:
        self.clock = ShiftedClock()
        settings = RequestSettings()
        connection = Connection(
            ClusterConnection("east", kubeconfig=str(plane.kubeconfig("east"))), self.clock, settings
        )
        self.requests = Requests(connection, settings, self.clock)
        self.cluster = KubernetesCluster("east", self.requests)
        self.lock = LeaseLock(self.requests, "east", namespace, name, self.clock)


def a_lease(plane: ControlPlane, namespace: str) -> dict[str, object]:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{NAME}"
    found: dict[str, object] = plane.api.get(path)["spec"]
    return found


def test_a_lease_says_who_holds_it_and_is_empty_afterwards(api_server: ControlPlane, api_namespace: str) -> None:
    holder = Holder(api_server, api_namespace, "run 3f2c")
    holder.lock.acquire(0)
    spec = a_lease(api_server, api_namespace)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("run 3f2c", SECONDS)
    holder.lock.release()
    assert a_lease(api_server, api_namespace)["holderIdentity"] == ""


def test_a_lease_is_renewed_while_it_is_held(
    api_server: ControlPlane, api_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.1)
    holder = Holder(api_server, api_namespace, "first")
    holder.lock.acquire(0)
    first = a_lease(api_server, api_namespace)["renewTime"]
    wait_until(lambda: a_lease(api_server, api_namespace)["renewTime"] != first, "the lease is renewed", 10)
    assert holder.lock.held()
    holder.lock.release()


def test_a_dead_holder_is_succeeded_once_its_lease_ran_out(api_server: ControlPlane, api_namespace: str) -> None:
    """Died without giving it back: nothing renews it, and the next one need not wait when that was long ago."""
    ended = datetime.now(UTC) - timedelta(seconds=SECONDS + 3)
    stamp = ended.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": SECONDS, "renewTime": stamp, "leaseTransitions": 4}
    path = f"/apis/coordination.k8s.io/v1/namespaces/{api_namespace}/leases"
    api_server.api.create(path, {"metadata": {"name": NAME}, "spec": spec})
    holder = Holder(api_server, api_namespace, "next")
    holder.lock.acquire(0)
    found = a_lease(api_server, api_namespace)
    assert (found["holderIdentity"], found["leaseTransitions"]) == ("next", 5)
    holder.lock.release()


def test_a_holder_that_may_live_is_waited_for(api_server: ControlPlane, api_namespace: str) -> None:
    first, second = (Holder(api_server, api_namespace, name) for name in ("first", "second"))
    first.lock.acquire(0)
    with pytest.raises(LockHeldError, match=f"east: Lease {api_namespace}/{NAME} is held by first, expected it free"):
        second.lock.acquire(0.2)
    first.lock.release()
    second.lock.acquire(0.2)
    assert second.lock.held()
    second.lock.release()


def test_a_run_that_stood_still_too_long_has_lost_it_and_writes_nothing(
    api_server: ControlPlane, api_namespace: str
) -> None:
    settings = {"metadata": {"name": "settings"}, "data": {"a": "b"}}
    api_server.api.create(f"/api/v1/namespaces/{api_namespace}/configmaps", settings)
    holder = Holder(api_server, api_namespace, "slow")
    holder.lock.acquire(0)
    holder.clock.shift = SECONDS + 1.0
    assert holder.lock.held() is False
    ref = ObjectRef("east", api_namespace, "ConfigMap", "settings")
    with pytest.raises(LockLostError, match="the lock was lost, nothing more is written there"):
        holder.cluster.write(Write("patch", ref, "v1", patch=(PatchOperation("replace", "/data/a", "c"),)))
    assert api_server.api.get(f"/api/v1/namespaces/{api_namespace}/configmaps/settings")["data"] == {"a": "b"}
    holder.lock.release()


def test_a_lease_that_somebody_took_is_not_given_back(
    api_server: ControlPlane, api_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.1)
    holder = Holder(api_server, api_namespace, "first")
    holder.lock.acquire(0)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{api_namespace}/leases/{NAME}"
    api_server.api.request(
        "PATCH", path, {"spec": {"holderIdentity": "thief"}}, content_type="application/merge-patch+json"
    )
    wait_until(lambda: not holder.lock.held(), "the loss is noticed", 10)
    holder.lock.release()
    assert a_lease(api_server, api_namespace)["holderIdentity"] == "thief"


def test_somebody_else_who_only_touches_the_lease_does_not_take_it(
    api_server: ControlPlane, api_namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_RENEW_SECONDS", 0.2)
    holder = Holder(api_server, api_namespace, "first")
    holder.lock.acquire(0)
    path = f"/apis/coordination.k8s.io/v1/namespaces/{api_namespace}/leases/{NAME}"
    label = {"metadata": {"labels": {"team": "a"}}}
    api_server.api.request("PATCH", path, label, content_type="application/merge-patch+json")
    first = a_lease(api_server, api_namespace)["renewTime"]
    wait_until(lambda: a_lease(api_server, api_namespace)["renewTime"] != first, "the lease is renewed", 10)
    assert holder.lock.held()
    holder.lock.release()


def test_without_our_namespace_there_is_no_lock_and_the_message_says_how_to_make_it(api_server: ControlPlane) -> None:
    with pytest.raises(NotFoundError, match=r'there is no namespace "missing", .* kubectl create namespace missing'):
        Holder(api_server, "missing", "run").lock.acquire(0)


def test_a_lock_lost_while_the_connection_is_made_holds_the_body_back(
    api_server: ControlPlane, api_namespace: str
) -> None:
    holder = Holder(api_server, api_namespace, "one")
    still = iter([True, False])
    holder.requests.fence = lambda: next(still)
    ref = ObjectRef("east", api_namespace, "ConfigMap", "late")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": api_namespace}}
    with pytest.raises(LockLostError, match="nothing more is written there"):
        holder.cluster.write(Write("create", ref, "v1", manifest=manifest))
    path = f"/api/v1/namespaces/{api_namespace}/configmaps/late"
    assert api_server.api.find(path) is None
    holder.requests.fence = None
    holder.cluster.write(Write("create", ref, "v1", manifest=manifest))
    assert api_server.api.find(path) is not None
