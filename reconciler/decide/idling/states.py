"""What state a scalable is in, judged by its replicas, its record and the marks of its Services."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.decide.idling.contests import contest_of
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.targets import Front, Target, record_of


class State(StrEnum):
    AWAKE = "awake"
    DOWN = "down"  # at or below the floor, and nobody remembers more
    IDLE = "idle by us"
    HALF_IDLED = "half idled"  # its Service is marked and lists it, it still runs
    HALF_HELD = "half held"  # idled to a floor, its autoscaler is not held there yet
    HALF_FREED = "half freed"  # its autoscaler has its bounds back, it has not its replicas
    HALF_WOKEN = "half woken"  # it was woken, its Service still lists it
    HAND = "scaled by hand"
    STALE = "stale record"
    CONTESTED = "contested"
    FOREIGN = "foreign"
    SET_ASIDE = "set aside"


ASLEEP = frozenset({State.IDLE, State.HALF_HELD, State.HALF_FREED})
"""What stands at its idled count because of us."""


@dataclass(frozen=True, slots=True)
class Standing:
    """`record` is what it goes back to: of its own and its Services' the newest. None where it is not idled."""

    state: State
    record: Record | None = None


def standing_of(target: Target) -> Standing:
    """Return the state of `target`."""
    reading = target.reading
    if reading is not None and reading.ours and reading.record is not None:
        return _recorded(target, reading.record)
    listed = _live_records(target)
    newest = max(listed, key=lambda record: (record.idled_at, record.replicas)) if listed else None
    stands = newest is not None and target.scale.stands_at(newest.idled_to)
    if reading is not None and reading.ours and not stands:
        return Standing(State.SET_ASIDE)
    if newest is not None:
        return Standing(_with_autoscaler(target, newest, State.IDLE if stands else State.HALF_IDLED), newest)
    if is_foreign(target):
        return Standing(State.FOREIGN, target.foreign)
    return Standing(_unmarked(target))


def is_foreign(target: Target) -> bool:
    """Return whether somebody else's marks name `target`."""
    return (target.reading is not None and not target.reading.ours) or target.foreign is not None


def _live_records(target: Target) -> list[Record]:
    """Return what our marks say of it; an entry that it was woken after is done."""
    woken = target.awake_since
    records = [record_of(listing) for listing in target.listings]
    return [record for record in records if woken is None or woken < record.idled_at]


def _recorded(target: Target, record: Record) -> Standing:
    asleep = target.scale.stands_at(record.idled_to)
    if not asleep and _is_stale(target, record):
        return Standing(State.STALE, record)
    state = _with_autoscaler(target, record, State.IDLE if asleep else State.HAND)
    return Standing(state, _newest(target, record) if state in ASLEEP else record)


def _is_stale(target: Target, record: Record) -> bool:
    """Return whether the record of a running object came back from the past (`kubectl rollout undo`).

    It is older than the last wake, or none of its Services lists it any more.
    """
    woken = target.awake_since
    if woken is not None and record.idled_at < woken:
        return True
    return not target.listings and any(_marks_for(front, record) for front in target.fronts)


def _marks_for(front: Front, record: Record) -> bool:
    """Return whether `front` would list what the policy of `record` idled: it is marked, or that policy selects it."""
    return front.mark is not None or any(bid.policy.name == record.policy for bid in front.bids)


def _newest(target: Target, record: Record) -> Record:
    """Return `record`, with the number and time of a newer entry in a Service's mark that says another number."""
    newest = max(_live_records(target), key=lambda listed: (listed.idled_at, listed.replicas), default=record)
    if newest.idled_at <= record.idled_at or newest.replicas == record.replicas:
        return record
    return replace(record, idled_at=newest.idled_at, replicas=newest.replicas)


def _with_autoscaler(target: Target, record: Record, state: State) -> State:
    """Return the state where its autoscaler has a part in it: only a floor of 1 or more is held there."""
    hold = target.hold
    if hold is None or hold.problem or record.idled_to == 0 or state is State.HALF_IDLED:
        return state
    if hold.previous is None:
        return State.HALF_HELD
    if hold.is_pinned_at(record.idled_to) or hold.is_pinned:
        return state
    return State.HALF_FREED


def _unmarked(target: Target) -> State:
    policy = target.want.policy
    if target.listings:
        return State.HALF_WOKEN if not _is_down(target) else State.DOWN
    if contest_of(target.scale.written, policy) is not None:
        return State.CONTESTED
    return State.DOWN if _is_down(target) else State.AWAKE


def _is_down(target: Target) -> bool:
    return target.scale.replicas <= target.want.floor
