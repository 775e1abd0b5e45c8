"""What an exchange with a server rests on: how long it may take, and the errors it can end with.

The texts of the errors hold nothing of what was sent or received. Whatever waits in this package waits in steps of a
deadline.
"""

from __future__ import annotations

import http.client
import math
import ssl
import time
from collections.abc import Callable

_STEP_SECONDS = 0.2
"""A stop is noticed after so long: a signal ends no wait of another thread."""


def endless() -> float:
    return math.inf


class Deadline:
    """So many `seconds` from now on, for one exchange or for several.

    `run_left` says how many seconds the run leaves it, asked anew at each step: infinite while nobody asks the run to
    stop, 0 once nobody waits for the answer any more.
    """

    def __init__(self, seconds: float, run_left: Callable[[], float] = endless) -> None:
        self._until = time.monotonic() + seconds
        self._run_left = run_left

    def left(self) -> float:
        """Return the seconds that are left, 0 or less where it is over."""
        return min(self._until - time.monotonic(), self._run_left())

    def step(self, words: str) -> float:
        """Return for how many seconds to wait before asking again.

        Raises:
            TimedOutError: it is over; `words` say what was waited for.
        """
        left = self.left()
        if left <= 0:
            raise TimedOutError(words)
        return min(left, _STEP_SECONDS)

    def wait(self, seconds: float) -> bool:
        """Let `seconds` pass; return False where that would take longer than there is time: at once, if it is known."""
        until = time.monotonic() + seconds
        while (missing := until - time.monotonic()) > 0:
            left = self.left()
            if left <= missing:
                return False
            time.sleep(min(missing, _STEP_SECONDS))
        return self.left() > 0


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
    ours = next((one for one in found if isinstance(one, HttpError)), None) or _of(found)
    by_proxy = any(isinstance(one, urllib3.exceptions.ProxyError) for one in found)
    return ours.by_proxy() if by_proxy else ours


def _of(found: list[BaseException]) -> HttpError:
    for one in found:
        if isinstance(one, ssl.SSLCertVerificationError):
            return CertificateError(f"its certificate is not valid ({one.verify_message})")
        if isinstance(one, _CUT):
            return HttpError("the connection was cut", passes=True)
        if isinstance(one, ssl.SSLError):
            return HttpError(f"TLS failed ({one.reason or 'no reason was given'})")
        if isinstance(one, OSError):
            return connection_error(one)
    if any(isinstance(one, ValueError | http.client.InvalidURL) for one in found):
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
        one = waiting.pop(0)
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            waiting += [one.__cause__, one.__context__, *one.args]
    return found
