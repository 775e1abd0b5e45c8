"""The one place where requests go out: limits, timeouts, retries, and a typed error for whatever goes wrong."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from urllib.parse import urlencode

from reconciler.backends.base import Clock, Traffic
from reconciler.backends.kubernetes.answers import Answer, Question, error_of
from reconciler.backends.kubernetes.connection import Connection
from reconciler.backends.kubernetes.exchange import Outgoing, exchange
from reconciler.backends.kubernetes.rate import Rate
from reconciler.backends.kubernetes.settings import RequestSettings
from reconciler.backends.kubernetes.traffic import TrafficCount
from reconciler.errors import LockLostError, UnauthorisedError, UnreachableError

ATTEMPTS = 4

_FIRST_PAUSE = 0.1
_PASSING = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `accept` is the answer's form; `body` is sent as `content_type`. `writes`: it changes something."""

    method: str
    path: str
    question: Question
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    writes: bool = False


@dataclass(slots=True)
class Attempts:
    """What came of a request: `unsure` counts attempts whose outcome nobody knows, because no answer came."""

    unsure: int = 0


class Requests:
    """All requests to one cluster, at most `settings.in_flight` at a time.

    What may pass by itself (no connection, 429, 5xx) is tried again, with pauses that double, of random length, or as
    long as the server asks for. Nothing is waited for beyond `settings.until`. While `fence` is set, writes go out
    only as long as it says so: the lock is still ours.
    """

    def __init__(self, connection: Connection, settings: RequestSettings, clock: Clock) -> None:
        self.fence: Callable[[], bool] | None = None
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._places = threading.BoundedSemaphore(settings.in_flight)
        self._rate = Rate(settings.qps, clock)
        self._traffic = TrafficCount()
        self._agent = f"reconciler/{version('reconciler')}"

    def traffic(self) -> Traffic:
        return self._traffic.so_far()

    def send(self, request: Request, attempts: Attempts | None = None) -> Answer:
        """Return the answer with a status of 2xx.

        `attempts`, where given, is told about attempts without an answer.

        Raises:
            ClusterError: one for each class of failure, see errors.py.
        """
        noted = attempts or Attempts()
        renewed = False
        tried = 0
        last_try = self._clock.monotonic() + self._settings.timeout
        while True:
            tried += 1
            header = self._connection.header()
            try:
                answer = self._once(request, header)
            except UnreachableError:
                noted.unsure += 1
                if tried == ATTEMPTS or self._clock.monotonic() > last_try + 1 or not self._pause(tried, None):
                    raise
                continue
            if answer.status < 300:
                return answer
            error = error_of(request.question, answer)
            if isinstance(error, UnauthorisedError) and not renewed and self._connection.renew(header):
                renewed = True
                continue
            noted.unsure += answer.status >= 500
            if answer.status not in _PASSING or tried == ATTEMPTS or not self._pause(tried, answer.retry_after):
                raise error

    def _once(self, request: Request, header: str | None) -> Answer:
        endpoint = self._connection.endpoint()
        if request.writes:
            self._rate.take()
        with self._places:
            if request.writes and self.fence is not None and not self.fence():
                raise LockLostError(f"{request.question}: the lock was lost, nothing more is written there")
            began = self._clock.monotonic()
            received = 0
            try:
                answer = exchange(endpoint, self._outgoing(request, header), self._seconds(request), self._clock)
                received = len(answer.body)
                return answer
            finally:
                self._traffic.add(received, self._clock.monotonic() - began)

    def _outgoing(self, request: Request, header: str | None) -> Outgoing:
        headers = {"User-Agent": self._agent, "Accept": request.accept}
        if header is not None:
            headers["Authorization"] = header
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        target = request.path + (f"?{urlencode(request.query)}" if request.query else "")
        return Outgoing(request.method, target, headers, request.body, str(request.question))

    def _seconds(self, request: Request) -> float:
        """Return how long the next attempt may take.

        Raises:
            UnreachableError: no time is left.
        """
        left = self._settings.seconds_left(self._clock)
        if left <= 0:
            raise UnreachableError(f"{request.question}: not asked, the run's --timeout is over; give it more time")
        return left

    def _pause(self, tried: int, asked: float | None) -> bool:
        """Wait before the next attempt; return False, at once, where that would take longer than there is time."""
        seconds = _FIRST_PAUSE * 2 ** (tried - 1) * random.uniform(0.5, 1.5) if asked is None else asked
        if seconds >= self._settings.seconds_left(self._clock):
            return False
        self._clock.sleep(seconds)
        return True
