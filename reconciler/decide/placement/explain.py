"""Why a cluster has the number it has, in words and rows. The words change only when a fact does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.decide.annotations import format_time
from reconciler.decide.decisions import Cause, Considered, PlacementRow, PlacementView
from reconciler.decide.placement.allocation import LARGEST, UNBOUNDED, Allocation, Candidates, allocate, arranged
from reconciler.decide.placement.memory import ClusterStatus, Rejection
from reconciler.decide.placement.observed import LocalWorkload
from reconciler.decide.placement.shares import PlacementResult
from reconciler.policy.types import ClusterPreference


def explained(view: PlacementResult) -> PlacementResult:
    """Return `view` with its words: for each cluster why it is to run what it is to run, as "weight 1 of 4, max 2"."""
    return replace(view, words={local.cluster: _why(local, view) for local in view.locals})


def _why(local: LocalWorkload, view: PlacementResult) -> str:
    if local.part != "placed":
        return local.why
    return ", ".join([*_grounds(local, view), *_lasting(local, view)])


def _grounds(local: LocalWorkload, view: PlacementResult) -> list[str]:
    cluster = local.cluster
    if local.limit in ("draining", "leaving"):
        keeps = view.shares.keeping.get(cluster, 0)
        return [local.limit, *([f"keeps {keeps} that have no room anywhere else"] if keeps else [])]
    if local.limit in ("missing", "no namespace"):
        return [local.why]
    if cluster not in view.shares.served.names:
        return ["no preference for this cluster"]
    return [*_preferences(_preference(local, view), view, cluster), *_limits(local, view)]


def _preference(local: LocalWorkload, view: PlacementResult) -> ClusterPreference:
    return view.federated.preference(local.cluster) or ClusterPreference()


def _preferences(own: ClusterPreference, view: PlacementResult, cluster: str) -> list[str]:
    parts = [f"weight {own.weight} of {view.shares.weight}" if own.weight else "no weight"]
    if own.min_replicas:
        parts.append(f"min {own.min_replicas}")
    if own.max_replicas is not None and view.shares.replicas[cluster] >= own.max_replicas:
        parts.append(f"max {own.max_replicas}")
    return parts


def _limits(local: LocalWorkload, view: PlacementResult) -> list[str]:
    if local.rejection is not None:
        return [_refused(local, local.rejection)]
    if local.cluster in view.shares.overflow:
        waiting = view.waiting(local.cluster)
        return [f"room for {local.capacity}", *([f"{waiting} waiting"] if waiting else [])]
    if local.cluster in view.shares.lagging:
        return ["receives nothing from elsewhere until all of its pods run"]
    return []


def _refused(local: LocalWorkload, rejection: Rejection) -> str:
    """Return how often a write was refused, and why. The number lets the status change with each refusal."""
    times = "once" if rejection.count == 1 else f"{rejection.count} times in a row"
    again = ""
    if local.limit == "refused" and rejection.retry_after is not None:
        again = f", tried again at {format_time(rejection.retry_after)}"
    return f"refused {times}{again}: {rejection.why}"


def _lasting(local: LocalWorkload, view: PlacementResult) -> list[str]:
    """What is not as it should be and may stay so."""
    parts = []
    if local.crashing:
        parts.append(f"{local.crashing} placed, not available")
    over = view.step[local.cluster] - view.target[local.cluster]
    if over > 0:
        parts.append(f"{over} more go once as many are available elsewhere")
    return parts


def cause(local: LocalWorkload, view: PlacementResult) -> Cause:
    """Return the cause of a decision about `local`."""
    federated = view.federated
    values: dict[str, Any] = {"total": federated.replicas, "share": view.shares.replicas.get(local.cluster, 0)}
    if local.capacity is not None:
        values["capacity"] = local.capacity
    if local.cluster in view.shares.overflow:
        values["overflow"] = view.shares.overflow[local.cluster]
    if view.shares.taken_off:
        values["elsewhere"] = view.shares.taken_off
    return Cause(federated.name, str(federated.place), view.words[local.cluster], values)


def placement_view(view: PlacementResult) -> PlacementView:
    """Return the rows of one federated ReplicaSet for the report."""
    return PlacementView(view.federated.key, view.federated.replicas, tuple(_row(local, view) for local in view.locals))


def _row(local: LocalWorkload, view: PlacementResult) -> PlacementRow:
    known = local.part != "out" and local.asked is not None
    readable = local.workload is not None or local.part == "placed"
    now = None if not readable else 0 if local.workload is None else local.workload.wanted
    return PlacementRow(
        cluster=local.cluster,
        wanted=view.shares.replicas.get(local.cluster, local.asked if known else None),
        asked=view.step.get(local.cluster, now),
        current=now,
        running=local.available if readable else None,
        capacity=local.capacity,
        overflow=view.shares.overflow.get(local.cluster, 0),
        why=view.words[local.cluster],
    )


def cluster_statuses(view: PlacementResult) -> dict[str, ClusterStatus]:
    """Return the status of each cluster that has, had or should have replicas.

    `running` is what is asked for, without the replicas that are known to wait or to crash.
    """
    return {local.cluster: _entry(local, view) for local in view.locals if _matters(local, view.step)}


def _matters(local: LocalWorkload, step: Mapping[str, int]) -> bool:
    if local.part != "placed":
        return local.workload is not None or local.asked != 0
    return bool(local.workload or local.limit or local.rejection or step[local.cluster])


def _entry(local: LocalWorkload, view: PlacementResult) -> ClusterStatus:
    """Return the entry of one cluster. While it is idle the status says what it was awake, and that it is idle."""
    if local.part != "placed":
        readable = local.workload is not None and local.part == "held"
        stays = bool(local.idle_by) and local.workload is not None
        return ClusterStatus(local.asked, local.asked if readable else None, local.why, local.idle_by, stays)
    asked = view.step[local.cluster]
    if local.rejection is not None:
        asked = local.asked or 0  # what it asks for in this run may be refused again
    waiting = min(local.stuck, max(0, asked - local.current))
    return ClusterStatus(asked, max(0, asked - waiting - local.crashing), view.words[local.cluster])


@dataclass(frozen=True, slots=True)
class _Counterfactuals:
    """What would give clusters another number: `bound` would get one with a higher maxReplicas of their own, `totals`
    says from which total on each gets one more.
    """

    bound: frozenset[str]
    totals: Mapping[str, int]


def explanations(view: PlacementResult, *, flips: bool) -> tuple[Considered, ...]:
    """Return for each cluster why it has its number; with `flips` also what would change it."""
    shares = view.shares
    found = _Counterfactuals(bound_by_maximum(shares.allocation), shares.totals_for_more()) if flips else None
    return tuple(_explanation(local, view, found) for local in view.locals)


def _explanation(local: LocalWorkload, view: PlacementResult, found: _Counterfactuals | None) -> Considered:
    name = view.federated.name
    if local.part != "placed":
        return Considered(local.ref, "placement", name, "left alone", local.why)
    grounds = f"{_steps(local, view)}{view.words[local.cluster]}{_shared(local, view)}"
    outcome = f"{view.step[local.cluster]} replicas"
    flip = "" if found is None else _counterfactual(local, view, found)
    return Considered(local.ref, "placement", name, outcome, grounds, flip)


def _steps(local: LocalWorkload, view: PlacementResult) -> str:
    steps = view.shares.allocation.steps(local.cluster)
    numbers = [("minimum", steps.minimum), ("kept", steps.sticky), ("share", steps.share)]
    told = [f"{word} {number}" for word, number in numbers if number]
    return " + ".join(told) + ": " if told else ""


def _shared(local: LocalWorkload, view: PlacementResult) -> str:
    """Return of how many replicas a weight is a share, "" where that is all of them."""
    allocation = view.shares.allocation
    minimums = sum(allocation.minimum)
    if not minimums or not _preference(local, view).weight:
        return ""
    left = max(0, allocation.demand.total - minimums)
    return f"; weights share what the minimums leave, {left} of {allocation.demand.total}"


def _counterfactual(local: LocalWorkload, view: PlacementResult, found: _Counterfactuals) -> str:
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
    if local.cluster in view.shares.overflow:
        return f"room for more than {local.capacity}"
    if local.cluster not in view.shares.served.names:
        return f'an entry for {local.cluster} or "*" in preferences.clusters'
    total = found.totals.get(local.cluster)
    return _other_preference(local, view, found.bound) or ("" if total is None else f"replicas: {total}")


def _other_preference(local: LocalWorkload, view: PlacementResult, bound: frozenset[str]) -> str:
    """Return which preference of its own would give `local` another number, "" where none would."""
    own = _preference(local, view)
    if local.cluster in bound:
        return f"maxReplicas above {own.max_replicas}"
    if own.weight or not moves_with_weight(view.shares.allocation, local.cluster, LARGEST):
        return ""
    small = moves_with_weight(view.shares.allocation, local.cluster, 1)
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
