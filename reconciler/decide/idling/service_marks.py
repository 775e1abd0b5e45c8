"""The mark on a Service (or on its Endpoints): since when it is idle, and which scalables wake it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reconciler.decide.annotations import (
    CAUSE,
    IDLED_AT,
    IDLED_TO,
    OPENSHIFT_IDLED_AT,
    OPENSHIFT_UNIDLE_TARGETS,
    OWNER,
    UNIDLE_TARGETS,
    WAKE_DUE,
    compact,
    format_time,
    idling_owner,
    idling_owner_text,
    instant,
    optional_instant,
    parsed,
    whole_number,
)
from reconciler.errors import AnnotationError
from reconciler.model import ObjectRef

_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One scalable that a Service's mark lists, with the replicas it had."""

    kind: str
    name: str
    group: str
    replicas: int

    def ref(self, service: ObjectRef) -> ObjectRef:
        """Return the name of the scalable, which is in the namespace of `service`."""
        return ObjectRef(service.cluster, service.namespace, self.kind, self.name, self.group)

    @classmethod
    def of(cls, ref: ObjectRef, replicas: int) -> Entry:
        return cls(ref.kind, ref.name, ref.group, replicas)


@dataclass(frozen=True, slots=True)
class Mark:
    """What a marked Service says. `entries` are sorted; `fleet` and `policy` are the owner's, "" without one."""

    idled_at: datetime
    entries: tuple[Entry, ...] = ()
    idled_to: int = 0
    fleet: str = ""
    policy: str = ""
    wake_due: datetime | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class MarkReading:
    """`mark` None with `problem`: there is a mark, but it cannot be read."""

    ours: bool
    mark: Mark | None = None
    problem: str = ""


def read_mark(annotations: Mapping[str, str], fleets: frozenset[str], groups: Mapping[str, str]) -> MarkReading | None:
    """Return what the mark in `annotations` says, None where there is none.

    `groups` gives the API group of a kind, for entries that name none.
    """
    if not annotations:
        return None
    owner = idling_owner(annotations)
    if owner is not None or IDLED_AT in annotations or UNIDLE_TARGETS in annotations:
        ours = owner is not None and owner[0] in fleets
        return _read(annotations, ours, (IDLED_AT, UNIDLE_TARGETS), groups)
    if OPENSHIFT_IDLED_AT in annotations or OPENSHIFT_UNIDLE_TARGETS in annotations:
        return _read(annotations, False, (OPENSHIFT_IDLED_AT, OPENSHIFT_UNIDLE_TARGETS), groups)
    return None


def _read(annotations: Mapping[str, str], ours: bool, keys: tuple[str, str], groups: Mapping[str, str]) -> MarkReading:
    try:
        return MarkReading(ours, _mark(annotations, ours, keys, groups))
    except AnnotationError as error:
        return MarkReading(ours, None, str(error))


def _mark(annotations: Mapping[str, str], ours: bool, keys: tuple[str, str], groups: Mapping[str, str]) -> Mark:
    at_key, targets_key = keys
    fleet, policy = idling_owner(annotations) or ("", "")
    listed = annotations.get(targets_key)
    entries = () if listed is None else _entries(parsed(listed, targets_key), targets_key, groups, 1 if ours else 0)
    bare = not entries and at_key not in annotations
    return Mark(
        idled_at=_LONG_AGO if bare else instant(annotations.get(at_key), at_key),
        entries=entries,
        idled_to=whole_number(annotations.get(IDLED_TO, "0"), IDLED_TO),
        fleet=fleet,
        policy=policy,
        wake_due=optional_instant(annotations, WAKE_DUE),
        cause=annotations.get(CAUSE, ""),
    )


def _entries(value: Any, key: str, groups: Mapping[str, str], least: int) -> tuple[Entry, ...]:
    if not isinstance(value, list):
        raise AnnotationError(f"{key} is no list, expected a list of targets")
    found: dict[tuple[str, str, str], Entry] = {}
    for item in value:
        entry = _entry(item, key, groups, least)
        name = (entry.kind, entry.name, entry.group)
        found[name] = max(entry, found.get(name, entry))
    return tuple(sorted(found.values()))


def _entry(item: Any, key: str, groups: Mapping[str, str], least: int) -> Entry:
    found = item if isinstance(item, dict) else {}
    kind, name, replicas = found.get("kind"), found.get("name"), found.get("replicas")
    named = isinstance(kind, str) and isinstance(name, str) and kind and name
    if named and type(replicas) is int and least <= replicas <= _LARGEST:
        return Entry(str(kind), str(name), _group(found, groups), max(1, replicas))
    raise AnnotationError(f"{key} lists {compact(item)[:80]}, expected kind, name and replicas of at least {least}")


def _group(item: Mapping[str, Any], groups: Mapping[str, str]) -> str:
    if isinstance(item.get("group"), str) and (item["group"] or item["kind"] not in groups):
        return str(item["group"])
    version = item.get("apiVersion")
    if isinstance(version, str) and version:
        return version.rpartition("/")[0]
    return groups.get(item["kind"], "")


def targets_text(entries: tuple[Entry, ...]) -> str:
    """Return the annotation that lists `entries`, in the seed's own order of keys."""
    return compact(
        [
            {"kind": entry.kind, "name": entry.name, "group": entry.group, "replicas": entry.replicas}
            for entry in entries
        ],
        sort=False,
    )


def mark_annotations(mark: Mark | None) -> dict[str, str | None]:
    """Return the annotations of a Service that say `mark`; None: those that must not be there."""
    if mark is None:
        return dict.fromkeys((IDLED_AT, UNIDLE_TARGETS, OWNER, IDLED_TO, WAKE_DUE, CAUSE))
    return {
        IDLED_AT: format_time(mark.idled_at),
        UNIDLE_TARGETS: targets_text(mark.entries),
        OWNER: idling_owner_text(mark.fleet, mark.policy),
        IDLED_TO: str(mark.idled_to),
        WAKE_DUE: None if mark.wake_due is None else format_time(mark.wake_due),
        CAUSE: mark.cause or None,
    }


def foreign_cleared() -> dict[str, str | None]:
    """Return the annotations that take a mark off which somebody else wrote."""
    return {**mark_annotations(None), OPENSHIFT_IDLED_AT: None, OPENSHIFT_UNIDLE_TARGETS: None}
