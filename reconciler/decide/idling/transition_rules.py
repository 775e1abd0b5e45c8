"""The one table of idling: state of a scalable x verdict of the policies x blockers and wakes -> one action."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from reconciler.decide.idling.blockers import (
    A_WAKE_REQUEST,
    ANOTHER_STATE,
    UNCONTESTED,
)
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.records import SOMEBODY_ELSE
from reconciler.decide.idling.state import IdleState
from reconciler.decide.reasons import Counterfactual, CounterfactualCode, Reason, ReasonCode, Reasons, change_if, reason
from reconciler.model import NOTHING


class Flag(StrEnum):
    """What holds of a scalable besides its state and the verdict."""

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


class Situation(Struct, frozen=True):
    """Everything the table looks at. `reasons` say of each flag why it is set."""

    state: IdleState
    result: CriterionResult
    flags: frozenset[Flag] = frozenset()
    reasons: Mapping[Flag, Reasons] = NOTHING


class TransitionRule(Struct, frozen=True):
    """One row of the table; without `results` it holds for every verdict.

    `flag` must be set and gives the reason; without one it is `reason`, and where that is None too, what the criteria
    say. `counterfactual` is what would alter a `reason`.
    """

    states: frozenset[IdleState]
    action: IdleAction
    flag: Flag | None = None
    results: frozenset[CriterionResult] = frozenset(CriterionResult)
    without: frozenset[Flag] = frozenset()
    reason: Reason | None = None
    counterfactual: Counterfactual | None = None

    def holds(self, situation: Situation) -> bool:
        return (
            situation.state in self.states
            and situation.result in self.results
            and (self.flag is None or self.flag in situation.flags)
            and not self.without & situation.flags
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
    Flag.REQUESTED,
    Flag.EXCLUDED,
    Flag.BLOCKED,
    Flag.WAKE_WHEN,
    Flag.RUNS_ELSEWHERE,
    Flag.SERVICE_RUNS,
    Flag.PODS_UNREAD,
)
"""What keeps up what the criteria call idle; of several the first is the reason."""
_KEPT_UP = frozenset(KEEP_UP)

# The first row that holds decides, so the order is the rule: requests before exclusions before what criteria say, and
# what cannot be read or is not ours before everything.
TRANSITION_RULES: tuple[TransitionRule, ...] = (
    # what cannot be read stays as it is; what is not ours is woken by an explicit request only
    TransitionRule(
        _UNREADABLE,
        IdleAction.LEAVE,
        reason=reason(ReasonCode.RECORD_UNREADABLE),
        counterfactual=change_if(CounterfactualCode.RECORD_READABLE),
    ),
    TransitionRule(
        _UNPROVEN,
        IdleAction.LEAVE,
        reason=reason(ReasonCode.UNPROVEN),
        counterfactual=change_if(CounterfactualCode.SCALED_OR_ADOPTED),
    ),
    TransitionRule(_FOREIGN, IdleAction.LEAVE, Flag.PROTECTED),
    TransitionRule(_FOREIGN, IdleAction.LEAVE, Flag.BOUNDS),
    TransitionRule(_FOREIGN, IdleAction.WAKE, Flag.REQUESTED),
    TransitionRule(_FOREIGN, IdleAction.OVERDUE, Flag.DUE, counterfactual=A_WAKE_REQUEST),
    TransitionRule(
        _FOREIGN,
        IdleAction.LEAVE,
        reason=reason(ReasonCode.FOREIGN, by=SOMEBODY_ELSE),
        counterfactual=A_WAKE_REQUEST,
    ),
    # what was scaled by hand is respected, unless it was a tool, and its policy insists
    TransitionRule(
        _MANUALLY_SCALED, IdleAction.IDLE, Flag.INSISTS, _SAYS_IDLE, without=frozenset((*KEEP_UP, Flag.OBSERVED))
    ),
    TransitionRule(_MANUALLY_SCALED, IdleAction.RELEASE, reason=reason(ReasonCode.MANUALLY_SCALED)),
    # what somebody else scaled for a reason of their own, or for none, is theirs, unless a wake is requested
    TransitionRule(_TAKEN_OVER, IdleAction.WAKE, Flag.REQUESTED),
    TransitionRule(
        _TAKEN_OVER,
        IdleAction.RELEASE,
        reason=reason(ReasonCode.TAKEN_OVER),
        counterfactual=A_WAKE_REQUEST,
    ),
    # what is idle is woken by the first of these
    TransitionRule(_HPA_RESTORED, IdleAction.WAKE, reason=reason(ReasonCode.WAKE_IN_PROGRESS)),
    TransitionRule(_HPA_CHANGED, IdleAction.WAKE, reason=reason(ReasonCode.HPA_CHANGED)),
    TransitionRule(_IDLE, IdleAction.WAKE, Flag.REQUESTED),
    TransitionRule(_IDLE, IdleAction.WAKE, Flag.EXCLUDED),
    TransitionRule(_IDLE, IdleAction.WAKE, Flag.DUE, _NOT_IDLE),
    TransitionRule(_IDLE, IdleAction.WAKE, Flag.BUSY),
    TransitionRule(_IDLE, IdleAction.WAKE, Flag.WAKE_WHEN),
    TransitionRule(_IDLE, IdleAction.WAKE, Flag.FLOOR, _SAYS_IDLE),
    TransitionRule(_IDLE, IdleAction.WAKE, Flag.RUNS_ELSEWHERE),
    TransitionRule(_IDLE, IdleAction.HOLD_BACK, Flag.GUARDED, _NOT_SELECTED),
    TransitionRule(
        _IDLE,
        IdleAction.WAKE,
        results=_NOT_SELECTED,
        counterfactual=change_if(CounterfactualCode.POLICY),
    ),
    TransitionRule(_IDLE, IdleAction.KEEP),
    # what runs is idled where everything agrees; what an earlier run left incomplete is finished or cleared
    TransitionRule(_UP, IdleAction.IDLE, results=_SAYS_IDLE, without=_KEPT_UP | {Flag.OBSERVED}),
    TransitionRule(_AWAKE, IdleAction.OBSERVE, Flag.OBSERVED, _SAYS_IDLE, without=_KEPT_UP),
    TransitionRule(_IDLE_INCOMPLETE, IdleAction.CLEAR, reason=reason(ReasonCode.IDLE_INCOMPLETE)),
    TransitionRule(_WAKE_INCOMPLETE, IdleAction.CLEAR, reason=reason(ReasonCode.WAKE_INCOMPLETE)),
    TransitionRule(_STALE, IdleAction.CLEAR, reason=reason(ReasonCode.RECORD_STALE)),
    *(TransitionRule(_AWAKE, IdleAction.LEAVE, flag, _SAYS_IDLE) for flag in KEEP_UP),
    TransitionRule(_AWAKE, IdleAction.LEAVE),
    TransitionRule(_DOWN, IdleAction.LEAVE, reason=reason(ReasonCode.DOWN_WITHOUT_RECORD)),
    TransitionRule(_CONTESTED, IdleAction.LEAVE, reason=reason(ReasonCode.CONTESTED), counterfactual=UNCONTESTED),
)

_ROWS_OF = {state: tuple(row for row in TRANSITION_RULES if state in row.states) for state in IdleState}

_ON_READ_ONLY = {
    IdleAction.WAKE: IdleAction.OVERDUE,
    IdleAction.HOLD_BACK: IdleAction.KEEP,
    IdleAction.IDLE: IdleAction.LEAVE,
    IdleAction.OBSERVE: IdleAction.LEAVE,
    IdleAction.RELEASE: IdleAction.LEAVE,
    IdleAction.CLEAR: IdleAction.LEAVE,
}


class ChosenAction(Struct, frozen=True):
    """What is to be done, and why (() where the criteria say why).

    `flag` is the flag that gives the reason, if one does; `counterfactual` what would alter it, where no flag has a say
    in that.
    """

    action: IdleAction
    reasons: Reasons = ()
    flag: Flag | None = None
    counterfactual: Counterfactual | None = None


def choose(situation: Situation) -> ChosenAction:
    """Return the action of the first row that holds; on a read-only cluster wakes are overdue and writes left out."""
    row = next(row for row in _ROWS_OF[situation.state] if row.holds(situation))
    own = () if row.reason is None else (row.reason,)
    reasons = own if row.flag is None else situation.reasons.get(row.flag, ())
    if Flag.READ_ONLY in situation.flags and row.action in _ON_READ_ONLY:
        return ChosenAction(_ON_READ_ONLY[row.action], reasons, row.flag, ANOTHER_STATE)
    return ChosenAction(row.action, reasons, row.flag, row.counterfactual)
