"""A scalable and everything that bears on it -> what the table looks at, and what the table says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from reconciler.decide.annotations import format_time
from reconciler.decide.fleet_guard import FLEET, Guards, is_guarded
from reconciler.decide.idling.autoscalers import Hold
from reconciler.decide.idling.contests import contest_of
from reconciler.decide.idling.criteria import Says
from reconciler.decide.idling.flips import ANOTHER_STATE, ASKED, UNCONTESTED, UNPROTECTED
from reconciler.decide.idling.holds import Reason, hold_on
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.signals import Signal
from reconciler.decide.idling.states import ASLEEP, MAYBE_DOWN, NOT_OURS, Standing, State, standing_of
from reconciler.decide.idling.table import Action, Choice, Flag, Situation, choose
from reconciler.decide.idling.targets import Front, Target
from reconciler.decide.idling.wants import Want
from reconciler.model import ObjectRef
from reconciler.policy.types import Writes

_CONTESTABLE = ASLEEP | {State.HALF_IDLED, State.HALF_WOKEN, State.STALE}
"""What may carry a contest besides what is left alone for it: a run that wrote it may have died before the rest."""

_SINCE_ITS_RECORD = ASLEEP | {State.FOREIGN, State.HALF_IDLED}


@dataclass(frozen=True, slots=True)
class Ruling:
    """What is done with one scalable. `why` is one phrase; `flip` the smallest change that would alter it."""

    target: Target
    standing: Standing
    situation: Situation
    choice: Choice
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
    def hold(self) -> Hold | None:
        """How its autoscaler is held, as whoever idled it may read that."""
        return _hold_of(self.target, self.standing)

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

    def with_flag(self, flag: Flag, words: str, flip: str = "") -> Ruling:
        """Return the ruling where `flag` holds too, and `flip` would end that."""
        words_of = {**self.situation.words, flag: words}
        situation = replace(self.situation, flags=self.situation.flags | {flag}, words=words_of)
        choice = choose(situation)
        return replace(self, situation=situation, choice=choice, flip=flip if choice.told is flag else self.flip)


def rule(target: Target, guards: Guards, now: datetime) -> Ruling:
    """Return what is done with `target`, looked at alone."""
    standing = standing_of(target)
    reasons = dict(_flags(target, standing, guards, now))
    words = {flag: reason.words for flag, reason in reasons.items()}
    situation = Situation(standing.state, target.want.says, frozenset(words), words)
    choice = choose(situation)
    return Ruling(target, standing, situation, choice, _flip(target.want, situation, choice, reasons))


def _flip(want: Want, situation: Situation, choice: Choice, reasons: Mapping[Flag, Reason]) -> str:
    """Return what would alter `choice`: of what gives its reason, not of anything else that bears on it."""
    if choice.flip:
        return choice.flip
    if choice.told is not None:
        return reasons[choice.told].flip
    if situation.state is State.DOWN:
        return f"more than {want.idle_replicas} replicas"
    if choice.why:
        return ""
    if choice.action is Action.KEEP and want.says is Says.BUSY:
        return ASKED
    excluded = reasons.get(Flag.EXCLUDED)
    return " and ".join(dict.fromkeys(flip for flip in (want.flip, excluded.flip if excluded else "") if flip))


def _flags(target: Target, standing: Standing, guards: Guards, now: datetime) -> Iterator[tuple[Flag, Reason]]:
    signal = _asked(target, standing, now)
    if signal is not None:
        yield Flag.SIGNAL, Reason(signal.words, "" if standing.state in ASLEEP else f"after {format_time(signal.at)}")
    opted_out = _excluded(target, standing)
    if opted_out is not None:
        yield Flag.EXCLUDED, opted_out
    hold = hold_on(target, now)
    if hold is not None:
        yield Flag.HELD, hold
    yield from _want_flags(target.want)
    if target.want.observing:
        yield Flag.OBSERVED, _observed(target)
    yield from _held_by_others(target, standing)
    if target.protected:
        yield Flag.PROTECTED, Reason(target.protected, UNPROTECTED)
    if target.cluster.writes is Writes.NOTHING:
        yield Flag.READ_ONLY, Reason(target.cluster.restriction, ANOTHER_STATE)
    if standing.record is not None:
        yield from _record_flags(target, standing.record, guards, now)


def _hold_of(target: Target, standing: Standing) -> Hold | None:
    if target.hold is None or standing.record is None or standing.state not in NOT_OURS:
        return target.hold
    return target.hold.read_by(standing.record.fleet)


def _held_by_others(target: Target, standing: Standing) -> Iterator[tuple[Flag, Reason]]:
    """Yield that a wake would not last: another Fleet than the one that idled it holds its autoscaler at a floor."""
    hold = _hold_of(target, standing)
    if hold is not None and hold.holder and hold.gets_back:
        words = f"Fleet {hold.holder} holds HorizontalPodAutoscaler/{hold.autoscaler.ref.name}, and did not idle it"
        yield Flag.BOUNDS, Reason(words, "--context in place of the Fleet")


def _want_flags(want: Want) -> Iterator[tuple[Flag, Reason]]:
    if want.busy is not None:
        yield Flag.BUSY, Reason(want.busy.verdict.words, want.busy.verdict.flip)
    if want.wake_when is not None:
        yield Flag.WAKE_WHEN, Reason(want.wake_when.wake_when.words, want.wake_when.wake_when.flip)


def _observed(target: Target) -> Reason:
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


def _record_flags(target: Target, record: Record, guards: Guards, now: datetime) -> Iterator[tuple[Flag, Reason]]:
    if record.wake_due is not None and record.wake_due <= now and target.scale.stands_at(record.idled_to):
        yield Flag.DUE, Reason(f"due since {format_time(record.wake_due)}")
    if target.want.idle_replicas >= record.replicas:
        words = f"idleReplicas is {target.want.idle_replicas}, it had {record.replicas}"
        yield Flag.FLOOR, Reason(words, f"idleReplicas below {record.replicas}")
    guard = guards.of(target.ref.namespace)
    if is_guarded(guard, record, now):
        yield Flag.GUARDED, Reason(guard.words, f"--allow-exceed {FLEET}")


def _asked(target: Target, standing: Standing, now: datetime) -> Signal | None:
    """Return the latest signal that came when it was idle or later, None for none."""
    record = standing.record
    if standing.state is State.FOREIGN and (record is None or not target.scale.stands_at(record.idled_to)):
        return None
    since = record.idled_at if record is not None and standing.state in _SINCE_ITS_RECORD else now
    signals = [(front.signal, _marked_at(front, since)) for front in target.fronts]
    counting = [signal for signal, at in [*signals, (target.signal, since)] if signal is not None and signal.at >= at]
    return max(counting, default=None)


def _marked_at(front: Front, since: datetime) -> datetime:
    mark = front.mark or front.foreign
    return since if mark is None else mark.idled_at


def _excluded(target: Target, standing: Standing) -> Reason | None:
    if target.want.blind:
        return None
    if target.exclusion is not None:
        return Reason(f"excluded: {target.exclusion.why}", target.exclusion.flip)
    contest = contest_of(target.scale.written, target.want.policy) if standing.state in _CONTESTABLE else None
    return None if contest is None else Reason(f"contested by {contest.by}", UNCONTESTED)


def rule_all(targets: Iterable[Target], guards: Guards, now: datetime) -> dict[ObjectRef, Ruling]:
    """Return the ruling on each of `targets`, by name in order."""
    return {target.ref: rule(target, guards, now) for target in sorted(targets, key=lambda target: target.ref)}
