"""What a run sends to others than clusters: messages to webhooks, and its metrics to a push gateway."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from concurrent.futures import wait
from functools import partial
from urllib.parse import unquote, urlsplit

from reconciler.http.client import HttpClient, HttpRequest, HttpResponse
from reconciler.http.errors import HttpError, TimedOutError
from reconciler.redaction import remember_authorization, without_credentials
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool

SECONDS = 2.0
"""How long all messages of a run may take together."""

_LATE = f"no answer within {SECONDS:g} s, expected the message to be taken"


def message_to(url: str, content_type: str, body: bytes, token: str = "") -> HttpRequest:
    """Return the request that sends `body` to `url`, with the bearer token where there is one."""
    return HttpRequest("POST", url, _headers(content_type, f"Bearer {token}" if token else ""), body)


def _headers(content_type: str, authorization: str) -> dict[str, str]:
    headers = {"Content-Type": content_type, "User-Agent": "reconciler", "Connection": "close"}
    remember_authorization(authorization or None)
    return headers | ({"Authorization": authorization} if authorization else {})


def deliver(requests: Mapping[str, HttpRequest], limit: TimeLimit) -> dict[str, str]:
    """Send each of `requests` once, side by side; return by its key why one was not taken, at the latest when `limit`
    is over.

    The words hold nothing of an address but its host, and nothing of what a receiver says.
    """
    pool = WorkerPool()
    sent = {key: pool.submit(key, partial(_sent, request, limit), urgent=True) for key, request in requests.items()}
    limit.until(lambda seconds: not wait(sent.values(), seconds).not_done)
    found = {key: future.result() if future.done() else _LATE for key, future in sent.items()}
    return {key: f"{urlsplit(requests[key].url).hostname}: {why}" for key, why in found.items() if why}


def _sent(request: HttpRequest, limit: TimeLimit) -> str:
    """Return why the message was not taken, "" where it was."""
    found = _answer(request, limit, _LATE, "the message to be taken")
    if isinstance(found, str):
        return found
    return "" if 200 <= found.status < 300 else f"status {found.status}, expected the message to be taken"


def _answer(request: HttpRequest, limit: TimeLimit, late: str, expected: str) -> HttpResponse | str:
    """Return the answer, or why there is none. It is sent through the proxy of the environment."""
    from reconciler.http.connections import connections
    from reconciler.http.proxies import environment_proxy

    try:
        client = HttpClient(connections(proxy=environment_proxy(request.url), kept=1))
        return client.exchange(request, limit)
    except TimedOutError:
        return late
    except HttpError as error:
        return f"{error}, expected {expected}"
    except ValueError:
        return "the environment names a proxy that is no address, expected one like http://HOST:PORT"


_PUSH_SECONDS = 5.0
_LONGEST_REPLY = 200
_JOB = "/metrics/job/"
_METRICS_TEXT = "text/plain; version=0.0.4; charset=utf-8"


def is_address(url: str) -> bool:
    """Return whether `url` can be that of a push gateway."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.query and not parts.fragment


def push(url: str, verb: str, text: str, *, whole: bool, limit: TimeLimit) -> str:
    """Push `text`; return why it could not be pushed, "" where it was. It takes five seconds at most, within `limit`.

    `whole` takes the place of everything pushed earlier; otherwise only metrics of the same names are replaced. The
    group is `job="reconciler"` with the verb, and with what follows it ("apply/shard/2"), also where `url` names a job.

    Source: prometheus/pushgateway README.md, "PUT method", "POST method".
    """
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"  # without user and password
    group = f"{'' if _JOB in parts.path else f'{_JOB}reconciler'}/verb/{verb}"
    method = "PUT" if whole else "POST"
    login = "" if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    headers = _headers(_METRICS_TEXT, f"Basic {b64encode(login.encode()).decode()}" if login else "")
    request = HttpRequest(method, f"{address.rstrip('/')}{group}", headers, text.encode())
    late = f"no answer within {_PUSH_SECONDS:g} s, expected the metrics to be taken"
    found = _answer(request, limit.within(_PUSH_SECONDS), late, "a push gateway")
    if isinstance(found, str):
        return f"{address}: {found}"
    if found.status in (200, 202):
        return ""
    line = " ".join(without_credentials(found.body.decode(errors="replace")).split())[:_LONGEST_REPLY]
    return f"{address}: status {found.status} ({line}), expected 200; is it a push gateway?"
