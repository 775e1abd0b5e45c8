"""`PodPickerClient` over HTTP: one question, a few attempts, no trust in the answer.

Source: seed downscale-pod-picker.md, "Pod Picker" API contract.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from reconciler.backends.base import Clock
from reconciler.backends.picker_http import Attempt, Refused, Reply, Retryable, exchange
from reconciler.errors import ClusterError, PickerError
from reconciler.model import PickerAnswer, PickerHeader, PickerRequest, PodPicker

Secret = Callable[[str, str, str], str]
"""(namespace, name, key) -> the value; raises ClusterError where there is none."""

_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_RETRY_AFTER = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 5.0
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "content-type"})


class WallClock:
    """Time as it passes."""

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class HttpPodPicker:
    """Asks pickers on `allowed_hosts` (globs); the values of secret headers come from `secret`."""

    def __init__(self, secret: Secret, allowed_hosts: Sequence[str], clock: Clock | None = None) -> None:
        self._secret = secret
        self._allowed_hosts = tuple(host.lower() for host in allowed_hosts)
        self._clock = clock or WallClock()

    def pick(self, request: PickerRequest) -> PickerAnswer:
        """Return the picker's answer.

        Raises:
            PickerError: no usable answer after all attempts. It never holds the value of a header.
        """
        where = f"pod picker {request.picker.scheme}://{request.picker.host}:{request.picker.port}"
        try:
            self._check_host(request.picker)
            attempt = Attempt(request.picker, self._headers(request), _body_of(request))
            return answer_in(self._body(attempt), request.candidates)
        except Refused as error:
            raise PickerError(f"{where}: {error}") from None  # the cause may hold a header

    def _check_host(self, picker: PodPicker) -> None:
        host = picker.host.lower().rstrip(".")
        if not any(fnmatchcase(host, pattern) for pattern in self._allowed_hosts):
            allowed = ", ".join(self._allowed_hosts) or "none"
            raise Refused(f"the host is not allowed, expected one of podPickers.allowedHosts: {allowed}")

    def _headers(self, request: PickerRequest) -> tuple[tuple[str, bytes], ...]:
        return tuple((header.name, self._value(header, request)) for header in request.picker.headers)

    def _value(self, header: PickerHeader, request: PickerRequest) -> bytes:
        if not _TOKEN.fullmatch(header.name) or header.name.lower() in _OURS:
            raise Refused(f'"{header.name}" is no header that may be set, expected another name')
        value = header.value or ""
        if header.secret is not None:
            if request.picker.scheme == "http" and not request.picker.allow_insecure_auth:
                raise Refused(f"{header.name} is a secret, expected https; or say allowInsecureAuth: true")
            value = self._secret_value(header, request.namespace)
        if _CONTROL.search(value):
            raise Refused(f"{header.name} has control characters, expected a text on one line")
        return value.encode()

    def _secret_value(self, header: PickerHeader, namespace: str) -> str:
        name, key = header.secret or ("", "")
        try:
            return self._secret(namespace, name, key)
        except ClusterError as error:
            kind = type(error).__name__.removesuffix("Error")
            raise Refused(f"{header.name}: Secret {namespace}/{name} key {key} cannot be read ({kind})") from None

    def _body(self, attempt: Attempt) -> bytes:
        """Return the body of the first reply with status 200."""
        attempts = max(0, attempt.picker.max_retries) + 1
        for number in range(1, attempts + 1):
            try:
                reply = exchange(attempt)
            except Retryable as error:
                failure, pause = str(error), None
            else:
                if reply.status == 200:
                    return reply.body
                failure, pause = _failure(reply)
            if number < attempts:
                self._clock.sleep(_backoff(number) if pause is None else pause)
        raise Refused(f"{failure}, expected an answer; tried {attempts} times")


def _failure(reply: Reply) -> tuple[str, float | None]:
    """Return what is wrong with a reply, and how long the picker asks to wait.

    Raises:
        Refused: there is no use in asking again.
    """
    if reply.status not in _RETRIED:
        redirect = " (a redirect)" if 300 <= reply.status < 400 else ""
        raise Refused(f"status {reply.status}{redirect}, expected 200")
    return f"status {reply.status}", None if reply.retry_after is None else min(reply.retry_after, _LONGEST_RETRY_AFTER)


def _backoff(number: int) -> float:
    """Return how long to wait after the attempt `number`: doubling, with jitter over its upper half."""
    longest = min(_FIRST_PAUSE * 2.0 ** min(number, 16), _LONGEST_PAUSE)
    return longest * random.uniform(0.5, 1.0)


def _body_of(request: PickerRequest) -> bytes:
    value = {"number_of_pods_requested": request.count, "candidate_pods": list(request.candidates)}
    return json.dumps(value, separators=(",", ":")).encode()


def answer_in(body: bytes, candidates: Sequence[str]) -> PickerAnswer:
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
        raise Refused(f"the answer names {strangers} pods that were no candidates, expected candidates only")
    return PickerAnswer(tuple(chosen), tuple(name for name in tied if name not in chosen))


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_without_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refused("the answer is no JSON object in UTF-8 with each key once, expected one") from None
    if not isinstance(value, dict):
        raise Refused("the answer is no JSON object, expected one")
    return value


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key is there twice")
    return value


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON")


def _names(value: dict[str, Any], key: str) -> dict[str, None]:
    """Return the names under `key` in their order, each once."""
    names = value.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Refused(f"{key} is no list of strings, expected pod names")
    return dict.fromkeys(names)
