"""The decisions that choices ask for, in the order of writes that leaves no moment without a way back."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

from msgspec.structs import replace

from reconciler.decide.decisions import Decision, Verb
from reconciler.decide.idling.rules import Choice, IdleAction
from reconciler.decide.idling.subjects import is_recorded
from reconciler.decide.idling.wake_order import wake_tiers
from reconciler.decide.idling.write_context import WriteContext
from reconciler.decide.idling.writes_autoscaler import (
    abandoned_decision,
    autoscaler_decisions,
    bounds_first,
    target_decision,
)
from reconciler.decide.idling.writes_service import service_decisions
from reconciler.decide.idling.writes_workload import scalable_decision
from reconciler.model import ObjectRef


def decisions_of(context: WriteContext) -> tuple[Decision, ...]:
    """Return every decision that the choices ask for, sorted by group and order; nothing on a read-only cluster."""
    behind: dict[ObjectRef, list[Choice]] = {}
    for choice in context.live:
        for service in filter(is_recorded, choice.subject.services):
            behind.setdefault(service.ref, []).append(choice)
    on_services = {
        service.ref: service_decisions(service, behind.get(service.ref, ()), inventory, context)
        for service, inventory in context.recorded
        if service.ref in behind or service.has_record
    }
    tiers = wake_tiers(context.live)
    on_workloads = (_with_autoscaler(choice, on_services, tiers, context) for choice in context.live)
    everything = chain(*on_workloads, *on_services.values())
    return tuple(
        sorted(everything, key=lambda decision: (decision.phase, decision.group, decision.order, decision.key))
    )


def abandoned_decisions(context: WriteContext) -> list[Decision]:
    """Return that autoscalers are let go which are held for workloads that are gone."""
    clusters = [cluster for cluster in context.clusters if cluster.name in context.written]
    return [abandoned_decision(autoscaler, context) for cluster in clusters for autoscaler in cluster.abandoned]


def _with_autoscaler(
    choice: Choice,
    on_services: Mapping[ObjectRef, tuple[Decision, ...]],
    tiers: Mapping[ObjectRef, tuple[str, str]],
    context: WriteContext,
) -> list[Decision]:
    own = scalable_decision(choice, context)
    on_target = target_decision(choice, own, context)
    around = [*autoscaler_decisions(choice, own, context), *([] if on_target is None else [on_target])]
    if own is None:
        return around
    needs = [*own.needs, *bounds_first(choice, around)]
    if choice.action is IdleAction.IDLE:
        needs += [] if on_target is None else [on_target.key]
        needs += [
            decision.key
            for service in choice.subject.services
            for decision in on_services.get(service.ref, ())
            if decision.verb is Verb.RECORD
        ]
    wake_tier, wait_ready = tiers.get(choice.ref, ("", ""))
    return [replace(own, needs=tuple(needs), wake_tier=wake_tier, wait_ready=wait_ready), *around]
