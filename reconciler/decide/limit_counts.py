"""What limits count: what runs and what is idle, by cluster and tenant, and what was idled since yesterday.

What was idled before on the same hours is not counted (see `last_idled`): a limit does not stop what happened last
night as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from itertools import chain

from msgspec import Struct

from reconciler.decide.annotations import LAST_IDLED, fleet_names, idling_owner
from reconciler.decide.decisions import Decision
from reconciler.decide.last_idled import last_idled
from reconciler.model import NOTHING, HorizontalPodAutoscaler, ObjectRef, ObservedState, Run, Workload
from reconciler.policy.types import Fleet

PolicyKey = tuple[str, str]
"""(job, policy) that decides a decrease; two kinds of policies may have the same name.

A FederatedReplicaSet is "namespace/name", as people see it.
"""

UNITS = ("workloads", "replicas")
DAY = timedelta(hours=24)


class LimitBases(Struct, frozen=True):
    """What limits count with: the replicas that run of each workload, the bases of each cluster and tenant by unit,
    and what policies idled for the first time in the last 24 hours.
    """

    running: Mapping[ObjectRef, int] = NOTHING
    clusters: Mapping[str, Mapping[str, int]] = NOTHING
    tenants: Mapping[str, Mapping[str, int]] = NOTHING
    idled: Mapping[ObjectRef, PolicyKey] = NOTHING

    def removed_by(self, decision: Decision) -> int:
        """Return how many replicas that really run a decision takes away."""
        running = self.running.get(decision.ref)
        if running is None or decision.replicas_after is None:
            return decision.removed
        return min(decision.removed, max(0, running - decision.replicas_after))


def limit_bases(fleet: Fleet, state: ObservedState, run: Run) -> LimitBases:
    """Return what limits count with: a base is what runs and what this Fleet idled, whose replicas count as 1."""
    fleets = fleet_names(fleet)
    clusters = {name: dict.fromkeys(UNITS, 0) for name in sorted(state.clusters)}
    tenants = {tenant.name: dict.fromkeys(UNITS, 0) for tenant in fleet.tenants}
    idled: dict[ObjectRef, PolicyKey] = {}
    tenant_at = cache(fleet.tenant_at)
    workloads = list(chain.from_iterable(_unowned(cluster.workloads) for cluster in state.clusters.values()))
    running = {workload.ref: weight_of(workload) for workload in workloads if workload.kind.scaled_by != "Pause"}
    for workload in workloads:
        ref, annotations = workload.ref, workload.annotations
        owner = idling_owner(annotations) if annotations else None
        is_idle = owner is not None and owner[0] in fleets
        if ref in running and (is_idle or workload.spec_replicas > 0):
            tenant = tenant_at(ref.cluster, ref.namespace)
            for base in (clusters[ref.cluster], *((tenants[tenant.name],) if tenant else ())):
                base["workloads"] += 1
                base["replicas"] += 1 if is_idle else running[ref]
    steered = chain.from_iterable(cluster.autoscalers for cluster in state.clusters.values())
    written: list[Workload | HorizontalPodAutoscaler] = [*workloads, *steered]
    for holder in written:
        last = last_idled(holder.annotations) if LAST_IDLED in holder.annotations else None
        if last is not None and last.first is not None and run.now - DAY < last.first <= run.now:
            idled[holder.ref] = ("idling", last.policy)
    return LimitBases(running, clusters, tenants, idled)


def weight_of(workload: Workload) -> int:
    """Return the replicas that a workload counts: what really runs, and no more than is asked for.

    Whoever may write a number of replicas must not move a limit by it. A kind that does not say what runs counts 1.
    """
    if not workload.kind.counts:
        return 0
    return min(workload.spec_replicas, 1 if workload.status_replicas is None else workload.status_replicas)


def scalable_workloads(state: ObservedState) -> list[Workload]:
    """Return what limits count: everything with a scale that nothing else with a scale owns or steers."""
    return [
        workload
        for name in sorted(state.clusters)
        for workload in _unowned(state.clusters[name].workloads)
        if workload.kind.scaled_by != "Pause"
    ]


def _unowned(workloads: Sequence[Workload]) -> Iterator[Workload]:
    """Yield those of the `workloads` of a cluster that none of the others owns.

    A Deployment's annotations are copied to its ReplicaSets: what they say, the Deployment says too.
    """
    names = {(workload.ref.namespace, workload.ref.kind, workload.ref.name) for workload in workloads}
    for workload in workloads:
        if workload.owner is None or (workload.ref.namespace, workload.owner.kind, workload.owner.name) not in names:
            yield workload
