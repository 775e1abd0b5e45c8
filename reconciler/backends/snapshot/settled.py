"""What an object without status means: everything it asks for is there. Only what is decoded is filled in."""

from __future__ import annotations

from typing import Any

from reconciler.backends.decode import objects, workloads
from reconciler.backends.decode.scalables import count_at
from reconciler.model import ScaleKind

_PARTS = ("readyReplicas", "availableReplicas", "updatedReplicas")


def fill_status(decoded: Any, scale: ScaleKind | None) -> None:
    """Give `decoded` the status of a settled object where it has none; a status that says anything is kept."""
    if isinstance(decoded, workloads.AppsWorkload | workloads.ReplicaSet | workloads.ReplicationController):
        if decoded.status in (None, workloads.WorkloadStatus()):
            wanted = decoded.spec.replicas if decoded.spec is not None else None
            decoded.status = _status(1 if wanted is None else wanted, decoded)
    elif isinstance(decoded, workloads.Custom):
        if scale is not None and not decoded.status:
            decoded.status = _custom_status(decoded, scale)
    elif isinstance(decoded, objects.Pod) and decoded.status in (None, objects.PodStatus()):
        ready = workloads.StatusCondition("Ready", "True")
        decoded.status = objects.PodStatus(phase="Running", conditions=[ready])


def _status(wanted: int, decoded: Any) -> workloads.WorkloadStatus:
    rolls = isinstance(decoded, workloads.AppsWorkload)
    return workloads.WorkloadStatus(
        replicas=wanted,
        ready_replicas=wanted,
        available_replicas=wanted,
        updated_replicas=wanted if rolls else None,
        observed_generation=decoded.metadata.generation,
    )


def _custom_status(decoded: workloads.Custom, scale: ScaleKind) -> dict[str, Any]:
    recorded = count_at({"spec": decoded.spec or {}}, scale.replicas_path)
    wanted = 1 if recorded is None else recorded
    status: dict[str, Any] = dict.fromkeys(_PARTS, wanted)
    if decoded.metadata.generation is not None:
        status["observedGeneration"] = decoded.metadata.generation
    return put_at({"status": status}, scale.status_path, wanted)["status"]  # type: ignore[no-any-return]


def put_at(value: dict[str, Any], path: tuple[str, ...], inside: Any) -> dict[str, Any]:
    """Return `value` with `inside` at `path` (not empty); mappings on the way are made where there are none."""
    below = value.get(path[0])
    mapping = below if isinstance(below, dict) else {}
    return {**value, path[0]: put_at(mapping, path[1:], inside) if len(path) > 1 else inside}
