"""The error for each answer of an API server that refuses what was asked."""

from __future__ import annotations

import re

import msgspec

from reconciler.backends.decode.values import decoded_json
from reconciler.backends.kubernetes.request_form import Operation
from reconciler.errors import (
    AlreadyExistsError,
    AnswerTooLargeError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidError,
    MalformedAnswerError,
    NotFoundError,
    RefusedError,
    ThrottledError,
    UnauthorisedError,
    UnreachableError,
)
from reconciler.http.client import HttpResponse
from reconciler.http.errors import HttpError, ReadEnoughError, TooLargeError
from reconciler.redaction import without_credentials

NOT_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises: the last two where a text is no UTF-8, or maps are nested a thousand deep."""

_DENIED = re.compile(r"\bdenied (the )?request\b|\bpermissions not currently held\b", re.ASCII)
"""What the server says where an admission policy or webhook refuses, or a role would grant more than its writer has.

Source: kubernetes apiserver pkg/admission/plugin/policy/validating/dispatcher.go; plugin/webhook/errors/statuserror.go;
pkg/registry/rbac/validation/rule.go, ConfirmNoEscalation.
"""

_MAX_WORDS = 500
_MOST_TEXT = 1 << 16
"""More than the longest token, which must be whole to be known, has before and behind it."""


class ApiStatus(msgspec.Struct):
    """Source: apimachinery meta/v1 types.go, Status."""

    message: str | None = None
    reason: str | None = None


def refusal_status(answer: HttpResponse) -> ApiStatus:
    """Return the Status object that a refusal carries; what is none has no reason, and its text is the message.

    There is no credential in either that the server repeats.
    """
    try:
        found = decoded_json(ApiStatus, answer.body)
    except NOT_JSON:
        found = ApiStatus(message=bytes(answer.body).decode("utf-8", "replace"))
    return ApiStatus(without_credentials(found.message or "")[:_MOST_TEXT], found.reason)


def no_answer(operation: Operation, error: HttpError) -> ClusterError:
    """Return the error that it is to have no whole answer; one that is too long is the fault of what was asked for."""
    kinds = {TooLargeError: AnswerTooLargeError, ReadEnoughError: MalformedAnswerError}
    kind = kinds.get(type(error), UnreachableError)
    return kind(f"{operation}: {error}, expected an answer")


def error_of(operation: Operation, answer: HttpResponse) -> ClusterError:
    """Return the error that an answer other than 2xx is, in the server's own words."""
    status = refusal_status(answer)
    words = _words(status.message) or f"status {answer.status}"
    if answer.status == 403 and _DENIED.search(words):  # whoever would bind a role would do so in vain
        return ForbiddenError(f"{operation}: forbidden ({words}), expected it to be accepted", words)
    if answer.status == 403:
        return ForbiddenError(f"{operation}: forbidden ({words}), expected the right to; bind {operation.rule}", words)
    if answer.status == 401:
        return UnauthorisedError(f"{operation}: the credentials were not accepted ({words}), expected valid ones")
    if answer.status == 409 and status.reason == "AlreadyExists":
        return AlreadyExistsError(f"{operation}: is there already, expected none of that name; plan again")
    if answer.status >= 500:
        return UnreachableError(f"{operation}: the server failed with {answer.status} ({words}), expected an answer")
    kind, expected = _KINDS.get(answer.status, (RefusedError, "it to be accepted"))
    if answer.status < 400:
        return MalformedAnswerError(f"{operation}: answered with status {answer.status}, expected one of 200 to 299")
    return kind(f"{operation}: {words}, expected {expected}")


_KINDS: dict[int, tuple[type[ClusterError], str]] = {
    404: (NotFoundError, "it to be there"),
    409: (ConflictError, "it unchanged"),
    422: (InvalidError, "it to be accepted"),
    410: (GoneError, "a list that can be continued"),
    429: (ThrottledError, "to be let in; try again later"),
}


def _words(message: str | None) -> str:
    text = " ".join((message or "").split())
    return text if len(text) <= _MAX_WORDS else f"{text[: _MAX_WORDS - 3]}..."
