"""What a run asks of a Prometheus, or of what speaks like one (Thanos, Mimir, VictoriaMetrics).

Source: prometheus/prometheus docs/querying/api.md, "Instant queries", "Format overview".
"""

from __future__ import annotations

import re
import ssl
from base64 import b64encode
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from reconciler.backends.credentials.allowed_sources import secret_in
from reconciler.backends.decode.values import decoded_json
from reconciler.connection_settings import PrometheusConnection
from reconciler.errors import UnauthorisedError
from reconciler.http.client import HttpClient, HttpRequest, HttpResponse
from reconciler.http.errors import CertificateError, HttpError, TimedOutError, TooLargeError
from reconciler.http.retries import RetryPolicy, with_retries
from reconciler.messages import cut
from reconciler.model import QueryAnswer, RangeAnswer, RangeSeries, Sample
from reconciler.redaction import remember_authorization, remember_header, without_credentials
from reconciler.time_limit import TimeLimit

LARGEST_ANSWER = 32 << 20
"""Bytes, unpacked; an answer with a few hundred thousand series fits."""

_PATH = "/api/v1/query"
_MOST_POINTS = 10_000  # of one series in one answer; Prometheus refuses more than 11,000
_FORM = "application/x-www-form-urlencoded"
_NO_POST = frozenset({405, 501})
_TOO_MUCH = ("too many samples", "query timed out")
"""Source: prometheus/prometheus promql/engine.go, ErrTooManySamples, ErrQueryTimeout."""
_ONE_MORE = RetryPolicy(attempts=2, statuses=frozenset({429, 503}), first_pause=0.25)
_LONGEST_WORDS = 300
_HEADERS = {"Accept": "application/json", "User-Agent": "reconciler"}
_LEFT_OUT = ("PromQL info: ignored histogram", "PromQL info: incompatible sample types")
"""How infos begin that report samples which the result does without; the API gives them no code.

Source: prometheus/prometheus util/annotations/annotations.go, HistogramIgnoredInAggregationInfo,
HistogramIgnoredInMixedRangeInfo, IncompatibleTypesInBinOpInfo.
"""

S = TypeVar("S")


_WHOSE = re.compile(r"(?i)(orgid|tenant|tenant-?id|user|project|account)$")
"""Headers that say whose data are asked for, such as X-Scope-OrgID: a namespace may be called so too."""


class _Wrong(Exception):
    """No usable answer: what is, and what was expected."""


class _TooMuch(_Wrong):
    """An answer that is too large, or has too many samples: a shorter time may have one."""


class _QueryResult(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _QueryResult | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None
    infos: list[str] | None = None
    is_partial: bool | None = None

    @property
    def gaps(self) -> list[str]:
        """What the result does without, in the server's words; a cluster of VictoriaMetrics only says that it does.

        Source: VictoriaMetrics app/vmselect/prometheus query_response.qtpl.
        """
        stores = ["isPartial: not all of its stores answered"] if self.is_partial else []
        return [*(self.warnings or ()), *stores, *(info for info in self.infos or () if info.startswith(_LEFT_OUT))]


class _Series(msgspec.Struct):
    """`value` of a vector, `values` of a matrix; a native histogram has neither."""

    metric: dict[str, str]
    value: tuple[float, str] | None = None
    values: list[tuple[float, str]] | None = None


class PrometheusMetrics:
    """Asks the server that `connection` names, always for the moment `at`. Files are read when the first query is sent.

    A server that did not answer in time once is not asked again: a run must not wait for each of its queries.
    A query may take `seconds`, within `limit`, the run's.
    """

    def __init__(
        self,
        connection: PrometheusConnection,
        at: datetime,
        limit: TimeLimit | None = None,
        seconds: float = 30.0,
    ) -> None:
        self._connection = connection
        self._url = connection.url.rstrip("/")
        self._at = at
        self._limit = limit or TimeLimit()
        self._seconds = seconds
        self._headers: dict[str, str] | None = None
        self._client: HttpClient | None = None
        self._method = "POST"
        self._silent = ""

    def query(self, text: str) -> QueryAnswer:
        """Return the answer to one rendered query; a failure is an answer with `error`, which never holds a secret."""
        try:
            return _answer_of(self._body(_PATH, {"query": text, "time": f"{self._at.timestamp():.3f}"}))
        except (_Wrong, UnauthorisedError) as error:
            return QueryAnswer(error=f"{self._url}: {error}")

    def query_range(self, text: str, start: datetime, count: int, step: timedelta) -> RangeAnswer:
        """Return the values of one rendered query at `count` times from `start` on, `step` apart.

        What is too much for one answer is asked for in parts. A failure is an answer with `error`.

        Source: prometheus/prometheus docs/querying/api.md, "Range queries".
        """
        series: dict[tuple[tuple[str, str], ...], list[float | None]] = {}
        todo = [(first, min(count, first + _MOST_POINTS)) for first in range(0, count, _MOST_POINTS)]
        try:
            while todo:
                first, last = todo.pop()
                times = {"start": start + first * step, "end": start + (last - 1) * step}
                spelt = {name: f"{at.timestamp():.3f}" for name, at in times.items()}
                try:
                    body = self._body(f"{_PATH}_range", {"query": text, **spelt, "step": f"{step.total_seconds():.0f}"})
                except _TooMuch:
                    if last - first == 1:
                        raise
                    middle = (first + last) // 2
                    todo += [(middle, last), (first, middle)]
                    continue
                for found in _ranges(body):
                    values = series.setdefault(tuple(sorted(found.metric.items())), [None] * count)
                    for at, value in found.values or ():
                        place = round((at - start.timestamp()) / step.total_seconds())
                        if not first <= place < last:
                            raise _Wrong("the result has a time that was not asked for, expected none")
                        values[place] = _number(value)
        except (_Wrong, UnauthorisedError) as error:
            return RangeAnswer(error=f"{self._url}: {error}")
        return RangeAnswer(tuple(RangeSeries(dict(labels), tuple(values)) for labels, values in sorted(series.items())))

    def _body(self, path: str, fields: Mapping[str, str]) -> bytes | bytearray:
        """Return the body of a response with status 200."""
        if self._silent:
            raise _Wrong(self._silent)
        limit = self._limit.within(self._seconds)
        seconds = limit.left()
        if seconds <= 0:
            raise _Wrong("not asked, the run's time is over; expected an answer before --timeout")
        # The server ends a query a little earlier than we stop waiting, so that it can say so itself.
        form = urlencode({**fields, "timeout": f"{seconds * 900:.0f}ms"}, errors="replace")
        self._open()
        try:
            response = with_retries(lambda: self._exchanged(path, form, limit), _ONE_MORE, limit.wait)
        except TimedOutError:
            self._silent = f"no whole answer within {seconds:.3g} s, expected one; no more is asked in this run"
            raise _Wrong(self._silent) from None
        except HttpError as error:
            wrong = _TooMuch if isinstance(error, TooLargeError) else _Wrong
            raise wrong(f"{error}, expected {_expected(error)}") from None
        if response.status != 200:
            words = _refusal(response)
            raise _TooMuch(words) if any(sign in words for sign in _TOO_MUCH) else _Wrong(words)
        return response.body

    def _open(self) -> None:
        """Read the files that the connection names, once."""
        if self._client is None:
            self._headers = {**_HEADERS, **dict(self._connection.headers), **self._authorization()}
            for name, value in self._connection.headers:
                if not _WHOSE.search(name):
                    remember_header(value)
            self._client = _client(self._connection)

    def _exchanged(self, path: str, form: str, limit: TimeLimit) -> HttpResponse:
        """Return the response to one attempt. Redirects are not followed.

        Raises:
            HttpError: there is none.
        """
        assert self._client is not None
        response = self._client.exchange(self._request(path, form), limit)
        if response.status in _NO_POST and self._method == "POST":
            self._method = "GET"  # a proxy in front that lets reads through only
            response = self._client.exchange(self._request(path, form), limit)
        if response.status == 200 and not response.body:
            raise HttpError("the connection was cut", passes=True)  # headers that end early look like a whole answer
        return response

    def _request(self, path: str, form: str) -> HttpRequest:
        headers = self._headers or {}
        if self._method == "GET":
            return HttpRequest("GET", f"{self._url}{path}?{form}", headers)
        return HttpRequest("POST", f"{self._url}{path}", {**headers, "Content-Type": _FORM}, form.encode())

    def _authorization(self) -> dict[str, str]:
        asked = self._connection
        if asked.bearer_token_file is not None:
            value = f"Bearer {secret_in('bearerTokenFile', asked.bearer_token_file, 'a token')}"
        elif asked.username is not None and asked.password_file is not None:
            password = secret_in("passwordFile", asked.password_file, "a password")
            value = f"Basic {b64encode(f'{asked.username}:{password}'.encode()).decode()}"
        else:
            return {}
        remember_authorization(value)
        return {"Authorization": value}


def _client(asked: PrometheusConnection) -> HttpClient:
    from reconciler.http.connections import connections

    try:
        if urlsplit(asked.url).port == 0:
            raise ValueError
        tls = _tls(asked) if asked.url.startswith("https") else None
        return HttpClient(connections(tls=tls, proxy=asked.proxy_url, kept=1), largest=LARGEST_ANSWER)
    except ValueError:
        raise _Wrong("is no address, expected http://HOST:PORT/PATH or the same with https") from None


def _tls(asked: PrometheusConnection) -> ssl.SSLContext:
    from reconciler.http.connections import tls_context

    try:
        context = tls_context(ca_file=asked.ca_file)
    except ssl.SSLError:
        raise _Wrong(f"{asked.ca_file} holds no certificates, expected some in PEM") from None
    except OSError as error:
        raise _Wrong(f"{asked.ca_file} cannot be read ({error.strerror}), expected certificates in PEM") from None
    if asked.cert_file is None:
        return context
    try:
        return tls_context(ca_file=asked.ca_file, certificate=(asked.cert_file, asked.key_file))
    except ssl.SSLError:
        raise _Wrong(f"{asked.cert_file} holds no certificate with its key, expected both in PEM") from None
    except OSError as error:
        files = " or ".join(filter(None, (asked.cert_file, asked.key_file)))
        raise _Wrong(f"{files} cannot be read ({error.strerror}), expected a certificate and its key") from None


def _expected(error: HttpError) -> str:
    if isinstance(error, CertificateError):
        return "one that caFile vouches for"
    return "fewer series; narrow the query" if isinstance(error, TooLargeError) else "the query API of Prometheus"


def _refusal(response: HttpResponse) -> str:
    """Return what a response other than 200 says, in the server's own words where it has some."""
    if 300 <= response.status < 400:
        location = _one_line(response.headers.get("location", ""))
        return f"status {response.status} (a redirect to {location}), expected 200; give that address"
    try:
        said = _decoded(_Answer, response.body)
    except _Wrong:
        return f"status {response.status}, expected 200"
    kind = f"{said.error_type}: " if said.error_type else ""
    return f"status {response.status} ({_one_line(kind + said.error)}), expected 200"


def _answer_of(body: bytes | bytearray) -> QueryAnswer:
    """Return the answer in the body of a reply with status 200.

    Raises:
        _Wrong: it is none of the query API, or no numbers.
    """
    said = _decoded(_Answer, body)
    if said.status != "success" or said.data is None:
        raise _Wrong(f"the query failed ({_one_line(f'{said.error_type}: {said.error}')}), expected a result")
    return QueryAnswer(samples=_samples(said.data), warnings=tuple(map(_one_line, said.gaps)))


def _samples(data: _QueryResult) -> tuple[Sample, ...]:
    if data.result_type == "scalar":
        _, value = _decoded(tuple[float, str], data.result)
        return (Sample({}, _number(value)),)
    if data.result_type != "vector":
        raise _Wrong(f"the result is a {_one_line(data.result_type)}, expected a vector or a scalar; change the query")
    return tuple(Sample(found.metric, _number(found.value[1])) for found in _series(data) if found.value is not None)


def _ranges(body: bytes | bytearray) -> list[_Series]:
    said = _decoded(_Answer, body)
    if said.status != "success" or said.data is None or said.data.result_type != "matrix":
        raise _Wrong("the answer to a range query is no matrix, expected one; is it a Prometheus?")
    if said.gaps:
        raise _Wrong(f"the answer is partial ({_one_line(said.gaps[0])}), expected a whole one")
    return _series(said.data)


def _series(data: _QueryResult) -> list[_Series]:
    found = _decoded(list[_Series], data.result)
    if any(series.value is None and series.values is None for series in found):
        raise _Wrong("the result holds histograms, expected numbers; change the query")
    return found


def _number(text: str) -> float:
    """Return a sample's value; NaN and the infinities are values too."""
    try:
        return float(text)
    except ValueError:
        raise _Wrong(f'the result holds the value "{_one_line(text)}", expected a number') from None


def _decoded(shape: type[S], body: bytes | bytearray | msgspec.Raw) -> S:
    try:
        return decoded_json(shape, body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _Wrong("the answer is not what the query API gives, expected its JSON; is it a Prometheus?") from None


def _one_line(words: str) -> str:
    """Return what a server said on one line, and not more of it than can be read, without what it was sent."""
    words = without_credentials(words)
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in words[: 4 * _LONGEST_WORDS]).split())
    return cut(line, _LONGEST_WORDS)
