"""Rulings -> decisions, in the order of writes that leaves no moment without a way back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from reconciler.decide.decisions import Decision, Verb
from reconciler.decide.idling.autoscaler_decisions import autoscaler_decisions, needs_bounds_first
from reconciler.decide.idling.discovery import Inventory
from reconciler.decide.idling.groups import group_name, groups_of, is_marking
from reconciler.decide.idling.making import Making
from reconciler.decide.idling.order import WakeTier, wake_tiers
from reconciler.decide.idling.scalable_decisions import scalable_decision
from reconciler.decide.idling.service_decisions import service_decisions
from reconciler.decide.idling.situations import Ruling
from reconciler.decide.idling.table import Action
from reconciler.decide.idling.targets import Front
from reconciler.model import ObjectRef
from reconciler.policy.types import Writes


def decisions_of(
    rulings: Mapping[ObjectRef, Ruling],
    fronts: Iterable[tuple[Front, Inventory]],
    making: Making,
    together: Iterable[tuple[ObjectRef, ...]] = (),
) -> tuple[Decision, ...]:
    """Return every decision that `rulings` ask for, sorted by group and order; nothing on a read-only cluster."""
    written = {cluster.name for cluster in making.fleet.clusters if cluster.writes is not Writes.NOTHING}
    live = [ruling for ruling in rulings.values() if ruling.ref.cluster in written and _is_concerned(ruling)]
    marked = [(front, found) for front, found in fronts if is_marking(front) and front.ref.cluster in written]
    groups = {front.ref: group_name(front.ref) for front, _ in marked} | groups_of(live)
    together = tuple(together)
    idle_groups = groups | groups_of(live, together) if together else groups
    running = {front.ref for ruling in rulings.values() if ruling.stays_up for front in ruling.target.behind}
    making = replace(making, groups=groups, idle_groups=idle_groups, running=frozenset(running))
    behind: dict[ObjectRef, list[Ruling]] = {}
    for ruling in live:
        for front in ruling.target.fronts:
            behind.setdefault(front.ref, []).append(ruling)
    on_services = {
        front.ref: service_decisions(front, behind.get(front.ref, ()), inventory, making)
        for front, inventory in marked
        if front.ref in behind or front.is_marked
    }
    tiers = wake_tiers(live)
    on_scalables = [decision for ruling in live for decision in _with_autoscaler(ruling, on_services, tiers, making)]
    everything = [*on_scalables, *(decision for found in on_services.values() for decision in found)]
    return tuple(
        sorted(everything, key=lambda decision: (decision.phase, decision.group, decision.order, decision.key))
    )


def _is_concerned(ruling: Ruling) -> bool:
    """Return whether anything may have to be written for it: what just runs, unmarked, costs no more work."""
    hold = ruling.target.hold
    marked = any(front.is_marked for front in ruling.target.fronts)
    return ruling.action is not Action.LEAVE or marked or (hold is not None and hold.previous is not None)


def _with_autoscaler(
    ruling: Ruling,
    on_services: Mapping[ObjectRef, tuple[Decision, ...]],
    tiers: Mapping[ObjectRef, WakeTier],
    making: Making,
) -> list[Decision]:
    own = scalable_decision(ruling, making)
    around = autoscaler_decisions(ruling, own, making)
    if own is None:
        return list(around)
    needs = [*own.needs, *needs_bounds_first(ruling, around)]
    if ruling.action is Action.IDLE:
        needs += [
            decision.key
            for front in ruling.target.fronts
            for decision in on_services.get(front.ref, ())
            if decision.verb is Verb.MARK
        ]
    tier = tiers.get(ruling.ref, WakeTier())
    return [replace(own, needs=tuple(needs), wake_tier=tier.name, wait_ready=tier.after), *around]
