"""What a person should read of a federated ReplicaSet: what is left alone, not available, or more than its share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from reconciler.decide.decisions import Notice, Overridden
from reconciler.decide.placement.cluster_eligibility import DRAINED, LocalWorkload
from reconciler.decide.placement.desired_replicas import PlacementResult, placement_result
from reconciler.decide.placement.placement_inputs import PlacementCase
from reconciler.decide.placement.pod_counts import PodCounts
from reconciler.decide.reasons import text_of
from reconciler.messages import counted


def overridden(result: PlacementResult) -> Iterator[Overridden]:
    """Yield the replicas that placement would give to idle workloads, where they differ."""
    idle = [local for local in result.locals if local.idle_by and local.workload is not None]
    wished = _with_placed(idle, result).next_replicas if idle else {}
    for local in idle:
        if wished[local.cluster] != local.replicas:
            desired = counted(wished[local.cluster], "replica")
            yield Overridden(local.ref, "placement", result.federated.name, desired, local.idle_by, local.reasons)


def _with_placed(more: Sequence[LocalWorkload], result: PlacementResult) -> PlacementResult:
    """Return what would come of it if these took part too, with all that they ask for running."""
    states = {placement.name: placement.cluster.state for placement in result.case.inputs.placements}
    free: dict[str, LocalWorkload] = {}
    for local in more:
        has = local.spec_replicas or 0
        placed = replace(local, part="placed", pods=PodCounts(has, has))
        is_drained = states[local.cluster] in DRAINED
        free[local.cluster] = replace(placed, capacity=0, limit="draining") if is_drained else placed
    return placement_result(result.case, [free.get(local.cluster, local) for local in result.locals])


def notices(result: PlacementResult) -> Iterator[Notice]:
    """Yield the notices: workloads left alone, replicas that are not available, drains that wait, and more."""
    name = result.federated.name
    yield from (local.problem for local in result.locals if isinstance(local.problem, Notice))
    for local in result.placed:
        if local.pods.crashing:
            words = f"{counted(local.pods.crashing, 'replica is', 'replicas are')} placed, not available"
            yield Notice("notAvailable", str(local.ref), words, name)
    for local in result.placed:
        if keeps := result.keeping.get(local.cluster):
            stay = counted(keeps, "replica fits nowhere else and stays", "replicas fit nowhere else and stay")
            yield Notice("drainKeeps", str(local.ref), f"{text_of(local.reasons)}, but {stay}", name)
    yield from _drains_left_alone(result)
    yield from _above_share(result)
    yield from _clusters_left(result.case)


def _drains_left_alone(result: PlacementResult) -> Iterator[Notice]:
    """Yield a notice for each draining cluster whose workload keeps its replicas because it is left alone."""
    for local in result.locals:
        cluster = result.case.inputs.fleet.cluster(local.cluster)
        if cluster is None or cluster.state not in DRAINED or local.part != "held":
            continue
        if local.replicas and local.problem is None:
            stay = counted(local.replicas, "replica stays", "replicas stay")
            text = f"{cluster.state.lower()}, but {stay}: {text_of(local.reasons)}"
            yield Notice("drainKeeps", str(local.ref), text, result.federated.name, reasons=local.reasons)


def _above_share(result: PlacementResult) -> Iterator[Notice]:
    """Yield a notice for each cluster that the policy leaves out as production and that has more than its share.

    One that drains has none, and a notice that it keeps its replicas.
    """
    drained = {one.name for one in result.case.inputs.placements if one.cluster.state in DRAINED}
    kept = [local for local in result.locals if local.left_out and local.cluster not in drained]
    if not any(local.replicas for local in kept):
        return
    target = _with_placed(kept, result).target
    for local in kept:
        share = target[local.cluster]
        if local.replicas > share:
            more = f"keeps {counted(local.replicas, 'replica')}, {local.replicas - share} more than its share"
            text = f"{more}: {text_of(local.reasons)}; it shrinks if {local.why.change_if}"
            yield Notice("aboveShare", str(local.ref), text, result.federated.name, reasons=local.reasons)


def _clusters_left(case: PlacementCase) -> Iterator[Notice]:
    """Yield a notice for each cluster that left the Fleet and was asked to run replicas: nobody looks there again."""
    federated = case.federated
    for cluster in sorted(case.status.entries):
        spec_replicas = case.status.spec_replicas(cluster)
        if spec_replicas and case.inputs.fleet.cluster(cluster) is None:
            stay = counted(spec_replicas, f"replica of {federated.key} stays", f"replicas of {federated.key} stay")
            words = f"left the Fleet; {stay} there, as of the last run"
            yield Notice("clusterLeft", cluster, words, federated.name)
