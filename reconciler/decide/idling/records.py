"""The records of what is idle, with its previous replicas: whose they are, what they say, and what proves them.

They stand on the scalable itself; those of the Services that it is behind are in `service_records.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Generic, TypeVar

from msgspec import Struct

from reconciler.decide.annotations import (
    FLUX_DISABLED,
    IDLED,
    Key,
    annotated_time,
    compact,
    format_time,
    idling_owner,
    idling_owner_key,
    idling_owner_text,
    parsed,
    quoted,
    read_time,
    whole_number,
)
from reconciler.decide.owners_and_rollouts import OwnerKey, own_key, owner_key
from reconciler.errors import AnnotationError
from reconciler.model import FIELD_MANAGER, HorizontalPodAutoscaler, ObjectRef, Workload, by_key
from reconciler.untrusted_text import MOST_REPLICAS, whole_number_in
from reconciler.workload_kinds import PREVIOUS_VALUE, PREVIOUS_VALUES, SCALE_UP, Scalar, WorkloadKind, same_scalar

_RECORD = (Key.IDLED_AT, Key.PREVIOUS_SCALE, *PREVIOUS_VALUES, Key.IDLED_TO)
_OPENSHIFT = (Key.OPENSHIFT_IDLED_AT, Key.OPENSHIFT_PREVIOUS_SCALE)
_OF_RECORD = (
    *_RECORD,
    Key.SWITCHED_AT,
    Key.SCALE_PREVIOUS,
    Key.IDLING_OWNER,
    Key.WAKE_DUE,
    Key.CAUSE,
    Key.ORPHANED_SINCE,
)


R = TypeVar("R")


class Reading(Struct, Generic[R], frozen=True):
    """What the records on an object say. `record` None with `problem`: there are records, but they cannot be read."""

    ours: bool
    record: R | None = None
    problem: str = ""


def reading_of(ours: bool, parse: Callable[[], R]) -> Reading[R]:
    """Return what `parse` reads, or why it cannot."""
    try:
        return Reading(ours, parse())
    except AnnotationError as error:
        return Reading(ours, None, str(error))


class Record(Struct, frozen=True):
    """How to wake one scalable. `replicas` is what it had (1 for what has a switch, the minimum for an autoscaler), at
    or below `idled_to` it is idle.

    Of a switch `value` is what stood there, and `has_map` False says that not even a map was there to hold it.

    `policy` and `fleet` are those of the owner, "" where there is none; `cause` is the annotation's text.
    """

    idled_at: datetime
    replicas: int
    idled_to: int = 0
    fleet: str = ""
    policy: str = ""
    wake_due: datetime | None = None
    orphaned_since: datetime | None = None
    cause: str = ""
    value: Scalar = None
    has_map: bool = True


def read_record(workload: Workload, fleets: frozenset[str]) -> Reading[Record] | None:
    """Return the idle record on `workload`, None without one. `fleets` are the names whose records are ours."""
    annotations = workload.annotations
    if not annotations:
        return None
    owner = idling_owner(annotations)
    ours = owner is not None and owner[0] in fleets
    if owner is not None or not annotations.keys().isdisjoint(_RECORD):
        return reading_of(ours, lambda: _own(workload, owner or ("", "")))
    if not annotations.keys().isdisjoint(_OPENSHIFT):
        return reading_of(False, lambda: _openshift(annotations))
    return None


def _own(workload: Workload, owner: tuple[str, str]) -> Record:
    annotations = workload.annotations
    replicas, value, has_map = _previous(workload)
    idled_to = whole_number(annotations.get(Key.IDLED_TO, "0"), Key.IDLED_TO)
    if idled_to >= replicas:
        raise AnnotationError(f"{Key.IDLED_TO} is {idled_to}, expected less than the {replicas} that is recorded")
    return Record(
        idled_at=annotated_time(annotations.get(Key.IDLED_AT), Key.IDLED_AT),
        replicas=replicas,
        idled_to=idled_to,
        fleet=owner[0],
        policy=owner[1],
        wake_due=read_time(annotations.get(Key.WAKE_DUE)),
        orphaned_since=read_time(annotations.get(Key.ORPHANED_SINCE)),
        cause=annotations.get(Key.CAUSE, ""),
        value=value,
        has_map=has_map,
    )


_NO_MAP = "{}"
"""What is recorded of a switch where not even the map was there that would hold it; null is no value in it."""


def _previous(workload: Workload) -> tuple[int, Scalar, bool]:
    """Return the replicas that are recorded; of a switch, its value and whether there was a map to hold it."""
    annotations, kind = workload.annotations, workload.kind
    if not kind.is_switch:
        return whole_number(annotations.get(Key.PREVIOUS_SCALE), Key.PREVIOUS_SCALE, least=1), None, True
    text = annotations.get(kind.record)
    there, here = annotations.get(Key.SWITCHED_AT), _switch_text(kind)
    if there not in (None, here):  # what is off now, and what was recorded, are about another value
        words = f"{Key.SWITCHED_AT} is {quoted(there)}, expected {quoted(here)} as in switches of the Fleet"
        raise AnnotationError(f"{words}; state the former path and off until it is awake")
    if text == _NO_MAP and kind.in_map:
        return 1, None, False
    value = None if text is None else parsed(text, kind.record)
    if text is None or not isinstance(value, bool | int | str | None) or same_scalar(value, kind.off):
        raise AnnotationError(f"{kind.record} is {quoted(text)}, expected a value of {'.'.join(kind.replicas_path)}")
    return 1, None if same_scalar(value, kind.absent) else value, True


def _switch_text(kind: WorkloadKind) -> str | None:
    """Return which switch was switched off and by which value, None for one that is always the same."""
    return f"{'.'.join(kind.replicas_path)}={compact(kind.off)}" if kind.record == PREVIOUS_VALUE else None


def readable_part(workload: Workload, now: datetime) -> Record | None:
    """Return the readable part of a broken record, None where its replicas cannot be read, in either of their
    annotations.
    """
    try:
        replicas, value, has_map = _previous(workload)
        return Record(now, replicas, value=value, has_map=has_map)
    except AnnotationError:
        replicas = whole_number_in(workload.annotations.get(Key.SCALE_PREVIOUS, "")) or 0
        return Record(now, replicas) if 0 < replicas <= MOST_REPLICAS and not workload.kind.is_switch else None


def _openshift(annotations: Mapping[str, str]) -> Record:
    return Record(
        idled_at=annotated_time(annotations.get(Key.OPENSHIFT_IDLED_AT), Key.OPENSHIFT_IDLED_AT),
        replicas=max(1, whole_number(annotations.get(Key.OPENSHIFT_PREVIOUS_SCALE), Key.OPENSHIFT_PREVIOUS_SCALE)),
    )


def record_annotations(
    record: Record, annotations: Mapping[str, str], kind: WorkloadKind, named: str
) -> dict[str, str | None]:
    """Return the annotations that say `record` on an object of a `kind`, which is `named` in its manifest, and that has
    these `annotations`; None for those that must not be there.

    The cause is written with what it is about, not here.
    """
    previous: dict[str, str | None] = dict.fromkeys(PREVIOUS_VALUES)
    if kind.is_switch:
        value = kind.absent if record.value is None else record.value
        previous[kind.record] = compact(value) if record.has_map else _NO_MAP
    has_scale = kind.counts and named != SCALE_UP.kind  # the minimum of an autoscaler is none
    return {
        Key.IDLING_OWNER: None,
        Key.IDLED_AT: format_time(record.idled_at),
        Key.PREVIOUS_SCALE: None if kind.is_switch else str(record.replicas),
        **previous,
        Key.SWITCHED_AT: _switch_text(kind) if kind.is_switch else None,
        Key.SCALE_REASON: IDLED,
        Key.SCALE_TIME: format_time(record.idled_at),
        Key.SCALE_PREVIOUS: str(record.replicas) if has_scale else None,
        Key.IDLED_TO: str(record.idled_to),
        idling_owner_key(annotations): idling_owner_text(record.fleet, record.policy),
        Key.WAKE_DUE: None if record.wake_due is None else format_time(record.wake_due),
        Key.ORPHANED_SINCE: None if record.orphaned_since is None else format_time(record.orphaned_since),
    }


def cleared_annotations(annotations: Mapping[str, str], foreign: bool = False) -> dict[str, str | None]:
    """Return the annotations that take the record off, `foreign`: also one of `oc idle`.

    What placement wrote as owner stays, and the reason and time of a scale that somebody else gave a reason for.
    """
    # The owner that placement wrote must stay: without it the local ReplicaSet would count as somebody else's.
    owner = [Key.OWNER] if idling_owner({Key.OWNER: annotations.get(Key.OWNER, "")}) else []
    scale = () if annotations.get(Key.SCALE_REASON, IDLED) not in ("", IDLED) else (Key.SCALE_REASON, Key.SCALE_TIME)
    cleared = dict.fromkeys([*_OF_RECORD, *scale, *owner, *(_OPENSHIFT if foreign else ())])
    return {**cleared, **flux_resumed(annotations)}


def flux_paused(written: Workload | HorizontalPodAutoscaler, now: datetime) -> dict[str, str]:
    """Return the annotations that keep Flux from reconciling `written`, where it does and nobody paused it yet."""
    if Key.FLUX_NAME_LABEL not in written.labels or Key.FLUX_RECONCILE in written.annotations:
        return {}
    return {Key.FLUX_RECONCILE: FLUX_DISABLED, Key.FLUX_PAUSED: format_time(now)}


def flux_resumed(annotations: Mapping[str, str]) -> dict[str, None]:
    """Return the annotations to take off so that Flux goes on, where we paused it and nobody changed that since."""
    if Key.FLUX_PAUSED not in annotations:
        return {}
    ours = annotations.get(Key.FLUX_RECONCILE) == FLUX_DISABLED
    return dict.fromkeys((Key.FLUX_PAUSED, Key.FLUX_RECONCILE) if ours else (Key.FLUX_PAUSED,))


def awake_since(workload: Workload) -> datetime | None:
    """Return when `workload` was woken last, None where that was never or cannot be read."""
    return read_time(workload.annotations.get(Key.AWAKE_SINCE))


# What proves, apart from a list on a Service, that we idled a scalable and what it had.
#
# A Service's list may be the only record left of what is behind it. But whoever may annotate a Service may write any
# list, and need not be allowed to scale anything. So a list speaks only for what we idled, and its numbers count no
# further than the scalable itself and what it owns bear them out.


def most_recorded(workload: Workload, copied: Mapping[OwnerKey, int], fleets: frozenset[str]) -> int:
    """Return the highest number of replicas that a record has which is not another Fleet's: on `workload` itself, or on
    a ReplicaSet of it, where the Deployment controller copied it, as `copied` says; 0 for none, as 0 is never recorded.

    Source: kubernetes pkg/controller/deployment/util, copyDeploymentAnnotationsToReplicaSet (it never takes one off).
    """
    return max(_recorded_replicas(workload, fleets), copied.get(own_key(workload), 0))


def is_written_by_us(workload: Workload) -> bool:
    """Return whether our field manager wrote its replicas last, so that what stands there is our idle."""
    writer = workload.replicas_writer
    return writer is not None and writer.manager == FIELD_MANAGER


def most_by_owner(workloads: Iterable[Workload], fleets: frozenset[str]) -> dict[OwnerKey, int]:
    """Return the most replicas recorded on what each owner owns, by `fleets` or without a Fleet that can be read."""
    found: dict[OwnerKey, int] = {}
    for workload in workloads:
        owner = owner_key(workload) if Key.PREVIOUS_SCALE in workload.annotations else None
        if owner is not None:
            found[owner] = max(found.get(owner, 0), _recorded_replicas(workload, fleets))
    return found


def _recorded_replicas(workload: Workload, fleets: frozenset[str]) -> int:
    """Return the number recorded on `workload`, also in a broken record; 0 for none, and in that of another Fleet."""
    owner = idling_owner(workload.annotations)
    if owner is not None and owner[0] not in fleets:
        return 0
    try:
        return whole_number(workload.annotations.get(Key.PREVIOUS_SCALE), Key.PREVIOUS_SCALE)
    except AnnotationError:
        return 0


# What tells that a Deployment lost its record while it was idle: the copies on its ReplicaSets.


def may_lack_record(workload: Workload) -> bool:
    """Return whether `workload` may stand at zero by our idle, and not say so any more."""
    is_down = workload.spec_replicas == 0 and workload.kind.pods == "ReplicaSets"
    return is_down and Key.IDLED_AT not in workload.annotations and is_written_by_us(workload)


def lost_records(
    workloads: Iterable[Workload], readings: Mapping[ObjectRef, Reading[Record]]
) -> dict[ObjectRef, Record]:
    """Return the record of each workload that we scaled last, that is idle, and has none of ours any more: the newest
    that was copied to what it owns. A wake or a release since would be on the workload, or on what it owns.

    One that it has counts whatever the time of a copy: a run whose clock was ahead leaves one that stays the newest.
    """
    copied = ((owner_key(workload), workload) for workload in workloads if workload.annotations)
    owned = by_key((owner, workload) for owner, workload in copied if owner is not None)
    found: dict[ObjectRef, Record] = {}
    for workload in filter(is_written_by_us, workloads if owned else ()):
        copies = [] if _our_record(workload, readings) is not None else owned.get(own_key(workload), [])
        records = [record for copy in copies if (record := _our_record(copy, readings)) is not None]
        newest = max(records, key=lambda record: record.idled_at, default=None)
        if newest is None or workload.spec_replicas > newest.idled_to:
            continue
        ends = map(awake_since, (workload, *copies))
        if all(end is None or end < newest.idled_at for end in ends):
            found[workload.ref] = newest
    return found


def _our_record(workload: Workload, readings: Mapping[ObjectRef, Reading[Record]]) -> Record | None:
    reading = readings.get(workload.ref)
    return reading.record if reading is not None and reading.ours else None
