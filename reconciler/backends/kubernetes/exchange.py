"""One request over the wire, its answer read to the end, within its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reconciler.backends.kubernetes.answers import Answer
from reconciler.backends.kubernetes.connection import Endpoint
from reconciler.errors import UnreachableError
from reconciler.whole_numbers import whole_number_in

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

_CHUNK = 1 << 18
_SHORTEST = 0.05
_STEP_SECONDS = 0.2
_LATE = 0.1
"""The thread's own words about a timeout are better than ours: it gets so much longer to say them."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What goes over the wire; `asked` says in words what it asks.

    `check` is called once the connection stands, right before the body goes out; what it raises keeps the body back,
    so that the server has nothing to act on.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None
    asked: str
    check: Callable[[], None] | None = None


def exchange_in_time(
    endpoint: Endpoint, outgoing: Outgoing, seconds: float, is_given_up: Callable[[], bool] = lambda: False
) -> Answer:
    """Do as `exchange`, in a thread that nobody waits for longer than `seconds`, or once it `is_given_up`.

    A resolver, a list of addresses and a server that answers drop by drop have no limit of their own. Only for what
    changes nothing: it may still go out when nobody waits any more.

    Raises:
        UnreachableError: no whole answer came in that time.
    """
    result: Future[Answer] = Future()

    def work() -> None:
        try:
            result.set_result(exchange(endpoint, outgoing, seconds))
        except BaseException as error:  # noqa: BLE001 - handed on to who waits
            result.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    until = time.monotonic() + seconds
    while not is_given_up():
        left = until - time.monotonic()
        if left <= -_LATE:
            break
        done, _ = wait([result], timeout=max(_SHORTEST, min(_STEP_SECONDS, left)))
        if done:
            return result.result()
    raise UnreachableError(f"{outgoing.asked}: no answer in time, expected an answer")


def exchange(endpoint: Endpoint, outgoing: Outgoing, seconds: float) -> Answer:
    """Send one request and return its answer, whatever its status; it takes about `seconds` at most.

    Raises:
        UnreachableError: no whole answer came in that time.
    """
    import urllib3

    until = time.monotonic() + seconds
    try:
        response = endpoint.pool.urlopen(
            outgoing.method,
            endpoint.url + outgoing.target,
            **_sent(outgoing),
            timeout=urllib3.Timeout(total=seconds),
            retries=False,
            redirect=False,
            preload_content=False,
            assert_same_host=False,
        )
        with response:
            body = _body(response, until, outgoing)
            headers = {key.lower(): value for key, value in response.headers.items()}
            return Answer(response.status, headers, body)
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise UnreachableError(f"{outgoing.asked}: {_words(error)}, expected an answer") from error


def _sent(outgoing: Outgoing) -> dict[str, Any]:
    """Return the headers, and the body or what yields it when it is to go out."""
    headers, body = dict(outgoing.headers), outgoing.body
    if body is None or outgoing.check is None:
        return {"headers": headers, "body": body}
    return {"headers": {**headers, "Content-Length": str(len(body))}, "body": _checked(body, outgoing.check)}


def _checked(body: bytes, check: Callable[[], None]) -> Iterator[bytes]:
    check()
    yield body


def _body(response: BaseHTTPResponse, until: float, outgoing: Outgoing) -> bytearray:
    """Read in pieces: the timeout of a socket counts anew for each, ours does not."""
    body = bytearray()
    expected = whole_number_in(response.headers.get("Content-Length", ""))
    while True:
        left = until - time.monotonic()
        if left <= 0:
            response.close()
            raise UnreachableError(f"{outgoing.asked}: the answer took too long, expected all of it in time")
        _limit(response, left)
        piece = response.read1(_CHUNK)
        if not piece:
            break
        body += piece
    if expected is not None and len(body) < expected:
        raise UnreachableError(f"{outgoing.asked}: the answer was cut off, expected {expected} bytes")
    return body


def _limit(response: Any, seconds: float) -> None:
    """Let the socket wait no longer than is left; where it is out of reach its first timeout stays."""
    socket = getattr(getattr(response, "connection", None), "sock", None)
    if socket is not None:
        socket.settimeout(max(_SHORTEST, seconds))


def _words(error: BaseException) -> str:
    """Return the cause without the library's names of objects and addresses in memory."""
    import urllib3.exceptions as known

    kinds: tuple[tuple[type[BaseException], str], ...] = (
        (known.ReadTimeoutError, "no answer in time"),
        (known.NameResolutionError, "its host name is not known"),
        (known.NewConnectionError, "the connection was refused"),  # the class is one of ConnectTimeoutErrors
        (known.ConnectTimeoutError, "no connection in time"),
        (known.SSLError, f"TLS failed ({_cause(error)})"),
        (known.ProxyError, f"the proxy failed ({_cause(error)})"),
        (known.ProtocolError, "the connection broke"),
        (known.IncompleteRead, "the answer was cut off"),
        (TimeoutError, "no answer in time"),
    )
    return next((words for kind, words in kinds if isinstance(error, kind)), _cause(error))


def _cause(error: BaseException) -> str:
    cause = error.args[-1] if error.args and isinstance(error.args[-1], BaseException) else error
    return " ".join(str(cause).split())[:300]
