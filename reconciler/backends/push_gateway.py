"""Run metrics handed to a Prometheus push gateway.

Source: prometheus/pushgateway README.md, "PUT method", "POST method".
"""

from __future__ import annotations

import threading
from urllib.parse import unquote, urlsplit

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


def push(url: str, verb: str, text: str, *, whole: bool) -> str:
    """Push `text`; return why it could not be pushed, "" where it was. It takes five seconds at most.

    `whole` takes the place of everything pushed earlier; otherwise only metrics of the same names are replaced. The
    group is `job="reconciler"` with the verb, unless `url` names one.
    """
    said: list[str] = []
    thread = threading.Thread(target=lambda: said.append(_pushed(url, verb, text, whole)), daemon=True)
    thread.start()
    thread.join(_SECONDS)
    words = said[0] if said else f"no answer within {_SECONDS:g} s, expected the metrics to be taken"
    return words and f"{_shown(url)}: {words}"


def _pushed(url: str, verb: str, text: str, whole: bool) -> str:
    import urllib3
    from urllib3.exceptions import HTTPError

    from reconciler.backends.prometheus_http import causes

    parts = urlsplit(url)
    headers = {"Content-Type": _TEXT, "User-Agent": "reconciler"}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers |= urllib3.make_headers(basic_auth=login)
    try:
        with urllib3.PoolManager(timeout=urllib3.Timeout(total=_SECONDS), retries=False) as pool:
            method = "PUT" if whole else "POST"
            reply = pool.request(method, _address(url, verb), body=text.encode(), headers=headers, redirect=False)
    except (HTTPError, ValueError) as error:
        found = next((one for one in causes(error) if isinstance(one, OSError)), error)
        words = getattr(found, "verify_message", None) or getattr(found, "strerror", None) or type(found).__name__
        return f"no connection ({words}), expected a push gateway"
    if reply.status in (200, 202):
        return ""
    line = " ".join(reply.data[:_LONGEST_WORDS].decode(errors="replace").split())
    return f"status {reply.status} ({line}), expected 200; is it a push gateway?"


def _address(url: str, verb: str) -> str:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    group = "" if _JOB in parts.path else f"{_JOB}reconciler/verb/{verb}"
    return f"{parts.scheme}://{host}{parts.path.rstrip('/')}{group}"


def _shown(url: str) -> str:
    """Return the address without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
