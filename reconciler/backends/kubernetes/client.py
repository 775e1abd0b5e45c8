"""All requests to an API server: what is sent, how often it is retried, and what is known of the server meanwhile."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from urllib.parse import urlencode

from msgspec import Struct

from reconciler.backends.credentials.connection import ApiServer, ApiServerConnection, load_libraries
from reconciler.backends.kubernetes.errors import error_of, no_answer
from reconciler.backends.kubernetes.request_form import ApiRequest
from reconciler.backends.kubernetes.request_limits import RequestTurns
from reconciler.backends.protocols import REQUEST_SECONDS, ApiTraffic, RequestSettings
from reconciler.http.client import HttpRequest, HttpResponse
from reconciler.http.errors import CertificateError, HttpError
from reconciler.http.retries import RetryPolicy, with_retries
from reconciler.time_limit import TimeLimit
from reconciler.version import VERSION

_RETRIES = RetryPolicy()
_ONCE = RetryPolicy(attempts=1)
_SUCCESS = range(200, 300)
_FAILURES = (500, 504)
"""What an API server answers where something that it asks fails: a webhook, or etcd."""

_LONGEST_PAUSE = 60.0
_BEGINS_SECONDS = 10.0
"""How long the answer to a watch may take to begin: a server says at once that it watches, whatever changes."""

_MOST_CLOCK_SKEW = timedelta(days=1)
"""A server whose clock differs from ours by more does not know the time."""

_IMPERSONATE_USER = "Impersonate-User"
"""The header that says as whom a request is carried out. Where it names a ServiceAccount and no groups are stated, the
API server adds those of the ServiceAccount, and asks for the right to impersonate nothing but that.

Source: kubernetes apiserver pkg/endpoints/filters/impersonation.go, WithImpersonation.
"""


class Attempts(Struct):
    """What came of a request: `unsure` counts attempts whose outcome nobody knows, because no answer came."""

    unsure: int = 0


class ApiClient:
    """All requests to one cluster, called `cluster`, at most `settings.in_flight` at a time.

    What may pass by itself (no connection, 429, 5xx) is tried again as long as there is time, eight times at most, with
    pauses that double, of random length, or as long as the server asks for. A request that is not answered within its
    time limit is not tried again. An outage is waited out once: after that each request has one attempt, until one is
    answered. So is what the server fails at, as where an admission webhook does not answer: what is asked for in the
    same way in the same namespace has one attempt then. When each is sent, its `turns` say.
    """

    def __init__(self, connection: ApiServerConnection, settings: RequestSettings) -> None:
        self.cluster = connection.cluster
        self.is_unreachable = False
        self._failing: set[tuple[str, str, str]] = set()  # verb, resource, namespace: what the server fails at
        self.limit = settings.limit
        self.turns = RequestTurns(settings)
        self._connection = connection
        self._traffic = ApiTraffic()
        self._counting = threading.Lock()
        self._agent = f"reconciler/{VERSION}"
        self.ahead = datetime.now(UTC) - self._clock()
        """How far the server's time is ahead of our clock, as of its last answer."""

    def traffic(self) -> ApiTraffic:
        return self._traffic

    def _count(self, received: int, seconds: float) -> None:
        """Count one request that took `seconds` and brought `received` bytes."""
        place = bisect_left(REQUEST_SECONDS, seconds)
        with self._counting:
            known = self._traffic
            buckets = (*known.buckets[:place], known.buckets[place] + 1, *known.buckets[place + 1 :])
            self._traffic = ApiTraffic(known.requests + 1, known.received + received, known.seconds + seconds, buckets)

    def now(self) -> datetime:
        """Return the server's time by its last answer; ours where that had none, or one that is a day off.

        Between two answers it is measured: whoever sets the time of this machine does not change it.
        """
        return self._clock() + self.ahead

    def _clock(self) -> datetime:
        return datetime.fromtimestamp(self.limit.now(), UTC)

    def send(self, request: ApiRequest, attempts: Attempts | None = None) -> HttpResponse:
        """Return the answer with a status of 2xx.

        While nothing answers, all attempts have the time of one. A server that answers, if only that it is busy, is
        there: then the run's time counts, and the next attempt has its own. `attempts`, where given, counts attempts
        without an answer.

        Raises:
            ClusterError: one for each class of failure, see errors.py.
        """
        noted = attempts or Attempts()
        limit: TimeLimit | None = None

        def attempt() -> HttpResponse:
            nonlocal limit
            try:
                with self.turns.taken(request) as answered_within:
                    load_libraries()
                    limit = limit or answered_within
                    answer = self._authorised(request, limit)
            except HttpError:
                noted.unsure += 1
                raise
            noted.unsure += answer.status >= 500
            limit = None if request.when == "in turn" else limit
            self._note(request, answer)
            return answer

        try:
            answer = with_retries(
                attempt,
                _ONCE if request.when == "at the end" else _RETRIES,
                lambda seconds: self._wait(request, limit, seconds),
            )
        except HttpError as error:
            self.is_unreachable |= error.passes and request.when == "in turn"
            raise no_answer(request.operation, error) from error
        if answer.status in _SUCCESS:
            return answer
        if answer.status in _FAILURES:
            self._failing.add(request.operation.kind)
        raise error_of(request.operation, answer)

    def _note(self, request: ApiRequest, answer: HttpResponse) -> None:
        """Note what an answer says of the server: that it is there, what time it is there, that it can do this."""
        self.is_unreachable = False
        date, ours = answer.date, datetime.now(UTC)
        at = ours if date is None or abs(date - ours) >= _MOST_CLOCK_SKEW else date
        self.ahead = at - self._clock()
        if answer.status not in _FAILURES:
            self._failing.discard(request.operation.kind)

    def _wait(self, request: ApiRequest, limit: TimeLimit | None, seconds: float) -> bool:
        """Wait before the next attempt; return False at once where that would take longer than there is time: that of
        `limit`, None where the last attempt was answered.
        """
        is_known = request.operation.kind in self._failing if limit is None else self.is_unreachable
        if is_known and request.when == "in turn":
            return False
        left = inf if limit is None else limit.left()
        return seconds < min(left, _LONGEST_PAUSE) and self.limit.wait(seconds)

    @contextmanager
    def watched(self, request: ApiRequest, seconds: float) -> Iterator[Iterator[bytes]]:
        """Yield the lines of the answer to a watch as they come, for at most so many `seconds`, with one attempt.

        It takes no slot among those in flight. What was sent counts as no traffic: it has no end to be timed by.

        Raises:
            ClusterError: one for each class of failure; also from the iterator.
        """
        load_libraries()
        limit = self.limit.within(seconds)
        endpoint = self._connection.endpoint(limit)
        header = self._connection.header(limit)
        outgoing = self._outgoing(request, endpoint, header, None)
        try:
            with endpoint.reader.streamed(outgoing, limit, _BEGINS_SECONDS) as (status, lines):
                if status not in _SUCCESS:
                    if status == 401:
                        self._connection.renew(header, limit)
                    raise error_of(request.operation, HttpResponse(status, {}, next(lines, b"")))
                yield lines
        except HttpError as error:
            raise no_answer(request.operation, error) from error

    def _authorised(self, request: ApiRequest, limit: TimeLimit) -> HttpResponse:
        """Return the answer to one attempt; where the credentials are refused, and there are others, to another one."""
        header = self._connection.header(limit)
        answer = self._once(request, header, limit)
        if answer.status == 401 and self._connection.renew(header, limit):
            return self._once(request, self._connection.header(limit), limit)
        return answer

    def _once(self, request: ApiRequest, header: str | None, limit: TimeLimit) -> HttpResponse:
        endpoint = self._connection.endpoint(limit)
        check = partial(self.turns.check_lock, request) if request.writes else None
        if check is not None:
            check()
        began = self.limit.now()
        received = 0
        client = endpoint.reader if request.method == "GET" else endpoint.writer
        try:
            answer = client.exchange(self._outgoing(request, endpoint, header, check), limit)
            received = len(answer.body)
            return answer
        except CertificateError:
            self._connection.distrust(endpoint, limit)
            raise
        finally:
            self._count(received, self.limit.now() - began)

    def _outgoing(
        self, request: ApiRequest, endpoint: ApiServer, header: str | None, check: Callable[[], None] | None
    ) -> HttpRequest:
        account = request.account
        impersonation = endpoint.access.impersonation if account is None else ((_IMPERSONATE_USER, account.user),)
        headers = [("User-Agent", self._agent), ("Accept", request.accept), *impersonation]
        if endpoint.access.compressed:
            headers.append(("Accept-Encoding", "gzip"))
        if header is not None:
            headers.append(("Authorization", header))
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        query = f"?{urlencode(request.query)}" if request.query else ""
        return HttpRequest(request.method, endpoint.access.server + request.path + query, headers, request.body, check)
