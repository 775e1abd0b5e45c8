"""One writer at a time in a cluster, by a Lease on a real API server: dead holders, lost leases, clocks that differ."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, cast

import pytest

from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.backends.kubernetes import cluster_lock
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.cluster import KubernetesCluster
from reconciler.backends.kubernetes.cluster_lock import LEASE_DURATION, NAME, LeaseLock
from reconciler.backends.kubernetes.preflight import Preflight
from reconciler.backends.kubernetes.request_form import ApiRequest
from reconciler.backends.kubernetes.request_limits import RequestTurns
from reconciler.backends.protocols import DEFAULTS, RequestSettings
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import (
    InvalidError,
    LockHeldError,
    LockLostError,
    NotFoundError,
    ThrottledError,
    UnreachableError,
)
from reconciler.http.client import HttpResponse
from reconciler.model import ObjectRef, PatchOperation, Write
from reconciler.time_limit import Clock, TimeLimit
from tests.fakes import FakeClock
from tests.real import faults
from tests.real.cluster import wait_until
from tests.real.proxy import Proxy

if TYPE_CHECKING:
    from tests.real.control_plane import ControlPlane


class ShiftedClock(Clock):
    """Real time, moved: the process stood still meanwhile, or its machine's clock is another."""

    def __init__(self) -> None:
        self.shift = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.shift


class Holder:
    """A run that may hold the lease of `namespace`."""

    def __init__(self, plane: ControlPlane | Proxy, namespace: str, name: str) -> None:
        self.clock = ShiftedClock()
        connection = ApiServerConnection(ClusterConnection("east", kubeconfig=str(plane.kubeconfig("east"))))
        self.connection = connection
        self.requests = ApiClient(connection, RequestSettings(limit=TimeLimit(clock=self.clock)))
        self.cluster = KubernetesCluster("east", self.requests)
        self.lock = LeaseLock(self.requests, namespace, name)


def leases(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


def a_lease(plane: ControlPlane, namespace: str) -> dict[str, object]:
    found: dict[str, object] = plane.api.get(f"{leases(namespace)}/{NAME}")["spec"]
    return found


def changed(plane: ControlPlane, namespace: str, **patch: object) -> None:
    """Change the lease as somebody else."""
    plane.api.request("PATCH", f"{leases(namespace)}/{NAME}", patch, content_type="application/merge-patch+json")


def test_a_lease_says_who_holds_it_and_is_empty_afterwards(api_server, api_namespace):
    holder = Holder(api_server, api_namespace, "run 3f2c")
    holder.lock.acquire(TimeLimit(0))
    spec = a_lease(api_server, api_namespace)
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"]) == ("run 3f2c", LEASE_DURATION)
    holder.lock.release()
    assert a_lease(api_server, api_namespace)["holderIdentity"] == ""


def test_whether_nobody_had_it_since_we_looked(api_server, api_namespace):
    one, other = (Holder(api_server, api_namespace, name).lock for name in ("one", "other"))

    def passed(lock):
        undisturbed = lock.acquire(TimeLimit(0))
        lock.release()
        return undisturbed

    one.look()
    assert not passed(one), "there is no Lease yet"
    one.look()
    assert passed(one), "nobody had it"
    assert not passed(one), "we had it ourselves, and did not look again"
    one.look()
    assert not passed(other), "that one never looked"
    assert not passed(one), "another one had it meanwhile"
    other.acquire(TimeLimit(0))
    one.look()
    other.release()
    assert not passed(one), "another one had it when we looked"


def test_without_a_thread_to_renew_it_nothing_is_locked_and_the_error_says_why(api_server, api_namespace, monkeypatch):
    holder = Holder(api_server, api_namespace, "first")

    def refused(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(UnreachableError, match="no thread is left to renew its lock"):
        holder.lock.acquire(TimeLimit(5))
    assert not holder.lock.held()


def held_by_the_dead(plane: ControlPlane, namespace: str, renewed: datetime, seconds: int = LEASE_DURATION) -> None:
    """Make a lease of somebody who died without giving it back."""
    stamp = renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "dead", "leaseDurationSeconds": seconds, "renewTime": stamp, "leaseTransitions": 4}
    plane.api.create(leases(namespace), {"metadata": {"name": NAME}, "spec": spec})


def test_a_holder_that_died_long_ago_is_succeeded_at_once(api_server, api_namespace):
    held_by_the_dead(api_server, api_namespace, datetime.now(UTC) - timedelta(seconds=LEASE_DURATION + 65))
    holder = Holder(api_server, api_namespace, "next")
    holder.lock.acquire(TimeLimit(0))
    found = a_lease(api_server, api_namespace)
    assert (found["holderIdentity"], found["leaseTransitions"]) == ("next", 5)
    holder.lock.release()


@pytest.mark.parametrize(
    ("renewed", "seconds", "waited"),
    [
        pytest.param(timedelta(seconds=-LEASE_DURATION - 3), LEASE_DURATION, LEASE_DURATION, id="just now"),
        pytest.param(datetime(9999, 12, 31, tzinfo=UTC), 2147483647, 25, id="for ever"),
        pytest.param(timedelta(hours=1), 1, LEASE_DURATION, id="in an hour, for a second"),
    ],
)
def test_a_holder_that_died_is_succeeded_once_nobody_touched_its_lease_for_as_long_as_it_holds(
    api_server, api_namespace, renewed, seconds, waited
):
    """Measured by the one who waits: whose clocks are right does not matter, nor what the lease says of itself."""
    at = renewed if isinstance(renewed, datetime) else datetime.now(UTC) + renewed
    held_by_the_dead(api_server, api_namespace, at, seconds)
    holder = Holder(api_server, api_namespace, "next")
    for shift in (0.0, waited - 2.0):
        holder.clock.shift = shift
        with pytest.raises(LockHeldError, match="is held by dead"):
            holder.lock.acquire(TimeLimit(0))
    changed(api_server, api_namespace, metadata={"labels": {"team": "a"}})
    holder.clock.shift = waited + 1.0
    with pytest.raises(LockHeldError, match="is held by dead"):  # somebody touched it: it may be the holder
        holder.lock.acquire(TimeLimit(0))
    holder.clock.shift = 2 * waited + 3.0
    holder.lock.acquire(TimeLimit(0))
    assert a_lease(api_server, api_namespace)["holderIdentity"] == "next"
    holder.lock.release()


def test_a_server_whose_clock_is_ahead_frees_no_lease(api_server, api_namespace, tmp_path):
    first = Holder(api_server, api_namespace, "first")
    first.lock.acquire(TimeLimit(0))
    with Proxy(api_server.access(), tmp_path) as proxy:
        proxy.rule(faults.dated(format_datetime(datetime.now(UTC) + timedelta(seconds=50), usegmt=True)), times=None)
        with pytest.raises(LockHeldError, match="is held by first"):
            Holder(proxy, api_namespace, "second").lock.acquire(TimeLimit(0))
    assert first.lock.held()
    first.lock.release()


@pytest.mark.parametrize(
    "date",
    [
        pytest.param("Fri, 01 Jan 99999999999999999999 00:00:00 GMT", id="a year of twenty digits"),
        pytest.param("Fri, 31 Dec 9999 23:59:59 -1200", id="beyond the last year"),
        pytest.param("Fri, 31 Dec 9999 23:59:59 GMT", id="the last second"),
        pytest.param("Sat, 01 Jan 0001 00:00:00 GMT", id="the first"),
        pytest.param("yesterday", id="no time"),
    ],
)
def test_a_server_that_does_not_know_the_time(api_server, api_namespace, tmp_path, date):
    with Proxy(api_server.access(), tmp_path) as proxy:
        proxy.rule(faults.dated(date), times=None)
        holder = Holder(proxy, api_namespace, "one")
        holder.lock.acquire(TimeLimit(0))
        assert str(a_lease(api_server, api_namespace)["renewTime"])[:4] == str(datetime.now(UTC).year)
        assert holder.lock.held()
        assert abs(holder.cluster.now() - datetime.now(UTC)) < timedelta(minutes=1)
        holder.lock.release()
        assert Preflight(holder.requests, holder.connection).server().version


def test_a_run_that_stood_still_too_long_has_lost_it_and_writes_nothing(api_server, api_namespace):
    settings = {"metadata": {"name": "settings"}, "data": {"a": "b"}}
    api_server.api.create(f"/api/v1/namespaces/{api_namespace}/configmaps", settings)
    holder = Holder(api_server, api_namespace, "slow")
    holder.lock.acquire(TimeLimit(0))
    holder.clock.shift = LEASE_DURATION + 1.0
    assert holder.lock.held() is False
    ref = ObjectRef("east", api_namespace, "ConfigMap", "settings")
    with pytest.raises(LockLostError, match="the lock was lost, nothing more is written there"):
        holder.cluster.write(Write("patch", ref, "v1", patch=(PatchOperation("replace", "/data/a", "c"),)))
    assert api_server.api.get(f"/api/v1/namespaces/{api_namespace}/configmaps/settings")["data"] == {"a": "b"}
    holder.lock.release()


def test_a_lease_that_somebody_took_is_not_given_back(api_server, api_namespace, monkeypatch):
    monkeypatch.setattr(cluster_lock, "_RENEW_PERIOD", 0.1)
    holder = Holder(api_server, api_namespace, "first")
    holder.lock.acquire(TimeLimit(0))
    changed(api_server, api_namespace, spec={"holderIdentity": "thief"})
    wait_until(lambda: not holder.lock.held(), "the loss is noticed", 10)
    holder.lock.release()
    assert a_lease(api_server, api_namespace)["holderIdentity"] == "thief"


def test_somebody_else_who_only_touches_the_lease_does_not_take_it(api_server, api_namespace, monkeypatch):
    monkeypatch.setattr(cluster_lock, "_RENEW_PERIOD", 0.2)
    holder = Holder(api_server, api_namespace, "first")
    holder.lock.acquire(TimeLimit(0))
    changed(api_server, api_namespace, metadata={"labels": {"team": "a"}})
    first = a_lease(api_server, api_namespace)["renewTime"]
    wait_until(lambda: a_lease(api_server, api_namespace)["renewTime"] != first, "the lease is renewed", 10)
    assert holder.lock.held()
    holder.lock.release()


class Passing(threading.Event):
    """Lets the time of `clock` pass in place of waiting, until `end`."""

    def __init__(self, clock: FakeClock, end: float) -> None:
        super().__init__()
        self._clock = clock
        self._end = end

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.sleep(timeout or 0.0)
        return self._clock.now >= self._end


class FakeClient:
    """What a lock asks of its client; `said` answers each request, or raises."""

    cluster = "east"

    def __init__(self, clock: FakeClock, said: Callable[[], bytes]) -> None:
        self.limit = TimeLimit(clock=clock)
        self.turns = RequestTurns(DEFAULTS)
        self._said = said

    def now(self) -> datetime:
        return datetime.now(UTC)

    def send(self, _: ApiRequest) -> HttpResponse:
        return HttpResponse(200, {}, self._said())


LATE = UnreachableError("east: no answer in 3 s, expected one")
DONE = InvalidError("east: a test failed")
BUSY = ThrottledError("east: too many requests, expected to be let in")


@pytest.mark.parametrize(
    "answers",
    [
        pytest.param([LATE], id="not done"),
        pytest.param([LATE, DONE, None], id="done, and the answer was lost"),
        pytest.param([LATE, DONE, BUSY], id="done, the answer was lost, and who has it is not said at once"),
    ],
)
def test_one_renewal_without_an_answer_loses_no_lock(answers):
    """It takes the three seconds that a client waits; the next answers come at once."""
    clock = FakeClock()
    body = b'{"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "run"}}'
    answers = [*answers]

    def said():
        error = answers.pop(0) if answers and clock.now else None
        if isinstance(error, UnreachableError):
            clock.sleep(3.0)
        if error is not None:
            raise error
        return body

    lock = LeaseLock(cast(ApiClient, FakeClient(clock, said)), "reconciler", "run")
    lock._hold("1", {})
    lock._done = Passing(clock, 60.0)
    lock._renew()
    assert clock.now >= 60.0
    assert lock.held()
    assert not answers


@pytest.mark.parametrize(
    ("busy", "expected"), [(12.0, nullcontext()), (40.0, pytest.raises(ThrottledError))], ids=["a while", "too long"]
)
def test_a_lock_of_a_server_that_is_busy_is_waited_for_as_one_that_is_held(busy, expected):
    clock = FakeClock()
    free = b'{"metadata": {"resourceVersion": "1"}, "spec": {}}'

    def said():
        if clock.now < busy:
            clock.sleep(3.0)
            raise BUSY
        return free

    lock = LeaseLock(cast(ApiClient, FakeClient(clock, said)), "reconciler", "run")
    with expected:
        lock.acquire(TimeLimit(30.0, clock))
    assert lock.held() is (busy < 30.0)
    lock.release()


def test_without_our_namespace_there_is_no_lock_and_the_message_says_how_to_make_it(api_server):
    with pytest.raises(NotFoundError, match=r'there is no namespace "missing", .* kubectl create namespace missing'):
        Holder(api_server, "missing", "run").lock.acquire(TimeLimit(0))


def test_a_lock_lost_while_the_connection_is_made_holds_the_body_back(api_server, api_namespace):
    holder = Holder(api_server, api_namespace, "one")
    still = iter([True, False])
    holder.requests.turns.fence = lambda: next(still)
    ref = ObjectRef("east", api_namespace, "ConfigMap", "late")
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late", "namespace": api_namespace}}
    with pytest.raises(LockLostError, match="nothing more is written there"):
        holder.cluster.write(Write("create", ref, "v1", manifest=manifest))
    path = f"/api/v1/namespaces/{api_namespace}/configmaps/late"
    assert api_server.api.find(path) is None
    holder.requests.turns.fence = None
    holder.cluster.write(Write("create", ref, "v1", manifest=manifest))
    assert api_server.api.find(path) is not None
