"""The annotations that idling reads and writes, and the small texts in them.

Source: seed idling-and-unidling.md, "Recording Idling State and the Scale Subresource"; openshift/api
unidling/v1alpha1/types.go.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from reconciler.decide.selection import parse_time
from reconciler.errors import AnnotationError
from reconciler.policy.types import Fleet

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
PREVIOUS_SUSPEND = "reconciler/previous-suspend"
PREVIOUS_BOUNDS = "reconciler/previous-bounds"
WAKE_BEGUN_AT = "reconciler/wake-begun-at"
AWAKE_SINCE = "reconciler/awake-since"
AWAKE_UNTIL = "reconciler/awake-until"
UNDONE = "reconciler/undone"
CONTESTED = "reconciler/contested"
WAKE_REQUESTED_AT = "reconciler/wake-requested-at"
PAUSED_REPLICAS = "autoscaling.keda.sh/paused-replicas"
PAUSED = "autoscaling.keda.sh/paused"

IDLED = "Idled"
OWNING_KIND = "IdlingPolicy"
_LARGEST = 2**31 - 1  # spec.replicas is an int32


def fleet_names(fleet: Fleet) -> frozenset[str]:
    """Return the Fleet names whose marks are ours."""
    return frozenset((fleet.name, *fleet.former_names))


def owner_text(fleet: str, policy: str) -> str:
    """Return what an owner annotation says."""
    return f"{fleet}/{OWNING_KIND}/{policy}"


def owner_of(annotations: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (Fleet, policy) of the IdlingPolicy that owns the marks, None where no IdlingPolicy is named."""
    for key in (IDLING_OWNER, OWNER):
        parts = annotations.get(key, "").split("/", 2)
        if len(parts) == 3 and parts[1] == OWNING_KIND:
            return parts[0], parts[2]
    return None


def owner_key(annotations: Mapping[str, str]) -> str:
    """Return the annotation that our owner goes into: a local ReplicaSet keeps the one that placement wrote."""
    taken = OWNER in annotations and f"/{OWNING_KIND}/" not in annotations[OWNER]
    return IDLING_OWNER if taken else OWNER


def compact(value: Any, *, sort: bool = True) -> str:
    """Return `value` as JSON without spaces; `sort` orders its keys."""
    return json.dumps(value, sort_keys=sort, separators=(",", ":"), ensure_ascii=False)


def whole_number(text: str | None, key: str, least: int = 0) -> int:
    """Return the number in the annotation `key`.

    Raises:
        AnnotationError: it is absent, not a whole number, or not between `least` and the largest int32.
    """
    if text is not None and text.isascii() and text.isdecimal() and len(text) <= 10 and least <= int(text) <= _LARGEST:
        return int(text)
    raise AnnotationError(f"{key} is {quoted(text)}, expected a whole number of at least {least}")


def instant(text: str | None, key: str) -> datetime:
    """Return the time in the annotation `key`.

    Raises:
        AnnotationError: it is absent or no time as in RFC 3339.
    """
    at = None if text is None else parse_time(text)
    if at is None:
        raise AnnotationError(f"{key} is {quoted(text)}, expected a time as in RFC 3339")
    return at


def optional_instant(annotations: Mapping[str, str], key: str) -> datetime | None:
    """Return the time in the annotation `key`, None where it is absent or cannot be read."""
    text = annotations.get(key)
    return None if text is None else parse_time(text)


def parsed(text: str, key: str) -> Any:
    """Return the JSON value in the annotation `key`.

    Raises:
        AnnotationError: it is no JSON.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AnnotationError(f"{key} is {quoted(text)}, expected JSON") from error


def quoted(text: str | None) -> str:
    """Return the text of an annotation in quotation marks, or that it is absent; a long one is cut."""
    if text is None:
        return "absent"
    return f'"{text}"' if len(text) <= 60 else f'"{text[:60]}..."'
