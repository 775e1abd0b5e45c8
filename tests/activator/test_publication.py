"""What a publication asks the API server for: the Lease's renewal waits for nothing, and nobody is judged unnamed."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from reconciler.activator.activation_context import ActivatorPod
from reconciler.activator.publication import Publication
from reconciler.backends.kubernetes.request_form import ApiRequest
from reconciler.backends.kubernetes.request_limits import RequestTurns
from reconciler.backends.protocols import DEFAULTS
from reconciler.errors import ForbiddenError
from reconciler.http.client import HttpResponse
from reconciler.model import ACTIVATOR_LEASE_SECONDS
from reconciler.time_limit import TimeLimit
from tests.fakes import FakeClock

OLD = {"renewTime": "2026-11-20T00:00:00.000000Z"}


class Server:
    """Has a Lease of an activator that died, and one without the label that says whose it is."""

    cluster = "member"
    turns = RequestTurns(DEFAULTS)  # somebody always waits

    def __init__(self) -> None:
        self.limit = TimeLimit()
        self.asked: list[ApiRequest] = []
        self.ahead = timedelta()
        self.ahead_after_an_answer = timedelta()
        self.slices = 0

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def send(self, request: ApiRequest) -> HttpResponse:
        self.asked.append(request)
        self.ahead = self.ahead_after_an_answer
        dead = {"metadata": {"name": "dead", "labels": {"reconciler/activator-pod": "uid-1"}}, "spec": OLD}
        unnamed = {"metadata": {"name": "unnamed", "labels": {}}, "spec": OLD}
        items = [dead, unnamed] if request.path.endswith("/leases") else []
        if request.path.endswith("/endpointslices"):
            items = [
                {"metadata": {"name": f"s{n}", "namespace": "shop", "labels": {"kubernetes.io/service-name": f"s{n}"}}}
                for n in range(self.slices)
            ]
        return HttpResponse(200, {}, json.dumps({"metadata": {}, "items": items}).encode())


def a_publication(server: Server) -> Publication:
    pod = ActivatorPod("reconciler", "activator-0", "uid-0", ("127.0.0.1",))
    return Publication(cast(Any, server), pod)


def test_a_renewal_waits_for_no_other_request() -> None:
    server = Server()
    a_publication(server).renew()
    [renewal] = server.asked
    assert (renewal.method, renewal.when) == ("PATCH", "at once")
    lease = json.loads(cast(bytes, renewal.body))
    assert datetime.fromisoformat(lease["spec"]["renewTime"]).tzinfo == UTC


def test_a_renewal_by_a_clock_that_proves_wrong_is_written_again_by_the_servers() -> None:
    server = Server()
    server.ahead_after_an_answer = timedelta(hours=1)
    a_publication(server).renew()
    first, second = (json.loads(cast(bytes, one.body))["spec"]["renewTime"] for one in server.asked)
    assert datetime.fromisoformat(second) - datetime.fromisoformat(first) >= timedelta(hours=1)


@pytest.mark.parametrize(
    ("renewed_after", "then", "expected"),
    [
        pytest.param([0], 1, (True, False), id="fresh for a moment"),
        pytest.param([0, 10, 20], 1, (True, True), id="fresh for its whole length"),
        pytest.param([0, 10], ACTIVATOR_LEASE_SECONDS + 1, (False, False), id="not fresh any more"),
        pytest.param([0, 10, 20, 40], 1, (True, False), id="fresh again for a moment"),
        pytest.param([], 0, (False, False), id="never written"),
    ],
)
def test_others_are_judged_once_our_lease_is_fresh_for_as_long_as_theirs_may_be(
    renewed_after: list[float], then: float, expected: tuple[bool, bool]
) -> None:
    server, clock = Server(), FakeClock()
    server.limit = TimeLimit(clock=clock)
    publication = a_publication(server)
    for seconds in renewed_after:
        clock.now = seconds
        publication.renew()
    clock.now += then
    assert (publication.is_fresh, publication.may_judge) == expected


def test_a_lease_without_the_label_of_a_pod_is_left_alone() -> None:
    server = Server()
    assert a_publication(server).withdraw_dead({"uid-0"}) == {"uid-1"}
    assert [one.path.rsplit("/", 1)[1] for one in server.asked if one.method == "DELETE"] == ["dead"]


def test_at_the_end_the_lease_expires_first_and_goes_last() -> None:
    """A process that is killed in between leaves slices that the others, and every run, take for a dead one's."""
    server = Server()
    server.slices = 20
    publication = a_publication(server)
    publication.expire()
    publication.end()
    steps = [(one.method, one.path.rsplit("/", 2)[1]) for one in server.asked]
    assert steps == [("PATCH", "leases"), ("GET", "v1"), *[("DELETE", "endpointslices")] * 20, ("DELETE", "leases")]
    expired = json.loads(cast(bytes, server.asked[0].body))["spec"]
    assert datetime.now(UTC) - datetime.fromisoformat(expired["renewTime"]) > timedelta(days=1)


def test_slices_are_deleted_several_at_a_time_and_all_are_tried() -> None:
    class Meeting(Server):
        """Answers a deletion once four of them are asked for at a time; one is refused."""

        def __init__(self) -> None:
            super().__init__()
            self.slices = 16
            self.together = threading.Barrier(4)

        def send(self, request: ApiRequest) -> HttpResponse:
            if request.method == "DELETE":
                self.together.wait(60)
            answer = super().send(request)
            if request.path.endswith("/s1"):
                raise ForbiddenError("delete s1: forbidden")
            return answer

    server = Meeting()
    with pytest.raises(ForbiddenError, match="s1"):
        a_publication(server).withdraw_all("uid-0")
    assert len([one for one in server.asked if one.method == "DELETE"]) == 16


def test_slices_of_one_that_cannot_be_deleted_keep_no_other_dead_activators_there() -> None:
    class Refusing(Server):
        def send(self, request: ApiRequest) -> HttpResponse:
            answer = super().send(request)
            if "uid-0a" in request.query.get("labelSelector", ""):
                raise ForbiddenError("list: forbidden")
            return answer

    server = Refusing()
    with pytest.raises(ForbiddenError):
        a_publication(server).withdraw_dead({"uid-0a"})
    assert [one.path.rsplit("/", 1)[1] for one in server.asked if one.method == "DELETE"] == ["dead"]


def test_slices_are_deleted_also_where_there_are_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(_: object) -> None:
        raise RuntimeError("can't start new thread")

    server = Server()
    server.slices = 20
    monkeypatch.setattr(threading.Thread, "start", none)
    a_publication(server).end()
    assert len([one for one in server.asked if one.method == "DELETE"]) == 21
