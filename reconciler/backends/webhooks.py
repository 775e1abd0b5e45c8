"""Messages to webhooks: sent side by side, each once, all of them within a limit."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import wait
from functools import partial
from urllib.parse import urlsplit

from reconciler.backends.http.client import HttpClient, HttpRequest
from reconciler.backends.http.errors import HttpError, TimedOutError
from reconciler.credentials import remember_authorization
from reconciler.time_limit import TimeLimit
from reconciler.worker_pool import WorkerPool

SECONDS = 2.0
"""How long all messages of a run may take together."""

_LATE = f"no answer within {SECONDS:g} s, expected the message to be taken"


def message_to(url: str, content_type: str, body: bytes, token: str = "") -> HttpRequest:
    """Return the request that sends `body` to `url`, with the bearer token where there is one."""
    headers = {"Content-Type": content_type, "User-Agent": "reconciler", "Connection": "close"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
        remember_authorization(headers["Authorization"])
    return HttpRequest("POST", url, headers, body)


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
    from reconciler.backends.http.connections import connections, environment_proxy

    try:
        client = HttpClient(connections(proxy=environment_proxy(request.url), kept=1))
        status = client.exchange(request, limit).status
    except TimedOutError:
        return _LATE
    except HttpError as error:
        return f"{error}, expected the message to be taken"
    except ValueError:
        return "the environment names a proxy that is no address, expected one like http://HOST:PORT"
    return "" if 200 <= status < 300 else f"status {status}, expected the message to be taken"
