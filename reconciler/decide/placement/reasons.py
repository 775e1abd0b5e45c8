"""Why a cluster has the number it has, in words and rows. The words change only when a fact does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reconciler.decide.allocation import LARGEST
from reconciler.decide.placement.facts import Local
from reconciler.decide.placement.outlook import Outlook
from reconciler.decide.placement.probes import moves_with_weight
from reconciler.decide.placement.status import Entry
from reconciler.decide.selection import format_time
from reconciler.decide.types import Cause, Considered, PlacementRow, PlacementView
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
    if local.limit == "missing":
        return [local.why]
    if cluster not in view.shares.served.names:
        return ["no preference for this cluster"]
    return [*_preferences(_preference(local, view), view, cluster), *_limits(local, view)]


def _preference(local: Local, view: Outlook) -> ClusterPreference:
    clusters = view.federated.clusters
    return clusters.get(local.cluster) or clusters.get("*") or ClusterPreference()


def _preferences(own: ClusterPreference, view: Outlook, cluster: str) -> list[str]:
    parts = [f"weight {own.weight} of {view.shares.weight}" if own.weight else "no weight"]
    if own.min_replicas:
        parts.append(f"min {own.min_replicas}")
    if cluster in view.shares.bound:
        parts.append(f"max {own.max_replicas}")
    return parts


def _limits(local: Local, view: Outlook) -> list[str]:
    rejection = local.rejection
    if local.limit == "refused" and rejection is not None and rejection.retry_after is not None:
        return [f"refused {rejection.count} times in a row, tried again at {format_time(rejection.retry_after)}"]
    if local.cluster in view.shares.overflow:
        waiting = view.waiting(local.cluster)
        return [f"room for {local.capacity}", *([f"{waiting} waiting"] if waiting else [])]
    return []


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
    """Return the entry of one cluster. While it is idle its own marks tell that; the status says what it is awake."""
    if local.part != "placed":
        readable = local.workload is not None and local.part == "held"
        return Entry(local.asked, local.asked if readable else None, local.why, stays=bool(local.idle_by))
    asked = view.step[local.cluster]
    waiting = min(local.stuck, max(0, asked - local.current))
    return Entry(asked, max(0, asked - waiting - local.crashing), view.words[local.cluster])


def considered(view: Outlook) -> tuple[Considered, ...]:
    """Return for each cluster why it has its number, and what would change it."""
    totals = view.shares.totals_for_more()
    return tuple(_considered(local, view, totals) for local in view.locals)


def _considered(local: Local, view: Outlook, totals: Mapping[str, int]) -> Considered:
    name = view.federated.name
    if local.part != "placed":
        return Considered(local.ref, "placement", name, "left alone", local.why)
    grounds = f"{_steps(local, view)}{view.words[local.cluster]}"
    outcome = f"{view.step[local.cluster]} replicas"
    return Considered(local.ref, "placement", name, outcome, grounds, _flip(local, view, totals))


def _steps(local: Local, view: Outlook) -> str:
    steps = view.shares.allocation.steps(local.cluster)
    numbers = [("minimum", steps.minimum), ("kept", steps.sticky), ("share", steps.share)]
    told = [f"{word} {number}" for word, number in numbers if number]
    return " + ".join(told) + ": " if told else ""


def _flip(local: Local, view: Outlook, totals: Mapping[str, int]) -> str:
    """Return the smallest change that would give `local` another number, "" where none is known."""
    by_limit = {
        "draining": "state: active in the Fleet",
        "leaving": "state: active in the Fleet",
        "refused": "a write that is not refused",
        "missing": f"a {local.ref.kind} of that name",
    }
    if local.limit in by_limit:
        return by_limit[local.limit]
    if local.cluster in view.shares.overflow:
        return f"room for more than {local.capacity}"
    if local.cluster not in view.shares.served.names:
        return f'an entry for {local.cluster} or "*" in preferences.clusters'
    return _other_preference(local, view) or (f"replicas: {totals[local.cluster]}" if local.cluster in totals else "")


def _other_preference(local: Local, view: Outlook) -> str:
    """Return which preference of its own would give `local` another number, "" where none would."""
    own = _preference(local, view)
    if local.cluster in view.shares.bound:
        return f"maxReplicas above {own.max_replicas}"
    if own.weight or not moves_with_weight(view.shares.allocation, local.cluster, LARGEST):
        return ""
    small = moves_with_weight(view.shares.allocation, local.cluster, 1)
    return "a weight above 0" if small else "a higher weight"
