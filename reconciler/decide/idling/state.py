"""What state a scalable is in, judged by its replicas, its record and the records of its Services."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from msgspec.structs import replace

from reconciler.decide.idling.contested import contest_of, is_restored_by_others
from reconciler.decide.idling.records import Record, reason_of_others
from reconciler.decide.idling.scalables import Listing, ScalableState, ServiceState, record_of


class IdleState(StrEnum):
    AWAKE = "awake"
    DOWN = "down"  # at or below the floor, and nobody remembers more
    IDLE = "idle by us"
    IDLE_INCOMPLETE = "half idled"  # its Service is marked and lists it, it still runs
    HPA_NOT_PINNED = "half held"  # idled to a floor, its autoscaler is not held there yet
    HPA_RESTORED = "half freed"  # its autoscaler has its bounds back, it has not its replicas
    HPA_CHANGED = "no longer held"  # idled to a floor, and somebody else gave its autoscaler its bounds back
    TAKEN_OVER = "taken over"  # it stands at its idled count, and somebody else gave another reason for that, or none
    WAKE_INCOMPLETE = "half woken"  # it was woken, its Service still lists it
    MANUALLY_SCALED = "scaled by hand"
    STALE = "stale record"
    CONTESTED = "contested"
    FOREIGN = "foreign"
    UNPROVEN = "unproven"  # at zero, a Service lists it, and nothing on it says that anybody idled it
    UNREADABLE = "set aside"


NOT_OURS = frozenset({IdleState.FOREIGN, IdleState.UNPROVEN})
"""What is idle by somebody's word, and not by ours."""

MAYBE_DOWN = frozenset({IdleState.DOWN, IdleState.UNREADABLE, IdleState.TAKEN_OVER, *NOT_OURS})
"""What may stand at or below its floor and not be idle by us after this run: its replicas say whether it runs."""

IDLE_STATES = frozenset(
    {IdleState.IDLE, IdleState.HPA_NOT_PINNED, IdleState.HPA_RESTORED, IdleState.HPA_CHANGED, IdleState.TAKEN_OVER}
)
"""What is idle with a record of ours, until it is woken or released."""


Classified = tuple[IdleState, Record | None]
"""A state, and what it goes back to: of its own record and those of its Services the newest; None: it is not idled."""


def classify(scalable: ScalableState) -> Classified:
    """Return the state of `scalable`."""
    reading = scalable.reading
    if reading is not None and reading.ours and reading.record is not None:
        return _recorded(scalable, reading.record)
    newest = _newest_listed(_live_listings(scalable))
    stands = newest is not None and scalable.scale.is_at_or_below(newest.idled_to)
    if reading is not None and reading.ours and not stands:
        return IdleState.UNREADABLE, None
    if newest is not None and stands:
        return _listed(scalable, newest)
    if newest is not None:
        return _with_autoscaler(scalable, newest, IdleState.IDLE_INCOMPLETE), newest
    return _foreign(scalable) if is_foreign(scalable) else (_unmarked(scalable), None)


def _listed(scalable: ScalableState, newest: Record) -> Classified:
    """Return the state of what has no record that can be read, is listed by our mark, and stands at its idled count.

    The list speaks for what we idled, and its number no further than that is borne out (see `evidence`). `newest` is
    what the list says as it stands there.
    """
    behind = _newest_listed([listing for listing in _live_listings(scalable) if listing.is_behind])
    record = None if behind is None else _proved(behind, scalable)
    if record is None or record.replicas <= record.idled_to:
        return IdleState.UNPROVEN, newest
    return _with_autoscaler(scalable, record, IdleState.IDLE), record


def _proved(listed: Record, scalable: ScalableState) -> Record | None:
    """Return the part of `listed` that the scalable confirms, None where nothing on it says that we idled it.

    A record of ours that cannot be read says so, and not how many there were: who broke it may scale it anyway, so the
    list counts as it stands.
    """
    if scalable.reading is not None and scalable.reading.ours:
        return listed
    return _bounded(listed, scalable) if scalable.evidence.idled_by_us else None


def _bounded(record: Record, scalable: ScalableState) -> Record:
    """Return a record from a Service's list with no more replicas than the scalable bears out, and at least one."""
    return replace(record, replicas=min(record.replicas, max(1, scalable.evidence.most)))


def _foreign(scalable: ScalableState) -> Classified:
    own, listed = scalable.own_foreign, scalable.listed_foreign
    if (
        own is None
        and listed is not None
        and scalable.reading is None
        and scalable.scale.is_at_or_below(listed.idled_to)
    ):
        return IdleState.UNPROVEN, listed
    return IdleState.FOREIGN, scalable.foreign


def is_foreign(scalable: ScalableState) -> bool:
    """Return whether somebody else's marks name `scalable`."""
    return (scalable.reading is not None and not scalable.reading.ours) or scalable.foreign is not None


def _live_listings(scalable: ScalableState) -> list[Listing]:
    """Return our annotations that list it; an entry that it was woken after, or that is of an object before it, is
    done.
    """
    if not scalable.services:
        return []
    ends = [at for at in (scalable.awake_since, scalable.scale.written.created_at) if at is not None]
    return [listing for listing in scalable.listings if all(at < listing.record.idled_at for at in ends)]


def _newest_listed(listings: Iterable[Listing]) -> Record | None:
    records = (record_of(listing) for listing in listings)
    return max(records, key=lambda record: (record.idled_at, record.replicas), default=None)


def _recorded(scalable: ScalableState, record: Record) -> Classified:
    idle = scalable.scale.is_at_or_below(record.idled_to)
    if not idle and _is_stale(scalable, record):
        return IdleState.STALE, record
    if idle and reason_of_others(scalable.scale.written, record) is not None:
        return IdleState.TAKEN_OVER, _newest(scalable, record)
    state = _with_autoscaler(scalable, record, IdleState.IDLE if idle else IdleState.MANUALLY_SCALED)
    return state, _newest(scalable, record) if state in IDLE_STATES else record


def _is_stale(scalable: ScalableState, record: Record) -> bool:
    """Return whether the record of a running object came back from the past (`kubectl rollout undo`).

    It is older than the last wake, or none of its Services lists it any more.
    """
    woken = scalable.awake_since
    if woken is not None and record.idled_at < woken:
        return True
    return not scalable.listings and any(_would_list(service, scalable, record) for service in scalable.services)


def _would_list(service: ServiceState, scalable: ScalableState, record: Record) -> bool:
    """Return whether `service` would list `scalable` if it were idle by the policy of `record`.

    It is marked, or that policy selects it, and nothing else behind it runs: else nothing is added to its list.
    """
    marks = service.record is not None or any(verdict.policy.name == record.policy for verdict in service.verdicts)
    own = (scalable.ref, scalable.scale.runs.ref)
    return marks and not any(other.spec_replicas > 0 for other in service.found.workloads if other.ref not in own)


def _newest(scalable: ScalableState, record: Record) -> Record:
    """Return `record`, with the number and time of a newer entry in a Service's mark that says another number.

    So it is where an old record came back over a newer one (`kubectl rollout undo`).
    """
    listed = _newest_listed([listing for listing in _live_listings(scalable) if listing.is_behind])
    newest = record if listed is None else _bounded(listed, scalable)
    if newest.idled_at <= record.idled_at or newest.replicas <= record.idled_to:
        return record
    return (
        record
        if newest.replicas == record.replicas
        else replace(record, idled_at=newest.idled_at, replicas=newest.replicas)
    )


def _with_autoscaler(scalable: ScalableState, record: Record, state: IdleState) -> IdleState:
    """Return the state where its autoscaler has a part in it: only a floor of 1 or more is held there."""
    autoscaler = scalable.autoscaler
    if autoscaler is None or autoscaler.problem or record.idled_to == 0 or state is IdleState.IDLE_INCOMPLETE:
        return state
    if is_restored_by_others(scalable, record):
        return IdleState.HPA_CHANGED if state is IdleState.IDLE else state
    if autoscaler.previous is None:
        return IdleState.HPA_NOT_PINNED
    return state if autoscaler.is_pinned_by_us(record.idled_to) else IdleState.HPA_RESTORED


def _unmarked(scalable: ScalableState) -> IdleState:
    policy = scalable.verdict.policy
    if scalable.listings:
        return IdleState.WAKE_INCOMPLETE if not _is_down(scalable) else IdleState.DOWN
    if contest_of(scalable.scale.written, policy) is not None:
        return IdleState.CONTESTED
    return IdleState.DOWN if _is_down(scalable) else IdleState.AWAKE


def _is_down(scalable: ScalableState) -> bool:
    return scalable.scale.replicas <= scalable.verdict.idle_replicas
