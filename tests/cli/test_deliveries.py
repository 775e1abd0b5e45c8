"""Messages to webhooks: side by side, and all of them within one limit."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from reconciler.cli.deliveries import SECONDS, deliver, message_to, push
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool
from tests.backends.servers import PickerServer, drip, reply, silent

LATE = "127.0.0.1: no answer within 2 s, expected the message to be taken"
STEP = 0.1


class TickingClock:
    """A step passes each time that somebody looks at it, so that nobody has to wait."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += STEP
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def to(server: PickerServer) -> Any:
    return message_to(f"http://127.0.0.1:{server.port}/hook", "application/json", b"{}")


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(silent, id="says nothing"),
        pytest.param(drip(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n" + b"x" * 999, 0.05), id="never ends"),
    ],
)
def test_several_that_hang_take_the_time_of_one(script: Any) -> None:
    clock = TickingClock()
    with PickerServer(script) as one, PickerServer(script) as other, PickerServer(reply("ok")) as well:
        limit = TimeLimit(SECONDS, clock)
        assert deliver({"one": to(one), "other": to(other), "well": to(well)}, limit) == {"one": LATE, "other": LATE}
        after = len(one.received), len(other.received), len(well.received)
    assert (SECONDS, after) == (2, (1, 1, 1))
    assert limit.left() > -SECONDS  # a few looks after its end, and not once more as long


def test_where_there_are_no_threads_all_of_them_have_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reconciler.cli.deliveries.WorkerPool", lambda: WorkerPool(0))
    with PickerServer(silent) as one, PickerServer(silent) as other:
        limit = TimeLimit(SECONDS, TickingClock())
        assert deliver({"one": to(one), "other": to(other)}, limit) == {"one": LATE, "other": LATE}
    assert limit.left() > -SECONDS


def test_a_thread_that_hears_of_no_limit_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(WorkerPool):
        def submit(self, *_: Any, **__: Any) -> Future[Any]:
            return Future()

    monkeypatch.setattr("reconciler.cli.deliveries.WorkerPool", Stuck)
    request = message_to("http://127.0.0.1:1/hook", "application/json", b"{}")
    assert deliver({"one": request}, TimeLimit(0.2)) == {"one": LATE}


@pytest.mark.parametrize("status", [301, 400, 500])
def test_what_is_not_taken_is_said_without_the_words_of_the_receiver(status: int) -> None:
    said = reply("no /services/T0/B0/secret", status, Location="http://127.0.0.1:1/elsewhere")
    with PickerServer(said) as server:
        found = deliver({"one": to(server)}, TimeLimit(5))
    assert found == {"one": f"127.0.0.1: status {status}, expected the message to be taken"}


def test_a_request_shows_neither_its_body_nor_its_token() -> None:
    request = message_to("http://receiver.example", "application/json", b"private", "eyJhbGciOi-token")
    assert not any(one in repr(request) for one in ("private", "eyJhbGciOi-token"))


def test_metrics_go_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with PickerServer(reply("", 200)) as proxy:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        assert push("http://gateway.example:9091", "plan", "a 1\n", whole=True, limit=TimeLimit(5)) == ""
    (sent,) = proxy.received
    assert sent.line == "PUT http://gateway.example:9091/metrics/job/reconciler/verb/plan HTTP/1.1"
