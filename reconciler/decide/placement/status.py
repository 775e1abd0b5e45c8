"""The status of a federated ReplicaSet: a ConfigMap in the home cluster, with the annotation reconciler/status.

    {"desired": 50, "clusters": {"east": {"asked": 25, "running": 25, "why": "weight 1 of 2", "since": "..."}}}

An entry has `"idle": "nights"` beside these while the IdlingPolicy of that name keeps the cluster's workload idle: it
then says what it was awake. So a cluster that does not answer is known to be idle.

`asked` is spec.replicas once the plan is carried out, `running` is that without the replicas that are known to wait
(longer than unschedulableAfter) or to be placed and not available (longer than progressDeadline), `since` when the
entry became what it is. So nothing in it changes by itself while replicas come up, and it is written only when a fact
changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reconciler.decide.annotations import STATUS, compact, read_json
from reconciler.decide.placement.memory import config_map_name
from reconciler.model import ConfigMap

PREFIX = "reconciler-status-"


@dataclass(frozen=True, slots=True)
class Entry:
    """One cluster of a status, without its time. None: unknown.

    `idle_by`: what keeps it idle, "" for nothing. `stays`: what was said before is left as it is, `idle_by` aside.
    """

    asked: int | None
    running: int | None
    why: str
    idle_by: str = ""
    stays: bool = False


@dataclass(frozen=True, slots=True)
class Status:
    """What an earlier run wrote. `entries` are as written."""

    desired: int | None = None
    entries: Mapping[str, Mapping[str, Any]] | None = None

    def asked(self, cluster: str) -> int | None:
        """Return what `cluster` was asked for, None where that is unknown."""
        asked = (self.entries or {}).get(cluster, {}).get("asked")
        return asked if type(asked) is int and asked >= 0 else None

    def idle_by(self, cluster: str) -> str:
        """Return what kept `cluster` idle when this was written, "" for nothing."""
        idle = (self.entries or {}).get(cluster, {}).get("idle")
        return idle if isinstance(idle, str) else ""


def status_name(key: str) -> str:
    """Return the name of the ConfigMap for the federated ReplicaSet `key` ("namespace/name")."""
    return config_map_name(PREFIX, key)


def read_status(found: ConfigMap | None) -> Status | None:
    """Return the status in a ConfigMap, None where there is none."""
    if found is None:
        return None
    parts = read_json(found.annotations.get(STATUS))
    desired, entries = parts.get("desired"), parts.get("clusters")
    kept = (
        {name: entry for name, entry in entries.items() if isinstance(entry, dict)} if isinstance(entries, dict) else {}
    )
    return Status(desired if type(desired) is int else None, kept)


def status_text(desired: int, entries: Mapping[str, Entry], before: Status | None, now: str) -> str:
    """Return the annotation's text; an entry that says what it said `before` keeps its time."""
    known = (before.entries if before is not None else None) or {}

    def told(cluster: str, entry: Entry) -> dict[str, Any]:
        old = known.get(cluster, {})
        idle = {"idle": entry.idle_by} if entry.idle_by else {}
        if entry.stays and old:
            return {key: value for key, value in old.items() if key != "idle"} | idle
        parts = {"asked": entry.asked, "running": entry.running, "why": entry.why}
        same = all(old.get(key) == value for key, value in parts.items()) and isinstance(old.get("since"), str)
        return parts | {"since": old["since"] if same else now} | idle

    return compact({"desired": desired, "clusters": {name: told(name, entry) for name, entry in entries.items()}})
