"""Requests to wake a Service or a scalable: an annotation, or a NeedPods Event in its place; and which of them count.

A wake takes none of them off: what was requested before something was idled no longer counts.

Source: seed idling-and-unidling.md, "Unidling".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from reconciler.decide.annotations import Key, read_time
from reconciler.decide.idling.service_records import LONG_AGO
from reconciler.decide.idling.subjects import IdleState, ServiceState, Subject, WakeRequest
from reconciler.decide.reasons import ReasonCode
from reconciler.model import FIELD_MANAGER, NEED_PODS, Event, Workload


def need_pods_requests(events: Iterable[Event]) -> dict[tuple[str, str], WakeRequest]:
    """Return the latest NeedPods Event of each Service, by (namespace, name); one without a time is none.

    It counts for Services in its own namespace only.
    """
    latest: dict[tuple[str, str], WakeRequest] = {}
    for event in events:
        if event.reason != NEED_PODS or event.at is None:
            continue
        request = WakeRequest(event.at, ReasonCode.NEED_PODS)
        for about in (event.related, event.involved):
            if about is not None and about[:2] == ("Service", event.namespace):
                key = (about[1], about[2])
                latest[key] = max(request, latest.get(key, request))
    return latest


def wake_request(annotations: Mapping[str, str]) -> WakeRequest | None:
    """Return the request in the annotations of a Service or a scalable, None where there is none that can be read."""
    at = read_time(annotations[Key.WAKE_REQUESTED_AT]) if Key.WAKE_REQUESTED_AT in annotations else None
    return None if at is None else WakeRequest(at)


def latest_of(*signals: WakeRequest | None) -> WakeRequest | None:
    """Return the latest of `signals`, None for none."""
    return max((request for request in signals if request is not None), default=None)


def counting_request(subject: Subject, now: datetime) -> WakeRequest | None:
    """Return the latest request that came when `subject` was idled or later, None for none."""
    if subject.request is None and all(service.request is None for service in subject.services):
        return None
    state, record = subject.state, subject.record
    if state is IdleState.FOREIGN and not subject.is_at_idled_count:
        return None
    is_idle = subject.is_idle or state is IdleState.FOREIGN
    since = record.idled_at if record is not None and (is_idle or state is IdleState.IDLE_INCOMPLETE) else now
    found = [
        (subject.request, since),
        *((service.request, _recorded_at(service, since)) for service in subject.services),
    ]
    if is_idle:
        found = [(request, _really_idled_at(at, subject.scale.written, now)) for request, at in found]
    # The list of a Service may outlive the wake that answered a request.
    answered = subject.awake_since if state is IdleState.WAKE_INCOMPLETE else None
    new = (request for request, at in found if request is not None and request.at >= at)
    return max((request for request in new if answered is None or request.at > answered), default=None)


def _recorded_at(service: ServiceState, since: datetime) -> datetime:
    record = service.record or service.foreign
    return since if record is None else record.idled_at


def _really_idled_at(recorded: datetime, written: Workload, now: datetime) -> datetime:
    """Return when `written` was idled; its record says `recorded`, by the clock of that run.

    That clock may have been ahead, and then requests since would look older than the record and be lost. The API
    server dates our write too; where it does not say, a time that is still to come says nothing.
    """
    writer = written.replicas_writer
    if writer is not None and writer.at is not None and writer.manager == FIELD_MANAGER:
        return min(recorded, writer.at)
    return recorded if recorded <= now else LONG_AGO
