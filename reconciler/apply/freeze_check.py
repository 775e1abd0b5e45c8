"""Whether a write may still be made: freezes are read again before each batch of writes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from datetime import datetime

from reconciler.apply.access import Access
from reconciler.backends.protocols import CONFIG_MAPS
from reconciler.decide.decisions import Decision
from reconciler.decide.freeze import CONFIG_MAP, freeze_reason, freezes_in_force, unreadable
from reconciler.errors import NotFoundError, reason_of
from reconciler.policy.types import Freeze, Writes
from reconciler.time_limit import TimeLimit

BATCH = 20
"""How many writes on a cluster one reading of its freezes is good for."""

_FREEZE_SECONDS = 5.0
"""And for how long."""


class FreezeCheck:
    """Says of each write whether it may still be made; wakes always may."""

    def __init__(self, accesses: Mapping[str, Access], namespace: str, now: datetime) -> None:
        self._accesses = accesses
        self._namespace = namespace
        self._now = now
        self._guard = threading.Lock()
        self._read: dict[str, tuple[tuple[Freeze, ...], Iterator[int], TimeLimit]] = {}

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
        with self._guard:
            freezes, writes, limit = self._read.get(cluster, ((), iter(()), TimeLimit(0)))
            if next(writes, None) is not None and not limit.over:
                return freezes
        freezes = self._asked(cluster)
        with self._guard:
            self._read[cluster] = freezes, iter(range(BATCH - 1)), TimeLimit(_FREEZE_SECONDS)
        return freezes

    def _asked(self, cluster: str) -> tuple[Freeze, ...]:
        try:
            found = self._accesses[cluster].cluster.get(CONFIG_MAPS, self._namespace, CONFIG_MAP)
        except NotFoundError:
            return ()
        except Exception as error:  # noqa: BLE001 - whatever it is: what cannot be read counts as frozen
            return (unreadable(reason_of(error)),)
        return freezes_in_force(found.data, self._now)
