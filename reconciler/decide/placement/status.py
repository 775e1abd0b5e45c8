"""What one run records for the next: ConfigMaps in the home cluster of the Fleet, or in the one that stands in for it.

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

import hashlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import (
    RECORDED_AT,
    RECORDED_BY,
    STATUS,
    compact,
    digest,
    fleet_names,
    format_time,
    json_object,
    read_time,
)
from reconciler.decide.decisions import Cause, Decision, FieldChange, Phase, Verb, annotation_changes
from reconciler.decide.reasons import ReasonCode, Reasons, reason, text_of
from reconciler.model import NOTHING, ConfigMap, ObjectRef, ObservedState
from reconciler.policy.types import Fleet, Writes

MEMORY = "reconciler-memory"
UNREACHABLE = "unreachable-since"
REJECTED = "rejected."
IN_A_ROW = 3
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
    if count >= IN_A_ROW:
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


def read_unreachable(data: Mapping[str, str]) -> dict[str, datetime]:
    """Return since when each cluster is known not to answer."""
    found = {cluster: read_time(text) for cluster, text in json_object(data.get(UNREACHABLE)).items()}
    return {cluster: at for cluster, at in found.items() if at is not None}


def unreachable_text(since: Mapping[str, datetime]) -> str:
    """Return the text that records the unreachable clusters."""
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


def doubled(waited: timedelta) -> timedelta:
    """Return how long to wait after having waited `waited` in vain: 5 minutes at first, an hour at most."""
    return min(max(2 * waited, FIRST_RETRY), LAST_RETRY)


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
    """What an earlier run wrote. `entries` are as written."""

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


def read_status(found: ConfigMap | None) -> PlacementStatus | None:
    """Return the status in a ConfigMap, None where there is none."""
    if found is None:
        return None
    parts = json_object(found.annotations.get(STATUS))
    desired, entries = parts.get("desired"), parts.get("clusters")
    kept = (
        {name: entry for name, entry in entries.items() if isinstance(entry, dict)} if isinstance(entries, dict) else {}
    )
    return PlacementStatus(desired if type(desired) is int else None, kept)


def status_text(desired: int, entries: Mapping[str, ClusterStatus], before: PlacementStatus | None, now: str) -> str:
    """Return the annotation's text; an entry that says what it said `before` keeps its time."""
    known = before.entries if before is not None else NOTHING

    def entry_values(cluster: str, entry: ClusterStatus) -> dict[str, Any]:
        old = known.get(cluster, {})
        idle = {"idle": entry.idle_by} if entry.idle_by else {}
        idle |= {"until": format_time(entry.until)} if entry.idle_by and entry.until is not None else {}
        if entry.stays and old.get("asked", entry) == entry.spec_replicas:
            return {key: value for key, value in old.items() if key not in ("idle", "until")} | idle
        codes = digest([[one.code, dict(one.values)] for one in entry.reasons], 12)
        facts = {"asked": entry.spec_replicas, "running": entry.running, "facts": codes}
        if all(old.get(key) == value for key, value in facts.items()) and isinstance(old.get("since"), str):
            return {key: value for key, value in old.items() if key not in ("idle", "until")} | idle
        return facts | {"why": text_of(entry.reasons), "since": now} | idle

    return compact(
        {"desired": desired, "clusters": {name: entry_values(name, entry) for name, entry in entries.items()}}
    )


# Our ConfigMaps, as decisions: made where they are missing, changed key by key where they are there.


class ConfigMapContent(Struct, frozen=True):
    """What a ConfigMap of ours should say. None takes a key off; what is not named stays."""

    ref: ObjectRef
    data: Mapping[str, str | None] = NOTHING
    annotations: Mapping[str, str | None] = NOTHING


def config_map_written(
    content: ConfigMapContent, found: ConfigMap | None, group: str, cause: Cause, needs: tuple[str, ...] = ()
) -> tuple[Decision, ...]:
    """Return the decision that makes `found` (None: there is none) say what `content` says, () where it does."""
    changes = _changes(content, found)
    if not changes:
        return ()
    data = ",".join(sorted(content.data))
    written = replace(
        _config_map_decision(Verb.REMEMBER, content.ref, found, group, cause),
        changes=() if found is None else changes,
        needs=needs,
        manifest=_manifest(content) if found is None else None,
        has_annotations=found is None or found.has_annotations,
    )
    return (replace(written, key=f"{written.key}/{data}") if data else written,)


def config_map_deleted(found: ConfigMap, group: str, cause: Cause, needs: tuple[str, ...] = ()) -> Decision:
    """Return the decision that deletes a ConfigMap of ours."""
    return replace(_config_map_decision(Verb.DELETE, found.ref, found, group, cause), needs=needs)


def _config_map_decision(verb: Verb, ref: ObjectRef, found: ConfigMap | None, group: str, cause: Cause) -> Decision:
    return Decision(
        key=f"{group}/{ref}/{verb}",
        job="placement",
        verb=verb,
        phase=Phase.RECORD,
        ref=ref,
        api_version="v1",
        uid=None if found is None else found.uid,
        changes=(),
        cause=cause,
        group=group,
    )


def _changes(content: ConfigMapContent, found: ConfigMap | None) -> tuple[FieldChange, ...]:
    data = {} if found is None else found.data
    entries = [
        FieldChange(("data", key), data.get(key), content.data[key])
        for key in sorted(content.data)
        if data.get(key) != content.data[key]
    ]
    if found is not None and not data and entries:
        entries = [FieldChange(("data",), None, {change.path[-1]: change.after for change in entries})]
    return tuple(entries) + annotation_changes({} if found is None else found.annotations, content.annotations)


def _manifest(content: ConfigMapContent) -> dict[str, object]:
    metadata: dict[str, object] = {"name": content.ref.name, "namespace": content.ref.namespace}
    if content.annotations:
        metadata["annotations"] = _said(content.annotations)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": _said(content.data)}


def _said(content: Mapping[str, str | None]) -> dict[str, str]:
    return {key: text for key, text in sorted(content.items()) if text is not None}


# What one run leaves the next about the whole Fleet: ConfigMaps in the home cluster, or in whoever stands in for it.
#
# They are written to home; while it does not answer, to the first cluster of the Fleet that does and is not
# read-only. They are read from every cluster. Each carries the annotations reconciler/recorded-at and
# reconciler/fleet, and of several copies the newest counts. Once home holds what the newest says, the others are
# deleted. What another Fleet records on a cluster that both have is left alone, and that cluster stands in for nobody
# else.

_NEVER = datetime.min.replace(tzinfo=UTC)


class Home(Struct, frozen=True):
    """`cluster` is where it is written, "" for nowhere. `own` are our ConfigMaps there, `newest` the newest on any
    cluster, both by name; `others` those on clusters other than `cluster`.

    `is_whole`: home itself could be read, so what is not there is nowhere.
    """

    fleet: Fleet
    cluster: str
    is_whole: bool
    own: Mapping[str, ConfigMap] = NOTHING
    newest: Mapping[str, ConfigMap] = NOTHING
    others: tuple[ConfigMap, ...] = ()

    def is_current(self, name: str) -> bool:
        """Return whether nothing newer than what is in `cluster` is known."""
        return self.newest.get(name) is self.own.get(name)

    def written(
        self, content: ConfigMapContent, now: datetime, group: str, cause: Cause, needs: tuple[str, ...] = ()
    ) -> tuple[Decision, ...]:
        """Return the decisions that make the ConfigMap in `cluster` say what the newest and `content` say, and that
        delete the copies on other clusters once home says it; () where it does.
        """
        name = content.ref.name
        found, newest = self.own.get(name), self.newest.get(name)
        if not self.is_current(name) and newest is not None:
            gone = dict.fromkeys(() if found is None else found.data)
            content = replace(content, data={**gone, **newest.data, **content.data})
        changed = not self.is_current(name) or bool(config_map_written(content, found, group, cause))
        made: tuple[Decision, ...] = ()
        if changed:
            stamp = {RECORDED_AT: format_time(now), RECORDED_BY: self.fleet.name}
            stamped = replace(content, annotations={**content.annotations, **stamp})
            made = config_map_written(stamped, found, group, cause, needs)
        return (*made, *self._copies_deleted(name, group, cause, tuple(one.key for one in made)))

    def _copies_deleted(self, name: str, group: str, cause: Cause, needs: tuple[str, ...]) -> Iterator[Decision]:
        if self.cluster != self.fleet.home:
            return
        words = replace(cause, reasons=(reason(ReasonCode.HOME_REACHABLE),))
        for copy in self.others:
            if copy.ref.name == name and _is_written_to(self.fleet, copy.ref.cluster):
                yield config_map_deleted(copy, group, words, needs)

    def ref(self, name: str) -> ObjectRef:
        """Return the name of our ConfigMap `name` where it is written."""
        return ObjectRef(self.cluster, self.fleet.namespace, "ConfigMap", name)


def home_of(fleet: Fleet, state: ObservedState) -> Home:
    """Return the ConfigMaps of the Fleet, and the cluster where they are written in this run."""
    readable = {
        name: {found.ref.name: found for found in observed.config_maps if _is_recorded(found, fleet)}
        for name, observed in state.clusters.items()
        if "configmaps" not in observed.unreadable
    }
    foreign = {name for name, maps in readable.items() if any(not is_recorded_by(fleet, one) for one in maps.values())}
    keeper = keeper_of(fleet, lambda name: name in readable and name not in foreign)
    newest: dict[str, ConfigMap] = {}
    for name in sorted((one.name for one in fleet.clusters), key=lambda name: name != keeper):  # of equals the first
        for found in readable.get(name, {}).values():
            if not is_recorded_by(fleet, found):
                continue
            known = newest.get(found.ref.name)
            if known is None or _recorded_at(found) > _recorded_at(known):
                newest[found.ref.name] = found
    copies = [found for name, maps in readable.items() if name != keeper for found in maps.values()]
    return Home(
        fleet=fleet,
        cluster=keeper,
        is_whole=fleet.home in readable,
        own=readable.get(keeper, {}),
        newest=newest,
        others=tuple(found for found in copies if is_recorded_by(fleet, found)),
    )


def keeper_of(fleet: Fleet, answers: Callable[[str], bool]) -> str:
    """Return the cluster where what belongs in home is written, "" where there is none.

    A home that answers and is read-only is not replaced: it has all there is to know.
    """
    if answers(fleet.home):
        return fleet.home if _is_written_to(fleet, fleet.home) else ""
    names = [cluster.name for cluster in fleet.clusters]
    return next((name for name in names if answers(name) and _is_written_to(fleet, name)), "")


def is_recorded_by(fleet: Fleet, found: ConfigMap) -> bool:
    """Return whether `fleet` wrote this. In home itself everything counts as its own."""
    return found.ref.cluster == fleet.home or found.annotations.get(RECORDED_BY) in fleet_names(fleet)


def _is_written_to(fleet: Fleet, name: str) -> bool:
    cluster = fleet.cluster(name)
    return cluster is not None and cluster.writes is not Writes.NOTHING


def _is_recorded(found: ConfigMap, fleet: Fleet) -> bool:
    return found.ref.namespace == fleet.namespace and (found.ref.name == MEMORY or STATUS in found.annotations)


def _recorded_at(found: ConfigMap) -> datetime:
    return read_time(found.annotations.get(RECORDED_AT)) or _NEVER


def unknown_since(fleet: Fleet, state: ObservedState, now: datetime) -> dict[str, datetime]:
    """Return since when each unknown cluster is known to be; `now` where nothing is remembered."""
    kept = known_since(home_of(fleet, state))
    return {name: kept.get(name, now) for name in sorted(state.unreachable)}


def known_since(home: Home) -> dict[str, datetime]:
    """Return since when each cluster is remembered not to answer."""
    kept = home.newest.get(MEMORY)
    return {} if kept is None else read_unreachable(kept.data)
