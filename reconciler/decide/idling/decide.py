"""The decisions of all IdlingPolicies on the observed clusters, each with its reasons; and wakes that need no policy.

Each decision goes one way; what a reader asks stands in the module named:

- look: which workloads (`observed.py`), how each is scaled (`scale.py`), behind which Service (`service_targets.py`),
  idle by which record (`state.py`);
- judge: which policies count (`selection.py`), and what they say by schedules and metrics (`verdicts.py`);
- choose: what keeps it up or wakes it besides, such as minAge, a rollout or a request (`conditions.py`), and the table
  of rules, which makes the choice (`rules.py`);
- settle: what goes idle together (`idle_groups.py`), which wakes wait for the next run (`wake_order.py`), and what all
  that leaves to the other jobs (`idling_outcome.py`);
- write: decisions on all objects concerned (below, `writes_*.py`); what is said of each, and what would change it
  (`explanations.py`, `notices.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, Verb
from reconciler.decide.facts import ChangeIf
from reconciler.decide.idling.explanations import change_if_of, explained
from reconciler.decide.idling.idle_groups import FederatedMembers, federated_members, idled_together, pods_to_read
from reconciler.decide.idling.idling_outcome import IdlingOutcome, claims
from reconciler.decide.idling.observed import IdlingCluster, IdlingInputs, idling_clusters, subjects_of
from reconciler.decide.idling.rules import GOES_UP, Choice, IdleAction, choices_of, guarded_choices
from reconciler.decide.idling.subjects import IdleState, is_recorded
from reconciler.decide.idling.wake_order import staggered, wake_tiers
from reconciler.decide.idling.write_context import WriteContext
from reconciler.decide.idling.writes_autoscaler import abandoned_decisions, decisions_around
from reconciler.decide.idling.writes_service import service_decisions
from reconciler.decide.idling.writes_workload import scalable_decision
from reconciler.decide.removal_guard import FleetGuards
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import Fleet, PolicySet


def decide_idling(policies: PolicySet, state: ObservedState, run: Run) -> IdlingOutcome:
    """Return the idles, wakes and repairs of this run, and the workloads that idling decides."""
    clusters, guards, federated, choices = _chosen(policies, state, run)
    named = {policy.name: policy for policy in policies.idling}
    together = tuple(members.refs for members in federated)
    context = WriteContext(policies.fleet, run, clusters, choices, named, idle_together=together)
    held_back = _if_done(IdleAction.HOLD_BACK, IdleAction.WAKE, context)
    desired = replace(
        explained(clusters, choices, _Changes(policies, state, run)),
        decisions=(*decisions_of(context), *abandoned_decisions(context)),
        observed=tuple(map(_observed, _if_done(IdleAction.OBSERVE, IdleAction.IDLE, context))),
        held_back=(HeldBack("", guards.words, held_back),) if held_back else (),
        questions=pods_to_read(choices, clusters),
    )
    return IdlingOutcome(desired, claims(choices), [members.all for members in federated])


def _chosen(
    policies: PolicySet, state: ObservedState, run: Run
) -> tuple[tuple[IdlingCluster, ...], FleetGuards, Sequence[FederatedMembers], dict[ObjectRef, Choice]]:
    """Return the clusters, the guards, the members of each federated ReplicaSet, and the choices made from them."""
    clusters = idling_clusters(IdlingInputs(policies.fleet, state, run, policies.idling))
    guards, alone = guarded_choices(subjects_of(clusters), policies, run)
    federated = federated_members(policies, state, alone)
    choices = staggered(idled_together(alone, federated), run.now, policies.fleet)
    return clusters, guards, tuple(federated.values()), choices


class _Changes(Struct, frozen=True, dict=True):  # so that the choices are made once; a function could not be sent
    """Finds what would change a choice. It makes all choices again once it is asked: a plan need not keep them, and
    a forecast that another process played comes without them.
    """

    policies: PolicySet
    state: ObservedState
    run: Run

    @cached_property
    def choices(self) -> dict[ObjectRef, Choice]:
        return _chosen(self.policies, self.state, self.run)[-1]

    def __call__(self, ref: ObjectRef) -> ChangeIf | None:
        return change_if_of(self.choices[ref], self.choices)


_DONE_BLIND = GOES_UP | {IdleAction.OVERDUE}


def decide_wakes_due(fleet: Fleet, state: ObservedState, run: Run) -> DesiredState:
    """Return the wakes where the policies cannot be used: those that are due by their record, or requested.

    What was scaled by hand is released; nothing else is repaired. Clusters of `wakes_only` are like any other here.
    """
    every = replace(state, clusters={**state.clusters, **state.wakes_only})
    clusters = idling_clusters(IdlingInputs(fleet, every, run, policies=None))
    alone = choices_of(subjects_of(clusters), run.now)
    done = {ref: choice for ref, choice in alone.items() if choice.action in _DONE_BLIND}
    choices = staggered(done, run.now, fleet)
    desired = explained(clusters, choices)
    context = WriteContext(fleet, run, clusters, _others_kept(alone, choices), repairs=False)
    return replace(desired, decisions=decisions_of(context), explanations=())


def _others_kept(alone: Mapping[ObjectRef, Choice], done: Mapping[ObjectRef, Choice]) -> dict[ObjectRef, Choice]:
    """Return `done`, and for everything else that it stays as it is: its Service's record still lists it."""
    return {
        ref: done.get(ref, choice if choice.subject.is_idle else choice.doing(IdleAction.LEAVE, choice.reasons))
        for ref, choice in alone.items()
    }


def _if_done(instead_of: IdleAction, action: IdleAction, context: WriteContext) -> tuple[Decision, ...]:
    """Return the decisions there would be if `action` were done `instead_of` what is, and only those for it."""
    concerned = {ref: choice for ref, choice in context.choices.items() if choice.action is instead_of}
    if not concerned:
        return ()
    assumed = {ref: choice.doing(action, choice.own_reasons) for ref, choice in concerned.items()}
    return tuple(_bound_to(concerned.keys(), decisions_of(replace(context, choices={**context.choices, **assumed}))))


def _observed(decision: Decision) -> Decision:
    needs = tuple(f"observed/{need}" for need in decision.needs)
    return replace(decision, key=f"observed/{decision.key}", needs=needs)


def _bound_to(concerned: Set[ObjectRef], decisions: Sequence[Decision]) -> Iterator[Decision]:
    """Yield the decisions on `concerned`, what they need, and what needs them."""
    own = {decision.key for decision in decisions if decision.ref in concerned}
    needed = {need for decision in decisions if decision.key in own for need in decision.needs}
    for decision in decisions:
        if decision.key in own | needed or own & set(decision.needs):
            yield decision


# The decisions that choices ask for, in the order of writes that leaves no moment without a way back. Of one scalable:
#
# - it goes idle: its Services list it, and the target of a ScaledObject gets its record; it is scaled, and has its
#   record, in one request; then its autoscaler is held;
# - it wakes: its autoscaler gets its bounds back; it is scaled, and its record goes; then the lists of its Services go,
#   and what is on its autoscaler and its target. It is released in that order, but for the bounds, which go last;
# - it stays idle: what is missing of all that is written again, its autoscaler first where that scaled it up.


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
    on_workloads = (_on_workload(choice, on_services, tiers, context) for choice in context.live)
    everything = chain(*on_workloads, *on_services.values())
    return tuple(
        sorted(everything, key=lambda decision: (decision.phase, decision.group, decision.order, decision.key))
    )


def _on_workload(
    choice: Choice,
    on_services: Mapping[ObjectRef, tuple[Decision, ...]],
    tiers: Mapping[ObjectRef, tuple[str, str]],
    context: WriteContext,
) -> list[Decision]:
    """Return the decisions on a scalable, its autoscaler and its target."""
    own = scalable_decision(choice, context)
    around = decisions_around(choice, own, context)
    if own is None:
        return list(around)
    first: list[Decision] = []
    if choice.action in (IdleAction.IDLE, IdleAction.WAKE) or choice.state is IdleState.SCALED_BY_HPA:
        first += [decision for decision in around if own.key not in decision.needs]
    if choice.action is IdleAction.IDLE:
        behind = chain.from_iterable(on_services.get(service.ref, ()) for service in choice.subject.services)
        first += [decision for decision in behind if decision.verb is Verb.RECORD]
    if first or choice.ref in tiers:
        wake_tier, wait_ready = tiers.get(choice.ref, ("", ""))
        needs = tuple([decision.key for decision in first])
        own = replace(own, needs=needs, wake_tier=wake_tier, wait_ready=wait_ready)
    return [own, *around]
