"""Run metrics handed to a Prometheus push gateway.

Source: prometheus/pushgateway README.md, "PUT method", "POST method".
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from urllib.parse import SplitResult, unquote, urlsplit

from reconciler.backends.http.client import HttpClient, HttpRequest
from reconciler.backends.http.deadline import Deadline, endless
from reconciler.backends.http.errors import HttpError, TimedOutError

_SECONDS = 5.0
_LONGEST_WORDS = 200
_JOB = "/metrics/job/"
_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def is_address(url: str) -> bool:
    """Return whether `url` can be that of a push gateway."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment


def push(url: str, verb: str, text: str, *, whole: bool, run_left: Callable[[], float] = endless) -> str:
    """Push `text`; return why it could not be pushed, "" where it was. It takes five seconds at most, or `run_left`.

    `whole` takes the place of everything pushed earlier; otherwise only metrics of the same names are replaced. The
    group is `job="reconciler"` with the verb, unless `url` names one.
    """
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"  # without user and password
    group = "" if _JOB in parts.path else f"{_JOB}reconciler/verb/{verb}"
    method = "PUT" if whole else "POST"
    request = HttpRequest(method, f"{address.rstrip('/')}{group}", _headers(parts), text.encode())
    words = _pushed(request, Deadline(_SECONDS, run_left))
    return words and f"{address}: {words}"


def _pushed(request: HttpRequest, deadline: Deadline) -> str:
    from reconciler.backends.http.connections import connections

    try:
        response = HttpClient(connections(kept=1)).exchange(request, deadline)
    except TimedOutError:
        return f"no answer within {_SECONDS:g} s, expected the metrics to be taken"
    except HttpError as error:
        return f"{error}, expected a push gateway"
    if response.status in (200, 202):
        return ""
    line = " ".join(response.body[:_LONGEST_WORDS].decode(errors="replace").split())
    return f"status {response.status} ({line}), expected 200; is it a push gateway?"


def _headers(parts: SplitResult) -> dict[str, str]:
    headers = {"Content-Type": _TEXT, "User-Agent": "reconciler", "Connection": "close"}
    if parts.username is None:
        return headers
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return headers | {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
