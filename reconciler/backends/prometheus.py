"""`MetricsSource` over the HTTP API of a Prometheus, or of what speaks like one (Thanos, Mimir, VictoriaMetrics).

Source: prometheus/prometheus docs/querying/api.md, "Instant queries", "Format overview".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from reconciler.backends.decode.decoders import decoder_of
from reconciler.model import QueryAnswer, Sample

if TYPE_CHECKING:
    from reconciler.backends.prometheus_http import QueryConnection, Reply

_LONGEST_WORDS = 300
_TOKEN = re.compile(r"[\x21-\x7e]+")
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "reconciler"}
_LEFT_OUT = ("PromQL info: ignored histogram", "PromQL info: incompatible sample types")
"""How infos begin that tell of samples which the result does without; the API gives them no code.

Source: prometheus/prometheus util/annotations/annotations.go, HistogramIgnoredInAggregationInfo,
HistogramIgnoredInMixedRangeInfo, IncompatibleTypesInBinOpInfo.
"""

S = TypeVar("S")


class _Wrong(Exception):
    """No usable answer: what is, and what was expected."""


class _Result(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Result | None = None
    error_type: str = ""
    error: str = ""
    warnings: list[str] | None = None
    infos: list[str] | None = None


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str] | None = None  # absent: the series is a native histogram


class PrometheusMetrics:
    """Asks the server at `url`, always for the moment `at`. The token is read when the first query is sent.

    A server that did not answer in time once is not asked again: a run must not wait for each of its queries.
    `seconds_left` says how long a query may take when it is sent; 0 or less: the run's time is over.
    """

    def __init__(
        self,
        url: str,
        at: datetime,
        *,
        token_file: str | None = None,
        ca_file: str | None = None,
        seconds_left: Callable[[], float] = lambda: 30.0,
    ) -> None:
        self._url = url.rstrip("/")
        self._at = at
        self._token_file = token_file
        self._ca_file = ca_file
        self._seconds_left = seconds_left
        self._token: str | None = None
        self._connection: QueryConnection | None = None
        self._silent = ""

    def query(self, text: str) -> QueryAnswer:
        """Return the answer to one rendered query; a failure is an answer with `error`, which never holds the token."""
        try:
            return answer_of(self._body(text))
        except _Wrong as error:
            return QueryAnswer(error=f"{self._url}: {self._without_token(str(error))}")

    def _body(self, text: str) -> bytes:
        """Return the body of a reply with status 200."""
        from reconciler.backends.prometheus_http import Query, QueryConnection, Refused, TimedOut

        if self._silent:
            raise _Wrong(self._silent)
        headers = {**_HEADERS, **self._authorization()}
        seconds = self._seconds_left()
        if seconds <= 0:
            raise _Wrong("not asked, the run's time is over; expected an answer before --timeout")
        # The server ends a query a little earlier than we stop waiting, so that it can say so itself.
        fields = {"query": text, "time": f"{self._at.timestamp():.3f}", "timeout": f"{seconds * 900:.0f}ms"}
        try:
            self._connection = self._connection or QueryConnection(self._url, self._ca_file)
            reply = self._connection.reply(Query(fields, headers, seconds))
        except TimedOut:
            self._silent = f"no whole answer within {seconds:.3g} s, expected one; no more is asked in this run"
            raise _Wrong(self._silent) from None
        except Refused as error:
            raise _Wrong(str(error)) from None
        if reply.status != 200:
            raise _Wrong(_refusal(reply))
        return reply.body

    def _authorization(self) -> Mapping[str, str]:
        if self._token_file is None:
            return {}
        if self._token is None:
            self._token = _read_token(self._token_file)
        return {"Authorization": f"Bearer {self._token}"}

    def _without_token(self, words: str) -> str:
        """Return `words` without the token, which a server or proxy may have sent back."""
        return words.replace(self._token, "(the token)") if self._token else words


def _read_token(file: str) -> str:
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise _Wrong(f"bearerTokenFile {file} cannot be read ({error.strerror}), expected a token in it") from None
    except UnicodeDecodeError:
        raise _Wrong(f"bearerTokenFile {file} is no text, expected a token in it") from None
    if not _TOKEN.fullmatch(text):
        is_ = "holds more than one word" if text else "is empty"
        raise _Wrong(f"bearerTokenFile {file} {is_}, expected a token in it")
    return text


def _refusal(reply: Reply) -> str:
    """Return what a reply other than 200 says, in the server's own words where it has some."""
    if 300 <= reply.status < 400:
        return f"status {reply.status} (a redirect to {_one_line(reply.location)}), expected 200; give that address"
    try:
        said = _decoded(_Answer, reply.body)
    except _Wrong:
        return f"status {reply.status}, expected 200"
    kind = f"{said.error_type}: " if said.error_type else ""
    return f"status {reply.status} ({_one_line(kind + said.error)}), expected 200"


def answer_of(body: bytes) -> QueryAnswer:
    """Return the answer in the body of a reply with status 200.

    Raises:
        _Wrong: it is none of the query API, or no numbers.
    """
    said = _decoded(_Answer, body)
    if said.status != "success" or said.data is None:
        raise _Wrong(f"the query failed ({_one_line(f'{said.error_type}: {said.error}')}), expected a result")
    left_out = [info for info in said.infos or () if info.startswith(_LEFT_OUT)]
    return QueryAnswer(
        samples=_samples(said.data),
        warnings=tuple(_one_line(words) for words in (*(said.warnings or ()), *left_out)),
    )


def _samples(data: _Result) -> tuple[Sample, ...]:
    if data.result_type == "scalar":
        _, value = _decoded(tuple[float, str], data.result)
        return (Sample({}, _number(value)),)
    if data.result_type != "vector":
        raise _Wrong(f"the result is a {_one_line(data.result_type)}, expected a vector or a scalar; change the query")
    series = _decoded(list[_Series], data.result)
    return tuple(Sample(one.metric, _number(_value(one))) for one in series)


def _value(series: _Series) -> str:
    if series.value is None:
        raise _Wrong("the result holds histograms, expected numbers; change the query")
    return series.value[1]


def _number(text: str) -> float:
    """Return a sample's value; NaN and the infinities are values too."""
    try:
        return float(text)
    except ValueError:
        raise _Wrong(f'the result holds the value "{_one_line(text)}", expected a number') from None


def _decoded(shape: type[S], body: bytes | msgspec.Raw) -> S:
    try:
        return decoder_of(shape).decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _Wrong("the answer is not what the query API gives, expected its JSON; is it a Prometheus?") from None


def _one_line(words: str) -> str:
    """Return what a server said on one line, and not more of it than can be read."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in words[: 4 * _LONGEST_WORDS]).split())
    return line if len(line) <= _LONGEST_WORDS else line[: _LONGEST_WORDS - 1] + "…"
