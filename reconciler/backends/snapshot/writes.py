"""One write of a run as changes of manifests: what it tests, what it changes, what the controllers do then, at once:
statuses follow, surplus pods are deleted, and leave the EndpointSlices and Endpoints that name them.

No pod is made up: where replicas grow, only the numbers do. A pod on record that is not ready stays not ready.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from reconciler.backends.decode.mismatches import json_path
from reconciler.backends.decode.wire import Instant
from reconciler.backends.decode.workloads import count_at, value_below
from reconciler.backends.patched_values import equal, patched
from reconciler.backends.protocols import AUTOSCALERS, BOUNDS, PODS, VictimOrder
from reconciler.backends.snapshot.index import Index, owner_references
from reconciler.backends.snapshot.manifest_files import FoundManifest, ManifestEntry, entry_of
from reconciler.backends.snapshot.manifests import (
    as_served,
    as_written,
    plain,
    put_at,
    with_generation,
    with_writer,
    without_empty_maps,
)
from reconciler.backends.snapshot.object_store import REMOVED, Changes
from reconciler.errors import AlreadyExistsError, NotFoundError, RefusedError, StaleError
from reconciler.model import PatchOperation, Pod, Write
from reconciler.untrusted_text import whole_number_in
from reconciler.workload_kinds import WorkloadKind, workload_kind

_FIXED = ("apiVersion", "kind")
_FIXED_METADATA = ("name", "namespace", "uid")
_KEPT_METADATA = ("uid", "creationTimestamp", "generation", "managedFields", "resourceVersion")


class PlannedWrite:
    """Works out what `write` changes; nothing is written here."""

    def __init__(self, index: Index, write: Write, victim_order: VictimOrder) -> None:
        self.changes = Changes()
        self._index = index
        self._write = write
        self._settling = Controllers(index, self.changes, victim_order)
        verbs: dict[str, Callable[[], None]] = {
            "patch": self._patch,
            "create": self._create,
            "delete": self._delete,
            "event": self._event,
        }
        verbs[write.verb]()
        settle_endpoints(index, self.changes)

    def _patch(self) -> None:
        entry = self._found()
        self._test_uid(entry)
        stored = entry.file.value_of(entry)
        served = as_served(stored, self._index.uid_of(entry), entry.key.namespace)
        operations = [PatchOperation(one.op, one.path, plain(one.value)) for one in self._write.patch]
        changed = patched(served, operations, str(self._write.ref))
        self._check_fixed(served, changed)
        self._check_json([one.value for one in operations])
        new = as_written(changed, stored)
        self.changes.checked = (new, self._check(new, entry))
        self._put(entry, new, stored)

    def _put(self, entry: ManifestEntry, new: dict[str, Any], old: dict[str, Any]) -> None:
        """Put `new` with what follows from the change; the object itself is written before those that follow."""
        self.changes.put(entry, new)
        self.changes.put(entry, self._controlled(entry, new, old))

    def _controlled(self, entry: ManifestEntry, new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
        """Return `new` with what follows from the change: generation, writer, and where replicas changed the rest."""
        new = with_generation(new, old)
        if (entry.group, entry.kind) == (AUTOSCALERS.group, AUTOSCALERS.kind):
            return _with_writer_of_bounds(new, old)
        scale = self._index.scales.get((entry.group, entry.kind))
        if scale is None or equal(value_below(new, scale.replicas_path), value_below(old, scale.replicas_path)):
            return new
        new = with_writer(new, scale.replicas_path)
        if not scale.status_path or replicas_of(new, scale) == replicas_of(old, scale):
            return new
        return self._settling.settle(entry, new, scale)

    def _create(self) -> None:
        manifest = self._manifest()
        entry = self._index.find(self._write.ref)
        if entry is None and self._write.uid is not None:
            raise StaleError(f"{self._write.ref}: is gone, expected the one with uid {self._write.uid}; plan again")
        if entry is None:
            self.changes.create(self._check(manifest, None).key, manifest)
            return
        if self._write.uid is None:
            raise AlreadyExistsError(f"{self._write.ref}: is there already, expected none of that name; plan again")
        self._test_uid(entry)
        self._check(manifest, entry)
        stored = entry.file.value_of(entry)
        kept = {key: value for key, value in stored["metadata"].items() if key in _KEPT_METADATA}
        status = {"status": stored["status"]} if "status" in stored else {}
        new = {**status, **manifest, "metadata": {**manifest["metadata"], **kept}}
        self._put(entry, new, stored)

    def _delete(self) -> None:
        entry = self._found()
        self._test_uid(entry)
        self._collect(entry)

    def _collect(self, entry: ManifestEntry) -> None:
        """Delete an object and, as the garbage collector does, what only it owned; orphans lose the reference."""
        self.changes.remove(entry)
        uid = self._index.uid_of(entry)
        for owned in self._index.owned_by(entry):
            others = [owner for owner in owner_references(owned) if owner.uid != uid]
            if self._write.orphan or others:
                self._disown(owned, uid)
            else:
                self._collect(owned)

    def _disown(self, entry: ManifestEntry, uid: str) -> None:
        value = self.changes.value_of(entry)
        references = value["metadata"]["ownerReferences"]
        gone = {index for index, owner in enumerate(owner_references(entry)) if owner.uid == uid}
        left = [reference for index, reference in enumerate(references) if index not in gone]
        metadata = {key: inside for key, inside in value["metadata"].items() if key != "ownerReferences"}
        if left:
            metadata["ownerReferences"] = left
        self.changes.put(entry, {**value, "metadata": metadata})

    def _event(self) -> None:
        """Write an Event; the same one again counts on."""
        manifest = self._manifest()
        if not manifest["metadata"].get("name"):
            digest = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()[:12]
            involved = manifest.get("involvedObject") or {}
            manifest["metadata"]["name"] = f"{involved.get('name', 'event')}.{digest}"
        read = self._check(manifest, None)
        known = self._index.entries.get(self._index.key_of(read))
        if known is None:
            self.changes.create(read.key, manifest)
            return
        found = known.file.value_of(known)
        seen = found.get("count")
        count = {"count": seen + 1} if isinstance(seen, int) else {}
        since = {key: found[key] for key in ("firstTimestamp",) if key in found}
        self.changes.put(known, manifest | since | count)

    def _found(self) -> ManifestEntry:
        entry = self._index.find(self._write.ref)
        if entry is None:
            raise NotFoundError(f"{self._write.ref}: is not there, expected to {self._write.verb} it; plan again")
        if entry.kind == "Secret":
            raise RefusedError(f"{self._write.ref}: is a Secret, expected an object that may be written")
        return entry

    def _test_uid(self, entry: ManifestEntry) -> None:
        uid = self._index.uid_of(entry)
        if self._write.uid not in (None, uid):
            raise StaleError(f"{self._write.ref}: uid is {uid}, expected {self._write.uid}; plan again")

    def _manifest(self) -> dict[str, Any]:
        """Return the manifest of the write as it is written: apiVersion and kind first, its namespace stated."""
        given = plain(self._write.manifest or {})
        metadata = {"name": self._write.ref.name, **(given.get("metadata") or {})}
        if self._write.ref.namespace:
            metadata["namespace"] = metadata.get("namespace") or self._write.ref.namespace
        head = {"apiVersion": self._write.api_version, "kind": self._write.ref.kind}
        self._check_json(given)
        return without_empty_maps(head | given | {"metadata": metadata})

    def _check_json(self, given: Any) -> None:
        """Refuse what cannot be written as JSON: a number that is none, or half a surrogate pair."""
        try:
            json.dumps(given, ensure_ascii=False, allow_nan=False).encode()
        except ValueError as error:
            raise RefusedError(f"{self._write.ref}: cannot be written as JSON: {error}") from error

    def _check(self, manifest: dict[str, Any], entry: ManifestEntry | None) -> ManifestEntry:
        """Refuse a manifest that the API server would refuse for its types."""
        version, kind = (entry.api_version, entry.kind) if entry is not None else ("", "")
        read = entry_of(FoundManifest(manifest, version, kind))
        if isinstance(read, ManifestEntry):
            read.key = self._index.key_of(read)
            wrong = self._index.wrong_with(read)
        else:
            wrong = read or [((), "is no manifest")]
        if wrong or not isinstance(read, ManifestEntry):
            words = "; ".join(f"{json_path(path)} {words}".strip() for path, words in wrong)
            raise RefusedError(f"{self._write.ref}: {words}")
        return read

    def _check_fixed(self, old: dict[str, Any], new: Any) -> None:
        ref = self._write.ref
        if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
            raise RefusedError(f"{ref}: would be no object any more, expected a manifest")
        for holder, changed, names in ((old, new, _FIXED), (old["metadata"], new["metadata"], _FIXED_METADATA)):
            for name in names:
                if holder.get(name) != changed.get(name):
                    raise RefusedError(f"{ref}: {name} would change, expected it to stay {holder.get(name)}")


def _with_writer_of_bounds(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    for path in BOUNDS:
        if not equal(value_below(new, path), value_below(old, path)):
            new = with_writer(new, path)
    return new


_POD = ("", "Pod")
_REPLICA_SET = ("apps", "ReplicaSet")
_ADDRESSES = ("addresses", "notReadyAddresses")
_REPLICAS = ("spec", "replicas")
_REVISION = "deployment.kubernetes.io/revision"
_FOLLOWS_ALWAYS = ("readyReplicas", "availableReplicas")
_FOLLOWS_WHERE_RECORDED = ("currentReplicas", "updatedReplicas", "updatedReadyReplicas", "HPAReplicas")


class Controllers:
    """The controllers of one write."""

    def __init__(self, index: Index, changes: Changes, victim_order: VictimOrder) -> None:
        self._index = index
        self._changes = changes
        self._victim_order = victim_order

    def settle(self, entry: ManifestEntry, manifest: dict[str, Any], scale: WorkloadKind) -> dict[str, Any]:
        """Return `manifest`, the new one of `entry`, once its controllers are done; theirs go into the changes."""
        wanted = replicas_of(manifest, scale)
        sets = [] if entry.kind == "ReplicaSet" else self._index.owned_by(entry, _REPLICA_SET)
        for replica_set, share in self._shares(sets, wanted):
            self._scale(replica_set, share)
        pods = self._active(entry)
        chosen = _pods_to_delete(manifest)
        for victim in self._victims(entry, pods, wanted, chosen):
            self._changes.remove(victim)
        left = [pod for owner in (entry, *sets) for pod in self._active(owner)]
        unready = sum(not pod.ready for _, pod in left)
        return with_settled_status(_without_gone(manifest, chosen), scale, wanted, unready)

    def _scale(self, replica_set: ManifestEntry, share: int) -> None:
        """A ReplicaSet of a Deployment gets its share."""
        old = self._changes.value_of(replica_set)
        scale = self._index.scales[_REPLICA_SET]
        new = with_generation(put_at(old, _REPLICAS, share), old)
        self._changes.put(replica_set, self.settle(replica_set, new, scale))

    def _shares(self, sets: Sequence[ManifestEntry], wanted: int) -> list[tuple[ManifestEntry, int]]:
        """Whose replicas change to what: the only active ReplicaSet follows; of several the oldest shrinks first.

        Where none is active the newest gets all.
        """
        scale = self._index.scales[_REPLICA_SET]
        have = {id(one): replicas_of(self._changes.value_of(one), scale) for one in sets}
        by_age = sorted(sets, key=self._age)
        active = [one for one in by_age if have[id(one)] or self._active(one)] or by_age[-1:]
        more = wanted - sum(have[id(one)] for one in active)
        shares = {id(one): have[id(one)] for one in active}
        if active and more > 0:
            shares[id(active[-1])] += more
        for one in active:
            less = min(shares[id(one)], max(0, -more))
            shares[id(one)] -= less
            more += less
        return [(one, shares[id(one)]) for one in active if shares[id(one)] != have[id(one)] or len(active) == 1]

    def _age(self, entry: ManifestEntry) -> tuple[int, int, str]:
        metadata = entry.decoded.metadata
        revision = (metadata.annotations or {}).get(_REVISION, "")
        return (
            whole_number_in(revision) or 0,
            metadata.creation_timestamp or Instant(0),
            entry.key.name,
        )

    def _active(self, owner: ManifestEntry) -> list[tuple[ManifestEntry, Pod]]:
        """The pods that count: neither finished nor going, and not among those these changes remove."""
        pods = [(entry, self._index.model_object(PODS, entry)) for entry in self._index.owned_by(owner, _POD)]
        return [
            (entry, pod)
            for entry, pod in pods
            if pod.phase not in ("Succeeded", "Failed")
            and not pod.terminating
            and self._changes.changed.get(id(entry), (entry, None))[1] is not REMOVED
        ]

    def _victims(
        self, entry: ManifestEntry, pods: Sequence[tuple[ManifestEntry, Pod]], wanted: int, chosen: Sequence[str]
    ) -> list[ManifestEntry]:
        if entry.kind == "StatefulSet":
            return [one for one, pod in pods if _ordinal(pod.name) >= _first_ordinal(entry, self._changes) + wanted]
        first = [one for one, pod in pods if pod.name in chosen]
        rest = [pod for _, pod in pods if pod.name not in chosen]
        by_name = {pod.name: one for one, pod in pods}
        count = len(rest) - wanted
        if count <= 0:
            return first
        return first + [by_name[pod.name] for pod in self._victim_order(rest, count, bool(owner_references(entry)))]


def settle_endpoints(index: Index, changes: Changes) -> None:
    """Take every pod that `changes` remove out of the EndpointSlices and Endpoints that name it."""
    gone = [
        entry for entry, value in changes.changed.values() if value is REMOVED and (entry.group, entry.kind) == _POD
    ]
    for pod in gone:
        for entry in index.naming(pod):
            value = changes.value_of(entry)
            if value is not REMOVED:
                changes.put(entry, _without_pod(value, pod, index.uid_of(pod)))


def _without_pod(manifest: dict[str, Any], pod: ManifestEntry, uid: str) -> dict[str, Any]:
    """Return an EndpointSlice or Endpoints without `pod`; a subset without addresses goes as well."""

    def left(addresses: Sequence[Any] | None) -> list[Any]:
        return [one for one in addresses or () if not _is_pod(one.get("targetRef"), pod, uid)]

    if "endpoints" in manifest:
        return {**manifest, "endpoints": left(manifest["endpoints"])}
    subsets = []
    for subset in manifest.get("subsets") or ():
        kept = {name: left(subset[name]) for name in _ADDRESSES if name in subset}
        if any(kept.values()):
            others = {name: value for name, value in subset.items() if name not in _ADDRESSES}
            subsets.append({name: value for name, value in kept.items() if value} | others)
    without = {name: value for name, value in manifest.items() if name != "subsets"}
    return {**without, "subsets": subsets} if subsets else without


def _is_pod(target: Any, pod: ManifestEntry, uid: str) -> bool:
    """Return whether `target`, of an endpoint, is `pod`: one with another uid is an older pod of that name."""
    return (
        isinstance(target, dict)
        and (target.get("kind"), target.get("name")) == ("Pod", pod.key.name)
        and target.get("namespace") in (None, "", pod.key.namespace)
        and target.get("uid") in (None, "", uid)
    )


def replicas_of(manifest: dict[str, Any], scale: WorkloadKind) -> int:
    """Return the replicas a manifest asks for; 1 where it says nothing."""
    found = count_at(manifest, scale.replicas_path)
    return 1 if found is None else found


def with_settled_status(manifest: dict[str, Any], scale: WorkloadKind, wanted: int, unready: int) -> dict[str, Any]:
    """Return `manifest` with a status that says `wanted` replicas are there, all but `unready` ready and available.

    A manifest without status is settled as it is.
    """
    status = manifest.get("status")
    if not isinstance(status, dict) or not status:
        return manifest
    ready = max(0, wanted - unready)
    recorded = [name for name in _FOLLOWS_WHERE_RECORDED if name in status]
    numbers = dict.fromkeys((*workload_kind(scale.kind).follow, *recorded), wanted) | dict.fromkeys(
        _FOLLOWS_ALWAYS, ready
    )
    kept = {key: value for key, value in status.items() if key != "unavailableReplicas"}
    missing = {"unavailableReplicas": wanted - ready} if scale.kind == "Deployment" and wanted > ready else {}
    settled = put_at({**manifest, "status": {**kept, **numbers, **missing}}, scale.status_path, wanted)
    generation = manifest["metadata"].get("generation")
    if isinstance(generation, int) and not isinstance(status.get("observedGeneration"), str):
        settled["status"]["observedGeneration"] = generation
    return settled


def _pods_to_delete(manifest: dict[str, Any]) -> tuple[str, ...]:
    """Return the pods that a CloneSet deletes first."""
    spec = manifest.get("spec")
    strategy = spec.get("scaleStrategy") if isinstance(spec, dict) else None
    chosen = strategy.get("podsToDelete") if isinstance(strategy, dict) else None
    return tuple(map(str, chosen)) if isinstance(chosen, list) else ()


def _without_gone(manifest: dict[str, Any], chosen: Sequence[str]) -> dict[str, Any]:
    """CloneSet clears `podsToDelete` once they are gone. Source: openkruise.io, CloneSet, Selective Pod deletion."""
    if not chosen:
        return manifest
    strategy = {key: value for key, value in manifest["spec"]["scaleStrategy"].items() if key != "podsToDelete"}
    spec = {key: value for key, value in manifest["spec"].items() if key != "scaleStrategy"}
    return {**manifest, "spec": {**spec, "scaleStrategy": strategy} if strategy else spec}


def _ordinal(name: str) -> int:
    """Return the number at the end of a StatefulSet pod's name, -1 where there is none."""
    number = whole_number_in(name.rpartition("-")[2])
    return -1 if number is None else number


def _first_ordinal(entry: ManifestEntry, changes: Changes) -> int:
    """Source: apps/v1 StatefulSetSpec, ordinals.start."""
    return count_at(changes.value_of(entry), ("spec", "ordinals", "start")) or 0
