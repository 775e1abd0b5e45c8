"""Whose pods go when a workload shrinks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reconciler.decide.owners import OwnerKey, owner_key
from reconciler.decide.victims import is_active
from reconciler.decide.workload_status import THROUGH_REPLICA_SETS
from reconciler.model import ObjectRef, ObservedCluster, Pod, Run, Workload

OWN_PODS = ("ReplicaSet", "ReplicationController", "CloneSet")
"""Kinds that own their pods."""
"""Kinds that own ReplicaSets, and these the pods."""


@dataclass(frozen=True, slots=True)
class Group:
    """The pods of the one ReplicaSet (or the like) that shrinks; `siblings` as in `rank_victims`.

    `split`: several ReplicaSets have pods, so there is no such one.
    """

    pods: tuple[Pod, ...] = ()
    siblings: tuple[Pod, ...] | None = None
    split: bool = False

    @property
    def active(self) -> tuple[Pod, ...]:
        return tuple(pod for pod in self.pods if is_active(pod))


def group_of(kind: str, pods: Sequence[Pod], siblings: tuple[Pod, ...] | None = None) -> Group:
    """Return the pods that a decrease of a workload of `kind` chooses among; `pods` are all of the workload's.

    `siblings` are those of the other ReplicaSets beside a ReplicaSet that has a controller.
    """
    if kind not in THROUGH_REPLICA_SETS:
        return Group(tuple(pods), siblings)
    owners = sorted({pod.owner_uid for pod in pods if is_active(pod)})
    if len(owners) > 1:
        return Group(split=True)
    return Group(
        pods=tuple(pod for pod in pods if pod.owner_uid in owners),
        siblings=tuple(pod for pod in pods if pod.owner_uid not in owners),
    )


def relatives_in(workloads: Iterable[Workload]) -> dict[ObjectRef, tuple[ObjectRef, ...]]:
    """Return for each ReplicaSet that has a controller the other ReplicaSets of that controller.

    Source: kubernetes pkg/controller/replicaset/replica_set.go, getReplicaSetsWithSameController.
    """
    families: dict[OwnerKey, list[ObjectRef]] = {}
    for workload in workloads:
        owner = owner_key(workload) if workload.ref.kind == "ReplicaSet" else None
        if owner is not None:
            families.setdefault(owner, []).append(workload.ref)
    return {ref: tuple(one for one in family if one != ref) for family in families.values() for ref in family}


def siblings_in(observed: ObservedCluster, relatives: Sequence[ObjectRef] | None) -> tuple[Pod, ...] | None:
    """Return the pods of `relatives` (see `relatives_in`), None where there are none because there is no controller."""
    if relatives is None:
        return None
    return tuple(pod for ref in relatives for pod in observed.pods.get(ref, ()))


def nanoseconds_at(run: Run) -> int:
    """Return the run's `now` in nanoseconds since the epoch."""
    return int(run.now.timestamp()) * 10**9
