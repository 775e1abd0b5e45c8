"""Counts of the pods of one local workload: placed on a node, available, unschedulable, crashing, late."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from msgspec import Struct

from reconciler.decide.owners_and_rollouts import is_lagging
from reconciler.model import Pod, Workload
from reconciler.policy.types import FederatedReplicaSet

_BUILT_IN_GROUPS = ("", "apps")
ON_ITS_WAY = timedelta(minutes=1)
"""How long a replica may take until it runs; after that its cluster lags."""


class PodCounts(Struct, frozen=True):
    """Replicas of one local workload.

    `current` are placed on a node; `unschedulable` wait for one, or do not exist, for too long; `crashing` are placed
    but not ready for longer than the progress deadline. `late` should run for a minute by now and do not, whatever
    keeps them: no node, not made, an image, a crash; those that cannot be made count at once.
    """

    current: int = 0
    available: int = 0
    unschedulable: int = 0
    crashing: int = 0
    late: int = 0


def is_calm(workload: Workload) -> bool:
    """Return whether its status alone shows that every replica is placed and ready."""
    return (
        not is_lagging(workload)
        and (workload.ready_replicas or 0) == workload.spec_replicas
        and _failing_since(workload) is None
    )


def available_replicas(workload: Workload, ready: int | None = None) -> int:
    """Return how many replicas are available and stay so: never more than are asked for.

    An absent status field is 0 for built-in kinds; other kinds may have none, and their ready replicas count, or the
    pods counted as `ready`.
    """
    found = workload.available_replicas  # the API server leaves a 0 out
    if found is None and workload.ref.group not in _BUILT_IN_GROUPS:
        found = workload.ready_replicas if workload.ready_replicas is not None else ready
    return min(found or 0, workload.spec_replicas)


def pod_counts(workload: Workload, pods: Iterable[Pod], federated: FederatedReplicaSet, now: datetime) -> PodCounts:
    """Return the counts of `workload` from its `pods`."""
    active = [pod for pod in pods if pod.is_active]
    placed = [pod for pod in active if pod.node]
    waiting_since = _nanoseconds(now - federated.unschedulable_after)
    crashing_since = _nanoseconds(now - federated.progress_deadline)
    late_since = _nanoseconds(now - ON_ITS_WAY)
    missing = max(0, workload.spec_replicas - len(active))
    waiting = [pod for pod in active if not pod.node and pod.unschedulable]
    # Since when is not always known: then since they were made, or for long.
    waits = [pod.created_ns or 0 if pod.unscheduled_since_ns is None else pod.unscheduled_since_ns for pod in waiting]
    unschedulable = sum([since <= waiting_since for since in waits])
    return PodCounts(
        current=len(placed),
        available=available_replicas(workload, sum([pod.ready for pod in placed])),
        unschedulable=unschedulable
        + (missing if _not_made_since(workload, now - federated.unschedulable_after) else 0),
        crashing=sum([not pod.ready and (pod.created_ns or 0) <= crashing_since for pod in placed]),
        late=sum([not pod.ready and (pod.created_ns or 0) <= late_since for pod in active])
        + (missing if _failing_since(workload) or _not_made_since(workload, now - ON_ITS_WAY) else 0),
    )


def _nanoseconds(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1000


def _not_made_since(workload: Workload, before: datetime) -> bool:
    """Return whether replicas that are missing should exist since `before` at the latest."""
    failing = _failing_since(workload)
    since = _asked_since(workload) if failing is None else failing
    return since is not None and since <= before


def _failing_since(workload: Workload) -> datetime | None:
    """Return since when pods of the workload cannot be created (quota, admission), None where they can."""
    failure = workload.condition("ReplicaFailure")
    if failure is None or failure.status != "True" or failure.reason != "FailedCreate":
        return None
    return failure.since or datetime.min.replace(tzinfo=UTC)


def _asked_since(workload: Workload) -> datetime | None:
    """Return a time since which the workload asks for its replicas, None where none is known.

    That is when its replicas were last written, or, for one never changed, when it was made. The age of one that was
    changed says nothing: its pods may just be on their way.
    """
    if workload.replicas_writer is not None and workload.replicas_writer.at is not None:
        return workload.replicas_writer.at
    if workload.generation in (None, 1):
        return workload.created_at or datetime.min.replace(tzinfo=UTC)
    return None
