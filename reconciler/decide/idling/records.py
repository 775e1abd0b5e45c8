"""The record on a scalable: what it had before it was idled, who idled it, and when it is due."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from reconciler.decide.annotations import (
    AWAKE_SINCE,
    CAUSE,
    IDLED,
    IDLED_AT,
    IDLED_TO,
    IDLING_OWNER,
    OPENSHIFT_IDLED_AT,
    OPENSHIFT_PREVIOUS_SCALE,
    ORPHANED_SINCE,
    OWNER,
    PREVIOUS_SCALE,
    PREVIOUS_SUSPEND,
    SCALE_PREVIOUS,
    SCALE_REASON,
    SCALE_TIME,
    WAKE_DUE,
    format_time,
    idling_owner,
    idling_owner_key,
    instant,
    optional_instant,
    whole_number,
)
from reconciler.errors import AnnotationError
from reconciler.model import Workload

_RECORD = (IDLED_AT, PREVIOUS_SCALE, PREVIOUS_SUSPEND, IDLED_TO)
_OPENSHIFT = (OPENSHIFT_IDLED_AT, OPENSHIFT_PREVIOUS_SCALE)
_OF_RECORD = (*_RECORD, IDLING_OWNER, WAKE_DUE, CAUSE, ORPHANED_SINCE)


@dataclass(frozen=True, slots=True)
class Record:
    """How to wake one scalable. `replicas` is what it had (1 for a CronJob), at or below `idled_to` it is idle.

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


@dataclass(frozen=True, slots=True)
class Reading:
    """What an object's marks say. `record` None with `problem`: there are marks, but they cannot be read."""

    ours: bool
    record: Record | None = None
    problem: str = ""


def read_record(workload: Workload, fleets: frozenset[str]) -> Reading | None:
    """Return what the marks on `workload` say, None where there are none. `fleets` are the names that are ours."""
    annotations = workload.annotations
    if not annotations:
        return None
    owner = idling_owner(annotations)
    ours = owner is not None and owner[0] in fleets
    if owner is not None or any(key in annotations for key in _RECORD):
        return _read(ours, lambda: _own(workload, owner or ("", "")))
    if any(key in annotations for key in _OPENSHIFT):
        return _read(False, lambda: _openshift(annotations))
    return None


def _read(ours: bool, parse: Callable[[], Record]) -> Reading:
    try:
        return Reading(ours, parse())
    except AnnotationError as error:
        return Reading(ours, None, str(error))


def _own(workload: Workload, owner: tuple[str, str]) -> Record:
    annotations = workload.annotations
    replicas = _previous(workload)
    idled_to = whole_number(annotations.get(IDLED_TO, "0"), IDLED_TO)
    if idled_to >= replicas:
        raise AnnotationError(f"{IDLED_TO} is {idled_to}, expected less than the {replicas} that is recorded")
    return Record(
        idled_at=instant(annotations.get(IDLED_AT), IDLED_AT),
        replicas=replicas,
        idled_to=idled_to,
        fleet=owner[0],
        policy=owner[1],
        wake_due=optional_instant(annotations, WAKE_DUE),
        orphaned_since=optional_instant(annotations, ORPHANED_SINCE),
        cause=annotations.get(CAUSE, ""),
    )


def _previous(workload: Workload) -> int:
    annotations = workload.annotations
    if workload.ref.kind != "CronJob":
        return whole_number(annotations.get(PREVIOUS_SCALE), PREVIOUS_SCALE, least=1)
    if annotations.get(PREVIOUS_SUSPEND) != "false":
        raise AnnotationError(f'{PREVIOUS_SUSPEND} is "{annotations.get(PREVIOUS_SUSPEND)}", expected "false"')
    return 1


def salvaged(workload: Workload, now: datetime) -> Record | None:
    """Return what can still be read of a broken record, None where the number it had is among what cannot."""
    try:
        return Record(now, _previous(workload))
    except AnnotationError:
        return None


def _openshift(annotations: Mapping[str, str]) -> Record:
    return Record(
        idled_at=instant(annotations.get(OPENSHIFT_IDLED_AT), OPENSHIFT_IDLED_AT),
        replicas=max(1, whole_number(annotations.get(OPENSHIFT_PREVIOUS_SCALE), OPENSHIFT_PREVIOUS_SCALE)),
    )


def written(record: Record, workload: Workload) -> dict[str, str | None]:
    """Return the annotations that say `record` on `workload`; None for those that must not be there.

    The cause and the time of the scale are written with what they tell about, not here.
    """
    cron = workload.ref.kind == "CronJob"
    key = idling_owner_key(workload.annotations)
    return {
        **({IDLING_OWNER: None} if key == OWNER else {}),
        IDLED_AT: format_time(record.idled_at),
        PREVIOUS_SCALE: None if cron else str(record.replicas),
        PREVIOUS_SUSPEND: "false" if cron else None,
        SCALE_REASON: IDLED,
        SCALE_PREVIOUS: None,
        IDLED_TO: str(record.idled_to),
        key: f"{record.fleet}/IdlingPolicy/{record.policy}",
        WAKE_DUE: None if record.wake_due is None else format_time(record.wake_due),
        ORPHANED_SINCE: None if record.orphaned_since is None else format_time(record.orphaned_since),
    }


def cleared(annotations: Mapping[str, str], foreign: bool = False) -> dict[str, str | None]:
    """Return the annotations that take the record off, `foreign`: also one of `oc idle`.

    What placement wrote as owner stays, and the reason and time of a scale that somebody else gave a reason for.
    """
    owner = [OWNER] if idling_owner({OWNER: annotations.get(OWNER, "")}) else []
    scale = () if annotations.get(SCALE_REASON, IDLED) not in ("", IDLED) else (SCALE_REASON, SCALE_TIME)
    return dict.fromkeys([*_OF_RECORD, *scale, *owner, *(_OPENSHIFT if foreign else ())])


def reason_of_others(workload: Workload, record: Record) -> str | None:
    """Return the reason for which somebody else scaled `workload` since `record` was written on it, "" where they
    cleared ours, None where nobody did.

    Ours stands there with a time. Without either nothing can be said, nor where all of it came back from the past
    (`kubectl rollout undo`): a record from before the last wake is no news.

    Source: seed idling-and-unidling.md, scale-reason.
    """
    annotations, woken = workload.annotations, awake_since(workload)
    if IDLED_AT not in annotations or (woken is not None and record.idled_at < woken):
        return None
    reason = annotations.get(SCALE_REASON)
    if reason == IDLED or (reason is None and SCALE_TIME not in annotations):
        return None
    return reason or ""


def scaled_at(workload: Workload, record: Record) -> datetime:
    """Return when we scaled `workload` last while `record` stood on it: its scale-time, which a new floor moves."""
    return max(record.idled_at, optional_instant(workload.annotations, SCALE_TIME) or record.idled_at)


def awake_since(workload: Workload) -> datetime | None:
    """Return when `workload` was woken last, None where that was never or cannot be read."""
    return optional_instant(workload.annotations, AWAKE_SINCE)
