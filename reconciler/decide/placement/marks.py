"""The marks of placement on local workloads, and the small texts in them.

A local ReplicaSet carries the label reconciler/frs and the annotations reconciler/owner, reconciler/policy-digest (of
selector and template, so that a changed template can be told from other changes) and reconciler/on-delete. Any workload
placed here may carry reconciler/observed-capacity.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from reconciler.decide.idling.marks import OWNER, compact
from reconciler.decide.selection import format_time, parse_time
from reconciler.policy.types import FederatedReplicaSet, Fleet

DIGEST = "reconciler/policy-digest"
ON_DELETE = "reconciler/on-delete"
CAPACITY = "reconciler/observed-capacity"
STATUS = "reconciler/status"
LABEL = "reconciler/frs"
KIND = "FederatedReplicaSet"

REPLACED = "reconciler-replaced-"
"""Start of the names of ConfigMaps that hold a local ReplicaSet until the one that replaces it exists."""

_LABEL_SIZE = 63
_NAME_SIZE = 253
FIRST_RETRY = timedelta(minutes=5)
LAST_RETRY = timedelta(hours=1)


def digest_of(text: str, digits: int = 12) -> str:
    """Return the first hex digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def owner_text(fleet: Fleet, key: str) -> str:
    """Return what the owner annotation says for the federated ReplicaSet `key` ("namespace/name")."""
    return f"{fleet.name}/{KIND}/{key}"


def owner_of(annotations: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (Fleet, "namespace/name") of the federated ReplicaSet that owns the object, None where none is named."""
    fleet, _, rest = annotations.get(OWNER, "").partition("/")
    kind, _, key = rest.partition("/")
    return (fleet, key) if kind == KIND and key else None


def label_of(name: str) -> str:
    """Return the value of the label reconciler/frs for a federated ReplicaSet of that name; at most 63 characters."""
    return name if len(name) <= _LABEL_SIZE else f"{name[:50]}-{digest_of(name)}"


def config_map_name(prefix: str, key: str) -> str:
    """Return the name of a ConfigMap about the federated ReplicaSet `key` ("namespace/name"); at most 253 characters.

    A namespace has no dot, so different keys have different names.
    """
    name = prefix + key.replace("/", ".", 1)
    return name if len(name) <= _NAME_SIZE else f"{name[: _NAME_SIZE - 13]}-{digest_of(key)}"


def replaced_name(key: str) -> str:
    """Return the name of the ConfigMap, beside a local ReplicaSet, that holds the one it replaces."""
    return config_map_name(REPLACED, key)


def template_digest(federated: FederatedReplicaSet) -> str:
    """Return the digest of what a local ReplicaSet is made of, replicas aside."""
    return digest_of(compact({"selector": federated.selector, "template": federated.template}))


def doubled(waited: timedelta) -> timedelta:
    """Return how long to wait after having waited `waited` in vain: 5 minutes at first, an hour at most."""
    return min(max(2 * waited, FIRST_RETRY), LAST_RETRY)


@dataclass(frozen=True, slots=True)
class ObservedCapacity:
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
    """Return what is remembered on a workload, None where nothing is or it cannot be read."""
    parts = read_json(annotations.get(CAPACITY))
    replicas, at = parts.get("replicas"), read_time(parts.get("at"))
    if type(replicas) is not int or not 0 <= replicas < 2**31 or at is None:
        return None
    owner = parts.get("owner")
    return ObservedCapacity(replicas, at, read_time(parts.get("retryAfter")), owner if isinstance(owner, str) else "")


def capacity_owner(annotations: Mapping[str, str]) -> tuple[str, str] | None:
    """Return (Fleet, "namespace/name") of the federated ReplicaSet that remembers a capacity there, None for none."""
    owner = read_json(annotations.get(CAPACITY)).get("owner")
    return owner_of({OWNER: owner}) if isinstance(owner, str) else None


def read_json(text: str | None) -> dict[str, Any]:
    """Return the JSON object in a text of ours; what cannot be read counts as empty."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def read_time(text: Any) -> datetime | None:
    """Return the time in a value of ours, None where it is none."""
    return parse_time(text) if isinstance(text, str) else None
