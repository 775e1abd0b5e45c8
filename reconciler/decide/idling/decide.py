"""The decisions of all IdlingPolicies on the observed clusters, and the wakes that need no policy.

Each decision goes one way; what a reader asks stands in the module named:

- look: which workloads (`observed.py`), behind which Service (`service_targets.py`), idle by which record (`state.py`);
- judge: which policies count (`selection.py`), what a schedule or a metric says (`criteria.py`), and all of that as one
  (`verdicts.py`);
- choose: what keeps it up or wakes it besides, such as minAge, a rollout or a request (`keep_up_conditions.py`,
  `wake_conditions.py`), the table (`rules.py`), and what it makes of one workload (`choices.py`);
- settle: what goes idle together (`idle_groups.py`), which wakes wait for the next run (`wake_times.py`), and what all
  that leaves to the other jobs (`after_idling.py`);
- write: decisions on all objects concerned (below, and `writes_*.py`); and what is said of it (`explanations.py`,
  `notices.py`), with what would change it (`change_if.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from msgspec.structs import replace

from reconciler.decide.decisions import Decision, DesiredState, HeldBack, Verb, group_name
from reconciler.decide.fleet_guard import FleetGuards
from reconciler.decide.idling.after_idling import IdlingOutcome, claims
from reconciler.decide.idling.choices import Choice, choices_of, guarded_choices
from reconciler.decide.idling.explanations import explained
from reconciler.decide.idling.idle_groups import federated_members, groups_of, idled_together, pods_to_read
from reconciler.decide.idling.observed import IdlingInputs, idling_clusters, subjects_of
from reconciler.decide.idling.rules import IdleAction
from reconciler.decide.idling.subjects import is_recorded
from reconciler.decide.idling.wake_times import owner_in, staggered, wake_tiers
from reconciler.decide.idling.write_context import WriteContext
from reconciler.decide.idling.writes_autoscaler import (
    abandoned_decision,
    autoscaler_decisions,
    bounds_first,
    target_decision,
)
from reconciler.decide.idling.writes_service import service_decisions
from reconciler.decide.idling.writes_workload import scalable_decision
from reconciler.decide.limit_counts import hours_of
from reconciler.model import ObjectRef, ObservedState, Run
from reconciler.policy.types import Fleet, PolicySet


def decide_idling(policies: PolicySet, state: ObservedState, run: Run) -> IdlingOutcome:
    """Return the idles, wakes and repairs of this run, and the workloads that idling decides."""
    clusters = idling_clusters(IdlingInputs(policies.fleet, state, run, policies.idling))
    guards, alone = guarded_choices(subjects_of(clusters), policies, run)
    federated = federated_members(policies.federated, state, alone)
    choices = staggered(idled_together(alone, federated), run.now, owner_in(policies.fleet))
    places = {policy.name: str(policy.place) for policy in policies.idling}
    hours = {policy.name: hours_of(policy) for policy in policies.idling}
    together = tuple(members.refs for members in federated.values())
    context = WriteContext(policies.fleet, run, clusters, places, hours, idle_together=together)
    held_back = _if_done(choices, IdleAction.HOLD_BACK, IdleAction.WAKE, context)
    desired = replace(
        explained(clusters, choices, run),
        decisions=(*decisions_of(choices, context), *_let_go(context)),
        observed=tuple(map(_observed, _if_done(choices, IdleAction.OBSERVE, IdleAction.IDLE, context))),
        held_back=(HeldBack("", guards.words, held_back),) if held_back else (),
        questions=pods_to_read(choices, clusters),
    )
    return IdlingOutcome(desired, claims(choices), [members.all for members in federated.values()])


_DONE_BLIND = frozenset({IdleAction.WAKE, IdleAction.RELEASE, IdleAction.OVERDUE})


def decide_wakes_due(fleet: Fleet, state: ObservedState, run: Run) -> DesiredState:
    """Return the wakes where the policies cannot be used: those that are due by their record, or requested.

    What was scaled by hand is released; nothing else is repaired. Clusters of `wakes_only` are like any other here.
    """
    every = replace(state, clusters={**state.clusters, **state.wakes_only})
    clusters = idling_clusters(IdlingInputs(fleet, every, run, policies=None))
    alone = choices_of(subjects_of(clusters), FleetGuards(), run.now)
    done = {ref: choice for ref, choice in alone.items() if choice.action in _DONE_BLIND}
    choices = staggered(done, run.now, owner_in(fleet))
    desired = explained(clusters, choices, run)
    context = WriteContext(fleet, run, clusters, repairs=False)
    return replace(desired, decisions=decisions_of(_others_kept(alone, choices), context), explanations=())


def _others_kept(alone: Mapping[ObjectRef, Choice], done: Mapping[ObjectRef, Choice]) -> dict[ObjectRef, Choice]:
    """Return `done`, and for everything else that it stays as it is: its Service's record still lists it."""
    return {
        ref: done.get(ref, choice if choice.was_idle else choice.doing(IdleAction.LEAVE, choice.reasons))
        for ref, choice in alone.items()
    }


# The decisions that choices ask for, in the order of writes that leaves no moment without a way back.


def decisions_of(choices: Mapping[ObjectRef, Choice], context: WriteContext) -> tuple[Decision, ...]:
    """Return every decision that `choices` ask for, sorted by group and order; nothing on a read-only cluster."""
    written = context.written
    live = [one for one in choices.values() if one.ref.cluster in written and _is_concerned(one)]
    marked = [
        (service, cluster.inventory)
        for cluster in context.clusters
        for service in cluster.services
        if is_recorded(service) and cluster.name in written
    ]
    groups = {service.ref: group_name("idling", service.ref) for service, _ in marked} | groups_of(live)
    running = {service.ref for choice in choices.values() if choice.stays_up for service in choice.subject.behind}
    context = replace(
        context,
        groups=groups,
        idle_groups=groups | groups_of(live, context.idle_together) if context.idle_together else groups,
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
    choices: Mapping[ObjectRef, Choice], instead_of: IdleAction, action: IdleAction, context: WriteContext
) -> tuple[Decision, ...]:
    """Return the decisions there would be if `action` were done `instead_of` what is, and only those for it."""
    concerned = {ref: choice for ref, choice in choices.items() if choice.action is instead_of}
    if not concerned:
        return ()
    assumed = {ref: choice.doing(action, choice.own_reasons) for ref, choice in concerned.items()}
    return tuple(_bound_to(concerned.keys(), decisions_of({**choices, **assumed}, context)))


def _let_go(context: WriteContext) -> list[Decision]:
    """Return that autoscalers are let go which are held for workloads that are gone."""
    clusters = [cluster for cluster in context.clusters if cluster.name in context.written]
    return [abandoned_decision(one, context) for cluster in clusters for one in cluster.abandoned]


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
