"""A scalable and everything that bears on it -> its row in the table (transition_rules.py), and that action."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.autoscalers import PinnedAutoscaler
from reconciler.decide.fleet_guard import FLEET, FleetGuards
from reconciler.decide.idling.blockers import (
    A_WAKE_REQUEST,
    UNCONTESTED,
    UNPROTECTED,
    Blocker,
    after,
    blocker,
    blocker_of,
    field_is,
    lifts_by_itself,
    more_replicas,
    restricted,
    what_lifts,
)
from reconciler.decide.idling.contested import contest_of, is_by_tool, undo_of
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.records import LONG_AGO, Record, who_idled
from reconciler.decide.idling.scalables import ScalableState, ServiceState, WakeRequest
from reconciler.decide.idling.state import IDLE_STATES, MAYBE_DOWN, NOT_OURS, Classification, IdleState, classify
from reconciler.decide.idling.transition_rules import KEEP_UP, ChosenAction, Flag, IdleAction, Situation, choose
from reconciler.decide.idling.verdicts import CombinedVerdict
from reconciler.decide.reasons import (
    Counterfactual,
    CounterfactualCode,
    ReasonCode,
    Reasons,
    change_if,
    joint_counterfactual,
    reason,
    text_of,
)
from reconciler.model import FIELD_MANAGER, ObjectRef, Workload
from reconciler.policy.types import Writes

_CONTESTABLE = IDLE_STATES | {IdleState.IDLE_INCOMPLETE, IdleState.WAKE_INCOMPLETE, IdleState.STALE}
"""What may carry a contest besides what is left alone for it: a run that wrote it may have died before the rest."""

_STAYING = (IdleAction.KEEP, IdleAction.HOLD_BACK, IdleAction.OVERDUE, IdleAction.DEFER)
_SINCE_ITS_RECORD = IDLE_STATES | {IdleState.FOREIGN, IdleState.IDLE_INCOMPLETE}


class Transition(Struct, frozen=True):
    """What is done with one scalable. `counterfactual` is the smallest change that would alter it, None for none."""

    scalable: ScalableState
    classification: Classification
    situation: Situation
    choice: ChosenAction
    counterfactual: Counterfactual | None = None

    @property
    def ref(self) -> ObjectRef:
        return self.scalable.scale.written.ref

    @property
    def state(self) -> IdleState:
        return self.classification.state

    @property
    def action(self) -> IdleAction:
        return self.choice.action

    @property
    def reasons(self) -> Reasons:
        return self.choice.reasons or self.scalable.verdict.reasons

    @property
    def why(self) -> str:
        return text_of(self.reasons)

    @property
    def record(self) -> Record | None:
        return self.classification.record

    @property
    def autoscaler(self) -> PinnedAutoscaler | None:
        """How its autoscaler is held, as whoever idled it may read that."""
        return _pinned_as_read(self.scalable, self.classification)

    @property
    def gets_bounds_back(self) -> bool:
        """Whether its autoscaler has bounds of ours that we can take back."""
        autoscaler = self.autoscaler
        return autoscaler is not None and not autoscaler.problem and autoscaler.gets_back

    @property
    def keeps_request(self) -> bool:
        """Whether it runs, somebody asked for it, and only leftovers that go now say so: it counts as woken now."""
        return self.action is IdleAction.CLEAR and Flag.REQUESTED in self.situation.flags

    @property
    def was_idle(self) -> bool:
        return self.state in IDLE_STATES

    @property
    def stays_idle(self) -> bool:
        """Whether it stands at its idled count because of us after this run."""
        action = self.choice.action
        return action is IdleAction.IDLE or (action in _STAYING and self.was_idle)

    @property
    def stays_up(self) -> bool:
        """Whether it runs after this run, above the floor of the policy that idles it."""
        if self.stays_idle and self.state not in MAYBE_DOWN:
            return False
        replicas = self.next_replicas
        return self._is_raised_from(replicas) or replicas > self.scalable.verdict.idle_replicas

    @property
    def holds_others_up(self) -> bool:
        """Whether what goes idle together with it stays up because of it; not where a policy would idle it too."""
        return self.stays_up and self.action is not IdleAction.OBSERVE

    @property
    def next_replicas(self) -> int:
        """The replicas it has after this run, where it is not idled: a wake restores its record."""
        if self.action is IdleAction.WAKE and self.record is not None:
            return wake_count(self, self.record)
        return self.scalable.scale.replicas

    def _is_raised_from(self, replicas: int) -> bool:
        """Return whether its autoscaler raises it from there: to the minimum it has after this run, never from zero."""
        autoscaler = self.autoscaler
        if autoscaler is None:
            return False
        released = self.action in (IdleAction.RELEASE, IdleAction.WAKE) and self.gets_bounds_back
        return 0 < replicas < (autoscaler.own_bounds if released else autoscaler.bounds).least

    def with_flag(self, flag: Flag, why: Blocker) -> Transition:
        """Return the transition where `flag` holds too, because of `why`."""
        reasons = {**self.situation.reasons, flag: why.reasons}
        situation = replace(self.situation, flags=self.situation.flags | {flag}, reasons=reasons)
        choice = _naming_who_idled_it(choose(situation), self.record)
        return replace(
            self,
            situation=situation,
            choice=choice,
            counterfactual=why.counterfactual if choice.flag is flag else self.counterfactual,
        )


def transition_of(scalable: ScalableState, guards: FleetGuards, now: datetime) -> Transition:
    """Return the transition of `scalable` by itself, without its neighbours behind a Service or on other clusters."""
    classification = classify(scalable)
    flags = dict(_flags(scalable, classification, guards, now))
    reasons = {flag: why.reasons for flag, why in flags.items()}
    situation = Situation(classification.state, scalable.verdict.result, frozenset(flags), reasons)
    choice = _naming_who_idled_it(choose(situation), classification.record)
    return Transition(scalable, classification, situation, choice, _counterfactual(scalable, situation, choice, flags))


def _naming_who_idled_it(choice: ChosenAction, record: Record | None) -> ChosenAction:
    if record is None or not any(one.code is ReasonCode.FOREIGN for one in choice.reasons):
        return choice
    return replace(choice, reasons=(reason(ReasonCode.FOREIGN, by=who_idled(record.fleet)),))


def _counterfactual(
    scalable: ScalableState, situation: Situation, choice: ChosenAction, flags: Mapping[Flag, Blocker]
) -> Counterfactual | None:
    """Return the smallest change of the cause of `choice` that would alter it."""
    if choice.counterfactual is not None:
        return choice.counterfactual
    if choice.flag is not None:
        lifted = flags[choice.flag].counterfactual
        if choice.flag not in KEEP_UP or choice.action is not IdleAction.LEAVE or not lifts_by_itself(lifted):
            return lifted
        changes = (flags[flag].counterfactual for flag in KEEP_UP if flag in flags)
        return what_lifts(changes, scalable.verdict.until)
    if situation.state is IdleState.DOWN:
        return more_replicas(scalable)
    if choice.reasons:
        return None
    if choice.action is IdleAction.KEEP and scalable.verdict.result is CriterionResult.BUSY:
        return A_WAKE_REQUEST
    excluded = flags.get(Flag.EXCLUDED)
    return joint_counterfactual(
        CounterfactualCode.ALL, (scalable.verdict.counterfactual, None if excluded is None else excluded.counterfactual)
    )


def _flags(
    scalable: ScalableState, classification: Classification, guards: FleetGuards, now: datetime
) -> Iterator[tuple[Flag, Blocker]]:
    request = _counting_request(scalable, classification, now)
    if request is not None:
        acts = classification.state in IDLE_STATES or request.at <= now
        yield Flag.REQUESTED, Blocker((request.reason,), None if acts else after(request.at))
    found = {
        Flag.EXCLUDED: _excluded(scalable, classification),
        Flag.BLOCKED: blocker_of(scalable, now),
        Flag.INSISTS: _insists(scalable, classification, now),
    }
    yield from ((flag, why) for flag, why in found.items() if why is not None)
    yield from _verdict_flags(scalable.verdict)
    if scalable.verdict.observing:
        yield Flag.OBSERVED, _observed(scalable)
    yield from _pinned_by_others(scalable, classification)
    if scalable.protected is not None:
        yield Flag.PROTECTED, Blocker((scalable.protected,), UNPROTECTED)
    if scalable.cluster.writes is Writes.NOTHING:
        yield Flag.READ_ONLY, restricted(scalable)
    if classification.record is not None:
        yield from _record_flags(scalable, classification.record, guards, now)


def _pinned_as_read(scalable: ScalableState, classification: Classification) -> PinnedAutoscaler | None:
    """Return how its autoscaler is held; where its bounds are the floor of the record, that is the floor."""
    autoscaler, record = scalable.autoscaler, classification.record
    if autoscaler is None or record is None:
        return autoscaler
    read = autoscaler.read_by(record.fleet) if classification.state in NOT_OURS else autoscaler
    return replace(read, floor=record.idled_to) if read.is_pinned_at(record.idled_to) else read


def _pinned_by_others(scalable: ScalableState, classification: Classification) -> Iterator[tuple[Flag, Blocker]]:
    """Yield that a wake would not last: another Fleet than the one that idled it holds its autoscaler at a floor."""
    autoscaler = _pinned_as_read(scalable, classification)
    if autoscaler is not None and autoscaler.holder and autoscaler.gets_back:
        name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
        flag = change_if(CounterfactualCode.FLAG, flag="--context in place of the Fleet")
        yield Flag.BOUNDS, blocker(ReasonCode.HPA_PINNED_BY_FLEET, flag, fleet=autoscaler.holder, autoscaler=name)


def _verdict_flags(verdict: CombinedVerdict) -> Iterator[tuple[Flag, Blocker]]:
    if verdict.busy is not None:
        yield Flag.BUSY, Blocker(verdict.busy.evaluation.reasons, verdict.busy.evaluation.counterfactual)
    if verdict.wake_when is not None:
        yield Flag.WAKE_WHEN, Blocker(verdict.wake_when.wake_when.reasons, verdict.wake_when.wake_when.counterfactual)


def _insists(scalable: ScalableState, classification: Classification, now: datetime) -> Blocker | None:
    """Return that what a tool scaled up is idled again.

    None where a person did, where a policy yields, or where somebody put the bounds of its autoscaler back: that raises
    it again within seconds.
    """
    record, policies = classification.record, scalable.verdict.policies
    if classification.state is not IdleState.MANUALLY_SCALED or record is None or not policies:
        return None
    undo = undo_of(scalable, record, now)
    if undo.autoscaler or not is_by_tool(undo) or any(policy.on_revert == "Yield" for policy in policies):
        return None
    yields = field_is("onRevert", f"Yield in {policies[0].name}")
    return blocker(ReasonCode.INSISTED, yields, by=undo.by, replicas=scalable.scale.replicas)


def _observed(scalable: ScalableState) -> Blocker:
    """Return why `scalable` is only observed: what its policies say, or which of them holds back those that enforce."""
    verdict, ref = scalable.verdict, scalable.scale.runs.ref
    if not verdict.enforcing:
        return Blocker(verdict.reasons, verdict.counterfactual)
    names = list(dict.fromkeys(verdict.policy.name for verdict in verdict.observing))
    services = dict.fromkeys(
        f"Service/{verdict.service}" for verdict in verdict.observing if verdict.service is not None
    )
    enforced = field_is("mode", f"Enforce in {' and '.join(names)}")
    return blocker(
        ReasonCode.OBSERVED_ONLY, enforced, object=f"{ref.kind}/{ref.name}", policies=names, services=list(services)
    )


def _record_flags(
    scalable: ScalableState, record: Record, guards: FleetGuards, now: datetime
) -> Iterator[tuple[Flag, Blocker]]:
    verdict = scalable.verdict
    due = None if verdict.wakes_on_requests_only else record.wake_due
    if due is not None and due <= now and scalable.scale.is_at_or_below(record.idled_to):
        yield Flag.DUE, blocker(ReasonCode.WAKE_DUE, due=due)
    idle_replicas, replicas = verdict.idle_replicas, record.replicas
    if idle_replicas >= replicas:
        below = field_is("idleReplicas", f"below {replicas}")
        yield (
            Flag.FLOOR,
            blocker(ReasonCode.IDLE_REPLICAS_TOO_HIGH, below, idleReplicas=idle_replicas, replicas=replicas),
        )
    guard = guards.of(scalable.ref.namespace)
    if guard.holds(record.policy, record.orphaned_since, now):
        yield Flag.GUARDED, Blocker((guard.reason,), change_if(CounterfactualCode.FLAG, flag=f"--allow-exceed {FLEET}"))


def _counting_request(scalable: ScalableState, classification: Classification, now: datetime) -> WakeRequest | None:
    """Return the latest request that came when it was idled or later, None for none."""
    state, record, written = classification.state, classification.record, scalable.scale.written
    if state is IdleState.FOREIGN and (record is None or not scalable.scale.is_at_or_below(record.idled_to)):
        return None
    since = record.idled_at if record is not None and state in _SINCE_ITS_RECORD else now
    found = [
        (scalable.request, since),
        *((service.request, _recorded_at(service, since)) for service in scalable.services),
    ]
    if state in IDLE_STATES or state is IdleState.FOREIGN:
        found = [(request, _really_idled_at(at, written, now)) for request, at in found]
    # The list of a Service may outlive the wake that answered a request.
    answered = scalable.awake_since if state is IdleState.WAKE_INCOMPLETE else None
    new = (request for request, at in found if request is not None and request.at >= at)
    return max((request for request in new if answered is None or request.at > answered), default=None)


def _recorded_at(service: ServiceState, since: datetime) -> datetime:
    record = service.record or service.foreign
    return since if record is None else record.idled_at


def _really_idled_at(recorded: datetime, written: Workload, now: datetime) -> datetime:
    """Return when `written` was idled; its record says `recorded`, by the clock of that run.

    That clock may have been ahead, and then requests since would look older than the record and be lost. The API
    server dates our write too; where it does not say, a time that is still to come says nothing.
    """
    writer = written.replicas_writer
    if writer is not None and writer.at is not None and writer.manager == FIELD_MANAGER:
        return min(recorded, writer.at)
    return recorded if recorded <= now else LONG_AGO


def _excluded(scalable: ScalableState, classification: Classification) -> Blocker | None:
    if scalable.verdict.without_policies:
        return None
    found = scalable.exclusion
    if found is not None:
        return Blocker((reason(ReasonCode.EXCLUDED, object=found.on), found.reason), found.counterfactual)
    contest = (
        contest_of(scalable.scale.written, scalable.verdict.policy) if classification.state in _CONTESTABLE else None
    )
    return None if contest is None else blocker(ReasonCode.CONTESTED, UNCONTESTED, by=contest.by)


def transitions_of(
    scalables: Iterable[ScalableState], guards: FleetGuards, now: datetime
) -> dict[ObjectRef, Transition]:
    """Return the transition on each of `scalables`, by name in order."""
    return {
        scalable.ref: transition_of(scalable, guards, now)
        for scalable in sorted(scalables, key=lambda scalable: scalable.ref)
    }


def wake_count(transition: Transition, record: Record) -> int:
    """Return the replicas a wake restores: those of the record, within the bounds of its autoscaler."""
    autoscaler = transition.autoscaler
    if autoscaler is None or autoscaler.problem:
        return record.replicas
    return autoscaler.own_bounds.clamp(record.replicas)


def owner_policy(transition: Transition) -> str:
    """Return the name of the policy that answers for what is done: that of the record while it selects the scalable or
    no other does, else the one that does, as the record passes to that one.
    """
    selecting = transition.scalable.verdict.policy
    recorded = _recorded_policy(transition)
    if selecting is None or any(policy.name == recorded for policy in transition.scalable.verdict.policies):
        return recorded
    return selecting.name


def _recorded_policy(transition: Transition) -> str:
    """Return the name of the policy in the record of ours that is not written anew, "" for none."""
    ours = transition.action is not IdleAction.IDLE and transition.state not in NOT_OURS
    return transition.record.policy if transition.record is not None and ours else ""


def idled_by(transition: Transition) -> str:
    """Return the name of the policy that its idle record names, or that answers for it where it names none."""
    return _recorded_policy(transition) or owner_policy(transition)


def deciding_names(transition: Transition) -> tuple[str, ...]:
    """Return the names of the policies whose criteria are the reason, () where the reason is another one."""
    combined, flag = transition.scalable.verdict, transition.choice.flag
    if flag in (Flag.BUSY, Flag.WAKE_WHEN):
        found = combined.busy if flag is Flag.BUSY else combined.wake_when
        return () if found is None else (found.policy.name,)
    if flag is not None or transition.choice.reasons:
        return ()
    return combined.deciding_names


def waking_policy(transition: Transition) -> str:
    """Return the name of the policy whose own words wake it, "" where the reason is no policy's."""
    combined = transition.scalable.verdict
    flag = transition.choice.flag
    if transition.action is not IdleAction.WAKE or flag is None:
        return ""
    highest = max(combined.verdicts, key=lambda verdict: verdict.policy.idle_replicas, default=None)
    waking = {Flag.BUSY: combined.busy, Flag.WAKE_WHEN: combined.wake_when, Flag.FLOOR: highest}.get(flag)
    return "" if waking is None else waking.policy.name
