"""What state a scalable is in, judged by its replicas, its record and the records of its Services."""

from __future__ import annotations

from reconciler.decide.idling.contested import contest_of, is_restored_by_others, reason_of_others
from reconciler.decide.idling.records import Record
from reconciler.decide.idling.service_records import record_of
from reconciler.decide.idling.subjects import IdleState, ServiceState, Subject
from reconciler.decide.idling.wake_replicas import newest_listed, newest_record, proved_part

_Classified = tuple[IdleState, Record | None]
"""A state, and what it goes back to: see `Subject`."""


def classify(subject: Subject) -> _Classified:
    """Return the state of `subject`."""
    reading, lost = subject.reading, subject.lost
    if lost is not None and (reading is None or reading.ours):
        return _with_autoscaler(subject, lost, IdleState.IDLE), lost
    if reading is None and not any(service.has_record for service in subject.services):
        return _without_record(subject), None
    if reading is not None and reading.ours and reading.record is not None:
        return _recorded(subject, reading.record)
    newest = newest_listed(subject)
    stands = newest is not None and subject.scale.is_at_or_below(newest.idled_to)
    if reading is not None and reading.ours and not stands:
        return IdleState.UNREADABLE, None
    if newest is not None and stands:
        return _listed(subject, newest)
    if newest is not None:
        return IdleState.IDLE_INCOMPLETE, newest
    return _foreign(subject) or (_without_record(subject), None)


def _listed(subject: Subject, newest: Record) -> _Classified:
    """Return the state of what has no record that can be read, is listed by our record, and stands at its idled count.

    The list speaks for what we idled, and its number no further than other records bear it out. `newest` is what the
    list says as it stands there.
    """
    behind = newest_listed(subject, is_behind=True)
    record = None if behind is None else proved_part(behind, subject)
    if record is None or record.replicas <= record.idled_to:
        return IdleState.UNPROVEN, newest
    return _with_autoscaler(subject, record, IdleState.IDLE), record


def _foreign(subject: Subject) -> _Classified | None:
    """Return the state by what somebody else wrote on it, or on one of its Services; None where nobody did."""
    reading = subject.reading
    listed = (
        record_of(service.foreign, subject.ref)
        for service in subject.services
        if service.foreign is not None and subject.ref in service.foreign.targets
    )
    found = next(listed, None)
    if reading is not None and not reading.ours:
        return IdleState.FOREIGN, reading.record or found
    if reading is None and found is not None and subject.scale.is_at_or_below(found.idled_to):
        return IdleState.UNPROVEN, found
    return None  # what runs, and only a list that was left behind names, is idle by nobody's word


def _recorded(subject: Subject, record: Record) -> _Classified:
    if subject.scale.is_scaled_meanwhile:
        return IdleState.HPA_CHANGED, record
    idle = subject.scale.is_at_or_below(record.idled_to)
    if _is_copy(subject, record) if idle else _is_stale(subject, record):
        return IdleState.RECORD_STALE, record
    if idle and reason_of_others(subject.scale.written, record) is not None:
        return IdleState.TAKEN_OVER, newest_record(subject, record)
    state = _with_autoscaler(subject, record, IdleState.IDLE if idle else IdleState.MANUALLY_SCALED)
    return state, record if state is IdleState.MANUALLY_SCALED else newest_record(subject, record)


def _is_stale(subject: Subject, record: Record) -> bool:
    """Return whether the record of a running object came back from the past (`kubectl rollout undo`).

    It is older than the last wake, or none of its Services lists it any more.
    """
    if _is_before_wake(subject, record):
        return True
    if not subject.scale.stops:  # no Service ever lists it
        return False
    return not subject.listings and any(_would_list(service, subject, record) for service in subject.services)


def _is_copy(subject: Subject, record: Record) -> bool:
    """Return whether the record is what its Deployment left on an old ReplicaSet, which nobody idled: no Service lists
    it since its last wake.

    Source: kubernetes pkg/controller/deployment/util, copyDeploymentAnnotationsToReplicaSet: it removes none. Such a
    ReplicaSet has no owner once its Deployment was deleted with `--cascade=orphan`.
    """
    is_old = subject.ref.kind == "ReplicaSet" and _is_before_wake(subject, record)
    return is_old and newest_listed(subject) is None


def _is_before_wake(subject: Subject, record: Record) -> bool:
    return subject.awake_since is not None and record.idled_at < subject.awake_since


def _would_list(service: ServiceState, subject: Subject, record: Record) -> bool:
    """Return whether `service` would list `subject` if it were idle by the policy of `record`.

    It is recorded, or that policy selects it, and nothing else behind it runs: else nothing is added to its list.
    """
    is_recorded = service.record is not None or record.policy in service.verdict.names
    own = (subject.ref, subject.scale.runs.ref)
    return is_recorded and not any(other.spec_replicas > 0 for other in service.found.workloads if other.ref not in own)


def _with_autoscaler(subject: Subject, record: Record, state: IdleState) -> IdleState:
    """Return the state where its autoscaler has a part in it: only one that would scale it up again is held."""
    autoscaler = subject.autoscaler
    if autoscaler is None or autoscaler.problem or not autoscaler.needs_pin(record.idled_to):
        return state
    if is_restored_by_others(subject, record):
        return IdleState.HPA_CHANGED if state is IdleState.IDLE else state
    if autoscaler.previous is None:
        return IdleState.SCALED_BY_HPA
    return state if autoscaler.is_pinned_by_us(record.idled_to) else IdleState.WAKE_IN_PROGRESS


def _without_record(subject: Subject) -> IdleState:
    is_listed, is_down = bool(subject.listings), subject.is_down
    if is_listed and not is_down:
        return IdleState.WAKE_INCOMPLETE
    if not is_listed and contest_of(subject.scale.written, subject.verdict.policy) is not None:
        return IdleState.CONTESTED
    return IdleState.DOWN if is_down else IdleState.AWAKE
