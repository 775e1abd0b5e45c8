"""The one table of idling: the state of a scalable, what the policies say, and what else holds -> one action."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from msgspec import Struct

from reconciler.decide.idling.blockers import (
    A_WAKE_REQUEST,
    UNCONTESTED,
)
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.records import SOMEBODY_ELSE
from reconciler.decide.idling.state import IdleState
from reconciler.decide.reasons import Counterfactual, CounterfactualCode, Reason, ReasonCode, Reasons, change_if, reason


class Fact(StrEnum):
    """What holds of a scalable besides its state and the verdict of its policies."""

    REQUESTED = "signal"  # somebody asked for it since it was idled
    EXCLUDED = "excluded"  # it, its Service, its namespace or its cluster opts out, or it is contested
    DUE = "due"  # its wake-due has passed
    BUSY = "busy"  # a policy that wakes automatically calls it busy
    WAKE_WHEN = "wakeWhen"  # a wakeWhen of a policy that wakes automatically holds
    FLOOR = "floor"  # the floor is at or above what it had
    RUNS_ELSEWHERE = "elsewhere"  # its federated ReplicaSet runs on another cluster
    SERVICE_RUNS = "together"  # something else behind one of its Services stays up
    PODS_UNREAD = "unseen"  # the pods behind one of its Services were not read yet
    GUARDED = "guarded"  # its policy was removed, and so are too many others
    PROTECTED = "protected"  # its namespace is one that the Fleet protects
    BOUNDS = "bounds"  # another Fleet than the one that idled it holds its autoscaler at a floor
    BLOCKED = "held"  # something keeps it from being idled
    OBSERVED = "observed"  # a policy that only observes has a say
    INSISTS = "insists"  # its policy idles again what another tool scales up
    READ_ONLY = "readOnly"  # nothing may be written on its cluster


class IdleAction(StrEnum):
    LEAVE = "leave"  # nothing of ours is there, nothing is done
    IDLE = "idle"
    OBSERVE = "observe"  # idle, but only in the report
    KEEP = "keep"  # it stays idle; what is not as it should be is repaired
    WAKE = "wake"
    RELEASE = "release"  # by hand: our annotations go, and it stays up for a while
    CLEAR = "clear"  # leftovers go
    HOLD_BACK = "put off"  # the wake waits for a person
    OVERDUE = "overdue"  # the wake cannot be done
    DEFER = "defer"  # the wake waits for the next run


class Rule(Struct, frozen=True):
    """One rule; without `results` it holds for every verdict.

    `fact` must be set and gives the reason; without one it is `reason`, and where that is None too, what the criteria
    say. `counterfactual` is what would alter a `reason`.
    """

    states: frozenset[IdleState]
    action: IdleAction
    fact: Fact | None = None
    results: frozenset[CriterionResult] = frozenset(CriterionResult)
    without: frozenset[Fact] = frozenset()
    reason: Reason | None = None
    counterfactual: Counterfactual | None = None

    @property
    def reasons(self) -> Reasons:
        return () if self.reason is None else (self.reason,)

    def holds(self, state: IdleState, result: CriterionResult, facts: Collection[Fact]) -> bool:
        return (
            state in self.states
            and result in self.results
            and (self.fact is None or self.fact in facts)
            and self.without.isdisjoint(facts)
        )


_UNREADABLE = frozenset({IdleState.UNREADABLE})
_UNPROVEN = frozenset({IdleState.UNPROVEN})
_FOREIGN = frozenset({IdleState.FOREIGN})
_MANUALLY_SCALED = frozenset({IdleState.MANUALLY_SCALED})
_TAKEN_OVER = frozenset({IdleState.TAKEN_OVER})
_HPA_RESTORED = frozenset({IdleState.HPA_RESTORED})
_HPA_CHANGED = frozenset({IdleState.HPA_CHANGED})
_IDLE = frozenset({IdleState.IDLE, IdleState.HPA_NOT_PINNED})
_IDLE_INCOMPLETE = frozenset({IdleState.IDLE_INCOMPLETE})
_WAKE_INCOMPLETE = frozenset({IdleState.WAKE_INCOMPLETE})
_STALE = frozenset({IdleState.STALE})
_AWAKE = frozenset({IdleState.AWAKE})
_UP = frozenset({IdleState.IDLE_INCOMPLETE, IdleState.WAKE_INCOMPLETE, IdleState.STALE, IdleState.AWAKE})
_DOWN = frozenset({IdleState.DOWN})
_CONTESTED = frozenset({IdleState.CONTESTED})

_SAYS_IDLE = frozenset({CriterionResult.IDLE})
_NOT_SELECTED = frozenset({CriterionResult.NOT_SELECTED})
_NOT_IDLE = frozenset({CriterionResult.BUSY, CriterionResult.UNKNOWN, CriterionResult.NOT_SELECTED})

KEEP_UP = (
    Fact.REQUESTED,
    Fact.EXCLUDED,
    Fact.BLOCKED,
    Fact.WAKE_WHEN,
    Fact.RUNS_ELSEWHERE,
    Fact.SERVICE_RUNS,
    Fact.PODS_UNREAD,
)
"""What keeps up what the criteria call idle; of several the first is the reason."""
_KEPT_UP = frozenset(KEEP_UP)

# The first rule that holds decides, so the order is the rule: requests before exclusions before what criteria say, and
# what cannot be read or is not ours before everything.
RULES: tuple[Rule, ...] = (
    # what cannot be read stays as it is; what is not ours is woken by an explicit request only
    Rule(
        _UNREADABLE,
        IdleAction.LEAVE,
        reason=reason(ReasonCode.RECORD_UNREADABLE),
        counterfactual=change_if(CounterfactualCode.RECORD_READABLE),
    ),
    Rule(
        _UNPROVEN,
        IdleAction.LEAVE,
        reason=reason(ReasonCode.UNPROVEN),
        counterfactual=change_if(CounterfactualCode.SCALED_OR_ADOPTED),
    ),
    Rule(_FOREIGN, IdleAction.LEAVE, Fact.PROTECTED),
    Rule(_FOREIGN, IdleAction.LEAVE, Fact.BOUNDS),
    Rule(_FOREIGN, IdleAction.WAKE, Fact.REQUESTED),
    Rule(_FOREIGN, IdleAction.OVERDUE, Fact.DUE, counterfactual=A_WAKE_REQUEST),
    Rule(
        _FOREIGN,
        IdleAction.LEAVE,
        reason=reason(ReasonCode.FOREIGN, by=SOMEBODY_ELSE),
        counterfactual=A_WAKE_REQUEST,
    ),
    # what was scaled by hand is respected, unless it was a tool, and its policy insists
    Rule(_MANUALLY_SCALED, IdleAction.IDLE, Fact.INSISTS, _SAYS_IDLE, without=frozenset((*KEEP_UP, Fact.OBSERVED))),
    Rule(_MANUALLY_SCALED, IdleAction.RELEASE, reason=reason(ReasonCode.MANUALLY_SCALED)),
    # what somebody else scaled for a reason of their own, or for none, is theirs, unless a wake is requested
    Rule(_TAKEN_OVER, IdleAction.WAKE, Fact.REQUESTED),
    Rule(
        _TAKEN_OVER,
        IdleAction.RELEASE,
        reason=reason(ReasonCode.TAKEN_OVER),
        counterfactual=A_WAKE_REQUEST,
    ),
    # what is idle is woken by the first of these
    Rule(_HPA_RESTORED, IdleAction.WAKE, reason=reason(ReasonCode.WAKE_IN_PROGRESS)),
    Rule(_HPA_CHANGED, IdleAction.WAKE, reason=reason(ReasonCode.HPA_CHANGED)),
    Rule(_IDLE, IdleAction.WAKE, Fact.REQUESTED),
    Rule(_IDLE, IdleAction.WAKE, Fact.EXCLUDED),
    Rule(_IDLE, IdleAction.WAKE, Fact.DUE, _NOT_IDLE),
    Rule(_IDLE, IdleAction.WAKE, Fact.BUSY),
    Rule(_IDLE, IdleAction.WAKE, Fact.WAKE_WHEN),
    Rule(_IDLE, IdleAction.WAKE, Fact.FLOOR, _SAYS_IDLE),
    Rule(_IDLE, IdleAction.WAKE, Fact.RUNS_ELSEWHERE),
    Rule(_IDLE, IdleAction.HOLD_BACK, Fact.GUARDED, _NOT_SELECTED),
    Rule(
        _IDLE,
        IdleAction.WAKE,
        results=_NOT_SELECTED,
        counterfactual=change_if(CounterfactualCode.POLICY),
    ),
    Rule(_IDLE, IdleAction.KEEP),
    # what runs is idled where everything agrees; what an earlier run left incomplete is finished or cleared
    Rule(_UP, IdleAction.IDLE, results=_SAYS_IDLE, without=_KEPT_UP | {Fact.OBSERVED}),
    Rule(_AWAKE, IdleAction.OBSERVE, Fact.OBSERVED, _SAYS_IDLE, without=_KEPT_UP),
    Rule(_IDLE_INCOMPLETE, IdleAction.CLEAR, reason=reason(ReasonCode.IDLE_INCOMPLETE)),
    Rule(_WAKE_INCOMPLETE, IdleAction.CLEAR, reason=reason(ReasonCode.WAKE_INCOMPLETE)),
    Rule(_STALE, IdleAction.CLEAR, reason=reason(ReasonCode.RECORD_STALE)),
    *(Rule(_AWAKE, IdleAction.LEAVE, fact, _SAYS_IDLE) for fact in KEEP_UP),
    Rule(_AWAKE, IdleAction.LEAVE),
    Rule(_DOWN, IdleAction.LEAVE, reason=reason(ReasonCode.DOWN_WITHOUT_RECORD)),
    Rule(_CONTESTED, IdleAction.LEAVE, reason=reason(ReasonCode.CONTESTED), counterfactual=UNCONTESTED),
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


def choose(state: IdleState, result: CriterionResult, facts: Collection[Fact]) -> tuple[Rule, IdleAction]:
    """Return the first rule that holds, and the action: on a read-only cluster a wake is overdue, a write left out."""
    rule = next(rule for rule in _RULES_OF[state] if rule.holds(state, result, facts))
    return rule, _ON_READ_ONLY.get(rule.action, rule.action) if Fact.READ_ONLY in facts else rule.action
