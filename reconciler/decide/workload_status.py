"""What a workload's own status says of it, for all three jobs."""

from __future__ import annotations

from reconciler.model import Workload

THROUGH_REPLICA_SETS = ("Deployment", "Rollout")
"""Kinds whose pods belong to ReplicaSets. Their status leaves `updatedReplicas` out where it is 0."""


def is_lagging(workload: Workload) -> bool:
    """Return whether the workload's controller has not looked at its spec yet."""
    observed, generation = workload.observed_generation, workload.generation
    return observed is not None and generation is not None and observed < generation


def in_rollout(workload: Workload) -> bool:
    """Return whether the pods of `workload` are being replaced; one past its progress deadline is not."""
    if is_lagging(workload):
        return True
    progressing = workload.condition("Progressing")
    if progressing is not None and progressing.status == "False":
        return False
    return _updated(workload) < (workload.status_replicas or 0)


def replaces_replica_sets(workload: Workload) -> bool:
    """Return whether a rollout moves the pods of `workload` from one ReplicaSet to another now."""
    return workload.ref.kind in THROUGH_REPLICA_SETS and in_rollout(workload)


def _updated(workload: Workload) -> int:
    """Return how many pods are of the newest template; a kind that does not say has no others."""
    # Absent means 0 for a Deployment (omitempty), and "does not say" for kinds without the field.
    if workload.updated_replicas is None and workload.ref.kind not in THROUGH_REPLICA_SETS:
        return workload.status_replicas or 0
    return workload.updated_replicas or 0
