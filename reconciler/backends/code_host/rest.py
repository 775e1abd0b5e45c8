"""A JSON API over HTTP: one address, one token that goes nowhere else, one deadline for all calls together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from reconciler.backends.http.client import HttpClient, HttpRequest, HttpResponse, RetryPolicy, with_retries
from reconciler.backends.http.deadline import Deadline
from reconciler.backends.http.errors import HttpError
from reconciler.errors import CommentError, UsageError
from reconciler.untrusted_text import one_line

T = TypeVar("T")

_SECONDS = 60.0
_LARGEST = 32 << 20  # thirty comments of 65,536 characters, each written as \uD83D\uDE00
_LONGEST_WORDS = 200
_REPEATED = RetryPolicy(attempts=4, first_pause=0.2, longest_pause=10.0)
_ONCE = RetryPolicy(attempts=1)  # what creates something is not sent twice


class _Refusal(msgspec.Struct):
    message: Any = ""


class RestApi:
    """The API at `url`. Redirects are not followed, so that `headers`, which hold the token, go to its host alone."""

    def __init__(self, url: str, headers: Mapping[str, str], variable: str, seconds: float = _SECONDS) -> None:
        """`variable` is where `url` comes from.

        Raises:
            UsageError: `url` is no address that a token may be sent to.
        """
        from reconciler.backends.http.connections import connections, environment_proxy

        _check(url, variable)
        self._url = url.rstrip("/")
        self._headers = {"User-Agent": "reconciler", "Content-Type": "application/json", **headers}
        self._deadline = Deadline(seconds)
        self._client = HttpClient(connections(proxy=environment_proxy(url), kept=1), largest=_LARGEST)

    def get(self, path: str, answer: type[T]) -> T:
        """Return what is at `path`, which is encoded already.

        Raises:
            CommentError: there is no such answer.
        """
        return self._called("GET", path, None, answer)

    def send(self, method: str, path: str, body: Mapping[str, str]) -> None:
        """Send `body`; POST is sent once, other methods until they are answered.

        Raises:
            CommentError: it was not taken.
        """
        self._called(method, path, msgspec.json.encode(body), Any)

    def _called(self, method: str, path: str, body: bytes | None, answer: type[T]) -> T:
        request = HttpRequest(method, f"{self._url}{path}", self._headers, body)
        where = f"{method} {self._url}{path.partition('?')[0]}"
        policy = _ONCE if method == "POST" else _REPEATED
        try:
            response = with_retries(lambda: self._client.exchange(request, self._deadline), policy, self._deadline.wait)
        except HttpError as error:
            raise CommentError(f"{where}: {error}, expected an answer") from error
        if not 200 <= response.status < 300:
            raise CommentError(f"{where}: status {response.status}{_words(response)}, expected success")
        try:
            return msgspec.json.decode(response.body, type=answer)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CommentError(f"{where}: the answer is not what the API documents, expected JSON") from error


def _check(url: str, variable: str) -> None:
    from reconciler.backends.http.connections import address_of

    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise UsageError(f"{variable}: is no address, expected https://HOST") from None
    address = address_of(host)
    local = host == "localhost" or (address is not None and address.is_loopback)
    if not host or parts.scheme not in ("https", *(["http"] if local else [])):
        raise UsageError(f"{variable}: is no address that a token may be sent to, expected https://HOST")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise UsageError(f"{variable}: has a user, a query or a fragment, expected https://HOST/PATH")


def _words(response: HttpResponse) -> str:
    """Return what the server says of a refusal, in brackets: one line of bounded length."""
    try:
        said = msgspec.json.decode(response.body, type=_Refusal).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return f" ({one_line(said)[:_LONGEST_WORDS]})" if isinstance(said, str) and said else ""
