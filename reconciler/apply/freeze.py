"""Whether somebody froze a cluster since the plan: read again there before each batch of writes."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from datetime import datetime

from reconciler.apply.outcomes import Access
from reconciler.backends.protocols import CONFIG_MAPS
from reconciler.decide.decisions import Decision
from reconciler.decide.freeze import CONFIG_MAP, freeze_reason, freezes_in_force, unreadable
from reconciler.errors import NotFoundError, reason_of
from reconciler.policy.types import Freeze, Writes

BATCH = 20
"""How many writes on a cluster one reading is good for."""

_SECONDS = 5.0
"""And for how long."""


class FreezeCheck:
    """Says of each write whether it may still be made; wakes always may."""

    def __init__(self, accesses: Mapping[str, Access], namespace: str, now: datetime) -> None:
        self._accesses = accesses
        self._namespace = namespace
        self._now = now
        self._guard = threading.Lock()
        self._read: dict[str, _Reading] = {}

    def why_not(self, decision: Decision) -> str:
        """Return why `decision` may not be carried out any more, "" where it may."""
        if decision.writes is not Writes.EVERYTHING:
            return ""
        ref = decision.ref
        found = next((one for one in self._freezes(ref.cluster) if one.covers(ref.cluster, ref.namespace)), None)
        return "" if found is None else f"{ref.cluster}: {freeze_reason(found)}"

    def _freezes(self, cluster: str) -> tuple[Freeze, ...]:
        with self._guard:
            known = self._read.get(cluster)
            if known is not None and known.is_good():
                return known.freezes
        read = _Reading(self._asked(cluster))
        with self._guard:
            self._read[cluster] = read
        return read.freezes

    def _asked(self, cluster: str) -> tuple[Freeze, ...]:
        try:
            found = self._accesses[cluster].cluster.get(CONFIG_MAPS, self._namespace, CONFIG_MAP)
        except NotFoundError:
            return ()
        except Exception as error:  # noqa: BLE001 - whatever it is: what cannot be read counts as frozen
            return (unreadable(reason_of(error)),)
        return freezes_in_force(found.data, self._now)


class _Reading:
    """What was read once, and how much longer that is good for."""

    def __init__(self, freezes: tuple[Freeze, ...]) -> None:
        self.freezes = freezes
        self._left = BATCH - 1
        self._until = time.monotonic() + _SECONDS

    def is_good(self) -> bool:
        """Return whether one more write may rest on it, and count that."""
        self._left -= 1
        return self._left >= 0 and time.monotonic() < self._until
