"""What state a scalable is in, judged by its replicas, its record and the marks of its Services."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from reconciler.decide.idling.contested import contest_of, is_put_back
from reconciler.decide.idling.records import Record, reason_of_others
from reconciler.decide.idling.scalables import Listing, ScalableState, ServiceState, record_of


class IdleState(StrEnum):
    AWAKE = "awake"
    DOWN = "down"  # at or below the floor, and nobody remembers more
    IDLE = "idle by us"
    HALF_IDLED = "half idled"  # its Service is marked and lists it, it still runs
    HALF_HELD = "half held"  # idled to a floor, its autoscaler is not held there yet
    HALF_FREED = "half freed"  # its autoscaler has its bounds back, it has not its replicas
    UNHELD = "no longer held"  # idled to a floor, and somebody else gave its autoscaler its bounds back
    TAKEN_OVER = "taken over"  # it stands at its idled count, and somebody else gave another reason for that, or none
    HALF_WOKEN = "half woken"  # it was woken, its Service still lists it
    HAND = "scaled by hand"
    STALE = "stale record"
    CONTESTED = "contested"
    FOREIGN = "foreign"
    UNPROVEN = "unproven"  # at zero, a Service lists it, and nothing on it says that anybody idled it
    SET_ASIDE = "set aside"


NOT_OURS = frozenset({IdleState.FOREIGN, IdleState.UNPROVEN})
"""What is idle by somebody's word, and not by ours."""

MAYBE_DOWN = frozenset({IdleState.DOWN, IdleState.SET_ASIDE, IdleState.TAKEN_OVER, *NOT_OURS})
"""What may stand at or below its floor and not be idle by us after this run: its replicas say whether it runs."""

ASLEEP = frozenset({IdleState.IDLE, IdleState.HALF_HELD, IdleState.HALF_FREED, IdleState.UNHELD, IdleState.TAKEN_OVER})
"""What is idle with a record of ours, until it is woken or released."""


@dataclass(frozen=True, slots=True)
class Classification:
    """`record` is what it goes back to: of its own and its Services' the newest. None where it is not idled."""

    state: IdleState
    record: Record | None = None


def classify(target: ScalableState) -> Classification:
    """Return the state of `target`."""
    reading = target.reading
    if reading is not None and reading.ours and reading.record is not None:
        return _recorded(target, reading.record)
    newest = _newest_listed(_live_listings(target))
    stands = newest is not None and target.scale.stands_at(newest.idled_to)
    if reading is not None and reading.ours and not stands:
        return Classification(IdleState.SET_ASIDE)
    if newest is not None and stands:
        return _listed(target, newest)
    if newest is not None:
        return Classification(_with_autoscaler(target, newest, IdleState.HALF_IDLED), newest)
    return _foreign(target) if is_foreign(target) else Classification(_unmarked(target))


def _listed(target: ScalableState, newest: Record) -> Classification:
    """Return the state of what has no record that can be read, is listed by our mark, and stands at its idled count.

    The list speaks for what we idled, and its number no further than that is borne out (see `evidence`). `newest` is
    what the list says as it stands there.
    """
    behind = _newest_listed([listing for listing in _live_listings(target) if listing.is_behind])
    record = None if behind is None else _proved(behind, target)
    if record is None or record.replicas <= record.idled_to:
        return Classification(IdleState.UNPROVEN, newest)
    return Classification(_with_autoscaler(target, record, IdleState.IDLE), record)


def _proved(listed: Record, target: ScalableState) -> Record | None:
    """Return what counts of `listed`, None where nothing on the scalable says that we idled it.

    A record of ours that cannot be read says so, and not how many there were: who broke it may scale it anyway, so the
    list counts as it stands.
    """
    if target.reading is not None and target.reading.ours:
        return listed
    return _bounded(listed, target) if target.evidence.idled_by_us else None


def _bounded(record: Record, target: ScalableState) -> Record:
    """Return a record from a Service's list with no more replicas than the scalable bears out, and at least one."""
    return replace(record, replicas=min(record.replicas, max(1, target.evidence.most)))


def _foreign(target: ScalableState) -> Classification:
    own, listed = target.own_foreign, target.listed_foreign
    if own is None and listed is not None and target.reading is None and target.scale.stands_at(listed.idled_to):
        return Classification(IdleState.UNPROVEN, listed)
    return Classification(IdleState.FOREIGN, target.foreign)


def is_foreign(target: ScalableState) -> bool:
    """Return whether somebody else's marks name `target`."""
    return (target.reading is not None and not target.reading.ours) or target.foreign is not None


def _live_listings(target: ScalableState) -> list[Listing]:
    """Return our marks that list it; an entry that it was woken after, or that is of an object before it, is done."""
    ends = [at for at in (target.awake_since, target.scale.written.created_at) if at is not None]
    return [listing for listing in target.listings if all(at < listing.mark.idled_at for at in ends)]


def _newest_listed(listings: Iterable[Listing]) -> Record | None:
    records = (record_of(listing) for listing in listings)
    return max(records, key=lambda record: (record.idled_at, record.replicas), default=None)


def _recorded(target: ScalableState, record: Record) -> Classification:
    asleep = target.scale.stands_at(record.idled_to)
    if not asleep and _is_stale(target, record):
        return Classification(IdleState.STALE, record)
    if asleep and reason_of_others(target.scale.written, record) is not None:
        return Classification(IdleState.TAKEN_OVER, _newest(target, record))
    state = _with_autoscaler(target, record, IdleState.IDLE if asleep else IdleState.HAND)
    return Classification(state, _newest(target, record) if state in ASLEEP else record)


def _is_stale(target: ScalableState, record: Record) -> bool:
    """Return whether the record of a running object came back from the past (`kubectl rollout undo`).

    It is older than the last wake, or none of its Services lists it any more.
    """
    woken = target.awake_since
    if woken is not None and record.idled_at < woken:
        return True
    return not target.listings and any(_would_list(front, target, record) for front in target.fronts)


def _would_list(front: ServiceState, target: ScalableState, record: Record) -> bool:
    """Return whether `front` would list `target` if it were idle by the policy of `record`.

    It is marked, or that policy selects it, and nothing else behind it runs: else nothing is added to its list.
    """
    marks = front.mark is not None or any(bid.policy.name == record.policy for bid in front.bids)
    own = (target.ref, target.scale.runs.ref)
    return marks and not any(other.wanted > 0 for other in front.found.workloads if other.ref not in own)


def _newest(target: ScalableState, record: Record) -> Record:
    """Return `record`, with the number and time of a newer entry in a Service's mark that says another number.

    So it is where an old record came back over a newer one (`kubectl rollout undo`).
    """
    listed = _newest_listed([listing for listing in _live_listings(target) if listing.is_behind])
    newest = record if listed is None else _bounded(listed, target)
    if newest.idled_at <= record.idled_at or newest.replicas <= record.idled_to:
        return record
    return (
        record
        if newest.replicas == record.replicas
        else replace(record, idled_at=newest.idled_at, replicas=newest.replicas)
    )


def _with_autoscaler(target: ScalableState, record: Record, state: IdleState) -> IdleState:
    """Return the state where its autoscaler has a part in it: only a floor of 1 or more is held there."""
    hold = target.hold
    if hold is None or hold.problem or record.idled_to == 0 or state is IdleState.HALF_IDLED:
        return state
    if is_put_back(target, record):
        return IdleState.UNHELD if state is IdleState.IDLE else state
    if hold.previous is None:
        return IdleState.HALF_HELD
    return state if hold.is_held(record.idled_to) else IdleState.HALF_FREED


def _unmarked(target: ScalableState) -> IdleState:
    policy = target.want.policy
    if target.listings:
        return IdleState.HALF_WOKEN if not _is_down(target) else IdleState.DOWN
    if contest_of(target.scale.written, policy) is not None:
        return IdleState.CONTESTED
    return IdleState.DOWN if _is_down(target) else IdleState.AWAKE


def _is_down(target: ScalableState) -> bool:
    return target.scale.replicas <= target.want.idle_replicas
