"""The records of Services, or of their Endpoints, which list what is idle behind them and is woken with them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import (
    Key,
    annotated_time,
    compact,
    format_time,
    idling_owner,
    idling_owner_text,
    parsed,
    read_time,
    whole_number,
)
from reconciler.decide.idling.records import Reading, Record, reading_of
from reconciler.errors import AnnotationError
from reconciler.model import NOTHING, ObjectRef
from reconciler.untrusted_text import MOST_REPLICAS

LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""When something was idled that has no record of when: before any request to wake it."""


class ServiceRecord(Struct, frozen=True):
    """What the record of a Service says. `targets` are the scalables that it lists, sorted, with the replicas that they
    had; `fleet` and `policy` are the owner's, "" without one.
    """

    idled_at: datetime
    targets: Mapping[ObjectRef, int] = NOTHING
    idled_to: int = 0
    fleet: str = ""
    policy: str = ""
    wake_due: datetime | None = None
    cause: str = ""


def who_idled(record: Record | ServiceRecord | None) -> str:
    """Return who idled what carries `record`: also one that cannot be read, or without a Fleet, as of `oc idle`."""
    return f"Fleet {record.fleet}" if record is not None and record.fleet else "somebody else"


def record_of(record: ServiceRecord, ref: ObjectRef) -> Record:
    """Return what the record of a Service says of one of its scalables, as it stands there."""
    # A Service has one idled count for all that it lists, the highest; each was idled to less than it had.
    replicas = record.targets[ref]
    return Record(
        record.idled_at,
        replicas,
        min(record.idled_to, replicas - 1),
        record.fleet,
        record.policy,
        record.wake_due,
        None,
        record.cause,
    )


def read_service_record(
    ref: ObjectRef, annotations: Mapping[str, str], fleets: frozenset[str], groups: Mapping[str, str]
) -> Reading[ServiceRecord] | None:
    """Return the idle record in the `annotations` of the Service or Endpoints `ref`, None without one.

    `groups` gives the API group of a kind, for entries that name none.
    """
    if not annotations:
        return None
    owner, keys = idling_owner(annotations), (Key.IDLED_AT, Key.UNIDLE_TARGETS)
    if owner is None and annotations.keys().isdisjoint(keys):
        keys = (Key.OPENSHIFT_IDLED_AT, Key.OPENSHIFT_UNIDLE_TARGETS)
        if annotations.keys().isdisjoint(keys):
            return None
    ours = owner is not None and owner[0] in fleets

    def record() -> ServiceRecord:
        (at_key, targets_key), (fleet, policy) = keys, owner or ("", "")
        listed = annotations.get(targets_key)
        entries = [] if listed is None else parsed(listed, targets_key)
        if not isinstance(entries, list):
            raise AnnotationError(f"{targets_key} is no list, expected a list of targets")
        targets: dict[ObjectRef, int] = {}
        for entry in entries:
            target, replicas = _target(entry, targets_key, 1 if ours else 0, ref, groups)
            targets[target] = max(replicas, targets.get(target, 0))
        bare = not targets and at_key not in annotations
        return ServiceRecord(
            idled_at=LONG_AGO if bare else annotated_time(annotations.get(at_key), at_key),
            targets=dict(sorted(targets.items())),
            idled_to=whole_number(annotations.get(Key.IDLED_TO, "0"), Key.IDLED_TO),
            fleet=fleet,
            policy=policy,
            wake_due=read_time(annotations.get(Key.WAKE_DUE)),
            cause=annotations.get(Key.CAUSE, ""),
        )

    return reading_of(ours, record)


def _target(item: Any, key: str, least: int, service: ObjectRef, groups: Mapping[str, str]) -> tuple[ObjectRef, int]:
    """Return what an entry of a list names, which is in the namespace of `service`, and the replicas it had."""
    found = item if isinstance(item, dict) else {}
    kind, name, replicas = found.get("kind"), found.get("name"), found.get("replicas")
    named = isinstance(kind, str) and isinstance(name, str) and kind and name
    if named and type(replicas) is int and least <= replicas <= MOST_REPLICAS:
        ref = ObjectRef(service.cluster, service.namespace, str(kind), str(name), _group(found, groups))
        return ref, max(1, replicas)
    raise AnnotationError(f"{key} lists {compact(item)[:80]}, expected kind, name and replicas of at least {least}")


def _group(item: Mapping[str, Any], groups: Mapping[str, str]) -> str:
    """Return the API group of an entry; what it calls "extensions" has long been served in another one."""
    group, version = item.get("group"), item.get("apiVersion")
    if not isinstance(group, str) or (not group and item["kind"] in groups):
        group = version.rpartition("/")[0] if isinstance(version, str) and version else None
    return groups.get(item["kind"], "") if group in (None, "extensions") else group


def targets_text(targets: Mapping[ObjectRef, int]) -> str:
    """Return the annotation that lists `targets`, in the seed's own order of keys."""
    listed = [
        {"kind": ref.kind, "name": ref.name, "group": ref.group, "replicas": replicas}
        for ref, replicas in targets.items()
    ]
    return compact(listed, sort=False)


def service_record_annotations(record: ServiceRecord | None) -> dict[str, str | None]:
    """Return the annotations of a Service that say `record`; None: those that must not be there.

    The cause is written with what it is about, not here.
    """
    if record is None:
        return dict.fromkeys((Key.IDLED_AT, Key.UNIDLE_TARGETS, Key.OWNER, Key.IDLED_TO, Key.WAKE_DUE, Key.CAUSE))
    return {
        Key.IDLED_AT: format_time(record.idled_at),
        Key.UNIDLE_TARGETS: targets_text(record.targets),
        Key.OWNER: idling_owner_text(record.fleet, record.policy),
        Key.IDLED_TO: str(record.idled_to),
        Key.WAKE_DUE: None if record.wake_due is None else format_time(record.wake_due),
    }


def foreign_record_cleared() -> dict[str, str | None]:
    """Return the annotations that take a record off, whoever wrote it, or in whatever way."""
    return {**service_record_annotations(None), Key.OPENSHIFT_IDLED_AT: None, Key.OPENSHIFT_UNIDLE_TARGETS: None}
