"""The guard against a repository that lost a folder: too many owners gone at once wake nobody by that alone."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconciler.decide.idling.records import Record

FLEET = "fleet"
PATIENCE = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Guard:
    """`gone` are the policies that own marks and are not there any more; `tripped`: they are too many."""

    gone: frozenset[str] = frozenset()
    owners: int = 0
    tripped: bool = False

    @property
    def words(self) -> str:
        names = ", ".join(sorted(self.gone)[:5]) + (", ..." if len(self.gone) > 5 else "")
        return f"{len(self.gone)} of the {self.owners} policies that own marks are gone: {names}"


def guard_of(owners: Iterable[str], names: frozenset[str], allow_exceed: frozenset[str]) -> Guard:
    """Return the guard over the policies that own marks (`owners`) and those that there are (`names`)."""
    owning = frozenset(owners)
    gone = owning - names
    too_many = len(gone) > max(1, math.floor(len(owning) / 4))
    return Guard(gone, len(owning), too_many and FLEET not in allow_exceed)


def is_guarded(guard: Guard, record: Record, now: datetime) -> bool:
    """Return whether the wake of what `record` tells of waits: its policy is gone, and the day of patience not over."""
    if not guard.tripped or record.policy not in guard.gone:
        return False
    return record.orphaned_since is None or now < record.orphaned_since + PATIENCE
