"""What would change the number of replicas of a cluster. Only explanations ask that: no decision looks at it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from msgspec.structs import replace

from reconciler.decide.change_codes import ChangeIf, ChangeIfCode, change_if, field_is, joint_change
from reconciler.decide.placement.desired_replicas import PlacementResult
from reconciler.decide.placement.placement_inputs import LocalWorkload
from reconciler.decide.placement.replicas_per_cluster import Allocation, Demand, allocate, candidates
from reconciler.model import ObjectRef
from reconciler.policy.types import ClusterPreference, FederatedReplicaSet
from reconciler.untrusted_text import LARGEST


def smallest_change(local: LocalWorkload, result: PlacementResult) -> ChangeIf | None:
    """Return the smallest change that would give `local` another number, None where it is one of preferences or of the
    total.
    """
    if local.limit == "draining":
        active = local.why.change_if if _differs_if_active(local, result) else None
        elsewhere = _larger_elsewhere(result) if result.keeping.get(local.cluster) else ()
        return joint_change(ChangeIfCode.ANY, (active, *elsewhere))
    if local.why.change_if is not None:
        return local.why.change_if
    if local.cluster in result.overflow:
        return field_is("its capacity", f"above {local.capacity}")
    if local.cluster not in result.allocation.served.names:
        return change_if(ChangeIfCode.CLUSTER_ENTRY, cluster=local.cluster)
    return None


def _differs_if_active(local: LocalWorkload, result: PlacementResult) -> bool:
    """Return whether a cluster that drains would have another number of replicas if it did not."""
    given = result.allocation
    others = {name: limit for name, limit in given.demand.capacity.items() if name != local.cluster}
    free = allocate(given.served, replace(given.demand, capacity=others)).replicas
    return free[local.cluster] != result.replicas[local.cluster]


def _larger_elsewhere(result: PlacementResult) -> Iterator[ChangeIf]:
    """Yield what would let the clusters that are not drained run more: what has no capacity elsewhere goes there."""
    for local in result.placed:
        if local.limit == "draining" or local.cluster not in result.allocation.served.names:
            continue
        most, given = preference_of(local, result).max_replicas, result.replicas[local.cluster]
        if most is not None and given >= most:
            yield field_is(f"maxReplicas of {local.cluster}", f"above {most}")
        elif local.capacity is not None and given >= local.capacity:
            yield field_is(f"the capacity of {local.cluster}", f"above {local.capacity}")


def other_number(federated: FederatedReplicaSet, demand: Demand, taken_off: int, ref: ObjectRef) -> ChangeIf | None:
    """Return which preferences or which total would give `ref` another number, None where none is known.

    What it gets of `demand` is allocated again: a plan need not keep the allocations of all federated ReplicaSets.
    """
    given = allocate(candidates(federated.clusters, tuple(demand.kept)), demand)
    if change := _other_preference(federated, given, ref.cluster):
        return change
    total = _total_for_more(given, ref.cluster)
    return None if total is None else field_is("replicas", taken_off + total)


def _other_preference(federated: FederatedReplicaSet, given: Allocation, cluster: str) -> ChangeIf | None:
    """Return which preference of its own would give `cluster` another number, None where none would."""
    own, served = federated.preference(cluster) or ClusterPreference(), given.replicas[cluster]

    def moves_with(changed: ClusterPreference) -> bool:
        others = candidates({**federated.clusters, cluster: changed}, tuple(given.replicas))
        return allocate(others, given.demand).replicas[cluster] != served

    most = own.max_replicas
    if most is not None and served >= most and moves_with(replace(own, max_replicas=most + 1)):
        return field_is("maxReplicas", f"above {most}")
    if own.weight or not moves_with(replace(own, weight=LARGEST)):
        return None
    return field_is("its weight", "above 0" if moves_with(replace(own, weight=1)) else "higher")


def _total_for_more(given: Allocation, cluster: str) -> int | None:
    """Return from which total on `cluster` gets more, None where that is not known.

    It is known with `fair`, where one replica more takes none from anybody, and while none are given up: what is kept
    of them is another in the next run.
    """
    kept = sum(given.minimum) + sum(given.sticky)

    def gets_more(total: int) -> bool:
        found = allocate(given.served, replace(given.demand, total=total))
        return found.replicas[cluster] > given.replicas[cluster]

    if given.demand.rounding != "Fair" or kept > given.demand.total or not gets_more(LARGEST):
        return None
    return bisect_left(range(LARGEST), True, given.demand.total, key=gets_more)


def preference_of(local: LocalWorkload, result: PlacementResult) -> ClusterPreference:
    """Return what the preferences say of the cluster of `local`, nothing where they do not name it."""
    return result.federated.preference(local.cluster) or ClusterPreference()
