"""A watch goes on from where it was; one that ends at once, or whose version is gone, is not begun anew at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.activator.objects import WATCHED_SERVICES
from reconciler.backends.kubernetes.request_limits import RequestTurns
from reconciler.backends.kubernetes.watch import Watch, WatchHandlers
from reconciler.backends.protocols import DEFAULTS
from reconciler.errors import (
    ForbiddenError,
    GoneError,
    MalformedAnswerError,
    ThrottledError,
    UnauthorisedError,
    UnreachableError,
)
from reconciler.time_limit import TimeLimit
from tests.backends.kubernetes.sized_server import SizedServer

GONE = b'{"type":"ERROR","object":{"code":410,"message":"too old"}}'


class Server:
    """Ends each watch after so many seconds of its own clock; after six it asks to stop."""

    cluster = "member"
    turns = RequestTurns(DEFAULTS)  # somebody always waits

    def __init__(self, lines: tuple[bytes, ...], lasts: float) -> None:
        self.pauses: list[float] = []
        self._lines = lines
        self._lasts = lasts
        self._now = 0.0
        self._ended = 0.0
        self._watches = 0
        self.limit = TimeLimit(clock=self)

    def send(self, _: object) -> Any:
        return SimpleNamespace(body=b'{"metadata":{"resourceVersion":"5"},"items":[]}')

    @contextmanager
    def watched(self, _: object, __: float) -> Iterator[Iterator[bytes]]:
        self._watches += 1
        if self._now > self._ended:
            self.pauses.append(self._now - self._ended)
        self._now = self._ended = self._now + self._lasts
        if self._watches == 6:
            self.limit.cut("enough")
        yield iter(self._lines)

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += seconds


@pytest.mark.parametrize(
    ("lines", "lasts", "bounds"),
    [
        pytest.param((), 0.0, (0.5, 1.0, 2.0, 4.0, 8.0), id="ends at once"),
        pytest.param((GONE,), 0.0, (0.5, 1.0, 2.0, 4.0, 8.0), id="gone at once"),
        pytest.param((), 30.0, (), id="lasts"),
        pytest.param((GONE,), 30.0, (), id="gone after a while"),
    ],
)
def test_pauses_grow(lines: tuple[bytes, ...], lasts: float, bounds: tuple[float, ...]) -> None:
    server = Server(lines, lasts)
    handlers: WatchHandlers[Any] = WatchHandlers(lambda _: None, lambda *_: None, lambda _: None)
    Watch(WATCHED_SERVICES, cast(Any, server), handlers).follow(server.limit)
    assert len(server.pauses) == len(bounds)
    assert all(most / 2 <= pause <= most for pause, most in zip(server.pauses, bounds, strict=True))


class Recorded:
    """Handlers that record what they are called with."""

    def __init__(self) -> None:
        self.replaced: list[int] = []
        self.changed: list[str] = []
        self.failed: list[str] = []

    def handlers(self) -> WatchHandlers[Any]:
        return WatchHandlers(
            lambda found: self.replaced.append(len(found)),
            lambda name, _: self.changed.append("/".join(name)),
            self.failed.append,
        )


def an_event(name: str, version: int) -> bytes:
    metadata = {"name": name, "namespace": "shop", "resourceVersion": str(version)}
    return json.dumps({"type": "MODIFIED", "object": {"metadata": metadata}}).encode()


class Failing(Server):
    """The second watch fails after one event; each line of a watch may be an error to raise."""

    def __init__(self, error: Exception) -> None:
        super().__init__((), 30.0)
        self.lists = 0
        self.versions: list[str] = []
        self._error = error

    def send(self, request: object) -> Any:
        self.lists += 1
        return super().send(request)

    @contextmanager
    def watched(self, request: Any, seconds: float) -> Iterator[Iterator[bytes]]:
        self.versions.append(request.query["resourceVersion"])
        with super().watched(request, seconds):
            yield self._changes()

    def _changes(self) -> Iterator[bytes]:
        if len(self.versions) == 2:
            yield an_event("web", 9)
            raise self._error


@pytest.mark.parametrize(
    ("error", "versions", "lists"),
    [
        pytest.param(UnreachableError("cut"), ["5", "5", "9", "9", "9", "9"], 1, id="the connection was cut"),
        pytest.param(ThrottledError("busy"), ["5", "5", "9", "9", "9", "9"], 1, id="the server is busy"),
        pytest.param(UnauthorisedError("old"), ["5", "5", "9", "9", "9", "9"], 1, id="the token was replaced"),
        pytest.param(ForbiddenError("no"), ["5", "5", "9", "9", "9", "9"], 1, id="the right is not there for a while"),
        pytest.param(GoneError("410"), ["5", "5", "5", "5", "5", "5"], 2, id="the version is gone"),
        pytest.param(
            MalformedAnswerError("?"), ["5", "5", "5", "5", "5", "5"], 2, id="an answer that nobody understands"
        ),
    ],
)
def test_after_a_failure_a_watch_goes_on_from_where_it_was_unless_the_server_forgot_that(
    error: Exception, versions: list[str], lists: int
) -> None:
    server, recorded = Failing(error), Recorded()
    watch = Watch(WATCHED_SERVICES, cast(Any, server), recorded.handlers())
    watch.follow(server.limit)
    assert (server.versions, server.lists) == (versions, lists)
    assert (recorded.changed, len(recorded.replaced)) == (["shop/web"], lists)
    assert recorded.failed[-1] == ""  # what goes on has no failure any more


def test_while_an_object_is_too_large_what_is_known_stays_and_all_is_listed_again() -> None:
    """Taken for absent, a NetworkPolicy would let in what it keeps out, and an idle Service would be forgotten."""
    server, recorded = SizedServer([1000, 33 << 20, 1000]), Recorded()
    watch = Watch(WATCHED_SERVICES, cast(Any, server), recorded.handlers())
    assert not watch._lasted(TimeLimit())
    assert not watch._lasted(TimeLimit())
    assert (recorded.replaced, server.limits.count(500)) == ([], 2)
    words = "member: list services: the answer is longer than 32 MiB, expected an answer"
    assert recorded.failed == [words, words]


def test_a_list_that_goes_on_where_it_was_already_ends_with_a_failure() -> None:
    class Repeating(Server):
        """Each page says that the same one follows, as some proxies' caches do; nobody may ask for it for ever."""

        def __init__(self) -> None:
            super().__init__((), 30.0)
            self.pages = 0

        def send(self, _: object) -> Any:
            self.pages += 1
            if self.pages == 50:
                self.limit.cut("enough")
                return SimpleNamespace(body=b'{"metadata":{"resourceVersion":"5"},"items":[]}')
            return SimpleNamespace(body=b'{"metadata":{"resourceVersion":"5","continue":"x"},"items":[]}')

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            self.limit.cut("enough")

    server, recorded = Repeating(), Recorded()
    Watch(WATCHED_SERVICES, cast(Any, server), recorded.handlers()).follow(server.limit)
    assert (server.pages, recorded.replaced) == (2, [])
    assert "goes on where it was already" in recorded.failed[0]
