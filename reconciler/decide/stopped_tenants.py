"""Tenants that are stopped because their policies cannot be used.

In their namespaces nothing is decided, but wakes that are due or requested go on there. All the others are decided as
if these namespaces were not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from reconciler.decide.decisions import DesiredState, Notice, PolicyExplanation, Undecided
from reconciler.decide.idling.decide import decide_wakes_due
from reconciler.decide.reasons import ReasonCode, reason, text_of
from reconciler.model import NOTHING, ObservedCluster, ObservedState, Run
from reconciler.policy.types import FederatedReplicaSet, PolicySet, Tenant


def beside_stopped(policies: PolicySet, state: ObservedState) -> tuple[PolicySet, ObservedState]:
    """Return what is decided as ever: the policies and the clusters without the namespaces of stopped tenants.

    A federated ReplicaSet in one of them is left out on all clusters: what it has there would seem to be missing.
    """
    if not policies.stopped:
        return policies, state
    federated = tuple(federated for federated in policies.federated if _stopping(federated, policies) is None)
    return replace(policies, federated=federated), _namespaces(state, policies.stopped, inside=False)


def with_stopped(desired: DesiredState, policies: PolicySet, state: ObservedState, run: Run) -> DesiredState:
    """Return `desired`, made of `beside_stopped`, with the wakes of stopped tenants, and why there is nothing else."""
    stopped = policies.stopped
    if not stopped:
        return desired
    inside = _namespaces(state, stopped, inside=True)
    due = decide_wakes_due(policies.fleet, replace(inside, wakes_only=NOTHING), run)
    return desired.joined(
        due,
        DesiredState(
            undecided=tuple(_undecided(policies)),
            notices=tuple(_notice(tenant, policies) for tenant in stopped),
            explanations=tuple(_explanations(inside, stopped)),
        ),
    )


def _stopping(federated: FederatedReplicaSet, policies: PolicySet) -> Tenant | None:
    """Return the tenant that stops `federated`: it has its namespace in one of the clusters that it is about."""
    clusters = [cluster.name for cluster in policies.fleet.clusters if federated.is_on(cluster.name)]
    space = federated.namespace
    found = (tenant for tenant in policies.stopped if any(tenant.has(cluster, space) for cluster in clusters))
    return next(found, None)


def _namespaces(state: ObservedState, stopped: Sequence[Tenant], *, inside: bool) -> ObservedState:
    """Return the clusters with only what is in the namespaces of `stopped`, or with all the rest."""

    def kept(cluster: ObservedCluster) -> ObservedCluster:
        there = [tenant for tenant in stopped if tenant.has_cluster(cluster.name)]
        return _filtered(cluster, lambda space: any(tenant.has_namespace(space) for tenant in there) is inside)

    return replace(state, clusters={name: kept(cluster) for name, cluster in state.clusters.items()})


def _filtered(cluster: ObservedCluster, keep: Callable[[str], bool]) -> ObservedCluster:
    lists = ("workloads", "services", "endpoints", "endpoint_slices", "autoscalers")
    return replace(
        cluster,
        **{name: tuple([found for found in getattr(cluster, name) if keep(found.ref.namespace)]) for name in lists},
        namespaces=tuple(namespace for namespace in cluster.namespaces if keep(namespace.ref.name)),
        events=tuple(event for event in cluster.events if keep(event.namespace)),
        pods={ref: pods for ref, pods in cluster.pods.items() if keep(ref.namespace)},
    )


def _notice(tenant: Tenant, policies: PolicySet) -> Notice:
    files = sorted({problem.file for problem in policies.problems.get(tenant.name, ())})
    why = (reason(ReasonCode.TENANT_STOPPED, tenant=tenant.name, files=files),)
    then = "its workloads stay as they are, and only wakes that are due or requested are done"
    return Notice("tenantStopped", f"tenant {tenant.name}", f"{text_of(why)}; {then}", partial=True, reasons=why)


def _undecided(policies: PolicySet) -> Iterator[Undecided]:
    for federated in policies.federated:
        tenant = _stopping(federated, policies)
        if tenant is not None:
            why = reason(ReasonCode.TENANT_STOPPED, tenant=tenant.name)
            yield Undecided(federated.key, "placement", federated.name, (why,))


def _explanations(inside: ObservedState, stopped: Sequence[Tenant]) -> Iterator[PolicyExplanation]:
    for cluster in inside.clusters.values():
        for workload in cluster.workloads:
            if workload.owner is not None:
                continue
            tenant = next(tenant for tenant in stopped if tenant.has(cluster.name, workload.ref.namespace))
            why = reason(ReasonCode.TENANT_STOPPED, tenant=tenant.name)
            yield PolicyExplanation(workload.ref, "idling", "", "left as it is", (why,), selected=False)
