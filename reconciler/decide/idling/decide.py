"""What the IdlingPolicies decide about everything that was observed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, Notice
from reconciler.decide.fleet_guard import FLEET, Guards, guards_of
from reconciler.decide.idling.building import decisions_of
from reconciler.decide.idling.criteria import Says
from reconciler.decide.idling.discovery import Inventory
from reconciler.decide.idling.federated import Members, members_of, together
from reconciler.decide.idling.looking import Scene, Setting, scenes_of
from reconciler.decide.idling.making import Making
from reconciler.decide.idling.order import staggered
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.service_targets import all_or_none
from reconciler.decide.idling.situations import Ruling, rule_all
from reconciler.decide.idling.table import Action, Choice
from reconciler.decide.idling.targets import Front
from reconciler.decide.idling.telling import (
    claims,
    considered,
    notices,
    overridden,
    query_notices,
    questions,
    undecided,
)
from reconciler.decide.selectors import LocalKey
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import Fleet, PolicySet

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
    scenes = scenes_of(Setting(policies.fleet, state, run, policies.idling))
    targets = [target for scene in scenes for target in scene.targets]
    unguarded = rule_all(targets, Guards(), run.now)
    guards = _guards(unguarded.values(), policies, run)
    alone = rule_all(targets, guards, run.now) if guards.tripped else unguarded
    federated = members_of(policies.federated, state, alone)
    rulings = staggered(_settled(alone, federated), run.now)
    making = Making(policies.fleet, run, {policy.name: str(policy.place) for policy in policies.idling})
    build = _Build(_fronts(scenes), making, tuple(members.refs for members in federated.values()))
    return IdlingOutcome(
        _told(scenes, rulings, run).joined(
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
    scenes = scenes_of(Setting(fleet, every, run, blind=True))
    alone = rule_all([target for scene in scenes for target in scene.targets], Guards(), run.now)
    done = {ref: ruling for ref, ruling in alone.items() if ruling.action in _DONE_BLIND}
    rulings = staggered(done, run.now)
    desired = _told(scenes, rulings, run)
    decisions = _Build(_fronts(scenes), Making(fleet, run, repairs=False)).decisions(_others_kept(alone, rulings))
    return replace(desired, decisions=decisions, considered=())


def _settled(rulings: Mapping[ObjectRef, Ruling], federated: Mapping[LocalKey, Members]) -> dict[ObjectRef, Ruling]:
    """Return the rulings where what goes idle together does: behind each Service, and on all clusters."""
    settled = all_or_none(together(rulings, federated))
    while federated and settled != rulings:
        rulings, settled = settled, all_or_none(together(settled, federated))
    return settled


def _others_kept(alone: Mapping[ObjectRef, Ruling], done: Mapping[ObjectRef, Ruling]) -> dict[ObjectRef, Ruling]:
    """Return `done`, and for everything else that it stays as it is: its Service's mark still lists it."""
    return {
        ref: done.get(ref, ruling if ruling.was_asleep else replace(ruling, choice=Choice(Action.LEAVE, ruling.why)))
        for ref, ruling in alone.items()
    }


def _guards(rulings: Iterable[Ruling], policies: PolicySet, run: Run) -> Guards:
    """Return the guards over the policies that own what is idle; what passes to another policy counts as that one's."""
    names = frozenset(policy.name for policy in policies.idling)
    asleep = [(ruling, ruling.record) for ruling in rulings if ruling.was_asleep and ruling.record]
    owned = [(ruling.ref.namespace, _owner(ruling, record, names)) for ruling, record in asleep]
    return guards_of(owned, names, run.allow_exceed)


def _owner(ruling: Ruling, record: Record, names: frozenset[str]) -> str:
    want = ruling.target.want
    passes = want.says is Says.IDLE and want.policy is not None and record.policy not in names
    return want.policy.name if passes and want.policy is not None else record.policy


def _fronts(scenes: Sequence[Scene]) -> tuple[tuple[Front, Inventory], ...]:
    return tuple((front, scene.inventory) for scene in scenes for front in scene.fronts)


def _told(scenes: Sequence[Scene], rulings: Mapping[ObjectRef, Ruling], run: Run) -> DesiredState:
    fronts = [front for scene in scenes for front in scene.fronts]
    ordered = list(rulings.values())
    return DesiredState(
        undecided=tuple(undecided(ordered, fronts)),
        overridden=tuple(overridden(ordered)),
        notices=(*notices(ordered, fronts, run), *_query_notices(scenes)),
        considered=tuple(considered(ordered, fronts)),
        questions=tuple(sorted(questions(ordered, fronts))),
    )


def _query_notices(scenes: Sequence[Scene]) -> Iterator[Notice]:
    for scene in scenes:
        yield from query_notices(scene.inventory.cluster.name, scene.problems)


@dataclass(frozen=True, slots=True)
class _Build:
    """Makes decisions of rulings, and of what they would be if a policy enforced, or a person allowed."""

    fronts: tuple[tuple[Front, Inventory], ...]
    making: Making
    together: tuple[tuple[ObjectRef, ...], ...] = ()

    def decisions(self, rulings: Mapping[ObjectRef, Ruling]) -> tuple[Decision, ...]:
        return decisions_of(rulings, self.fronts, self.making, self.together)

    def observed(self, rulings: Mapping[ObjectRef, Ruling]) -> tuple[Decision, ...]:
        """Return what would be done to idle what only an observing policy wants idle."""
        found = self._if_done(rulings, Action.OBSERVE, Action.IDLE)
        return tuple(
            replace(
                decision, key=f"observed/{decision.key}", needs=tuple(f"observed/{need}" for need in decision.needs)
            )
            for decision in found
        )

    def put_off(self, rulings: Mapping[ObjectRef, Ruling], guards: Guards) -> tuple[HeldBack, ...]:
        """Return the wakes that the guards hold back."""
        found = self._if_done(rulings, Action.PUT_OFF, Action.WAKE)
        return (HeldBack(FLEET, guards.words, found),) if found else ()

    def _if_done(self, rulings: Mapping[ObjectRef, Ruling], instead_of: Action, action: Action) -> tuple[Decision, ...]:
        """Return the decisions there would be if `action` were done `instead_of` what is, and only those for it."""
        concerned = {ref for ref, ruling in rulings.items() if ruling.action is instead_of}
        if not concerned:
            return ()
        assumed = {
            ref: replace(ruling, choice=Choice(action, ruling.choice.why)) if ref in concerned else ruling
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
