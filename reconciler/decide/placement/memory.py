"""What cannot live on a local workload: which clusters do not answer since when, and which writes were refused.

Both are in the ConfigMap `reconciler-memory`, where what belongs in home is written (`home.py`):

    unreachable-since         {"west": "2026-11-20T15:41:23Z"}
    rejected.0123456789abcdef {"object": "west/shop/ReplicaSet/web", "count": 3, "since": ..., "at": ...,
                               "retryAfter": ..., "why": ...}; one key for each object

`decide` writes the first and takes the others off; `apply` adds to the others when a create or update is refused
(`rejection_key`, `rejection_after_failure`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from reconciler.decide.annotations import (
    compact,
    format_time,
    read_json,
    read_time,
)
from reconciler.model import ObjectRef

MEMORY = "reconciler-memory"
UNREACHABLE = "unreachable-since"
REJECTED = "rejected."
IN_A_ROW = 3
"""After so many refusals in a row the replicas go elsewhere until the retry time."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Refusals of one object's create or update in a row. `retry_after` is set from the third on."""

    count: int
    at: datetime
    retry_after: datetime | None
    why: str

    def in_force(self, now: datetime) -> bool:
        """Return whether nothing is tried there now."""
        return self.retry_after is not None and now < self.retry_after


def rejection_key(ref: ObjectRef) -> str:
    """Return the key under which refusals of `ref` are kept; a valid key of a ConfigMap."""
    return f"{REJECTED}{digest_of(f'{ref}/{ref.group}', 16)}"


def rejection_after_failure(memory_text: str | None, ref: ObjectRef, why: str, now: datetime) -> str:
    """Return the text to keep under `rejection_key(ref)` after one more refusal, in place of `memory_text`.

    From the third in a row on it holds when to try again: after 5 minutes, then doubling up to an hour.
    """
    known = read_rejection(memory_text)
    count = 1 if known is None else known.count + 1
    parts = {
        "object": str(ref),
        "count": count,
        "since": read_json(memory_text).get("since") or format_time(now),
        "at": format_time(now),
        "why": why,
    }
    if count >= IN_A_ROW:
        waited = timedelta() if known is None or known.retry_after is None else known.retry_after - known.at
        parts["retryAfter"] = format_time(now + doubled(waited))
    return compact(parts)


def read_rejection(memory_text: str | None) -> Rejection | None:
    """Return what is kept about an object's refusals, None where nothing is or it cannot be read."""
    parts = read_json(memory_text)
    count, at = parts.get("count"), read_time(parts.get("at"))
    if type(count) is not int or at is None:
        return None
    return Rejection(count, at, read_time(parts.get("retryAfter")), str(parts.get("why", "")))


def read_unreachable(data: Mapping[str, str]) -> dict[str, datetime]:
    """Return since when each cluster is known not to answer."""
    found = {cluster: read_time(text) for cluster, text in read_json(data.get(UNREACHABLE)).items()}
    return {cluster: at for cluster, at in found.items() if at is not None}


def unreachable_text(since: Mapping[str, datetime]) -> str:
    """Return what is kept about clusters that do not answer."""
    return compact({cluster: format_time(at) for cluster, at in since.items()})


REPLACED = "reconciler-replaced-"
"""Start of the names of ConfigMaps that hold a local ReplicaSet until the one that replaces it exists."""
_NAME_SIZE = 253
FIRST_RETRY = timedelta(minutes=5)
LAST_RETRY = timedelta(hours=1)


def digest_of(text: str, digits: int = 12) -> str:
    """Return the first hex digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def config_map_name(prefix: str, key: str) -> str:
    """Return the name of a ConfigMap about the federated ReplicaSet `key` ("namespace/name"); at most 253 characters.

    A namespace has no dot, so different keys have different names.
    """
    name = prefix + key.replace("/", ".", 1)
    return name if len(name) <= _NAME_SIZE else f"{name[: _NAME_SIZE - 13]}-{digest_of(key)}"


def replaced_name(key: str) -> str:
    """Return the name of the ConfigMap, beside a local ReplicaSet, that holds the one it replaces."""
    return config_map_name(REPLACED, key)


def doubled(waited: timedelta) -> timedelta:
    """Return how long to wait after having waited `waited` in vain: 5 minutes at first, an hour at most."""
    return min(max(2 * waited, FIRST_RETRY), LAST_RETRY)
