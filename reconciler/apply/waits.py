"""What actions of a plan wait for: the workloads of a wake tier to be ready, and activators to accept
the connections of what is idled: only then is what is behind it scaled.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import inf

from reconciler.apply.access import Access
from reconciler.apply.outcomes import Outcome, OutcomeStatus
from reconciler.backends.protocols import ENDPOINT_SLICES, SERVICES
from reconciler.decide.annotations import Key
from reconciler.decide.decisions import Phase
from reconciler.decide.owners_and_rollouts import is_lagging
from reconciler.errors import ClusterError, ThrottledError, UnreachableError
from reconciler.model import ACTIVATOR_MANAGER, MANAGED_BY_LABEL, ObjectRef
from reconciler.plan.model import Action
from reconciler.time_limit import TimeLimit

POLL_SECONDS = 2.0
_NEWS_SECONDS = POLL_SECONDS - 0.1
"""How long what was seen stays news. A clock that adds up small steps may fall a little short of the whole."""

ACCEPTED_WITHIN_SECONDS = 15.0
PROXIES_LEARN_SECONDS = 2.0
"""How long the nodes' proxies may take to follow a new EndpointSlice."""

_TIER_WAIT_SECONDS = 600.0


class WaitingActions:
    """Which of `actions` wait, and until when; `done` has the outcomes of those that are over, by their ids."""

    def __init__(
        self, actions: Sequence[Action], accesses: Mapping[str, Access], limit: TimeLimit, done: Mapping[int, Outcome]
    ) -> None:
        self._accesses = accesses
        self._limit = limit
        self._limits: dict[int, tuple[TimeLimit, float]] = {}  # how long an action waits for its tier, and its seconds
        self._tiers: defaultdict[str, Tier] = defaultdict(lambda: Tier(accesses, done))
        self._acceptances: defaultdict[str, Acceptance] = defaultdict(lambda: Acceptance(done))
        # The Services whose connections an activator is to accept, by the ids of the actions that say so.
        self._recorded = {action.id: action.ref for action in actions if action.decision.phase is Phase.ANNOTATE}
        for number, ref in self._recorded.items():
            self._acceptances[ref.cluster].unrecorded[number] = ref
        for action in actions:
            if action.decision.wake_tier:
                self._tiers[action.decision.wake_tier].wakes.append(action)

    def must_wait(self, action: Action) -> bool:
        """Return whether the action still waits for others to be ready.

        It does for ten minutes at most from when this is asked first, and for no more than half of what the run has
        left, so that the wake is done in it.
        """
        cluster = action.ref.cluster
        if action.decision.wait_activator and self._acceptances[cluster].is_waited_for(self._accesses[cluster]):
            return True
        if self._first_not_ready(action) is None:
            self._limits.pop(action.id, None)
            return False
        if action.id not in self._limits:
            seconds = min(_TIER_WAIT_SECONDS, self._limit.left() / 2)
            self._limits[action.id] = self._accesses[cluster].limit.within(seconds), seconds
        return not self._limits[action.id][0].over

    def remark(self, action: Action) -> str:
        """Return the remark on an action that went on although what it waited for was not ready, "" where it was."""
        if action.id in self._limits and (waiting := self._first_not_ready(action)) is not None:
            return f"went on after {self._limits[action.id][1]:.0f} s, {waiting.ref} of the tier below not ready yet"
        if not action.decision.wait_activator:
            return ""
        needed = {self._recorded[need] for need in action.needs if need in self._recorded}
        missing = sorted(needed & self._acceptances[action.ref.cluster].missing)
        return f"went on without an activator: it has no EndpointSlice for {missing[0]} yet" if missing else ""

    def _first_not_ready(self, action: Action) -> Action | None:
        return self._tiers[action.decision.wait_ready].first_not_ready() if action.decision.wait_ready else None


class Tier:
    """The wakes of one tier, which are all on one cluster, for all that wait for them."""

    def __init__(self, accesses: Mapping[str, Access], done: Mapping[int, Outcome]) -> None:
        self.wakes: list[Action] = []
        self._accesses = accesses
        self._done = done
        self._ready = 0  # how many of them, from the first, nobody need wait for any more
        self._looked_at = -inf  # when the next one was
        self._looking = threading.Lock()

    def first_not_ready(self) -> Action | None:
        """Return the first of them that is to be waited for, None where there is none (any more).

        What nobody need wait for stays so: whoever asks goes on where the last one stopped. Anything else is looked at
        once in `POLL_SECONDS`, however many wait; who comes second waits for what the first one sees.
        """
        with self._looking:
            while self._ready < len(self.wakes) and self._is_up(self.wakes[self._ready]):
                self._ready += 1
                self._looked_at = -inf
            return self.wakes[self._ready] if self._ready < len(self.wakes) else None

    def _is_up(self, action: Action) -> bool:
        """Return whether nobody need wait for an action (any more): it did not happen, or what it woke is ready."""
        outcome = self._done.get(action.id)
        if outcome is None or outcome.status is not OutcomeStatus.APPLIED:
            return outcome is not None
        access = self._accesses[action.ref.cluster]
        if access.limit.now() - self._looked_at < _NEWS_SECONDS:
            return False
        is_up = is_ready(action, access)
        self._looked_at = access.limit.now()
        return is_up


def is_ready(action: Action, access: Access) -> bool:
    """Return whether all pods of the action's workload are ready.

    A kind that does not say, and a workload that is gone or that the run cannot read, keep nobody waiting; while the
    cluster does not answer nobody knows.
    """
    try:
        workload = access.workload(action.ref)
    except ClusterError as error:
        return not isinstance(error, UnreachableError | ThrottledError)
    if workload.ready_replicas is None:
        return True
    return workload.ready_replicas >= workload.spec_replicas and not is_lagging(workload)


class Acceptance:
    """Whether an activator accepts the connections of the Services of one cluster that were recorded as idle, one look
    for all that wait.

    `unrecorded` are those that are yet to be, by the ids of the actions that record them; `done` has the outcomes of
    those that are over.
    """

    def __init__(self, done: Mapping[int, Outcome]) -> None:
        self.unrecorded: dict[int, ObjectRef] = {}
        self._done = done
        self._missing: frozenset[ObjectRef] = frozenset()  # that are recorded, and that no activator accepts yet
        self._limit: TimeLimit | None = None
        self._looked_at = -inf
        self._all_since: float | None = None
        self._guard = threading.Lock()

    def is_waited_for(self, access: Access) -> bool:
        """Return whether what is behind the Services is to be scaled later.

        It waits until all have an EndpointSlice of an activator, and the proxies had time to follow; 15 seconds, or
        half of what the run has left, at most.
        """
        with self._guard:
            now = access.limit.now()
            recorded = self._newly_recorded()
            if recorded or self._limit is None:
                self._missing |= recorded
                self._limit = access.limit.within(min(ACCEPTED_WITHIN_SECONDS, access.limit.left() / 2))
                self._looked_at, self._all_since = -inf, None
            if self._all_since is None and now - self._looked_at >= _NEWS_SECONDS:
                self._looked_at = now
                self._missing = _not_accepted(self._missing, access)
                self._all_since = None if self._missing else now
            if self._all_since is None:
                return not self._limit.over
            return now < self._all_since + PROXIES_LEARN_SECONDS

    def _newly_recorded(self) -> frozenset[ObjectRef]:
        """Return the Services that were recorded since this was asked last: mostly none, however many ask."""
        over = [number for number in self.unrecorded if number in self._done]
        refs = {number: self.unrecorded.pop(number) for number in over}
        return frozenset(ref for number, ref in refs.items() if self._done[number].status is OutcomeStatus.APPLIED)

    @property
    def missing(self) -> frozenset[ObjectRef]:
        """The Services for which there was no EndpointSlice in time."""
        with self._guard:
            return self._missing


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
    return missing & {service.ref for service in found if Key.IDLED_AT in service.annotations}
