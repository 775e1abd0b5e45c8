"""Whether what was woken is up."""

from __future__ import annotations

import threading
from collections import defaultdict

from reconciler.apply.outcomes import Access
from reconciler.backends.protocols import workloads_of
from reconciler.errors import ClusterError
from reconciler.model import ScaleKind
from reconciler.plan.model import Action

POLL_SECONDS = 2.0
_NEWS_SECONDS = POLL_SECONDS - 0.1
"""How long what was seen stays news. A clock that adds up small steps may fall a little short of the whole."""


class Readiness:
    """Which actions' workloads are ready, for all that wait for them: what is ready is not looked at again, anything
    else once in `POLL_SECONDS`, however many wait.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._looking: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._looked: dict[int, float] = {}
        self._ready: set[int] = set()

    def of(self, action: Action, access: Access) -> bool:
        """Return whether the action's workload is ready, as it was seen just now by whoever looked last."""
        if action.id in self._ready:
            return True
        with self._guard:
            looking = self._looking[action.id]
        with looking:  # who comes second waits for what the first one sees
            if action.id not in self._ready and self._is_due(action.id, access.clock.monotonic()):
                if is_ready(action, access):
                    self._ready.add(action.id)
                self._looked[action.id] = access.clock.monotonic()
        return action.id in self._ready

    def _is_due(self, action: int, now: float) -> bool:
        return action not in self._looked or now - self._looked[action] >= _NEWS_SECONDS


def is_ready(action: Action, access: Access) -> bool:
    """Return whether all pods of the action's workload are ready.

    A kind that does not say, or a workload that is gone, does not keep anybody waiting.
    """
    try:
        kinds = access.cluster.scale_kinds()
        kind = next((kind for kind in kinds if _is_kind_of(kind, action)), None)
        if kind is None:
            return True
        workload = access.cluster.get(workloads_of(kind), action.ref.namespace, action.ref.name)
    except ClusterError:
        return True
    return workload.ready_replicas is None or workload.ready_replicas >= workload.spec_replicas


def _is_kind_of(kind: ScaleKind, action: Action) -> bool:
    return (kind.group, kind.kind) == (action.ref.group, action.ref.kind)
