"""Builders for placement: a federated ReplicaSet, its local ReplicaSets, and one pass over them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from reconciler.decide.annotations import format_time
from reconciler.decide.decisions import Decision, DesiredState
from reconciler.decide.idling.decide import IdlingOutcome
from reconciler.decide.owners_and_rollouts import Settled
from reconciler.decide.placement.decide import decide_placement
from reconciler.decide.placement.local_replica_sets import form_of
from reconciler.decide.placement.recorded_status import status_name
from reconciler.model import ConfigMap, ObjectRef, ObservedCluster, ObservedState, Pod, Workload
from reconciler.policy.kinds.federated_replica_set import TargetRef
from reconciler.policy.types import ClusterPreference, FederatedReplicaSet, Fleet, Tenant
from tests.builders import (
    NOW,
    NOW_NS,
    a_cluster,
    a_federated_replica_set,
    a_fleet,
    a_pod,
    a_policy_set,
    a_run,
    a_workload,
    an_idling_policy,
)

MINUTE_NS = 60 * 10**9
EVENLY = {"*": ClusterPreference(weight=1)}
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "web", "image": "web:1", "resources": {"limits": {"cpu": "0.5"}}}]},
}


def a_federated(replicas: int = 6, **fields: Any) -> FederatedReplicaSet:
    """shop/web, spread evenly, moved freely."""
    defaults: dict[str, Any] = {
        "target": None,
        "rebalance": True,
        "clusters": EVENLY,
        "selector": {"matchLabels": {"app": "web"}},
        "template": TEMPLATE,
    }
    return a_federated_replica_set(**({"replicas": replicas} | defaults | fields))


def a_placed(replicas: int = 6, **fields: Any) -> FederatedReplicaSet:
    """shop/web over Deployments that something else makes."""
    target = TargetRef("apps/v1", "Deployment", "web")
    return a_federated(replicas, **({"selector": None, "template": None, "target": target} | fields))


def a_local(cluster: str, replicas: int, federated: FederatedReplicaSet | None = None, **fields: Any) -> Workload:
    """The settled local ReplicaSet of `federated`, with our marks."""
    form = form_of(federated or a_federated(), a_fleet())
    assert form is not None
    defaults: dict[str, Any] = {
        "annotations": dict(form.annotations),
        "labels": dict(form.labels),
        "template": form.federated.template,
    }
    return a_workload(replicas=replicas, cluster=cluster, kind="ReplicaSet", **(defaults | fields))


IDLE = {
    "idling.kubernetes.io/idled-at": "2026-11-20T15:00:00Z",
    "idling.kubernetes.io/previous-scale": "3",
    "reconciler/idled-to": "0",
    "reconciler/idling-owner": "production/IdlingPolicy/nights",
}


def settled(
    cluster: str, replicas: int, *of: Any, config_maps: tuple[ConfigMap, ...] = (), made: Any = a_local, **fields: Any
) -> ObservedCluster:
    """A cluster with a workload of that many replicas, all of which run."""
    return a_cluster(cluster, workloads=(made(cluster, replicas, *of, **fields),), config_maps=config_maps)


def idle(cluster: str, **fields: Any) -> ObservedCluster:
    """A cluster whose local ReplicaSet had three replicas and was idled by the policy nights."""
    return settled(cluster, 0, annotations={**a_local(cluster, 1).annotations, **IDLE}, **fields)


def a_deployment(cluster: str, replicas: int, **fields: Any) -> Workload:
    return a_workload(replicas=replicas, cluster=cluster, **fields)


def some_pods(placed: int, waiting: int = 0, *, minutes: int = 60, ready: bool = True) -> tuple[Pod, ...]:
    """Pods that are placed, and pods that cannot be scheduled since `minutes` ago."""
    since = NOW_NS - minutes * MINUTE_NS
    running = [a_pod(f"web-{number}", ready=ready, created_ns=since) for number in range(placed)]
    stuck = [
        a_pod(f"new-{number}", node="", ready=False, phase="Pending", unschedulable=True, unscheduled_since_ns=since)
        for number in range(waiting)
    ]
    return (*running, *stuck)


def with_pods(cluster: ObservedCluster, pods: tuple[Pod, ...]) -> ObservedCluster:
    """Answer the question about the pods of the cluster's first workload."""
    return replace(cluster, pods={cluster.workloads[0].ref: pods})


def a_full(cluster: str, replicas: int, placed: int, *, minutes: int = 60, **fields: Any) -> ObservedCluster:
    """A cluster on which `placed` of `replicas` are running and the others found no node, `minutes` ago."""
    status = {"ready_replicas": placed, "available_replicas": placed}
    local = a_local(cluster, replicas, **(status | fields))
    return with_pods(a_cluster(cluster, workloads=(local,)), some_pods(placed, replicas - placed, minutes=minutes))


def a_status(text: str, *, key: str = "shop/web", cluster: str = "east", at: datetime | None = None) -> ConfigMap:
    ref = ObjectRef(cluster, "reconciler", "ConfigMap", status_name(key))
    owner = f"production/FederatedReplicaSet/{key}"
    marks = {"reconciler/status": text, "reconciler/owner": owner}
    return ConfigMap(ref, f"uid-status-{cluster}", annotations=marks | stamped(at))


def a_memory(cluster: str = "east", at: datetime | None = None, **data: str) -> ConfigMap:
    ref = ObjectRef(cluster, "reconciler", "ConfigMap", "reconciler-memory")
    known = {key.replace("_", "-"): text for key, text in data.items()}
    return ConfigMap(ref, f"uid-memory-{cluster}", data=known, annotations=stamped(at))


def stamped(at: datetime | None) -> dict[str, str]:
    """The annotations of what the Fleet production recorded `at`; none for None."""
    return {} if at is None else {"reconciler/recorded-at": format_time(at), "reconciler/fleet": "production"}


def place(
    *clusters: ObservedCluster,
    federated: FederatedReplicaSet | tuple[FederatedReplicaSet, ...] | None = None,
    fleet: Fleet | None = None,
    lost: tuple[str, ...] = (),
    claims: dict[ObjectRef, str] | None = None,
    waking: dict[ObjectRef, Settled] | None = None,
    idling: tuple[str, ...] = (),
    stopped: tuple[Tenant, ...] = (),
    **run: Any,
) -> DesiredState:
    """One pass over `clusters` (the first is home); those in `lost` do not answer. `idling` are names of policies."""
    policies = a_federated() if federated is None else federated
    state = ObservedState(
        clusters={one.name: one for one in clusters if one.name not in lost},
        unreachable=dict.fromkeys(lost, "connection refused"),
    )
    idled = IdlingOutcome(DesiredState(), claims or {}).after(state, frozenset({"production"}))
    names = list(dict.fromkeys([*(one.name for one in clusters), *lost]))
    chosen = policies if isinstance(policies, tuple) else (policies,)
    return decide_placement(
        a_policy_set(
            fleet or a_fleet(*names), federated=chosen, idling=tuple(map(an_idling_policy, idling)), stopped=stopped
        ),
        state,
        a_run(**run),
        lambda ref: (waking or {}).get(ref) or idled(ref),
    )


def a_fleet_with(state: str, *names: str) -> Fleet:
    """A Fleet whose last cluster is in `state`."""
    fleet = a_fleet(*names)
    return replace(fleet, clusters=(*fleet.clusters[:-1], replace(fleet.clusters[-1], state=state)))


def about(desired: DesiredState, cluster: str) -> list[Decision]:
    """The decisions about workloads on `cluster`."""
    return [one for one in desired.decisions if one.ref.cluster == cluster and one.ref.kind != "ConfigMap"]


def numbers(desired: DesiredState) -> dict[str, str]:
    """What becomes of the replicas, as {"east": "scale 4 -> 6"}."""
    return {
        one.ref.cluster: f"{one.verb} {one.replicas_before} -> {one.replicas_after}"
        for one in desired.decisions
        if one.replicas_after is not None
    }


def row(desired: DesiredState, cluster: str, key: str = "shop/web") -> Any:
    """The report's row of one cluster."""
    view = next(view for view in desired.placements if view.key == key)
    return next(found for found in view.rows if found.cluster == cluster)


def ago(**duration: float) -> Any:
    return NOW - timedelta(**duration)
