"""Which rule decides: the state of a workload, what its policies say, and what else holds -> one action; and the choice
that this is: its reasons, who answers for it, and what the workload has then.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence, Set
from datetime import datetime
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.change_codes import Fact
from reconciler.decide.decisions import Phase, Verb
from reconciler.decide.idling.conditions import KEEP_UP, PER_WORKLOAD, IdlingCondition, IdlingConditions
from reconciler.decide.idling.contested import contest_of
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.keeps_awake import at_rest
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.service_records import who_idled
from reconciler.decide.idling.subjects import LEFTOVERS, NOT_OURS, IdleState, Subject
from reconciler.decide.idling.wake_replicas import wake_count
from reconciler.decide.reasons import Code, Reason, ReasonCode, Reasons, reason, text_of
from reconciler.decide.removal_guard import NO_GUARDS, FleetGuards, removal_guards
from reconciler.model import ObjectRef, Run
from reconciler.policy.types import PolicySet


class IdleAction(StrEnum):
    """What is done with a scalable: the verb and the phase of the decision on it, and what people are told, also of an
    autoscaler whose minimum is lowered, where that is something else.
    """

    verb: Verb
    phase: Phase
    told: str
    told_of_minimum: str

    def __new__(
        cls, name: str, told: str, of_minimum: str = "", verb: Verb = Verb.REPAIR, phase: Phase = Phase.REPAIR
    ) -> IdleAction:
        member = str.__new__(cls, name)
        member._value_ = name
        member.told, member.told_of_minimum, member.verb, member.phase = told, of_minimum or told, verb, phase
        return member

    LEAVE = "leave", "stays awake"  # nothing of ours is there, nothing is done
    IDLE = "idle", "goes idle", "gets a lower minimum", Verb.IDLE, Phase.DECREASE
    OBSERVE = "observe", "would go idle", "would get a lower minimum"  # only in the report
    KEEP = "keep", "stays idle", "keeps its lower minimum"  # what is not as it should be is repaired
    WAKE = "wake", "wakes", "gets its minimum back", Verb.WAKE, Phase.WAKE
    # by hand: our annotations go, and it stays up for a while
    RELEASE = "release", "stays awake", "keeps the minimum that it was given", Verb.RELEASE
    CLEAR = "clear", "stays awake"  # leftovers go
    HOLD_BACK = "hold_back", "stays idle"  # the wake waits for a person
    OVERDUE = "overdue", "stays idle"  # the wake cannot be done
    DEFER = "defer", "stays idle"  # the wake waits for the next run


GOES_IDLE = frozenset({IdleAction.IDLE, IdleAction.OBSERVE})
GOES_UP = frozenset({IdleAction.WAKE, IdleAction.RELEASE})
UNTOUCHED = frozenset({IdleAction.OVERDUE, IdleAction.DEFER})
"""What is done later: nothing is written for it now."""


class Rule(Struct, frozen=True):
    """One rule; without `results` it holds for every verdict.

    One of `conditions` must be met, and the first that is gives the reason. Without any it is the state's own, but for
    going idle, and without that what the criteria say.
    """

    states: tuple[IdleState, ...]
    action: IdleAction
    conditions: tuple[IdlingCondition, ...] = ()
    results: tuple[CriterionResult, ...] = tuple(CriterionResult)
    without: tuple[IdlingCondition, ...] = ()

    def holds(self, result: CriterionResult, conditions: IdlingConditions | Set[IdlingCondition]) -> bool:
        """Return whether it holds, in one of its states; conditions are looked at in its order, up to the first."""
        if result not in self.results:
            return False
        is_met = not self.conditions or self.because(conditions) is not None
        return is_met and conditions.isdisjoint(self.without)

    def because(self, conditions: IdlingConditions | Set[IdlingCondition]) -> IdlingCondition | None:
        """Return the condition that is the reason, None where it is another one."""
        return next(filter(conditions.__contains__, self.conditions), None) if self.conditions else None

    def why(self, state: IdleState) -> Code | None:
        """Return the reason where it is the state, None where it is a condition, or what the criteria say."""
        return None if self.conditions or self.action is IdleAction.IDLE else state.why


_IDLE = (IdleState.IDLE, IdleState.SCALED_BY_HPA)
_UP = (*LEFTOVERS, IdleState.AWAKE)

_SAYS_IDLE = (CriterionResult.IDLE,)
_NOT_SELECTED = (CriterionResult.NOT_SELECTED,)
_NOT_IDLE = (CriterionResult.BUSY, CriterionResult.UNKNOWN, CriterionResult.NOT_SELECTED)

_STAYS_UP = (*KEEP_UP, IdlingCondition.OBSERVED)

# The first rule that holds decides, so the order is the rule: requests before exclusions before what criteria say, and
# what cannot be read or is not ours before everything.
RULES: tuple[Rule, ...] = (
    # what cannot be read stays as it is; what is not ours is woken by an explicit request only
    Rule((IdleState.UNREADABLE, IdleState.UNPROVEN), IdleAction.LEAVE),
    Rule((IdleState.FOREIGN,), IdleAction.LEAVE, (IdlingCondition.PROTECTED, IdlingCondition.BOUNDS)),
    Rule((IdleState.FOREIGN,), IdleAction.WAKE, (IdlingCondition.REQUESTED,)),
    Rule((IdleState.FOREIGN,), IdleAction.OVERDUE, (IdlingCondition.DUE,)),
    Rule((IdleState.FOREIGN,), IdleAction.LEAVE),
    # what somebody else changed is theirs, unless it was a tool that scaled it and its policy insists, or a wake is
    # requested of what they keep down
    Rule((IdleState.MANUALLY_SCALED,), IdleAction.IDLE, (IdlingCondition.INSISTS,), _SAYS_IDLE, _STAYS_UP),
    Rule((IdleState.MANUALLY_SCALED,), IdleAction.RELEASE),
    Rule((IdleState.TAKEN_OVER,), IdleAction.WAKE, (IdlingCondition.REQUESTED,)),
    Rule((IdleState.TAKEN_OVER,), IdleAction.RELEASE),
    Rule((IdleState.HPA_CHANGED,), IdleAction.WAKE),
    # what is idle is woken by the first of these, unless it is being deleted
    Rule((IdleState.IDLE,), IdleAction.KEEP, (IdlingCondition.TERMINATING,)),
    Rule((IdleState.WAKE_IN_PROGRESS,), IdleAction.WAKE),
    Rule(_IDLE, IdleAction.WAKE, (IdlingCondition.REQUESTED, IdlingCondition.EXCLUDED)),
    Rule(_IDLE, IdleAction.WAKE, (IdlingCondition.DUE,), _NOT_IDLE),
    Rule(_IDLE, IdleAction.WAKE, (IdlingCondition.PRODUCTION_DUE,)),
    # to keep it idle would lower it again
    Rule((IdleState.SCALED_BY_HPA,), IdleAction.WAKE, (IdlingCondition.PRODUCTION,)),
    Rule(_IDLE, IdleAction.WAKE, (IdlingCondition.BUSY, IdlingCondition.WAKE_WHEN)),
    Rule(_IDLE, IdleAction.WAKE, (IdlingCondition.IDLE_REPLICAS,), _SAYS_IDLE),
    Rule(_IDLE, IdleAction.WAKE, results=_NOT_SELECTED, without=(IdlingCondition.GUARDED,)),
    Rule(_IDLE, IdleAction.WAKE, (IdlingCondition.RUNS_ELSEWHERE,)),
    Rule(_IDLE, IdleAction.HOLD_BACK, (IdlingCondition.GUARDED,), _NOT_SELECTED),
    Rule(_IDLE, IdleAction.KEEP),
    # production is left as it is by policies that do not say that they select it
    Rule((IdleState.AWAKE,), IdleAction.LEAVE, (IdlingCondition.PRODUCTION,)),
    # what runs is idled where everything agrees; what an earlier run left incomplete is finished or cleared
    Rule(_UP, IdleAction.IDLE, results=_SAYS_IDLE, without=_STAYS_UP),
    Rule((IdleState.AWAKE,), IdleAction.OBSERVE, (IdlingCondition.OBSERVED,), _SAYS_IDLE, without=KEEP_UP),
    Rule(LEFTOVERS, IdleAction.CLEAR),
    Rule((IdleState.AWAKE,), IdleAction.LEAVE, KEEP_UP, _SAYS_IDLE),
    Rule((IdleState.AWAKE, IdleState.DOWN, IdleState.CONTESTED), IdleAction.LEAVE),
)

_RULES_OF = {state: tuple(rule for rule in RULES if state in rule.states) for state in IdleState}

_ON_READ_ONLY = {
    IdleAction.WAKE: IdleAction.OVERDUE,
    IdleAction.HOLD_BACK: IdleAction.KEEP,
    IdleAction.IDLE: IdleAction.LEAVE,
    IdleAction.OBSERVE: IdleAction.LEAVE,
    IdleAction.RELEASE: IdleAction.LEAVE,
    IdleAction.CLEAR: IdleAction.LEAVE,
}


def choose(
    state: IdleState, result: CriterionResult, conditions: IdlingConditions | Set[IdlingCondition]
) -> tuple[Rule, IdleAction, IdlingCondition | None]:
    """Return the first rule that holds, the action, and the condition that is the reason, None where it is another one.

    On a read-only cluster a wake is overdue, and what would be written is left out.
    """
    rule = next(rule for rule in _RULES_OF[state] if rule.holds(result, conditions))
    action = _ON_READ_ONLY.get(rule.action, rule.action) if IdlingCondition.READ_ONLY in conditions else rule.action
    return rule, action, rule.because(conditions)


# What the rules make of one scalable.

_STAYING = frozenset({IdleAction.KEEP, IdleAction.HOLD_BACK}) | UNTOUCHED


class Choice(Struct, frozen=True):
    """What is done with one scalable.

    `because` is the condition that is the reason, if one is; `own_reasons` are () where the criteria say why.
    """

    subject: Subject
    conditions: IdlingConditions
    action: IdleAction
    own_reasons: Reasons = ()
    because: IdlingCondition | None = None

    @property
    def decision_inputs(self) -> Hashable:
        """What all that is written and said of it depends on, but for names; None: it is not compared."""
        inputs = self.subject.decision_inputs
        return None if inputs is None else (inputs, self.action, id(self.own_reasons))

    @property
    def fact(self) -> Fact | None:
        """Why the condition holds that is the reason, None where it is another one."""
        return None if self.because is None else self.conditions.get(self.because)

    @property
    def ref(self) -> ObjectRef:
        return self.subject.scale.written.ref

    @property
    def reasons(self) -> Reasons:
        return self.own_reasons or self.subject.verdict.reasons

    @property
    def why(self) -> str:
        return text_of(self.reasons)

    @property
    def state(self) -> IdleState:
        return self.subject.state

    @property
    def record(self) -> Record | None:
        return self.subject.record

    @property
    def gets_bounds_back(self) -> bool:
        """Whether its autoscaler has bounds of ours that we can take back."""
        autoscaler = self.subject.pinned
        return autoscaler is not None and not autoscaler.problem and autoscaler.gets_back

    @property
    def keeps_request(self) -> bool:
        """Whether it runs, somebody asked for it, and only leftovers that go now say so: it counts as woken now."""
        return self.action is IdleAction.CLEAR and IdlingCondition.REQUESTED in self.conditions

    @property
    def stays_idle(self) -> bool:
        """Whether it stands at its idled count because of us after this run."""
        return self.action is IdleAction.IDLE or (self.action in _STAYING and self.subject.is_idle)

    @property
    def stays_up(self) -> bool:
        """Whether it runs after this run, above the idleReplicas of the policy that idles it."""
        if self.subject.scale.lowers_minimum:  # what it comes to is its autoscaler's
            return True
        if self.stays_idle and self.state is not IdleState.TAKEN_OVER:
            return False
        replicas = self.next_replicas
        return self._is_raised_from(replicas) or replicas > self.subject.idle_replicas

    @property
    def holds_others_up(self) -> bool:
        """Whether what goes idle together with it stays up because of it; not where it is only observed, too."""
        others_idle = self.action is IdleAction.OBSERVE and not self.subject.verdict.excluded
        return self.stays_up and not (others_idle and self.subject.scale.stops)

    @property
    def next_replicas(self) -> int:
        """The replicas it has after this run, where it is not idled: a wake restores its record."""
        if self.action is IdleAction.WAKE and self.record is not None:
            return wake_count(self.subject, self.record)
        return self.subject.scale.runs.spec_replicas

    def _is_raised_from(self, replicas: int) -> bool:
        """Return whether its autoscaler raises it from there: to the minimum it has after this run, never from zero."""
        autoscaler = self.subject.pinned
        if autoscaler is None:
            return False
        released = self.action in (IdleAction.RELEASE, IdleAction.WAKE) and self.gets_bounds_back
        return 0 < replicas < (autoscaler.own_bounds if released else autoscaler.bounds).least

    def with_condition(self, name: IdlingCondition, because: Fact) -> Choice:
        """Return the choice where the condition `name` holds too."""
        return self if self.conditions.get(name) == because else _chosen(self.conditions.adding(name, because))

    @property
    def unchanged(self) -> Choice:
        """The choice that leaves it as it is, idle or not."""
        return self.doing(IdleAction.KEEP if self.subject.is_idle else IdleAction.LEAVE, self.reasons)

    def doing(self, action: IdleAction, reasons: Reasons) -> Choice:
        """Return the choice of another action, for `reasons` that no rule has."""
        return replace(self, action=action, own_reasons=reasons, because=None)


def choice_of(subject: Subject, guards: FleetGuards, now: datetime) -> Choice:
    """Return the choice for `subject` by itself, without its neighbours behind a Service or on other clusters."""
    return _chosen(IdlingConditions(subject, guards, now))


def _chosen(conditions: IdlingConditions) -> Choice:
    subject = conditions.subject
    rule, action, name = choose(subject.state, subject.verdict.result, conditions)
    because = None if name is None else conditions.get(name)
    reasons = () if because is None else because.why
    if (why := rule.why(subject.state)) is not None:
        reasons = (_reason_of_state(subject, why),)
    elif action is IdleAction.KEEP and subject.verdict.lets_it_sleep:
        reasons = reasons or (reason(ReasonCode.IDLE_RECORD),)
    return Choice(subject, conditions, action, reasons, name)


def _reason_of_state(subject: Subject, why: Code) -> Reason:
    if subject.state is IdleState.DOWN:
        return at_rest(subject, why)
    contest = contest_of(subject.scale.written, subject.verdict.policy)
    if subject.state is IdleState.CONTESTED and contest is not None:
        return reason(why, by=contest.by, since=contest.since)
    return reason(why, by=who_idled(subject.record) if subject.state is IdleState.FOREIGN else None)


def choices_of(subjects: Iterable[Subject], now: datetime, guards: FleetGuards = NO_GUARDS) -> dict[ObjectRef, Choice]:
    """Return the choice on each of `subjects`, by name in order; for equal `decision_inputs` it is made once."""
    found: dict[ObjectRef, Choice] = {}
    made: dict[Hashable, Choice] = {}
    for subject in sorted(subjects, key=lambda subject: subject.ref):
        conditions = IdlingConditions(subject, guards, now)
        inputs = subject.decision_inputs if conditions.isdisjoint(PER_WORKLOAD) else None
        if inputs in made:
            found[subject.ref] = replace(made[inputs], subject=subject, conditions=conditions)
        else:
            found[subject.ref] = _chosen(conditions)
            if inputs is not None:
                made[inputs] = found[subject.ref]
    return found


def guarded_choices(
    subjects: Sequence[Subject], policies: PolicySet, run: Run
) -> tuple[FleetGuards, dict[ObjectRef, Choice]]:
    """Return the guards, and the choices under them.

    What loses its record in this run for another reason counts no more, as in the next run, which would not find it.
    """
    choices = choices_of(subjects, run.now)
    guards = _guards(choices.values(), policies, run)
    while guards.together.tripped:
        held_back = choices_of(subjects, run.now, guards)
        left = [choice for choice in held_back.values() if choice.stays_idle]
        still = guards.still(_guards(left, policies, run))
        if still == guards:
            return guards, held_back
        guards = still
    return guards, choices


def _guards(choices: Iterable[Choice], policies: PolicySet, run: Run) -> FleetGuards:
    """Return the guards over the policies that own what is idle; what passes to another policy counts as that one's."""
    names = frozenset(policy.name for policy in policies.idling)
    idle = [(choice, choice.record) for choice in choices if choice.subject.is_idle and choice.record]
    owned = [(choice.ref.namespace, _owner(choice, record, names)) for choice, record in idle]
    return removal_guards(owned, names, run.allow_removed)


def _owner(choice: Choice, record: Record, names: frozenset[str]) -> str:
    verdict = choice.subject.verdict
    if verdict.result is not CriterionResult.IDLE or verdict.policy is None or record.policy in names:
        return record.policy
    return verdict.policy.name


def owner_policy(choice: Choice) -> str:
    """Return the name of the policy that answers for what is done: that of the record while it selects the scalable or
    no other does, else the one that does, as the record passes to that one.
    """
    selecting = choice.subject.verdict.policy
    recorded = _recorded_policy(choice)
    if selecting is None or (recorded and recorded in choice.subject.verdict.names):
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
    combined = choice.subject.verdict
    if choice.because is IdlingCondition.BUSY:
        return (combined.busy[0].policy.name,)
    if choice.because is IdlingCondition.WAKE_WHEN and combined.wake_when is not None:
        return (combined.wake_when.policy.name,)
    deciding = () if choice.because is not None or choice.own_reasons else combined.deciding
    return tuple(dict.fromkeys(verdict.policy.name for verdict in deciding))


def waking_policy(choice: Choice) -> str:
    """Return the name of the policy whose own words wake it, "" where the reason is no policy's."""
    if choice.action is not IdleAction.WAKE:
        return ""
    if choice.because is IdlingCondition.IDLE_REPLICAS:
        won = choice.subject.verdict.won
        return max(won, key=lambda verdict: verdict.policy.idle_replicas).policy.name if won else ""
    by_policy = choice.because in (IdlingCondition.BUSY, IdlingCondition.WAKE_WHEN)
    return deciding_names(choice)[0] if by_policy else ""
