"""The decisions that choices ask for, in the order of writes that leaves no moment without a way back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from reconciler.decide.decisions import Decision, Verb, group_name
from reconciler.decide.idling.idle_groups import groups_of
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


def decisions_of(choices: Mapping[ObjectRef, Choice], context: WriteContext) -> tuple[Decision, ...]:
    """Return every decision that `choices` ask for, sorted by group and order; nothing on a read-only cluster."""
    written = context.written
    live = [choice for choice in choices.values() if choice.ref.cluster in written and _is_concerned(choice)]
    recorded = [
        (service, cluster.inventory)
        for cluster in context.clusters
        for service in cluster.services
        if is_recorded(service) and cluster.name in written
    ]
    alone = {service.ref: group_name("idling", service.ref) for service, _ in recorded}
    groups, idle_groups = groups_of(live, context.idle_together)
    running = {service.ref for choice in choices.values() if choice.stays_up for service in choice.subject.behind}
    context = replace(
        context,
        groups=alone | groups,
        idle_groups=alone | idle_groups,
        running=frozenset(running),
        down_at=_down_at(choices.values()),
    )
    behind: dict[ObjectRef, list[Choice]] = {}
    for choice in live:
        for service in filter(is_recorded, choice.subject.services):
            behind.setdefault(service.ref, []).append(choice)
    on_services = {
        service.ref: service_decisions(service, behind.get(service.ref, ()), inventory, context)
        for service, inventory in recorded
        if service.ref in behind or service.has_record
    }
    tiers = wake_tiers(live)
    on_workloads = [decision for choice in live for decision in _with_autoscaler(choice, on_services, tiers, context)]
    everything = [*on_workloads, *(decision for found in on_services.values() for decision in found)]
    return tuple(
        sorted(everything, key=lambda decision: (decision.phase, decision.group, decision.order, decision.key))
    )


def abandoned_decisions(context: WriteContext) -> list[Decision]:
    """Return that autoscalers are let go which are held for workloads that are gone."""
    clusters = [cluster for cluster in context.clusters if cluster.name in context.written]
    return [abandoned_decision(autoscaler, context) for cluster in clusters for autoscaler in cluster.abandoned]


def _down_at(choices: Iterable[Choice]) -> dict[ObjectRef, int]:
    """Return the most replicas behind each Service that are no idle of ours, and low enough for it to be idle."""
    found: dict[ObjectRef, int] = {}
    for choice in choices:
        if not choice.stays_up and not choice.stays_idle:
            for service in choice.subject.behind:
                found[service.ref] = max(choice.next_replicas, found.get(service.ref, 0))
    return found


def _is_concerned(choice: Choice) -> bool:
    """Return whether anything may have to be written for it: what just runs, without a record, costs no more work."""
    autoscaler = choice.subject.autoscaler
    recorded = any(service.has_record for service in choice.subject.services)
    return (
        choice.action is not IdleAction.LEAVE
        or recorded
        or choice.subject.on_target is not None
        or (autoscaler is not None and autoscaler.previous is not None)
    )


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
