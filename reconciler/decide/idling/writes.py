"""Choices -> all decisions on them, in the order of writes that leaves no moment without a way back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, Verb, group_name
from reconciler.decide.fleet_guard import FleetGuards
from reconciler.decide.idling.observed import IdlingCluster
from reconciler.decide.idling.rules import Choice, IdleAction
from reconciler.decide.idling.subjects import is_recorded
from reconciler.decide.idling.wake_times import WakeTier, wake_tiers
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


class IdlingWrites(Struct, frozen=True):
    """Makes decisions of choices, and of what they would be if a policy enforced, or a person allowed.

    The members of each of `idle_together` go idle as one, on whatever clusters they are.
    """

    clusters: Sequence[IdlingCluster]
    context: WriteContext
    idle_together: tuple[tuple[ObjectRef, ...], ...] = ()

    def desired(self, choices: Mapping[ObjectRef, Choice], guards: FleetGuards) -> DesiredState:
        """Return the decisions, those that policies with `mode: Observe` would make, and the wakes that guards hold."""
        written = self.context.written
        abandoned = [one for cluster in self.clusters if cluster.name in written for one in cluster.abandoned]
        released = (abandoned_decision(one, self.context) for one in abandoned)
        held_back = self._if_done(choices, IdleAction.HOLD_BACK, IdleAction.WAKE)
        return DesiredState(
            decisions=(*self.decisions(choices), *released),
            observed=tuple(map(_observed, self._if_done(choices, IdleAction.OBSERVE, IdleAction.IDLE))),
            held_back=(HeldBack("", guards.words, held_back),) if held_back else (),
        )

    def decisions(self, choices: Mapping[ObjectRef, Choice]) -> tuple[Decision, ...]:
        """Return every decision that `choices` ask for, sorted by group and order; nothing on a read-only cluster."""
        written = self.context.written
        live = [one for one in choices.values() if one.ref.cluster in written and _is_concerned(one)]
        marked = [
            (service, cluster.inventory)
            for cluster in self.clusters
            for service in cluster.services
            if is_recorded(service) and cluster.name in written
        ]
        groups = {service.ref: group_name("idling", service.ref) for service, _ in marked} | groups_of(live)
        running = {service.ref for choice in choices.values() if choice.stays_up for service in choice.subject.behind}
        context = replace(
            self.context,
            groups=groups,
            idle_groups=groups | groups_of(live, self.idle_together) if self.idle_together else groups,
            running=frozenset(running),
            down_at=_down_at(choices.values()),
        )
        behind: dict[ObjectRef, list[Choice]] = {}
        for choice in live:
            for service in choice.subject.services:
                behind.setdefault(service.ref, []).append(choice)
        on_services = {
            service.ref: service_decisions(service, behind.get(service.ref, ()), inventory, context)
            for service, inventory in marked
            if service.ref in behind or service.has_record
        }
        tiers = wake_tiers(live)
        on_workloads = [one for choice in live for one in _with_autoscaler(choice, on_services, tiers, context)]
        everything = [*on_workloads, *(decision for found in on_services.values() for decision in found)]
        return tuple(sorted(everything, key=lambda one: (one.phase, one.group, one.order, one.key)))

    def _if_done(
        self, choices: Mapping[ObjectRef, Choice], instead_of: IdleAction, action: IdleAction
    ) -> tuple[Decision, ...]:
        """Return the decisions there would be if `action` were done `instead_of` what is, and only those for it."""
        concerned = {ref for ref, choice in choices.items() if choice.action is instead_of}
        if not concerned:
            return ()
        assumed = {
            ref: choice.doing(action, choice.own_reasons) if ref in concerned else choice
            for ref, choice in choices.items()
        }
        return tuple(_bound_to(concerned, self.decisions(assumed)))


def _observed(decision: Decision) -> Decision:
    needs = tuple(f"observed/{need}" for need in decision.needs)
    return replace(decision, key=f"observed/{decision.key}", needs=needs)


def _bound_to(concerned: set[ObjectRef], decisions: Sequence[Decision]) -> Iterator[Decision]:
    """Yield the decisions on `concerned`, what they need, and what needs them."""
    own = {decision.key for decision in decisions if decision.ref in concerned}
    needed = {need for decision in decisions if decision.key in own for need in decision.needs}
    for decision in decisions:
        if decision.key in own | needed or own & set(decision.needs):
            yield decision


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
    marked = any(service.has_record for service in choice.subject.services)
    return (
        choice.action is not IdleAction.LEAVE
        or marked
        or choice.subject.on_target is not None
        or (autoscaler is not None and autoscaler.previous is not None)
    )


def _with_autoscaler(
    choice: Choice,
    on_services: Mapping[ObjectRef, tuple[Decision, ...]],
    tiers: Mapping[ObjectRef, WakeTier],
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
    tier = tiers.get(choice.ref)
    if tier is not None:
        own = replace(own, wake_tier=tier.name, wait_ready=tier.after)
    return [replace(own, needs=tuple(needs)) if needs else own, *around]


# What stands or falls together: Services and scalables that share one another.


def groups_of(choices: Iterable[Choice], idle_together: Iterable[tuple[ObjectRef, ...]] = ()) -> dict[ObjectRef, str]:
    """Return the group of each scalable and each Service of one.

    Services that share a scalable, scalables that share a Service, and the members of each of `idle_together` are one
    group. It is named after its first Service ("idling/east/dev-a/Service/api"), or its first scalable without one.
    """
    parents: dict[ObjectRef, ObjectRef] = {}
    for choice in choices:
        _find(parents, choice.ref)
        for service in choice.subject.services:
            if is_recorded(service):
                _join(parents, choice.ref, service.ref)
    for members in idle_together:
        for other in members:
            _join(parents, members[0], other)
    return _named(parents)


def _find(parents: dict[ObjectRef, ObjectRef], ref: ObjectRef) -> ObjectRef:
    parents.setdefault(ref, ref)
    while parents[ref] != ref:
        parents[ref] = parents[parents[ref]]
        ref = parents[ref]
    return ref


def _join(parents: dict[ObjectRef, ObjectRef], one: ObjectRef, other: ObjectRef) -> None:
    first, second = sorted((_find(parents, one), _find(parents, other)))
    parents[second] = first


def _named(parents: Mapping[ObjectRef, ObjectRef]) -> dict[ObjectRef, str]:
    members: dict[ObjectRef, list[ObjectRef]] = {}
    working = dict(parents)
    for ref in parents:
        members.setdefault(_find(working, ref), []).append(ref)
    return {ref: group_name("idling", min(inside, key=_first)) for inside in members.values() for ref in inside}


def _first(ref: ObjectRef) -> tuple[bool, ObjectRef]:
    return (ref.kind != "Service", ref)
