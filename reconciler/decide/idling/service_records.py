"""The record on a Service, or its Endpoints: what it lists to be woken with it, and their previous replicas."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import (
    CAUSE,
    IDLED_AT,
    IDLED_TO,
    OPENSHIFT_IDLED_AT,
    OPENSHIFT_UNIDLE_TARGETS,
    OWNER,
    UNIDLE_TARGETS,
    WAKE_DUE,
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
from reconciler.model import ObjectRef
from reconciler.untrusted_text import MOST_REPLICAS

LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""When something was idled that has no record of when: before any request to wake it."""


class UnidleTarget(Struct, frozen=True, order=True):
    """One scalable that a Service's record lists, with the replicas it had."""

    kind: str
    name: str
    group: str
    replicas: int

    def ref(self, service: ObjectRef) -> ObjectRef:
        """Return the name of the scalable, which is in the namespace of `service`."""
        return ObjectRef(service.cluster, service.namespace, self.kind, self.name, self.group)

    @classmethod
    def of(cls, ref: ObjectRef, replicas: int) -> UnidleTarget:
        return cls(ref.kind, ref.name, ref.group, replicas)


class ServiceRecord(Struct, frozen=True):
    """What the record of a Service says. `targets` are sorted; `fleet` and `policy` are the owner's, "" without one."""

    idled_at: datetime
    targets: tuple[UnidleTarget, ...] = ()
    idled_to: int = 0
    fleet: str = ""
    policy: str = ""
    wake_due: datetime | None = None
    cause: str = ""


def record_of(record: ServiceRecord, target: UnidleTarget) -> Record:
    """Return what the record of a Service says of one of its scalables, as it stands there."""
    # A Service has one idled count for all that it lists, the highest; each was idled to less than it had.
    return Record(
        record.idled_at,
        target.replicas,
        min(record.idled_to, target.replicas - 1),
        record.fleet,
        record.policy,
        record.wake_due,
        None,
        record.cause,
    )


def read_service_record(
    annotations: Mapping[str, str], fleets: frozenset[str], groups: Mapping[str, str]
) -> Reading[ServiceRecord] | None:
    """Return the idle record in the `annotations` of a Service or Endpoints, None without one.

    `groups` gives the API group of a kind, for entries that name none.
    """
    if not annotations:
        return None
    owner = idling_owner(annotations)
    if owner is not None or IDLED_AT in annotations or UNIDLE_TARGETS in annotations:
        ours, own_keys = owner is not None and owner[0] in fleets, (IDLED_AT, UNIDLE_TARGETS)
        return reading_of(ours, lambda: _service_record(annotations, owner, own_keys, groups, 1 if ours else 0))
    if OPENSHIFT_IDLED_AT in annotations or OPENSHIFT_UNIDLE_TARGETS in annotations:
        keys = (OPENSHIFT_IDLED_AT, OPENSHIFT_UNIDLE_TARGETS)
        return reading_of(False, lambda: _service_record(annotations, None, keys, groups, 0))
    return None


def _service_record(
    annotations: Mapping[str, str],
    owner: tuple[str, str] | None,
    keys: tuple[str, str],
    groups: Mapping[str, str],
    least: int,
) -> ServiceRecord:
    at_key, targets_key = keys
    fleet, policy = owner or ("", "")
    listed = annotations.get(targets_key)
    targets = () if listed is None else _unidle_targets(parsed(listed, targets_key), targets_key, groups, least)
    bare = not targets and at_key not in annotations
    return ServiceRecord(
        idled_at=LONG_AGO if bare else annotated_time(annotations.get(at_key), at_key),
        targets=targets,
        idled_to=whole_number(annotations.get(IDLED_TO, "0"), IDLED_TO),
        fleet=fleet,
        policy=policy,
        wake_due=read_time(annotations.get(WAKE_DUE)),
        cause=annotations.get(CAUSE, ""),
    )


def _unidle_targets(value: Any, key: str, groups: Mapping[str, str], least: int) -> tuple[UnidleTarget, ...]:
    if not isinstance(value, list):
        raise AnnotationError(f"{key} is no list, expected a list of targets")
    found: dict[tuple[str, str, str], UnidleTarget] = {}
    for item in value:
        target = _unidle_target(item, key, groups, least)
        name = (target.kind, target.name, target.group)
        found[name] = max(target, found.get(name, target))
    return tuple(sorted(found.values()))


def _unidle_target(item: Any, key: str, groups: Mapping[str, str], least: int) -> UnidleTarget:
    found = item if isinstance(item, dict) else {}
    kind, name, replicas = found.get("kind"), found.get("name"), found.get("replicas")
    named = isinstance(kind, str) and isinstance(name, str) and kind and name
    if named and type(replicas) is int and least <= replicas <= MOST_REPLICAS:
        return UnidleTarget(str(kind), str(name), _group(found, groups), max(1, replicas))
    raise AnnotationError(f"{key} lists {compact(item)[:80]}, expected kind, name and replicas of at least {least}")


def _group(item: Mapping[str, Any], groups: Mapping[str, str]) -> str:
    if isinstance(item.get("group"), str) and (item["group"] or item["kind"] not in groups):
        return str(item["group"])
    version = item.get("apiVersion")
    if isinstance(version, str) and version:
        return version.rpartition("/")[0]
    return groups.get(item["kind"], "")


def targets_text(targets: tuple[UnidleTarget, ...]) -> str:
    """Return the annotation that lists `targets`, in the seed's own order of keys."""
    return compact(
        [
            {"kind": target.kind, "name": target.name, "group": target.group, "replicas": target.replicas}
            for target in targets
        ],
        sort=False,
    )


def service_record_annotations(record: ServiceRecord | None) -> dict[str, str | None]:
    """Return the annotations of a Service that say `record`; None: those that must not be there.

    The cause is written with what it is about, not here.
    """
    if record is None:
        return dict.fromkeys((IDLED_AT, UNIDLE_TARGETS, OWNER, IDLED_TO, WAKE_DUE, CAUSE))
    return {
        IDLED_AT: format_time(record.idled_at),
        UNIDLE_TARGETS: targets_text(record.targets),
        OWNER: idling_owner_text(record.fleet, record.policy),
        IDLED_TO: str(record.idled_to),
        WAKE_DUE: None if record.wake_due is None else format_time(record.wake_due),
    }


def foreign_record_cleared() -> dict[str, str | None]:
    """Return the annotations that take a record off, whoever wrote it, or in whatever way."""
    return {**service_record_annotations(None), OPENSHIFT_IDLED_AT: None, OPENSHIFT_UNIDLE_TARGETS: None}
