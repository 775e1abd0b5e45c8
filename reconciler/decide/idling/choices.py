"""The choice of one action for each scalable, and what follows from it: who answers for it, and what it has then."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.autoscalers import PinnedAutoscaler
from reconciler.decide.fleet_guard import FleetGuards, fleet_guards
from reconciler.decide.idling.conditions import Circumstances, Condition, MetCondition
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.keep_up_conditions import KEEP_UP_CHECKS
from reconciler.decide.idling.records import Record, who_idled
from reconciler.decide.idling.rules import IdleAction, choose
from reconciler.decide.idling.subjects import IDLE_STATES, MAYBE_DOWN, NOT_OURS, IdleState, Subject
from reconciler.decide.idling.wake_conditions import WAKE_CHECKS
from reconciler.decide.reasons import Reason, ReasonCode, Reasons, reason, text_of
from reconciler.model import NOTHING, ObjectRef, Run, Switch
from reconciler.policy.types import PolicySet

CHECKS = {**WAKE_CHECKS, **KEEP_UP_CHECKS}


class Conditions(Circumstances):
    """The conditions that `subject` meets: `name in conditions`. Each is looked at when a rule asks for it, once."""

    __slots__ = ("_known",)

    def __init__(
        self, subject: Subject, guards: FleetGuards, now: datetime, known: Mapping[Condition, MetCondition] = NOTHING
    ) -> None:
        super().__init__(subject, guards, now)
        self._known = dict(known)

    def get(self, name: Condition) -> MetCondition | None:
        """Return the condition `name` as it is met, None where it is not."""
        return self._known.get(name) if name in self else None

    def __contains__(self, name: Any) -> bool:
        if name in self._known:
            return True
        check = CHECKS.get(name)
        found = None if check is None else check(self)
        if found is not None:  # what is not met is not kept: most of all that is asked for
            self._known[name] = found
        return found is not None

    def adding(self, found: MetCondition) -> Conditions:
        """Return the conditions with `found` among them."""
        return Conditions(self.subject, self.guards, self.now, {**self._known, found.name: found})


_STAYING = (IdleAction.KEEP, IdleAction.HOLD_BACK, IdleAction.OVERDUE, IdleAction.DEFER)


class Choice(Struct, frozen=True):
    """What is done with one scalable.

    `condition` is the one that is the reason, if one is; `own_reasons` are () where the criteria say why.
    """

    subject: Subject
    conditions: Conditions
    action: IdleAction
    own_reasons: Reasons = ()
    condition: MetCondition | None = None

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
    def autoscaler(self) -> PinnedAutoscaler | None:
        """How its autoscaler is held, as whoever idled it may read that."""
        return self.subject.pinned

    @property
    def gets_bounds_back(self) -> bool:
        """Whether its autoscaler has bounds of ours that we can take back."""
        autoscaler = self.autoscaler
        return autoscaler is not None and not autoscaler.problem and autoscaler.gets_back

    @property
    def keeps_request(self) -> bool:
        """Whether it runs, somebody asked for it, and only leftovers that go now say so: it counts as woken now."""
        return self.action is IdleAction.CLEAR and Condition.REQUESTED in self.conditions

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
        if self.subject.scale.steered == "Minimum":  # what it comes to is its autoscaler's
            return True
        if self.stays_idle and self.state not in MAYBE_DOWN:
            return False
        replicas = self.next_replicas
        return self._is_raised_from(replicas) or replicas > self.subject.idle_replicas

    @property
    def holds_others_up(self) -> bool:
        """Whether what goes idle together with it stays up because of it; not where a policy would idle it too."""
        return self.stays_up and (self.action is not IdleAction.OBSERVE or bool(self.subject.scale.steered))

    @property
    def next_replicas(self) -> int:
        """The replicas it has after this run, where it is not idled: a wake restores its record."""
        if self.action is IdleAction.WAKE and self.record is not None:
            return wake_count(self, self.record)
        scale = self.subject.scale
        return scale.runs.spec_replicas if scale.steered else scale.replicas

    def _is_raised_from(self, replicas: int) -> bool:
        """Return whether its autoscaler raises it from there: to the minimum it has after this run, never from zero."""
        autoscaler = self.autoscaler
        if autoscaler is None:
            return False
        released = self.action in (IdleAction.RELEASE, IdleAction.WAKE) and self.gets_bounds_back
        return 0 < replicas < (autoscaler.own_bounds if released else autoscaler.bounds).least

    def because_of(self, name: Condition) -> bool:
        """Return whether the condition `name` is the reason."""
        return self.condition is not None and self.condition.name is name

    def with_condition(self, condition: MetCondition) -> Choice:
        """Return the choice where `condition` holds too."""
        return self if self.conditions.get(condition.name) == condition else _chosen(self.conditions.adding(condition))

    def doing(self, action: IdleAction, reasons: Reasons) -> Choice:
        """Return the choice of another action, for `reasons` that no rule has."""
        return replace(self, action=action, own_reasons=reasons, condition=None)


def choice_of(subject: Subject, guards: FleetGuards, now: datetime) -> Choice:
    """Return the choice for `subject` by itself, without its neighbours behind a Service or on other clusters."""
    return _chosen(Conditions(subject, guards, now))


def _chosen(conditions: Conditions) -> Choice:
    subject, record = conditions.subject, conditions.subject.record
    rule, action, name = choose(subject.state, subject.verdict.result, conditions)
    because = None if name is None else conditions.get(name)
    reasons = because.why if because is not None else () if rule.reason is None else (rule.reason,)
    if record is not None and any(one.code is ReasonCode.FOREIGN for one in reasons):
        reasons = (reason(ReasonCode.FOREIGN, by=who_idled(record.fleet)),)
    if subject.scale.kind.is_switch and not subject.scale.steered:
        reasons = tuple(_of_switch(one, subject.scale.written.switch) for one in reasons)
    return Choice(subject, conditions, action, reasons, because)


def _of_switch(one: Reason, switch: Switch | None) -> Reason:
    """Return why what has a switch is left alone where it is off: it has no replicas."""
    if switch is None or one.code not in (ReasonCode.AT_IDLE_REPLICAS, ReasonCode.DOWN_WITHOUT_RECORD):
        return one
    return reason(ReasonCode.FINISHED if switch.finished else ReasonCode.SWITCHED_OFF)


def choices_of(subjects: Iterable[Subject], guards: FleetGuards, now: datetime) -> dict[ObjectRef, Choice]:
    """Return the choice on each of `subjects`, by name in order."""
    return {
        subject.ref: choice_of(subject, guards, now) for subject in sorted(subjects, key=lambda subject: subject.ref)
    }


def guarded_choices(
    subjects: Sequence[Subject], policies: PolicySet, run: Run
) -> tuple[FleetGuards, dict[ObjectRef, Choice]]:
    """Return the guards, and the choices under them.

    What loses its record in this run for another reason counts no more, as in the next run, which would not find it.
    """
    choices = choices_of(subjects, FleetGuards(), run.now)
    guards = _guards(choices.values(), policies, run)
    while guards.tripped:
        held_back = choices_of(subjects, guards, run.now)
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
    return fleet_guards(owned, names, run.allow_removed)


def _owner(choice: Choice, record: Record, names: frozenset[str]) -> str:
    verdict = choice.subject.verdict
    if verdict.result is not CriterionResult.IDLE or verdict.policy is None or record.policy in names:
        return record.policy
    return verdict.policy.name


def wake_count(choice: Choice, record: Record) -> int:
    """Return the replicas a wake restores: those of the record, within the bounds of its autoscaler."""
    autoscaler, hpa = choice.autoscaler, choice.subject.scale.hpa
    if hpa is not None:
        return min(record.replicas, hpa.maximum)
    if autoscaler is None or autoscaler.problem:
        return record.replicas
    return autoscaler.own_bounds.clamp(record.replicas)


def owner_policy(choice: Choice) -> str:
    """Return the name of the policy that answers for what is done: that of the record while it selects the scalable or
    no other does, else the one that does, as the record passes to that one.
    """
    selecting = choice.subject.verdict.policy
    recorded = _recorded_policy(choice)
    if selecting is None or any(policy.name == recorded for policy in choice.subject.verdict.policies):
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
    if choice.because_of(Condition.BUSY) and combined.busy is not None:
        return (combined.busy.policy.name,)
    if choice.because_of(Condition.WAKE_WHEN) and combined.wake_when is not None:
        return (combined.wake_when.policy.name,)
    return () if choice.condition is not None or choice.own_reasons else combined.deciding_names


def waking_policy(choice: Choice) -> str:
    """Return the name of the policy whose own words wake it, "" where the reason is no policy's."""
    combined, condition = choice.subject.verdict, choice.condition
    if choice.action is not IdleAction.WAKE or condition is None:
        return ""
    highest = max(combined.won, key=lambda verdict: verdict.policy.idle_replicas, default=None)
    waking = {
        Condition.BUSY: combined.busy,
        Condition.WAKE_WHEN: combined.wake_when,
        Condition.FLOOR: highest,
    }
    found = waking.get(condition.name)
    return "" if found is None else found.policy.name
