"""Every annotation, label and field manager that is read or written on a cluster, and the small texts in them.

The keys and the form of the values are on clusters: a change here must still read what an earlier release wrote.

Source: seed idling-and-unidling.md, "Recording Idling State and the Scale Subresource"; openshift/api
unidling/v1alpha1/types.go.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from operator import pos
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from reconciler.errors import AnnotationError
from reconciler.policy.types import Fleet
from reconciler.untrusted_text import MOST_REPLICAS, parse_json, whole_number_in

OUR_ANNOTATIONS = ("reconciler/", "idling.kubernetes.io/", "idling.alpha.openshift.io/", "scale.kubernetes.io/")
"""How the annotations begin that are ours to write."""


class Key:
    """The keys of annotations and labels."""

    IDLED_AT = "idling.kubernetes.io/idled-at"
    UNIDLE_TARGETS = "idling.kubernetes.io/unidle-targets"
    PREVIOUS_SCALE = "idling.kubernetes.io/previous-scale"
    SCALE_REASON = "scale.kubernetes.io/scale-reason"
    SCALE_TIME = "scale.kubernetes.io/scale-time"
    SCALE_PREVIOUS = "scale.kubernetes.io/previous-scale"
    OPENSHIFT_IDLED_AT = "idling.alpha.openshift.io/idled-at"
    OPENSHIFT_UNIDLE_TARGETS = "idling.alpha.openshift.io/unidle-targets"
    OPENSHIFT_PREVIOUS_SCALE = "idling.alpha.openshift.io/previous-scale"

    OWNER = "reconciler/owner"
    IDLING_OWNER = "reconciler/idling-owner"  # in place of OWNER, where that names another kind of policy
    IDLED_TO = "reconciler/idled-to"
    WAKE_DUE = "reconciler/wake-due"
    CAUSE = "reconciler/cause"
    ORPHANED_SINCE = "reconciler/orphaned-since"
    PREVIOUS_BOUNDS = "reconciler/previous-bounds"
    SWITCHED_AT = "reconciler/switched-at"  # where the switch stands that was switched off, and what is off there
    LAST_IDLED = "reconciler/last-idled"  # stays at the wake: the policy, on which hours, and when
    WAKE_BEGUN_AT = "reconciler/wake-begun-at"
    AWAKE_SINCE = "reconciler/awake-since"
    AWAKE_UNTIL = "reconciler/awake-until"
    UNDONE = "reconciler/undone"
    CONTESTED = "reconciler/contested"
    WAKE_REQUESTED_AT = "reconciler/wake-requested-at"
    FLUX_PAUSED = "reconciler/flux-paused"  # since when; FLUX_RECONCILE is ours then
    FLUX_RECONCILE = "kustomize.toolkit.fluxcd.io/reconcile"
    FLUX_NAME_LABEL = "kustomize.toolkit.fluxcd.io/name"  # on everything that a Kustomization of Flux manages
    PAUSED = "autoscaling.keda.sh/paused"

    EXCLUDE = "reconciler/exclude"
    EXCLUDE_UNTIL = "reconciler/exclude-until"

    # Those of kube-downscaler, on Namespaces and workloads: read where the Fleet says so, never written.
    DOWNSCALER_EXCLUDE = "downscaler/exclude"
    DOWNSCALER_EXCLUDE_UNTIL = "downscaler/exclude-until"
    DOWNSCALER_ORIGINAL_REPLICAS = "downscaler/original-replicas"  # of what it has idled: read by `adopt` alone

    # Placement. A local ReplicaSet carries the label and the annotations owner, policy-digest (of selector and
    # template, so that a changed template can be known from other changes) and on-delete; any workload placed here may
    # carry observed-capacity; our ConfigMaps carry recorded-at, fleet and status.
    POLICY_DIGEST = "reconciler/policy-digest"
    ON_DELETE = "reconciler/on-delete"
    OBSERVED_CAPACITY = "reconciler/observed-capacity"
    PLACED = "reconciler/placed"  # on what placement scales and did not create: the scale before, and our last one
    STATUS = "reconciler/status"
    RECORDED_AT = "reconciler/recorded-at"
    RECORDED_BY = "reconciler/fleet"
    FEDERATED_LABEL = "reconciler/frs"

    # Victims of a scale-down.
    VICTIM_LABEL = "reconciler/victim"
    PICKER_LABEL = "reconciler/picker"  # on a Namespace: people let the admission webhook in

    # The labels of what activators write, and what a Service may say to them.
    ACTIVATOR = "reconciler/activator"  # "Splice": also where NetworkPolicies may select the pods
    WAKE_PORTS = "reconciler/wake-ports"  # names or numbers of the ports whose traffic wakes, separated by commas


FLUX_DISABLED = "disabled"
PICKER_ENABLED = "enabled"

VICTIM_COST = "-2147483647"
"""The cost of a victim: lower than any but the one value that others use."""
SPARED_COST = "-2147483646"
"""The cost that a pod gets for the time being that stays, although its own is not above that of a victim."""

IDLED = "Idled"
_OWNING_KIND = "IdlingPolicy"
PLACING_KIND = "FederatedReplicaSet"
FIRST_YEAR, LAST_YEAR = 1970, 9000


def fleet_names(fleet: Fleet) -> frozenset[str]:
    """Return the Fleet names whose annotations are ours."""
    return frozenset((fleet.name, *fleet.former_names))


def idling_owner_text(fleet: str, policy: str) -> str:
    """Return the text of the owner annotation of an IdlingPolicy."""
    return f"{fleet}/{_OWNING_KIND}/{policy}"


def idling_owner(annotations: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (Fleet, policy) of the IdlingPolicy that owns the idle record, None where no IdlingPolicy is named."""
    for key in (Key.IDLING_OWNER, Key.OWNER):
        if key in annotations:
            fleet, _, rest = annotations[key].partition("/")
            kind, named, policy = rest.partition("/")
            if kind == _OWNING_KIND and named:
                return fleet, policy
    return None


def idling_owner_key(annotations: Mapping[str, str]) -> str:
    """Return the annotation that our owner goes into: a local ReplicaSet keeps the one that placement wrote."""
    taken = Key.OWNER in annotations and f"/{_OWNING_KIND}/" not in annotations[Key.OWNER]
    return Key.IDLING_OWNER if taken else Key.OWNER


def compact(value: Any, *, sort: bool = True) -> str:
    """Return `value` as JSON without spaces; `sort` orders its keys."""
    return _encoder(sort).encode(value)


@cache
def _encoder(sort: bool) -> json.JSONEncoder:
    return json.JSONEncoder(sort_keys=sort, separators=(",", ":"), ensure_ascii=False)


def digest(value: Any, digits: int) -> str:
    """Return the first hex `digits` of the SHA-256 of `value`, such as of what a policy has `stated`."""
    return hashlib.sha256(_ENCODER.encode(value)).hexdigest()[:digits]


_ALWAYS_STATED = {
    "IdlingPolicy": ("mode", "priority", "min_age", "min_awake", "idle_replicas", "wake", "mark_endpoints"),
    "Autoscalers": ("hpa", "keda"),
    "MetricCriterion": ("at_most", "window", "no_series"),
    "WakeMetric": ("above", "window"),
}
"""Fields that are in digests at their defaults too: those on clusters were made so. No field is added here."""


def stated(value: Any) -> Any:
    """Return what a struct says besides its defaults, so that a field of a later release changes nothing.

    The order of a list does not count.
    """
    if isinstance(value, Struct):
        of = ((name, getattr(value, name), default) for name, default in _defaults_of(type(value)))
        return {name: stated(content) for name, content, default in of if content != default}
    if isinstance(value, tuple | list):
        return sorted(map(stated, value), key=_ENCODER.encode)
    return value


@cache
def _defaults_of(kind: type[Struct]) -> tuple[tuple[str, Any], ...]:
    always = {name for base in kind.__mro__ for name in _ALWAYS_STATED.get(base.__name__, ())}
    return tuple((field.name, NODEFAULT if field.name in always else _default(field)) for field in fields(kind))


def _default(field: FieldInfo) -> Any:
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


_ENCODER = msgspec.json.Encoder(order="sorted", enc_hook=pos)  # `pos` makes a plain value of a Duration or a Share


def whole_number(text: str | None, key: str, least: int = 0) -> int:
    """Return the number in the annotation `key`.

    Raises:
        AnnotationError: it is absent, not a whole number, or not between `least` and the largest int32.
    """
    number = None if text is None else whole_number_in(text)
    if number is not None and least <= number <= MOST_REPLICAS:
        return number
    bound = f"least {least}" if number is None or number < least else f"most {MOST_REPLICAS}"
    raise AnnotationError(f"{key} is {quoted(text)}, expected a whole number of at {bound}")


def annotated_time(text: str | None, key: str) -> datetime:
    """Return the time in the annotation `key`.

    Raises:
        AnnotationError: it is absent or no time as in RFC 3339.
    """
    at = None if text is None else parse_time(text)
    if at is None:
        raise AnnotationError(f"{key} is {quoted(text)}, expected a time as in RFC 3339")
    return at


def parsed(text: str, key: str) -> Any:
    """Return the JSON value in the annotation `key`.

    Raises:
        AnnotationError: it is no JSON.
    """
    try:
        return parse_json(text)
    except (ValueError, RecursionError) as error:
        raise AnnotationError(f"{key} is {quoted(text)}, expected JSON") from error


def quoted(text: str | None) -> str:
    """Return the text of an annotation in quotation marks, or that it is absent; a long one is cut."""
    if text is None:
        return "absent"
    return f'"{text}"' if len(text) <= 60 else f'"{text[:60]}..."'


_DATE_AND_TIME = r"(?a)\d{4}-\d\d-\d\d[T ]\d\d:\d\d"


@lru_cache(2048)  # a run that was done at one time names that on all that it wrote
def parse_time(text: str) -> datetime | None:
    """Return an RFC 3339 time in UTC, None where `text` is none; people may leave its seconds out.

    A time without a zone is none, nor is one so far away that nothing could be added to it.
    """
    text = text.strip().upper()
    if re.match(_DATE_AND_TIME, text) is None:  # datetime takes weeks, and hours alone, too
        return None
    try:
        at = datetime.fromisoformat(text)
        in_utc = None if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return in_utc if in_utc is not None and is_near(in_utc) else None


def parse_kube_downscaler_time(text: str) -> datetime | None:
    """Return a time as kube-downscaler takes it, None where `text` is none: without a zone, or without hours, in UTC.

    Source: kube-downscaler kube_downscaler/scaler.py, TIMESTAMP_FORMATS.
    """
    text = re.sub(r"(?<![\d.])(\d)(?!\d)", r"0\1", text.strip(), flags=re.ASCII).replace(" ", "T")  # 2026-6-1 is one
    return next(filter(None, map(parse_time, (text, f"{text}Z", f"{text}:00Z", f"{text}T00:00:00Z"))), None)


def is_near(at: datetime) -> bool:
    """Return whether `at`, in UTC, is not so far away that nothing could be added to it."""
    return FIRST_YEAR <= at.year <= LAST_YEAR


@lru_cache(512)  # a plan names the same few times again and again
def format_time(at: datetime) -> str:
    """Return `at` as RFC 3339 in UTC with whole seconds, as Kubernetes writes it."""
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def placement_owner_text(fleet: Fleet, key: str) -> str:
    """Return the text of the owner annotation of the federated ReplicaSet `key` ("namespace/name")."""
    return f"{fleet.name}/{PLACING_KIND}/{key}"


def placement_owner(annotations: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (Fleet, "namespace/name") of the federated ReplicaSet that owns the object, None where none is named."""
    fleet, _, rest = annotations.get(Key.OWNER, "").partition("/")
    kind, _, key = rest.partition("/")
    return (fleet, key) if kind == PLACING_KIND and key else None


class ObservedCapacity(Struct, frozen=True):
    """What a cluster was found to hold, and when. `retry_after` is set where nothing waits there to show more room.

    `owner` is set on workloads that carry no owner annotation: "Fleet/FederatedReplicaSet/namespace/name".
    """

    replicas: int
    at: datetime
    retry_after: datetime | None = None
    owner: str = ""

    @property
    def text(self) -> str:
        """The annotation's text."""
        parts: dict[str, Any] = {"replicas": self.replicas, "at": format_time(self.at)}
        if self.retry_after is not None:
            parts["retryAfter"] = format_time(self.retry_after)
        if self.owner:
            parts["owner"] = self.owner
        return compact(parts)


def read_capacity(annotations: Mapping[str, str]) -> ObservedCapacity | None:
    """Return the observed capacity recorded on a workload, None where there is none or it cannot be read."""
    parts = json_object(annotations.get(Key.OBSERVED_CAPACITY))
    replicas, at = parts.get("replicas"), read_time(parts.get("at"))
    if type(replicas) is not int or not 0 <= replicas <= MOST_REPLICAS or at is None:
        return None
    owner = parts.get("owner")
    return ObservedCapacity(replicas, at, read_time(parts.get("retryAfter")), owner if isinstance(owner, str) else "")


def capacity_owner(annotations: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (Fleet, "namespace/name") of the federated ReplicaSet that remembers a capacity there, None for none."""
    owner = json_object(annotations.get(Key.OBSERVED_CAPACITY)).get("owner")
    return placement_owner({Key.OWNER: owner}) if isinstance(owner, str) else None


class PlacedScale(Struct, frozen=True):
    """The way back of a workload that placement scales and did not create.

    `previous` are its replicas before placement, `replicas` those that placement set last. `owner` is
    "Fleet/FederatedReplicaSet/namespace/name".
    """

    previous: int
    replicas: int
    owner: str

    @property
    def text(self) -> str:
        """The annotation's text."""
        return compact({"previous": self.previous, "replicas": self.replicas, "owner": self.owner})

    @property
    def key(self) -> tuple[str, str] | None:
        """(Fleet, "namespace/name") of the federated ReplicaSet, None where it names none."""
        return placement_owner({Key.OWNER: self.owner})


def read_placed(annotations: Mapping[str, str]) -> PlacedScale | None:
    """Return the scale before placement that is recorded on a workload, None for none or one that cannot be read."""
    parts = json_object(annotations.get(Key.PLACED))
    previous, replicas, owner = parts.get("previous"), parts.get("replicas"), parts.get("owner")
    if type(previous) is not int or type(replicas) is not int or not isinstance(owner, str):
        return None
    if not (0 <= previous <= MOST_REPLICAS and 0 <= replicas <= MOST_REPLICAS):
        return None
    return PlacedScale(previous, replicas, owner)


def json_object(text: str | None) -> dict[str, Any]:
    """Return the JSON object in a text of ours; what cannot be read counts as empty."""
    if not text:
        return {}
    try:
        found = parse_json(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_time(text: Any) -> datetime | None:
    """Return the time in an annotation or another value of ours, None where it is absent or cannot be read."""
    return parse_time(text) if isinstance(text, str) else None
