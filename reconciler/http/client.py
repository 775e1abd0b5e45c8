"""One exchange: a request over the wire, its answer read within its time and its size."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from reconciler.http.errors import HttpError, ReadEnoughError, TooLargeError, http_error, step_of
from reconciler.time_limit import TimeLimit

if TYPE_CHECKING:
    import urllib3
    from urllib3.response import BaseHTTPResponse

_CHUNK = 1 << 17
_MOST_DIGITS = 9
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS


class HttpRequest(Struct, frozen=True):
    """What goes over the wire. Headers and body may hold secrets, so they show nowhere.

    `check` is called once the connection stands, right before the body goes out; what it raises keeps the body back,
    so that the server has nothing to act on.
    """

    method: str
    url: str
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = ()  # pairs may repeat a name
    body: bytes | None = None
    check: Callable[[], None] | None = None

    def __repr__(self) -> str:
        return f"{self.method} {self.url}"


class HttpResponse(Struct, frozen=True):
    """One answer, read to its end and unpacked. The keys of `headers` are in lower case.

    It may repeat what was sent: a text for people that is made of it goes through `without_credentials`.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes | bytearray

    def __repr__(self) -> str:
        return f"HTTP status {self.status}"

    @property
    def retry_after(self) -> float | None:
        """Return the seconds after which the server wants to be asked again, None where it does not say.

        Where it says a time, it counts from the answer's own Date, so that our clock does not matter.

        Source: RFC 9110, section 10.2.3.
        """
        text = self.headers.get("retry-after", "").strip()
        if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS:
            return float(text)
        try:
            wait = parsedate_to_datetime(text) - parsedate_to_datetime(self.headers.get("date", ""))
        except (TypeError, ValueError, OverflowError):  # one of them is no time, or only one has a time zone
            return None
        return max(0.0, wait.total_seconds())

    @property
    def date(self) -> datetime | None:
        """Return the server's time when it answered, in UTC and whole seconds; None where it does not say."""
        return _date(self.headers.get("date", ""))


@lru_cache(16)  # answers of one second say the same
def _date(text: str) -> datetime | None:
    try:
        return parsedate_to_datetime(text).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):  # no time, or none that can be reckoned with
        return None


class ByteBudget:
    """So many bytes of answers, unpacked, for all exchanges of one reading; any thread may take from it."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._left = total
        self._guard = threading.Lock()

    def renew(self) -> None:
        """Let another reading begin, with all bytes left."""
        with self._guard:
            self._left = self._total

    def take(self, count: int) -> None:
        """Count `count` bytes that were read.

        Raises:
            ReadEnoughError: so many are not left.
        """
        with self._guard:
            self._left -= count
            if self._left < 0:
                raise ReadEnoughError(f"all its answers together are longer than {_size(self._total)}")

    def give_back(self, count: int) -> None:
        """Count `count` bytes as not read: nothing of them is kept."""
        with self._guard:
            self._left += count


class HttpClient:
    """Sends requests over `connections`; any thread may. No thread is made, and none waits longer than its limit.

    An answer longer than `largest` bytes, or than `budget` has left, is read no further; both count what is unpacked.
    """

    def __init__(
        self, connections: urllib3.PoolManager, *, largest: int = 1 << 20, budget: ByteBudget | None = None
    ) -> None:
        self._connections = connections
        self._largest = largest
        self._budget = budget

    def exchange(self, request: HttpRequest, limit: TimeLimit) -> HttpResponse:
        """Return the answer to one request, whatever its status; redirects are not followed.

        Raises:
            HttpError: there is no whole answer; see errors.py for its kinds.
        """
        from urllib3.exceptions import HTTPError

        from reconciler.http.sockets import within

        try:
            with within(limit), self._opened(request) as response:
                body = self._body(response, limit)
        except (HTTPError, OSError, ValueError) as error:
            raise http_error(error) from error
        return HttpResponse(response.status, {key.lower(): value for key, value in response.headers.items()}, body)

    @contextmanager
    def streamed(self, request: HttpRequest, limit: TimeLimit, begins: float) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Yield the status of the answer to one request, and its lines as they come, without their ends. The answer has
        so many seconds to begin.

        A line longer than `largest` is read no further; their number is not limited, nor is `budget` asked. What fails
        raises HttpError, also from the iterator.
        """
        from urllib3.exceptions import HTTPError

        from reconciler.http.sockets import within

        try:
            with within(limit.within(begins)):
                opened = self._opened(request)
            with within(limit), opened as response:
                try:
                    yield response.status, self._lines(response)
                finally:
                    response.close()  # there may be more to come, so nobody else can use the connection
        except (HTTPError, OSError, ValueError) as error:
            raise http_error(error) from error

    def _lines(self, response: BaseHTTPResponse) -> Iterator[bytes]:
        begun = bytearray()
        for piece in _unpacked(response):
            *ended, rest = piece.split(b"\n")
            for line in ended:
                yield bytes(begun) + line
                begun.clear()
            begun += rest
            if len(begun) > self._largest:
                raise TooLargeError(f"a line of the answer is longer than {_size(self._largest)}")
        if begun:
            yield bytes(begun)

    def _opened(self, request: HttpRequest) -> BaseHTTPResponse:
        return self._connections.urlopen(
            request.method,
            request.url,
            **_sent(request),
            timeout=None,  # the connections have their own
            retries=False,
            redirect=False,
            preload_content=False,
            decode_content=False,
        )

    def _body(self, response: BaseHTTPResponse, limit: TimeLimit) -> bytearray:
        body = bytearray()
        for piece in _unpacked(response):
            if len(body) + len(piece) > self._largest:
                if self._budget is not None:
                    self._budget.give_back(len(body))
                raise TooLargeError(f"the answer is longer than {_size(self._largest)}")
            if self._budget is not None:
                self._budget.take(len(piece))
            body += piece
            step_of(limit, "the answer took too long")  # pieces that have come already are read without waiting
        return body


def _sent(request: HttpRequest) -> dict[str, Any]:
    """Return the headers, and the body or what yields it when it is to go out."""
    from urllib3 import HTTPHeaderDict

    headers, body, check = HTTPHeaderDict(request.headers), request.body, request.check
    if body is None or check is None:
        return {"headers": headers, "body": body}

    def checked() -> Iterator[bytes]:
        check()
        yield body

    headers["Content-Length"] = str(len(body))
    return {"headers": headers, "body": checked()}


def _unpacked(response: BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the body in small pieces, also where a few bytes unpack to very many.

    Raises:
        HttpError: it is packed in a way that nobody asked for, or is not what it says.
    """
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("identity", "gzip", "x-gzip", "deflate"):
        raise HttpError("the answer is compressed in a way that was not asked for")
    if packed == "identity":
        while piece := response.read1(_CHUNK):
            yield piece
        return
    reader = zlib.decompressobj(_GZIP_OR_ZLIB)
    begun = False
    while piece := response.read1(_CHUNK):
        while piece := piece.lstrip(b"\0") if reader.eof else piece:  # zeros behind a member are padding, as in gunzip
            if reader.eof:
                reader = zlib.decompressobj(_GZIP_OR_ZLIB)  # RFC 1952, section 2.2: one member follows another
            begun = True
            yield from _decompressed(reader, piece)
            piece = reader.unused_data
    if begun and not reader.eof:
        raise HttpError("the answer was cut off", passes=True)


def _decompressed(reader: Any, packed: bytes) -> Iterator[bytes]:
    try:
        while not reader.eof:
            piece = reader.decompress(packed, _CHUNK)
            packed = reader.unconsumed_tail
            yield piece
            if not packed and len(piece) < _CHUNK:
                return
    except zlib.error as error:
        raise HttpError("the answer says that it is compressed, and is not") from error


def _size(count: int) -> str:
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count} bytes"
