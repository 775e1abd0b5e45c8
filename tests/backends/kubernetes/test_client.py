"""The choke point over plain sockets: what hangs, drips, is asked to stop, or comes too fast."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from reconciler.backends.credentials.connection import ApiServerConnection
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.request_form import ApiRequest, Operation
from reconciler.backends.kubernetes.request_limits import Rate
from reconciler.backends.live import open_live
from reconciler.backends.protocols import RequestSettings
from reconciler.connection_settings import ClusterConnection
from reconciler.errors import (
    ClusterError,
    ForbiddenError,
    LockLostError,
    MalformedAnswerError,
    StoppedError,
    ThrottledError,
    UnreachableError,
)
from reconciler.time_limit import TimeLimit
from tests.backends.kubernetes.kubeconfigs import a_kubeconfig
from tests.backends.servers import HELLO, Server, hang, silent
from tests.builders import NOW
from tests.fakes import FakeClock

READ = ApiRequest("GET", "/version", Operation("east", "get", "/version"))
WRITE = ApiRequest(
    "PATCH", "/x", Operation("east", "patch", "deployments.apps", "shop", "web"), body=b"[]", writes=True
)


def requests_to(url: str, folder: Path, settings: RequestSettings) -> ApiClient:
    kubeconfig = a_kubeconfig(folder / "config", {"token": "t"}, {"server": url})
    return ApiClient(ApiServerConnection(ClusterConnection("east", kubeconfig=kubeconfig)), settings)


def test_no_answer_takes_longer_than_a_request_may(tmp_path):
    """And what hung is not tried again: it would take as long once more."""
    with Server(hang) as server:
        requests = requests_to(server.url, tmp_path, RequestSettings(timeout=0.8))
        with pytest.raises(UnreachableError, match=r"^east: get /version: no answer in time"):
            requests.send(READ)
        assert len(server.requests) == 1


def test_the_restart_of_an_api_server_is_lived_through(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    requests = requests_to(f"http://127.0.0.1:{port}", tmp_path, RequestSettings())

    def start_again():
        with socket.create_server(("127.0.0.1", port)) as listener:
            listener.settimeout(30)  # where nobody comes any more, this ends all the same
            client, _ = listener.accept()
            client.recv(65536)
            client.sendall(HELLO)

    starting = threading.Timer(2.0, start_again)  # four attempts in half a second did not live so long
    starting.start()
    assert requests.send(READ).status == 200
    starting.join()


def test_an_outage_is_waited_out_once(tmp_path):
    """Not by each request anew: a cluster that is away would use up the time of the run."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    requests = requests_to(f"http://127.0.0.1:{port}", tmp_path, RequestSettings(timeout=2.0))
    for tried in (range(2, 9), (1,), (1,)):
        before = requests.traffic().requests
        with pytest.raises(UnreachableError, match="the connection was refused"):
            requests.send(READ)
        assert requests.traffic().requests - before in tried
    with Server(HELLO, port=port) as server:
        assert requests.send(READ).status == 200
        assert len(server.requests) == 1
        assert not requests.is_unreachable


def test_a_webhook_that_fails_is_waited_out_once_by_what_it_is_asked_about(tmp_path):
    """Else each of a thousand writes waits for a minute, and the wakes of the cluster behind them."""
    failed = b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\n{}"
    answers = [failed]
    with Server(lambda client: client.sendall(answers[0])) as server:
        settings = RequestSettings(qps=0, limit=TimeLimit(clock=FakeClock()))
        requests = requests_to(server.url, tmp_path, settings)

        def attempts(namespace):
            before = len(server.requests)
            with contextlib.suppress(UnreachableError):
                requests.send(replace(WRITE, operation=replace(WRITE.operation, namespace=namespace)))
            return len(server.requests) - before

        assert [attempts(namespace) for namespace in ("shop", "shop", "shop", "other")] == [8, 1, 1, 8]
        answers[0] = HELLO
        assert attempts("shop") == 1
        answers[0] = failed
        assert [attempts(namespace) for namespace in ("shop", "shop", "other")] == [8, 1, 1]


def test_a_stop_ends_the_wait_for_an_answer_that_nobody_needs_any_more(tmp_path):
    limit = TimeLimit()
    with Server(hang) as server:
        requests = requests_to(server.url, tmp_path, RequestSettings(limit=limit))
        threading.Timer(0.3, limit.cut, ["stopped by SIGTERM"]).start()
        with pytest.raises(ClusterError):
            requests.send(READ)
        with pytest.raises(StoppedError, match="get /version: not sent, stopped by SIGTERM"):
            requests.send(READ)
        assert len(server.requests) == 1


def test_writes_that_wait_for_their_turn_are_not_sent_after_a_stop(tmp_path):
    limit = TimeLimit()
    outcomes = []
    with Server(HELLO) as server:
        requests = requests_to(server.url, tmp_path, RequestSettings(qps=2, limit=limit))
        requests.turns.fence = lambda: True

        def write():
            try:
                requests.send(WRITE)
                outcomes.append("sent")
            except StoppedError:
                outcomes.append("stopped")

        writers = [threading.Thread(target=write) for _ in range(12)]
        for writer in writers:
            writer.start()
        while len(server.requests) < 2:
            time.sleep(0.01)
        limit.cut("stopped by SIGTERM")
        for writer in writers:
            writer.join()
        assert outcomes.count("sent") == len(server.requests) < 6
        assert outcomes.count("stopped") == 12 - len(server.requests)


def test_the_end_of_the_run_is_the_end_of_the_queue(tmp_path):
    with Server(HELLO) as server:
        requests = requests_to(server.url, tmp_path, RequestSettings(qps=0.5, limit=TimeLimit(1)))
        requests.send(WRITE)
        with pytest.raises(StoppedError, match="not sent, the run's --timeout is over"):
            requests.send(WRITE)
        assert len(server.requests) == 1


def test_what_keeps_the_lock_needs_no_place_among_slow_writes(tmp_path):
    slow, go_on = threading.Event(), threading.Event()

    def answer(client):
        if not slow.is_set():
            slow.set()
            go_on.wait(60)
        client.sendall(HELLO)

    with Server(answer) as server:
        requests = requests_to(server.url, tmp_path, RequestSettings(in_flight=1))
        writer = threading.Thread(target=lambda: requests.send(WRITE))
        writer.start()
        slow.wait(60)
        lease = ApiRequest("GET", "/lease", Operation("east", "get", "leases"), when="at once")
        assert requests.send(lease).status == 200
        go_on.set()
        writer.join()
        assert len(server.requests) == 2


@pytest.mark.parametrize(("until", "delay"), [pytest.param(-1, 0.3, id="over"), pytest.param(30, 1.5, id="going on")])
def test_a_lock_is_given_back_whether_or_not_the_run_is_over(tmp_path, until, delay):
    def late(client):
        time.sleep(delay)
        client.sendall(HELLO)

    with Server(late) as server:
        settings = RequestSettings(limit=TimeLimit(until))
        last = ApiRequest("PATCH", "/lease", Operation("east", "patch", "leases"), body=b"[]", when="at the end")
        assert requests_to(server.url, tmp_path, settings).send(last).status == 200


def test_nothing_is_written_once_the_lock_is_lost(tmp_path):
    with Server(HELLO) as server:
        requests = requests_to(server.url, tmp_path, RequestSettings())
        requests.turns.fence = lambda: False
        with pytest.raises(LockLostError):
            requests.send(WRITE)
        assert requests.send(READ).status == 200
        assert len(server.requests) == 1


def test_a_length_of_too_many_digits_is_none(tmp_path):
    def answer(client):
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n{}")
        client.shutdown(socket.SHUT_WR)

    with Server(answer) as server:
        assert requests_to(server.url, tmp_path, RequestSettings()).send(READ).body == b"{}"


def test_retry_after_is_waited_for_even_when_it_is_longer_than_a_request_may_take(tmp_path):
    answers = (b"HTTP/1.1 429 Too Many\r\nRetry-After: 30\r\nContent-Length: 2\r\n\r\n{}", HELLO)
    clock = FakeClock()
    with Server(*answers) as server:
        settings = RequestSettings(timeout=20, limit=TimeLimit(clock=clock))
        assert requests_to(server.url, tmp_path, settings).send(READ).status == 200
    assert clock.now >= 30


def test_retry_after_beyond_the_end_of_the_run_is_not_waited_for(tmp_path):
    busy = b"HTTP/1.1 429 Too Many\r\nRetry-After: 30\r\nContent-Length: 2\r\n\r\n{}"
    with Server(busy) as server:
        with pytest.raises(ThrottledError):
            requests_to(server.url, tmp_path, RequestSettings(limit=TimeLimit(5))).send(READ)
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("no\nway", "no way), expected the right to; bind a ClusterRole"),
        (
            "ValidatingAdmissionPolicy 'a' with binding 'a' denied request: no",
            "ValidatingAdmissionPolicy 'a' with binding 'a' denied request: no), expected it to be accepted",
        ),
        (
            'user "a" is attempting to grant RBAC permissions not currently held: {}',
            'user "a" is attempting to grant RBAC permissions not currently held: {}), expected it to be accepted',
        ),
        (
            'admission webhook "a.b" denied the request: no',
            'admission webhook "a.b" denied the request: no), expected it to be accepted',
        ),
    ],
)
def test_a_refusal_is_told_in_the_servers_words(tmp_path, message, words):
    status = json.dumps({"kind": "Status", "message": message, "reason": "Forbidden"}).encode()
    answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n" % len(status) + status
    with Server(answer) as server, pytest.raises(ForbiddenError) as raised:
        requests_to(server.url, tmp_path, RequestSettings()).send(READ)
    assert str(raised.value).startswith(f"east: get /version: forbidden ({words}")


def test_of_the_refusal_of_a_watch_only_the_first_line_is_read(tmp_path):
    """A Status is one line; whatever answers in the place of the API server may send lines for ever."""

    def endless(client):
        client.sendall(b'HTTP/1.1 403 Forbidden\r\n\r\n{"kind": "Status", "message": "no way"}\n' + b"more\n" * 1000)
        silent(client)

    expected = pytest.raises(ForbiddenError, match=r"^east: get /version: forbidden \(no way\), expected the right to")
    with Server(endless) as server, expected, requests_to(server.url, tmp_path, RequestSettings()).watched(READ, 5):
        pass


@pytest.mark.parametrize("status", ["101 Switching Protocols", "304 Not Modified"])
def test_what_is_none_of_200_to_299_is_no_success(status, tmp_path):
    answer = b"HTTP/1.1 %b\r\nContent-Length: 2\r\n\r\n{}" % status.encode()
    words = rf"east: get /version: answered with status {status[:3]}, expected one of 200 to 299"
    with Server(answer) as server:
        requests = requests_to(server.url, tmp_path, RequestSettings(timeout=5))
        with pytest.raises(MalformedAnswerError, match=words):
            requests.send(READ)
        with pytest.raises(MalformedAnswerError, match=words), requests.watched(READ, 5):
            pass


def test_a_rate_lets_a_seconds_worth_through_at_once_and_then_one_after_another():
    clock = FakeClock()
    rate, limit = Rate(10), TimeLimit(clock=clock)
    for _ in range(10):
        assert rate.take(limit)
    assert clock.now == 0
    for _ in range(20):
        rate.take(limit)
    assert clock.now == pytest.approx(2.0)


def test_no_rate_waits_for_nobody():
    clock = FakeClock()
    assert all(Rate(0).take(TimeLimit(clock=clock)) for _ in range(1000))
    assert clock.now == 0


def test_a_reading_that_is_given_up_is_cut_in_flight(tmp_path):
    """Its thread is free for other clusters long before the request may time out."""
    is_asked = threading.Event()

    def served(client):
        is_asked.set()
        hang(client)

    with Server(served) as server:
        kubeconfig = a_kubeconfig(tmp_path / "config", {"token": "t"}, {"server": server.url})
        backend = open_live(
            [ClusterConnection("east", kubeconfig=kubeconfig)], NOW, "reconciler", RequestSettings(timeout=60)
        ).backends["east"]
        cluster = backend.cluster
        with ThreadPoolExecutor(1) as threads:
            reading = threads.submit(cluster.identity)
            assert is_asked.wait(30)
            backend.reading.cut("nobody waits for it")
            with pytest.raises(ClusterError):
                reading.result(30)  # hanging takes two minutes
