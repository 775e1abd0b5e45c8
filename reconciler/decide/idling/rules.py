"""The one table of idling: the state of a scalable, what the policies say, and what else holds -> one action."""

from __future__ import annotations

from collections.abc import Container
from enum import StrEnum, auto

from msgspec import Struct

from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.facts import FactName
from reconciler.decide.idling.records import SOMEBODY_ELSE
from reconciler.decide.idling.subjects import IdleState
from reconciler.decide.reasons import Reason, ReasonCode, reason


class IdleAction(StrEnum):
    LEAVE = auto()  # nothing of ours is there, nothing is done
    IDLE = auto()
    OBSERVE = auto()  # idle, but only in the report
    KEEP = auto()  # it stays idle; what is not as it should be is repaired
    WAKE = auto()
    RELEASE = auto()  # by hand: our annotations go, and it stays up for a while
    CLEAR = auto()  # leftovers go
    HOLD_BACK = auto()  # the wake waits for a person
    OVERDUE = auto()  # the wake cannot be done
    DEFER = auto()  # the wake waits for the next run


class Rule(Struct, frozen=True):
    """One rule; without `results` it holds for every verdict.

    One of `facts` must hold, and the first that does is the reason. Without any it is `reason`, and where that is None
    too, what the criteria say.
    """

    states: tuple[IdleState, ...]
    action: IdleAction
    facts: tuple[FactName, ...] = ()
    results: tuple[CriterionResult, ...] = tuple(CriterionResult)
    without: tuple[FactName, ...] = ()
    reason: Reason | None = None

    def holds(self, result: CriterionResult, facts: Container[FactName]) -> bool:
        """Return whether it holds, in one of its states; facts are looked at in its order, up to the first."""
        if result not in self.results or (self.facts and self.because(facts) is None):
            return False
        return all(name not in facts for name in self.without)

    def because(self, facts: Container[FactName]) -> FactName | None:
        """Return the fact that is the reason, None where it is another one."""
        return next((name for name in self.facts if name in facts), None)


_IDLE = (IdleState.IDLE, IdleState.HPA_NOT_PINNED)
_UP = (IdleState.IDLE_INCOMPLETE, IdleState.WAKE_INCOMPLETE, IdleState.STALE, IdleState.AWAKE)

_SAYS_IDLE = (CriterionResult.IDLE,)
_NOT_SELECTED = (CriterionResult.NOT_SELECTED,)
_NOT_IDLE = (CriterionResult.BUSY, CriterionResult.UNKNOWN, CriterionResult.NOT_SELECTED)

KEEP_UP = (
    FactName.PRODUCTION,
    FactName.REQUESTED,
    FactName.EXCLUDED,
    FactName.RESTRICTED,
    FactName.EQUAL_PRIORITIES,
    FactName.UNREADABLE,
    FactName.CUSTOM_KIND,
    FactName.ITSELF,
    FactName.AUTOSCALED,
    FactName.AT_IDLE_REPLICAS,
    FactName.TIME_UNREADABLE,
    FactName.MIN_AWAKE,
    FactName.KEPT_AWAKE,
    FactName.MIN_AGE,
    FactName.TERMINATING,
    FactName.ROLLOUT,
    FactName.MAY_WAKE,
    FactName.CLUSTER_UNREAD,
    FactName.FEDERATED_PAUSED,
    FactName.WAKE_WHEN,
    FactName.RUNS_ELSEWHERE,
    FactName.SERVICE_RUNS,
    FactName.PODS_UNREAD,
)
"""What keeps up what the criteria call idle; of several the first is the reason."""

# The first rule that holds decides, so the order is the rule: requests before exclusions before what criteria say, and
# what cannot be read or is not ours before everything.
RULES: tuple[Rule, ...] = (
    # what cannot be read stays as it is; what is not ours is woken by an explicit request only
    Rule((IdleState.UNREADABLE,), IdleAction.LEAVE, reason=reason(ReasonCode.RECORD_UNREADABLE)),
    Rule((IdleState.UNPROVEN,), IdleAction.LEAVE, reason=reason(ReasonCode.UNPROVEN)),
    Rule((IdleState.FOREIGN,), IdleAction.LEAVE, (FactName.PROTECTED,)),
    Rule((IdleState.FOREIGN,), IdleAction.LEAVE, (FactName.BOUNDS,)),
    Rule((IdleState.FOREIGN,), IdleAction.WAKE, (FactName.REQUESTED,)),
    Rule((IdleState.FOREIGN,), IdleAction.OVERDUE, (FactName.DUE,)),
    Rule((IdleState.FOREIGN,), IdleAction.LEAVE, reason=reason(ReasonCode.FOREIGN, by=SOMEBODY_ELSE)),
    # what was scaled by hand is respected, unless it was a tool, and its policy insists
    Rule(
        (IdleState.MANUALLY_SCALED,),
        IdleAction.IDLE,
        (FactName.INSISTS,),
        _SAYS_IDLE,
        without=(*KEEP_UP, FactName.OBSERVED),
    ),
    Rule((IdleState.MANUALLY_SCALED,), IdleAction.RELEASE, reason=reason(ReasonCode.MANUALLY_SCALED)),
    # what somebody else scaled for a reason of their own, or for none, is theirs, unless a wake is requested
    Rule((IdleState.TAKEN_OVER,), IdleAction.WAKE, (FactName.REQUESTED,)),
    Rule((IdleState.TAKEN_OVER,), IdleAction.RELEASE, reason=reason(ReasonCode.TAKEN_OVER)),
    # what is idle is woken by the first of these
    Rule((IdleState.HPA_RESTORED,), IdleAction.WAKE, reason=reason(ReasonCode.WAKE_IN_PROGRESS)),
    Rule((IdleState.HPA_CHANGED,), IdleAction.WAKE, reason=reason(ReasonCode.HPA_CHANGED)),
    Rule(_IDLE, IdleAction.WAKE, (FactName.REQUESTED,)),
    Rule(_IDLE, IdleAction.WAKE, (FactName.EXCLUDED,)),
    Rule(_IDLE, IdleAction.WAKE, (FactName.DUE,), _NOT_IDLE),
    Rule(_IDLE, IdleAction.WAKE, (FactName.PRODUCTION_DUE,)),
    Rule((IdleState.HPA_NOT_PINNED,), IdleAction.WAKE, (FactName.PRODUCTION,)),  # to keep it idle would lower it again
    Rule(_IDLE, IdleAction.WAKE, (FactName.BUSY,)),
    Rule(_IDLE, IdleAction.WAKE, (FactName.WAKE_WHEN,)),
    Rule(_IDLE, IdleAction.WAKE, (FactName.FLOOR,), _SAYS_IDLE),
    Rule(_IDLE, IdleAction.WAKE, (FactName.RUNS_ELSEWHERE,)),
    Rule(_IDLE, IdleAction.HOLD_BACK, (FactName.GUARDED,), _NOT_SELECTED),
    Rule(_IDLE, IdleAction.WAKE, results=_NOT_SELECTED),
    Rule(_IDLE, IdleAction.KEEP),
    # production is left as it is by policies that do not say that they select it
    Rule((IdleState.AWAKE,), IdleAction.LEAVE, (FactName.PRODUCTION,)),
    # what runs is idled where everything agrees; what an earlier run left incomplete is finished or cleared
    Rule(_UP, IdleAction.IDLE, results=_SAYS_IDLE, without=(*KEEP_UP, FactName.OBSERVED)),
    Rule((IdleState.AWAKE,), IdleAction.OBSERVE, (FactName.OBSERVED,), _SAYS_IDLE, without=KEEP_UP),
    Rule((IdleState.IDLE_INCOMPLETE,), IdleAction.CLEAR, reason=reason(ReasonCode.IDLE_INCOMPLETE)),
    Rule((IdleState.WAKE_INCOMPLETE,), IdleAction.CLEAR, reason=reason(ReasonCode.WAKE_INCOMPLETE)),
    Rule((IdleState.STALE,), IdleAction.CLEAR, reason=reason(ReasonCode.RECORD_STALE)),
    Rule((IdleState.AWAKE,), IdleAction.LEAVE, KEEP_UP, _SAYS_IDLE),
    Rule((IdleState.AWAKE,), IdleAction.LEAVE),
    Rule((IdleState.DOWN,), IdleAction.LEAVE, reason=reason(ReasonCode.DOWN_WITHOUT_RECORD)),
    Rule((IdleState.CONTESTED,), IdleAction.LEAVE, reason=reason(ReasonCode.CONTESTED)),
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
    state: IdleState, result: CriterionResult, facts: Container[FactName]
) -> tuple[Rule, IdleAction, FactName | None]:
    """Return the first rule that holds, the action, and the fact that is the reason, None where it is another one.

    On a read-only cluster a wake is overdue, and what would be written is left out.
    """
    rule = next(rule for rule in _RULES_OF[state] if rule.holds(result, facts))
    action = _ON_READ_ONLY.get(rule.action, rule.action) if FactName.READ_ONLY in facts else rule.action
    return rule, action, rule.because(facts)
