"""The one place where requests go out: limits, timeouts, retries, and a typed error for whatever goes wrong."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from urllib.parse import urlencode

from reconciler.backends.base import Clock, Traffic
from reconciler.backends.kubernetes.answers import Answer, Question, error_of
from reconciler.backends.kubernetes.connection import Connection
from reconciler.backends.kubernetes.exchange import Outgoing, exchange, exchange_in_time
from reconciler.backends.kubernetes.rate import Rate
from reconciler.backends.kubernetes.settings import RequestSettings
from reconciler.backends.kubernetes.traffic import TrafficCount
from reconciler.backends.stop import StoppedClock
from reconciler.errors import LockLostError, StoppedError, UnauthorisedError, UnreachableError

ATTEMPTS = 4

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 60.0
_STEP_SECONDS = 0.2
_PASSING = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class Request:
    """One request. `accept` is the answer's form; `body` is sent as `content_type`. `writes`: it changes something.

    `seconds` is set for what keeps the lock: it needs no place among the others, and has that long. `last`: that even
    when the run's time is over, once.
    """

    method: str
    path: str
    question: Question
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    accept: str = "application/json"
    writes: bool = False
    seconds: float | None = None
    last: bool = False


@dataclass(slots=True)
class Attempts:
    """What came of a request: `unsure` counts attempts whose outcome nobody knows, because no answer came."""

    unsure: int = 0


class Requests:
    """All requests to one cluster, at most `settings.in_flight` at a time.

    What may pass by itself (no connection, 429, 5xx) is tried again, with pauses that double, of random length, or as
    long as the server asks for; what hung is not. Nothing is waited for beyond `settings.until`, or once a stop is
    asked. While `fence` is set, writes go out only as long as it says so: the lock is still ours.
    """

    def __init__(self, connection: Connection, settings: RequestSettings, clock: Clock) -> None:
        self.fence: Callable[[], bool] | None = None
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._waiting = StoppedClock(clock, settings.stop)
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
        last_try = self._clock.monotonic() + self._settings.timeout / 2
        for tried in range(1, ATTEMPTS + 2):
            over = request.last or tried >= ATTEMPTS
            header = self._connection.header()
            try:
                answer = self._once(request, header)
            except UnreachableError:
                noted.unsure += 1
                if over or self._clock.monotonic() > last_try or not self._pause(tried, None):
                    raise
                continue
            if answer.status < 300:
                return answer
            error = error_of(request.question, answer)
            if isinstance(error, UnauthorisedError) and not renewed and self._connection.renew(header):
                renewed = True
                continue
            noted.unsure += answer.status >= 500
            if over or answer.status not in _PASSING or not self._pause(tried, answer.retry_after):
                raise error
        raise AssertionError("the last attempt returns or raises")

    def _once(self, request: Request, header: str | None) -> Answer:
        endpoint = self._connection.endpoint()
        with self._turn(request):
            check = partial(self._check_lock, request) if request.writes else None
            if check is not None:
                check()
            began = self._clock.monotonic()
            received = 0
            outgoing, seconds = replace(self._outgoing(request, header), check=check), self._seconds(request)
            try:
                if request.method == "GET":
                    answer = exchange_in_time(endpoint, outgoing, seconds, self._is_given_up)
                else:
                    answer = exchange(endpoint, outgoing, seconds)
                received = len(answer.body)
                return answer
            finally:
                self._traffic.add(received, self._clock.monotonic() - began)

    def _check_lock(self, request: Request) -> None:
        """Check that the lock is still ours. It may be lost while a connection is made, also where the process stood
        still meanwhile, so this is asked once more when the body is about to go out.

        Raises:
            LockLostError: it is not.
        """
        if self.fence is not None and not self.fence():
            raise LockLostError(f"{request.question}: the lock was lost, nothing more is written there")

    @contextmanager
    def _turn(self, request: Request) -> Iterator[None]:
        """Hold a place among those in flight; a write waits for its turn of the rate first.

        Raises:
            StoppedError: the run was asked to stop, or its time was over, before there was one.
        """
        if request.seconds is not None:
            yield
            return
        if request.writes and not self._rate.take(self._wait):
            raise self._stopped(request)
        while not self._places.acquire(timeout=_STEP_SECONDS):
            if self._settings.run_seconds_left(self._clock) <= 0 or (request.writes and self._settings.stop.asked):
                raise self._stopped(request)
        try:
            yield
        finally:
            self._places.release()

    def _stopped(self, request: Request) -> StoppedError:
        why = self._settings.stop.why or "the run's --timeout is over"
        return StoppedError(f"{request.question}: not sent, {why}")

    def _is_given_up(self) -> bool:
        """Whether nobody waits for an answer any more: without the lock nothing is left to finish after a stop."""
        return self._settings.stop.asked and self.fence is None

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
            StoppedError: no time is left.
        """
        if request.last and request.seconds is not None:
            return request.seconds
        left = self._settings.seconds_left(self._clock)
        if left <= 0 or self._is_given_up():
            raise self._stopped(request)
        return left if request.seconds is None else min(left, request.seconds)

    def _pause(self, tried: int, asked: float | None) -> bool:
        """Wait before the next attempt; return False where that would take longer than there is time."""
        return self._wait(_FIRST_PAUSE * 2 ** (tried - 1) * random.uniform(0.5, 1.5) if asked is None else asked)

    def _wait(self, seconds: float) -> bool:
        """Wait, and return whether the run goes on; False at once where its time would be over before."""
        if self._settings.stop.asked or seconds >= min(_LONGEST_PAUSE, self._settings.run_seconds_left(self._clock)):
            return False
        self._waiting.sleep(seconds)
        return not self._settings.stop.asked
