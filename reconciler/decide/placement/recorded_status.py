"""What one run records for the next about federated ReplicaSets, in ConfigMaps (`home_config_maps.py` says where).

Which clusters do not answer since when, and which writes were refused, are in the ConfigMap `reconciler-memory`:

    unreachable-since         {"west": "2026-11-20T15:41:23Z"}
    rejected.0123456789abcdef {"object": "west/shop/ReplicaSet/web", "count": 3, "since": ..., "at": ...,
                               "retryAfter": ..., "why": ...}; one key for each object

`decide` writes the first and removes the others; `apply` adds to the others when a create or update is refused
(`rejection_key`, `rejection_after_failure`).

The status of a federated ReplicaSet is the annotation reconciler/status of a ConfigMap of its own:

    {"desired": 50, "clusters": {"east": {"asked": 25, "running": 25, "why": "weight 1 of 2",
                                          "facts": "0123456789ab", "since": "..."}}}

An entry has `"idle": "nights"` beside these while the IdlingPolicy of that name keeps the cluster's workload idle, and
`"until"`, when it is due to wake: it then says what it was awake. So a cluster that does not answer is known to be idle
until then, as long as there is that policy. `asked` is spec.replicas once
the plan is carried out, `running` is that without the replicas that are known to wait (longer than
unschedulableAfter) or to be placed and not available (longer than progressDeadline), `facts` a digest of the reasons in
`why` (their codes and values; the text is never compared), `since` when the entry became what it is. So nothing in it
changes by itself while replicas come up, and it is written only when a fact changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from reconciler.decide.annotations import Key, compact, digest, format_time, json_object, read_time
from reconciler.decide.placement.home_config_maps import config_map_name, digest_of
from reconciler.decide.reasons import Reasons, text_of
from reconciler.model import NOTHING, ConfigMap, ObjectRef

REJECTED = "rejected."
_IN_A_ROW = 3
"""After so many refusals in a row the replicas go elsewhere until the retry time."""


def placement_group(key: str) -> str:
    """Return the group of everything decided for the federated ReplicaSet `key` ("namespace/name")."""
    return f"placement/{key}"


class Rejection(Struct, frozen=True):
    """Refusals of one object's create or update in a row. `retry_after` is set from the third on."""

    count: int
    at: datetime
    retry_after: datetime | None
    why: str

    def not_before(self, now: datetime) -> datetime | None:
        """Return when it may be tried again, None where it may be `now`."""
        again = self.retry_after if self.count >= _IN_A_ROW else None
        return again if again is not None and now < again else None


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
        "since": json_object(memory_text).get("since") or format_time(now),
        "at": format_time(now),
        "why": why,
    }
    if count >= _IN_A_ROW:
        waited = timedelta() if known is None or known.retry_after is None else known.retry_after - known.at
        parts["retryAfter"] = format_time(now + doubled(waited))
    return compact(parts)


def read_rejection(memory_text: str | None) -> Rejection | None:
    """Return the refusals recorded for an object, None where there are none or they cannot be read."""
    parts = json_object(memory_text)
    count, at = parts.get("count"), read_time(parts.get("at"))
    if type(count) is not int or at is None:
        return None
    return Rejection(count, at, read_time(parts.get("retryAfter")), str(parts.get("why", "")))


FIRST_RETRY = timedelta(minutes=5)
_LAST_RETRY = timedelta(hours=1)


def doubled(waited: timedelta) -> timedelta:
    """Return how long to wait after having waited `waited` in vain: 5 minutes at first, an hour at most."""
    return min(max(2 * waited, FIRST_RETRY), _LAST_RETRY)


# The status of a federated ReplicaSet.


STATUS_PREFIX = "reconciler-status-"


class ClusterStatus(Struct, frozen=True):
    """One cluster of a status, without its time. None: unknown.

    `idle_by`: what keeps it idle, "" for nothing, `until` when it is due to wake. `stays`: what was said before is left
    as it is, both aside.
    """

    spec_replicas: int | None
    running: int | None
    reasons: Reasons
    idle_by: str = ""
    until: datetime | None = None
    stays: bool = False


class PlacementStatus(Struct, frozen=True):
    """What an earlier run wrote; `desired` None: nothing. `entries` are as written."""

    desired: int | None = None
    entries: Mapping[str, Mapping[str, Any]] = NOTHING

    def spec_replicas(self, cluster: str) -> int | None:
        """Return spec.replicas of `cluster` when this was written, None where it is unknown."""
        spec_replicas = self.entries.get(cluster, {}).get("asked")
        return spec_replicas if type(spec_replicas) is int and spec_replicas >= 0 else None

    def idle_by(self, cluster: str) -> str:
        """Return the IdlingPolicy that kept `cluster` idle when this was written, "" for none."""
        idle = self.entries.get(cluster, {}).get("idle")
        return idle if isinstance(idle, str) else ""

    def idle_until(self, cluster: str) -> datetime | None:
        """Return when `cluster` was due to wake when this was written, None where nothing says so."""
        return read_time(self.entries.get(cluster, {}).get("until"))


def status_name(key: str) -> str:
    """Return the name of the ConfigMap for the federated ReplicaSet `key` ("namespace/name")."""
    return config_map_name(STATUS_PREFIX, key)


def read_status(found: ConfigMap | None) -> PlacementStatus:
    """Return the status in a ConfigMap."""
    parts = json_object(None if found is None else found.annotations.get(Key.STATUS))
    desired, entries = parts.get("desired"), parts.get("clusters")
    kept = entries.items() if isinstance(entries, dict) else ()
    known = {name: entry for name, entry in kept if isinstance(entry, dict)}
    return PlacementStatus(desired if type(desired) is int else None, known)


def status_text(desired: int, entries: Mapping[str, ClusterStatus], before: PlacementStatus, now: str) -> str:
    """Return the annotation's text; an entry that says what it said `before` keeps its time."""

    def entry_values(cluster: str, entry: ClusterStatus) -> dict[str, Any]:
        old = before.entries.get(cluster, {})
        idle = {"idle": entry.idle_by} if entry.idle_by else {}
        idle |= {"until": format_time(entry.until)} if entry.idle_by and entry.until is not None else {}
        codes = digest([[why.code, dict(why.values)] for why in entry.reasons], 12)
        facts = {"asked": entry.spec_replicas, "running": entry.running, "facts": codes}
        is_same = isinstance(old.get("since"), str) and all(old.get(key) == value for key, value in facts.items())
        if is_same or (entry.stays and old.get("asked", entry) == entry.spec_replicas):
            return {key: value for key, value in old.items() if key not in ("idle", "until")} | idle
        return facts | {"why": text_of(entry.reasons), "since": now} | idle

    return compact(
        {"desired": desired, "clusters": {name: entry_values(name, entry) for name, entry in entries.items()}}
    )
