"""What proves, apart from a list on a Service, that we idled a scalable and what it had.

A Service's list is the only record left after `kubectl rollout undo`, which replaces all annotations of a Deployment.
But whoever may annotate a Service may write any list, and need not be allowed to scale anything. So a list speaks only
for what we idled, and its numbers count no further than the scalable itself and what it owns bear them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from reconciler.decide.annotations import FIELD_MANAGER, PREVIOUS_SCALE, idling_owner, whole_number
from reconciler.decide.owners import OwnerKey, own_key, owner_key
from reconciler.errors import AnnotationError
from reconciler.model import Workload


@dataclass(frozen=True, slots=True)
class Evidence:
    """`idled_by_us`: our field manager wrote its replicas last, so what stands there is our idle.

    `most` is the highest number of replicas that a record of ours tells: on the scalable itself, or on a ReplicaSet
    of it, where the Deployment controller copied it; 0 where there is none, since 0 is never recorded.

    Source: kubernetes pkg/controller/deployment/util, copyDeploymentAnnotationsToReplicaSet (it never takes one off).
    """

    idled_by_us: bool = False
    most: int = 0

    @property
    def is_proved(self) -> bool:
        """Whether we idled it with a record that still tells of it."""
        return self.idled_by_us and self.most > 0


class Testimony:
    """The records of one Fleet on the scalables of one cluster, and on what they own."""

    def __init__(self, workloads: Iterable[Workload], fleets: frozenset[str]) -> None:
        self._fleets = fleets
        self._copied: Mapping[OwnerKey, int] = _most_by_owner(workloads, fleets)

    def on(self, workload: Workload) -> Evidence:
        """Return what is proved of `workload`."""
        writer = workload.replicas_writer
        told = _told(workload, self._fleets)
        return Evidence(
            idled_by_us=writer is not None and writer.manager == FIELD_MANAGER,
            most=max(told, self._copied.get(own_key(workload), 0)),
        )


def _most_by_owner(workloads: Iterable[Workload], fleets: frozenset[str]) -> dict[OwnerKey, int]:
    found: dict[OwnerKey, int] = {}
    for workload in workloads:
        owner = owner_key(workload) if PREVIOUS_SCALE in workload.annotations else None
        if owner is not None:
            found[owner] = max(found.get(owner, 0), _told(workload, fleets))
    return found


def _told(workload: Workload, fleets: frozenset[str]) -> int:
    """Return the number that a record of ours on `workload` tells, also a broken one; 0 for none."""
    owner = idling_owner(workload.annotations)
    if owner is None or owner[0] not in fleets:
        return 0
    try:
        return whole_number(workload.annotations.get(PREVIOUS_SCALE), PREVIOUS_SCALE)
    except AnnotationError:
        return 0
