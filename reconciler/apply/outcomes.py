"""The outcome of each action."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from reconciler.errors import (
    ForbiddenError,
    ImpersonationError,
    ReconcilerError,
    RefusedError,
    ThrottledError,
    UnauthorisedError,
    UnreachableError,
)


class OutcomeStatus(StrEnum):
    APPLIED = "applied"
    STALE = "stale"  # the object is not what the plan saw; nothing changed
    FAILED = "failed"  # the server or the picker said no
    SKIPPED = "skipped"  # something it needs was not applied, or the cluster's lock was lost or not got
    DEFERRED = "deferred"  # a downscale that undid itself, left to the next run


class Outcome(Struct, frozen=True):
    """`action` is the action's id; `message` says why for anything but applied, or adds a remark."""

    action: int
    status: OutcomeStatus
    message: str = ""
    hit: int = 0  # downscale: victims that went
    missed: int = 0  # victims still there
    substituted: int = 0  # pods that went instead
    locked: bool = False  # skipped because another run holds the lock of a cluster
    refused: bool = False  # the server said no in its own words
    unanswered: bool = False  # nobody took the write, so nobody takes an Event about it
    forbidden: Literal["", "write", "impersonate"] = ""  # what the server answered 403 to
    tenant: str = ""  # whose fault it is that it was not done: the ServiceAccount of that tenant may not do it
    picker_failed: bool = False  # downscale: the pod picker gave no usable answer
    error: str = ""  # the kind of error that it ended with, the same whatever its words say

    @property
    def failure(self) -> str:
        """The reason of the Event about what failed, "" where there is none to write on the object."""
        if self.status is OutcomeStatus.APPLIED or self.unanswered:
            return ""
        if self.refused:
            return "Refused"
        return "Failed" if self.picker_failed or self.status is OutcomeStatus.FAILED else ""


_UNANSWERED = (UnreachableError, UnauthorisedError, ThrottledError)


def failed(action: int, error: ReconcilerError) -> Outcome:
    """Return the outcome of an action that ended with `error`."""
    refused, unanswered = isinstance(error, RefusedError), isinstance(error, _UNANSWERED)
    return Outcome(
        action,
        OutcomeStatus.FAILED,
        str(error),
        refused=refused,
        unanswered=unanswered,
        forbidden=_forbidden(error),
        error=type(error).__name__,
    )


def _forbidden(error: ReconcilerError) -> Literal["", "write", "impersonate"]:
    """Return what the server answered 403 to; a refusal by admission is one too."""
    if isinstance(error, ImpersonationError):
        return "impersonate"
    return "write" if any(isinstance(cause, ForbiddenError) for cause in (error, error.__cause__)) else ""
