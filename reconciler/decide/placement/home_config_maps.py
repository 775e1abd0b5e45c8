"""Where a run leaves the next one what it records: ConfigMaps in the home cluster, or in one that stands in for it.

They are written to home; while it does not answer, to the first cluster of the Fleet that does and is not read-only.
They are read from every cluster. Each carries the annotations reconciler/recorded-at and reconciler/fleet, and of
several copies the newest counts. Once home holds what the newest says, the others are deleted. What another Fleet
records on a cluster that both have is left alone, and that cluster stands in for nobody else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from msgspec import Struct
from msgspec.structs import replace

from reconciler.decide.annotations import Key, compact, fleet_names, format_time, json_object, read_time
from reconciler.decide.decisions import Cause, Decision, FieldChange, Phase, Verb, annotation_changes
from reconciler.decide.reasons import ReasonCode, reason
from reconciler.model import NOTHING, ConfigMap, ObjectRef, ObservedState
from reconciler.policy.types import Fleet, Writes

MEMORY = "reconciler-memory"
UNREACHABLE = "unreachable-since"


def unreachable_text(since: Mapping[str, datetime]) -> str:
    """Return the text that records the unreachable clusters."""
    return compact({cluster: format_time(at) for cluster, at in since.items()})


REPLACED = "reconciler-replaced-"
"""Start of the names of ConfigMaps that hold a local ReplicaSet until the one that replaces it exists."""
_NAME_SIZE = 253


def digest_of(text: str, digits: int = 12) -> str:
    """Return the first hex digits of the SHA-256 of `text`."""
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def config_map_name(prefix: str, key: str) -> str:
    """Return the name of a ConfigMap about the federated ReplicaSet `key` ("namespace/name"); at most 253 characters.

    A namespace has no dot, so different keys have different names.
    """
    name = prefix + key.replace("/", ".")
    return name if len(name) <= _NAME_SIZE else f"{name[: _NAME_SIZE - 13]}-{digest_of(key)}"


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


# Of several copies the newest, and where it is written in this run.

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
            stamp = {Key.RECORDED_AT: format_time(now), Key.RECORDED_BY: self.fleet.name}
            stamped = replace(content, annotations={**content.annotations, **stamp})
            made = config_map_written(stamped, found, group, cause, needs)
        return (*made, *self._copies_deleted(name, group, cause, tuple(decision.key for decision in made)))

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
    foreign = {
        name
        for name, maps in readable.items()
        if any(not _is_recorded_by(fleet, config_map) for config_map in maps.values())
    }
    keeper = keeper_of(fleet, lambda name: name in readable and name not in foreign)
    names = sorted((cluster.name for cluster in reversed(fleet.clusters)), key=lambda name: name == keeper)
    ours = [found for name in names for found in readable.get(name, {}).values() if _is_recorded_by(fleet, found)]
    copies = [found for name, maps in readable.items() if name != keeper for found in maps.values()]
    return Home(
        fleet=fleet,
        cluster=keeper,
        is_whole=fleet.home in readable,
        own=readable.get(keeper, {}),
        # Of several that are as old it is that of the keeper, then that of the first cluster: what comes last stays.
        newest={found.ref.name: found for found in sorted(ours, key=_recorded_at)},
        others=tuple(found for found in copies if _is_recorded_by(fleet, found)),
    )


def keeper_of(fleet: Fleet, answers: Callable[[str], bool]) -> str:
    """Return the cluster where what belongs in home is written, "" where there is none.

    A home that answers and is read-only is not replaced: it has all there is to know.
    """
    if answers(fleet.home):
        return fleet.home if _is_written_to(fleet, fleet.home) else ""
    names = [cluster.name for cluster in fleet.clusters]
    return next((name for name in names if answers(name) and _is_written_to(fleet, name)), "")


def _is_recorded_by(fleet: Fleet, found: ConfigMap) -> bool:
    """Return whether `fleet` wrote this. In home itself everything counts as its own."""
    return found.ref.cluster == fleet.home or found.annotations.get(Key.RECORDED_BY) in fleet_names(fleet)


def _is_written_to(fleet: Fleet, name: str) -> bool:
    cluster = fleet.cluster(name)
    return cluster is not None and cluster.writes is not Writes.NOTHING


def _is_recorded(found: ConfigMap, fleet: Fleet) -> bool:
    return found.ref.namespace == fleet.namespace and (found.ref.name == MEMORY or Key.STATUS in found.annotations)


def _recorded_at(found: ConfigMap) -> datetime:
    return read_time(found.annotations.get(Key.RECORDED_AT)) or _NEVER


def unknown_since(fleet: Fleet, state: ObservedState, now: datetime) -> dict[str, datetime]:
    """Return since when each unknown cluster is known to be; `now` where nothing is remembered."""
    kept = known_since(home_of(fleet, state))
    return {name: kept.get(name, now) for name in sorted(state.unreachable)}


def known_since(home: Home) -> dict[str, datetime]:
    """Return since when each cluster is remembered not to answer."""
    kept = home.newest.get(MEMORY)
    found = {} if kept is None else json_object(kept.data.get(UNREACHABLE))
    return {cluster: at for cluster, text in found.items() if (at := read_time(text)) is not None}
