"""What the process ends with, and which of several codes counts."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum, StrEnum


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
