"""Every error raised on purpose, as a tree, and what the process ends with; each type carries its exit code.

Every message reads `<where>: <what is>, <what was expected>[; <what to do>]`.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum
from types import TracebackType
from typing import Self

from msgspec import Struct


class ExitCode(IntEnum):
    """What the process ends with; the names are for reading, the numbers are the interface."""

    DONE = 0
    NOTHING_DONE = 1
    CHANGES_PENDING = 2
    MALFORMED = 3
    HELD_BACK = 4
    PLAN_REFUSED = 5
    PARTIAL = 6
    LOCKED = 7
    USAGE = 64
    INTERRUPTED = 130
    TERMINATED = 143


class FailOn(StrEnum):
    """What a run that did what it could ends well with, unless it is named: 4 for what is held back, else 6."""

    HELD_BACK = "held-back"
    UNKNOWN = "unknown"
    CONFLICT = "conflict"


_PRECEDENCE = (130, 143, 64, 3, 5, 7, 1, 6, 4, 2, 0)


def first_exit_code(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the code that counts when several hold; DONE for none."""
    return min(codes, key=lambda code: _PRECEDENCE.index(int(code)), default=ExitCode.DONE)


class ReconcilerError(Exception):
    """Something this program says no to, in one line a person can act on; or `problems`, a line for each."""

    exit_code = ExitCode.NOTHING_DONE
    problems: tuple[Problem, ...] = ()


class UsageError(ReconcilerError):
    """A flag, an argument or a filter that cannot be meant."""

    exit_code = ExitCode.USAGE


class Problem(Struct, frozen=True, order=True):
    """One thing wrong in a policy file. `line` and `column` are 1-based; `field` is a dotted path, "" for the file.

    `is_path`: it is about a path, such as a folder that is not there, and about no line of it.
    """

    file: str
    line: int
    column: int
    field: str
    message: str
    is_path: bool = False

    @classmethod
    def of_path(cls, path: str, message: str) -> Self:
        return cls(path, 1, 1, "", message, is_path=True)

    def __str__(self) -> str:
        where = f"{self.file}: " if self.is_path else f"{self.file}:{self.line}:{self.column}: "
        return where + (f"{self.field}: {self.message}" if self.field else self.message)


class _MalformedError(ReconcilerError):
    """Files that cannot be used; `problems` holds all that is wrong in them, sorted."""

    exit_code = ExitCode.MALFORMED

    def __init__(self, message: str, problems: tuple[Problem, ...] = ()) -> None:
        super().__init__(message)
        self.problems = problems

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> Self:
        """Return one error for all `problems`, a line each."""
        found = tuple(sorted(set(problems)))
        return cls("\n".join(str(problem) for problem in found), found)


class PromptInterruptedError(ReconcilerError):
    """A signal in place of an answer."""

    def __init__(self, exit_code: ExitCode) -> None:
        super().__init__(f"{exit_code.name.lower()}; nothing was done")
        self.exit_code = exit_code


class PolicyError(_MalformedError):
    """Policies that cannot be used."""


class UnreadPoliciesError(PolicyError):
    """Policies that were not read in time. Nothing is known to be wrong with them."""

    exit_code = ExitCode.NOTHING_DONE


class SnapshotError(_MalformedError):
    """A snapshot directory that cannot be read."""


class PlanFileError(ReconcilerError):
    """A saved plan that is refused as a whole."""

    exit_code = ExitCode.PLAN_REFUSED


class LockHeldError(ReconcilerError):
    """Another run holds the lock of a cluster."""

    exit_code = ExitCode.LOCKED


class AnnotationError(ReconcilerError):
    """One of our records on an object cannot be read; the object is set aside."""

    exit_code = ExitCode.PARTIAL


class PickerError(ReconcilerError):
    """A pod picker gave no usable answer. Never holds a secret."""

    exit_code = ExitCode.PARTIAL


class CommentError(ReconcilerError):
    """The comment of a review cannot be written. Never holds a token."""

    exit_code = ExitCode.PARTIAL


class ClusterError(ReconcilerError):
    """A cluster, or one request to it, failed."""

    exit_code = ExitCode.PARTIAL


class UnreachableError(ClusterError):
    """Nothing answered, or too late."""


class UnauthorisedError(ClusterError):
    """The credentials were not accepted."""


class ForbiddenError(ClusterError):
    """The credentials do not allow this; the message names verb and resource. `words` are the server's own."""

    def __init__(self, message: str, words: str = "") -> None:
        super().__init__(message)
        self.words = words


class ImpersonationError(ForbiddenError):
    """The credentials do not allow to impersonate a ServiceAccount; `words` are the server's own."""


class ThrottledError(ClusterError):
    """The server asked us to come back later, and still did after all retries."""


class MalformedAnswerError(ClusterError):
    """An answer that is not what the server's own contract says."""


class AnswerTooLargeError(MalformedAnswerError):
    """One answer is longer than is read."""


class ReadLimitError(ClusterError):
    """More of a cluster than one run may read, or it takes longer than it may."""


class NotFoundError(ClusterError):
    """The object is not there (any more)."""


class AlreadyExistsError(ClusterError):
    """An object of that name is there already."""


class StaleError(ClusterError):
    """The object is not what the plan saw; nothing was changed."""


class ConflictError(ClusterError):
    """Somebody changed the object at the same time; nothing was changed by us."""


class GoneError(ClusterError):
    """A list cannot be continued where it was left: what it began with is no longer kept."""


class StoppedError(ClusterError):
    """The run is asked to stop, or its time is over: this was not sent."""


class LockLostError(ClusterError):
    """The lock of the cluster is not ours any more."""

    def __init__(self, where: object) -> None:
        super().__init__(f"{where}: the lock was lost, nothing more is written there")


class RefusedError(ClusterError):
    """The server refused the write itself (admission, quota, validation), in its own words."""


class InvalidError(RefusedError):
    """What was written is no valid object, or a test of the write failed: the server says the same of both."""


_LONGEST_WORDS = 300


def reason_on(cluster: str, error: BaseException) -> str:
    """Return why something failed on `cluster`, in one line that begins with its name."""
    return f"{cluster}: {reason_of(error).removeprefix(f'{cluster}: ')}"


def reason_of(error: BaseException) -> str:
    """Return why something failed, in one line: for an error raised on purpose its own words.

    For any other one, what it is and where: the innermost line of this program that it came through.
    """
    if isinstance(error, ReconcilerError):
        return str(error)
    words = " ".join(str(error).split())[:_LONGEST_WORDS]
    return f"unexpected {type(error).__name__}{f' ({words})' if words else ''} at {_place(error.__traceback__)}"


def _place(traceback: TracebackType | None) -> str:
    found = "an unknown place"
    while traceback is not None:
        module = traceback.tb_frame.f_globals.get("__name__", "")
        if module.startswith("reconciler."):
            found = f"{module.replace('.', '/')}.py:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    return found
