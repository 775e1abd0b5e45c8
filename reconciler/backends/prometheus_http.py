"""One query over HTTP, within a wall-clock limit. Imported when the first query is sent: urllib3 is slow to load."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError, ProtocolError, TimeoutError

from reconciler.backends.http.retry import retry_after_seconds

LARGEST_ANSWER = 32 << 20
"""Bytes; an answer with a few hundred thousand series fits."""

_CHUNK = 1 << 16
_RETRIED = frozenset({429, 503})
_NO_POST = frozenset({405, 501})
_CUT = (ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError)
_CUT_WORDS = "the connection was cut, expected a whole answer"
_PAUSE_SECONDS = 0.25


class Refused(Exception):
    """No answer that can be used, in words that hold nothing of what was sent."""


class TimedOut(Exception):
    """Nothing, or not everything, within the time limit."""


class _Retryable(Exception):
    """No answer this time; `pause` is how long to wait before asking again, in seconds."""

    def __init__(self, words: str, pause: float = _PAUSE_SECONDS) -> None:
        super().__init__(words)
        self.pause = pause


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    body: bytes = field(repr=False)
    retry_after: float = _PAUSE_SECONDS
    location: str = ""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked. `headers` may hold a token, so they show nowhere."""

    fields: Mapping[str, str]
    headers: Mapping[str, str] = field(repr=False)
    timeout_seconds: float


class QueryConnection:
    """The query endpoint of one server; connections are kept between queries."""

    def __init__(self, url: str, ca_file: str | None) -> None:
        """Nothing is connected yet.

        Raises:
            Refused: the address or the CA file cannot be used.
        """
        try:
            parts = urlsplit(url)
            self._pool = _pool(parts, ca_file)
        except ValueError:
            raise Refused("is no address, expected http://HOST:PORT/PATH or the same with https") from None
        self._path = parts.path.rstrip("/") + "/api/v1/query"
        self._method = "POST"

    def reply(self, query: Query) -> Reply:
        """Return the reply to `query`. One that could not be had is asked for once more, as long as there is time.

        Raises:
            TimedOut: time is up. Refused: anything else that is no reply.
        """
        asking = _Asking(self, query)
        thread = threading.Thread(target=asking.run, name="prometheus", daemon=True)
        thread.start()
        thread.join(query.timeout_seconds)
        return asking.result()

    def exchanged(self, query: Query, seconds: float) -> Reply:
        """Return the reply to one request. Redirects are not followed, no proxy is used.

        Raises:
            _Retryable: it is worth another try. TimedOut, Refused: it is not.
        """
        try:
            reply = self._sent(query, seconds)
            if reply.status in _NO_POST and self._method == "POST":
                self._method = "GET"  # a proxy in front that lets reads through only
                reply = self._sent(query, seconds)
        except HTTPError as error:
            raise _told(error) from None  # the cause may hold headers
        if reply.status == 200 and not reply.body:
            raise _Retryable(_CUT_WORDS)  # Python takes headers that end early for an answer
        return reply

    def _sent(self, query: Query, seconds: float) -> Reply:
        text = urlencode(query.fields, errors="replace")
        posted = self._method == "POST"
        response = self._pool.urlopen(
            self._method,
            self._path if posted else f"{self._path}?{text}",
            body=text.encode() if posted else None,
            headers={**query.headers, **({"Content-Type": "application/x-www-form-urlencoded"} if posted else {})},
            timeout=urllib3.Timeout(total=seconds),
            retries=False,
            redirect=False,
            preload_content=False,
        )
        try:
            pause = retry_after_seconds(response.headers.get("Retry-After"), response.headers.get("Date"))
            return Reply(
                response.status,
                _body(response),
                _PAUSE_SECONDS if pause is None else pause,
                response.headers.get("Location", ""),
            )
        finally:
            response.release_conn()


class _Asking:
    """One query in a thread of its own, so that neither a slow resolver nor a dripping server can hold us up."""

    def __init__(self, connection: QueryConnection, query: Query) -> None:
        self._connection = connection
        self._query = query
        self._until = time.monotonic() + query.timeout_seconds
        self._result: Reply | Exception = TimedOut()

    def run(self) -> None:
        try:
            self._result = self._asked()
        except Exception as error:  # noqa: BLE001 - carried over to the thread that asked
            self._result = error

    def result(self) -> Reply:
        if isinstance(self._result, Exception):
            raise self._result
        return self._result

    def _asked(self) -> Reply:
        try:
            reply = self._connection.exchanged(self._query, self._left())
        except _Retryable as error:
            failure: _Retryable | Reply = error
            pause = error.pause
        else:
            if reply.status not in _RETRIED:
                return reply
            failure, pause = reply, reply.retry_after
        return self._again(failure, pause)

    def _again(self, failure: _Retryable | Reply, pause: float) -> Reply:
        """Ask once more where there is time to; otherwise the failure stands."""
        if pause < self._left():
            time.sleep(pause)
            try:
                return self._connection.exchanged(self._query, self._left())
            except _Retryable as error:
                failure = error
        if isinstance(failure, Reply):
            return failure
        raise Refused(str(failure))

    def _left(self) -> float:
        return max(0.001, self._until - time.monotonic())


def _pool(parts: SplitResult, ca_file: str | None) -> urllib3.HTTPConnectionPool:
    host = parts.hostname or ""
    if parts.scheme != "https":
        return urllib3.HTTPConnectionPool(host, parts.port, maxsize=1)
    return urllib3.HTTPSConnectionPool(host, parts.port, maxsize=1, ssl_context=_tls_context(ca_file))


def _tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Return a context that verifies names and certificates, against those in `ca_file` alone where one is given."""
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError:
        raise Refused(f"{ca_file} holds no certificates, expected some in PEM") from None
    except OSError as error:
        raise Refused(f"{ca_file} cannot be read ({error.strerror}), expected certificates in PEM") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _body(response: urllib3.BaseHTTPResponse) -> bytes:
    body = bytearray()
    for chunk in response.stream(_CHUNK):
        body += chunk
        if len(body) > LARGEST_ANSWER:
            response.close()
            raise Refused(f"the answer is longer than {LARGEST_ANSWER} bytes, expected fewer series; narrow the query")
    return bytes(body)


def _told(error: HTTPError) -> Exception:
    """Return `error` as ours."""
    found = causes(error)
    invalid = next((one for one in found if isinstance(one, ssl.SSLCertVerificationError)), None)
    if invalid is not None:
        return Refused(f"its certificate is not valid ({invalid.verify_message}), expected one that caFile vouches for")
    if isinstance(error, ProtocolError) or any(isinstance(one, _CUT) for one in found):
        return _Retryable(_CUT_WORDS)
    secured = next((one for one in found if isinstance(one, ssl.SSLError)), None)
    if secured is not None:
        return Refused(f"TLS failed ({secured.reason}), expected a server that speaks TLS")
    # urllib3's error for a refused connection is a timeout too, in its tree; the operating system's words tell.
    words = next((one.strerror for one in found if isinstance(one, OSError) and one.strerror), "")
    if words:
        return Refused(f"no connection ({words}), expected the query API of Prometheus")
    if isinstance(error, TimeoutError):
        return TimedOut()
    return Refused(f"no answer in HTTP ({type(error).__name__}), expected the query API of Prometheus")


def causes(error: BaseException) -> list[BaseException]:
    """Return `error` and what it was made from, nearest first."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            waiting += [one.__cause__, one.__context__, *one.args]
    return found
