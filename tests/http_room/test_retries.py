"""What is sent again and after which pauses, and Retry-After as servers send it."""

from __future__ import annotations

import socket

import pytest

from reconciler.http.client import HttpClient, HttpRequest, HttpResponse
from reconciler.http.connections import connections, tls_context
from reconciler.http.errors import HttpError, TimedOutError
from reconciler.http.retries import RetryPolicy, with_retries
from reconciler.time_limit import TimeLimit
from tests.backends.servers import HELLO, Server
from tests.fakes import FakeClock

QUICK = RetryPolicy(first_pause=0.01)
DATE = "Sat, 21 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("header", "date", "expected"),
    [
        pytest.param("0", None, 0.0, id="at once"),
        pytest.param(" 17 ", None, 17.0, id="seconds"),
        pytest.param("Sat, 21 Nov 2026 12:01:30 GMT", DATE, 90.0, id="a time"),
        pytest.param("Saturday, 21-Nov-26 12:01:30 GMT", DATE, 90.0, id="a time in the old form"),
        pytest.param("Sat, 21 Nov 2026 11:00:00 GMT", DATE, 0.0, id="a time that is over"),
        pytest.param("Sat, 21 Nov 2026 12:01:30 GMT", None, None, id="a time, counted from an unknown one"),
        pytest.param("Sat, 21 Nov 2026 12:01:30 GMT", "noon", None, id="a time, counted from nonsense"),
        pytest.param("Sat, 21 Nov 2026 12:01:30 -0000", DATE, None, id="a time without a zone"),
        pytest.param("Sat, 99 Nov 2026 12:01:30 GMT", DATE, None, id="no day"),
        pytest.param(f"Sat, 21 Nov {9**30} 12:01:30 GMT", DATE, None, id="a year beyond all years"),
        pytest.param("9" * 10, None, None, id="more than a life"),
        pytest.param("-1", DATE, None, id="negative"),
        pytest.param("1.5", DATE, None, id="a fraction"),
        pytest.param("٣", DATE, None, id="digits of another script"),
        pytest.param("", DATE, None, id="empty"),
        pytest.param(None, DATE, None, id="none"),
    ],
)
def test_seconds_to_wait(header, date, expected):
    given = {"retry-after": header, "date": date}
    headers = {name: value for name, value in given.items() if value is not None}
    assert HttpResponse(503, headers, b"").retry_after == expected


BUSY = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"


def cut(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_RDWR)


def asked_again(url: str, deadline: TimeLimit, policy: RetryPolicy) -> HttpResponse:
    client = HttpClient(connections(tls=tls_context()))
    return with_retries(lambda: client.exchange(HttpRequest("GET", url), deadline), policy, deadline.wait)


@pytest.mark.parametrize(
    ("answers", "status", "requests"),
    [
        pytest.param([BUSY, BUSY, HELLO], 200, 3, id="it passes"),
        pytest.param([BUSY], 503, 8, id="eight attempts at most"),
        pytest.param([b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"], 404, 1, id="asking again is no use"),
        pytest.param([cut, HELLO], 200, 2, id="it was cut"),
    ],
)
def test_what_may_pass_is_tried_again(answers, status, requests):
    with Server(*answers) as server:
        assert asked_again(server.url, TimeLimit(10), QUICK).status == status
        assert len(server.requests) == requests


def test_what_hung_is_tried_again_only_where_the_policy_says_so():
    class Hanging:
        def __init__(self):
            self.attempts = 0

        def __call__(self):
            self.attempts += 1
            raise TimedOutError("no answer in time")

    for policy, attempts in ((QUICK, 1), (RetryPolicy(attempts=3, after_timeout=True), 3)):
        hanging = Hanging()
        with pytest.raises(TimedOutError):
            with_retries(hanging, policy, lambda _: True)
        assert hanging.attempts == attempts


def test_the_time_that_is_left_decides_how_often_a_refused_connection_is_tried():
    """Eight attempts last longer than an API server needs to start again, and none waits beyond the deadline."""
    waits = []

    def wait(seconds):
        waits.append(seconds)
        return True

    client = HttpClient(connections(tls=tls_context()))

    def refused():
        return client.exchange(HttpRequest("GET", "http://127.0.0.1:1"), TimeLimit(10))

    with pytest.raises(HttpError, match="refused"):
        with_retries(refused, RetryPolicy(), wait)
    assert len(waits) == 7
    assert 6 < sum(waits) < 20
    clock = FakeClock()
    with pytest.raises(HttpError, match="refused"):
        asked_again("http://127.0.0.1:1", TimeLimit(0.8, clock), RetryPolicy())
    assert 0 < clock.now < 0.8


def test_an_attempt_that_only_the_deadline_ended_hides_nothing_of_the_one_before():
    """The pause before it left it a few milliseconds, which say nothing about the server."""
    outcomes = [
        HttpError("the connection was refused", passes=True),
        TimedOutError("no answer in time"),
    ]

    def attempt():
        raise outcomes.pop(0)

    with pytest.raises(HttpError, match="refused"):
        with_retries(attempt, QUICK, lambda _: True)
    assert not outcomes


@pytest.mark.parametrize(
    ("policy", "tried", "retry_after", "low", "high"),
    [
        pytest.param(RetryPolicy(), 1, None, 0.05, 0.15, id="the first"),
        pytest.param(RetryPolicy(), 4, None, 0.4, 1.2, id="doubled"),
        pytest.param(RetryPolicy(), 1, 30.0, 30, 30, id="as the server says"),
        pytest.param(RetryPolicy(longest_pause=5), 1, 30.0, 5, 5, id="but no longer"),
        pytest.param(RetryPolicy(longest_pause=5), 40, None, 5 / 3, 5, id="nor by itself"),
    ],
)
def test_pauses(policy, tried, retry_after, low, high):
    assert low <= policy.pause(tried, retry_after) <= high
