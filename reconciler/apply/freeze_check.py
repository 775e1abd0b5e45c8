"""Whether a write may still be made on a cluster where somebody may freeze it meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime
from itertools import count

from reconciler.apply.access import Access
from reconciler.backends.protocols import CONFIG_MAPS
from reconciler.decide.decisions import Decision
from reconciler.decide.freeze import CONFIG_MAP, freeze_reason, freezes_in_force, unreadable
from reconciler.errors import NotFoundError, reason_of
from reconciler.policy.types import Freeze, Writes
from reconciler.time_limit import TimeLimit

BATCH = 20
"""How many writes on a cluster one reading of its freezes is good for; as many more may begin while it is read anew."""

_FREEZE_SECONDS = 5.0
"""And for how long."""


class FreezeCheck:
    """Says of each write whether it may still be made; wakes always may."""

    def __init__(self, accesses: Mapping[str, Access], namespace: str, now: datetime) -> None:
        self._accesses = accesses
        self._namespace = namespace
        self._now = now
        self._reading = {cluster: threading.Lock() for cluster in accesses}
        self._writes = {cluster: count() for cluster in accesses}
        # By cluster what was read, for the writes below which number that is good, and for how long.
        self._read: dict[str, tuple[tuple[Freeze, ...], int, TimeLimit]] = {
            cluster: ((), 0, TimeLimit(0)) for cluster in accesses
        }

    def why_not(self, decision: Decision) -> str:
        """Return why `decision` may not be carried out any more, "" where it may."""
        if decision.writes is not Writes.EVERYTHING:
            return ""
        ref = decision.ref
        found = next(
            (freeze for freeze in self._freezes(ref.cluster) if freeze.covers(ref.cluster, ref.namespace)), None
        )
        return "" if found is None else f"{ref.cluster}: {freeze_reason(found)}"

    def _freezes(self, cluster: str) -> tuple[Freeze, ...]:
        number = next(self._writes[cluster])
        freezes, below, limit = self._read[cluster]
        must_wait = limit.over or number >= below + BATCH
        if (must_wait or number >= below) and self._reading[cluster].acquire(blocking=must_wait):
            try:
                freezes, below, limit = self._read[cluster]  # somebody may have read it meanwhile
                if limit.over or number >= below:
                    freezes = self._asked(cluster)
                    self._read[cluster] = freezes, number - number % BATCH + BATCH, TimeLimit(_FREEZE_SECONDS)
            finally:
                self._reading[cluster].release()
        return freezes

    def _asked(self, cluster: str) -> tuple[Freeze, ...]:
        try:
            found = self._accesses[cluster].cluster.get(CONFIG_MAPS, self._namespace, CONFIG_MAP)
        except NotFoundError:
            return ()
        except Exception as error:  # noqa: BLE001 - whatever it is: what cannot be read counts as frozen
            return (unreadable(reason_of(error)),)
        return freezes_in_force(found.data, self._now)
