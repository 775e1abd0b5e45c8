"""How replicas lie over the clusters, before and after: the numbers behind the pictures."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from reconciler.decide.decisions import Decision, PlacementView
from reconciler.plan.model import Plan, added


@dataclass(frozen=True, slots=True)
class Bar:
    """One cluster; None: unknown. `capacity` None: no limit known."""

    cluster: str
    before: int | None
    after: int | None
    capacity: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Distribution:
    """A row of bars under a title; all bars have the same scale, `top` is its end."""

    title: str
    bars: tuple[Bar, ...]

    @property
    def top(self) -> int:
        numbers = (number for bar in self.bars for number in (bar.before, bar.after, bar.capacity))
        return max((number for number in numbers if number is not None), default=0)

    @property
    def changes(self) -> bool:
        """Whether any cluster has another number afterwards."""
        return any(bar.before != bar.after for bar in self.bars)

    def percent(self, number: int | None) -> float:
        """Return how long the bar of `number` is, in percent of the whole width."""
        return round(100 * (number or 0) / max(1, self.top), 2)


def distributions_of(plan: Plan) -> tuple[Distribution, ...]:
    """Return all workloads that the plan changes taken together, then each federated ReplicaSet over its clusters."""
    changed = _changed([action.decision for action in plan.actions])
    return (*([changed] if changed.bars else []), *map(_placement, plan.placements))


def _changed(decisions: Iterable[Decision]) -> Distribution:
    before: dict[str, int] = {}
    after: dict[str, int] = {}
    for decision in decisions:
        if decision.removed or added(decision):
            cluster = decision.ref.cluster
            before[cluster] = before.get(cluster, 0) + (decision.replicas_before or 0)
            after[cluster] = after.get(cluster, 0) + (decision.replicas_after or 0)
    return Distribution(
        "All workloads this plan changes",
        tuple(Bar(cluster, before[cluster], after[cluster]) for cluster in sorted(before)),
    )


def _placement(view: PlacementView) -> Distribution:
    bars = (Bar(row.cluster, row.current, row.spec_replicas, row.capacity, row.why) for row in view.rows)
    return Distribution(f"{view.key}, {view.total} replicas desired", tuple(bars))
