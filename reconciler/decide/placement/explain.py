"""Why a cluster has the number it has, in words and rows. The words change only when a fact does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import format_time
from reconciler.decide.decisions import Cause, PlacementRow, PlacementView, PolicyExplanation
from reconciler.decide.placement.allocation import LARGEST, UNBOUNDED, Allocation, Candidates, allocate, arranged
from reconciler.decide.placement.memory import ClusterStatus, Rejection
from reconciler.decide.placement.observed import LocalWorkload
from reconciler.decide.placement.shares import PlacementResult
from reconciler.policy.types import ClusterPreference


def explained(result: PlacementResult) -> PlacementResult:
    """Return `result` with its words: for each cluster why it should run its replicas, as "weight 1 of 4, max 2"."""
    return replace(result, words={local.cluster: _why(local, result) for local in result.locals})


def _why(local: LocalWorkload, result: PlacementResult) -> str:
    if local.part != "placed":
        return local.why
    return ", ".join([*_grounds(local, result), *_lasting(local, result)])


def _grounds(local: LocalWorkload, result: PlacementResult) -> list[str]:
    cluster = local.cluster
    if local.limit in ("draining", "leaving"):
        keeps = result.shares.keeping.get(cluster, 0)
        return [local.limit, *([f"keeps {keeps} that fit nowhere else"] if keeps else [])]
    if local.limit in ("missing", "no namespace"):
        return [local.why]
    if cluster not in result.shares.served.names:
        return ["no preference for this cluster"]
    return [*_preferences(_preference(local, result), result, cluster), *_limits(local, result)]


def _preference(local: LocalWorkload, result: PlacementResult) -> ClusterPreference:
    return result.federated.preference(local.cluster) or ClusterPreference()


def _preferences(own: ClusterPreference, result: PlacementResult, cluster: str) -> list[str]:
    parts = [f"weight {own.weight} of {result.shares.weight}" if own.weight else "no weight"]
    if own.min_replicas:
        parts.append(f"min {own.min_replicas}")
    if own.max_replicas is not None and result.shares.replicas[cluster] >= own.max_replicas:
        parts.append(f"max {own.max_replicas}")
    return parts


def _limits(local: LocalWorkload, result: PlacementResult) -> list[str]:
    if local.rejection is not None:
        return [_refused(local, local.rejection)]
    if local.cluster in result.shares.overflow:
        waiting = result.waiting(local.cluster)
        return [f"capacity {local.capacity}", *([f"{waiting} waiting"] if waiting else [])]
    if local.cluster in result.shares.lagging:
        return ["lagging: receives no replicas until all of its pods run"]
    return []


def _refused(local: LocalWorkload, rejection: Rejection) -> str:
    """Return how often a write was refused, and why. The number lets the status change with each refusal."""
    times = "once" if rejection.count == 1 else f"{rejection.count} times in a row"
    again = ""
    if local.limit == "refused" and rejection.retry_after is not None:
        again = f", tried again at {format_time(rejection.retry_after)}"
    return f"refused {times}{again}: {rejection.why}"


def _lasting(local: LocalWorkload, result: PlacementResult) -> list[str]:
    """What is not as it should be and may stay so."""
    parts = []
    if local.crashing:
        parts.append(f"{local.crashing} placed, not available")
    over = result.next_replicas[local.cluster] - result.target[local.cluster]
    if over > 0:
        parts.append(f"{over} more move once as many are available elsewhere")
    return parts


def cause(local: LocalWorkload, result: PlacementResult) -> Cause:
    """Return the cause of a decision about `local`."""
    federated = result.federated
    values: dict[str, Any] = {"total": federated.replicas, "share": result.shares.replicas.get(local.cluster, 0)}
    if local.capacity is not None:
        values["capacity"] = local.capacity
    if local.cluster in result.shares.overflow:
        values["overflow"] = result.shares.overflow[local.cluster]
    if result.shares.taken_off:
        values["elsewhere"] = result.shares.taken_off
    return Cause(federated.name, str(federated.place), result.words[local.cluster], values)


def placement_view(result: PlacementResult) -> PlacementView:
    """Return the rows of one federated ReplicaSet for the report."""
    return PlacementView(
        result.federated.key, result.federated.replicas, tuple(_row(local, result) for local in result.locals)
    )


def _row(local: LocalWorkload, result: PlacementResult) -> PlacementRow:
    known = local.part != "out" and local.spec_replicas is not None
    readable = local.workload is not None or local.part == "placed"
    now = None if not readable else 0 if local.workload is None else local.workload.spec_replicas
    return PlacementRow(
        cluster=local.cluster,
        desired=result.shares.replicas.get(local.cluster, local.spec_replicas if known else None),
        spec_replicas=result.next_replicas.get(local.cluster, now),
        current=now,
        running=local.available if readable else None,
        capacity=local.capacity,
        overflow=result.shares.overflow.get(local.cluster, 0),
        why=result.words[local.cluster],
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
        stays = bool(local.idle_by) and local.workload is not None
        return ClusterStatus(
            local.spec_replicas, local.spec_replicas if readable else None, local.why, local.idle_by, stays
        )
    spec_replicas = result.next_replicas[local.cluster]
    if local.rejection is not None:
        spec_replicas = local.spec_replicas or 0  # what it asks for in this run may be refused again
    waiting = min(local.unschedulable, max(0, spec_replicas - local.current))
    return ClusterStatus(spec_replicas, max(0, spec_replicas - waiting - local.crashing), result.words[local.cluster])


class _Counterfactuals(Struct, frozen=True):
    """What would give clusters another number: `bound` would get one with a higher maxReplicas of their own, `totals`
    says from which total on each gets one more.
    """

    bound: frozenset[str]
    totals: Mapping[str, int]


def explanations(result: PlacementResult, *, counterfactuals: bool) -> tuple[PolicyExplanation, ...]:
    """Return for each cluster why it has its number; with `counterfactuals` also what would change it."""
    shares = result.shares
    found = _Counterfactuals(bound_by_maximum(shares.allocation), shares.totals_for_more()) if counterfactuals else None
    return tuple(_explanation(local, result, found) for local in result.locals)


def _explanation(local: LocalWorkload, result: PlacementResult, found: _Counterfactuals | None) -> PolicyExplanation:
    name = result.federated.name
    if local.part != "placed":
        return PolicyExplanation(local.ref, "placement", name, "left alone", local.why)
    grounds = f"{_steps(local, result)}{result.words[local.cluster]}{_shared(local, result)}"
    outcome = f"{result.next_replicas[local.cluster]} replicas"
    counterfactual = "" if found is None else _counterfactual(local, result, found)
    return PolicyExplanation(local.ref, "placement", name, outcome, grounds, counterfactual)


def _steps(local: LocalWorkload, result: PlacementResult) -> str:
    steps = result.shares.allocation.steps(local.cluster)
    numbers = [("minimum", steps.minimum), ("kept", steps.sticky), ("share", steps.share)]
    told = [f"{word} {number}" for word, number in numbers if number]
    return " + ".join(told) + ": " if told else ""


def _shared(local: LocalWorkload, result: PlacementResult) -> str:
    """Return of how many replicas a weight is a share, "" where that is all of them."""
    allocation = result.shares.allocation
    minimums = sum(allocation.minimum)
    if not minimums or not _preference(local, result).weight:
        return ""
    left = max(0, allocation.demand.total - minimums)
    return f"; weights share what the minimums leave, {left} of {allocation.demand.total}"


def _counterfactual(local: LocalWorkload, result: PlacementResult, found: _Counterfactuals) -> str:
    """Return the smallest change that would give `local` another number, "" where none is known."""
    by_limit = {
        "draining": "state: Active in the Fleet",
        "leaving": "state: Active in the Fleet",
        "refused": "a write that is not refused",
        "missing": f"a {local.ref.kind} of that name",
        "no namespace": f"kubectl create namespace {local.ref.namespace}",
    }
    if local.limit in by_limit:
        return by_limit[local.limit]
    if local.cluster in result.shares.overflow:
        return f"capacity above {local.capacity}"
    if local.cluster not in result.shares.served.names:
        return f'an entry for {local.cluster} or "*" in preferences.clusters'
    total = found.totals.get(local.cluster)
    return _other_preference(local, result, found.bound) or ("" if total is None else f"replicas: {total}")


def _other_preference(local: LocalWorkload, result: PlacementResult, bound: frozenset[str]) -> str:
    """Return which preference of its own would give `local` another number, "" where none would."""
    own = _preference(local, result)
    if local.cluster in bound:
        return f"maxReplicas above {own.max_replicas}"
    if own.weight or not moves_with_weight(result.shares.allocation, local.cluster, LARGEST):
        return ""
    small = moves_with_weight(result.shares.allocation, local.cluster, 1)
    return "a weight above 0" if small else "a higher weight"


# What another preference would change: the allocation is made once more, with that one preference changed.


def bound_by_maximum(given: Allocation) -> frozenset[str]:
    """Return the clusters that would get another number if their own maxReplicas were one more."""
    served = given.served
    full = [
        at
        for at, (name, most) in enumerate(zip(served.names, served.maximums, strict=True))
        if most < UNBOUNDED and given.replicas[name] >= most
    ]
    is_left = given.demand.rounding == "Fair" and sum(given.replicas.values()) < given.demand.total
    sure = {at for at in full if is_left and _takes_more(given, at)}
    return frozenset(
        served.names[at] for at in full if at in sure or _moves(given, _widened(served, at), served.names[at])
    )


def _takes_more(given: Allocation, at: int) -> bool:
    """Return whether nothing but its maximum keeps the cluster at `at` from taking what is left over."""
    served = given.served
    room = given.demand.capacity.get(served.names[at], UNBOUNDED)
    return served.weights[at] > 0 and served.minimums[at] <= served.maximums[at] < room


def moves_with_weight(given: Allocation, cluster: str, weight: int) -> bool:
    """Return whether `cluster` would get another number with `weight`, whoever of equal weights is served first."""
    served = given.served
    return _moves(given, _weighed(served, served.names.index(cluster), weight), cluster)


def _moves(given: Allocation, served: Candidates, cluster: str) -> bool:
    return allocate(served, given.demand).replicas[cluster] != given.replicas[cluster]


def _widened(served: Candidates, at: int) -> Candidates:
    maximums = served.maximums
    return replace(served, maximums=(*maximums[:at], maximums[at] + 1, *maximums[at + 1 :]))


def _weighed(served: Candidates, at: int, weight: int) -> Candidates:
    """Return `served` with another weight of the cluster at `at`, behind those of the same weight."""
    weights = (*served.weights[:at], weight, *served.weights[at + 1 :])
    others = [other for other in range(len(weights)) if other != at]
    before = sum(weights[other] >= weight for other in others)
    return arranged(replace(served, weights=weights), [*others[:before], at, *others[before:]])
