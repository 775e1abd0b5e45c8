"""A watch that ends at once, or whose version is gone, is not begun anew at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reconciler.activator.objects import WATCHED_SERVICES
from reconciler.backends.kubernetes.watch import Watch, WatchHandlers
from reconciler.backends.stop import Stop

GONE = b'{"type":"ERROR","object":{"code":410,"message":"too old"}}'


class Server:
    """Ends each watch after so many seconds of its own clock; after six it asks to stop."""

    def __init__(self, lines: tuple[bytes, ...], lasts: float) -> None:
        self.stop = Stop()
        self.pauses: list[float] = []
        self._lines = lines
        self._lasts = lasts
        self._now = 0.0
        self._watches = 0

    def send(self, _: object) -> Any:
        return SimpleNamespace(body=b'{"metadata":{"resourceVersion":"5"},"items":[]}')

    @contextmanager
    def watched(self, _: object, __: float) -> Iterator[Iterator[bytes]]:
        self._watches += 1
        self._now += self._lasts
        if self._watches == 6:
            self.stop.ask("enough")
        yield iter(self._lines)

    def monotonic(self) -> float:
        return self._now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
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
    Watch(WATCHED_SERVICES, cast(Any, server), "member", handlers).follow(server.stop, cast(Any, server))
    assert len(server.pauses) == len(bounds)
    assert all(most / 2 <= pause <= most for pause, most in zip(server.pauses, bounds, strict=True))
