"""What every object on the wire has in common, as msgspec structs; what many of them say alike is kept once.

A struct names the fields that are read; the others are skipped. `null` counts as absent, as the API server has it.
Names are the API's own, in snake case. Times are as Kubernetes writes them, to the nanosecond.

Source: apimachinery meta/v1 types.go.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import inf, nan
from sys import intern
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType, field

from reconciler.model import DELETION_COST
from reconciler.untrusted_text import MOST_REPLICAS

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FAR = (datetime(9000, 12, 31, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_REMEMBERED = 512
_RFC3339 = r"(?ai)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:[0-5]\d)"
_BEYOND_MICROSECONDS = r"(?a)\.\d{6}(\d{1,3})"
_BEYOND_CALENDAR = r"(?a)(-0001|0000|10000)-\d\d-\d\dT[\d:.]+Z"
_FIRST, _LAST = "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"


class Instant(int):
    """A time in nanoseconds since the epoch, read from RFC 3339."""

    __slots__ = ()

    @lru_cache(_REMEMBERED)  # noqa: B019 - a number; nothing else is kept
    def as_datetime(self) -> datetime:
        """Return the time in UTC. One before 1970 or after 9000 becomes the nearest of these: others write times too,
        and what is decided adds and subtracts days.
        """
        return _EPOCH + timedelta(microseconds=min(max(self // 1000, 0), _FAR))


@lru_cache(_REMEMBERED)  # many objects are made or written at once
def instant(text: str) -> Instant:
    """Return an RFC 3339 time; what its fraction says beyond nanoseconds is dropped.

    API servers take the years 0 to 9999 in any zone, as in managedFields, and answer with them in UTC: those that no
    datetime holds become the nearest.

    Raises:
        ValueError: `text` is none.
    """
    beyond_calendar = re.fullmatch(_BEYOND_CALENDAR, text)
    if beyond_calendar is not None:
        return instant(_LAST if beyond_calendar[1] == "10000" else _FIRST)
    beyond = re.search(_BEYOND_MICROSECONDS, text)
    nanoseconds = int(beyond[1].ljust(3, "0")) if beyond else 0
    return Instant((_time_in(text) - _EPOCH) // _MICROSECOND * 1000 + nanoseconds)


def _time_in(text: str) -> datetime:
    """Return the RFC 3339 time that `text` spells, in UTC; what its fraction says beyond microseconds is dropped.

    Raises:
        ValueError: it spells none.
    """
    if re.fullmatch(_RFC3339, text) is None:  # datetime takes other forms of ISO 8601 too
        raise ValueError("no time as in RFC 3339")
    try:
        return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except OverflowError:
        raise ValueError("no time between the years 1 and 9999") from None


def micro_time(at: datetime) -> str:
    """Return a time as Kubernetes writes it to the microsecond."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def datetime_of(found: Instant | None) -> datetime | None:
    """Return `found` as a datetime in UTC, None for None."""
    return None if found is None else found.as_datetime()


class Number(float):
    """A number of any size, or "NaN", "+Inf", "-Inf", as Prometheus writes them."""


_SPECIAL = {"NaN": nan, "+Inf": inf, "Inf": inf, "-Inf": -inf}
_NUMBER = r"(?a)[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
_HUGE = 10**308


def number(value: Any) -> Number:
    """Return a number, or a text that says one; one that is too large is infinite.

    Raises:
        ValueError: `value` is none.
    """
    if isinstance(value, float):
        return Number(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return Number(value if abs(value) < _HUGE else inf if value > 0 else -inf)
    if isinstance(value, str) and (value in _SPECIAL or re.fullmatch(_NUMBER, value)):
        return Number(_SPECIAL[value] if value in _SPECIAL else float(value))
    raise ValueError("no number")


NonEmptyText = Annotated[str, Meta(min_length=1)]
Count = Annotated[int, Meta(ge=0, le=MOST_REPLICAS)]
StringMap = dict[str, str]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_MOST_ENTRIES = 8


def shared(mapping: StringMap | None) -> StringMap | None:
    """Return labels or annotations equal to `mapping`, the same object for several; nobody may change it."""
    return _remembered(tuple(mapping.items())) if mapping and len(mapping) <= _MOST_ENTRIES else mapping


@lru_cache(_REMEMBERED)
def _remembered(entries: tuple[tuple[str, str], ...]) -> StringMap:
    return {intern(key): intern(value) for key, value in entries}


def shared_text(text: str | None) -> str | None:
    """Return a text equal to `text`, the same object wherever it is alive."""
    return None if text is None else intern(text)


class Wire(Struct, rename="camel", gc=False, omit_defaults=True):
    """The base: fields in snake case, on the wire in camel case."""


class OwnerReference(Wire):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None

    def __post_init__(self) -> None:
        self.api_version, self.kind = shared_text(self.api_version), shared_text(self.kind)


class Metadata(Wire):
    """`annotations` are without the one that kubectl keeps: it holds the whole object once more, for kubectl alone."""

    name: NonEmptyText
    namespace: str | None = None
    uid: str | None = None
    generation: int | None = None
    creation_timestamp: Instant | None = None
    deletion_timestamp: Instant | None = None
    labels: StringMap | None = None
    annotations: StringMap | None = None
    owner_references: list[OwnerReference] | None = None

    def __post_init__(self) -> None:
        self.namespace = shared_text(self.namespace)
        self.labels = shared(self.labels)
        if self.annotations:
            self.annotations.pop(_LAST_APPLIED, None)
            self.annotations = shared(self.annotations)
        else:
            self.annotations = None  # a server keeps no empty map


class Object(Wire):
    """What every object has."""

    metadata: Metadata


class OwnedScaleFields(Struct, gc=False):
    replicas: dict[str, Any] | UnsetType = field(default=UNSET, name="f:replicas")
    suspend: dict[str, Any] | UnsetType = field(default=UNSET, name="f:suspend")


class FieldsV1(Struct, gc=False, omit_defaults=True):
    spec: OwnedScaleFields | None = field(default=None, name="f:spec")


class ManagedFieldsEntry(Wire):
    manager: str | None = None
    operation: str | None = None
    time: Instant | None = None
    subresource: str | None = None

    def __post_init__(self) -> None:
        self.manager = shared_text(self.manager)


class ManagedFields(ManagedFieldsEntry):
    fields_v1: FieldsV1 | None = field(default=None, name="fieldsV1")


class ScalableMetadata(Metadata):
    managed_fields: list[ManagedFields] | None = None


class OwnedCost(Struct, gc=False):
    cost: dict[str, Any] | UnsetType = field(default=UNSET, name=f"f:{DELETION_COST}")


class OwnedCostAnnotation(Struct, gc=False, omit_defaults=True):
    annotations: OwnedCost | None = field(default=None, name="f:annotations")


class OwnedCostMetadata(Struct, gc=False, omit_defaults=True):
    metadata: OwnedCostAnnotation | None = field(default=None, name="f:metadata")

    @property
    def is_owned(self) -> bool:
        """Whether the deletion cost is among what is owned."""
        annotations = None if self.metadata is None else self.metadata.annotations
        return annotations is not None and annotations.cost is not UNSET


class PodManagedFields(ManagedFieldsEntry):
    fields_v1: OwnedCostMetadata | None = field(default=None, name="fieldsV1")


class PodMetadata(Metadata):
    """Of who owns what only the deletion cost is read: pods are many."""

    managed_fields: list[PodManagedFields] | None = None

    @property
    def cost_writer(self) -> str:
        """The manager that wrote the deletion cost last, "" where there is none, or nobody is recorded."""
        owners = [
            entry for entry in self.managed_fields or () if entry.fields_v1 is not None and entry.fields_v1.is_owned
        ]
        last = max(owners, key=lambda entry: (entry.time or 0, entry.manager or ""), default=None)
        return "" if last is None else last.manager or ""


class CustomManagedFields(ManagedFieldsEntry):
    fields_v1: dict[str, Any] | None = field(default=None, name="fieldsV1")


class CustomMetadata(Metadata):
    managed_fields: list[CustomManagedFields] | None = None


def controller_of(metadata: Metadata) -> OwnerReference | None:
    """Return the owner that controls the object, None where nothing does."""
    return next((owner for owner in metadata.owner_references or () if owner.controller), None)
