"""A scalable and everything that bears on it -> what holds of it, the rule for that (rules.py), and its action."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.autoscalers import PinnedAutoscaler
from reconciler.decide.fleet_guard import FLEET, FleetGuards
from reconciler.decide.idling.blockers import (
    A_WAKE_REQUEST,
    ANOTHER_STATE,
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
from reconciler.decide.idling.rules import KEEP_UP, Fact, IdleAction, Rule, choose
from reconciler.decide.idling.scalables import ScalableState, ServiceState, WakeRequest
from reconciler.decide.idling.state import IDLE_STATES, MAYBE_DOWN, NOT_OURS, IdleState, classify
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


class Choice(Struct, frozen=True):
    """What is done with one scalable.

    `record` is what it goes back to, None where it is not idled. `facts` are what holds of it, each with why. `fact` is
    the one that is the reason, if one is; `own_reasons` are () where the criteria say why. `counterfactual` is the
    smallest change that would alter it, None for none.
    """

    scalable: ScalableState
    state: IdleState
    record: Record | None
    facts: Mapping[Fact, Blocker]
    action: IdleAction
    own_reasons: Reasons = ()
    fact: Fact | None = None
    counterfactual: Counterfactual | None = None

    @property
    def ref(self) -> ObjectRef:
        return self.scalable.scale.written.ref

    @property
    def reasons(self) -> Reasons:
        return self.own_reasons or self.scalable.verdict.reasons

    @property
    def why(self) -> str:
        return text_of(self.reasons)

    @property
    def autoscaler(self) -> PinnedAutoscaler | None:
        """How its autoscaler is held, as whoever idled it may read that."""
        return _pinned_as_read(self.scalable, self.state, self.record)

    @property
    def gets_bounds_back(self) -> bool:
        """Whether its autoscaler has bounds of ours that we can take back."""
        autoscaler = self.autoscaler
        return autoscaler is not None and not autoscaler.problem and autoscaler.gets_back

    @property
    def keeps_request(self) -> bool:
        """Whether it runs, somebody asked for it, and only leftovers that go now say so: it counts as woken now."""
        return self.action is IdleAction.CLEAR and Fact.REQUESTED in self.facts

    @property
    def was_idle(self) -> bool:
        return self.state in IDLE_STATES

    @property
    def stays_idle(self) -> bool:
        """Whether it stands at its idled count because of us after this run."""
        return self.action is IdleAction.IDLE or (self.action in _STAYING and self.was_idle)

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

    def with_fact(self, fact: Fact, why: Blocker) -> Choice:
        """Return the choice where `fact` holds too, because of `why`."""
        made = _chosen(self.scalable, self.state, self.record, {**self.facts, fact: why})
        return replace(made, counterfactual=why.counterfactual if made.fact is fact else self.counterfactual)

    def doing(self, action: IdleAction, reasons: Reasons) -> Choice:
        """Return the choice of another action, for `reasons` that no rule has."""
        return replace(self, action=action, own_reasons=reasons, fact=None)


def choice_of(scalable: ScalableState, guards: FleetGuards, now: datetime) -> Choice:
    """Return the choice for `scalable` by itself, without its neighbours behind a Service or on other clusters."""
    state, record = classify(scalable)
    return _chosen(scalable, state, record, dict(_facts(scalable, state, record, guards, now)))


def _chosen(scalable: ScalableState, state: IdleState, record: Record | None, facts: Mapping[Fact, Blocker]) -> Choice:
    rule, action = choose(state, scalable.verdict.result, facts)
    reasons = rule.reasons if rule.fact is None else facts[rule.fact].reasons
    if record is not None and any(one.code is ReasonCode.FOREIGN for one in reasons):
        reasons = (reason(ReasonCode.FOREIGN, by=who_idled(record.fleet)),)
    change = _counterfactual(scalable, state, facts, rule) if action is rule.action else ANOTHER_STATE
    return Choice(scalable, state, record, facts, action, reasons, rule.fact, change)


def _counterfactual(
    scalable: ScalableState, state: IdleState, facts: Mapping[Fact, Blocker], rule: Rule
) -> Counterfactual | None:
    """Return the smallest change that would make `rule` not hold any more."""
    verdict = scalable.verdict
    if rule.counterfactual is not None:
        return rule.counterfactual
    if rule.fact is not None:
        lifted = facts[rule.fact].counterfactual
        if rule.fact not in KEEP_UP or rule.action is not IdleAction.LEAVE or not lifts_by_itself(lifted):
            return lifted
        return what_lifts((facts[fact].counterfactual for fact in KEEP_UP if fact in facts), verdict.until)
    if state is IdleState.DOWN:
        return more_replicas(scalable)
    if rule.reasons:
        return None
    if rule.action is IdleAction.KEEP and verdict.result is CriterionResult.BUSY:
        return A_WAKE_REQUEST
    excluded = facts.get(Fact.EXCLUDED)
    return joint_counterfactual(
        CounterfactualCode.ALL, (verdict.counterfactual, None if excluded is None else excluded.counterfactual)
    )


def _facts(
    scalable: ScalableState, state: IdleState, record: Record | None, guards: FleetGuards, now: datetime
) -> Iterator[tuple[Fact, Blocker]]:
    request = _counting_request(scalable, state, record, now)
    if request is not None:
        acts = state in IDLE_STATES or request.at <= now
        yield Fact.REQUESTED, Blocker((request.reason,), None if acts else after(request.at))
    found = {
        Fact.EXCLUDED: _excluded(scalable, state),
        Fact.BLOCKED: blocker_of(scalable, now),
        Fact.INSISTS: _insists(scalable, state, record, now),
    }
    yield from ((fact, why) for fact, why in found.items() if why is not None)
    yield from _verdict_facts(scalable.verdict)
    if scalable.verdict.observing:
        yield Fact.OBSERVED, _observed(scalable)
    yield from _pinned_by_others(scalable, state, record)
    if scalable.protected is not None:
        yield Fact.PROTECTED, Blocker((scalable.protected,), UNPROTECTED)
    if scalable.cluster.writes is Writes.NOTHING:
        yield Fact.READ_ONLY, restricted(scalable)
    if record is not None:
        yield from _record_facts(scalable, record, guards, now)


def _pinned_as_read(scalable: ScalableState, state: IdleState, record: Record | None) -> PinnedAutoscaler | None:
    """Return how its autoscaler is held; where its bounds are the floor of the record, that is the floor."""
    autoscaler = scalable.autoscaler
    if autoscaler is None or record is None:
        return autoscaler
    read = autoscaler.read_by(record.fleet) if state in NOT_OURS else autoscaler
    return replace(read, floor=record.idled_to) if read.is_pinned_at(record.idled_to) else read


def _pinned_by_others(
    scalable: ScalableState, state: IdleState, record: Record | None
) -> Iterator[tuple[Fact, Blocker]]:
    """Yield that a wake would not last: another Fleet than the one that idled it holds its autoscaler at a floor."""
    autoscaler = _pinned_as_read(scalable, state, record)
    if autoscaler is not None and autoscaler.holder and autoscaler.gets_back:
        name = f"HorizontalPodAutoscaler/{autoscaler.hpa.ref.name}"
        by_context = change_if(CounterfactualCode.FLAG, flag="--context in place of the Fleet")
        yield Fact.BOUNDS, blocker(ReasonCode.HPA_PINNED_BY_FLEET, by_context, fleet=autoscaler.holder, autoscaler=name)


def _verdict_facts(verdict: CombinedVerdict) -> Iterator[tuple[Fact, Blocker]]:
    if verdict.busy is not None:
        yield Fact.BUSY, Blocker(verdict.busy.evaluation.reasons, verdict.busy.evaluation.counterfactual)
    if verdict.wake_when is not None:
        yield Fact.WAKE_WHEN, Blocker(verdict.wake_when.wake_when.reasons, verdict.wake_when.wake_when.counterfactual)


def _insists(scalable: ScalableState, state: IdleState, record: Record | None, now: datetime) -> Blocker | None:
    """Return that what a tool scaled up is idled again.

    None where a person did, where a policy yields, or where somebody put the bounds of its autoscaler back: that raises
    it again within seconds.
    """
    policies = scalable.verdict.policies
    if state is not IdleState.MANUALLY_SCALED or record is None or not policies:
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


def _record_facts(
    scalable: ScalableState, record: Record, guards: FleetGuards, now: datetime
) -> Iterator[tuple[Fact, Blocker]]:
    verdict = scalable.verdict
    due = None if verdict.wakes_on_requests_only else record.wake_due
    if due is not None and due <= now and scalable.scale.is_at_or_below(record.idled_to):
        yield Fact.DUE, blocker(ReasonCode.WAKE_DUE, due=due)
    idle_replicas, replicas = verdict.idle_replicas, record.replicas
    if idle_replicas >= replicas:
        below = field_is("idleReplicas", f"below {replicas}")
        yield (
            Fact.FLOOR,
            blocker(ReasonCode.IDLE_REPLICAS_TOO_HIGH, below, idleReplicas=idle_replicas, replicas=replicas),
        )
    guard = guards.of(scalable.ref.namespace)
    if guard.holds(record.policy, record.orphaned_since, now):
        yield Fact.GUARDED, Blocker((guard.reason,), change_if(CounterfactualCode.FLAG, flag=f"--allow-exceed {FLEET}"))


def _counting_request(
    scalable: ScalableState, state: IdleState, record: Record | None, now: datetime
) -> WakeRequest | None:
    """Return the latest request that came when it was idled or later, None for none."""
    written = scalable.scale.written
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


def _excluded(scalable: ScalableState, state: IdleState) -> Blocker | None:
    if scalable.verdict.without_policies:
        return None
    found = scalable.exclusion
    if found is not None:
        return Blocker((reason(ReasonCode.EXCLUDED, object=found.on), found.reason), found.counterfactual)
    contest = contest_of(scalable.scale.written, scalable.verdict.policy) if state in _CONTESTABLE else None
    return None if contest is None else blocker(ReasonCode.CONTESTED, UNCONTESTED, by=contest.by)


def choices_of(scalables: Iterable[ScalableState], guards: FleetGuards, now: datetime) -> dict[ObjectRef, Choice]:
    """Return the choice on each of `scalables`, by name in order."""
    return {
        scalable.ref: choice_of(scalable, guards, now)
        for scalable in sorted(scalables, key=lambda scalable: scalable.ref)
    }


def wake_count(choice: Choice, record: Record) -> int:
    """Return the replicas a wake restores: those of the record, within the bounds of its autoscaler."""
    autoscaler = choice.autoscaler
    if autoscaler is None or autoscaler.problem:
        return record.replicas
    return autoscaler.own_bounds.clamp(record.replicas)


def owner_policy(choice: Choice) -> str:
    """Return the name of the policy that answers for what is done: that of the record while it selects the scalable or
    no other does, else the one that does, as the record passes to that one.
    """
    selecting = choice.scalable.verdict.policy
    recorded = _recorded_policy(choice)
    if selecting is None or any(policy.name == recorded for policy in choice.scalable.verdict.policies):
        return recorded
    return selecting.name


def _recorded_policy(choice: Choice) -> str:
    """Return the name of the policy in the record of ours that is not written anew, "" for none."""
    ours = choice.action is not IdleAction.IDLE and choice.state not in NOT_OURS
    return choice.record.policy if choice.record is not None and ours else ""


def idled_by(choice: Choice) -> str:
    """Return the name of the policy that its idle record names, or that answers for it where it names none."""
    return _recorded_policy(choice) or owner_policy(choice)


def deciding_names(choice: Choice) -> tuple[str, ...]:
    """Return the names of the policies whose criteria are the reason, () where the reason is another one."""
    combined, fact = choice.scalable.verdict, choice.fact
    if fact in (Fact.BUSY, Fact.WAKE_WHEN):
        found = combined.busy if fact is Fact.BUSY else combined.wake_when
        return () if found is None else (found.policy.name,)
    if fact is not None or choice.own_reasons:
        return ()
    return combined.deciding_names


def waking_policy(choice: Choice) -> str:
    """Return the name of the policy whose own words wake it, "" where the reason is no policy's."""
    combined = choice.scalable.verdict
    fact = choice.fact
    if choice.action is not IdleAction.WAKE or fact is None:
        return ""
    highest = max(combined.verdicts, key=lambda verdict: verdict.policy.idle_replicas, default=None)
    waking = {Fact.BUSY: combined.busy, Fact.WAKE_WHEN: combined.wake_when, Fact.FLOOR: highest}.get(fact)
    return "" if waking is None else waking.policy.name
