"""The one table of idling: the state of a scalable x what the policies say x what blocks and wakes -> one action."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from reconciler.decide.annotations import format_time
from reconciler.decide.autoscalers import PinnedAutoscaler
from reconciler.decide.fleet_guard import FLEET, FleetGuards, is_guarded
from reconciler.decide.idling.blockers import ANOTHER_STATE, ASKED, UNCONTESTED, UNPROTECTED, Reason, blocker_of
from reconciler.decide.idling.contested import contest_of
from reconciler.decide.idling.criteria import CriterionResult
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.scalables import ScalableState, ServiceState, WakeRequest
from reconciler.decide.idling.state import ASLEEP, MAYBE_DOWN, NOT_OURS, Classification, IdleState, classify
from reconciler.decide.idling.verdicts import CombinedVerdict
from reconciler.model import NOTHING, ObjectRef
from reconciler.policy.types import Writes


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

    state: IdleState
    says: CriterionResult
    flags: frozenset[Flag] = frozenset()
    words: Mapping[Flag, str] = NOTHING


@dataclass(frozen=True, slots=True)
class TransitionRule:
    """One row; without `says` it holds for every verdict. `told` names the flag that gives the reason; without one it
    is `reason`, and where that is "" too, what the criteria say. `flip` is what would alter a `reason`.
    """

    states: frozenset[IdleState]
    action: Action
    says: frozenset[CriterionResult] = frozenset(CriterionResult)
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


_FOREIGN = frozenset({IdleState.FOREIGN})
_IDLE = frozenset({IdleState.IDLE, IdleState.HALF_HELD})
_LEFTOVER = frozenset({IdleState.HALF_IDLED, IdleState.HALF_WOKEN, IdleState.STALE})
_UP = _LEFTOVER | {IdleState.AWAKE}
_NOT_IDLE = frozenset({CriterionResult.BUSY, CriterionResult.UNKNOWN, CriterionResult.NOBODY})
_SAYS_IDLE = frozenset({CriterionResult.IDLE})
_NOBODY = frozenset({CriterionResult.NOBODY})
_KEEPS_UP = frozenset(
    {Flag.HELD, Flag.SIGNAL, Flag.EXCLUDED, Flag.WAKE_WHEN, Flag.ELSEWHERE, Flag.TOGETHER, Flag.UNSEEN}
)

ROWS: tuple[TransitionRule, ...] = (
    # what cannot be read stays as it is; what is not ours is woken by an explicit signal only
    TransitionRule(
        frozenset({IdleState.SET_ASIDE}),
        Action.LEAVE,
        reason="its record cannot be read",
        flip="a record that can be read",
    ),
    TransitionRule(
        frozenset({IdleState.UNPROVEN}),
        Action.LEAVE,
        reason="only a Service says that it was idled, nothing on it does",
        flip="scaling it, or reconciler restore --adopt",
    ),
    TransitionRule(_FOREIGN, Action.LEAVE, needs=_one(Flag.PROTECTED), told=Flag.PROTECTED),
    TransitionRule(_FOREIGN, Action.LEAVE, needs=_one(Flag.BOUNDS), told=Flag.BOUNDS),
    TransitionRule(_FOREIGN, Action.WAKE, needs=_one(Flag.SIGNAL), told=Flag.SIGNAL),
    TransitionRule(_FOREIGN, Action.OVERDUE, needs=_one(Flag.DUE), told=Flag.DUE, flip=ASKED),
    TransitionRule(_FOREIGN, Action.LEAVE, reason="somebody else's marks are on it", flip=ASKED),
    # a hand on our work is respected
    TransitionRule(frozenset({IdleState.HAND}), Action.RELEASE, reason="scaled by hand"),
    # what somebody else scaled for a reason of their own, or for none, is theirs, unless it is asked for
    TransitionRule(frozenset({IdleState.TAKEN_OVER}), Action.WAKE, needs=_one(Flag.SIGNAL), told=Flag.SIGNAL),
    TransitionRule(
        frozenset({IdleState.TAKEN_OVER}),
        Action.RELEASE,
        reason="somebody else scaled it since, as its scale-reason says",
        flip=ASKED,
    ),
    # what is idle is woken by the first of these
    TransitionRule(frozenset({IdleState.HALF_FREED}), Action.WAKE, reason="its wake was begun"),
    TransitionRule(frozenset({IdleState.UNHELD}), Action.WAKE, reason="the bounds of its autoscaler were changed"),
    TransitionRule(_IDLE, Action.WAKE, needs=_one(Flag.SIGNAL), told=Flag.SIGNAL),
    TransitionRule(_IDLE, Action.WAKE, needs=_one(Flag.EXCLUDED), told=Flag.EXCLUDED),
    TransitionRule(_IDLE, Action.WAKE, says=_NOT_IDLE, needs=_one(Flag.DUE), told=Flag.DUE),
    TransitionRule(_IDLE, Action.WAKE, needs=_one(Flag.BUSY), told=Flag.BUSY),
    TransitionRule(_IDLE, Action.WAKE, needs=_one(Flag.WAKE_WHEN), told=Flag.WAKE_WHEN),
    TransitionRule(_IDLE, Action.WAKE, says=_SAYS_IDLE, needs=_one(Flag.FLOOR), told=Flag.FLOOR),
    TransitionRule(_IDLE, Action.WAKE, needs=_one(Flag.ELSEWHERE), told=Flag.ELSEWHERE),
    TransitionRule(_IDLE, Action.PUT_OFF, says=_NOBODY, needs=_one(Flag.GUARDED), told=Flag.GUARDED),
    TransitionRule(
        _IDLE, Action.WAKE, says=_NOBODY, reason="no policy wants it idle any more", flip="a policy that selects it"
    ),
    TransitionRule(_IDLE, Action.KEEP),
    # what runs is idled where everything agrees; what an earlier run left half done is finished or cleared
    TransitionRule(_UP, Action.IDLE, says=_SAYS_IDLE, without=_KEEPS_UP | {Flag.OBSERVED}),
    TransitionRule(
        frozenset({IdleState.AWAKE}),
        Action.OBSERVE,
        says=_SAYS_IDLE,
        needs=_one(Flag.OBSERVED),
        without=_KEEPS_UP,
        told=Flag.OBSERVED,
    ),
    TransitionRule(
        frozenset({IdleState.HALF_IDLED}),
        Action.CLEAR,
        reason="it was marked and not idled, and is not to be idled now",
    ),
    TransitionRule(frozenset({IdleState.HALF_WOKEN}), Action.CLEAR, reason="it is awake, its Service was not cleared"),
    TransitionRule(frozenset({IdleState.STALE}), Action.CLEAR, reason="its record is from before it was woken last"),
    TransitionRule(
        frozenset({IdleState.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.SIGNAL), told=Flag.SIGNAL
    ),
    TransitionRule(
        frozenset({IdleState.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.EXCLUDED), told=Flag.EXCLUDED
    ),
    TransitionRule(frozenset({IdleState.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.HELD), told=Flag.HELD),
    TransitionRule(
        frozenset({IdleState.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.WAKE_WHEN), told=Flag.WAKE_WHEN
    ),
    TransitionRule(
        frozenset({IdleState.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.ELSEWHERE), told=Flag.ELSEWHERE
    ),
    TransitionRule(
        frozenset({IdleState.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.TOGETHER), told=Flag.TOGETHER
    ),
    TransitionRule(
        frozenset({IdleState.AWAKE}), Action.LEAVE, says=_SAYS_IDLE, needs=_one(Flag.UNSEEN), told=Flag.UNSEEN
    ),
    TransitionRule(frozenset({IdleState.AWAKE}), Action.LEAVE),
    TransitionRule(
        frozenset({IdleState.DOWN}), Action.LEAVE, reason="already at or below idleReplicas, without a record of ours"
    ),
    TransitionRule(frozenset({IdleState.CONTESTED}), Action.LEAVE, reason="contested", flip=UNCONTESTED),
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
class ChosenAction:
    """What is to be done, and why in one phrase ("" where the criteria say why).

    `told` is the flag that gives the reason, if one does; `flip` what would alter it, where no flag has a say in that.
    """

    action: Action
    why: str = ""
    told: Flag | None = None
    flip: str = ""


def choose(situation: Situation) -> ChosenAction:
    """Return what the first row that holds says; on a read-only cluster wakes are overdue and writes left out."""
    row = next(row for row in ROWS if row.holds(situation))
    why = row.reason if row.told is None else situation.words.get(row.told, row.told.value)
    if Flag.READ_ONLY in situation.flags and row.action in _ON_READ_ONLY:
        return ChosenAction(_ON_READ_ONLY[row.action], why, row.told, ANOTHER_STATE)
    return ChosenAction(row.action, why, row.told, row.flip)


# A scalable and everything that bears on it -> what the table looks at, and what the table says.

_CONTESTABLE = ASLEEP | {IdleState.HALF_IDLED, IdleState.HALF_WOKEN, IdleState.STALE}
"""What may carry a contest besides what is left alone for it: a run that wrote it may have died before the rest."""

_SINCE_ITS_RECORD = ASLEEP | {IdleState.FOREIGN, IdleState.HALF_IDLED}


@dataclass(frozen=True, slots=True)
class Transition:
    """What is done with one scalable. `why` is one phrase; `flip` the smallest change that would alter it."""

    target: ScalableState
    standing: Classification
    situation: Situation
    choice: ChosenAction
    flip: str = ""

    @property
    def ref(self) -> ObjectRef:
        return self.target.ref

    @property
    def action(self) -> Action:
        return self.choice.action

    @property
    def why(self) -> str:
        return self.choice.why or self.target.want.words

    @property
    def record(self) -> Record | None:
        return self.standing.record

    @property
    def hold(self) -> PinnedAutoscaler | None:
        """How its autoscaler is held, as whoever idled it may read that."""
        return _pinned_as_read(self.target, self.standing)

    @property
    def is_held(self) -> bool:
        """Whether its autoscaler has bounds of ours that we can take back."""
        hold = self.hold
        return hold is not None and not hold.problem and hold.gets_back

    @property
    def was_asleep(self) -> bool:
        return self.standing.state in ASLEEP

    @property
    def stays_asleep(self) -> bool:
        """Whether it stands at its idled count because of us after this run."""
        staying = (Action.KEEP, Action.PUT_OFF, Action.OVERDUE, Action.DEFER)
        return self.action is Action.IDLE or (self.was_asleep and self.action in staying)

    @property
    def stays_up(self) -> bool:
        """Whether it runs after this run, above the floor of what wants it idle."""
        if self.standing.state in MAYBE_DOWN and self.action is not Action.WAKE:
            freed = self.action is Action.RELEASE and self.is_held
            return freed or self.target.scale.replicas > self.target.want.idle_replicas
        return self.action is not Action.IDLE and not self.stays_asleep

    def with_flag(self, flag: Flag, words: str, flip: str = "") -> Transition:
        """Return the ruling where `flag` holds too, and `flip` would end that."""
        words_of = {**self.situation.words, flag: words}
        situation = replace(self.situation, flags=self.situation.flags | {flag}, words=words_of)
        choice = choose(situation)
        return replace(self, situation=situation, choice=choice, flip=flip if choice.told is flag else self.flip)


def transition_of(target: ScalableState, guards: FleetGuards, now: datetime) -> Transition:
    """Return what is done with `target`, looked at alone."""
    standing = classify(target)
    reasons = dict(_flags(target, standing, guards, now))
    words = {flag: reason.words for flag, reason in reasons.items()}
    situation = Situation(standing.state, target.want.says, frozenset(words), words)
    choice = choose(situation)
    return Transition(target, standing, situation, choice, _counterfactual(target.want, situation, choice, reasons))


def _counterfactual(
    want: CombinedVerdict, situation: Situation, choice: ChosenAction, reasons: Mapping[Flag, Reason]
) -> str:
    """Return what would alter `choice`: of what gives its reason, not of anything else that bears on it."""
    if choice.flip:
        return choice.flip
    if choice.told is not None:
        return reasons[choice.told].flip
    if situation.state is IdleState.DOWN:
        return f"more than {want.idle_replicas} replicas"
    if choice.why:
        return ""
    if choice.action is Action.KEEP and want.says is CriterionResult.BUSY:
        return ASKED
    excluded = reasons.get(Flag.EXCLUDED)
    return " and ".join(dict.fromkeys(flip for flip in (want.flip, excluded.flip if excluded else "") if flip))


def _flags(
    target: ScalableState, standing: Classification, guards: FleetGuards, now: datetime
) -> Iterator[tuple[Flag, Reason]]:
    signal = _request_since(target, standing, now)
    if signal is not None:
        yield Flag.SIGNAL, Reason(signal.words, "" if standing.state in ASLEEP else f"after {format_time(signal.at)}")
    opted_out = _excluded(target, standing)
    if opted_out is not None:
        yield Flag.EXCLUDED, opted_out
    hold = blocker_of(target, now)
    if hold is not None:
        yield Flag.HELD, hold
    yield from _verdict_flags(target.want)
    if target.want.observing:
        yield Flag.OBSERVED, _observed(target)
    yield from _pinned_by_others(target, standing)
    if target.protected:
        yield Flag.PROTECTED, Reason(target.protected, UNPROTECTED)
    if target.cluster.writes is Writes.NOTHING:
        yield Flag.READ_ONLY, Reason(target.cluster.restriction, ANOTHER_STATE)
    if standing.record is not None:
        yield from _record_flags(target, standing.record, guards, now)


def _pinned_as_read(target: ScalableState, standing: Classification) -> PinnedAutoscaler | None:
    if target.hold is None or standing.record is None or standing.state not in NOT_OURS:
        return target.hold
    return target.hold.read_by(standing.record.fleet)


def _pinned_by_others(target: ScalableState, standing: Classification) -> Iterator[tuple[Flag, Reason]]:
    """Yield that a wake would not last: another Fleet than the one that idled it holds its autoscaler at a floor."""
    hold = _pinned_as_read(target, standing)
    if hold is not None and hold.holder and hold.gets_back:
        words = f"Fleet {hold.holder} holds HorizontalPodAutoscaler/{hold.autoscaler.ref.name}, and did not idle it"
        yield Flag.BOUNDS, Reason(words, "--context in place of the Fleet")


def _verdict_flags(want: CombinedVerdict) -> Iterator[tuple[Flag, Reason]]:
    if want.busy is not None:
        yield Flag.BUSY, Reason(want.busy.verdict.words, want.busy.verdict.flip)
    if want.wake_when is not None:
        yield Flag.WAKE_WHEN, Reason(want.wake_when.wake_when.words, want.wake_when.wake_when.flip)


def _observed(target: ScalableState) -> Reason:
    """Return why `target` is only observed: what its policies say, or which of them holds back those that enforce."""
    want, ref = target.want, target.scale.runs.ref
    if not want.enforcing:
        return Reason(want.words, want.flip)
    names = list(dict.fromkeys(bid.policy.name for bid in want.observing))
    services = dict.fromkeys(f"Service/{bid.subject.name}" for bid in want.observing if bid.subject.kind == "Service")
    through = f" through {' and '.join(services)}" if services else ""
    verb = "observes" if len(names) == 1 else "observe"
    words = f"{' and '.join(names)} only {verb} {ref.kind}/{ref.name}{through}"
    return Reason(words, f"mode: Enforce in {' and '.join(names)}")


def _record_flags(
    target: ScalableState, record: Record, guards: FleetGuards, now: datetime
) -> Iterator[tuple[Flag, Reason]]:
    if record.wake_due is not None and record.wake_due <= now and target.scale.stands_at(record.idled_to):
        yield Flag.DUE, Reason(f"due since {format_time(record.wake_due)}")
    if target.want.idle_replicas >= record.replicas:
        words = f"idleReplicas is {target.want.idle_replicas}, it had {record.replicas}"
        yield Flag.FLOOR, Reason(words, f"idleReplicas below {record.replicas}")
    guard = guards.of(target.ref.namespace)
    if is_guarded(guard, record, now):
        yield Flag.GUARDED, Reason(guard.words, f"--allow-exceed {FLEET}")


def _request_since(target: ScalableState, standing: Classification, now: datetime) -> WakeRequest | None:
    """Return the latest signal that came when it was idle or later, None for none."""
    record = standing.record
    if standing.state is IdleState.FOREIGN and (record is None or not target.scale.stands_at(record.idled_to)):
        return None
    since = record.idled_at if record is not None and standing.state in _SINCE_ITS_RECORD else now
    signals = [(front.signal, _marked_at(front, since)) for front in target.fronts]
    counting = [signal for signal, at in [*signals, (target.signal, since)] if signal is not None and signal.at >= at]
    return max(counting, default=None)


def _marked_at(front: ServiceState, since: datetime) -> datetime:
    mark = front.mark or front.foreign
    return since if mark is None else mark.idled_at


def _excluded(target: ScalableState, standing: Classification) -> Reason | None:
    if target.want.blind:
        return None
    if target.exclusion is not None:
        return Reason(f"excluded: {target.exclusion.why}", target.exclusion.flip)
    contest = contest_of(target.scale.written, target.want.policy) if standing.state in _CONTESTABLE else None
    return None if contest is None else Reason(f"contested by {contest.by}", UNCONTESTED)


def transitions_of(targets: Iterable[ScalableState], guards: FleetGuards, now: datetime) -> dict[ObjectRef, Transition]:
    """Return the ruling on each of `targets`, by name in order."""
    return {target.ref: transition_of(target, guards, now) for target in sorted(targets, key=lambda target: target.ref)}
