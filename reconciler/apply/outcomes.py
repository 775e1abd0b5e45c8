"""The outcome of each action."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from reconciler.decide.decisions import Verb
from reconciler.errors import (
    AlreadyExistsError,
    ForbiddenError,
    ImpersonationError,
    LockLostError,
    NotFoundError,
    ReconcilerError,
    RefusedError,
    StaleError,
    StoppedError,
    ThrottledError,
    UnauthorisedError,
    UnreachableError,
)
from reconciler.plan.model import Action


class OutcomeStatus(StrEnum):
    APPLIED = "applied"
    STALE = "stale"  # the object is not what the plan saw; nothing changed
    FAILED = "failed"  # the server or the picker said no
    SKIPPED = "skipped"  # something it needs was not applied, or the cluster's lock was lost or not got
    DEFERRED = "deferred"  # a downscale that undid itself, left to the next run


class Failure(Struct, frozen=True):
    """What an action failed with. `error` is the kind of error, the same whatever its words say; `event` is the reason
    of the Event about it, "" where nobody took the write and so nobody takes an Event; `forbidden`: what the server
    answered 403 to; `words`: what it said, without what is remarked of the action.
    """

    error: str
    event: Literal["", "Refused", "Failed"] = "Failed"
    forbidden: Literal["", "write", "impersonate"] = ""
    words: str = ""


class Outcome(Struct, frozen=True):
    """`action` is the action's id; `message` says why for anything but applied, or adds a remark."""

    action: int
    status: OutcomeStatus
    message: str = ""
    hit: int = 0  # downscale: victims that went
    missed: int = 0  # victims still there
    substituted: int = 0  # pods that went instead
    locked: bool = False  # skipped because another run holds the lock of a cluster
    picker_failed: bool = False  # downscale: the pod picker gave no usable answer

    # Not part of its JSON:
    tenant: str = ""  # whose fault it is that it was not done: the ServiceAccount of that tenant may not do it
    failure: Failure | None = None

    @property
    def event(self) -> str:
        """The reason of the Event about what failed, "" where there is none to write on the object."""
        if self.failure is not None:
            return self.failure.event
        picker_failed = self.picker_failed and self.status is not OutcomeStatus.APPLIED
        return "Failed" if picker_failed or self.status is OutcomeStatus.FAILED else ""


def outcome_of(action: Action, error: ReconcilerError) -> Outcome:
    """Return what became of an action that ended with `error`."""
    verb = action.decision.verb
    if isinstance(error, StoppedError | LockLostError):
        return Outcome(action.id, OutcomeStatus.SKIPPED, str(error))
    # Where its namespace is missing, that is a refusal, which does not mend itself.
    # Source: seed federated-replicasets.md, "[E1] Master rejects LRS creation".
    is_refused = isinstance(error, RefusedError) or (isinstance(error, NotFoundError) and verb is Verb.CREATE)
    if isinstance(error, StaleError | NotFoundError | AlreadyExistsError) and not is_refused:
        return Outcome(action.id, OutcomeStatus.STALE, str(error))
    event: Literal["", "Refused", "Failed"] = "Failed"
    if isinstance(error, UnreachableError | UnauthorisedError | ThrottledError):
        event = ""
    elif is_refused and action.decision.downscale is None:  # that it keeps what it has says nothing about its room
        event = "Refused"
    failure = Failure(type(error).__name__, event, _forbidden(error), str(error))
    return Outcome(action.id, OutcomeStatus.FAILED, str(error), failure=failure)


def _forbidden(error: ReconcilerError) -> Literal["", "write", "impersonate"]:
    """Return what the server answered 403 to; a refusal by admission is one too."""
    if isinstance(error, ImpersonationError):
        return "impersonate"
    return "write" if any(isinstance(cause, ForbiddenError) for cause in (error, error.__cause__)) else ""
