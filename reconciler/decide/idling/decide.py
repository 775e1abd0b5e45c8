"""The decisions of all IdlingPolicies on the observed clusters, and the wakes that need no policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, Notice, Verb, group_name
from reconciler.decide.fleet_guard import FLEET, FleetGuards, fleet_guards
from reconciler.decide.idling.choices import Choice, choices_of
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.discovery import Inventory
from reconciler.decide.idling.explain import (
    claims,
    first_idles,
    idling_explanations,
    notices,
    overridden,
    query_notices,
    questions,
    undecided,
    undecided_by_equals,
)
from reconciler.decide.idling.facts import FactName, fact
from reconciler.decide.idling.idle_groups import FederatedMembers, all_or_none, federated_members, idle_together
from reconciler.decide.idling.last_idled import schedule_of
from reconciler.decide.idling.observed import IdlingCluster, IdlingInputs, idling_clusters
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.rules import IdleAction
from reconciler.decide.idling.scalables import ScalableState, ServiceState, is_recorded
from reconciler.decide.idling.wake_order import WakeTier, owner_in, staggered, wake_tiers
from reconciler.decide.idling.writes_hpa import abandoned_decision, autoscaler_decisions, bounds_first
from reconciler.decide.idling.writes_service import service_decisions
from reconciler.decide.idling.writes_target import target_decision
from reconciler.decide.idling.writes_workload import WriteContext, scalable_decision
from reconciler.decide.reasons import ReasonCode
from reconciler.decide.selectors import LocalKey
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import Fleet, PolicySet, Writes


class IdlingOutcome(Struct, frozen=True):
    """`claims` gives the policy's name for every workload that is idle because of us after this run, or that this run
    idles, wakes or repairs: placement and downscale leave those alone.
    """

    desired: DesiredState
    claims: Mapping[ObjectRef, str] = field(default_factory=dict)


def decide_idling(
    policies: PolicySet,
    state: ObservedState,
    run: Run,
    replaced: frozenset[ObjectRef] = frozenset(),
    *,
    counterfactuals: bool = False,
) -> IdlingOutcome:
    """Return the idles, wakes and repairs of this run, and the workloads that idling decides.

    Nothing of `replaced` is newly idled: it is deleted and made anew in this run. With `counterfactuals` explanations
    say what would change it.
    """
    clusters = idling_clusters(IdlingInputs(policies.fleet, state, run, policies.idling))
    scalables = [scalable for cluster in clusters for scalable in cluster.scalables]
    guards, alone = _guarded(scalables, policies, run)
    alone |= {ref: alone[ref].with_fact(REPLACED) for ref in replaced if ref in alone}
    federated = federated_members(policies.federated, state, alone)
    choices = staggered(_settled(alone, federated), run.now, owner_in(policies.fleet))
    schedules = {policy.name: schedule for policy in policies.idling if (schedule := schedule_of(policy)) is not None}
    places = {policy.name: str(policy.place) for policy in policies.idling}
    context = WriteContext(policies.fleet, run, places, schedules)
    build = _Writes(services_of(clusters), context, tuple(members.refs for members in federated.values()))
    return IdlingOutcome(
        explained(clusters, choices, run, counterfactuals=counterfactuals).joined(
            DesiredState(
                decisions=(*build.decisions(choices), *_abandoned(clusters, context)),
                observed=build.observed(choices),
                held_back=build.held_back_wakes(choices, guards),
            )
        ),
        claims(choices, [members.all for members in federated.values()]),
    )


REPLACED = fact(FactName.REPLACED, ReasonCode.ROLLOUT_IN_PROGRESS)


def _settled(
    choices: Mapping[ObjectRef, Choice], federated: Mapping[LocalKey, FederatedMembers]
) -> dict[ObjectRef, Choice]:
    """Return the choices where what goes idle together does: behind each Service, and on all clusters."""
    settled = all_or_none(idle_together(choices, federated))
    while federated and settled != choices:
        choices, settled = settled, all_or_none(idle_together(settled, federated))
    return settled


def _guarded(
    scalables: Sequence[ScalableState], policies: PolicySet, run: Run
) -> tuple[FleetGuards, dict[ObjectRef, Choice]]:
    """Return the guards, and the choices under them.

    What loses its record in this run for another reason counts no more, as in the next run, which would not find it.
    """
    choices = choices_of(scalables, FleetGuards(), run.now)
    guards = _guards(choices.values(), policies, run)
    while guards.tripped:
        held_back = choices_of(scalables, guards, run.now)
        left = [choice for choice in held_back.values() if choice.stays_idle]
        still = guards.still(_guards(left, policies, run))
        if still == guards:
            return guards, held_back
        guards = still
    return guards, choices


def _guards(choices: Iterable[Choice], policies: PolicySet, run: Run) -> FleetGuards:
    """Return the guards over the policies that own what is idle; what passes to another policy counts as that one's."""
    names = frozenset(policy.name for policy in policies.idling)
    idle = [(choice, choice.record) for choice in choices if choice.was_idle and choice.record]
    owned = [(choice.ref.namespace, _owner(choice, record, names)) for choice, record in idle]
    return fleet_guards(owned, names, run.allow_exceed)


def _owner(choice: Choice, record: Record, names: frozenset[str]) -> str:
    verdict = choice.scalable.verdict
    if verdict.result is not CriterionResult.IDLE or verdict.policy is None or record.policy in names:
        return record.policy
    return verdict.policy.name


def services_of(clusters: Sequence[IdlingCluster]) -> tuple[tuple[ServiceState, Inventory], ...]:
    """Return the Services of all clusters, each with what there is on its cluster."""
    return tuple((service, cluster.inventory) for cluster in clusters for service in cluster.services)


def explained(
    clusters: Sequence[IdlingCluster], choices: Mapping[ObjectRef, Choice], run: Run, *, counterfactuals: bool = False
) -> DesiredState:
    """Return what is said of `choices` and of what they were made from, without any decision."""
    services = [service for cluster in clusters for service in cluster.services]
    ordered = list(choices.values())
    return DesiredState(
        undecided=tuple(undecided(ordered, services)),
        overridden=tuple(overridden(ordered)),
        notices=(
            *notices(ordered, services, run),
            *_query_notices(clusters),
            *first_idles(ordered),
            *undecided_by_equals(ordered),
        ),
        explanations=tuple(idling_explanations(choices, services, counterfactuals=counterfactuals)),
        questions=tuple(sorted(questions(ordered, services))),
    )


def _abandoned(clusters: Sequence[IdlingCluster], context: WriteContext) -> Iterator[Decision]:
    """Yield the release of each autoscaler that is held for a workload that is gone."""
    written = {cluster.name for cluster in context.fleet.clusters if cluster.writes is not Writes.NOTHING}
    for cluster in clusters:
        if cluster.inventory.cluster.name in written:
            yield from (abandoned_decision(one, context) for one in cluster.abandoned)


def _query_notices(clusters: Sequence[IdlingCluster]) -> Iterator[Notice]:
    for cluster in clusters:
        yield from query_notices(cluster.inventory.cluster.name, cluster.problems)


class _Writes(Struct, frozen=True):
    """Makes decisions of choices, and of what they would be if a policy enforced, or a person allowed."""

    services: tuple[tuple[ServiceState, Inventory], ...]
    context: WriteContext
    idle_together: tuple[tuple[ObjectRef, ...], ...] = ()

    def decisions(self, choices: Mapping[ObjectRef, Choice]) -> tuple[Decision, ...]:
        return decisions_of(choices, self.services, self.context, self.idle_together)

    def observed(self, choices: Mapping[ObjectRef, Choice]) -> tuple[Decision, ...]:
        """Return the idles that policies with `mode: Observe` would make."""
        found = self._if_done(choices, IdleAction.OBSERVE, IdleAction.IDLE)
        return tuple(
            replace(
                decision, key=f"observed/{decision.key}", needs=tuple(f"observed/{need}" for need in decision.needs)
            )
            for decision in found
        )

    def held_back_wakes(self, choices: Mapping[ObjectRef, Choice], guards: FleetGuards) -> tuple[HeldBack, ...]:
        """Return the wakes that the guards hold back."""
        found = self._if_done(choices, IdleAction.HOLD_BACK, IdleAction.WAKE)
        return (HeldBack(FLEET, guards.words, found),) if found else ()

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


def _bound_to(concerned: set[ObjectRef], decisions: Sequence[Decision]) -> Iterator[Decision]:
    """Yield the decisions on `concerned`, what they need, and what needs them."""
    own = {decision.key for decision in decisions if decision.ref in concerned}
    needed = {need for decision in decisions if decision.key in own for need in decision.needs}
    for decision in decisions:
        if decision.key in own | needed or own & set(decision.needs):
            yield decision


# In the order of writes that leaves no moment without a way back.


def decisions_of(
    choices: Mapping[ObjectRef, Choice],
    services: Iterable[tuple[ServiceState, Inventory]],
    context: WriteContext,
    idle_together: Iterable[tuple[ObjectRef, ...]] = (),
) -> tuple[Decision, ...]:
    """Return every decision that `choices` ask for, sorted by group and order; nothing on a read-only cluster."""
    written = {cluster.name for cluster in context.fleet.clusters if cluster.writes is not Writes.NOTHING}
    live = [choice for choice in choices.values() if choice.ref.cluster in written and _is_concerned(choice)]
    marked = [
        (service, found) for service, found in services if is_recorded(service) and service.ref.cluster in written
    ]
    groups = {service.ref: group_name("idling", service.ref) for service, _ in marked} | groups_of(live)
    idle_together = tuple(idle_together)
    idle_groups = groups | groups_of(live, idle_together) if idle_together else groups
    running = {service.ref for choice in choices.values() if choice.stays_up for service in choice.scalable.behind}
    context = replace(
        context,
        groups=groups,
        idle_groups=idle_groups,
        running=frozenset(running),
        down_at=_down_at(choices.values()),
    )
    behind: dict[ObjectRef, list[Choice]] = {}
    for choice in live:
        for service in choice.scalable.services:
            behind.setdefault(service.ref, []).append(choice)
    on_services = {
        service.ref: service_decisions(service, behind.get(service.ref, ()), inventory, context)
        for service, inventory in marked
        if service.ref in behind or service.has_record
    }
    tiers = wake_tiers(live)
    on_scalables = [decision for choice in live for decision in _with_autoscaler(choice, on_services, tiers, context)]
    everything = [*on_scalables, *(decision for found in on_services.values() for decision in found)]
    return tuple(
        sorted(everything, key=lambda decision: (decision.phase, decision.group, decision.order, decision.key))
    )


def _down_at(choices: Iterable[Choice]) -> dict[ObjectRef, int]:
    """Return the most replicas behind each Service that are no idle of ours, and low enough for it to be idle."""
    found: dict[ObjectRef, int] = {}
    for choice in choices:
        if not choice.stays_up and not choice.stays_idle:
            for service in choice.scalable.behind:
                found[service.ref] = max(choice.next_replicas, found.get(service.ref, 0))
    return found


def _is_concerned(choice: Choice) -> bool:
    """Return whether anything may have to be written for it: what just runs, unmarked, costs no more work."""
    autoscaler = choice.scalable.autoscaler
    marked = any(service.has_record for service in choice.scalable.services)
    return (
        choice.action is not IdleAction.LEAVE
        or marked
        or choice.scalable.on_target is not None
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
            for service in choice.scalable.services
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
        for service in choice.scalable.services:
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


# Wakes that take place without usable policies: due by their record, requested, or scaled by hand.


_DONE_BLIND = frozenset({IdleAction.WAKE, IdleAction.RELEASE, IdleAction.OVERDUE})


def decide_wakes_due(fleet: Fleet, state: ObservedState, run: Run) -> DesiredState:
    """Return the wakes where the policies cannot be used: those that are due by their record, or requested.

    What was scaled by hand is released; nothing else is repaired. Clusters of `wakes_only` are like any other here.
    """
    every = replace(state, clusters={**state.clusters, **state.wakes_only})
    clusters = idling_clusters(IdlingInputs(fleet, every, run, without_policies=True))
    alone = choices_of([scalable for cluster in clusters for scalable in cluster.scalables], FleetGuards(), run.now)
    done = {ref: choice for ref, choice in alone.items() if choice.action in _DONE_BLIND}
    choices = staggered(done, run.now, owner_in(fleet))
    desired = explained(clusters, choices, run)
    context = WriteContext(fleet, run, repairs=False)
    decisions = decisions_of(_others_kept(alone, choices), services_of(clusters), context)
    return replace(desired, decisions=decisions, explanations=())


def _others_kept(alone: Mapping[ObjectRef, Choice], done: Mapping[ObjectRef, Choice]) -> dict[ObjectRef, Choice]:
    """Return `done`, and for everything else that it stays as it is: its Service's mark still lists it."""
    return {
        ref: done.get(
            ref,
            choice if choice.was_idle else choice.doing(IdleAction.LEAVE, choice.reasons),
        )
        for ref, choice in alone.items()
    }
