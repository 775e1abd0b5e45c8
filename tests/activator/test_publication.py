"""What a publication asks the API server for: the Lease's renewal waits for nothing, and nobody is judged unnamed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from reconciler.activator.publication import ActivatorPod, Publication
from reconciler.backends.http.client import HttpResponse
from reconciler.backends.kubernetes.client import ApiRequest

OLD = {"renewTime": "2026-11-20T00:00:00.000000Z"}


class Server:
    """Has a Lease of an activator that died, and one without the label that says whose it is."""

    def __init__(self) -> None:
        self.asked: list[ApiRequest] = []
        self.ahead = timedelta()
        self.ahead_after_an_answer = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead

    def send(self, request: ApiRequest) -> HttpResponse:
        self.asked.append(request)
        self.ahead = self.ahead_after_an_answer
        dead = {"metadata": {"name": "dead", "labels": {"reconciler/activator-pod": "uid-1"}}, "spec": OLD}
        unnamed = {"metadata": {"name": "unnamed", "labels": {}}, "spec": OLD}
        items = [dead, unnamed] if request.path.endswith("/leases") else []
        return HttpResponse(200, {}, json.dumps({"metadata": {}, "items": items}).encode())


def a_publication(server: Server) -> Publication:
    pod = ActivatorPod("reconciler", "activator-0", "uid-0", ("127.0.0.1",))
    return Publication(cast(Any, server), "member", pod)


def test_a_renewal_has_five_seconds_and_no_place_among_other_requests() -> None:
    server = Server()
    a_publication(server).renew()
    [renewal] = server.asked
    assert (renewal.method, renewal.seconds) == ("PATCH", 5.0)
    lease = json.loads(cast(bytes, renewal.body))
    assert datetime.fromisoformat(lease["spec"]["renewTime"]).tzinfo == UTC


def test_a_renewal_by_a_clock_that_proves_wrong_is_written_again_by_the_servers() -> None:
    server = Server()
    server.ahead_after_an_answer = timedelta(hours=1)
    a_publication(server).renew()
    first, second = (json.loads(cast(bytes, one.body))["spec"]["renewTime"] for one in server.asked)
    assert datetime.fromisoformat(second) - datetime.fromisoformat(first) >= timedelta(hours=1)


def test_a_lease_without_the_label_of_a_pod_is_left_alone() -> None:
    server = Server()
    assert a_publication(server).withdraw_dead({"uid-0"}) == {"uid-1"}
    assert [one.path.rsplit("/", 1)[1] for one in server.asked if one.method == "DELETE"] == ["dead"]
