"""What actions of a plan wait for: the workloads of a wake tier to be ready, and activators to accept
the connections of what is idled: only then is what is behind it scaled.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf

from msgspec import Struct, field

from reconciler.apply.access import Access
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.backends.protocols import ENDPOINT_SLICES, SERVICES, workloads_of
from reconciler.decide.annotations import IDLED_AT
from reconciler.decide.decisions import Phase
from reconciler.decide.workloads import is_lagging
from reconciler.errors import ClusterError, ThrottledError, UnreachableError
from reconciler.model import ACTIVATOR_MANAGER, MANAGED_BY_LABEL, ObjectRef
from reconciler.plan.model import Action
from reconciler.time_limit import TimeLimit

POLL_SECONDS = 2.0
NEWS_SECONDS = POLL_SECONDS - 0.1
"""How long what was seen stays news. A clock that adds up small steps may fall a little short of the whole."""

ACCEPTED_WITHIN_SECONDS = 15.0
PROXIES_LEARN_SECONDS = 2.0
"""How long the nodes' proxies may take to follow a new EndpointSlice."""

TIER_WAIT_SECONDS = 600.0


class WaitingActions:
    """Which of `actions` wait, and until when; `done` has the outcomes of those that are over, by their ids."""

    def __init__(
        self, actions: Sequence[Action], accesses: Mapping[str, Access], limit: TimeLimit, done: Mapping[int, Outcome]
    ) -> None:
        self._accesses = accesses
        self._limit = limit
        self._done = done
        self._tiers: dict[str, list[Action]] = {}  # the wakes of each tier in their order
        for action in actions:
            if action.decision.wake_tier:
                self._tiers.setdefault(action.decision.wake_tier, []).append(action)
        self._ready: dict[str, int] = {}  # how many of a tier, from the first, nobody need wait for any more
        self._limits: dict[int, tuple[TimeLimit, float]] = {}  # how long an action waits for its tier, and its seconds
        self._readiness = Readiness()
        # The Services whose connections an activator is to accept, by the ids of the actions that say so.
        self._recorded = {action.id: action.ref for action in actions if action.decision.phase is Phase.ANNOTATE}
        self._acceptance = Acceptance(self._recorded, done)

    def must_wait(self, action: Action) -> bool:
        """Return whether the action still waits for others to be ready.

        It does for ten minutes at most from when this is asked first, and for no more than half of what the run has
        left, so that the wake is done in it.
        """
        if action.decision.wait_activator and self._acceptance.is_waited_for(self._accesses[action.ref.cluster]):
            return True
        if self._first_not_ready(action.wait_ready) is None:
            self._limits.pop(action.id, None)
            return False
        if action.id not in self._limits:
            seconds = min(TIER_WAIT_SECONDS, self._limit.left() / 2)
            self._limits[action.id] = self._accesses[action.ref.cluster].limit.within(seconds), seconds
        return not self._limits[action.id][0].over

    def remark(self, action: Action) -> str:
        """Return the remark on an action that went on although what it waited for was not ready, "" where it was."""
        if action.id in self._limits and (waiting := self._first_not_ready(action.wait_ready)) is not None:
            waited = f"{self._limits[action.id][1] / 60:.3g} minutes"
            return f"went on after {waited}, {waiting.ref} of the tier below not ready yet"
        if not action.decision.wait_activator:
            return ""
        needed = {self._recorded[need] for need in action.needs if need in self._recorded}
        missing = sorted(needed & self._acceptance.missing(action.ref.cluster))
        return f"went on without an activator: it has no EndpointSlice for {missing[0]} yet" if missing else ""

    def _first_not_ready(self, tier: str) -> Action | None:
        """Return the first action of a wake tier that is to be waited for, None where there is none (any more).

        What nobody need wait for stays so: whoever asks goes on where the last one stopped, not from the beginning.
        """
        inside = self._tiers.get(tier, ())
        for position in range(self._ready.get(tier, 0), len(inside)):
            if not self._is_up(inside[position]):
                return inside[position]
            self._ready[tier] = position + 1
        return None

    def _is_up(self, action: Action) -> bool:
        """Return whether nobody need wait for an action (any more): it did not happen, or what it woke is ready."""
        outcome = self._done.get(action.id)
        if outcome is None:
            return False
        if outcome.status is not OutcomeStatus.APPLIED:
            return True
        return self._readiness.of(action, self._accesses[action.ref.cluster])


class Readiness:
    """Which actions' workloads are ready, for all that wait for them: what is ready is not looked at again, anything
    else once in `POLL_SECONDS`, however many wait.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._looking: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._looked: defaultdict[int, float] = defaultdict(lambda: -inf)
        self._ready: set[int] = set()

    def of(self, action: Action, access: Access) -> bool:
        """Return whether the action's workload is ready, as it was seen just now by whoever looked last."""
        if action.id in self._ready:
            return True
        with self._guard:
            looking = self._looking[action.id]
        with looking:  # who comes second waits for what the first one sees
            if action.id not in self._ready and access.limit.now() - self._looked[action.id] >= NEWS_SECONDS:
                if is_ready(action, access):
                    self._ready.add(action.id)
                self._looked[action.id] = access.limit.now()
        return action.id in self._ready


def is_ready(action: Action, access: Access) -> bool:
    """Return whether all pods of the action's workload are ready.

    A kind that does not say, and a workload that is gone or that the run cannot read, keep nobody waiting; while the
    cluster does not answer nobody knows.
    """
    try:
        kinds = access.cluster.scale_kinds()
        kind = next((kind for kind in kinds if (kind.group, kind.kind) == (action.ref.group, action.ref.kind)), None)
        if kind is None:
            return True
        workload = access.cluster.get(workloads_of(kind), action.ref.namespace, action.ref.name)
    except ClusterError as error:
        return not isinstance(error, UnreachableError | ThrottledError)
    if workload.ready_replicas is None:
        return True
    return workload.ready_replicas >= workload.spec_replicas and not is_lagging(workload)


class _Accepting(Struct):
    """How far one cluster is: the Services that are yet to be recorded as idle, those recorded that no activator
    accepts yet, until when one is waited for, and since when none is missing.
    """

    unrecorded: dict[int, ObjectRef] = field(default_factory=dict)
    missing: frozenset[ObjectRef] = frozenset()
    limit: TimeLimit | None = None
    looked_at: float = -inf
    all_since: float | None = None
    guard: threading.Lock = field(default_factory=threading.Lock)


class Acceptance:
    """Whether an activator accepts the connections of the Services that were recorded as idle, one look for all.

    `services` are those that are to be, by the ids of the actions that record them; `done` has the outcomes of those
    that are over.
    """

    def __init__(self, services: Mapping[int, ObjectRef], done: Mapping[int, Outcome]) -> None:
        self._done = done
        self._clusters: dict[str, _Accepting] = {}
        for number, ref in services.items():
            self._of(ref.cluster).unrecorded[number] = ref

    def is_waited_for(self, access: Access) -> bool:
        """Return whether what is behind the Services of a cluster is to be scaled later.

        It waits until all have an EndpointSlice of an activator, and the proxies had time to follow; 15 seconds, or
        half of what the run has left, at most.
        """
        found = self._of(access.cluster.name)
        with found.guard:  # of this cluster alone: one that hangs keeps nobody waiting on others
            now = access.limit.now()
            recorded = self._newly_recorded(found)
            if recorded or found.limit is None:
                found.missing |= recorded
                found.limit = access.limit.within(min(ACCEPTED_WITHIN_SECONDS, access.limit.left() / 2))
                found.looked_at, found.all_since = -inf, None
            if found.all_since is None and now - found.looked_at >= NEWS_SECONDS:
                found.looked_at = now
                found.missing = _not_accepted(found.missing, access)
                found.all_since = None if found.missing else now
            if found.all_since is None:
                return not found.limit.over
            return now < found.all_since + PROXIES_LEARN_SECONDS

    def _newly_recorded(self, found: _Accepting) -> frozenset[ObjectRef]:
        """Return the Services that were recorded since this was asked last: mostly none, however many ask."""
        over = [number for number in found.unrecorded if number in self._done]
        refs = {number: found.unrecorded.pop(number) for number in over}
        return frozenset(ref for number, ref in refs.items() if self._done[number].status is OutcomeStatus.APPLIED)

    def missing(self, cluster: str) -> frozenset[ObjectRef]:
        """Return the Services of a cluster for which there was no EndpointSlice in time."""
        found = self._of(cluster)
        with found.guard:
            return found.missing

    def _of(self, cluster: str) -> _Accepting:
        return self._clusters.setdefault(cluster, _Accepting())  # at once, whoever else asks


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
        accepted = {(endpoint_slice.ref.namespace, endpoint_slice.service) for endpoint_slice in slices}
        missing = frozenset(ref for ref in services if (ref.namespace, ref.name) not in accepted)
        if not missing:
            return missing
        found = access.cluster.list(SERVICES, namespace=inside)
    except ClusterError:
        return services
    return missing & {service.ref for service in found if IDLED_AT in service.annotations}
