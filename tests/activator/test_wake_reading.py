"""How much one wake reads of a cluster, over a client that answers from memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import pytest

from reconciler.activator.wake import Waker, WakeView
from reconciler.backends.kubernetes.client import ApiClient
from reconciler.backends.kubernetes.request_form import ApiRequest
from reconciler.backends.kubernetes.request_limits import RequestTurns
from reconciler.backends.protocols import DEFAULTS
from reconciler.http.client import HttpResponse
from reconciler.time_limit import TimeLimit
from tests.real.objects import discovery

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


class PagedServer:
    """Answers the lists whose plural is one of `long` in `pages` empty pages, all others in one."""

    cluster = "cluster"
    turns = RequestTurns(DEFAULTS)  # somebody always waits

    def __init__(self, pages: int, long: set[str]) -> None:
        self.limit = TimeLimit()
        self._pages = pages
        self._long = long

    def send(self, request: ApiRequest) -> HttpResponse:
        if request.path in ("/apis", "/api"):
            return HttpResponse(200, {}, json.dumps(discovery()).encode())
        number = int(request.query.get("continue", "1"))
        more = request.path.rsplit("/", 1)[-1] in self._long and number < self._pages
        metadata = {"resourceVersion": "1", "continue": str(number + 1) if more else ""}
        return HttpResponse(200, {}, json.dumps({"metadata": metadata, "items": []}).encode())


@pytest.fixture
def waker_of() -> Callable[[PagedServer], Waker]:
    return lambda server: Waker(WakeView(cast(ApiClient, server)), "reconciler", lambda: NOW)


def test_each_wake_has_all_pages(waker_of: Callable[[PagedServer], Waker]) -> None:
    waker = waker_of(PagedServer(300, {"services"}))
    for _ in range(5):
        assert waker.wake("shop", {"web"}) == {}, "nothing is idle, and nothing failed"


def test_what_one_wake_reads_has_an_end(waker_of: Callable[[PagedServer], Waker]) -> None:
    waker = waker_of(PagedServer(390, {"services", "deployments", "replicasets"}))
    (why,) = waker.wake("shop", {"web"}).values()
    assert "more than 1000 pages were read of this cluster" in why
