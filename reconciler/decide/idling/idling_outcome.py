"""What idling comes to: its decisions, and what it leaves of each workload to placement and downscale."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from msgspec import Struct, field
from msgspec.structs import replace

from reconciler.decide.decisions import ANNOTATIONS, Decision, DesiredState
from reconciler.decide.idling.records import read_record, scaled_down_by_others
from reconciler.decide.idling.rules import GOES_UP, Choice, IdleAction, owner_policy
from reconciler.decide.idling.subjects import IdleState
from reconciler.decide.workloads import Settled, SettledWorkloads
from reconciler.model import ObjectRef, ObservedState, Workload

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
        made: dict[ObjectRef, list[Decision]] = {}
        for decision in self.desired.decisions:
            if decision.ref not in not_now:
                made.setdefault(decision.ref, []).append(decision)
        claims = self._claims_without(not_now)
        workloads = {workload.ref: workload for each in state.clusters.values() for workload in each.workloads}

        @cache
        def settled(ref: ObjectRef) -> Settled | None:
            workload = workloads.get(ref)
            return None if workload is None else _settled(workload, claims.get(ref), made.get(ref, ()), fleets)

        return settled

    def without(self, not_now: frozenset[ObjectRef]) -> DesiredState:
        """Return what is desired where `not_now` does not wake, with what needs that; its idles stay, to be held back
        with all that is bound to them.
        """
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
