"""How many replicas every workload has: what it asks for or, where KEDA keeps it paused, what it is paused at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from reconciler.decide.annotations import PAUSED_REPLICAS
from reconciler.decide.idling.records import readable_part
from reconciler.model import ObjectRef, Workload
from reconciler.untrusted_text import whole_number_in


def targets_of(workloads: Iterable[Workload]) -> dict[ObjectRef, ObjectRef]:
    """Return the target of each ScaledObject of `workloads` that is among them."""
    known = list(workloads)
    steering = {one.ref: one.scale_target for one in known if one.scale_target is not None}
    if not steering:
        return {}
    by_name = {(one.ref.cluster, one.ref.namespace, one.ref.kind, one.ref.name): one.ref for one in known}
    named = {ref: by_name.get((ref.cluster, ref.namespace, *target)) for ref, target in steering.items()}
    return {ref: target for ref, target in named.items() if target is not None}


def replicas_of(
    workloads: Mapping[ObjectRef, Workload], targets: Mapping[ObjectRef, ObjectRef]
) -> dict[ObjectRef, int]:
    """Return the replicas of everything that nothing else with a scale owns or steers; a CronJob 1, suspended 0."""
    found = {
        ref: one.spec_replicas for ref, one in workloads.items() if one.owner is None and ref.kind != "ScaledObject"
    }
    for ref, target in targets.items():
        paused = paused_at(workloads.get(ref))
        if paused is not None and target in found:
            found[target] = paused
    return dict(sorted(found.items()))


def paused_at(scaled: Workload | None) -> int | None:
    """Return at how many replicas a ScaledObject is paused, None where it is not."""
    return None if scaled is None else whole_number_in(scaled.annotations.get(PAUSED_REPLICAS, ""))


def had_of(
    workloads: Mapping[ObjectRef, Workload], targets: Mapping[ObjectRef, ObjectRef], at: datetime
) -> dict[ObjectRef, int]:
    """Return how many replicas those targets had that are idle by a pause of KEDA, as it is recorded."""
    records = {target: readable_part(workloads[ref], at) for ref, target in targets.items() if ref in workloads}
    return {target: record.replicas for target, record in records.items() if record is not None}
