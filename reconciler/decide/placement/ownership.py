"""Whose a local workload is, as its annotations say, and which federated ReplicaSet may scale it.

`fleets` are the Fleet names whose annotations are ours.
"""

from __future__ import annotations

from reconciler.decide.annotations import PLACING_KIND, Key, capacity_owner, fleet_names, placement_owner, read_placed
from reconciler.decide.change_codes import Fact, fact, field_is
from reconciler.decide.placement.local_replica_sets import label_of
from reconciler.decide.reasons import ReasonCode
from reconciler.decide.selectors import local_ref
from reconciler.model import ObjectRef, ObservedState, Workload
from reconciler.policy.types import FederatedReplicaSet, PolicySet


def owner_of(workload: Workload) -> tuple[str, str] | None:
    """Return (Fleet, "namespace/name") of the federated ReplicaSet that made or placed `workload`; None for none."""
    return placement_owner(workload.annotations) or capacity_owner(workload.annotations) or placed_by(workload)


def placed_by(workload: Workload) -> tuple[str, str] | None:
    """Return (Fleet, "namespace/name") of the federated ReplicaSet that scales what it did not make; None for none."""
    placed = read_placed(workload.annotations)
    return None if placed is None else placed.key


def is_ours(workload: Workload, federated: FederatedReplicaSet, fleets: frozenset[str]) -> bool:
    """Return whether `workload` carries our annotations for `federated`."""
    owner = placement_owner(workload.annotations)
    if owner is not None:
        return owner[0] in fleets and owner[1] == federated.key
    return (
        workload.labels.get(Key.FEDERATED_LABEL) == label_of(federated.name)
        and Key.POLICY_DIGEST in workload.annotations
    )


def is_about(federated: FederatedReplicaSet, cluster: str, workload: Workload | None, fleets: frozenset[str]) -> bool:
    """Return whether `federated` says anything of `workload` (None: of what is not there) on `cluster`: where its
    preferences do not name the cluster, only of what it made there itself.
    """
    if not federated.is_on(cluster):
        return False
    if workload is None or federated.preference(cluster) is not None:
        return True
    return is_ours(workload, federated, fleets) and Key.PLACED not in workload.annotations


def why_not_placed(workload: Workload, federated: FederatedReplicaSet, fleets: frozenset[str]) -> Fact | None:
    """Return why `federated` may not scale `workload`, None where it may: never what another controller owns, or what
    another Fleet made or placed; with a target all else, without one only what is its own, or what it may adopt.
    """
    if workload.owner is not None:
        return fact(ReasonCode.CONTROLLED_BY, owner=f"{workload.owner.kind}/{workload.owner.name}")
    owner, is_made = owner_of(workload), placement_owner(workload.annotations) is not None
    is_its = federated.target is not None or is_ours(workload, federated, fleets)
    if owner is not None and (owner[0] not in fleets or (is_made and not is_its)):
        return fact(ReasonCode.OWNED_BY, owner=f"{owner[0]}/{PLACING_KIND}/{owner[1]}")
    adopts = is_its or federated.on_conflict == "Overwrite"
    return None if adopts else fact(ReasonCode.NOT_MANAGED, field_is("onConflict", "Overwrite"))


def placed_workloads(policies: PolicySet, state: ObservedState) -> dict[ObjectRef, str]:
    """Return the policy's name for every workload that placement decides, on every cluster of the Fleet; without what
    it leaves as it is in `state`.
    """
    fleets = fleet_names(policies.fleet)
    refs = {
        local_ref(federated, cluster.name): federated
        for federated in policies.federated
        for cluster in policies.fleet.clusters
        if federated.is_on(cluster.name)
    }
    unnamed = {ref for ref, federated in refs.items() if federated.preference(ref.cluster) is None}
    left = {
        workload.ref
        for cluster in (state.clusters.values() if unnamed else ())
        for workload in cluster.workloads
        if workload.ref in unnamed and not is_about(refs[workload.ref], cluster.name, workload, fleets)
    }
    return {ref: federated.name for ref, federated in refs.items() if ref not in left}
