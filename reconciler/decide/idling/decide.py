"""The decisions of all IdlingPolicies on the observed clusters, each with its reasons; and wakes that need no policy.

Each decision goes one way; what a reader asks stands in the module named:

- look: which workloads (`observed.py`), how each is scaled (`scale.py`), behind which Service
  (`workloads_behind_service.py`), idle by which record (`classification.py`), and with how many replicas to wake it
  (`wake_replicas.py`);
- judge: which policies count (`winning_policies.py`), and what they say by schedules and metrics (`criteria.py`);
- choose: what keeps it up or wakes it besides, such as minAge, a rollout or a request (`conditions.py`), and the table
  of rules, which makes the choice (`rules.py`);
- settle: what goes idle together (`idle_together.py`), which wakes wait for the next run (`wake_order.py`);
- write: decisions on all objects concerned (below, `writes_*.py`); what is said of each (`explanations.py`,
  `notices.py`), and what would change it (`smallest_change.py`); and what all that leaves to the other jobs
  (`IdlingOutcome`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.decide.change_codes import ChangeIf, field_is
from reconciler.decide.decisions import ANNOTATIONS, Decision, DesiredState, HeldBack, Verb
from reconciler.decide.idling.contested import scaled_down_by_others
from reconciler.decide.idling.explanations import explained
from reconciler.decide.idling.idle_together import FederatedMembers, federated_members, idled_together, pods_to_read
from reconciler.decide.idling.observed import IdlingCluster, IdlingInputs, idling_clusters, subjects_of
from reconciler.decide.idling.records import read_record
from reconciler.decide.idling.rules import GOES_UP, Choice, IdleAction, choices_of, guarded_choices, owner_policy
from reconciler.decide.idling.smallest_change import smallest_change
from reconciler.decide.idling.subjects import IdleState, is_recorded
from reconciler.decide.idling.wake_order import staggered, wake_tiers, wakes_before
from reconciler.decide.idling.write_context import WriteContext
from reconciler.decide.idling.writes_autoscaler import abandoned_decisions, decisions_around
from reconciler.decide.idling.writes_service import service_decisions
from reconciler.decide.idling.writes_workload import scalable_decision
from reconciler.decide.owners_and_rollouts import Settled, SettledWorkloads
from reconciler.decide.removal_guard import FleetGuards
from reconciler.model import ObjectRef, ObservedState, Run, Workload, by_key
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
        choice = self.choices[ref]
        if choice.action is IdleAction.DEFER:
            before = wakes_before(choice, self.choices.values(), self.run.now, self.policies.fleet)
            return field_is("perRun", f"above {before}")
        return smallest_change(choice, self.choices)


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
    listed = {ref: choices.get(ref, choice.unchanged) for ref, choice in alone.items()}  # Services list all of them
    context = WriteContext(fleet, run, clusters, listed, repairs=False)
    return replace(desired, decisions=decisions_of(context), explanations=())


def _if_done(instead_of: IdleAction, action: IdleAction, context: WriteContext) -> tuple[Decision, ...]:
    """Return the decisions there would be if `action` were done `instead_of` what is: those on what is concerned, what
    they need, and what needs them.
    """
    concerned = {ref: choice for ref, choice in context.choices.items() if choice.action is instead_of}
    if not concerned:
        return ()
    assumed = {ref: choice.doing(action, choice.own_reasons) for ref, choice in concerned.items()}
    decisions = decisions_of(replace(context, choices={**context.choices, **assumed}))
    own = {decision.key for decision in decisions if decision.ref in concerned}
    needed = {need for decision in decisions if decision.key in own for need in decision.needs}
    return tuple(one for one in decisions if one.key in own | needed or not own.isdisjoint(one.needs))


def _observed(decision: Decision) -> Decision:
    needs = tuple(f"observed/{need}" for need in decision.needs)
    return replace(decision, key=f"observed/{decision.key}", needs=needs)


# The decisions that choices ask for, in the order of writes that leaves no moment without a way back. Of one scalable:
#
# - it goes idle: its Services list it, and the target of a ScaledObject gets its record; it is scaled, and has its
#   record, in one request; then its autoscaler is held;
# - it wakes: its autoscaler gets its bounds back; it is scaled, and its record goes; then the lists of its Services go,
#   and what is on its autoscaler and its target. It is released in that order, but for the bounds, which go last;
# - it stays idle: what is missing of all that is written again, its autoscaler first where that scaled it up.


def decisions_of(context: WriteContext) -> tuple[Decision, ...]:
    """Return every decision that the choices ask for, sorted by group and order; nothing on a read-only cluster."""
    behind = by_key(
        (service.ref, choice) for choice in context.live for service in choice.subject.services if is_recorded(service)
    )
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


_CHANGED = GOES_UP | {IdleAction.IDLE, IdleAction.CLEAR}


class IdlingOutcome(Struct, frozen=True):
    """`claims` gives the policy's name for every workload that is idle because of us after this run, or that this run
    idles, wakes or repairs. `federated` are the local workloads of each federated ReplicaSet.
    """

    desired: DesiredState
    claims: Mapping[ObjectRef, str] = field(default_factory=dict)
    federated: Sequence[tuple[ObjectRef, ...]] = ()

    def after(
        self, state: ObservedState, fleets: frozenset[str], not_now: frozenset[ObjectRef] = frozenset()
    ) -> SettledWorkloads:
        """Return what is left of each workload of `state` that is idle, or that idling has a say in: worked out when
        it is asked for, as the other jobs look at few workloads.

        `fleets` are the Fleet names whose records are ours. What is decided of `not_now` is not done, so these are as
        they were.
        """

        @cache
        def known() -> tuple[dict[ObjectRef, list[Decision]], dict[ObjectRef, str], dict[ObjectRef, Workload]]:
            made = by_key((one.ref, one) for one in self.desired.decisions if one.ref not in not_now)
            workloads = {workload.ref: workload for each in state.clusters.values() for workload in each.workloads}
            return made, self._claims_without(not_now), workloads

        @cache
        def settled(ref: ObjectRef) -> Settled | None:
            made, claims, workloads = known()
            workload = workloads.get(ref)
            return None if workload is None else _settled(workload, claims.get(ref), made.get(ref, ()), fleets)

        return settled

    def without(self, not_now: frozenset[ObjectRef]) -> DesiredState:
        """Return what is desired where `not_now` does not wake, with what needs that; its idles stay, to be held back
        with all that is bound to them.
        """
        if not not_now:
            return self.desired
        decisions = self.desired.decisions
        gone = {decision.key for decision in decisions if decision.ref in not_now and not decision.idles}
        while more := {decision.key for decision in decisions if gone.intersection(decision.needs)} - gone:
            gone |= more
        return replace(self.desired, decisions=tuple(decision for decision in decisions if decision.key not in gone))

    def _claims_without(self, not_now: frozenset[ObjectRef]) -> dict[ObjectRef, str]:
        """Return who claims each workload, but those of `not_now`: where one local workload of a federated ReplicaSet
        is claimed, all of them are.
        """
        found = {ref: policy for ref, policy in self.claims.items() if ref not in not_now}
        for refs in self.federated:
            claimed = [found[ref] for ref in refs if ref in found]
            if claimed:
                found |= {ref: claimed[0] for ref in refs if ref not in found and ref not in not_now}
        return found


def _settled(
    workload: Workload, claim: str | None, decisions: Sequence[Decision], fleets: frozenset[str]
) -> Settled | None:
    """Return what `decisions` leave of `workload`, None where idling has nothing to do with it."""
    written = _written(workload, decisions)
    reading = read_record(written, fleets)
    record = None if reading is None else reading.record
    owner = claim or (record.policy if record is not None else "") or "its idle record"
    needs = tuple(decision.key for decision in decisions)
    until, replicas = None if record is None else record.wake_due, written.spec_replicas
    if reading is not None and (record is None or replicas <= record.idled_to):
        awake = replicas if record is None else record.replicas
        ours = claim is not None or reading.ours
        return Settled("Asleep" if ours else "Foreign", replicas, awake, owner, until, needs)
    if claim is not None and not decisions:
        return Settled("HandsOff", replicas, replicas, owner, until)
    theirs = scaled_down_by_others(workload)
    if theirs is not None:
        return Settled("ScaledDown", replicas, *theirs, needs=needs)
    if not decisions:
        return None
    before = _settled(workload, claim, (), fleets)
    awake = workload.spec_replicas if before is None else before.awake_replicas
    return Settled("Waking", replicas, awake, owner, None if before is None else before.until, needs)


def _written(workload: Workload, decisions: Iterable[Decision]) -> Workload:
    """Return `workload` with the scale and the annotations that those of `decisions` leave which write its scale."""
    for decision in decisions:
        if decision.replicas_after is not None:
            changed = {change.path[-1]: change.after for change in decision.changes if change.path[:-1] == ANNOTATIONS}
            annotations = {key: text for key, text in {**workload.annotations, **changed}.items() if text is not None}
            workload = replace(workload, annotations=annotations, replicas=decision.replicas_after)
    return workload


def claims(choices: Mapping[ObjectRef, Choice]) -> dict[ObjectRef, str]:
    """Return every workload that is ours after this run, or that this run changes, with its policy's name."""
    found: dict[ObjectRef, str] = {}
    for choice in choices.values():
        if choice.state is IdleState.UNREADABLE or choice.action in _CHANGED or choice.subject.is_idle:
            found[choice.ref] = owner_policy(choice)
            if not choice.subject.scale.lowers_minimum:
                found[choice.subject.scale.runs.ref] = found[choice.ref]
    return {ref: found[ref] for ref in sorted(found)}
