"""The one table of idling: the state of a scalable x what is said of it x what pulls and holds -> one action."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from reconciler.decide.idling.criteria import Says
from reconciler.decide.idling.flips import ANOTHER_STATE, ASKED, UNCONTESTED
from reconciler.decide.idling.states import State
from reconciler.model import NOTHING


class Flag(StrEnum):
    """What holds of a scalable besides its state and the verdict."""

    SIGNAL = "signal"  # somebody asked for it since it was idled
    EXCLUDED = "excluded"  # it, its Service, its namespace or its cluster opts out, or it is contested
    DUE = "due"  # its wake-due has passed
    BUSY = "busy"  # a policy that wakes by itself calls it busy
    WAKE_WHEN = "wakeWhen"  # a wakeWhen of a policy that wakes by itself holds
    FLOOR = "floor"  # the floor is at or above what it had
    ELSEWHERE = "elsewhere"  # its federated ReplicaSet runs on another cluster
    TOGETHER = "together"  # something else behind one of its Services stays up
    UNSEEN = "unseen"  # the pods behind one of its Services were not read yet
    GUARDED = "guarded"  # its policy is gone, and so are too many others
    PROTECTED = "protected"  # its namespace is one that the Fleet protects
    BOUNDS = "bounds"  # another Fleet than the one that idled it holds its autoscaler at a floor
    HELD = "held"  # something keeps it from being idled
    OBSERVED = "observed"  # a policy that only observes has a say
    READ_ONLY = "readOnly"  # nothing may be written on its cluster


class Action(StrEnum):
    LEAVE = "leave"  # nothing of ours is there, nothing is done
    IDLE = "idle"
    OBSERVE = "observe"  # idle, but only in the report
    KEEP = "keep"  # it stays idle; what is not as it should be is put right
    WAKE = "wake"
    RELEASE = "release"  # by hand: our marks go, and it stays up for a while
    CLEAR = "clear"  # leftovers go
    PUT_OFF = "put off"  # the wake waits for a person
    OVERDUE = "overdue"  # the wake cannot be done
    DEFER = "defer"  # the wake waits for the next run


@dataclass(frozen=True, slots=True)
class Situation:
    """Everything the table looks at. `words` tells of each flag why it is set."""

    state: State
    says: Says
    flags: frozenset[Flag] = frozenset()
    words: Mapping[Flag, str] = NOTHING


@dataclass(frozen=True, slots=True)
class Row:
    """One row; without `says` it holds for every verdict. `told` names the flag that gives the reason; without one it
    is `reason`, and where that is "" too, what the criteria say. `flip` is what would alter a `reason`.
    """

    states: frozenset[State]
    action: Action
    says: frozenset[Says] = frozenset(Says)
    needs: frozenset[Flag] = frozenset()
    without: frozenset[Flag] = frozenset()
    told: Flag | None = None
    reason: str = ""
    flip: str = ""

    def holds(self, situation: Situation) -> bool:
        return (
            situation.state in self.states
            and situation.says in self.says
            and self.needs <= situation.flags
            and not self.without & situation.flags
        )


def _one(flag: Flag) -> frozenset[Flag]:
    return frozenset({flag})


_FOREIGN = frozenset({State.FOREIGN})
_IDLE = frozenset({State.IDLE, State.HALF_HELD})
_LEFTOVER = frozenset({State.HALF_IDLED, State.HALF_WOKEN, State.STALE})
_UP = _LEFTOVER | {State.AWAKE}
_NOT_IDLE = frozenset({Says.BUSY, Says.UNKNOWN, Says.NOBODY})
_SAYS_IDLE = frozenset({Says.IDLE})
_NOBODY = frozenset({Says.NOBODY})
_KEEPS_UP = frozenset(
    {Flag.HELD, Flag.SIGNAL, Flag.EXCLUDED, Flag.WAKE_WHEN, Flag.ELSEWHERE, Flag.TOGETHER, Flag.UNSEEN}
)

ROWS: tuple[Row, ...] = (
    # what cannot be read stays as it is; what is not ours is woken by an explicit signal only
    Row(
        frozenset({State.SET_ASIDE}),
        Action.LEAVE,
        reason="its record cannot be read",
        flip="a record that can be read",
    ),
    Row(
        frozenset({State.UNPROVEN}),
        Action.LEAVE,
        reason="only a Service says that it was idled, nothing on it does",
        flip="scaling it, or reconciler restore --adopt",
    ),
    Row(_FOREIGN, Action.LEAVE, needs=_one(Flag.PROTECTED), told=Flag.PROTECTED),
    Row(_FOREIGN, Action.LEAVE, needs=_one(Flag.BOUNDS), told=Flag.BOUNDS),
    Row(_FOREIGN, Action.WAKE, needs=_one(Flag.SIGNAL), told=Flag.SIGNAL),
    Row(_FOREIGN, Action.OVERDUE, needs=_one(Flag.DUE), told=Flag.DUE, flip=ASKED),
    Row(_FOREIGN, Action.LEAVE, reason="somebody else's marks are on it", flip=ASKED),
    # a hand on our work is respected
    Row(frozenset({State.HAND}), Action.RELEASE, reason="scaled by hand"),
    # what somebody else scaled for a reason of their own, or for none, is theirs, unless it is asked for
    Row(frozenset({State.TAKEN_OVER}), Action.WAKE, needs=_one(Flag.SIGNAL), told=Flag.SIGNAL),
    Row(
        frozenset({State.TAKEN_OVER}),
        Action.RELEASE,
        reason="somebody else scaled it since, as its scale-reason says",
        flip=ASKED,
    ),
    # what is idle is woken by the first of these
    Row(frozenset({State.HALF_FREED}), Action.WAKE, reason="its wake was begun"),
    Row(frozenset({State.UNHELD}), Action.WAKE, reason="the bounds of its autoscaler were changed"),
    Row(_IDLE, Action.WAKE, needs=_one(Flag.SIGNAL), told=Flag.SIGNAL),
    Row(_IDLE, Action.WAKE, needs=_one(Flag.EXCLUDED), told=Flag.EXCLUDED),
    Row(_IDLE, Action.WAKE, says=_NOT_IDLE, needs=_one(Flag.DUE), told=Flag.DUE),
    Row(_IDLE, Action.WAKE, needs=_one(Flag.BUSY), told=Flag.BUSY),
    Row(_IDLE, Action.WAKE, needs=_one(Flag.WAKE_WHEN), told=Flag.WAKE_WHEN),
    Row(_IDLE, Action.WAKE, says=_SAYS_IDLE, needs=_one(Flag.FLOOR), told=Flag.FLOOR),
    Row(_IDLE, Action.WAKE, needs=_one(Flag.ELSEWHERE), told=Flag.ELSEWHERE),
    Row(_IDLE, Action.PUT_OFF, says=_NOBODY, needs=_one(Flag.GUARDED), told=Flag.GUARDED),
    Row(_IDLE, Action.WAKE, says=_NOBODY, reason="no policy wants it idle any more", flip="a policy that selects it"),
    Row(_IDLE, Action.KEEP),
    # what runs is idled where everything agrees; what an earlier run left half done is finished or cleared
    Row(_UP, Action.IDLE, says=_SAYS_IDLE, without=_KEEPS_UP | {Flag.OBSERVED}),
    Row(
        frozenset({State.AWAKE}),
        Action.OBSERVE,
        says=_SAYS_IDLE,
        needs=_one(Flag.OBSERVED),
        without=_KEEPS_UP,
        told=Flag.OBSERVED,
    ),
    Row(frozenset({State.HALF_IDLED}), Action.CLEAR, reason="it was marked and not idled, and is not to be idled now"),
    Row(frozenset({State.HALF_WOKEN}), Action.CLEAR, reason="it is awake, its Service was not cleared"),
    Row(frozenset({State.STALE}), Action.CLEAR, reason="its record is from before it was woken last"),
    Row(frozenset({State.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.SIGNAL), told=Flag.SIGNAL),
    Row(frozenset({State.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.EXCLUDED), told=Flag.EXCLUDED),
    Row(frozenset({State.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.HELD), told=Flag.HELD),
    Row(frozenset({State.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.WAKE_WHEN), told=Flag.WAKE_WHEN),
    Row(frozenset({State.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.ELSEWHERE), told=Flag.ELSEWHERE),
    Row(frozenset({State.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.TOGETHER), told=Flag.TOGETHER),
    Row(frozenset({State.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.UNSEEN), told=Flag.UNSEEN),
    Row(frozenset({State.AWAKE}), Action.LEAVE),
    Row(frozenset({State.DOWN}), Action.LEAVE, reason="already at or below idleReplicas, without a record of ours"),
    Row(frozenset({State.CONTESTED}), Action.LEAVE, reason="contested", flip=UNCONTESTED),
)

_ON_READ_ONLY = {
    Action.WAKE: Action.OVERDUE,
    Action.PUT_OFF: Action.KEEP,
    Action.IDLE: Action.LEAVE,
    Action.OBSERVE: Action.LEAVE,
    Action.RELEASE: Action.LEAVE,
    Action.CLEAR: Action.LEAVE,
}


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be done, and why in one phrase ("" where the criteria say why).

    `told` is the flag that gives the reason, if one does; `flip` what would alter it, where no flag has a say in that.
    """

    action: Action
    why: str = ""
    told: Flag | None = None
    flip: str = ""


def choose(situation: Situation) -> Choice:
    """Return what the first row that holds says; on a read-only cluster wakes are overdue and writes left out."""
    row = next(row for row in ROWS if row.holds(situation))
    why = row.reason if row.told is None else situation.words.get(row.told, row.told.value)
    if Flag.READ_ONLY in situation.flags and row.action in _ON_READ_ONLY:
        return Choice(_ON_READ_ONLY[row.action], why, row.told, ANOTHER_STATE)
    return Choice(row.action, why, row.told, row.flip)
