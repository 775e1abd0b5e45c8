"""The desired replicas of every cluster, and the next step towards them that removes no replica that is needed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import ObservedCapacity
from reconciler.decide.placement.cluster_capacity import capacities, capacity_after, waiting_replicas
from reconciler.decide.placement.placement_inputs import LocalWorkload, PlacementCase
from reconciler.decide.placement.recorded_status import PlacementStatus
from reconciler.decide.placement.replicas_per_cluster import (
    Allocation,
    Demand,
    allocate,
    candidates,
    served_order,
    with_overflow,
)
from reconciler.decide.reasons import Reasons
from reconciler.model import NOTHING
from reconciler.policy.types import FederatedReplicaSet


class PlacementResult(Struct, frozen=True):
    """One federated ReplicaSet, decided. Held clusters are in none of the mappings by cluster.

    `replicas` is what each placed cluster should run, `keeping` what draining clusters keep of that because it has no
    room anywhere else. `taken_off` are the replicas of clusters that are held. `target` is what a cluster should ask
    for, waiting replicas included; `next_replicas` what it asks for after this run; `memory` what is known of its room
    then.
    """

    case: PlacementCase
    locals: Sequence[LocalWorkload]
    allocation: Allocation
    replicas: Mapping[str, int]
    keeping: Mapping[str, int]
    taken_off: int
    overflow: Mapping[str, int]  # how much more full clusters would get without what was observed of their room
    target: Mapping[str, int]
    next_replicas: Mapping[str, int]
    memory: Mapping[str, ObservedCapacity | None]
    reasons: Mapping[str, Reasons] = NOTHING  # by cluster

    @property
    def federated(self) -> FederatedReplicaSet:
        return self.case.federated

    @property
    def placed(self) -> list[LocalWorkload]:
        return [local for local in self.locals if local.part == "placed"]


def placement_result(case: PlacementCase, locals_: Sequence[LocalWorkload]) -> PlacementResult:
    """Return the desired replicas of the federated ReplicaSet, and spec.replicas after this run."""
    federated = case.federated
    placed = [local for local in locals_ if local.part == "placed"]
    taken_off, moving = _taken_off(case, locals_)
    demand = Demand(
        total=max(0, federated.replicas - taken_off),
        rebalance=federated.rebalance and moving,
        rounding=federated.rounding,
        key=federated.key,
        kept={local.cluster: local.kept for local in placed},
        capacity=capacities(placed),
    )
    given = allocate(candidates(federated.clusters, [local.cluster for local in placed]), demand)
    overflow = _overflow(given, placed)
    allocation = _with_raise(given, placed, _raised(case, locals_))
    keeping = _keeping(given, allocation, placed)
    replicas = {name: number + keeping.get(name, 0) for name, number in allocation.replicas.items()}
    settled = all(replicas[local.cluster] <= local.pods.current for local in placed)
    memory = {local.cluster: capacity_after(local, settled and local.cluster not in overflow, case) for local in placed}
    target = dict(replicas)
    for local in placed:
        more, waits = overflow.get(local.cluster, 0), waiting_replicas(case, memory[local.cluster])
        if not settled and local.limit == "learned":
            # Those that wait already may go on: what is on its way elsewhere may find no room there, and is missed.
            more = max(more, (local.spec_replicas or 0) - replicas[local.cluster])
        target[local.cluster] += min(more, waits)
    # What the whole federated ReplicaSet can run if every cluster has room must not be lost on the way, also where it
    # has to wait for a cluster that is left alone for now.
    wanted = max(taken_off + _placeable(given, sum(replicas.values())), _placeable_later(given, case, locals_))
    available = sum(local.pods.available for local in locals_ if local.part != "out")
    return PlacementResult(
        case=case,
        locals=locals_,
        allocation=allocation,
        replicas=replicas,
        keeping=keeping,
        taken_off=taken_off,
        overflow=overflow,
        target=target,
        next_replicas=next_step(placed, target, available, wanted),
        memory=memory,
    )


def _overflow(given: Allocation, placed: Iterable[LocalWorkload]) -> Mapping[str, int]:
    """Return how much more each cluster would get that was found to be full.

    By preferences alone, with `rebalance: false` too: what is kept elsewhere must not hide that here is no room.
    """
    learned = [local.cluster for local in placed if local.limit == "learned"]
    return with_overflow(given, replace(given.demand, rebalance=True), learned).overflow if learned else NOTHING


def _raised(case: PlacementCase, locals_: Sequence[LocalWorkload]) -> int:
    """Return by how many replicas the total was raised since the last run; all that nobody has where none is known."""
    total, status = case.federated.replicas, case.status
    if status.desired is not None:
        return max(0, total - status.desired)
    if not case.inputs.home.is_whole:  # there may be a status
        return 0
    return max(0, total - sum(local.spec_replicas or 0 for local in locals_ if local.part != "out"))


def _with_raise(given: Allocation, placed: Sequence[LocalWorkload], raised: int) -> Allocation:
    """Return `given` with those of the `raised` replicas that find no room, on clusters that lag, by weight.

    They never ran anywhere, so they are not moved there.

    Source: seed federated-replicasets.md: "FRSC never moves replicas to LRS that have not scheduled/running pods".
    """
    have = sum(given.replicas.values())
    extra = min(raised, given.demand.total - have)
    if extra <= 0 or not any(local.pods.late for local in placed):
        return given
    capacity = capacities(placed, lags=False)
    demand = replace(given.demand, total=have + extra, rebalance=False, kept=given.replicas, capacity=capacity)
    return allocate(given.served, demand)


def lagging(given: Allocation, placed: Sequence[LocalWorkload]) -> frozenset[str]:
    """Return the clusters that would get more if they did not lag."""
    late = [local.cluster for local in placed if local.pods.late]
    if not late:
        return frozenset()
    free = allocate(given.served, replace(given.demand, capacity=capacities(placed, lags=False))).replicas
    return frozenset(name for name in late if free[name] > given.replicas[name])


def _placeable(given: Allocation, running: int) -> int:
    """Return how many replicas the preferences alone let run, at least those `running`."""
    if not given.demand.capacity:
        return running
    return max(running, sum(allocate(given.served, replace(given.demand, capacity={})).replicas.values()))


def _placeable_later(given: Allocation, case: PlacementCase, locals_: Sequence[LocalWorkload]) -> int:
    """Return how many replicas the preferences let run once clusters that are left alone for now take part; 0 where
    there are none.
    """
    if not any(local.for_now for local in locals_):
        return 0
    names = [local.cluster for local in locals_ if local.part == "placed" or local.for_now]
    demand = replace(given.demand, total=case.federated.replicas, capacity={})
    return sum(allocate(candidates(case.federated.clusters, names), demand).replicas.values())


def _keeping(given: Allocation, allocation: Allocation, placed: Sequence[LocalWorkload]) -> dict[str, int]:
    """Return the replicas that draining clusters keep: of those that `allocation` finds no place for, what they would
    get of `given` if they stayed as full as they are.
    """
    served, demand = given.served, given.demand
    leaving = {local.cluster: local.pods.current for local in placed if local.limit == "draining"}
    if not any(leaving.values()):
        return {}
    left = demand.total - sum(allocation.replicas.values())
    staying = allocate(served, replace(demand, capacity={**demand.capacity, **leaving})).replicas
    keeping: dict[str, int] = {}
    for name in map(served.names.__getitem__, served_order(served, demand)):
        if name in leaving:
            keeping[name] = min(staying[name], left)
            left -= keeping[name]
    return {name: number for name, number in keeping.items() if number}


def _taken_off(case: PlacementCase, locals_: Sequence[LocalWorkload]) -> tuple[int, bool]:
    """Return how many replicas the clusters that are left out have, and whether the others may be rebalanced.

    Where that is unknown of a cluster, it is taken to have what the status does not ask of the others: so they only
    grow by a raised total. Without a status it is what the others do not have, and only stuck replicas move: a move
    makes room before it takes any away, and halfway through it looks like replicas of the unknown cluster. Where nobody
    has any, nothing was placed yet, and each cluster begins with its own part.
    """
    federated, status = case.federated, case.status
    known = sum(local.spec_replicas or 0 for local in locals_ if local.part == "held")
    if not any(local.part == "held" and local.spec_replicas is None for local in locals_):
        return known, True
    if status.desired is not None:
        answering = [
            local for local in locals_ if local.part == "placed" or (local.part == "held" and local.spec_replicas)
        ]
        others = sum(_recorded_replicas(local, status) for local in answering)
        return known + max(0, status.desired - others), True
    if case.inputs.home.is_whole and all(local.workload is None for local in locals_):
        return known + _parts_of_unknown(federated, locals_, federated.replicas - known), True
    due = sum(_own_part(local, federated) for local in locals_ if local.part == "placed")
    return max(known, federated.replicas - due), False


def _parts_of_unknown(federated: FederatedReplicaSet, locals_: Sequence[LocalWorkload], total: int) -> int:
    """Return the replicas that preferences give to the clusters that are unknown: they may run them already."""
    unknown = [local.cluster for local in locals_ if local.part == "held" and local.spec_replicas is None]
    placed = [local for local in locals_ if local.part == "placed"]
    served = candidates(federated.clusters, [*unknown, *(local.cluster for local in placed)])
    capacity = capacities(placed, lags=False)
    demand = Demand(max(0, total), federated.rebalance, federated.rounding, federated.key, capacity=capacity)
    given = allocate(served, demand).replicas
    return sum(given[name] for name in unknown)


def _recorded_replicas(local: LocalWorkload, status: PlacementStatus) -> int:
    """Return spec.replicas of a cluster when the status was written, or now where it is not in the status."""
    spec_replicas = status.spec_replicas(local.cluster)
    return (local.spec_replicas or 0) if spec_replicas is None else spec_replicas


def _own_part(local: LocalWorkload, federated: FederatedReplicaSet) -> int:
    """Return how much of what a cluster asks for is its part of the total: not what waits there as a probe, nor what is
    on its way out.
    """
    own = federated.preference(local.cluster)
    if own is None or local.limit in ("draining", "missing"):
        return 0
    limits = [own.max_replicas, None if local.remembered is None else local.remembered.replicas]
    return min([local.spec_replicas or 0, *(limit for limit in limits if limit is not None)])


# From what a cluster asks for to what it should ask for, in steps that never cost a replica that is needed.


def next_step(
    placed: Sequence[LocalWorkload], targets: Mapping[str, int], available: int, wanted: int
) -> dict[str, int]:
    """Return spec.replicas of each placed cluster after this run.

    Increases are made at once. A decrease costs the available replicas it takes; together they cost no more than
    `available` has above `wanted` (all clusters together), largest first, the rest waits for a later run. Replicas that
    are not available cost nothing. `wanted` 0 has no bound.
    """
    left = available if wanted == 0 else available - min(available, wanted)
    result = {local.cluster: targets[local.cluster] for local in placed}
    costs = {local.cluster: max(0, local.pods.available - targets[local.cluster]) for local in placed}
    for cluster, cost in sorted(costs.items(), key=lambda one: (-one[1], one[0])):
        paid = min(cost, left)
        left -= paid
        result[cluster] += cost - paid
    return result
