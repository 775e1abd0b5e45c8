"""The errors that an exchange with a server can end with; their texts hold nothing of what was sent or received. And
its waits, each in steps of its `TimeLimit`, which end with one.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from reconciler.time_limit import TimeLimit

_CUT = (
    http.client.RemoteDisconnected,
    http.client.IncompleteRead,
    ConnectionResetError,
    ConnectionAbortedError,
    BrokenPipeError,
    ssl.SSLEOFError,
    ssl.SSLZeroReturnError,
)
_LONGEST_WORDS = 300


class HttpError(Exception):
    """No whole answer. `passes`: it may pass by itself, so that another try is worth it."""

    def __init__(self, words: str, *, passes: bool = False) -> None:
        super().__init__(words)
        self.passes = passes

    def by_proxy(self) -> HttpError:
        """Return this error where it is the proxy's, not the server's."""
        return type(self)(f"the proxy failed ({self})", passes=self.passes)


class TimedOutError(HttpError):
    """The time was over, or the run is asked to stop."""


class TooLargeError(HttpError):
    """An answer is longer than we read."""


class ReadEnoughError(HttpError):
    """All answers together are longer than we read."""


class CertificateError(HttpError):
    """Nobody vouches for the server's certificate, or it is another's."""


def http_error(error: BaseException) -> HttpError:
    """Return what urllib3, `http.client`, `ssl` or the system raised as one of ours."""
    import urllib3.exceptions

    found = causes(error)
    ours = next((cause for cause in found if isinstance(cause, HttpError)), None) or _of(found)
    by_proxy = any(isinstance(cause, urllib3.exceptions.ProxyError) for cause in found)
    return ours.by_proxy() if by_proxy else ours


def _of(found: list[BaseException]) -> HttpError:
    for cause in found:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return CertificateError(f"its certificate is not valid ({cause.verify_message})")
        if isinstance(cause, _CUT):
            return HttpError("the connection was cut", passes=True)
        if isinstance(cause, ssl.SSLError):
            return HttpError(f"TLS failed ({cause.reason or 'no reason was given'})")
        if isinstance(cause, OSError):
            return connection_error(cause)
    if any(isinstance(cause, ValueError | http.client.InvalidURL) for cause in found):
        return HttpError(f"the request cannot be sent ({type(found[-1]).__name__})")
    return HttpError(f"the answer is no HTTP ({type(found[-1]).__name__})")


def connection_error(error: OSError) -> HttpError:
    """Return why there is no connection."""
    if isinstance(error, ConnectionRefusedError):
        return HttpError("the connection was refused", passes=True)
    words = " ".join(str(error.strerror or error).split())[:_LONGEST_WORDS]
    return HttpError(f"no connection ({words})", passes=True)


def causes(error: BaseException) -> list[BaseException]:
    """Return `error` and what it was made from, nearest first."""
    found: list[BaseException] = []
    waiting: list[object] = [error]
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and cause not in found:
            found.append(cause)
            waiting += [cause.__cause__, cause.__context__, *cause.args]
    return found


def step_of(limit: TimeLimit, words: str) -> float:
    """Return for how many seconds to wait before asking again.

    Raises:
        TimedOutError: `limit` is over; `words` say what was waited for.
    """
    step = limit.step()
    if step <= 0:
        raise TimedOutError(words)
    return step


@contextmanager
def alone(guard: threading.Lock, limit: TimeLimit, words: str) -> Iterator[None]:
    """Let one thread in; the others wait, each as long as it has time.

    Raises:
        TimedOutError: `limit` was over first; `words` say what was waited for.
    """
    if not limit.until(lambda seconds: guard.acquire(timeout=seconds)):
        raise TimedOutError(words)
    try:
        yield
    finally:
        guard.release()
