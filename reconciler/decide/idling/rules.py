"""Which rule decides: the state of a workload, what its policies say, and what else holds -> one action."""

from __future__ import annotations

from collections.abc import Container
from enum import StrEnum, auto

from msgspec import Struct

from reconciler.decide.idling.conditions import Condition
from reconciler.decide.idling.criteria import CriterionResult
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

    One of `conditions` must be met, and the first that is gives the reason. Without any it is `reason`, and where that
    is None too, what the criteria say.
    """

    states: tuple[IdleState, ...]
    action: IdleAction
    conditions: tuple[Condition, ...] = ()
    results: tuple[CriterionResult, ...] = tuple(CriterionResult)
    without: tuple[Condition, ...] = ()
    reason: Reason | None = None

    def holds(self, result: CriterionResult, conditions: Container[Condition]) -> bool:
        """Return whether it holds, in one of its states; conditions are looked at in its order, up to the first."""
        if result not in self.results or (self.conditions and self.because(conditions) is None):
            return False
        return not any(map(conditions.__contains__, self.without))

    def because(self, conditions: Container[Condition]) -> Condition | None:
        """Return the condition that is the reason, None where it is another one."""
        return next(filter(conditions.__contains__, self.conditions), None)


_IDLE = (IdleState.IDLE, IdleState.HPA_NOT_PINNED)
_UP = (IdleState.IDLE_INCOMPLETE, IdleState.WAKE_INCOMPLETE, IdleState.STALE, IdleState.AWAKE)

_SAYS_IDLE = (CriterionResult.IDLE,)
_NOT_SELECTED = (CriterionResult.NOT_SELECTED,)
_NOT_IDLE = (CriterionResult.BUSY, CriterionResult.UNKNOWN, CriterionResult.NOT_SELECTED)

KEEP_UP = (
    Condition.PRODUCTION,
    Condition.REQUESTED,
    Condition.EXCLUDED,
    Condition.RESTRICTED,
    Condition.EQUAL_PRIORITIES,
    Condition.UNREADABLE,
    Condition.CUSTOM_KIND,
    Condition.ITSELF,
    Condition.AUTOSCALED,
    Condition.AT_IDLE_REPLICAS,
    Condition.TIME_UNREADABLE,
    Condition.MIN_AWAKE,
    Condition.KEPT_AWAKE,
    Condition.MIN_AGE,
    Condition.TERMINATING,
    Condition.ROLLOUT,
    Condition.MAY_WAKE,
    Condition.CLUSTER_UNREAD,
    Condition.FEDERATED_PAUSED,
    Condition.WAKE_WHEN,
    Condition.RUNS_ELSEWHERE,
    Condition.SERVICE_RUNS,
    Condition.PODS_UNREAD,
)
"""What keeps up what the criteria call idle; of several the first is the reason."""

# The first rule that holds decides, so the order is the rule: requests before exclusions before what criteria say, and
# what cannot be read or is not ours before everything.
RULES: tuple[Rule, ...] = (
    # what cannot be read stays as it is; what is not ours is woken by an explicit request only
    Rule((IdleState.UNREADABLE,), IdleAction.LEAVE, reason=reason(ReasonCode.RECORD_UNREADABLE)),
    Rule((IdleState.UNPROVEN,), IdleAction.LEAVE, reason=reason(ReasonCode.UNPROVEN)),
    Rule((IdleState.FOREIGN,), IdleAction.LEAVE, (Condition.PROTECTED,)),
    Rule((IdleState.FOREIGN,), IdleAction.LEAVE, (Condition.BOUNDS,)),
    Rule((IdleState.FOREIGN,), IdleAction.WAKE, (Condition.REQUESTED,)),
    Rule((IdleState.FOREIGN,), IdleAction.OVERDUE, (Condition.DUE,)),
    Rule((IdleState.FOREIGN,), IdleAction.LEAVE, reason=reason(ReasonCode.FOREIGN, by=SOMEBODY_ELSE)),
    # what was scaled by hand is respected, unless it was a tool, and its policy insists
    Rule(
        (IdleState.MANUALLY_SCALED,),
        IdleAction.IDLE,
        (Condition.INSISTS,),
        _SAYS_IDLE,
        without=(*KEEP_UP, Condition.OBSERVED),
    ),
    Rule((IdleState.MANUALLY_SCALED,), IdleAction.RELEASE, reason=reason(ReasonCode.MANUALLY_SCALED)),
    # what somebody else scaled for a reason of their own, or for none, is theirs, unless a wake is requested
    Rule((IdleState.TAKEN_OVER,), IdleAction.WAKE, (Condition.REQUESTED,)),
    Rule((IdleState.TAKEN_OVER,), IdleAction.RELEASE, reason=reason(ReasonCode.TAKEN_OVER)),
    # what is idle is woken by the first of these
    Rule((IdleState.HPA_RESTORED,), IdleAction.WAKE, reason=reason(ReasonCode.WAKE_IN_PROGRESS)),
    Rule((IdleState.HPA_CHANGED,), IdleAction.WAKE, reason=reason(ReasonCode.HPA_CHANGED)),
    Rule(_IDLE, IdleAction.WAKE, (Condition.REQUESTED,)),
    Rule(_IDLE, IdleAction.WAKE, (Condition.EXCLUDED,)),
    Rule(_IDLE, IdleAction.WAKE, (Condition.DUE,), _NOT_IDLE),
    Rule(_IDLE, IdleAction.WAKE, (Condition.PRODUCTION_DUE,)),
    Rule((IdleState.HPA_NOT_PINNED,), IdleAction.WAKE, (Condition.PRODUCTION,)),  # to keep it idle would lower it again
    Rule(_IDLE, IdleAction.WAKE, (Condition.BUSY,)),
    Rule(_IDLE, IdleAction.WAKE, (Condition.WAKE_WHEN,)),
    Rule(_IDLE, IdleAction.WAKE, (Condition.FLOOR,), _SAYS_IDLE),
    Rule(_IDLE, IdleAction.WAKE, (Condition.RUNS_ELSEWHERE,)),
    Rule(_IDLE, IdleAction.HOLD_BACK, (Condition.GUARDED,), _NOT_SELECTED),
    Rule(_IDLE, IdleAction.WAKE, results=_NOT_SELECTED),
    Rule(_IDLE, IdleAction.KEEP),
    # production is left as it is by policies that do not say that they select it
    Rule((IdleState.AWAKE,), IdleAction.LEAVE, (Condition.PRODUCTION,)),
    # what runs is idled where everything agrees; what an earlier run left incomplete is finished or cleared
    Rule(_UP, IdleAction.IDLE, results=_SAYS_IDLE, without=(*KEEP_UP, Condition.OBSERVED)),
    Rule((IdleState.AWAKE,), IdleAction.OBSERVE, (Condition.OBSERVED,), _SAYS_IDLE, without=KEEP_UP),
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
    state: IdleState, result: CriterionResult, conditions: Container[Condition]
) -> tuple[Rule, IdleAction, Condition | None]:
    """Return the first rule that holds, the action, and the condition that is the reason, None where it is another one.

    On a read-only cluster a wake is overdue, and what would be written is left out.
    """
    rule = next(rule for rule in _RULES_OF[state] if rule.holds(result, conditions))
    action = _ON_READ_ONLY.get(rule.action, rule.action) if Condition.READ_ONLY in conditions else rule.action
    return rule, action, rule.because(conditions)
