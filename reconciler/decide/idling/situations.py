"""A scalable and everything that bears on it -> what the table looks at, and what the table says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from reconciler.decide.idling.contests import contest_of
from reconciler.decide.idling.guard import Guard, is_guarded
from reconciler.decide.idling.holds import hold_on
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.states import ASLEEP, Standing, State, standing_of
from reconciler.decide.idling.table import Action, Choice, Flag, Situation, choose
from reconciler.decide.idling.targets import Front, Target
from reconciler.decide.selection import format_time
from reconciler.model import ObjectRef

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
    def was_asleep(self) -> bool:
        return self.standing.state in ASLEEP

    @property
    def stays_asleep(self) -> bool:
        """Whether it stands at its idled count because of us after this run."""
        staying = (Action.KEEP, Action.PUT_OFF, Action.OVERDUE, Action.DEFER)
        return self.action is Action.IDLE or (self.was_asleep and self.action in staying)

    def with_flag(self, flag: Flag, words: str) -> Ruling:
        """Return the ruling where `flag` holds too."""
        words_of = {**self.situation.words, flag: words}
        situation = replace(self.situation, flags=self.situation.flags | {flag}, words=words_of)
        choice = choose(situation)
        return replace(self, situation=situation, choice=choice, flip="" if choice.why == words else self.flip)


def rule(target: Target, guard: Guard, now: datetime) -> Ruling:
    """Return what is done with `target`, looked at alone."""
    standing = standing_of(target)
    hold = hold_on(target, now)
    words = dict(_flags(target, standing, guard, now))
    if hold is not None:
        words[Flag.HELD] = hold.words
    situation = Situation(standing.state, target.want.says, frozenset(words), words)
    choice = choose(situation)
    held = hold is not None and choice.why == hold.words
    return Ruling(target, standing, situation, choice, hold.flip if held and hold is not None else target.want.flip)


def _flags(target: Target, standing: Standing, guard: Guard, now: datetime) -> Iterator[tuple[Flag, str]]:
    signal = _asked(target, standing, now)
    if signal:
        yield Flag.SIGNAL, signal
    opted_out = _excluded(target, standing)
    if opted_out:
        yield Flag.EXCLUDED, opted_out
    if target.want.busy:
        yield Flag.BUSY, target.want.busy
    if target.want.wake_when:
        yield Flag.WAKE_WHEN, target.want.wake_when
    if target.want.observed:
        yield Flag.OBSERVED, "a policy that only observes selects it"
    if target.frozen:
        yield Flag.FROZEN, "the cluster is frozen"
    if standing.record is not None:
        yield from _record_flags(target, standing.record, guard, now)


def _record_flags(target: Target, record: Record, guard: Guard, now: datetime) -> Iterator[tuple[Flag, str]]:
    if record.wake_due is not None and record.wake_due <= now and target.scale.stands_at(record.idled_to):
        yield Flag.DUE, f"due since {format_time(record.wake_due)}"
    if target.want.floor >= record.replicas:
        yield Flag.FLOOR, f"the floor is {target.want.floor}, it had {record.replicas}"
    if is_guarded(guard, record, now):
        yield Flag.GUARDED, guard.words


def _asked(target: Target, standing: Standing, now: datetime) -> str:
    """Return the words of the latest signal that came when it was idle or later, "" for none."""
    record = standing.record
    if standing.state is State.FOREIGN and (record is None or not target.scale.stands_at(record.idled_to)):
        return ""
    since = record.idled_at if record is not None and standing.state in _SINCE_ITS_RECORD else now
    signals = [(front.signal, _marked_at(front, since)) for front in target.fronts]
    counting = [signal for signal, at in [*signals, (target.signal, since)] if signal is not None and signal.at >= at]
    return max(counting).words if counting else ""


def _marked_at(front: Front, since: datetime) -> datetime:
    mark = front.mark or front.foreign
    return since if mark is None else mark.idled_at


def _excluded(target: Target, standing: Standing) -> str:
    if target.want.blind:
        return ""
    if target.exclusion is not None:
        return f"excluded: {target.exclusion.why}"
    contest = contest_of(target.scale.written, target.want.policy) if standing.state in ASLEEP else None
    return "" if contest is None else f"contested by {contest.by}"


def rule_all(targets: Iterable[Target], guard: Guard, now: datetime) -> dict[ObjectRef, Ruling]:
    """Return the ruling on each of `targets`, by name in order."""
    return {target.ref: rule(target, guard, now) for target in sorted(targets, key=lambda target: target.ref)}
