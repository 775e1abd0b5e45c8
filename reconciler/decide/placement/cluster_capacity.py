"""How many replicas a cluster can hold: none where it drains, what runs there where writes are refused or pods find no
node, else what an earlier run recorded; and when it is tried whether there is more room.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from reconciler.decide.annotations import ObservedCapacity
from reconciler.decide.change_codes import ChangeIfCode, Fact, change_if, fact, field_is
from reconciler.decide.placement.placement_inputs import ClusterPlacement, LocalWorkload, PlacementCase
from reconciler.decide.placement.recorded_status import FIRST_RETRY, Rejection, doubled
from reconciler.decide.reasons import ReasonCode

DRAINED = frozenset({"Draining", "Leaving"})
"""The states of clusters that get no replicas."""

_PROBE = 1
"""How many replicas try a full cluster again where none keep waiting there."""


def with_capacity(local: LocalWorkload, case: PlacementCase, placement: ClusterPlacement) -> LocalWorkload:
    """Return `local`, which takes part, with how many replicas its cluster can hold, where that is known."""
    counts, remembered, now = local.pods, local.remembered, case.inputs.run.now
    state, rejection = placement.cluster.state, case.inputs.rejection(local.ref)
    if state in DRAINED:
        code = ReasonCode.DRAINING if state == "Draining" else ReasonCode.LEAVING
        return replace(local, capacity=0, limit="draining", why=fact(code, field_is("state", "Active in the Fleet")))
    if rejection is not None:
        again = rejection.not_before(now)
        local = replace(local, rejection=rejection, why=_refusals(rejection, again))
        if again is not None:
            return replace(local, capacity=counts.current, limit="refused")
    if counts.unschedulable > 0:
        return replace(local, capacity=counts.current, limit="learned")
    if remembered is not None and counts.current <= remembered.replicas:
        return replace(local, capacity=remembered.replicas, limit="learned")
    return local


def _refusals(rejection: Rejection, again: datetime | None) -> Fact:
    """Return how often a write was refused, and why. The number lets the status change with each refusal."""
    if rejection.count == 1:
        return fact(ReasonCode.WRITE_REFUSED_ONCE, error=rejection.why)
    lift = None if again is None else change_if(ChangeIfCode.WRITE_ACCEPTED)
    return fact(ReasonCode.WRITE_REFUSED, lift, count=rejection.count, retryAfter=again, error=rejection.why)


def capacities(placed: Iterable[LocalWorkload], *, lags: bool = True) -> dict[str, int]:
    """Return the known capacities; with `lags` clusters that lag have no capacity beyond what they run."""
    found = {local.cluster: max(0, local.capacity) for local in placed if local.capacity is not None}
    if lags:
        found |= {
            local.cluster: min(local.kept, found.get(local.cluster, local.kept)) for local in placed if local.pods.late
        }
    return found


def waiting_replicas(case: PlacementCase, memory: ObservedCapacity | None) -> int:
    """Return how many replicas beyond its capacity may wait in a full cluster, to find out whether there is room."""
    if case.federated.waiting_replicas:
        return case.federated.waiting_replicas
    due = memory is not None and memory.retry_after is not None and memory.retry_after <= case.inputs.run.now
    return _PROBE if due else 0


def capacity_after(local: LocalWorkload, is_free: bool, case: PlacementCase) -> ObservedCapacity | None:
    """Return the observed capacity of a cluster after this run, None where it is forgotten or never was known.

    It is forgotten where it `is_free`: it does not bind and everything is settled. It is kept while writes are refused.
    """
    known, now, federated = local.remembered, case.inputs.run.now, case.federated
    if local.limit == "refused":
        return known
    if local.limit != "learned" or local.capacity is None or is_free:
        return None
    owner = "" if federated.target is None else case.owner
    retries = federated.waiting_replicas == 0
    if known is None or known.replicas != local.capacity:
        return ObservedCapacity(local.capacity, now, now + FIRST_RETRY if retries else None, owner)
    if not retries:
        return replace(known, retry_after=None, owner=owner)
    if known.retry_after is None:
        return replace(known, retry_after=now + FIRST_RETRY, owner=owner)
    if local.pods.unschedulable and known.retry_after <= now:
        return ObservedCapacity(local.capacity, now, now + doubled(known.retry_after - known.at), owner)
    return replace(known, owner=owner)
