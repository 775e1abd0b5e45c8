"""Why a cluster has the number it has, in words and rows. The words change only when a fact does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from reconciler.decide.annotations import format_time
from reconciler.decide.decisions import Cause, Considered, PlacementRow, PlacementView
from reconciler.decide.placement.allocation import LARGEST
from reconciler.decide.placement.facts import Local
from reconciler.decide.placement.memory import Rejection
from reconciler.decide.placement.outlook import Outlook
from reconciler.decide.placement.probes import bound_by_maximum, moves_with_weight
from reconciler.decide.placement.status import Entry
from reconciler.policy.types import ClusterPreference


def explained(view: Outlook) -> Outlook:
    """Return `view` with its words: for each cluster why it is to run what it is to run, as "weight 1 of 4, max 2"."""
    return replace(view, words={local.cluster: _why(local, view) for local in view.locals})


def _why(local: Local, view: Outlook) -> str:
    if local.part != "placed":
        return local.why
    return ", ".join([*_grounds(local, view), *_lasting(local, view)])


def _grounds(local: Local, view: Outlook) -> list[str]:
    cluster = local.cluster
    if local.limit in ("draining", "leaving"):
        keeps = view.shares.keeping.get(cluster, 0)
        return [local.limit, *([f"keeps {keeps} that have no room anywhere else"] if keeps else [])]
    if local.limit in ("missing", "no namespace"):
        return [local.why]
    if cluster not in view.shares.served.names:
        return ["no preference for this cluster"]
    return [*_preferences(_preference(local, view), view, cluster), *_limits(local, view)]


def _preference(local: Local, view: Outlook) -> ClusterPreference:
    return view.federated.preference(local.cluster) or ClusterPreference()


def _preferences(own: ClusterPreference, view: Outlook, cluster: str) -> list[str]:
    parts = [f"weight {own.weight} of {view.shares.weight}" if own.weight else "no weight"]
    if own.min_replicas:
        parts.append(f"min {own.min_replicas}")
    if own.max_replicas is not None and view.shares.replicas[cluster] >= own.max_replicas:
        parts.append(f"max {own.max_replicas}")
    return parts


def _limits(local: Local, view: Outlook) -> list[str]:
    if local.rejection is not None:
        return [_refused(local, local.rejection)]
    if local.cluster in view.shares.overflow:
        waiting = view.waiting(local.cluster)
        return [f"room for {local.capacity}", *([f"{waiting} waiting"] if waiting else [])]
    if local.cluster in view.shares.lagging:
        return ["receives nothing from elsewhere until all of its pods run"]
    return []


def _refused(local: Local, rejection: Rejection) -> str:
    """Return how often a write was refused, and why. The number lets the status change with each refusal."""
    times = "once" if rejection.count == 1 else f"{rejection.count} times in a row"
    again = ""
    if local.limit == "refused" and rejection.retry_after is not None:
        again = f", tried again at {format_time(rejection.retry_after)}"
    return f"refused {times}{again}: {rejection.why}"


def _lasting(local: Local, view: Outlook) -> list[str]:
    """What is not as it should be and may stay so."""
    parts = []
    if local.crashing:
        parts.append(f"{local.crashing} placed, not available")
    over = view.step[local.cluster] - view.target[local.cluster]
    if over > 0:
        parts.append(f"{over} more go once as many are available elsewhere")
    return parts


def cause(local: Local, view: Outlook) -> Cause:
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


def placement_view(view: Outlook) -> PlacementView:
    """Return the rows of one federated ReplicaSet for the report."""
    return PlacementView(view.federated.key, view.federated.replicas, tuple(_row(local, view) for local in view.locals))


def _row(local: Local, view: Outlook) -> PlacementRow:
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


def entries(view: Outlook) -> dict[str, Entry]:
    """Return the status of each cluster that has, had or should have replicas.

    `running` is what is asked for, without the replicas that are known to wait or to crash.
    """
    return {local.cluster: _entry(local, view) for local in view.locals if _matters(local, view.step)}


def _matters(local: Local, step: Mapping[str, int]) -> bool:
    if local.part != "placed":
        return local.workload is not None or local.asked != 0
    return bool(local.workload or local.limit or local.rejection or step[local.cluster])


def _entry(local: Local, view: Outlook) -> Entry:
    """Return the entry of one cluster. While it is idle the status says what it was awake, and that it is idle."""
    if local.part != "placed":
        readable = local.workload is not None and local.part == "held"
        stays = bool(local.idle_by) and local.workload is not None
        return Entry(local.asked, local.asked if readable else None, local.why, local.idle_by, stays)
    asked = view.step[local.cluster]
    if local.rejection is not None:
        asked = local.asked or 0  # what it asks for in this run may be refused again
    waiting = min(local.stuck, max(0, asked - local.current))
    return Entry(asked, max(0, asked - waiting - local.crashing), view.words[local.cluster])


@dataclass(frozen=True, slots=True)
class Counterfactuals:
    """What would give clusters another number: `bound` would get one with a higher maxReplicas of their own, `totals`
    says from which total on each gets one more.
    """

    bound: frozenset[str]
    totals: Mapping[str, int]


def considered(view: Outlook, *, flips: bool) -> tuple[Considered, ...]:
    """Return for each cluster why it has its number; with `flips` also what would change it."""
    shares = view.shares
    found = Counterfactuals(bound_by_maximum(shares.allocation), shares.totals_for_more()) if flips else None
    return tuple(_considered(local, view, found) for local in view.locals)


def _considered(local: Local, view: Outlook, found: Counterfactuals | None) -> Considered:
    name = view.federated.name
    if local.part != "placed":
        return Considered(local.ref, "placement", name, "left alone", local.why)
    grounds = f"{_steps(local, view)}{view.words[local.cluster]}{_shared(local, view)}"
    outcome = f"{view.step[local.cluster]} replicas"
    flip = "" if found is None else _flip(local, view, found)
    return Considered(local.ref, "placement", name, outcome, grounds, flip)


def _steps(local: Local, view: Outlook) -> str:
    steps = view.shares.allocation.steps(local.cluster)
    numbers = [("minimum", steps.minimum), ("kept", steps.sticky), ("share", steps.share)]
    told = [f"{word} {number}" for word, number in numbers if number]
    return " + ".join(told) + ": " if told else ""


def _shared(local: Local, view: Outlook) -> str:
    """Return of how many replicas a weight is a share, "" where that is all of them."""
    allocation = view.shares.allocation
    minimums = sum(allocation.minimum)
    if not minimums or not _preference(local, view).weight:
        return ""
    left = max(0, allocation.demand.total - minimums)
    return f"; weights share what the minimums leave, {left} of {allocation.demand.total}"


def _flip(local: Local, view: Outlook, found: Counterfactuals) -> str:
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


def _other_preference(local: Local, view: Outlook, bound: frozenset[str]) -> str:
    """Return which preference of its own would give `local` another number, "" where none would."""
    own = _preference(local, view)
    if local.cluster in bound:
        return f"maxReplicas above {own.max_replicas}"
    if own.weight or not moves_with_weight(view.shares.allocation, local.cluster, LARGEST):
        return ""
    small = moves_with_weight(view.shares.allocation, local.cluster, 1)
    return "a weight above 0" if small else "a higher weight"
