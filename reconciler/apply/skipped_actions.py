"""Why an action is not even tried: its cluster may not be written to, what it needs was not applied, or somebody froze
its cluster meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import count

from reconciler.apply.access import Access
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.apply.run_locks import LeftOut
from reconciler.backends.protocols import CONFIG_MAPS
from reconciler.decide.decisions import Decision
from reconciler.decide.freeze import CONFIG_MAP, freeze_reason, freezes_in_force, unreadable
from reconciler.errors import LockLostError, NotFoundError, reason_of
from reconciler.plan.model import Action
from reconciler.policy.types import Freeze, Writes
from reconciler.time_limit import TimeLimit

BATCH = 20
"""How many writes on a cluster one reading of its freezes is good for; as many more may begin while it is read anew."""

_FREEZE_SECONDS = 5.0
"""And for how long."""


@dataclass
class SkippedActions:
    """Which of `actions` are not even tried; `done` has the outcomes of those that are over, by their ids."""

    actions: Sequence[Action]
    accesses: Mapping[str, Access]
    left_out: Mapping[str, LeftOut]
    freezes: Mapping[str, FreezeCheck]
    done: Mapping[int, Outcome]

    def __post_init__(self) -> None:
        # A group is left out whole where one of its clusters may not be written to.
        self._barred = {
            action.decision.group: self.left_out[action.ref.cluster].of(action.ref.cluster)
            for action in self.actions
            if action.ref.cluster in self.left_out
        }
        self._refs = {action.id: action.ref for action in self.actions}

    def outcome(self, action: Action) -> Outcome | None:
        """Return the outcome of an action that is skipped, with the reason; None where it is tried."""
        skipped = partial(Outcome, action.id, OutcomeStatus.SKIPPED)
        barred = self._barred.get(action.decision.group)
        if barred is not None:
            return skipped(barred.why, locked=barred.held)
        if not self.accesses[action.ref.cluster].lock.held():
            return skipped(str(LockLostError(action.ref.cluster)))
        for need in action.needs:
            before = self.done.get(need)
            if before is None or before.status is not OutcomeStatus.APPLIED:
                tenant = "" if before is None else before.tenant
                return skipped(f"needs {self._refs[need]}, which was not applied", tenant=tenant)
        frozen = self.freezes[action.ref.cluster].why_not(action.decision)
        return skipped(frozen) if frozen else None


class FreezeCheck:
    """Says of each write on one cluster whether it may still be made; wakes always may."""

    def __init__(self, access: Access, namespace: str, now: datetime) -> None:
        self._access = access
        self._namespace = namespace
        self._now = now
        self._reading = threading.Lock()
        self._writes = count()
        # What was read, for the writes below which number that is good, and for how long.
        self._read: tuple[tuple[Freeze, ...], int, TimeLimit] = (), 0, TimeLimit(0)

    def why_not(self, decision: Decision) -> str:
        """Return why `decision` may not be carried out any more, "" where it may."""
        if decision.writes is not Writes.EVERYTHING:
            return ""
        ref = decision.ref
        found = next((freeze for freeze in self._freezes() if freeze.covers(ref.cluster, ref.namespace)), None)
        return "" if found is None else f"{ref.cluster}: {freeze_reason(found)}"

    def _freezes(self) -> tuple[Freeze, ...]:
        number = next(self._writes)
        freezes, below, limit = self._read
        must_wait = limit.over or number >= below + BATCH
        if (must_wait or number >= below) and self._reading.acquire(blocking=must_wait):
            try:
                freezes, below, limit = self._read  # somebody may have read it meanwhile
                if limit.over or number >= below:
                    freezes = self._asked()
                    self._read = freezes, number - number % BATCH + BATCH, TimeLimit(_FREEZE_SECONDS)
            finally:
                self._reading.release()
        return freezes

    def _asked(self) -> tuple[Freeze, ...]:
        try:
            found = self._access.cluster.get(CONFIG_MAPS, self._namespace, CONFIG_MAP)
        except NotFoundError:
            return ()
        except Exception as error:  # noqa: BLE001 - whatever it is: what cannot be read counts as frozen
            return (unreadable(reason_of(error)),)
        return freezes_in_force(found.data, self._now)
