"""What the IdlingPolicies decide about everything that was observed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, Notice, Verb
from reconciler.decide.fleet_guard import FLEET, FleetGuards, fleet_guards
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.discovery import Inventory
from reconciler.decide.idling.explain import (
    claims,
    considered,
    notices,
    overridden,
    query_notices,
    questions,
    undecided,
)
from reconciler.decide.idling.federated import FederatedMembers, federated_members, together
from reconciler.decide.idling.observed import IdlingCluster, IdlingInputs, idling_clusters
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.scalables import ServiceState, is_marking
from reconciler.decide.idling.service_targets import all_or_none
from reconciler.decide.idling.transitions import Action, ChosenAction, Transition, transitions_of
from reconciler.decide.idling.wake_order import WakeTier, staggered, wake_tiers
from reconciler.decide.idling.writes_hpa import autoscaler_decisions, bounds_first
from reconciler.decide.idling.writes_service import service_decisions
from reconciler.decide.idling.writes_workload import WriteContext, scalable_decision
from reconciler.decide.selectors import LocalKey
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import Fleet, PolicySet, Writes

_DONE_BLIND = frozenset({Action.WAKE, Action.RELEASE, Action.OVERDUE})


@dataclass(frozen=True, slots=True)
class IdlingOutcome:
    """`claims` gives the policy's name for every workload that is idle because of us after this run, or that this run
    idles, wakes or puts right: placement and downscale leave those alone.
    """

    desired: DesiredState
    claims: Mapping[ObjectRef, str] = field(default_factory=dict)


def decide_idling(policies: PolicySet, state: ObservedState, run: Run) -> IdlingOutcome:
    """Return what is idled, woken and put right, and which workloads that concerns."""
    scenes = idling_clusters(IdlingInputs(policies.fleet, state, run, policies.idling))
    targets = [target for scene in scenes for target in scene.targets]
    unguarded = transitions_of(targets, FleetGuards(), run.now)
    guards = _guards(unguarded.values(), policies, run)
    alone = transitions_of(targets, guards, run.now) if guards.tripped else unguarded
    federated = federated_members(policies.federated, state, alone)
    rulings = staggered(_settled(alone, federated), run.now)
    making = WriteContext(policies.fleet, run, {policy.name: str(policy.place) for policy in policies.idling})
    build = _Writes(_services(scenes), making, tuple(members.refs for members in federated.values()))
    return IdlingOutcome(
        _explained(scenes, rulings, run).joined(
            DesiredState(
                decisions=build.decisions(rulings),
                observed=build.observed(rulings),
                held_back=build.put_off(rulings, guards),
            )
        ),
        claims(rulings, [members.all for members in federated.values()]),
    )


def decide_wakes_due(fleet: Fleet, state: ObservedState, run: Run) -> DesiredState:
    """Return what is woken where the policies cannot be used: what is due by its own mark, or was asked for.

    What was scaled by hand is released; nothing else is put right. Clusters of `wakes_only` are like any other here.
    """
    every = replace(state, clusters={**state.clusters, **state.wakes_only})
    scenes = idling_clusters(IdlingInputs(fleet, every, run, blind=True))
    alone = transitions_of([target for scene in scenes for target in scene.targets], FleetGuards(), run.now)
    done = {ref: ruling for ref, ruling in alone.items() if ruling.action in _DONE_BLIND}
    rulings = staggered(done, run.now)
    desired = _explained(scenes, rulings, run)
    decisions = _Writes(_services(scenes), WriteContext(fleet, run, repairs=False)).decisions(
        _others_kept(alone, rulings)
    )
    return replace(desired, decisions=decisions, considered=())


def _settled(
    rulings: Mapping[ObjectRef, Transition], federated: Mapping[LocalKey, FederatedMembers]
) -> dict[ObjectRef, Transition]:
    """Return the rulings where what goes idle together does: behind each Service, and on all clusters."""
    settled = all_or_none(together(rulings, federated))
    while federated and settled != rulings:
        rulings, settled = settled, all_or_none(together(settled, federated))
    return settled


def _others_kept(
    alone: Mapping[ObjectRef, Transition], done: Mapping[ObjectRef, Transition]
) -> dict[ObjectRef, Transition]:
    """Return `done`, and for everything else that it stays as it is: its Service's mark still lists it."""
    return {
        ref: done.get(
            ref, ruling if ruling.was_asleep else replace(ruling, choice=ChosenAction(Action.LEAVE, ruling.why))
        )
        for ref, ruling in alone.items()
    }


def _guards(rulings: Iterable[Transition], policies: PolicySet, run: Run) -> FleetGuards:
    """Return the guards over the policies that own what is idle; what passes to another policy counts as that one's."""
    names = frozenset(policy.name for policy in policies.idling)
    asleep = [(ruling, ruling.record) for ruling in rulings if ruling.was_asleep and ruling.record]
    owned = [(ruling.ref.namespace, _owner(ruling, record, names)) for ruling, record in asleep]
    return fleet_guards(owned, names, run.allow_exceed)


def _owner(ruling: Transition, record: Record, names: frozenset[str]) -> str:
    want = ruling.target.want
    passes = want.says is CriterionResult.IDLE and want.policy is not None and record.policy not in names
    return want.policy.name if passes and want.policy is not None else record.policy


def _services(scenes: Sequence[IdlingCluster]) -> tuple[tuple[ServiceState, Inventory], ...]:
    return tuple((front, scene.inventory) for scene in scenes for front in scene.fronts)


def _explained(scenes: Sequence[IdlingCluster], rulings: Mapping[ObjectRef, Transition], run: Run) -> DesiredState:
    fronts = [front for scene in scenes for front in scene.fronts]
    ordered = list(rulings.values())
    return DesiredState(
        undecided=tuple(undecided(ordered, fronts)),
        overridden=tuple(overridden(ordered)),
        notices=(*notices(ordered, fronts, run), *_query_notices(scenes)),
        considered=tuple(considered(ordered, fronts)),
        questions=tuple(sorted(questions(ordered, fronts))),
    )


def _query_notices(scenes: Sequence[IdlingCluster]) -> Iterator[Notice]:
    for scene in scenes:
        yield from query_notices(scene.inventory.cluster.name, scene.problems)


@dataclass(frozen=True, slots=True)
class _Writes:
    """Makes decisions of rulings, and of what they would be if a policy enforced, or a person allowed."""

    fronts: tuple[tuple[ServiceState, Inventory], ...]
    making: WriteContext
    together: tuple[tuple[ObjectRef, ...], ...] = ()

    def decisions(self, rulings: Mapping[ObjectRef, Transition]) -> tuple[Decision, ...]:
        return decisions_of(rulings, self.fronts, self.making, self.together)

    def observed(self, rulings: Mapping[ObjectRef, Transition]) -> tuple[Decision, ...]:
        """Return what would be done to idle what only an observing policy wants idle."""
        found = self._if_done(rulings, Action.OBSERVE, Action.IDLE)
        return tuple(
            replace(
                decision, key=f"observed/{decision.key}", needs=tuple(f"observed/{need}" for need in decision.needs)
            )
            for decision in found
        )

    def put_off(self, rulings: Mapping[ObjectRef, Transition], guards: FleetGuards) -> tuple[HeldBack, ...]:
        """Return the wakes that the guards hold back."""
        found = self._if_done(rulings, Action.PUT_OFF, Action.WAKE)
        return (HeldBack(FLEET, guards.words, found),) if found else ()

    def _if_done(
        self, rulings: Mapping[ObjectRef, Transition], instead_of: Action, action: Action
    ) -> tuple[Decision, ...]:
        """Return the decisions there would be if `action` were done `instead_of` what is, and only those for it."""
        concerned = {ref for ref, ruling in rulings.items() if ruling.action is instead_of}
        if not concerned:
            return ()
        assumed = {
            ref: replace(ruling, choice=ChosenAction(action, ruling.choice.why)) if ref in concerned else ruling
            for ref, ruling in rulings.items()
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
    rulings: Mapping[ObjectRef, Transition],
    fronts: Iterable[tuple[ServiceState, Inventory]],
    making: WriteContext,
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
    behind: dict[ObjectRef, list[Transition]] = {}
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


def _is_concerned(ruling: Transition) -> bool:
    """Return whether anything may have to be written for it: what just runs, unmarked, costs no more work."""
    hold = ruling.target.hold
    marked = any(front.is_marked for front in ruling.target.fronts)
    return ruling.action is not Action.LEAVE or marked or (hold is not None and hold.previous is not None)


def _with_autoscaler(
    ruling: Transition,
    on_services: Mapping[ObjectRef, tuple[Decision, ...]],
    tiers: Mapping[ObjectRef, WakeTier],
    making: WriteContext,
) -> list[Decision]:
    own = scalable_decision(ruling, making)
    around = autoscaler_decisions(ruling, own, making)
    if own is None:
        return list(around)
    needs = [*own.needs, *bounds_first(ruling, around)]
    if ruling.action is Action.IDLE:
        needs += [
            decision.key
            for front in ruling.target.fronts
            for decision in on_services.get(front.ref, ())
            if decision.verb is Verb.MARK
        ]
    tier = tiers.get(ruling.ref, WakeTier())
    return [replace(own, needs=tuple(needs), wake_tier=tier.name, wait_ready=tier.after), *around]


# What stands or falls together: Services and scalables that share one another.


def groups_of(rulings: Iterable[Transition], together: Iterable[tuple[ObjectRef, ...]] = ()) -> dict[ObjectRef, str]:
    """Return the group of each scalable and each Service in front of one.

    Services that share a scalable, scalables that share a Service, and the members of each of `together` are one
    group. It is named after its first Service ("idling/east/dev-a/Service/api"), or its first scalable without one.
    """
    parents: dict[ObjectRef, ObjectRef] = {}
    for ruling in rulings:
        _find(parents, ruling.ref)
        for front in ruling.target.fronts:
            if is_marking(front):
                _join(parents, ruling.ref, front.ref)
    for members in together:
        for other in members[1:]:
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
    return {ref: group_name(min(inside, key=_first)) for inside in members.values() for ref in inside}


def _first(ref: ObjectRef) -> tuple[bool, ObjectRef]:
    return (ref.kind != "Service", ref)


def group_name(ref: ObjectRef) -> str:
    """Return the name of the group that `ref` gives its name to."""
    return f"idling/{ref}"
