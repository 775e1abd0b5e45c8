"""What a workload's status says about its rollout, for all three jobs."""

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
    if workload.updated_replicas is None and workload.ref.kind not in THROUGH_REPLICA_SETS:
        return False  # absent means 0 where it is omitted when empty, and "does not say" for other kinds
    return (workload.updated_replicas or 0) < (workload.status_replicas or 0)


def replaces_replica_sets(workload: Workload) -> bool:
    """Return whether a rollout moves the pods of `workload` from one ReplicaSet to another now."""
    return workload.ref.kind in THROUGH_REPLICA_SETS and in_rollout(workload)
