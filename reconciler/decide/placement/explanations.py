"""Why a cluster has its number of replicas, as reasons, rows and notices."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from reconciler.decide.change_codes import FindChange
from reconciler.decide.decisions import Cause, Notice, Overridden, PlacementRow, PlacementView, PolicyExplanation
from reconciler.decide.placement.cluster_capacity import DRAINED
from reconciler.decide.placement.desired_replicas import PlacementResult, lagging, placement_result
from reconciler.decide.placement.placement_inputs import LocalWorkload, PlacementCase
from reconciler.decide.placement.pod_counts import PodCounts
from reconciler.decide.placement.recorded_status import ClusterStatus
from reconciler.decide.placement.smallest_change import other_number, preference_of, smallest_change
from reconciler.decide.reasons import Reason, ReasonCode, reason, shared_reason, text_of
from reconciler.messages import counted
from reconciler.policy.types import ClusterPreference


def with_reasons(result: PlacementResult) -> PlacementResult:
    """Return `result` with its reasons: for each cluster why it should run its replicas, as "weight 1 of 4, max 2"."""
    late, served = lagging(result.allocation, result.placed), result.allocation.served
    # Those that drain, or where there is nothing to scale, take no replicas, so that their weights do not count.
    without = {local.cluster for local in result.placed if local.limit in ("draining", "missing")}
    weights = sum(weight for name, weight in zip(served.names, served.weights, strict=True) if name not in without)
    placed = {
        local.cluster: (*_grounds(local, result, weights, late), *_lasting(local, result)) for local in result.placed
    }
    return replace(result, reasons={local.cluster: placed.get(local.cluster, local.reasons) for local in result.locals})


def _grounds(local: LocalWorkload, result: PlacementResult, weights: int, late: Container[str]) -> Iterator[Reason]:
    cluster = local.cluster
    if local.limit in ("draining", "missing"):
        yield from local.reasons
        if keeps := result.keeping.get(cluster):
            yield reason(ReasonCode.FITS_NOWHERE_ELSE, replicas=keeps)
    elif cluster not in result.allocation.served.names:
        yield reason(ReasonCode.NO_PREFERENCE)
    else:
        yield from _preferences(preference_of(local, result), weights, result.replicas[cluster])
        yield from _limits(local, result, late)


def _preferences(own: ClusterPreference, weights: int, replicas: int) -> Iterator[Reason]:
    if own.weight:
        yield shared_reason(ReasonCode.WEIGHT, weight=own.weight, weights=weights)
    else:
        yield shared_reason(ReasonCode.NO_WEIGHT)
    if own.min_replicas:
        yield shared_reason(ReasonCode.MIN_REPLICAS, minReplicas=own.min_replicas)
    if own.max_replicas is not None and replicas >= own.max_replicas:
        yield shared_reason(ReasonCode.MAX_REPLICAS, maxReplicas=own.max_replicas)


def _limits(local: LocalWorkload, result: PlacementResult, late: Container[str]) -> Iterator[Reason]:
    if local.rejection is not None:
        yield from local.reasons
    elif local.cluster in result.overflow:
        yield reason(ReasonCode.CAPACITY, capacity=local.capacity)
        waiting = result.target[local.cluster] - result.replicas[local.cluster]
        if waiting:
            yield reason(ReasonCode.WAITING, waitingReplicas=waiting)
    elif local.cluster in late:
        yield reason(ReasonCode.LAGGING)


def _lasting(local: LocalWorkload, result: PlacementResult) -> Iterator[Reason]:
    """Yield what is not as it should be and may stay so."""
    if local.pods.crashing:
        yield reason(ReasonCode.NOT_AVAILABLE, replicas=local.pods.crashing)
    over = result.next_replicas[local.cluster] - result.target[local.cluster]
    if over > 0:
        yield reason(ReasonCode.MOVES_LATER, replicas=over)


def cause(local: LocalWorkload, result: PlacementResult) -> Cause:
    """Return the cause of a decision about `local`."""
    federated = result.federated
    values: dict[str, Any] = {"total": federated.replicas, "share": result.replicas.get(local.cluster, 0)}
    if local.capacity is not None:
        values["capacity"] = local.capacity
    if local.cluster in result.overflow:
        values["overflow"] = result.overflow[local.cluster]
    if result.taken_off:
        values["elsewhere"] = result.taken_off
    return Cause(federated.name, str(federated.place), result.reasons[local.cluster], values, federated.tenant)


def placement_view(result: PlacementResult) -> PlacementView:
    """Return the rows of one federated ReplicaSet for the report."""
    return PlacementView(
        result.federated.key, result.federated.replicas, tuple(_row(local, result) for local in result.locals)
    )


def _row(local: LocalWorkload, result: PlacementResult) -> PlacementRow:
    known = local.part != "out" and local.spec_replicas is not None
    now = None if local.unread else local.replicas
    return PlacementRow(
        cluster=local.cluster,
        desired=result.replicas.get(local.cluster, local.spec_replicas if known else None),
        spec_replicas=result.next_replicas.get(local.cluster, now),
        current=now,
        running=None if local.unread else local.pods.available,
        capacity=local.capacity,
        overflow=result.overflow.get(local.cluster, 0),
        reasons=result.reasons[local.cluster],
    )


def cluster_statuses(result: PlacementResult) -> dict[str, ClusterStatus]:
    """Return the status of each cluster that has, had or should have replicas.

    `running` is what is asked for, without the replicas that are known to wait or to crash.
    """
    return {local.cluster: _entry(local, result) for local in result.locals if _matters(local, result.next_replicas)}


def _matters(local: LocalWorkload, next_replicas: Mapping[str, int]) -> bool:
    if local.part != "placed":
        return local.workload is not None or local.spec_replicas != 0
    return bool(local.workload or local.limit or local.rejection or next_replicas[local.cluster])


def _entry(local: LocalWorkload, result: PlacementResult) -> ClusterStatus:
    """Return the entry of one cluster. While it is idle the status says what it was awake, and that it is idle."""
    if local.part != "placed":
        readable = local.workload is not None and local.part == "held"
        awake = local.settled is not None and local.settled.state == "HandsOff"
        idle_by = "" if awake else local.idle_by
        stays = bool(local.idle_by) and local.workload is not None
        return ClusterStatus(
            local.spec_replicas,
            local.spec_replicas if readable else None,
            local.reasons,
            idle_by,
            local.idle_until,
            stays,
        )
    spec_replicas = result.next_replicas[local.cluster]
    if local.rejection is not None:
        spec_replicas = local.spec_replicas or 0  # what it asks for in this run may be refused again
    pods = local.pods
    waiting = min(pods.unschedulable, max(0, spec_replicas - pods.current))
    running = max(0, spec_replicas - waiting - pods.crashing)
    return ClusterStatus(spec_replicas, running, result.reasons[local.cluster])


def placement_explanations(result: PlacementResult) -> tuple[PolicyExplanation, ...]:
    """Return for each cluster why it has its number."""
    other = partial(other_number, result.federated, result.allocation.demand, result.taken_off)
    return tuple(_explanation(local, result, other) for local in result.locals)


def _explanation(local: LocalWorkload, result: PlacementResult, other: FindChange) -> PolicyExplanation:
    name = result.federated.key
    if local.part != "placed":
        alone = PolicyExplanation(local.ref, "placement", name, "left alone", local.reasons, local.why.change_if)
        return replace(alone, selected=not local.left_out)
    grounds = (*_steps(local, result), *result.reasons[local.cluster], *_shared(local, result))
    outcome = counted(result.next_replicas[local.cluster], "replica")
    change = smallest_change(local, result) or other
    return PolicyExplanation(local.ref, "placement", name, outcome, grounds, change)


def _steps(local: LocalWorkload, result: PlacementResult) -> Iterator[Reason]:
    """Yield how it came to its replicas."""
    given = result.allocation
    if local.cluster not in given.served.names:
        return
    at, replicas = given.served.names.index(local.cluster), given.replicas[local.cluster]
    minimum = min(given.minimum[at], replicas)  # a maxReplicas below minReplicas may leave less
    kept = min(given.sticky[at], replicas - minimum)
    numbers = {"minimum": minimum, "kept": kept, "share": replicas - minimum - kept}
    parts = [f"{word} {number}" for word, number in numbers.items() if number]
    if parts:
        yield shared_reason(ReasonCode.STEPS, steps=" + ".join(parts))


def _shared(local: LocalWorkload, result: PlacementResult) -> Iterator[Reason]:
    """Yield of how many replicas a weight is a share, where that is not all of them."""
    if local.limit in ("draining", "missing") or not preference_of(local, result).weight:
        return
    if result.taken_off:
        yield shared_reason(ReasonCode.ELSEWHERE, replicas=result.taken_off, total=result.federated.replicas)
    total = result.allocation.demand.total
    minimums = min(total, sum(result.allocation.minimum))
    if minimums:
        yield shared_reason(ReasonCode.MINIMUMS_FIRST, left=total - minimums, total=total)


# What a person should read of it: what is left alone, not available, or more than its share.


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
