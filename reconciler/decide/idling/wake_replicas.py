"""How many replicas a wake restores: those of the newest record, on the scalable or on its Services as far as it bears
these out, within the bounds of its autoscaler.
"""

from __future__ import annotations

from msgspec.structs import replace

from reconciler.decide.idling.contested import AUTOSCALER
from reconciler.decide.idling.records import Record, is_written_by_us
from reconciler.decide.idling.subjects import Subject


def wake_count(subject: Subject, record: Record) -> int:
    """Return the replicas a wake restores: those of the record, within the bounds of its autoscaler, and no fewer than
    there are: what is too many for it, it takes away itself.
    """
    autoscaler, hpa = subject.pinned, subject.scale.hpa
    if hpa is not None:
        return min(record.replicas, hpa.maximum)
    if autoscaler is None or autoscaler.problem:
        return record.replicas
    return max(autoscaler.own_bounds.clamp(record.replicas), subject.scale.replicas)


def newest_listed(subject: Subject, *, is_behind: bool = False) -> Record | None:
    """Return what our annotations that list it say last, or only those on Services that it `is_behind`; an entry that
    it was woken after, or that is of an object before it, is done.
    """
    ends = [at for at in (subject.awake_since, subject.scale.written.created_at) if at is not None]
    live = (
        record
        for service, record in subject.listings
        if not (is_behind and service in subject.listed_only) and all(at < record.idled_at for at in ends)
    )
    return max(live, key=lambda record: (record.idled_at, record.replicas), default=None)


def newest_record(subject: Subject, record: Record) -> Record:
    """Return `record`, with the number and time of a newer entry in a Service's record that says another number.

    So it is where an old record came back over a newer one (`kubectl rollout undo`).
    """
    listed = newest_listed(subject, is_behind=True)
    newest = record if listed is None else _bounded(listed, subject)
    says_another = newest.replicas > record.idled_to and newest.replicas != record.replicas
    if newest.idled_at <= record.idled_at or not says_another:
        return record
    return replace(record, idled_at=newest.idled_at, replicas=newest.replicas)


def proved_part(listed: Record, subject: Subject) -> Record | None:
    """Return the part of `listed` that the scalable confirms, None where nothing on it says that we idled it; where
    its autoscaler wrote its replicas last, that we hold the autoscaler says so.

    A record of ours that cannot be read says so, and not how many there were: who broke it may scale it anyway, so the
    list counts as it stands.
    """
    if subject.reading is not None and subject.reading.ours:
        return listed
    writer, autoscaler = subject.scale.written.replicas_writer, subject.autoscaler
    is_held = autoscaler is not None and autoscaler.is_pinned and not autoscaler.problem
    is_by_autoscaler = writer is not None and writer.manager == AUTOSCALER
    return (
        _bounded(listed, subject) if is_written_by_us(subject.scale.written) or (is_held and is_by_autoscaler) else None
    )


def _bounded(record: Record, subject: Subject) -> Record:
    """Return a record from a Service's list with no more replicas than the scalable bears out, and at least one."""
    return replace(record, replicas=min(record.replicas, max(1, subject.most_recorded)))
