"""One federated ReplicaSet, decided: for each cluster what it should run, what it asks for after this run, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reconciler.decide.annotations import ObservedCapacity, placement_owner_text
from reconciler.decide.placement.facts import Local
from reconciler.decide.placement.memory import FIRST_RETRY, doubled
from reconciler.decide.placement.moves import available_in_all, next_step
from reconciler.decide.placement.shares import Before, Shares, shares
from reconciler.decide.placement.sites import Surroundings
from reconciler.decide.placement.status import Status
from reconciler.model import NOTHING
from reconciler.policy.types import FederatedReplicaSet

PROBE = 1
"""How many replicas try a full cluster again where none keep waiting there."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """`target` is what a placed cluster should ask for, waiting replicas included; `step` what it asks for after this
    run; `memory` what is known of its room then. All by cluster; held clusters are in none of them.
    """

    federated: FederatedReplicaSet
    locals: Sequence[Local]
    shares: Shares
    target: Mapping[str, int]
    step: Mapping[str, int]
    memory: Mapping[str, ObservedCapacity | None]
    words: Mapping[str, str] = NOTHING  # why, by cluster

    @property
    def placed(self) -> list[Local]:
        return [local for local in self.locals if local.part == "placed"]

    def waiting(self, cluster: str) -> int:
        """Return how many replicas are asked for there just to show when there is room."""
        return self.target[cluster] - self.shares.replicas[cluster]


def outlook(
    federated: FederatedReplicaSet, locals_: Sequence[Local], status: Status | None, around: Surroundings
) -> Outlook:
    """Return what `federated` should look like, and the step this run makes towards it."""
    given = shares(federated, locals_, Before(status, around.home.is_whole))
    placed = [local for local in locals_ if local.part == "placed"]
    settled = all(given.replicas[local.cluster] <= local.current for local in placed)
    memory = {local.cluster: _memory(local, given, settled, federated, around) for local in placed}
    target = {
        local.cluster: given.replicas[local.cluster]
        + min(_beyond(local, given, settled), _waits(federated, memory[local.cluster], around.run.now))
        for local in placed
    }
    step = next_step(placed, target, available_in_all(locals_), given.wanted)
    return Outlook(federated, locals_, given, target, step, memory)


def _beyond(local: Local, given: Shares, settled: bool) -> int:
    """Return how many replicas more than it should run a full cluster may be asked for, to show when there is room.

    Until everything is settled those that wait already may go on waiting: replicas that are on their way elsewhere may
    find no room there, and are missed here then.
    """
    overflow = given.overflow.get(local.cluster, 0)
    if settled or local.limit != "learned":
        return overflow
    return max(overflow, (local.asked or 0) - given.replicas[local.cluster])


def _waits(federated: FederatedReplicaSet, memory: ObservedCapacity | None, now: datetime) -> int:
    if federated.waiting_replicas:
        return federated.waiting_replicas
    due = memory is not None and memory.retry_after is not None and memory.retry_after <= now
    return PROBE if due else 0


def _memory(
    local: Local, given: Shares, settled: bool, federated: FederatedReplicaSet, around: Surroundings
) -> ObservedCapacity | None:
    """Return what is known of the room of a cluster after this run, None where it is forgotten or never was known.

    It is forgotten when it does not bind and everything is settled, and kept while writes are refused there.
    """
    known, now = local.remembered, around.run.now
    if local.limit == "refused":
        return known
    if local.limit != "learned" or local.capacity is None or (settled and local.cluster not in given.overflow):
        return None
    owner = "" if federated.target is None else placement_owner_text(around.fleet, federated.key)
    retries = federated.waiting_replicas == 0
    if known is None or known.replicas != local.capacity:
        return ObservedCapacity(local.capacity, now, now + FIRST_RETRY if retries else None, owner)
    if not retries:
        return replace(known, retry_after=None, owner=owner)
    if known.retry_after is None:
        return replace(known, retry_after=now + FIRST_RETRY, owner=owner)
    if local.stuck and known.retry_after <= now:
        return ObservedCapacity(local.capacity, now, now + doubled(known.retry_after - known.at), owner)
    return replace(known, owner=owner)
