"""`PodPickerClient` over HTTP: one question, a few attempts, no trust in the answer. HTTP is loaded once one is asked.

Source: seed downscale-pod-picker.md, "Pod Picker" API contract.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Any

from reconciler.connection_settings import (
    CONTROL_CHARACTER,
    HEADER_NAME,
    RESERVED_HEADERS,
    PickerAnswer,
    PickerHeader,
    PickerRequest,
    PodPicker,
    SecretKey,
)
from reconciler.errors import ClusterError, PickerError
from reconciler.messages import counted
from reconciler.redaction import remember_authorization
from reconciler.time_limit import TimeLimit
from reconciler.untrusted_text import strict_json

if TYPE_CHECKING:
    from reconciler.http.client import HttpClient, HttpRequest, HttpResponse
    from reconciler.http.resolver import Resolver

SecretReader = Callable[[str, str, str], str]
"""(namespace, name, key) -> the value; raises ClusterError where there is none."""

_LARGEST_ANSWER = 1 << 20
_NAMES = 64

_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class Refused(Exception):
    """No answer that can be used, in words that hold nothing of what was sent or received."""


class HttpPodPicker:
    """Asks pickers on `allowed_hosts` (globs); the values of secret headers come from `secret`.

    `limit` is that of the run, in which one that hung is not asked again for as long, or less.
    """

    def __init__(self, secret: SecretReader, allowed_hosts: Sequence[str], limit: TimeLimit) -> None:
        self._secret = secret
        self._allowed_hosts = tuple(host.lower() for host in allowed_hosts)
        self._limit = limit
        self._hung: dict[str, float] = {}  # by URL, for how many seconds

    def pick(self, request: PickerRequest) -> PickerAnswer:
        """Return the picker's answer.

        Raises:
            PickerError: no usable answer after all attempts. It never holds the value of a header.
        """
        from reconciler.http.client import HttpRequest

        picker = request.picker
        try:
            self._check_host(picker)
            if picker.timeout_seconds <= self._hung.get(_url(picker), 0):
                raise Refused("it did not answer before in this run, expected an answer; not tried again")
            asked = {"number_of_pods_requested": request.count, "candidate_pods": list(request.candidates)}
            body = json.dumps(asked, separators=(",", ":")).encode()
            sent = HttpRequest("POST", _url(picker), self._headers(request), body)
            return answer_in(self._body(picker, sent), request.candidates)
        except Refused as error:
            raise PickerError(f"{picker}: {error}") from None  # the cause may hold a header

    def _check_host(self, picker: PodPicker) -> None:
        host = picker.host.lower().rstrip(".")
        if not any(fnmatchcase(host, pattern) for pattern in self._allowed_hosts):
            allowed = ", ".join(self._allowed_hosts) or "none"
            raise Refused(f"the host is not allowed, expected one of podPickers.allowedHosts: {allowed}")

    def _headers(self, request: PickerRequest) -> dict[str, str]:
        headers = {"Accept": "application/json", "Content-Type": "application/json", "Connection": "close"}
        for header in request.picker.headers:
            headers = {name: value for name, value in headers.items() if name.lower() != header.name.lower()}
            headers[header.name] = self._value(header, request)
        return headers

    def _value(self, header: PickerHeader, request: PickerRequest) -> str:
        if not re.fullmatch(HEADER_NAME, header.name) or header.name.lower() in RESERVED_HEADERS:
            raise Refused(f'"{header.name}" is no header that may be set, expected another name')
        value = header.value or ""
        if header.secret is not None:
            if request.picker.scheme == "http" and not request.picker.allow_insecure_auth:
                raise Refused(f"{header.name} is a secret, expected https; or say allowInsecureAuth: true")
            value = self._secret_value(header.name, header.secret, request.namespace)
            remember_authorization(value)
        if re.search(CONTROL_CHARACTER, value):
            raise Refused(f"{header.name} has control characters, expected a text on one line")
        return value.encode().decode("latin-1")  # headers go out in Latin-1, so that these bytes are UTF-8

    def _secret_value(self, header: str, source: SecretKey, namespace: str) -> str:
        try:
            return self._secret(namespace, source.name, source.key)
        except ClusterError as error:
            kind = type(error).__name__.removesuffix("Error")
            raise Refused(
                f"{header}: Secret {namespace}/{source.name} key {source.key} cannot be read ({kind})"
            ) from None

    def _body(self, picker: PodPicker, request: HttpRequest) -> bytes | bytearray:
        """Return the body of the first response with status 200; each attempt has the picker's time limit."""
        from reconciler.http.errors import HttpError, TimedOutError
        from reconciler.http.retries import RetryPolicy, with_retries

        policy = RetryPolicy(max(0, picker.max_retries) + 1, _RETRIED, True, _FIRST_PAUSE, _LONGEST_PAUSE)
        tried = 0

        def attempt() -> HttpResponse:
            nonlocal tried
            tried += 1
            # A connection of its own: one that the picker is about to close would cut the next attempt.
            return _client(picker).exchange(request, self._limit.within(picker.timeout_seconds))

        try:
            response = with_retries(attempt, policy, self._limit.wait)
        except TimedOutError:
            self._hung[_url(picker)] = picker.timeout_seconds
            words = f"no whole answer within {picker.timeout_seconds:g} s"
            words = "no answer before the end of the run" if self._limit.over else words
            raise Refused(f"{words}, expected an answer; tried {_times(tried)}") from None
        except HttpError as error:
            raise Refused(f"{error}, expected an answer; tried {_times(tried)}") from None
        if response.status in _RETRIED:
            raise Refused(f"status {response.status}, expected an answer; tried {_times(tried)}")
        if response.status != 200:
            redirect = " (a redirect)" if 300 <= response.status < 400 else ""
            raise Refused(f"status {response.status}{redirect}, expected 200")
        return response.body


def _client(picker: PodPicker) -> HttpClient:
    import ssl

    from reconciler.http.client import HttpClient
    from reconciler.http.connections import connections, tls_context

    if picker.ca_bundle is not None and not picker.ca_bundle.strip():
        raise Refused("caBundle is empty, expected certificates in PEM")  # OpenSSL would take the system's
    try:
        tls = None if picker.ca_bundle is None else tls_context(ca_data=picker.ca_bundle)
    except (ssl.SSLError, ValueError):
        raise Refused("caBundle cannot be read, expected certificates in PEM") from None
    return HttpClient(connections(tls=tls, resolver=_resolver(), kept=1), largest=_LARGEST_ANSWER)


@cache
def _resolver() -> Resolver:
    """Return what looks up the names that policies say, tenants' too: apart from those of the Fleet."""
    from reconciler.http.resolver import Resolver

    return Resolver(_NAMES, _check_address)


def _check_address(address: str) -> None:
    """Refuse the host for any one of its addresses: another lookup may give them in another order."""
    from ipaddress import ip_address

    from reconciler.forbidden_addresses import is_forbidden
    from reconciler.http.errors import HttpError

    if is_forbidden(ip_address(address)):
        raise HttpError(f"the host resolves to {address}, which is a link-local or metadata address")


def _url(picker: PodPicker) -> str:
    host = picker.host.strip("[]").rstrip(".")
    bracketed = f"[{host}]" if ":" in host else host
    from urllib.parse import quote

    path = quote(picker.path, safe="%/:=&?~+!$,;'@()*[]")
    return f"{picker.scheme}://{bracketed}:{picker.port}{path if path.startswith('/') else f'/{path}'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def answer_in(body: bytes | bytearray, candidates: Sequence[str]) -> PickerAnswer:
    """Return the answer in `body`: each name once, one that is chosen and tied is chosen.

    Raises:
        Refused: the answer breaks the contract.
    """
    value = _object(body)
    if "chosen_pods" not in value and "tied_pods" not in value:
        raise Refused("the answer has neither chosen_pods nor tied_pods, expected at least one of them")
    chosen, tied = (_names(value, key) for key in ("chosen_pods", "tied_pods"))
    strangers = len({*chosen, *tied}.difference(candidates))
    if strangers:
        named = counted(strangers, "pod that is no candidate", "pods that are no candidates")
        raise Refused(f"the answer names {named}, expected candidates only")
    return PickerAnswer(tuple(chosen), tuple(name for name in tied if name not in chosen))


def _object(body: bytes | bytearray) -> dict[str, Any]:
    try:
        value = strict_json(body.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refused("the answer is no JSON object in UTF-8 with each key once, expected one") from None
    if not isinstance(value, dict):
        raise Refused("the answer is no JSON object, expected one")
    return value


def _names(value: dict[str, Any], key: str) -> dict[str, None]:
    """Return the names under `key` in their order, each once."""
    names = value.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Refused(f"{key} is no list of strings, expected pod names")
    return dict.fromkeys(names)
