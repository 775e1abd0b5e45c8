"""The proxy in front of a real API server: it changes nothing unless told to, counts, and makes each fault."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
import urllib3

from tests.real import faults
from tests.real.api import Api, ApiError
from tests.real.objects import a_deployment
from tests.real.proxy import Proxy, Rule, is_write
from tests.real.worlds import create, deployment_path, replicas_of, scale

pytestmark = pytest.mark.soak


@pytest.fixture
def proxy(api_server, api_namespace, tmp_path) -> Iterator[Proxy]:
    create(api_server.api, [a_deployment("web", 1)], api_namespace)
    with Proxy(api_server.access(), tmp_path) as started:
        yield started


@pytest.fixture
def through(proxy, api_server) -> Iterator[Api]:
    """A client of the API server through the proxy, that gives up soon."""
    api = Api(proxy.url, proxy.ca_file, api_server.admin_token, seconds=1.0)
    yield api
    api.close()


def test_everything_passes_and_is_counted(proxy, through, api_server, api_namespace):
    path = deployment_path(api_namespace, "web")
    assert through.get(path) == api_server.api.get(path)
    assert through.items("/api/v1/namespaces", limit=1) == api_server.api.items("/api/v1/namespaces", limit=1)
    scale(through, api_namespace, "web", 2)
    through.request("PATCH", path, {"spec": {"replicas": 9}}, "application/merge-patch+json", dryRun="All")
    assert through.find(f"{path}-not") is None
    assert proxy.counted() == {
        ("GET", path): 1,
        ("GET", "/api/v1/namespaces"): 1,
        ("PATCH", path): 2,
        ("GET", f"{path}-not"): 1,
    }
    assert [request.status for request in proxy.requests] == [200, 200, 200, 200, 404]
    assert [request.body for request in proxy.writes()] == [b'{"spec": {"replicas": 2}}']
    assert replicas_of(api_server.api, api_namespace, "web") == 2


def test_a_watch_comes_event_by_event(proxy, api_server, api_namespace):
    headers = {"Authorization": f"Bearer {api_server.admin_token}"}
    path = f"/apis/apps/v1/namespaces/{api_namespace}/deployments?watch=true&timeoutSeconds=60"
    with urllib3.PoolManager(ca_certs=str(proxy.ca_file), timeout=30.0) as pool:
        stream = pool.request("GET", proxy.url + path, headers=headers, preload_content=False)
        events = (line for piece in stream.stream() for line in piece.splitlines())
        assert b'"ADDED"' in next(events)
        scale(api_server.api, api_namespace, "web", 5)
        assert b'"MODIFIED"' in next(events)
        stream.close()


@pytest.mark.parametrize(
    ("fault", "replicas"),
    [
        pytest.param(faults.refuse(), 1, id="refused"),
        pytest.param(faults.lose(), 2, id="done, answer lost"),
        pytest.param(faults.cut(), 2, id="done, answer cut"),
        pytest.param(faults.cut(0), 2, id="done, answer cut after its head"),
        pytest.param(faults.stall(), 2, id="done, answer stalls"),
        pytest.param(faults.hang(), 1, id="hangs"),
        pytest.param(faults.before(lambda request: None, forward=False), 1, id="called, not forwarded"),
    ],
)
def test_a_connection_that_breaks(proxy, through, api_server, api_namespace, fault, replicas):
    proxy.rule(fault, at=1, matching=is_write)
    with pytest.raises(urllib3.exceptions.HTTPError):
        scale(through, api_namespace, "web", 2)
    assert replicas_of(api_server.api, api_namespace, "web") == replicas
    scale(through, api_namespace, "web", 3)
    assert replicas_of(api_server.api, api_namespace, "web") == 3


@pytest.mark.parametrize(
    ("status", "reason", "retry_after"),
    [
        (401, "Unauthorized", None),
        (403, "Forbidden", None),
        (404, "NotFound", None),
        (409, "Conflict", None),
        (410, "Expired", None),
        (429, "TooManyRequests", None),
        (429, "TooManyRequests", 1),
        (500, "InternalError", None),
        (503, "ServiceUnavailable", None),
    ],
)
def test_an_answer_of_its_own(proxy, api_server, api_namespace, status, reason, retry_after):
    proxy.rule(faults.answer(status, retry_after=retry_after))
    headers = {"Authorization": f"Bearer {api_server.admin_token}"}
    with urllib3.PoolManager(ca_certs=str(proxy.ca_file), retries=False) as pool:
        said = pool.request("GET", f"{proxy.url}/api/v1/namespaces", headers=headers)
    assert (said.status, said.json()["reason"], said.headers.get("Retry-After")) == (
        status,
        reason,
        None if retry_after is None else str(retry_after),
    )


def test_a_request_whose_body_never_came_is_none(api_server, api_namespace, tmp_path):
    """As from a client that was killed while it wrote, or stood still: nothing is forwarded and nothing counted."""
    create(api_server.api, [a_deployment("half", 1)], api_namespace)
    path = deployment_path(api_namespace, "half")
    head = f"PATCH {path} HTTP/1.1\r\nHost: here\r\nContent-Type: application/merge-patch+json\r\n"
    head += f"Authorization: Bearer {api_server.admin_token}\r\nContent-Length: 100\r\n\r\n"
    with Proxy(api_server.access(), tmp_path, tls=False) as proxy:
        with socket.create_connection(("127.0.0.1", urlsplit(proxy.url).port), timeout=30) as client:
            client.sendall(head.encode() + b'{"spec": {"replicas": 2}}')
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        assert proxy.requests == []
    assert replicas_of(api_server.api, api_namespace, "half") == 1


def test_wrong_json(proxy, through):
    proxy.rule(faults.wrong_json())
    with pytest.raises(ValueError, match="Expecting"):
        through.get("/api/v1/namespaces")


def test_calls_come_before_and_after_the_server_acts(proxy, through, api_server, api_namespace):
    seen = []

    def note(request):
        seen.append(replicas_of(api_server.api, api_namespace, "web"))

    proxy.rule(faults.before(note), at=1, matching=is_write)
    proxy.rule(faults.after(note), at=2, matching=is_write)
    for replicas in (2, 3, 4):
        scale(through, api_namespace, "web", replicas)
    assert seen == [1, 3]


def test_a_rule_counts_over_several_proxies_and_acts_as_often_as_told(api_server, tmp_path):
    with Proxy(api_server.access(), tmp_path / "a") as one, Proxy(api_server.access(), tmp_path / "b") as two:
        rule = Rule(faults.answer(500), at=2, times=2)
        one.rules.append(rule)
        two.rules.append(rule)
        statuses = []
        for proxy in (one, two, one, two):
            try:
                Api(proxy.url, proxy.ca_file, api_server.admin_token).get("/api/v1/namespaces")
            except ApiError as error:
                statuses.append(error.status)
            else:
                statuses.append(200)
    assert statuses == [200, 500, 500, 200]


def test_stopping_frees_clients_that_hang(api_server, tmp_path):
    with Proxy(api_server.access(), tmp_path) as proxy:
        proxy.rule(faults.hang())
        failed = threading.Event()

        def ask():
            with pytest.raises(urllib3.exceptions.HTTPError):
                Api(proxy.url, proxy.ca_file, api_server.admin_token).get("/api")
            failed.set()

        asking = threading.Thread(target=ask, daemon=True)
        asking.start()
        while not proxy.requests:
            failed.wait(0.01)
    assert failed.wait(30)
