"""Whether an activator accepts the connections of what a run idles: only then is what is behind it scaled."""

from __future__ import annotations

import threading
from math import inf

from msgspec import Struct

from reconciler.apply.access import Access
from reconciler.backends.protocols import ENDPOINT_SLICES, SERVICES
from reconciler.decide.annotations import IDLED_AT
from reconciler.errors import ClusterError
from reconciler.model import ACTIVATOR_MANAGER, MANAGED_BY_LABEL, ObjectRef
from reconciler.time_limit import TimeLimit

POLL_SECONDS = 2.0
NEWS_SECONDS = POLL_SECONDS - 0.1
"""How long what was seen stays news. A clock that adds up small steps may fall a little short of the whole."""

ACCEPTED_WITHIN_SECONDS = 15.0
PROXIES_LEARN_SECONDS = 2.0
"""How long the nodes' proxies may take to follow a new EndpointSlice."""


class _Accepting(Struct):
    """How far one cluster is: the Services that were looked for, those still missing, and since when none is."""

    services: frozenset[ObjectRef]
    limit: TimeLimit
    missing: frozenset[ObjectRef]
    looked_at: float = -inf
    all_since: float | None = None


class Acceptance:
    """Whether an activator accepts the connections of the Services that were recorded as idle, one look for all."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._clusters: dict[str, _Accepting] = {}

    def is_waited_for(self, services: frozenset[ObjectRef], access: Access) -> bool:
        """Return whether what is behind `services`, all those of a cluster, is to be scaled later.

        It waits until all have an EndpointSlice of an activator, and the proxies had time to follow; 15 seconds, or
        half of what the run has left, at most.
        """
        with self._guard:
            now = access.limit.now()
            found = self._clusters.get(access.cluster.name)
            if found is None or found.services != services:
                limit = access.limit.within(min(ACCEPTED_WITHIN_SECONDS, access.limit.left() / 2))
                found = self._clusters[access.cluster.name] = _Accepting(services, limit, services)
            if found.all_since is None and now - found.looked_at >= NEWS_SECONDS:
                found.looked_at = now
                found.missing = _not_accepted(found.missing, access)
                found.all_since = None if found.missing else now
            if found.all_since is None:
                return not found.limit.over
            return now < found.all_since + PROXIES_LEARN_SECONDS

    def missing(self, cluster: str) -> frozenset[ObjectRef]:
        """Return the Services of a cluster for which there was no EndpointSlice in time."""
        with self._guard:
            found = self._clusters.get(cluster)
            return frozenset() if found is None else found.missing


def _not_accepted(services: frozenset[ObjectRef], access: Access) -> frozenset[ObjectRef]:
    """Return those of `services` that are idle, and without an EndpointSlice of an activator.

    What was woken meanwhile has none any more, and what cannot be seen is waited for as if there was none.
    """
    namespaces = {ref.namespace for ref in services}
    inside = namespaces.pop() if len(namespaces) == 1 else ""
    try:
        slices = access.cluster.list(
            ENDPOINT_SLICES, namespace=inside, labels=f"{MANAGED_BY_LABEL}={ACTIVATOR_MANAGER}"
        )
        accepted = {(one.ref.namespace, one.service) for one in slices}
        missing = frozenset(ref for ref in services if (ref.namespace, ref.name) not in accepted)
        if not missing:
            return missing
        found = access.cluster.list(SERVICES, namespace=inside)
    except ClusterError:
        return services
    return missing & {one.ref for one in found if IDLED_AT in one.annotations}
